import { describe, expect, it } from "vitest";
import {
  adjustPValues,
  comparePairs,
  computeMcNemar,
  computePower,
  computeRate,
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
    expect(comparePairs(createPairs(12, 1, 7))).toMatchObject({ verdict: "helps", difference: 11 / 20 });
    expect(comparePairs(createPairs(1, 12, 7))).toMatchObject({ verdict: "hurts" });
    expect(comparePairs(createPairs(5, 0, 0))).toMatchObject({ verdict: "cannot tell" });
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

  it("computes the interval of the difference after Tango", () => {
    // Reference value: the function `scoreci.mp(0, 7, 14)` of the R package PropCIs.
    const { low, high } = comparePairs(createPairs(7, 0, 7));
    expect(low).toBeCloseTo(0.177034, 6);
    expect(high).toBeCloseTo(0.732008, 6);
    const mirrored = comparePairs(createPairs(0, 7, 7));
    expect(mirrored.low).toBeCloseTo(-high, 9);
    expect(mirrored.high).toBeCloseTo(-low, 9);
    for (const pairs of [createPairs(5, 0, 0), createPairs(0, 3, 0), createPairs(2, 2, 1)]) {
      const compared = comparePairs(pairs);
      expect(compared.low).toBeGreaterThanOrEqual(-1);
      expect(compared.low).toBeLessThan(compared.difference + 1e-12);
      expect(compared.high).toBeGreaterThan(compared.difference - 1e-12);
      expect(compared.high).toBeLessThanOrEqual(1);
    }
  });

  it("covers the true difference in 93 to 97 %, says `helps` rarely without one, and has the planned power", () => {
    // No simulation: the probabilities of all outcomes are added up.
    for (const [baseline, arm] of [
      [0.3, 0.8],
      [0.4, 0.7],
      [0.5, 0.9],
      [0.2, 0.9],
      [0.9, 0.5],
    ] as const) {
      const planned = planPairs({ baseline, arm }) as number;
      const exact = addUpOutcomes(planned, baseline, arm);
      expect(exact.covered, `${baseline} to ${arm}`).toBeGreaterThan(0.93);
      expect(exact.covered, `${baseline} to ${arm}`).toBeLessThan(0.97);
      const [right, wrong] = arm > baseline ? [exact.helps, exact.hurts] : [exact.hurts, exact.helps];
      expect(right).toBeGreaterThanOrEqual(0.8);
      expect(right).toBeCloseTo(computePower(planned, baseline, arm), 3);
      expect(wrong).toBeLessThan(1e-3);
    }
    for (const share of [0.2, 0.5, 0.7])
      for (const pairs of [12, 20, 30, 50]) {
        const exact = addUpOutcomes(pairs, share, share);
        expect(exact.covered).toBeGreaterThan(0.93);
        expect(exact.covered).toBeLessThan(0.97);
        expect(exact.helps).toBeLessThan(0.025);
        expect(exact.hurts).toBeLessThan(0.025);
      }
  });

  it("computes the power of large differences and many pairs", () => {
    for (const pairs of [20, 46, 200, 2000]) expect(computePower(pairs, 0.1, 0.95)).toBeGreaterThan(0.9999);
    expect(computePower(5000, 0.05, 0.95)).toBeGreaterThan(0.9999);
  });
});

function createPairs(gained: number, lost: number, ties: number): TrialPair[] {
  return [
    ...Array.from({ length: gained }, () => ({ baseline: false, arm: true })),
    ...Array.from({ length: lost }, () => ({ baseline: true, arm: false })),
    ...Array.from({ length: ties }, () => ({ baseline: true, arm: true })),
  ];
}

/** Adds up the probabilities of all outcomes of so many independent pairs. */
function addUpOutcomes(pairs: number, baseline: number, arm: number) {
  const shares = [arm * (1 - baseline), baseline * (1 - arm)] as const;
  const difference = arm - baseline;
  const sums = { covered: 0, helps: 0, hurts: 0, "cannot tell": 0 };
  let gainedWays = (1 - shares[0] - shares[1]) ** pairs;
  for (let gained = 0; gained <= pairs; gained++) {
    let probability = gainedWays;
    for (let lost = 0; gained + lost <= pairs; lost++) {
      const { low, high, verdict } = comparePairs(createPairs(gained, lost, pairs - gained - lost));
      if (low <= difference + 1e-9 && difference - 1e-9 <= high) sums.covered += probability;
      sums[verdict] += probability;
      probability *= ((pairs - gained - lost) / (lost + 1)) * (shares[1] / (1 - shares[0] - shares[1]));
    }
    gainedWays *= ((pairs - gained) / (gained + 1)) * (shares[0] / (1 - shares[0] - shares[1]));
  }
  return sums;
}
