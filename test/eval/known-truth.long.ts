import { describe, expect, it } from "vitest";
import { planPairs } from "../../src/eval/pair-statistics.ts";
import { simulateSuites } from "../support/simulated-suites.ts";

const SUITES = 1000;
// About 40,000 runs of a skill each: minutes on an idle machine.
const LIMIT_MS = 2_400_000;

describe("1,000 evaluations against a model server that succeeds with known probabilities", () => {
  it(
    "cover the true difference in 93 to 97 % and reach the planned power",
    async () => {
      const [baseline, arm] = [0.3, 0.8];
      const pairs = planPairs({ baseline, arm }) as number;
      const compared = await simulateSuites({ baseline, arm, suites: SUITES, pairs });
      const share = (is: (one: (typeof compared)[number]) => boolean) => compared.filter(is).length / SUITES;
      const covered = share(({ low, high }) => low <= arm - baseline + 1e-9 && arm - baseline - 1e-9 <= high);
      const helps = share(({ verdict }) => verdict === "helps");
      expect(covered).toBeGreaterThanOrEqual(0.93);
      expect(covered).toBeLessThanOrEqual(0.97);
      // The planned power is 80 %; two standard errors of 1,000 suites.
      expect(helps).toBeGreaterThanOrEqual(0.775);
      expect(share(({ verdict }) => verdict === "hurts")).toBe(0);
    },
    LIMIT_MS,
  );

  it(
    "say `helps` in at most 5 % if the skill changes nothing",
    async () => {
      const compared = await simulateSuites({ baseline: 0.5, arm: 0.5, suites: SUITES, pairs: 20, seed: 3 });
      const helps = compared.filter(({ verdict }) => verdict === "helps").length / SUITES;
      const covered = compared.filter(({ low, high }) => low <= 0 && 0 <= high).length / SUITES;
      expect(helps).toBeLessThanOrEqual(0.05);
      expect(covered).toBeGreaterThanOrEqual(0.93);
    },
    LIMIT_MS,
  );
});
