/** A share with its 95 % interval after Wilson, which also holds for few queries and for shares near 0 and 1. */
export interface Rate {
  successes: number;
  total: number;
  /** Null without any observation. */
  rate: number | null;
  low: number;
  high: number;
}

const Z_95 = 1.959963984540054;

/** Computes a share and its interval. */
export function computeRate(successes: number, total: number): Rate {
  if (total === 0) return { successes, total, rate: null, low: 0, high: 1 };
  const rate = successes / total;
  const square = (Z_95 * Z_95) / total;
  const center = (rate + square / 2) / (1 + square);
  const half = (Z_95 / (1 + square)) * Math.sqrt((rate * (1 - rate)) / total + square / (4 * total));
  // Rounding must not exclude the observed share.
  return {
    successes,
    total,
    rate,
    low: Math.max(0, Math.min(rate, center - half)),
    high: Math.min(1, Math.max(rate, center + half)),
  };
}

/** One trial of the baseline and one of the arm, of the same case. */
export interface TrialPair {
  baseline: boolean;
  arm: boolean;
}

export const VERDICTS = ["helps", "hurts", "cannot tell"] as const;
export type Verdict = (typeof VERDICTS)[number];

export interface PairedComparison {
  pairs: number;
  /** Pairs that only the arm passed, and pairs that only the baseline passed. */
  gained: number;
  lost: number;
  /** The share that the arm passed minus that of the baseline. */
  difference: number;
  /** The 95 % interval of the difference. */
  low: number;
  high: number;
  /** McNemar's exact test, two-sided. */
  pValue: number;
  verdict: Verdict;
}

/** The accepted share of wrong verdicts when the arms do not differ. */
export const SIGNIFICANCE = 0.05;

/**
 * Compares paired trials. The interval has the differences that Tango's score test does not reject: it also holds for few
 * pairs, and for pairs that are all equal. A bootstrap of so few outcomes covers the true difference too often. The verdict
 * needs both the interval and McNemar's test, and `pValue` may be replaced by one that is adjusted for several comparisons.
 */
export function comparePairs(pairs: readonly TrialPair[]): PairedComparison {
  const gained = pairs.filter(({ baseline, arm }) => arm && !baseline).length;
  const lost = pairs.filter(({ baseline, arm }) => baseline && !arm).length;
  const difference = pairs.length === 0 ? 0 : (gained - lost) / pairs.length;
  const [low, high] = computeDifferenceInterval(pairs.length, gained, lost);
  const pValue = computeMcNemar(gained, lost);
  const compared = { pairs: pairs.length, gained, lost, difference, low, high, pValue };
  return { ...compared, verdict: decideVerdict(compared) };
}

/** Decides whether an arm helps. */
export function decideVerdict({ low, high, pValue }: Pick<PairedComparison, "low" | "high" | "pValue">): Verdict {
  if (pValue > SIGNIFICANCE) return "cannot tell";
  return low > 0 ? "helps" : high < 0 ? "hurts" : "cannot tell";
}

/** Returns the 95 % interval of the difference of paired shares after Tango (1998). */
export function computeDifferenceInterval(pairs: number, gained: number, lost: number): [low: number, high: number] {
  const observed = pairs === 0 ? 0 : (gained - lost) / pairs;
  const find = (end: number): number => {
    if (pairs === 0) return end;
    let [accepted, rejected] = [observed, end];
    for (let step = 0; step < 50; step++) {
      const middle = (accepted + rejected) / 2;
      if (Math.abs(computeDifferenceScore(pairs, gained, lost, middle)) <= Z_95) accepted = middle;
      else rejected = middle;
    }
    return accepted;
  };
  return [find(-1), find(1)];
}

/** Returns how many standard errors the observed difference is above this one, whose variance has the most likely shares. */
function computeDifferenceScore(pairs: number, gained: number, lost: number, difference: number): number {
  const half = (2 * pairs - gained + lost) * difference - gained - lost;
  const root = Math.sqrt(Math.max(0, half * half + 8 * pairs * lost * difference * (1 - difference)));
  const lostShare = (root - half) / (4 * pairs);
  const variance = pairs * (2 * lostShare + difference * (1 - difference));
  const distance = gained - lost - pairs * difference;
  // Rounding: at the observed difference of equal pairs both are 0.
  return variance <= 1e-12
    ? Math.abs(distance) < 1e-9
      ? 0
      : Math.sign(distance) * Number.POSITIVE_INFINITY
    : distance / Math.sqrt(variance);
}

