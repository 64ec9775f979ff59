import { isCommonWord } from "../../skill/common-words.ts";
import type { Bm25Index, RankOptions, ScoredDocument, WeightedTerm } from "./bm25f.ts";
import { getTerm, hasTermPair, type Postings } from "./postings.ts";
import type { ParsedQuery, QueryWord } from "./query.ts";
import { stemWord, toTerm, visitWords } from "./tokenizer.ts";

interface SearchHit extends ScoredDocument {
  /** How well the document fits, on one scale for catalogs of every size: 1 is about one rare and one common word in its description. */
  fit: number;
}

export interface SearchResult {
  best: readonly SearchHit[];
  /** The score of each document, and the number of query words it contains. */
  scores: Float64Array;
  words: Uint16Array;
  /** Returns the hit of a document requested by `always`, if it contains any query word. */
  hitOf(document: number): SearchHit | undefined;
  /** Returns the query words in a document, as they are written in the query. */
  wordsIn(document: number): string[];
}

/** A term to look up for a query word: the word itself, its correct spelling, or a part of it. */
interface SearchTerm extends WeightedTerm {
  word: QueryWord;
  /** The id of the term in the index: it is looked up in many documents. */
  id: number;
  rarity: number;
  /** 1 for an exact term of the index, less for a guess. */
  share: number;
}

/** The maximum number of terms to look up, most selective first. This bounds the cost of a long query. */
const MAX_SEARCH_TERMS = 48;
/** The number of best documents that are compared more closely. */
const MAX_COMPARED = 40;
/** The bonus for the whole name in a query, and for two neighbors, relative to the rarity of their terms. */
const NAME_BONUS = 0.25;
const PAIR_BONUS = 0.4;
/** The maximum number of unknown words to look up by spelling. */
const MAX_UNKNOWN_WORDS = 12;
const JOINED_SHARE = 0.8;
/** The share of a common word in the fit, and the factor that limits a score by its words that are not common. */
const COMMON_SHARE = 0.3;
const DISTINCTIVE_FACTOR = 3;

/** Finds documents by the words of a query: ranks all of them, then compares the best more closely. */
export class FullTextSearch {
  readonly #index: Bm25Index;
  readonly #nameOf: (document: number) => string;
  readonly #usesPairs: boolean;
  readonly #spellings: SpellingCorrector;
  readonly #names = new Map<number, readonly string[]>();

  constructor(index: Bm25Index, nameOf: (document: number) => string, usesPairs: boolean) {
    this.#index = index;
    this.#nameOf = nameOf;
    this.#usesPairs = usesPairs;
    this.#spellings = new SpellingCorrector(index);
  }

