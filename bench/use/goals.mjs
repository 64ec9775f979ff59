const TIMES_START = 2;
const STEP_MS = 5;
/** Maximum growth per step in addition to its messages. If no code iterates the events, the last 10,000 are kept. */
const GROWN_KB = { "events iterated": 1, "events not iterated": 2 };

export function judge({ starts, steps, memory }) {
  return [start(starts), step(steps), ...memory.map(flat)];
}

function start(rows) {
  const at = (name) => rows.find((row) => row.name === name);
  // The first already includes the start of Node.
  const most = (key) => TIMES_START * (at("skillet --version")[key] + at("import both")[key] - at("node -e 0")[key]);
  const own = at("skillet run, first request");
  return {
    text: `skillet run asks its model in less than ${TIMES_START} × (--version + importing the AI SDK and the provider)`,
    measured: `${own.ms.toFixed(0)} of ${most("ms").toFixed(0)} ms (shortest times ${own.least.toFixed(0)} of ${most("least").toFixed(0)})`,
    isMet: own.ms < most("ms"),
  };
}

function step({ count, rows }) {
  const [own, bare] = ["skillet", "streamText"].map((name) => rows.find((row) => row.name === name));
  const more = own.ms - bare.ms;
  return {
    text: `a step of ${count} takes less than ${STEP_MS} ms in addition to its model`,
    measured: `${more.toFixed(2)} ms (shortest times ${(own.least - bare.least).toFixed(2)})`,
    isMet: more < STEP_MS,
  };
}

/** Judges the last two marks: before them V8 still compiles hot functions. */
function flat({ name, rows }) {
  const [first, last] = rows.slice(-2);
  const kilobytes = (key) => ((last[key] - first[key]) * 1024) / (last.step - first.step);
  const more = kilobytes("heap") - kilobytes("said");
  const most = GROWN_KB[name];
  return {
    text: `${name}: from step ${first.step} to ${last.step}, one adds at most ${most} KB in addition to its messages`,
    measured: `${more.toFixed(2)} KB, of ${kilobytes("heap").toFixed(2)} in all`,
    isMet: more <= most,
  };
}
