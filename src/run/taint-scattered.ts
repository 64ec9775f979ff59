import { decodeEscapes, tidyCodes } from "./taint-normalize.ts";
import { placedWords } from "./taint-text.ts";

/** The words of a text, to find those of an address whatever is between them. */
export interface WordText {
  /** The places of each word in `starts` and `ends`, in order. */
  places: ReadonlyMap<string, readonly number[]>;
  starts: readonly number[];
  ends: readonly number[];
  /** By place: whether a bracket opens right after the word, and whether one closes right before it. */
  opens: readonly boolean[];
  closes: readonly boolean[];
}

/** Reduces a text to its words, as written and with its escapes decoded. */
export function wordForms(text: string): WordText[] {
  return [...new Set([text, decodeEscapes(text)].map(tidyCodes))].map(wordTextOf);
}

function wordTextOf(text: string): WordText {
  const { plain, words } = placedWords(text);
  const places = new Map<string, number[]>();
  for (const [place, { word }] of words.entries()) {
    const known = places.get(word);
    if (known) known.push(place);
    else places.set(word, [place]);
  }
  const starts = words.map(({ at }) => at);
  const ends = words.map(({ at, word }) => at + word.length);
  const between = (from = 0, to = plain.length) => plain.slice(from, Math.min(to, from + LONGEST_MARK));
  return {
    places,
    starts,
    ends,
    opens: words.map((_, place) => OPENS.test(between(ends[place], starts[place + 1]))),
    closes: words.map((_, place) =>
      CLOSES.test(between(Math.max(ends[place - 1] ?? 0, (starts[place] ?? 0) - LONGEST_MARK), starts[place])),
    ),
  };
}

const OPENS = /[<([{]/;
const CLOSES = /[>)\]}]/;
const LONGEST_MARK = 64;

/** An address to look for. */
export interface ScatteredPiece {
  letters: string;
  /** How many words it has. */
  count: number;
}

/** How many characters there may be between the words of an address. */
const MOST_BETWEEN = 160;
/** A text that repeats the letters of an address more often than this is not looked at further: it could contain the address. */
const MOST_FOUND = 1_000_000;
/** Two words in this order are in many texts: then only brackets may be between them, and what these contain. */
const LEAST_WORDS = 3;

/**
 * Whether the words of an address, or parts of them, are in a text in this order and near to each other. No list of markup is complete: a model
 * repairs an address with anything in it. Contract: linear in the number of words that are a part of the address.
 */
export function standsScattered({ places, starts, ends, opens, closes }: WordText, piece: ScatteredPiece): boolean {
  const { letters, count } = piece;
  const { length } = letters;
  const isThere = (at: number, end: number) => places.has(letters.slice(at, end));
  const parts = Array.from({ length }, (_, index) => index);
  if (!parts.some((at) => isThere(0, at + 1)) || !parts.some((at) => isThere(at, length))) return false;
  const found: { place: number; at: number; end: number }[] = [];
  for (const at of parts) {
    for (const last of parts.slice(at)) {
      const end = last + 1;
      for (const place of places.get(letters.slice(at, end)) ?? []) found.push({ place, at, end });
      if (found.length > MOST_FOUND) return true;
    }
  }
  // The last letters first: a word is used once.
  found.sort((a, b) => a.place - b.place || b.at - a.at);
  /** By the number of letters found so far: where the latest such match begins, and the place of its last word. */
  const begun: ({ start: number; last: number } | undefined)[] = [];
  for (const { place, at, end } of found) {
    const before = at === 0 ? { start: starts[place] ?? 0, last: place } : begun[at];
    if (!before || (ends[place] ?? 0) - before.start > length + MOST_BETWEEN) continue;
    const isNext = place - before.last <= 1;
    if (!isNext && count < LEAST_WORDS && !(opens[before.last] && closes[place])) continue;
    if (end === length) return true;
    if (before.start >= (begun[end]?.start ?? 0)) begun[end] = { start: before.start, last: place };
  }
  return false;
}
