const TIMES_EMPTY = 1.3;
const LOAD_MS = 5;
const CLIENT_MB = 1;
/** Maximum growth per call or round, in KB. Before the compared marks, V8 still compiles hot functions. */
const GROWN_KB = { calls: 0.1, "rounds with a toolset": 1 };

export function judge({ starts, calls, clients, growth }) {
  return [start(starts), load(calls), ...clients.map(room), ...growth.map(flat)];
}

function start(rows) {
  const at = (name) => rows.find((row) => row.name === name);
  const [own, empty] = [at("skillet serve"), at("empty server, bundled")];
  const [middle, least] = [own.ms / empty.ms, own.least / empty.least];
  return {
    text: `tools/list is answered within ${TIMES_EMPTY} × the time of an empty server, bundled`,
    measured: `${middle.toFixed(2)} × (shortest times ${least.toFixed(2)} ×)`,
    isMet: middle <= TIMES_EMPTY,
  };
}

function load(rows) {
  const { ms, p95 } = rows.find(({ name }) => name === "load_skill");
  return {
    text: `load_skill takes less than ${LOAD_MS} ms, the slowest of twenty too`,
    measured: `${ms.toFixed(2)} ms, ${p95.toFixed(2)}`,
    isMet: p95 < LOAD_MS,
  };
}

function room({ name, count, rss, heap }) {
  return {
    text: `${count} clients with ${name} each: at most ${CLIENT_MB} MB a client`,
    measured: `${rss.toFixed(2)} MB of the process, ${heap.toFixed(2)} of V8's heap`,
    isMet: Math.max(rss, heap) <= CLIENT_MB, // A process with free memory need not grow.
  };
}

function flat({ name, rows }) {
  const [first, last] = rows.slice(-2);
  const kilobytes = (key) => ((last[key] - first[key]) * 1024) / (last.count - first.count);
  const most = GROWN_KB[name];
  return {
    text: `${name}, from ${first.count} to ${last.count}: one leaves at most ${most} KB in V8's heap`,
    measured: `${kilobytes("heap").toFixed(3)} KB, ${kilobytes("rss").toFixed(2)} of the process`,
    isMet: kilobytes("heap") <= most,
  };
}
