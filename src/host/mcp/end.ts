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

/** Tells it to, and ends it when it does not. */
export async function endNow(pid: number | undefined): Promise<void> {
  if (pid === undefined || !RUNNING.has(pid)) return;
  kill(pid, "SIGTERM");
  RUNNING.set(pid, "SIGKILL");
  for (let waited = 0; waited < PATIENCE_MS && RUNNING.has(pid); waited += LOOK_MS) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  if (RUNNING.has(pid)) kill(pid, "SIGKILL");
}

const PATIENCE_MS = 500;
const LOOK_MS = 20;

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

const CLOSERS = new Set<() => Promise<void>>();

/** Says how servers are closed, where any may have been started. */
export function onClosing(close: () => Promise<void>): void {
  CLOSERS.add(close);
}

/** Ends all servers of tools that were started, and waits for them. Those that are left end with the process, unless they will not. */
export async function closeMcpServers(): Promise<void> {
  await Promise.all([...CLOSERS].map((close) => close()));
}