/** Returns the two-sided p-value of McNemar's exact test for these discordant pairs. */
export function computeMcNemar(gained: number, lost: number): number {
  const total = gained + lost;
  let tail = 0;
  for (let count = 0; count <= Math.min(gained, lost); count++) tail += binomial(total, count, 0.5);
  return Math.min(1, 2 * tail);
}

/** Adjusts p-values for several comparisons, after Holm: their order stays. */
export function adjustPValues(values: readonly number[]): number[] {
  const order = values.map((value, at) => ({ value, at })).sort((a, b) => a.value - b.value);
  const adjusted = [...values];
  let largest = 0;
  for (const [rank, { value, at }] of order.entries()) {
    largest = Math.max(largest, Math.min(1, value * (values.length - rank)));
    adjusted[at] = largest;
  }
  return adjusted;
}

export interface TrialPlan {
  /** The share that passes without the skill. */
  baseline: number;
  /** The share that is expected with it. */
  arm: number;
  /** The probability to find this difference. Defaults to 0.8. */
  power?: number;
}

const MAX_PLANNED_PAIRS = 5000;

/** Returns the number of pairs that finds a difference with this probability; undefined if more than 5,000 are needed. */
export function planPairs({ baseline, arm, power = 0.8 }: TrialPlan): number | undefined {
  if (baseline === arm) return undefined;
  // The power of a discrete test goes up and down a little: a plan must hold for a few more pairs, too.
  const isEnough = (pairs: number) => [0, 1, 2, 3].every((more) => computePower(pairs + more, baseline, arm) >= power);
  let high = 4;
  for (; !isEnough(high); high *= 2) if (high > MAX_PLANNED_PAIRS) return undefined;
  for (let low = Math.floor(high / 2); high - low > 1; ) {
    const middle = Math.floor((low + high) / 2);
    if (isEnough(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Returns the smallest difference from the baseline that so many pairs find with a power of 0.8. */
export function findDetectableEffect(pairs: number, baseline: number, power = 0.8): number | undefined {
  for (let percent = 1; percent <= Math.round((1 - baseline) * 100); percent++)
    if (computePower(pairs, baseline, Math.min(1, baseline + percent / 100)) >= power) return percent / 100;
  return undefined;
}

/** Returns the probability that McNemar's exact test finds the difference in independent pairs. */
export function computePower(pairs: number, baseline: number, arm: number): number {
  const gain = arm * (1 - baseline);
  const discordant = gain + baseline * (1 - arm);
  if (discordant === 0) return 0;
  const share = Math.max(gain, discordant - gain) / discordant;
  const mean = pairs * discordant;
  const reach = 7 * Math.sqrt(mean * (1 - discordant)) + 7; // What is farther from the mean does not count.
  let power = 0;
  for (let total = Math.max(0, Math.floor(mean - reach)); total <= Math.min(pairs, mean + reach); total++)
    power += binomial(pairs, total, discordant) * computeRejection(total, share);
  return power;
}

/** Returns the probability that so many discordant pairs reject equality in the right direction. */
function computeRejection(total: number, share: number): number {
  let rejected = 0;
  for (let lost = findCriticalCount(total); lost >= 0; lost--) {
    const likely = binomial(total, lost, 1 - share);
    rejected += likely;
    // Below the most likely count, the terms only become smaller.
    if (likely < 1e-12 && lost < total * (1 - share)) break;
  }
  return rejected;
}

/** Returns the largest smaller count of discordant pairs that rejects equality, or -1. */
function findCriticalCount(total: number): number {
  const known = CRITICAL_COUNTS.get(total);
  if (known !== undefined) return known;
  let most = -1;
  for (let tail = 0; most < total; most++) {
    tail += binomial(total, most + 1, 0.5);
    if (2 * tail > SIGNIFICANCE) break;
  }
  CRITICAL_COUNTS.set(total, most);
  return most;
}

const CRITICAL_COUNTS = new Map<number, number>();
const LOG_FACTORIALS: number[] = [0];

function logFactorial(count: number): number {
  for (let next = LOG_FACTORIALS.length; next <= count; next++)
    LOG_FACTORIALS.push((LOG_FACTORIALS[next - 1] as number) + Math.log(next));
  return LOG_FACTORIALS[count] as number;
}

/** Returns the probability of `count` successes in `total` trials. */
function binomial(total: number, count: number, share: number): number {
  if (share <= 0) return count === 0 ? 1 : 0;
  if (share >= 1) return count === total ? 1 : 0;
  const ways = logFactorial(total) - logFactorial(count) - logFactorial(total - count);
  return Math.exp(ways + count * Math.log(share) + (total - count) * Math.log1p(-share));
}
