import { fork } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect } from "vitest";
import { WITH_BUILT } from "./program.ts";

const root = join(import.meta.dirname, "../..");

/**
 * Counts the steps of some work for each input: how often functions and blocks of JavaScript run, by V8's coverage. The counts are the
 * same every time, also on a busy machine. What V8 does inside a built-in function (a regular expression, `indexOf`) is one step: repeat
 * that often enough for the time-out of the test to be reached when it is not linear.
 *
 * `work` runs in its own process: it uses nothing but its parameters. The first holds the exports of `modules`, paths from the project's
 * root; the second is an input, which is cloned.
 */
export async function countSteps<Exports, Input>(
  modules: readonly string[],
  work: (exports: Exports, input: Input) => unknown,
  inputs: readonly Input[],
): Promise<number[]> {
  const child = fork(join(import.meta.dirname, "steps-process.mjs"), {
    execArgv: ["--no-opt", "--no-maglev", "--no-warnings", ...WITH_BUILT],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  try {
    return await new Promise<number[]>((resolve, reject) => {
      child.once("message", (counts) => resolve(counts as number[])).once("error", reject);
      child.once("exit", (code, signal) => reject(new Error(`counting steps ended with ${signal ?? code}`)));
      child.send({ modules: modules.map((path) => pathToFileURL(join(root, path)).href), work: String(work), inputs });
    });
  } finally {
    child.kill("SIGKILL");
  }
}

/**
 * Counts the steps for rows of inputs, each of which is twice as long as the one before. Fails when a row is not linear. Returns the
 * counts of each row.
 */
export async function expectLinearSteps<Exports, Input>(
  modules: readonly string[],
  work: (exports: Exports, input: Input) => unknown,
  rows: readonly (readonly [title: string, inputs: readonly Input[]])[],
): Promise<number[][]> {
  const counts = await countSteps(
    modules,
    work,
    rows.flatMap(([, inputs]) => inputs),
  );
  return rows.map(([title, { length }]) => {
    const own = counts.splice(0, length);
    expectLinear(own, title);
    return own;
  });
}

/** Fails when steps grow faster than the inputs, each of which is twice as long as the one before. What every input costs does not count. */
function expectLinear(counts: readonly number[], title: string): void {
  const grown = counts.slice(1).map((count, index) => count - (counts[index] ?? 0));
  // Twice as much is linear, four times as much is quadratic.
  for (const [index, more] of grown.slice(1).entries()) {
    expect(more, `steps for ${title}: ${counts.join(", ")}`).toBeLessThan(3 * Math.max(NEGLIGIBLE, grown[index] ?? 0));
  }
}

/** Steps that do not matter, whatever they grow with. */
const NEGLIGIBLE = 100;

/**
 * Runs work so often that the deadline is reached when a built-in function in it takes more than a time that grows with its input: what
 * is linear needs a hundredth of it, on a busy machine too. For work with countable steps, count these.
 */
export function runOften(times: number, work: () => unknown): void {
  const deadline = performance.now() + DEADLINE_MS;
  for (let time = 1; time <= times; time++) {
    work();
    if (performance.now() > deadline)
      throw new Error(`run ${time} times in ${DEADLINE_MS / 1000} s, not ${times} times`);
  }
}

/** Only turns a hang into a failure. */
const DEADLINE_MS = 45_000;
