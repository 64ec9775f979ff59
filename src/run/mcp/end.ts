/** Programs that end when we do, and how: those that were asked before are not asked again. */
const RUNNING = new Map<number, "SIGTERM" | "SIGKILL">();
let isWatching = false;

/** Gives what is to be called when it has ended. */
export function endsWithUs(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.once("exit", endAll);
  isWatching = true;
  RUNNING.set(pid, "SIGTERM");
  return () => RUNNING.delete(pid);
}

export function endNow(pid: number | undefined): void {
  if (pid === undefined || !RUNNING.has(pid)) return;
  kill(pid, "SIGTERM");
  RUNNING.set(pid, "SIGKILL");
}

function endAll(): void {
  for (const [pid, signal] of RUNNING) kill(pid, signal);
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}
