import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import type { Writable } from "node:stream";
import { setImmediate, setTimeout } from "node:timers/promises";

/** The descriptor that tells the start watch whether the host is alive. */
const START_WATCH_FD = 7;

/**
 * Shell text that starts a watch process, which ends the start of a sandbox if the host dies. It kills the process
 * group when descriptor 7 is closed, and exits when it reads a line from it. Bubblewrap's inner process waits for its
 * outer one before the kernel ties their ends together. If the outer one is killed before that, nothing else would end
 * the inner one, which is still in the group.
 */
export const START_WATCH_SCRIPT = `{ read -r started <&${START_WATCH_FD} || kill -9 0; } > /dev/null 2>&1 3<&- 4<&- 5<&- 6<&- & exec ${START_WATCH_FD}<&-`;

/** Ends the start watch. Contract: the sandbox's first process now ends with bubblewrap. */
export function stopStartWatch(child: ChildProcess): void {
  const stdio: readonly unknown[] = child.stdio;
  (stdio[START_WATCH_FD] as Writable | undefined)?.end("started\n");
}

/**
 * Resolves with true when the first process of a sandbox is tied to its parent's end, and with false if bubblewrap
 * exited before. Bubblewrap installs the system call filter in that process right after it has asked the kernel for
 * this tie.
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
  return count === undefined || count > ownFilterCount; // Undefined: it has exited and needs no tie.
}

// A process inherits the filters of its parent.
let ownFilterCount: number | undefined;

/** Counts the system call filters of a process. Returns undefined if it has exited. */
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

/**
 * Generous: the last process that sees a file system removes its files when it exits, which can take long.
 */
const END_TIMEOUT_MS = 30_000;
const POLL_MS = 2;

/**
 * Returns a function that kills a process and resolves when it is gone. Contract: the process exists when this is
 * called; the first process of a PID namespace exits after all others in it.
 */
export function createProcessEnder(pid: number): () => Promise<void> {
  const begun = readProcessState(pid)?.begun;
  const isRunning = () => {
    const now = readProcessState(pid);
    // Its PID may have been reused. A zombie counts as gone: the first process of a container may never collect its
    // exit code.
    return now !== undefined && now.begun === begun && now.state !== "Z" && now.state !== "X";
  };
  return async () => {
    const start = performance.now();
    const waited = () => performance.now() - start;
    for (let tries = 0; isRunning() && waited() < END_TIMEOUT_MS; tries++) {
      if (tries === 0) killPid(pid);
      // Usually it takes less time than the shortest timer.
      if (waited() < POLL_MS) await setImmediate();
      else await setTimeout(waited() < 100 ? 1 : 10);
    }
  };
}

function killPid(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already exited.
  }
}

function readProcessState(pid: number): { state: string; begun: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The process name, in parentheses, may contain anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", begun: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}
