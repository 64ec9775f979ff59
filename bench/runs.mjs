import { closeSync, fdatasyncSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { TOOLSET } from "./mcp/home.mjs";
import { withPlace } from "./place.mjs";
import { parts } from "./sandbox/library.mjs";
import { inTurn } from "./sandbox/rounds.mjs";

const STEPS = 1000;
const RUNS = 1000;
const SKILL = `---
name: hello
description: Says hello. For measuring what a run costs.
max_iterations: 2000
toolsets: ["toolsets/index:Tools"]
---
Say hello.
`;
const EVENT = { type: "text-generated", run: "steps", skill: "hello", text: "x".repeat(100), at: "" };
const VALUE = { text: "x".repeat(1000), calls: [], usage: { inputTokens: 1, outputTokens: 1, cachedTokens: 0 } };

/** Measures recording runs in the journal, resuming them, their statistics, and calls of toolsets. */
export async function runs({ runs: rounds, say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const library = await parts(
      "config/discover.js",
      "store/runs.js",
      "store/statistics.js",
      "agent/run/use-skill.js",
      "agent/run/resume-run.js",
      "agent/tools/tool-output.js",
      "agent/toolsets/open-toolsets.js",
      "util/redact.js",
      "skill/tool.js",
      "skill/source/skill-copy.js",
    );
    const given = { place, library, rounds, say };
    const rows = [...(await steps(given)), ...(await calls(given)), ...(await others(given))];
    return { load, rows };
  });
}

/** Measures steps in the journal, compared with writing the same bytes to disk. */
async function steps({ place, library, rounds, say }) {
  say(`steps: ${rounds} rounds of 200`);
  const journal = await library.createRunStore(join(place, "steps")).create(newRun("steps"));
  const plain = openSync(join(place, "plain"), "a");
  const line = `${JSON.stringify({ type: "step", name: "model:1", value: VALUE })}\n`;
  let number = 0;
  const each = (work) => async () => {
    const start = performance.now();
    for (let count = 0; count < 200; count++) await work();
    return (performance.now() - start) / 200;
  };
  const rows = await inTurn(
    [
      { name: "a step in the journal", sample: each(() => journal.step(`model:${++number}`, VALUE)) },
      { name: "an event in the journal", sample: each(() => journal.event(EVENT)) },
      {
        name: "the same bytes, synced",
        sample: each(() => {
          writeSync(plain, line);
          fdatasyncSync(plain);
        }),
      },
    ],
    rounds,
  );
  await journal.close();
  closeSync(plain);
  return rows;
}

async function calls({ place, library, rounds, say }) {
  say(`calls: ${rounds} rounds of 200`);
  const found = await home(place, library, "calls");
  const skill = found.catalog.get("hello");
  const redactor = library.createRedactor(new Map());
  const opened = await library.openToolsets(found, { skill, copy: await library.copySkill(skill), redactor });
  if (opened.problems.length > 0) throw new Error(opened.problems[0].message);
  const direct = library.wrapHostTool(
    library.Tool.define("echo", {
      description: "Returns its input.",
      parameters: { type: "object", properties: { input: { type: "string" } } },
      execute: async ({ input }) => ({ output: input }),
    }),
    12_000,
    redactor,
  );
  const each = (tool) => async () => {
    const start = performance.now();
    for (let count = 0; count < 200; count++) {
      const { isError, text } = await tool.execute({ input: "hello" });
      if (isError) throw new Error(text);
    }
    return (performance.now() - start) / 200;
  };
  const rows = await inTurn(
    [
      { name: "a call of a toolset", sample: each(opened.tools[0]) },
      { name: "the same function, called directly", sample: each(direct) },
    ],
    rounds,
  );
  opened.close();
  return rows;
}

async function others({ place, library, rounds, say }) {
  say(`resuming after ${STEPS} steps, recording statistics, listing ${RUNS} runs: ${rounds} rounds`);
  const statistics = library.createStatisticsStore(join(place, "statistics"));
  const listed = library.createRunStore(join(place, "listed"));
  for (let number = 0; number < RUNS; number++) {
    const journal = await listed.create(newRun(`run-${String(number).padStart(4, "0")}`));
    await journal.step("model:1", VALUE);
    const tail = { stop: "answer", isError: false, iterations: 1, ms: 1, usage: VALUE.usage };
    await journal.end({ content: "done" }, tail);
    await journal.close();
  }
  let counted = 0;
  return inTurn(
    [
      { name: `resuming after ${STEPS} steps`, sample: await resuming(place, library) },
      { name: "recording a run's statistics", sample: async () => timed(() => count(statistics, ++counted)) },
      { name: `listing ${RUNS} runs`, sample: async () => timed(() => listed.list()) },
    ],
    rounds,
  );
}

/** Creates a run whose model failed at the last of its steps, and measures the time until a resumed run calls the model again. */
async function resuming(place, library) {
  const found = await home(place, library, "resuming");
  const isThere = false;
  let asked = 0;
  const usage = VALUE.usage;
  const model = {
    name: "instant",
    async respond({ messages }) {
      asked = performance.now();
      const made = messages.filter(({ role }) => role === "tool").length;
      if (made < STEPS / 2) {
        return { text: "", calls: [{ id: `c${made}`, tool: "nothing", input: {} }], usage, finish: "calls" };
      }
      if (!isThere) throw new Error("not now");
      return { text: "done", calls: [], usage, finish: "stop" };
    },
  };
  const nothing = library.Tool.define("nothing", {
    description: "Does nothing.",
    parameters: { type: "object" },
    execute: async () => "x".repeat(500),
  });
  const host = { ...found, tools: [nothing], models: { default: model }, hasBuiltInTools: false };
  const { run } = await library.useSkill(found.catalog, host, { skill: "hello" });
  return async () => {
    const start = performance.now();
    const { stop, iterations } = await library.resumeRun(found.catalog, host, run);
    if (stop !== "error" || iterations !== STEPS / 2) throw new Error(`it ended with ${stop} after ${iterations}`);
    return asked - start;
  };
}

function count(statistics, number) {
  const about = { run: `r${number}`, skill: "hello", at: new Date().toISOString() };
  const run = { source: "bench", model: "instant", tools: [], depth: 1, limits: { iterations: 1, seconds: 1 } };
  statistics.record({ type: "run-started", ...about, ...run });
  const ended = { stop: "answer", isError: false, iterations: 1, ms: 1, usage: VALUE.usage };
  statistics.record({ type: "run-ended", ...about, ...ended });
}

function timed(work) {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function newRun(id) {
  return { head: { id, kind: "use", skill: "hello", task: "" }, request: { skill: "hello" } };
}

function home(place, library, name) {
  const folder = join(place, name, "skills", "hello");
  mkdirSync(join(folder, "toolsets"), { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), name === "calls" ? SKILL : SKILL.replace(/toolsets:.*\n/, ""));
  writeFileSync(join(folder, "toolsets", "index.ts"), TOOLSET);
  const limits = "[limits]\nmax_iterations = 100000\niteration_cap = 100000\n";
  writeFileSync(join(place, name, "config.toml"), limits, { mode: 0o600 });
  return library.discover({ workspace: place, home: place, env: { SKILLET_HOME: join(place, name), HOME: place } });
}
