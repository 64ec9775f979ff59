import { SkillError } from "../errors/problem.ts";

/** What a timer can wait for: 24 days. One for longer would end at once. */
export function clampTimerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

/**
 * Calls back when the time is over; how long was waited for people meanwhile does not count. Gives what stops it.
 */
export function startPausableTimer(ms: number, onTime: () => void, waited: () => number = () => 0): () => void {
  const before = waited();
  let granted = 0;
  const look = () => {
    const more = waited() - before - granted;
    if (more < 1) return onTime();
    granted += more;
    timer = setTimeout(look, clampTimerMs(more));
  };
  let timer = setTimeout(look, clampTimerMs(ms));
  return () => clearTimeout(timer);
}

/** Milliseconds since this process began, whatever becomes of the time of day. `performance` would be loaded first, which costs a start four of them. */
export function readUptimeMs(): number {
  return process.uptime() * 1000;
}

/** The reason of a signal that a time limit has ended: that of the run itself, or of one around it. */
export class TimeLimitError extends SkillError {
  readonly seconds: number;

  constructor(seconds: number) {
    super("timeout", { message: "The time limit was reached" });
    this.seconds = seconds;
  }
}

/** Work whose signal ends with the outer one, or when its time is over; how long was waited for people does not count. */
export async function withTimeLimit<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  waited?: () => number,
): Promise<T> {
  const timer = new AbortController();
  const stop = startPausableTimer(seconds * 1000, () => timer.abort(new TimeLimitError(seconds)), waited);
  try {
    return await work(AbortSignal.any([outer, timer.signal]));
  } finally {
    stop();
  }
}

/** What ended a signal. */
export function getStopReason(signal: AbortSignal): "timeout" | "aborted" {
  return signal.reason instanceof TimeLimitError ? "timeout" : "aborted";
}

/** How long work may take to end once it was told to. */
const ABORT_GRACE_MS = 2000;

/** Work that is to end with a signal. Who does not listen is not waited for: rejects with the signal's reason then. */
export async function raceWithAbort<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  let grace: NodeJS.Timeout | undefined;
  const onAbort = () => {
    grace = setTimeout(() => reject(signal.reason), ABORT_GRACE_MS);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    clearTimeout(grace);
  }
}

/** How long was waited for people, with what is waited for now. */
export function createWaitTracker(now = () => performance.now()): {
  during<T>(work: () => Promise<T>): Promise<T>;
  waited(): number;
} {
  let over = 0;
  let since = 0;
  // Commands of a skill may have several asked at once: what is waited for twice at the same time is waited for once.
  let asked = 0;
  const waited = () => over + (asked === 0 ? 0 : now() - since);
  return {
    waited,
    async during(work) {
      if (asked++ === 0) since = now();
      try {
        return await work();
      } finally {
        const whole = waited();
        if (--asked === 0) over = whole;
      }
    },
  };
}
