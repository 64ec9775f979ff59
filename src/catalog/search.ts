import { isCommonWord } from "../skill/common-words.ts";
import { hasPair } from "./postings.ts";
import type { QueryReading, QueryWord } from "./query.ts";
import type { RankIndex, RankOptions, Scored, WeightedTerm } from "./rank.ts";
import { Spellings } from "./spelling.ts";
import { eachWord, stem, termOf } from "./terms.ts";

export interface Hit extends Scored {
  /** How much speaks for the document, on one scale for catalogs of every size: 1 is about a rare word and a common one in its description. */
  fit: number;
}

export interface SearchResult {
  best: readonly Hit[];
  /** For each document its score, and how many words of the query it has. */
  scores: Float64Array;
  words: Uint16Array;
  /** The hit of a document that was asked for by `always`, when it has a word of the query. */
  hitOf(document: number): Hit | undefined;
  /** The words of the query that a document has, as they are written in the query. */
  wordsIn(document: number): string[];
}

/** A term that is looked up for a word of the query: the word itself, its correct spelling, or a part of it. */
interface SearchTerm extends WeightedTerm {
  word: QueryWord;
  rarity: number;
  /** 1 for a word that is in the index as it is written, less for a guess. */
  share: number;
}

/** How many terms of a query are looked up: those that tell most. This bounds what a long query costs. */
export const MOST_TERMS = 48;
/** How many of the best documents are compared more closely. */
const COMPARED = 40;
/** What the whole name in a query adds, and two neighbors, in parts of what their terms tell. */
const NAME_BONUS = 0.25;
const PAIR_BONUS = 0.4;
/** How many unknown words are looked up by their spelling. */
const MOST_UNKNOWN = 12;
const JOINED_SHARE = 0.8;
/** What a common word counts for the fit beside any other, and how much of a score words have to make up that are not common. */
const COMMON_SHARE = 0.3;
const TELLING_TIMES = 3;

/** Finds documents by the words of a query: ranks all of them, then compares the best more closely. */
export class Search {
  readonly #index: RankIndex;
  readonly #nameOf: (document: number) => string;
  readonly #usesPairs: boolean;
  readonly #spellings: Spellings;
  readonly #names = new Map<number, readonly string[]>();

  constructor(index: RankIndex, nameOf: (document: number) => string, usesPairs: boolean) {
    this.#index = index;
    this.#nameOf = nameOf;
    this.#usesPairs = usesPairs;
    this.#spellings = new Spellings(index);
  }

  search(query: QueryReading, { limit = 10, always, accepts }: RankOptions): SearchResult {
    const terms = this.#termsOf(query);
    const wide = limit === 0 ? 0 : Math.max(limit, COMPARED);
    const ranking = this.#index.rank(terms, {
      limit: wide,
      closest: COMPARED,
      ...(always ? { always } : {}),
      ...(accepts ? { accepts } : {}),
    });
    const byTerm = new Map(terms.map((term) => [term.term, term]));
    const pairs = this.#usesPairs
      ? query.pairs.flatMap(([a, b]) => pairOf(byTerm.get(a.term), byTerm.get(b.term)))
      : [];
    const compare = ({ document, score: base, words }: Scored): Hit => {
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

  /** The terms to look up, at most `MOST_TERMS`, in the order of the query. */
  #termsOf(query: QueryReading): SearchTerm[] {
    const found = new Map<string, SearchTerm>();
    const add = (term: string, word: QueryWord, share: number) => {
      const rarity = this.#index.rarity(term);
      const [known, weight] = [found.get(term), word.weight * share];
      if (known) known.weight = Math.max(known.weight, weight);
      else if (rarity > 0) found.set(term, { term, word, weight, rarity, share });
    };
    const unknown: QueryWord[] = [];
    for (const word of query.words.values()) {
      if (this.#index.rarity(word.term) > 0) add(word.term, word, 1);
      else if (word.weight >= 1 && !isCommonWord(word.word)) unknown.push(word);
    }
    for (const word of unknown.slice(0, MOST_UNKNOWN))
      for (const { term, share } of this.#spellings.near(word.term)) add(term, word, share);
    for (const [a, b] of query.pairs)
      if (PLAIN.test(a.word) && PLAIN.test(b.word))
        add(stem(a.word + b.word), a.weight < b.weight ? a : b, JOINED_SHARE);
    const terms = [...found.values()];
    if (terms.length <= MOST_TERMS) return terms;
    const telling = terms.toSorted((a, b) => b.weight * b.rarity - a.weight * a.rarity);
    const kept = new Set(telling.slice(0, MOST_TERMS));
    return terms.filter((term) => kept.has(term));
  }

  /** The share of the name that is in the query, in what its words tell. */
  #nameBonus(document: number, terms: ReadonlyMap<string, SearchTerm>): number {
    let [covered, all] = [0, 0];
    for (const term of this.#nameTerms(document)) {
      const rarity = this.#index.rarity(term);
      all += rarity;
      const asked = terms.get(term);
      if (asked) covered += rarity * Math.min(1, asked.weight);
    }
    return all === 0 ? 0 : NAME_BONUS * covered * (covered / all);
  }

  #nameTerms(document: number): readonly string[] {
    let terms = this.#names.get(document);
    if (!terms) {
      const found = new Set<string>();
      eachWord(this.#nameOf(document), (word) => {
        const term = termOf(word);
        if (term !== undefined) found.add(term);
      });
      terms = [...found];
      this.#names.set(document, terms);
    }
    return terms;
  }

  #pairBonus(document: number, pairs: readonly Pair[]): number {
    let bonus = 0;
    for (const { a, b, worth } of pairs) if (hasPair(this.#index.postings, document, a, b)) bonus += worth;
    return PAIR_BONUS * bonus;
  }

  /** The score in parts of what the rarest word counts, or less where common words and guesses make up most of it. */
  #fitOf(document: number, score: number, terms: readonly SearchTerm[]): number {
    let telling = 0;
    for (const { term, word, share } of terms) {
      const own = this.#index.weightIn(document, term);
      if (own === 0) continue;
      telling += own * share * Math.min(word.weight, 1) * (isCommonWord(word.word) ? COMMON_SHARE : 1);
    }
    return Math.min(score, telling * TELLING_TIMES) / Math.log(1 + this.#index.size);
  }

  #wordsIn(document: number, query: QueryReading, terms: readonly SearchTerm[]): string[] {
    const held = new Set(terms.flatMap(({ term, word }) => (this.#index.countsIn(document, term) === 0 ? [] : word)));
    return [...query.words.values()].flatMap((word) => (held.has(word) ? word.word : []));
  }
}

const PLAIN = /^[a-z]{2,12}$/;

interface Pair {
  a: string;
  b: string;
  worth: number;
}

function pairOf(a: SearchTerm | undefined, b: SearchTerm | undefined): Pair[] {
  if (!a || !b) return [];
  return [{ a: a.term, b: b.term, worth: Math.min(a.rarity, b.rarity) * Math.min(1, a.weight, b.weight) }];
}
