import { spawn } from "node:child_process";
import { setTimeout as wait } from "node:timers/promises";

const SECONDS = 120;

/** Runs a program in its own process group. The group ends with the program, unless the caller keeps it and ends it. */
export async function runProgram([file, ...args], { cwd, env, seconds = SECONDS, isGroupKept = false }) {
  let printed = "";
  const child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      printed += text;
    });
  const { promise, resolve } = Promise.withResolvers();
  child.on("error", (error) => resolve({ how: error.message }));
  child.on("exit", (code, signal) => resolve({ code, how: `it ended with ${code ?? signal}` }));
  const stop = () => {
    endProcess(-child.pid);
    process.exit(130);
  };
  process.once("SIGINT", stop);
  const isLate = await Promise.race([promise.then(() => false), wait(seconds * 1000, true, { ref: false })]);
  if (isLate) endProcess(-child.pid);
  const { code, how } = await promise;
  process.off("SIGINT", stop);
  // Child processes of the client may outlive it.
  if (child.pid !== undefined && !isGroupKept) endProcess(-child.pid);
  const problem = isLate ? `it was ended after ${seconds} seconds` : code === 0 ? undefined : how;
  return { printed, problem, group: child.pid };
}

/** Contract: returns whether there was a process to end. */
export function endProcess(id, signal = "SIGKILL") {
  try {
    return process.kill(id, signal);
  } catch {
    return false;
  }
}
