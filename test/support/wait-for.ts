import { setTimeout as sleep } from "node:timers/promises";

/** Only turns a hang into a failure. Shorter than the time-out of a test, so that the failure shows what was waited for. */
const DEADLINE_MS = 45_000;
const PAUSE_MS = 20;

/**
 * Waits until a condition holds: until it returns anything but false, and throws nothing, as an `expect` in it may. Returns its value.
 * This and `expect.poll` are how tests wait: a fixed pause is too short on a busy machine, and too long on an idle one.
 */
export async function waitFor<T>(condition: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + DEADLINE_MS;
  for (;;) {
    let problem: unknown = new Error(`waited ${DEADLINE_MS / 1000} s in vain for ${condition}`);
    try {
      const value = await condition();
      if (value !== false) return value;
    } catch (error) {
      problem = error;
    }
    if (performance.now() > deadline) throw problem;
    await sleep(PAUSE_MS);
  }
}

/**
 * Runs work under a time limit that it is meant to reach, and doubles the limit until the work got far enough before: a busy machine may
 * use up a short limit before the work starts.
 */
export async function withGrowingLimit<T>(
  run: (seconds: number) => Promise<T>,
  hasStarted: (result: T) => boolean,
  { from = 0.5, most = 32 }: { from?: number; most?: number } = {},
): Promise<T> {
  for (let seconds = from; ; seconds *= 2) {
    const result = await run(seconds);
    if (hasStarted(result) || seconds >= most) return result;
  }
}
