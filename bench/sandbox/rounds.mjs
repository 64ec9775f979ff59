import { median } from "../measure.mjs";

const WARM_UP = 3;

/**
 * Takes samples of all subjects in turn, so that other load on the machine affects all equally. Each round starts with a different one,
 * so that the predecessor of a subject varies.
 */
export async function inTurn(subjects, samples) {
  const rows = subjects.map((subject) => ({ ...subject, times: [] }));
  for (let round = -WARM_UP; round < samples; round++) {
    for (let turn = 0; turn < rows.length; turn++) {
      const { absent, sample, times } = rows[(turn + round + WARM_UP) % rows.length];
      if (absent) continue;
      const ms = await sample();
      if (round >= 0) times.push(ms);
    }
  }
  return rows.map(({ sample: _, times, ...row }) => (row.absent ? row : { ...row, ...summary(times) }));
}

function summary(times) {
  const sorted = times.toSorted((a, b) => a - b);
  return { ms: median(times), p95: sorted[Math.ceil(sorted.length * 0.95) - 1], least: sorted[0], most: sorted.at(-1) };
}
