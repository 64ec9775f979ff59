import { describe, expect, it } from "vitest";
import { planPairs } from "../../src/eval/pair-statistics.ts";
import { simulateSuites } from "../support/simulated-suites.ts";

/** Success without and with the skill. Each has 250 suites with the planned number of pairs: 11 to 50. */
const TRUTHS = [
  { baseline: 0.3, arm: 0.8 },
  { baseline: 0.2, arm: 0.9 },
  { baseline: 0.5, arm: 0.9 },
  { baseline: 0.4, arm: 0.7 },
];
const SUITES = 1000;
// About 50,000 runs of a skill: five minutes of processor time.
const LIMIT_MS = 2_400_000;

describe("1,000 evaluations against a model server that succeeds with known probabilities", () => {
  it(
    "cover the true difference in 93 to 97 % and reach the planned power",
    async () => {
      const counts = { covered: 0, helps: 0, hurts: 0, "cannot tell": 0 };
      for (const [at, truth] of TRUTHS.entries()) {
        const pairs = planPairs(truth) as number;
        const suites = SUITES / TRUTHS.length;
        const difference = truth.arm - truth.baseline;
        for (const one of await simulateSuites({ ...truth, suites, pairs, seed: at + 1 })) {
          expect(one.pairs).toBe(pairs);
          counts[one.verdict]++;
          if (one.low <= difference && difference <= one.high) counts.covered++;
        }
      }
      process.stdout.write(`${JSON.stringify(counts)}\n`);
      expect(counts.covered).toBeGreaterThanOrEqual(0.93 * SUITES);
      expect(counts.covered).toBeLessThanOrEqual(0.97 * SUITES);
      // The planned power is 80 %; two standard errors of 1,000 suites.
      expect(counts.helps).toBeGreaterThanOrEqual(0.775 * SUITES);
      expect(counts.hurts).toBe(0);
    },
    LIMIT_MS,
  );

  it(
    "say `helps` in at most 5 % if the skill changes nothing",
    async () => {
      const compared = await simulateSuites({ baseline: 0.5, arm: 0.5, suites: SUITES, pairs: 15, seed: 9 });
      const helps = compared.filter(({ verdict }) => verdict === "helps").length;
      const covered = compared.filter(({ low, high }) => low <= 0 && 0 <= high).length;
      process.stdout.write(`${JSON.stringify({ covered, helps })}\n`);
      expect(helps).toBeLessThanOrEqual(0.05 * SUITES);
      expect(covered).toBeGreaterThanOrEqual(0.93 * SUITES);
      expect(covered).toBeLessThanOrEqual(0.97 * SUITES);
    },
    LIMIT_MS,
  );
});
