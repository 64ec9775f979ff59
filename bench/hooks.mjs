import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { ADVICE_QUERIES, ADVICE_SKILLS, ADVICE_UNRELATED, adviceSkillFiles } from "../test/agent/advice-set.ts";
import { CLOCK_TICK, environment } from "./contenders.mjs";
import { initializing, skillet, startServer } from "./mcp/server.mjs";
import { median, run } from "./measure.mjs";
import { withPlace } from "./place.mjs";

const TIMES_A_RUN = 3;

/** Measures the time that a prompt hook adds: a new process, compared with `node -e 0` in the same rounds, and a running server. */
export async function hooks({ runs, say }) {
  if (!existsSync(join(import.meta.dirname, "..", "dist", "cli", "bin.cjs")))
    throw new Error("skillet is not built\n  run: npm run build");
  const [load] = loadavg();
  return withPlace(async (place) => {
    const home = makeHome(place);
    await setTimeout(CLOCK_TICK);
    return {
      load,
      skills: Object.keys(ADVICE_SKILLS).length,
      cold: await cold(home, runs, say),
      warm: await warm(home, runs, say),
    };
  });
}

function makeHome(place) {
  const home = join(place, "home");
  for (const [path, text] of Object.entries(adviceSkillFiles("skills"))) {
    mkdirSync(dirname(join(home, path)), { recursive: true });
    writeFileSync(join(home, path), text);
  }
  const [cwd, none] = [join(place, "work"), join(place, "none")];
  for (const folder of [cwd, none]) mkdirSync(folder, { recursive: true });
  return { cwd, env: { ...environment(place), SKILLET_HOME: home, SKILLS_DIR: none } };
}

async function cold({ cwd, env }, runs, say) {
  let conversation = 0;
  const asking = (prompt) => () =>
    run({
      file: process.execPath,
      args: [skillet, "hook", "claude"],
      cwd,
      env,
      input: JSON.stringify({ prompt, cwd, session_id: `s${++conversation}` }),
    });
  const rows = [
    { name: "node -e 0", start: () => run({ file: process.execPath, args: ["-e", "0"], cwd, env }) },
    { name: "hook, nothing", start: asking(ADVICE_UNRELATED[0]) },
    { name: "hook, shortlist", start: asking(ADVICE_QUERIES[4].query) },
    { name: "hook, instructions", start: asking(ADVICE_QUERIES[0].query) },
  ].map((row) => ({ ...row, times: [] }));
  for (let round = -1; round < runs * TIMES_A_RUN; round++) {
    say(`hooks: ${round < 0 ? "warming up" : `round ${round + 1} of ${runs * TIMES_A_RUN}`}`);
    for (const row of rows) {
      const { ms, problem } = await row.start();
      if (problem) throw new Error(`${row.name} ${problem}`);
      if (round >= 0) row.times.push(ms);
    }
  }
  return rows.map(rowOf);
}

async function warm(home, runs, say) {
  say("hooks: the advise tool");
  const server = startServer({ args: [skillet, "serve"], ...home });
  await server.ask("initialize", initializing());
  server.tell("notifications/initialized");
  const timed = async (prompt, at) => {
    const start = process.hrtime.bigint();
    await server.ask("tools/call", { name: "advise", arguments: { prompt, session_id: `s${at}` } });
    return Number(process.hrtime.bigint() - start) / 1e6;
  };
  const first = await timed(ADVICE_QUERIES[4].query, "first");
  const times = [];
  const prompts = [...ADVICE_QUERIES.map(({ query }) => query), ...ADVICE_UNRELATED];
  for (let round = 0; round < runs; round++)
    for (const prompt of prompts) times.push(await timed(prompt, `${round} ${times.length}`));
  await server.stop();
  return [rowOf({ name: "advise, first call", times: [first] }), rowOf({ name: "advise", times })];
}

function rowOf({ name, times }) {
  const sorted = times.toSorted((a, b) => a - b);
  return { name, ms: median(times), p95: sorted[Math.floor(sorted.length * 0.95)] ?? sorted.at(-1), least: sorted[0] };
}
