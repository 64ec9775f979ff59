import { describe, expect, it } from "vitest";
import { planPairs } from "../../src/eval/pair-statistics.ts";
import { simulateSuites } from "../support/simulated-suites.ts";

// `npm run test:long` has 1,000 suites. The outcomes of the server are reproducible, and so is the result.
const SUITES = 20;
// About 400 runs of a skill each.
const LIMIT_MS = 240_000;

describe("an evaluation against a model server that succeeds with known probabilities", () => {
  it(
    "finds the difference with the planned number of pairs, and its interval covers the true one",
    async () => {
      const [baseline, arm] = [0.2, 0.9];
      const pairs = planPairs({ baseline, arm }) as number;
      const compared = await simulateSuites({ baseline, arm, suites: SUITES, pairs });
      const helps = compared.filter(({ verdict }) => verdict === "helps").length;
      const covers = compared.filter(({ low, high }) => low <= arm - baseline && arm - baseline <= high).length;
      expect(compared.every((one) => one.pairs === pairs)).toBe(true);
      expect(helps).toBeGreaterThanOrEqual(14);
      expect(covers).toBeGreaterThanOrEqual(18);
      expect(compared.filter(({ verdict }) => verdict === "hurts")).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    "says `helps` or `hurts` rarely if the skill changes nothing",
    async () => {
      const compared = await simulateSuites({ baseline: 0.5, arm: 0.5, suites: SUITES, pairs: 10, seed: 3 });
      expect(compared.filter(({ verdict }) => verdict === "helps").length).toBeLessThanOrEqual(1);
      expect(compared.filter(({ verdict }) => verdict === "hurts").length).toBeLessThanOrEqual(1);
    },
    LIMIT_MS,
  );
});