  search(query: ParsedQuery, { limit = 10, always, accepts }: RankOptions): SearchResult {
    const terms = this.#termsOf(query);
    const wide = limit === 0 ? 0 : Math.max(limit, MAX_COMPARED);
    const ranking = this.#index.rank(terms, {
      limit: wide,
      closest: MAX_COMPARED,
      ...(always ? { always } : {}),
      ...(accepts ? { accepts } : {}),
    });
    const byTerm = new Map(terms.map((term) => [term.term, term]));
    const pairs = this.#usesPairs
      ? query.pairs.flatMap(([a, b]) => createTermPairs(byTerm.get(a.term), byTerm.get(b.term)))
      : [];
    const compare = ({ document, score: base, words }: ScoredDocument): SearchHit => {
      const score = base + this.#nameBonus(document, byTerm) + this.#pairBonus(document, pairs);
      return { document, score, words, fit: this.#fitOf(document, score, terms) };
    };
    const best = ranking.best.map(compare).sort((a, b) => b.score - a.score || a.document - b.document);
    const { scores, words } = ranking;
    const compared = new Map(ranking.closest.map((scored) => [scored.document, compare(scored)]));
    for (const [document, { score }] of compared) scores[document] = score;
    return {
      best: best.slice(0, limit),
      scores,
      words,
      hitOf: (document) => {
        const [score = 0, count = 0] = [scores[document], words[document]];
        return compared.get(document) ?? (count === 0 ? undefined : { document, score, words: count, fit: 0 });
      },
      wordsIn: (document) => this.#wordsIn(document, query, terms),
    };
  }

  /** Returns the terms to look up, at most `MAX_SEARCH_TERMS`, in the order of the query. */
  #termsOf(query: ParsedQuery): SearchTerm[] {
    const found = new Map<string, SearchTerm>();
    const add = (term: string, word: QueryWord, share: number) => {
      const rarity = this.#index.rarity(term);
      const [known, weight] = [found.get(term), word.weight * share];
      if (known) known.weight = Math.max(known.weight, weight);
      else if (rarity > 0) found.set(term, { term, word, id: this.#index.idOf(term), weight, rarity, share });
    };
    const unknown: QueryWord[] = [];
    for (const word of query.words.values()) {
      if (this.#index.rarity(word.term) > 0) add(word.term, word, 1);
      else if (word.weight >= 1 && !isCommonWord(word.word)) unknown.push(word);
    }
    for (const word of unknown.slice(0, MAX_UNKNOWN_WORDS))
      for (const { term, share } of this.#spellings.near(word.term)) add(term, word, share);
    for (const [a, b] of query.pairs)
      if (PLAIN_WORD.test(a.word) && PLAIN_WORD.test(b.word))
        add(stemWord(a.word + b.word), a.weight < b.weight ? a : b, JOINED_SHARE);
    const terms = [...found.values()];
    if (terms.length <= MAX_SEARCH_TERMS) return terms;
    const bySelectivity = terms.toSorted((a, b) => b.weight * b.rarity - a.weight * a.rarity);
    const kept = new Set(bySelectivity.slice(0, MAX_SEARCH_TERMS));
    return terms.filter((term) => kept.has(term));
  }

  /** Returns the bonus for the part of the name that is in the query, weighted by rarity. */
  #nameBonus(document: number, terms: ReadonlyMap<string, SearchTerm>): number {
    let [covered, all] = [0, 0];
    for (const term of this.#nameTerms(document)) {
      const rarity = this.#index.rarity(term);
      all += rarity;
      const queried = terms.get(term);
      if (queried) covered += rarity * Math.min(1, queried.weight);
    }
    return all === 0 ? 0 : NAME_BONUS * covered * (covered / all);
  }

  #nameTerms(document: number): readonly string[] {
    let terms = this.#names.get(document);
    if (!terms) {
      const found = new Set<string>();
      visitWords(this.#nameOf(document), (word) => {
        const term = toTerm(word);
        if (term !== undefined) found.add(term);
      });
      terms = [...found];
      this.#names.set(document, terms);
    }
    return terms;
  }

  #pairBonus(document: number, pairs: readonly TermPair[]): number {
    let bonus = 0;
    for (const { a, b, worth } of pairs) if (hasTermPair(this.#index.postings, document, a, b)) bonus += worth;
    return PAIR_BONUS * bonus;
  }

  /** Returns the score relative to the rarest possible word, reduced if common words and guesses make up most of it. */
  #fitOf(document: number, score: number, terms: readonly SearchTerm[]): number {
    let distinctive = 0;
    for (const { id, word, share } of terms) {
      const own = this.#index.weightAt(document, id);
      if (own === 0) continue;
      distinctive += own * share * Math.min(word.weight, 1) * (isCommonWord(word.word) ? COMMON_SHARE : 1);
    }
    return Math.min(score, distinctive * DISTINCTIVE_FACTOR) / Math.log(1 + this.#index.size);
  }

  #wordsIn(document: number, query: ParsedQuery, terms: readonly SearchTerm[]): string[] {
    const held = new Set(terms.flatMap(({ term, word }) => (this.#index.countsIn(document, term) === 0 ? [] : word)));
    return [...query.words.values()].flatMap((word) => (held.has(word) ? word.word : []));
  }
}

const PLAIN_WORD = /^[a-z]{2,12}$/;

interface TermPair {
  a: string;
  b: string;
  worth: number;
}

function createTermPairs(a: SearchTerm | undefined, b: SearchTerm | undefined): TermPair[] {
  if (!a || !b) return [];
  return [{ a: a.term, b: b.term, worth: Math.min(a.rarity, b.rarity) * Math.min(1, a.weight, b.weight) }];
}

/** A term of the index that a query may have meant. */
interface SpellingSuggestion {
  term: string;
  /** From 0 to 1: its weight relative to an exact term. */
  share: number;
}

const MIN_WORD_LENGTH = 5;
const MAX_WORD_LENGTH = 24;
const MAX_SUGGESTIONS = 3;
const SHARE_BY_DISTANCE = [1, 0.7, 0.35];

/**
 * Finds terms for words that the index does not have: `invioce` is `invoice`, `devcontainer` is `dev` and `container`. It scans the terms
 * of the index once per word, and compares only those of similar length with similar letters.
 */
class SpellingCorrector {
  readonly #index: Bm25Index;
  readonly #known = new Map<string, readonly SpellingSuggestion[]>();
  #letters: Uint32Array | undefined;

  constructor(index: Bm25Index) {
    this.#index = index;
  }

  /** Returns the terms closest to one that the index does not have; none for numbers and short words. */
  near(term: string): readonly SpellingSuggestion[] {
    if (term.length < MIN_WORD_LENGTH || term.length > MAX_WORD_LENGTH || !PLAIN_TERM.test(term)) return [];
    let found = this.#known.get(term);
    if (!found) {
      found = this.#parts(term);
      if (found.length === 0) found = this.#closest(term);
      if (this.#known.size < MAX_CACHED_WORDS) this.#known.set(term, found);
    }
    return found;
  }

  /** Splits a term into two known words that were written as one. */
  #parts(term: string): SpellingSuggestion[] {
    for (let at = MIN_PART_LENGTH; at <= term.length - MIN_PART_LENGTH; at++) {
      const [first, second] = [term.slice(0, at), term.slice(at)];
      if (first.length + second.length < MIN_COMPOUND_LENGTH) continue;
      if (this.#index.rarity(first) > 0 && this.#index.rarity(second) > 0)
        return [first, second].map((part) => ({ term: part, share: PART_SHARE }));
    }
    return [];
  }

  #closest(term: string): SpellingSuggestion[] {
    const { postings } = this.#index;
    const { textStarts } = postings;
    const letters = this.#lettersOf(postings);
    const own = getLetterMask(term);
    const maxDistance = term.length < LONG_WORD ? 1 : 2;
    let [least, found]: [number, { id: number; distance: number }[]] = [maxDistance, []];
    for (let id = 0; id + 1 < textStarts.length; id++) {
      const length = (textStarts[id + 1] as number) - (textStarts[id] as number);
      if (length < term.length - least || length > term.length + least) continue;
      if (countBits((letters[id] as number) ^ own) > 2 * least) continue;
      const distance = computeEditDistance(term, getTerm(postings, id), least);
      if (distance > least || this.#index.rarityAt(id) === 0) continue;
      if (distance < least) [least, found] = [distance, found.filter((one) => one.distance <= distance)];
      found.push({ id, distance });
    }
    return found
      .filter(({ distance }) => distance === least)
      .map(({ id }) => ({ term: getTerm(postings, id), share: SHARE_BY_DISTANCE[least] as number }))
      .sort((a, b) => Number(b.term[0] === term[0]) - Number(a.term[0] === term[0]) || (a.term < b.term ? -1 : 1))
      .slice(0, MAX_SUGGESTIONS);
  }

  /** Returns a bit mask of the letters of each term. */
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

const PLAIN_TERM = /^[a-z]+$/;
const MAX_CACHED_WORDS = 1000;
const LONG_WORD = 8;
const MIN_PART_LENGTH = 3;
const MIN_COMPOUND_LENGTH = 8;
const PART_SHARE = 0.8;

function getLetterMask(term: string): number {
  let bits = 0;
  for (let at = 0; at < term.length; at++) bits |= 1 << (term.charCodeAt(at) & 31);
  return bits;
}

function countBits(number: number): number {
  let [bits, rest] = [0, number];
  for (; rest !== 0; bits++) rest &= rest - 1;
  return bits;
}

/** Returns the number of insertions, deletions, replacements and swaps of neighbors (Damerau-Levenshtein), or `max + 1` if it exceeds `max`. */
function computeEditDistance(a: string, b: string, max: number): number {
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
    if (least > max) return max + 1;
    [before, last] = [last, row];
  }
  return last[b.length] as number;
}
