import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";

export const CUT_OFF_SECONDS = 60;
const TIME = "/usr/bin/time";

/** Runs a whole command and waits for it. Contract: always returns; `problem` has the error. */
export async function run({ file, args, cwd, env, input }) {
  // Blocks while the child runs, so that this process adds nothing to the measured time. Signals are handled in between.
  await setImmediate();
  const start = process.hrtime.bigint();
  const done = spawnSync(file, args, {
    cwd,
    env,
    timeout: CUT_OFF_SECONDS * 1000,
    killSignal: "SIGKILL",
    maxBuffer: 2 ** 28,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    ...(input === undefined ? {} : { input }),
  });
  const ms = Number(process.hrtime.bigint() - start) / 1e6;
  return { ms, output: String(done.stdout ?? ""), problem: problemOf(done) };
}

/** Measures the peak memory of a command in MB, in a separate run, because the wrapper would add to the time. */
export async function peakMemory(command, folder) {
  const file = join(folder, "peak");
  if (existsSync(TIME)) {
    await run({ ...command, file: TIME, args: ["-f", "%M", "-o", file, command.file, ...command.args] });
  } else {
    const hook = pathToFileURL(join(import.meta.dirname, "peak.mjs")).href;
    const env = { ...command.env, BENCH_PEAK_FILE: file };
    await run({ ...command, args: ["--import", hook, ...command.args], env });
  }
  return Number(readFileSync(file, "utf8").trim().split("\n").at(-1)) / 1024;
}

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function problemOf({ error, status, signal, stderr }) {
  if (error?.code === "ETIMEDOUT") return `cut off after ${CUT_OFF_SECONDS} s`;
  if (error) return error.message;
  if (status === 0) return undefined;
  const said = String(stderr)
    .split("\n")
    .find((line) => /\S/.test(line) && !/^\s*(at |file:|node:)/.test(line));
  return `ended with ${signal ?? `exit code ${status}`}${said ? `: ${said.trim()}` : ""}`;
}
