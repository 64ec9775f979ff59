import { readFileSync } from "node:fs";
import { setImmediate, setTimeout } from "node:timers/promises";

/** A file system with many files in it is taken down by the last process that sees it, as part of that process' end. */
const LONGEST_WAIT_MS = 30_000;
const SHORT_MS = 2;

/**
 * Returns what ends a process and resolves when it is gone. Contract: the process is there when this is called; the first of a namespace
 * of processes is gone after all others of it.
 */
export function endOfProcess(pid: number): () => Promise<void> {
  const begun = lookAt(pid)?.begun;
  const isThere = () => {
    const now = lookAt(pid);
    // Its number may be another one's by now. Nobody may have asked a zombie for its exit code, where the first process of a container does not.
    return now !== undefined && now.begun === begun && now.state !== "Z" && now.state !== "X";
  };
  return async () => {
    const start = performance.now();
    const waited = () => performance.now() - start;
    for (let tries = 0; isThere() && waited() < LONGEST_WAIT_MS; tries++) {
      if (tries === 0) end(pid);
      // Mostly it takes less than the shortest time that a timer knows.
      if (waited() < SHORT_MS) await setImmediate();
      else await setTimeout(waited() < 100 ? 1 : 10);
    }
  };
}

function end(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

function lookAt(pid: number): { state: string; begun: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Its name, in brackets, may have anything in it.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", begun: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}
