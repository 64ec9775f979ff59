/**
 * What this may take, in milliseconds: what is bounded so is bounded in work, also where others have the processor. Only what took longer
 * is measured against how fast this machine is at this moment.
 */
export function allowed(most: number, taken: number): number {
  return taken < most ? most : most * slowness();
}

/** How many times slower this machine is than one that the times in tests are meant for: never less than 1. */
function slowness(): number {
  const times = Array.from({ length: 3 }, () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  });
  return Math.max(1, Math.min(...times) / USUAL_MS);
}

/** What the work takes where nothing else goes on, on two cores of 2026. */
const USUAL_MS = 12;

function work(): void {
  const seen = new Map<string, number>();
  for (let turn = 0; turn < 60_000; turn++) {
    const word = `${(turn * 7919) % 4096}`.padStart(6, "x");
    seen.set(word, (seen.get(word) ?? 0) + 1);
  }
}
