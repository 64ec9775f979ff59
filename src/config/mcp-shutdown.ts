/** Programs that end when we do, and how: those that were asked before are not asked again. */
const RUNNING_CHILDREN = new Map<number, "SIGTERM" | "SIGKILL">();
let isWatching = false;

/** Gives what is to be called when it has ended. */
export function registerChild(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.once("exit", endAllChildren);
  isWatching = true;
  RUNNING_CHILDREN.set(pid, "SIGTERM");
  return () => RUNNING_CHILDREN.delete(pid);
}

/** Tells it to, and ends it when it does not. */
export async function endChild(pid: number | undefined): Promise<void> {
  if (pid === undefined || !RUNNING_CHILDREN.has(pid)) return;
  signalChild(pid, "SIGTERM");
  RUNNING_CHILDREN.set(pid, "SIGKILL");
  for (let waited = 0; waited < TERM_GRACE_MS && RUNNING_CHILDREN.has(pid); waited += POLL_MS) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  if (RUNNING_CHILDREN.has(pid)) signalChild(pid, "SIGKILL");
}

const TERM_GRACE_MS = 500;
const POLL_MS = 20;

function endAllChildren(): void {
  for (const [pid, signal] of RUNNING_CHILDREN) signalChild(pid, signal);
}

function signalChild(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}

const CLOSERS = new Set<() => Promise<void>>();

/** Says how servers are closed, where any may have been started. */
export function onMcpShutdown(close: () => Promise<void>): void {
  CLOSERS.add(close);
}

/** Ends all servers of tools that were started, and waits for them. Those that are left end with the process, unless they will not. */
export async function closeMcpServers(): Promise<void> {
  await Promise.all([...CLOSERS].map((close) => close()));
}
