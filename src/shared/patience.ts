/** What a timer can wait for: 24 days. One for longer would end at once. */
export function timerMs(ms: number): number {
  return Math.min(ms, 2 ** 31 - 1);
}

/**
 * Calls back when the time is over; how long was waited for people meanwhile does not count. Gives what stops it.
 */
export function startTimer(ms: number, onTime: () => void, waited: () => number = () => 0): () => void {
  const before = waited();
  let granted = 0;
  const look = () => {
    const more = waited() - before - granted;
    if (more < 1) return onTime();
    granted += more;
    timer = setTimeout(look, timerMs(more));
  };
  let timer = setTimeout(look, timerMs(ms));
  return () => clearTimeout(timer);
}
