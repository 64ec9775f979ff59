/** Reports an error in a pattern. The message continues after the pattern, as in `is nested too deeply`. */
export class PatternSyntaxError extends Error {}

export const MAX_REPEATS = 1000;
const MAX_CHOICES = 32;

/** Facts about a part of a pattern. */
export interface PatternPart {
  /** Sets of texts: a match contains one text of each set, in this order. */
  needs: readonly (readonly string[])[];
  /**
   * The maximum number of characters before the first need, between each two, and after the last: one more entry than `needs`.
   */
  gaps: readonly number[];
  /** The only text that the part matches, if there is only one. */
  exact: string | undefined;
  size: number;
  /** True if the part can match the empty text or any text: it does not narrow the parts around it. */
  isOpen: boolean;
  /** True if a match can begin only at the start of the text. */
  isAtStart?: boolean;
  /** The maximum number of repetitions in a row, as the engine counts them. */
  repeats: number;
}

export const EMPTY_PART: PatternPart = { needs: [], gaps: [0], exact: "", size: 1, isOpen: true, repeats: 1 };
export const START_PART: PatternPart = { ...EMPTY_PART, isAtStart: true };
/** Exactly one character of some set. */
export const SINGLE_PART: PatternPart = { needs: [], gaps: [1], exact: undefined, size: 1, isOpen: false, repeats: 1 };
export const ANY_PART: PatternPart = { ...SINGLE_PART, isOpen: true };
export const DIGIT_PART: PatternPart = { ...SINGLE_PART, needs: [[..."0123456789"]], gaps: [0, 0] };
export const FLAGS_PART: PatternPart = { ...EMPTY_PART };

export function isWordCode(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 32;
}

export function createLiteral(character: string): PatternPart {
  return isCaseStable(character) ? createLiteralText(character.toLowerCase()) : SINGLE_PART;
}

/** Contract: `exact` contains lower-case characters that are case-stable. */
export function createLiteralText(exact: string): PatternPart {
  return { needs: NO_NEEDS, gaps: [exact.length], exact, size: exact.length, isOpen: false, repeats: 1 };
}

const NO_NEEDS: PatternPart["needs"] = [];

// If upper and lower case are not one character each, a matching text need not contain the literal as written.
function isCaseStable(character: string): boolean {
  if (character.charCodeAt(0) < 128) return true;
  return character.toLowerCase() === character.toUpperCase();
}

export function concatenateParts(parts: readonly PatternPart[]): PatternPart {
  const needs: (readonly string[])[] = [];
  const gaps: number[] = [];
  let [run, gap] = ["", 0];
  let whole: string | undefined = "";
  let [size, repeats, isOpen] = [0, 1, true];
  const add = (need: readonly string[], gapAfter: number) => {
    needs.push(need);
    gaps.push(gap);
    gap = gapAfter;
  };
  const close = () => {
    if (run !== "") add([run], 0);
    run = "";
  };
  // The parts before the first part with a width have no width, so any of them can anchor the pattern.
  const wide = parts.findIndex(({ exact }) => exact !== "");
  const isAtStart = parts.slice(0, wide === -1 ? parts.length : wide + 1).some((part) => part.isAtStart);
  for (const part of parts) {
    size += part.size;
    repeats = Math.max(repeats, part.repeats);
    isOpen &&= part.isOpen;
    if (part.exact !== undefined) {
      run += part.exact;
      if (whole !== undefined) whole += part.exact;
      continue;
    }
    close();
    whole = undefined;
    gap += part.gaps[0] as number;
    for (const [at, need] of part.needs.entries()) add(need, part.gaps[at + 1] as number);
  }
  if (whole !== undefined)
    return { needs: NO_NEEDS, gaps: [whole.length], exact: whole, size: Math.max(1, size), isOpen, isAtStart, repeats };
  close();
  return { needs, gaps: [...gaps, gap], exact: undefined, size, isOpen, isAtStart, repeats };
}

export function alternateParts(parts: readonly PatternPart[]): PatternPart {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  let [size, repeats, isOpen, isNeeded] = [1, 1, false, true];
  const all: string[] = [];
  let [before, after, width] = [0, 0, 0];
  for (const part of parts) {
    size += part.size;
    repeats = Math.max(repeats, part.repeats);
    isOpen ||= part.isOpen;
    const place = part.exact ? 0 : findLongestNeed(part.needs);
    const best = part.exact ? [part.exact] : (part.needs[place] ?? []);
    isNeeded &&= best.length > 0;
    all.push(...best);
    width = Math.max(width, measureWidth(part));
    if (part.exact !== undefined || place === -1) continue;
    before = Math.max(before, measureWidthBetween(part, 0, place));
    after = Math.max(after, measureWidthBetween(part, place + 1, part.needs.length));
  }
  const isAtStart = parts.every((part) => part.isAtStart);
  const open = { needs: NO_NEEDS, gaps: [width], exact: undefined, size, isOpen, isAtStart, repeats };
  if (!isNeeded) return open;
  // Every text that contains "aa" contains "a": the longer one adds nothing.
  const choices = all.filter(
    (text, at) => !all.some((other, place) => (other === text ? place < at : text.includes(other))),
  );
  if (choices.length > MAX_CHOICES) return open;
  // The shorter text may be anywhere in the longer one that it replaces.
  const slack = Math.max(...all.map(({ length }) => length)) - Math.min(...all.map(({ length }) => length));
  return { ...open, needs: [choices], gaps: [before + slack, after + slack] };
}

export function repeatPart(part: PatternPart, { min, max }: { min: number; max: number }): PatternPart {
  const counted = Math.max(min, max === Number.POSITIVE_INFINITY ? 1 : max, 1);
  const repeats = part.repeats * counted;
  if (repeats > MAX_REPEATS)
    throw new PatternSyntaxError("has nested repetitions with more than 1,000 repetitions in total");
  const size = part.size * counted + 1;
  const width = measureWidth(part);
  const times = (count: number) => (width === 0 || count === 0 ? 0 : width * count);
  if (min === 0) return { needs: NO_NEEDS, gaps: [times(max)], exact: undefined, size, isOpen: true, repeats };
  if (part.exact !== undefined && min === 1 && max === 1) return part;
  const needs = part.exact ? [[part.exact]] : part.needs;
  // The needs are those of the first repetition; the others follow it.
  const gaps = part.exact ? [0, 0] : [...part.gaps];
  gaps.push((gaps.pop() as number) + times(max - 1));
  return { ...part, needs, gaps, exact: undefined, size, repeats };
}

/** Returns the index of the set whose shortest text is the longest: it matches least often by chance. -1 without a set. */
function findLongestNeed(needs: PatternPart["needs"]): number {
  let best = -1;
  for (const [at, set] of needs.entries()) if (getShortestLength(set) > getShortestLength(needs[best] ?? [])) best = at;
  return best;
}

/** Returns the maximum number of characters in a match of the part. */
function measureWidth(part: PatternPart): number {
  return part.exact?.length ?? measureWidthBetween(part, 0, part.needs.length);
}

/** Returns the maximum number of characters from one gap to another, including the needs between them. */
function measureWidthBetween({ needs, gaps }: PatternPart, from: number, to: number): number {
  let width = 0;
  for (let at = from; at <= to; at++) {
    width += gaps[at] as number;
    if (at < to) width += Math.max(...(needs[at] as readonly string[]).map(({ length }) => length));
  }
  return width;
}

function getShortestLength(set: readonly string[]): number {
  return set.length === 0 ? 0 : Math.min(...set.map((text) => text.length));
}
