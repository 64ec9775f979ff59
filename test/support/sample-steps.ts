/** True in `npm run test:long`, which runs the tests that import this module with all steps and rows. */
export const IS_LONG = process.env["SKILLET_TEST_LONG"] !== undefined;

/**
 * Returns the steps, of 1 to `count`, at which a test kills a process: the first, the last and one of each part between, the same in each
 * run. The steps of one part end in the same code, so that each costs a process and proves little.
 */
export function sampleSteps(count: number, size: number, isAll = IS_LONG): number[] {
  if (isAll || count <= size) return Array.from({ length: count }, (_, index) => index + 1);
  if (size === 1) return [count];
  const random = createRandom(count);
  const width = (count - 2) / (size - 2);
  const between = Array.from({ length: size - 2 }, (_, part) => 2 + Math.floor((part + random()) * width));
  return [1, ...between, count];
}

/** Returns rows of a table of cases: a sample in the gate, the same in each run, and all in `npm run test:long`. */
export function sampleRows<Row>(rows: readonly Row[], size: number): Row[] {
  return sampleSteps(rows.length, size).map((step) => rows[step - 1] as Row);
}

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
