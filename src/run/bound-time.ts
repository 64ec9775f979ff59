import { SkillError } from "../shared/error.ts";

/** The reason of a signal that a time limit has ended. */
export const TIMED_OUT = new SkillError("timeout", { message: "The time limit was reached" });

/** A timer holds 24 days at most. */
const LONGEST_SECONDS = 2_000_000;

/** Work whose signal ends with the outer one, or when its time is over. */
export async function boundTime<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController();
  const clock = setTimeout(() => timer.abort(TIMED_OUT), Math.min(seconds, LONGEST_SECONDS) * 1000);
  try {
    return await work(AbortSignal.any([outer, timer.signal]));
  } finally {
    clearTimeout(clock);
  }
}
