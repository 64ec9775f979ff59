import { isSelected, type Match } from "./match.ts";
import { readQuery } from "./query.ts";
import { OFFERED_WEIGHT } from "./selectivity.ts";

/** The skills that a query is probably about, by its words. */
export interface Shortlist {
  /** Best first, at most five. Empty where nothing fits well enough. */
  matches: readonly Match[];
  /** The first is relevant beyond doubt by the measured margin rule. */
  isClear: boolean;
}

const MOST = 5;
/** Calibrated on requests and unrelated prompts in catalogs of 7 to 10,000 skills: docs/disclosure.md has what it was measured to do. */
export const SHORTLIST_FIT = 0.75;
/** The margin rule: the first fits this well, and its score is so many times that of the second. */
export const CLEAR_FIT = 1.25;
export const CLEAR_MARGIN = 1.6;

/**
 * Selects up to five matches by words that are worth showing to a model, and no more than `size`, or none: small talk and requests that no skill is for get an
 * empty list. Matches that were selected by a trigger or a mention are not in it.
 */
export function selectShortlist(matches: readonly Match[], query: string, size: number): Shortlist {
  const ranked = matches.filter((match) => !isSelected(match));
  if (ranked.length === 0 || readQuery(query).words.size === 0) return NONE;
  const shown = ranked.filter(isOffered).slice(0, Math.min(MOST, size));
  const [first] = shown;
  if (!first) return NONE;
  const second = Math.max(0, ...ranked.flatMap((match) => (match === first ? [] : match.score)));
  return { matches: shown, isClear: first.fit >= CLEAR_FIT && first.score >= second * CLEAR_MARGIN };
}

const NONE: Shortlist = { matches: [], isClear: false };

/** By its words, or by a trigger that is too broad to give the instructions, such as a path. */
function isOffered({ level, weight, fit }: Match): boolean {
  return fit >= SHORTLIST_FIT || (level === "weak" && weight >= OFFERED_WEIGHT);
}
