import type { Postings } from "./postings.ts";
import { termAt } from "./postings.ts";
import type { RankIndex } from "./rank.ts";

/** A term of the index that a query may have meant. */
export interface Spelling {
  term: string;
  /** From 0 to 1: how much it counts beside a word that is written as it is in the index. */
  share: number;
}

const SHORTEST = 5;
const LONGEST = 24;
const MOST_SPELLINGS = 3;
const SHARES = [1, 0.7, 0.35];

/**
 * Finds terms for words that the index does not have: `invioce` is `invoice`, `devcontainer` is `dev` and `container`. It looks at
 * each term of the index once a word, and compares only those of about the same length that have about the same letters.
 */
export class Spellings {
  readonly #index: RankIndex;
  readonly #known = new Map<string, readonly Spelling[]>();
  #letters: Uint32Array | undefined;

  constructor(index: RankIndex) {
    this.#index = index;
  }

  /** The terms closest to one that the index does not have; none for a number or a word that is too short. */
  near(term: string): readonly Spelling[] {
    if (term.length < SHORTEST || term.length > LONGEST || !PLAIN.test(term)) return [];
    let found = this.#known.get(term);
    if (!found) {
      found = this.#parts(term);
      if (found.length === 0) found = this.#closest(term);
      if (this.#known.size < MOST_KNOWN) this.#known.set(term, found);
    }
    return found;
  }

  /** Two words that are written as one. */
  #parts(term: string): Spelling[] {
    for (let at = SHORTEST_PART; at <= term.length - SHORTEST_PART; at++) {
      const [first, second] = [term.slice(0, at), term.slice(at)];
      if (first.length + second.length < SHORTEST_COMPOUND) continue;
      if (this.#index.rarity(first) > 0 && this.#index.rarity(second) > 0)
        return [first, second].map((part) => ({ term: part, share: PART_SHARE }));
    }
    return [];
  }

  #closest(term: string): Spelling[] {
    const { postings } = this.#index;
    const { textStarts } = postings;
    const letters = this.#lettersOf(postings);
    const own = lettersIn(term);
    const most = term.length < LONG_WORD ? 1 : 2;
    let [least, found]: [number, { id: number; distance: number }[]] = [most, []];
    for (let id = 0; id + 1 < textStarts.length; id++) {
      const length = (textStarts[id + 1] as number) - (textStarts[id] as number);
      if (length < term.length - least || length > term.length + least) continue;
      if (bitsOf((letters[id] as number) ^ own) > 2 * least) continue;
      const distance = distanceOf(term, termAt(postings, id), least);
      if (distance > least || this.#index.rarityAt(id) === 0) continue;
      if (distance < least) [least, found] = [distance, found.filter((one) => one.distance <= distance)];
      found.push({ id, distance });
    }
    return found
      .filter(({ distance }) => distance === least)
      .map(({ id }) => ({ term: termAt(postings, id), share: SHARES[least] as number }))
      .sort((a, b) => Number(b.term[0] === term[0]) - Number(a.term[0] === term[0]) || (a.term < b.term ? -1 : 1))
      .slice(0, MOST_SPELLINGS);
  }

  /** For each term which letters it has, a bit each. */
  #lettersOf({ text, textStarts }: Postings): Uint32Array {
    if (this.#letters) return this.#letters;
    const letters = new Uint32Array(textStarts.length - 1);
    for (let id = 0; id < letters.length; id++) {
      let bits = 0;
      for (let at = textStarts[id] as number; at < (textStarts[id + 1] as number); at++)
        bits |= 1 << ((text[at] as number) & 31);
      letters[id] = bits;
    }
    this.#letters = letters;
    return letters;
  }
}

const PLAIN = /^[a-z]+$/;
const MOST_KNOWN = 1000;
const LONG_WORD = 8;
const SHORTEST_PART = 3;
const SHORTEST_COMPOUND = 8;
const PART_SHARE = 0.8;

function lettersIn(term: string): number {
  let bits = 0;
  for (let at = 0; at < term.length; at++) bits |= 1 << (term.charCodeAt(at) & 31);
  return bits;
}

function bitsOf(number: number): number {
  let [bits, rest] = [0, number];
  for (; rest !== 0; bits++) rest &= rest - 1;
  return bits;
}

/** The number of letters to insert, leave out, replace or swap with a neighbor; more than `most` is not counted further. */
function distanceOf(a: string, b: string, most: number): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    let least = i;
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let cost = Math.min(
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (last[j - 1] as number) + (isSame ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (before[j - 2] as number) + 1);
      row.push(cost);
      if (cost < least) least = cost;
    }
    if (least > most) return most + 1;
    [before, last] = [last, row];
  }
  return last[b.length] as number;
}
