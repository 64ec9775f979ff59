// A process that uses the library as a host would, and runs the tasks of its parent: one message, one answer.
import { setTimeout } from "node:timers/promises";
import { parts } from "../sandbox/library.mjs";
import { SKILL } from "./home.mjs";
import { TOOL } from "./model.mjs";
import { replays } from "./replays.mjs";

const MEGABYTE = 2 ** 20;
/** Number of copies of the messages, which are made to measure their size. */
const COPIES = 10;
let opened;
let recorded;

const TASKS = {
  /** Returns milliseconds per step, from the end of the first step to the end of the last. */
  async steps({ way, count, url }) {
    if (way === "skillet") return perStep(await use({ count, isIterated: true }));
    if (way === "skillet, no HTTP") return perStep(await use({ count, isIterated: true, model: instant(count) }));
    recorded ??= await record(count);
    return perStep(await replays[way](recorded, url));
  },
  /** Returns V8's heap at some steps, after garbage collection, and the share of the messages. */
  async memory({ marks, isIterated }) {
    const rows = [];
    const onStep = async (step, messages) => {
      if (!marks.includes(step)) return;
      const heap = await held();
      const copies = Array.from({ length: COPIES }, () => structuredClone(messages));
      const said = ((await held()) - heap) / copies.length;
      rows.push({ step, heap, messages: messages.length, said, rss: process.memoryUsage().rss / MEGABYTE });
    };
    await use({ count: marks.at(-1), isIterated, onStep });
    return { rows, after: await held() };
  },
};

/** Runs a skill with this number of tool calls. Returns the end times of the steps, and the last request. */
async function use({ count, isIterated, model, onStep }) {
  opened ??= await open();
  const { discover, useSkill, resolveModel } = opened;
  const found = await discover();
  const inner = model ?? (await resolveModel(found, undefined)).model;
  const times = [];
  let last;
  let step = 0;
  const tool = {
    name: TOOL,
    description: "Does nothing.",
    category: "bench",
    inputSchema: { type: "object", properties: {} },
    async execute() {
      await onStep?.(++step, last.messages);
      return { text: "ok", isError: false };
    },
  };
  const host = {
    ...found,
    tools: [tool],
    models: {
      default: {
        name: inner.name,
        respond(request) {
          last = request;
          return inner.respond(request);
        },
      },
    },
    onEvent: ({ type }) => type === "step-ended" && times.push(performance.now()),
  };
  const run = useSkill(found.catalog, host, { skill: SKILL, message: "go" });
  if (isIterated) for await (const _ of run);
  const { stop, iterations, content } = await run;
  if (stop !== "answer" || iterations !== count + 1) throw new Error(`it ended with ${stop}: ${content}`);
  return { times, last };
}

async function open() {
  return parts("config/discover.js", "agent/run/use-skill.js", "agent/models/resolve-model.js");
}

/** Records the requests of a run, for the replays. */
async function record(count) {
  const { last } = await use({ count, isIterated: true });
  return { ...last, messages: [...last.messages], count };
}

/** Returns a model without a server, to measure the time of skillet alone. */
function instant(count) {
  let left = count;
  const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
  return {
    name: "instant",
    async respond() {
      const calls = left-- > 0 ? [{ id: `call_${left}`, tool: TOOL, input: {} }] : [];
      return { text: calls.length > 0 ? "" : "done", calls, usage, finish: calls.length > 0 ? "calls" : "stop" };
    },
  };
}

function perStep({ times }) {
  return (times.at(-1) - times[0]) / (times.length - 1);
}

async function held() {
  for (let turn = 0; turn < 5; turn++) {
    await setTimeout(20);
    globalThis.gc();
  }
  return process.memoryUsage().heapUsed / MEGABYTE;
}

process.on("message", async ({ task, ...given }) => {
  try {
    process.send({ answer: await TASKS[task](given) });
  } catch ({ message, fix, code }) {
    process.send({ problem: fix ? `${message}\n  ${fix}` : message, code });
  }
});
process.on("disconnect", () => process.exit());
