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
export const START_WATCH = `{ read -r started <&${START_WATCH_FD} || kill -9 0; } > /dev/null 2>&1 3<&- 4<&- 5<&- 6<&- & exec ${START_WATCH_FD}<&-`;

/** Ends the start watch. Contract: the sandbox's first process ends with bubblewrap by now. */
export function endStartWatch(child: ChildProcess): void {
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
  own ??= countFilters("self") ?? 0;
  const count = countFilters(pid);
  return count === undefined || count > own; // Gone: it needs no ties.
}

// Every process has the filters of the one that started it.
let own: number | undefined;

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
