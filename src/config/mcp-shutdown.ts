/** Child processes that end with this process, and the signal: those that already got SIGTERM get SIGKILL. */
const RUNNING_CHILDREN = new Map<number, "SIGTERM" | "SIGKILL">();
let isWatching = false;

/** Registers a child process. Returns a function to call after it has ended. */
export function registerChild(pid: number | undefined): () => void {
  if (pid === undefined) return () => {};
  if (!isWatching) process.once("exit", endAllChildren);
  isWatching = true;
  RUNNING_CHILDREN.set(pid, "SIGTERM");
  return () => RUNNING_CHILDREN.delete(pid);
}

/** Ends a child process with SIGTERM, and with SIGKILL after a grace period. */
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
    // It has already ended.
  }
}

const CLOSERS = new Set<() => Promise<void>>();

/** Registers a function that closes MCP servers. */
export function onMcpShutdown(close: () => Promise<void>): void {
  CLOSERS.add(close);
}

/** Closes all MCP servers that were started, and waits for them. The exit handler signals any that remain. */
export async function closeMcpServers(): Promise<void> {
  await Promise.all([...CLOSERS].map((close) => close()));
}
