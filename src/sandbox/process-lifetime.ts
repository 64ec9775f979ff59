import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Writable } from "node:stream";
import { setImmediate, setTimeout } from "node:timers/promises";

/** The descriptor that tells the start watch whether the host is alive. */
const START_WATCH_FD = 7;

/**
 * Shell text that starts a process which ends the start of a sandbox when the host dies: it kills the process group when descriptor 7 is
 * closed, and exits when it reads a line from it. Bubblewrap's inner process waits for its outer one before the kernel ties it to that one's
 * end: if the outer one is killed then, nothing else would end the inner one. It has not left the group yet.
 */
export const START_WATCH_SCRIPT = `{ read -r started <&${START_WATCH_FD} || kill -9 0; } > /dev/null 2>&1 3<&- 4<&- 5<&- 6<&- & exec ${START_WATCH_FD}<&-`;

/** Ends the start watch. Contract: the sandbox's first process ends with bubblewrap by now. */
export function stopStartWatch(child: ChildProcess): void {
  const stdio: readonly unknown[] = child.stdio;
  (stdio[START_WATCH_FD] as Writable | undefined)?.end("started\n");
}

/**
 * Resolves when the first process of a sandbox ends with its parent; with false if bubblewrap ended before. Bubblewrap installs the filter of
 * system calls in that process right after it has asked the kernel to end it with its parent.
 */
export async function waitUntilTied(first: () => number | undefined, child: ChildProcess): Promise<boolean> {
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  for (let tries = 0; !isOver() && !isTied(first()); tries++) await (tries < 100 ? setImmediate() : setTimeout(1));
  return !isOver();
}

function isTied(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  ownFilterCount ??= countFilters("self") ?? 0;
  const count = countFilters(pid);
  return count === undefined || count > ownFilterCount; // Gone: it needs no ties.
}

// Every process has the filters of the one that started it.
let ownFilterCount: number | undefined;

/** Counts the filters of system calls of a process. Undefined if it is gone. */
function countFilters(pid: number | "self"): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const count = /^Seccomp_filters:\s*(\d+)/m.exec(status)?.[1];
    if (count !== undefined) return Number(count);
    return pid !== "self" && /^Seccomp:\s*2/m.test(status) ? 1 : 0; // Linux before 5.10 does not count them.
  } catch {
    return undefined;
  }
}

/** A file system with many files in it is taken down by the last process that sees it, as part of that process' end. */
const END_TIMEOUT_MS = 30_000;
const POLL_MS = 2;

/**
 * Returns what ends a process and resolves when it is gone. Contract: the process is there when this is called; the first of a namespace
 * of processes is gone after all others of it.
 */
export function createProcessEnder(pid: number): () => Promise<void> {
  const begun = readProcessState(pid)?.begun;
  const isThere = () => {
    const now = readProcessState(pid);
    // Its number may be another one's by now. Nobody may have asked a zombie for its exit code, where the first process of a container does not.
    return now !== undefined && now.begun === begun && now.state !== "Z" && now.state !== "X";
  };
  return async () => {
    const start = performance.now();
    const waited = () => performance.now() - start;
    for (let tries = 0; isThere() && waited() < END_TIMEOUT_MS; tries++) {
      if (tries === 0) killPid(pid);
      // Mostly it takes less than the shortest time that a timer knows.
      if (waited() < POLL_MS) await setImmediate();
      else await setTimeout(waited() < 100 ? 1 : 10);
    }
  };
}

function killPid(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It is gone already.
  }
}

function readProcessState(pid: number): { state: string; begun: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // Its name, in brackets, may have anything in it.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", begun: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}
