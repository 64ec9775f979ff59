import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { CLOCK_TICK, environment } from "../contenders.mjs";
import { generate } from "../generate.mjs";
import { median, run } from "../measure.mjs";
import { withPlace } from "../place.mjs";

const SIZE = 1000;
const ROUNDS = 9;
const QUERY = "reconcile the invoices of the customer archive and report what was done";
const skillet = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");

/** Measures whole commands with 1,000 skills: with the search index of an earlier process, and without one. */
export async function search({ say }) {
  return withPlace(async (place) => {
    say(`${SIZE} skills without triggers: writing`);
    const [cwd, env] = [join(place, "work"), environment(place)];
    mkdirSync(cwd, { recursive: true });
    generate(join(env.HOME, ".skillet", "skills"), SIZE, "nested");
    const command = (...args) => ({ file: process.execPath, args, cwd, env });
    const explain = command(skillet, "explain", QUERY);
    // Once to write the indexes, and again because files that were too new are read again.
    for (let count = 0; count < 2; count++) {
      await setTimeout(CLOCK_TICK);
      await run(explain);
    }
    const rows = [
      { name: "node -e 0", command: command("-e", "0"), times: [] },
      { name: "skillet list", command: command(skillet, "list"), times: [] },
      { name: "skillet explain, index", command: explain, times: [] },
    ];
    for (let round = 0; round < ROUNDS; round++) {
      say(`explain: round ${round + 1} of ${ROUNDS}`);
      for (const row of rows) {
        const { ms, problem } = await run(row.command);
        if (problem) throw new Error(`${row.name} ${problem}`);
        row.times.push(ms);
      }
    }
    const floor = median(rows[0].times);
    return {
      size: SIZE,
      rows: rows.map(({ name, times }) => ({
        name,
        ms: median(times),
        least: Math.min(...times),
        ratio: median(times) / floor,
        leastRatio: Math.min(...times) / Math.min(...rows[0].times),
      })),
    };
  });
}
