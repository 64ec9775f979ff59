import { describe, expect, it } from "vitest";
import {
  adjustPValues,
  comparePairs,
  computeMcNemar,
  computePower,
  computeRate,
  createRandom,
  findDetectableEffect,
  planPairs,
  type TrialPair,
} from "../../src/eval/pair-statistics.ts";

describe("statistics of an evaluation", () => {
  it("computes Wilson's interval, also at 0 and 1", () => {
    // Reference values: Newcombe 1998, table I.
    const rate = computeRate(81, 263);
    expect([rate.low, rate.high].map((value) => value.toFixed(4))).toEqual(["0.2553", "0.3662"]);
    expect(computeRate(0, 20)).toMatchObject({ rate: 0, low: 0 });
    expect(computeRate(0, 20).high).toBeCloseTo(0.1611, 4);
    expect(computeRate(29, 29)).toMatchObject({ rate: 1, high: 1 });
    expect(computeRate(0, 0)).toMatchObject({ rate: null, low: 0, high: 1 });
  });

  it("computes McNemar's exact p-value", () => {
    expect(computeMcNemar(6, 0)).toBeCloseTo(2 / 64, 12);
    expect(computeMcNemar(0, 5)).toBeCloseTo(2 / 32, 12);
    expect(computeMcNemar(3, 3)).toBe(1);
    expect(computeMcNemar(0, 0)).toBe(1);
    expect(computeMcNemar(59, 6)).toBeLessThan(1e-10);
  });

  it("adjusts p-values for several comparisons", () => {
    expect(adjustPValues([0.01, 0.04, 0.03]).map((value) => Number(value.toFixed(4)))).toEqual([0.03, 0.06, 0.06]);
    expect(adjustPValues([0.6, 0.7])).toEqual([1, 1]);
  });

  it("never claims certainty: equal outcomes have an interval with a width", () => {
    const same = Array.from({ length: 5 }, (): TrialPair => ({ baseline: true, arm: true }));
    const { low, high, difference, verdict } = comparePairs(same);
    expect(difference).toBe(0);
    expect(low).toBeLessThan(-0.1);
    expect(high).toBeGreaterThan(0.1);
    expect(verdict).toBe("cannot tell");
    expect(comparePairs([])).toMatchObject({ pairs: 0, difference: 0, verdict: "cannot tell" });
  });

  it("decides by the pairs: helps, hurts, cannot tell", () => {
    const pairs = (gained: number, lost: number, ties: number): TrialPair[] => [
      ...Array.from({ length: gained }, () => ({ baseline: false, arm: true })),
      ...Array.from({ length: lost }, () => ({ baseline: true, arm: false })),
      ...Array.from({ length: ties }, () => ({ baseline: true, arm: true })),
    ];
    expect(comparePairs(pairs(12, 1, 7))).toMatchObject({ verdict: "helps", difference: 11 / 20 });
    expect(comparePairs(pairs(1, 12, 7))).toMatchObject({ verdict: "hurts" });
    expect(comparePairs(pairs(5, 0, 0))).toMatchObject({ verdict: "cannot tell" });
    expect(comparePairs(pairs(12, 1, 7))).toEqual(comparePairs(pairs(12, 1, 7)));
  });

  it("plans the number of pairs that finds an effect", () => {
    const planned = planPairs({ baseline: 0.4, arm: 0.7 }) ?? 0;
    expect(computePower(planned, 0.4, 0.7)).toBeGreaterThanOrEqual(0.8);
    expect(computePower(planned - 5, 0.4, 0.7)).toBeLessThan(0.8);
    expect(planPairs({ baseline: 0.4, arm: 0.7, power: 0.9 })).toBeGreaterThan(planned);
    expect(planPairs({ baseline: 0.7, arm: 0.4 })).toBe(planned);
    expect(planPairs({ baseline: 0.5, arm: 0.5 })).toBeUndefined();
    expect(planPairs({ baseline: 0.5, arm: 0.501 })).toBeUndefined();
    const effect = findDetectableEffect(planned, 0.4) ?? 1;
    expect(effect).toBeLessThanOrEqual(0.3);
    expect(effect).toBeGreaterThan(0.25);
    expect(findDetectableEffect(3, 0.9)).toBeUndefined();
  });

  it("covers the true difference, and the planned pairs reach the power, in simulated suites", () => {
    const random = createRandom(7);
    const suites = 400;
    const simulate = (count: number, baseline: number, arm: number) => {
      let covered = 0;
      const verdicts = { helps: 0, hurts: 0, "cannot tell": 0 };
      for (let suite = 0; suite < suites; suite++) {
        const pairs = Array.from({ length: count }, () => ({ baseline: random() < baseline, arm: random() < arm }));
        const { low, high, verdict } = comparePairs(pairs, suite + 1);
        if (low <= arm - baseline + 1e-9 && high >= arm - baseline - 1e-9) covered++;
        verdicts[verdict]++;
      }
      return { covered: covered / suites, helps: verdicts.helps / suites, hurts: verdicts.hurts / suites };
    };
    const effect = simulate(planPairs({ baseline: 0.4, arm: 0.7 }) ?? 0, 0.4, 0.7);
    // Three standard errors of 400 suites around 95 % and 80 %.
    expect(effect.covered).toBeGreaterThan(0.917);
    expect(effect.covered).toBeLessThan(0.983);
    expect(effect.helps).toBeGreaterThan(0.74);
    expect(effect.hurts).toBe(0);
    const nothing = simulate(50, 0.5, 0.5);
    expect(nothing.helps + nothing.hurts).toBeLessThan(0.05);
    expect(nothing.covered).toBeGreaterThan(0.917);
  });
});
