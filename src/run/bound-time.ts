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

/** Work whose signal ends with the outer one, or when its time is over; how long was waited for people does not count. */
export async function boundTime<T>(
  seconds: number,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  waited: () => number = () => 0,
): Promise<T> {
  const timer = new AbortController();
  const before = waited();
  let granted = 0;
  const onTime = () => {
    const more = waited() - before - granted;
    if (more < 1) return timer.abort(new TimedOut(seconds));
    granted += more;
    clock = setTimeout(onTime, more);
  };
  let clock = setTimeout(onTime, timerMs(seconds));
  try {
    return await work(AbortSignal.any([outer, timer.signal]));
  } finally {
    clearTimeout(clock);
  }
}
