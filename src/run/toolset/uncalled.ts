/** A thread that can end and begin anew without anybody noticing: nothing has been called in it, so that there is nothing to lose. */
export interface Uncalled {
  rest(): void;
}

/** As many wait for their first call: a thread is some twenty megabytes, and whoever serves many clients loads much that nobody calls. */
const MOST = 4;

/** The oldest first. */
const waiting = new Set<Uncalled>();

/** Takes note of a thread that was just opened. Where too many wait, the oldest rests. */
export function awaitCall(thread: Uncalled): void {
  waiting.add(thread);
  const [oldest] = waiting;
  if (oldest === undefined || waiting.size <= MOST) return;
  waiting.delete(oldest);
  oldest.rest();
}

/** It is called now, or was closed. */
export function stopAwaiting(thread: Uncalled): void {
  waiting.delete(thread);
}
