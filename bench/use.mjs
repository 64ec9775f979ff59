import { chmodSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { withPlace } from "./place.mjs";
import { inTurn } from "./sandbox/rounds.mjs";
import { withWorker } from "./sandbox/workers.mjs";
import { makeHome } from "./use/home.mjs";
import { openModel } from "./use/model.mjs";
import { starts } from "./use/starts.mjs";

const SAMPLES_A_RUN = 3;
const STEPS = 200;
const MARKS = [100, 500, 1000];
const WAYS = ["skillet", "streamText", "fetch", "skillet, no HTTP"];

/** Measures the cost of using a skill without its model: the time to the first request, a step, and the memory of a long run. */
export async function use({ runs, before, say }) {
  const [load] = loadavg();
  const model = await openModel();
  try {
    return await withPlace(async (place) => {
      chmodSync(place, 0o755); // The user that runs the code needs access to this folder.
      const given = { place, model, runs, samples: runs * SAMPLES_A_RUN, before, say };
      return { load, starts: await starts(given), steps: await steps(given), memory: await memory(given) };
    });
  } finally {
    model.close();
  }
}

async function steps({ place, model, runs, say }) {
  say(`steps: ${runs} rounds of ${STEPS} steps`);
  const rows = await inWorker({ place, model, say }, (ask) => {
    const way = (name) => ({
      name,
      sample() {
        model.willCall(STEPS);
        return ask("steps", { way: name, count: STEPS, url: model.url });
      },
    });
    return inTurn(WAYS.map(way), runs);
  });
  return { count: STEPS, rows };
}

/** Measures two runs in separate processes: one whose events are iterated, and one whose events are not. */
async function memory({ place, model, say }) {
  const ways = [];
  for (const isIterated of [true, false]) {
    const name = isIterated ? "events iterated" : "events not iterated";
    say(`memory: ${MARKS.at(-1)} steps, ${name}`);
    model.willCall(MARKS.at(-1));
    const held = await inWorker({ place, model, say }, (ask) => ask("memory", { marks: MARKS, isIterated }));
    ways.push({ name, ...held });
  }
  return ways;
}

function inWorker({ place, model, say }, work) {
  const { cwd, env } = makeHome(place, "library", model.url);
  const file = join(import.meta.dirname, "use", "worker.mjs");
  return withWorker({ place, say, flags: ["--expose-gc"], file, cwd, env }, work);
}
