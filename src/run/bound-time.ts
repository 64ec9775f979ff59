import { SkillError } from "../shared/error.ts";

/** The reason of a signal that a time limit has ended: that of the run itself, or of one around it. */
export class TimedOut extends SkillError {
  readonly seconds: number;

  constructor(seconds: number) {
    super("timeout", { message: "The time limit was reached" });
    this.seconds = seconds;
  }
}

/** What a timer can wait for: 24 days. One for longer would end at once. */
export function timerMs(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

/** Work whose signal ends with the outer one, or when its time is over. */
export async function boundTime<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController();
  const clock = setTimeout(() => timer.abort(new TimedOut(seconds)), timerMs(seconds));
  try {
    return await work(AbortSignal.any([outer, timer.signal]));
  } finally {
    clearTimeout(clock);
  }
}
