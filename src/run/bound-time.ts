import { SkillError } from "../shared/error.ts";
import { startTimer } from "../shared/patience.ts";

/** The reason of a signal that a time limit has ended: that of the run itself, or of one around it. */
export class TimedOut extends SkillError {
  readonly seconds: number;

  constructor(seconds: number) {
    super("timeout", { message: "The time limit was reached" });
    this.seconds = seconds;
  }
}

/** Work whose signal ends with the outer one, or when its time is over; how long was waited for people does not count. */
export async function boundTime<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  waited?: () => number,
): Promise<T> {
  const timer = new AbortController();
  const stop = startTimer(seconds * 1000, () => timer.abort(new TimedOut(seconds)), waited);
  try {
    return await work(AbortSignal.any([outer, timer.signal]));
  } finally {
    stop();
  }
}
