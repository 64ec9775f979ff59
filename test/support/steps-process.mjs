// Started by `countSteps`, in a process without optimized code, which skips some of the counters.
import { Session } from "node:inspector";

const session = new Session();
session.connect();

function ask(method, params) {
  let answer;
  session.post(method, params, (error, found) => {
    if (error) throw new Error(error.message);
    answer = found;
  });
  return answer;
}

function takeCount() {
  let count = 0;
  for (const { functions } of ask("Profiler.takePreciseCoverage").result) {
    for (const { ranges } of functions) for (const range of ranges) count += range.count;
  }
  return count;
}

ask("Profiler.enable");
// Only what is compiled after this has its blocks counted.
ask("Profiler.startPreciseCoverage", { callCount: true, detailed: true });

process.once("message", async ({ modules, work: source, inputs }) => {
  const exports = Object.assign({}, ...(await Promise.all(modules.map((url) => import(url)))));
  // biome-ignore lint/security/noGlobalEval: a function of the test that asks.
  const work = eval(source);
  const counts = [];
  // The first input runs once before counting, so that one-time initialization is not counted.
  for (const input of [inputs[0], ...inputs]) {
    takeCount();
    await work(exports, input);
    counts.push(takeCount());
  }
  process.send(counts.slice(1), () => process.disconnect());
});
