import { SkillError } from "../errors/problem.ts";

/** Runs work with the same key one after the other, in the order in which it was given. */
export function createTurns(): <T>(key: string, work: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<void>>();
  return (key, work) => {
    const result = (last.get(key) ?? Promise.resolve()).then(work);
    const ended = result
      .then(() => {})
      .catch(() => {})
      .finally(() => {
        if (last.get(key) === ended) last.delete(key);
      });
    last.set(key, ended);
    return result;
  };
}

/** Limits a delay to the maximum of a timer, 24 days. A longer one would fire immediately. */
export function clampTimerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

/**
 * Calls back when the time is over, not counting time spent waiting for users. Returns a function that stops the timer.
 */
export function startPausableTimer(ms: number, onTime: () => void, waited: () => number = () => 0): () => void {
  const before = waited();
  let granted = 0;
  const check = () => {
    const more = waited() - before - granted;
    if (more < 1) return onTime();
    granted += more;
    timer = setTimeout(check, clampTimerMs(more));
  };
  let timer = setTimeout(check, clampTimerMs(ms));
  return () => clearTimeout(timer);
}

/** The abort reason of a time limit: that of the run itself, or of an outer run. */
export class TimeLimitError extends SkillError {
  override readonly name = "TimeLimitError";
  readonly seconds: number;

  constructor(seconds: number) {
    super("timeout", { message: "The time limit was reached" });
    this.seconds = seconds;
  }
}

/** Returns a signal that aborts with the outer one or when the time is over, not counting time spent waiting for users. */
export function startTimeLimit(
  seconds: number,
  outer: AbortSignal,
  waited?: () => number,
): { signal: AbortSignal; stop(): void } {
  const timer = new AbortController();
  const stop = startPausableTimer(seconds * 1000, () => timer.abort(new TimeLimitError(seconds)), waited);
  return { signal: AbortSignal.any([outer, timer.signal]), stop };
}

/** Runs work with the signal of a time limit. */
export async function withTimeLimit<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  waited?: () => number,
): Promise<T> {
  const { signal, stop } = startTimeLimit(seconds, outer, waited);
  try {
    return await work(signal);
  } finally {
    stop();
  }
}

/** Returns the reason why a signal aborted. */
export function getStopReason(signal: AbortSignal): "timeout" | "aborted" {
  return signal.reason instanceof TimeLimitError ? "timeout" : "aborted";
}

/** The time that work has to end after an abort. */
const ABORT_GRACE_MS = 2000;

/** Awaits work that should end with a signal. If it ignores the signal, rejects with the signal's reason. */
export function raceWithAbort<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    grace = setTimeout(() => reject(signal.reason), ABORT_GRACE_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return Promise.race([work, promise]).finally(() => {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(grace);
  });
}

/** Tracks the time spent waiting for users, including the current wait. */
export function createWaitTracker(now = () => performance.now()): {
  during<T>(work: () => Promise<T>): Promise<T>;
  waited(): number;
} {
  let total = 0;
  let since = 0;
  // Commands of a skill may ask several questions at once: overlapping waits count once.
  let active = 0;
  const waited = () => total + (active === 0 ? 0 : now() - since);
  return {
    waited,
    async during(work) {
      if (active++ === 0) since = now();
      try {
        return await work();
      } finally {
        const elapsed = waited();
        if (--active === 0) total = elapsed;
      }
    },
  };
}
