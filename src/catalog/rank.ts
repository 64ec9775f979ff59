import { eachWord, termOf } from "./terms.ts";

export interface Field {
  /** How much a word in this field counts. */
  weight: number;
  /** From 0, a long text is as good as a short one, to 1. */
  shortness: number;
}

export interface Scored {
  document: number;
  score: number;
  /** How many different words of the query stand in it. */
  words: number;
}

export interface RankOptions {
  limit?: number;
  /** Documents whose scores are wanted wherever they stand; they are not among the best. */
  always?: ReadonlyMap<number, unknown>;
  accepts?: (document: number) => boolean;
}

export interface Ranking {
  best: Scored[];
  asked: ReadonlyMap<number, Scored>;
}

/** Ranks documents by the words of a query (BM25F): a word counts more the fewer documents hold it and the weightier its field. */
export class RankIndex {
  readonly size: number;
  readonly #ids = new Map<string, number>();
  readonly #starts: Uint32Array;
  readonly #documents: Uint32Array;
  readonly #weights: Float32Array;

  /** Contract: `textsOf` gives the texts of a document, one a field; it is called once for each, in order. */
  constructor(fields: readonly Field[], size: number, textsOf: (document: number) => readonly string[]) {
    this.size = size;
    const { occurrences, bounds, averages } = this.#read(fields.length, textsOf);
    const vocabulary = this.#ids.size;
    this.#starts = startsOf(occurrences, bounds, fields.length, vocabulary);
    const total = this.#starts[vocabulary] ?? 0;
    this.#documents = new Uint32Array(total);
    this.#weights = new Float32Array(total);
    const filled = this.#starts.slice();
    const places = new Int32Array(vocabulary);
    const seenIn = new Int32Array(vocabulary).fill(-1);
    for (let slot = 0; slot + 1 < bounds.length; slot++) {
      const [from, to] = [bounds[slot] as number, bounds[slot + 1] as number];
      const [document, field] = [Math.floor(slot / fields.length), slot % fields.length];
      const { weight, shortness } = fields[field] as Field;
      const share = weight / (1 - shortness + (shortness * (to - from)) / (averages[field] || 1));
      for (let at = from; at < to; at++) {
        const term = occurrences[at] as number;
        if (seenIn[term] !== document) {
          seenIn[term] = document;
          const place = filled[term] as number;
          places[term] = place;
          filled[term] = place + 1;
          this.#documents[place] = document;
        }
        const place = places[term] as number;
        this.#weights[place] = (this.#weights[place] as number) + share;
      }
    }
    this.#weigh(vocabulary);
  }

  /** From how often words stand where to what they count: the rarer the more, and further occurrences less and less. */
  #weigh(vocabulary: number): void {
    for (let term = 0; term < vocabulary; term++) {
      const [from, to] = [this.#starts[term] as number, this.#starts[term + 1] as number];
      const rarity = Math.log(1 + (this.size - (to - from) + 0.5) / (to - from + 0.5));
      for (let at = from; at < to; at++) {
        const frequency = this.#weights[at] as number;
        this.#weights[at] = (rarity * frequency) / (SATURATION + frequency);
      }
    }
  }

  /** The best documents that hold a word of the query, best first, and what `always` got; equal ones in their own order. */
  rank(query: Iterable<string>, { limit = Number.POSITIVE_INFINITY, always, accepts }: RankOptions = {}): Ranking {
    const scores = new Float64Array(this.size);
    const words = new Uint16Array(this.size);
    const touched: number[] = [];
    for (const word of new Set(query)) {
      const id = this.#ids.get(word);
      if (id === undefined) continue;
      const end = this.#starts[id + 1] ?? 0;
      for (let at = this.#starts[id] ?? 0; at < end; at++) {
        const document = this.#documents[at] ?? 0;
        if (words[document] === 0) touched.push(document);
        words[document] = (words[document] ?? 0) + 1;
        scores[document] = (scores[document] ?? 0) + (this.#weights[at] ?? 0);
      }
    }
    const best = new Best(limit, accepts);
    const asked = new Map<number, Scored>();
    for (const document of touched) {
      const scored = { document, score: scores[document] ?? 0, words: words[document] ?? 0 };
      if (always?.has(document)) asked.set(document, scored);
      else best.add(scored);
    }
    return { best: best.sorted(), asked };
  }

  /** Which of these words stand in the document. */
  wordsIn(document: number, words: Iterable<string>): string[] {
    return Array.from(words).filter((word) => {
      const id = this.#ids.get(word);
      if (id === undefined) return false;
      let [low, high] = [this.#starts[id] ?? 0, this.#starts[id + 1] ?? 0];
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((this.#documents[middle] ?? 0) < document) low = middle + 1;
        else high = middle;
      }
      return low < (this.#starts[id + 1] ?? 0) && this.#documents[low] === document;
    });
  }

  #read(fieldCount: number, textsOf: (document: number) => readonly string[]) {
    let occurrences = new Uint32Array(this.size * 64 + 64);
    const bounds = new Uint32Array(this.size * fieldCount + 1);
    const lengths = new Float64Array(fieldCount);
    const filled = new Float64Array(fieldCount);
    const known = new Map<string, number>();
    let end = 0;
    const take = (word: string) => {
      let id = known.get(word);
      if (id === undefined) {
        const term = termOf(word);
        id = term === undefined ? -1 : this.#idOf(term);
        known.set(word, id);
      }
      if (id === -1) return;
      if (end === occurrences.length) {
        const larger = new Uint32Array(end * 2);
        larger.set(occurrences);
        occurrences = larger;
      }
      occurrences[end++] = id;
    };
    for (let document = 0; document < this.size; document++) {
      const texts = textsOf(document);
      for (let field = 0; field < fieldCount; field++) {
        const text = texts[field] ?? "";
        const start = end;
        if (text !== "") eachWord(text, take);
        bounds[document * fieldCount + field + 1] = end;
        if (end > start) {
          lengths[field] = (lengths[field] ?? 0) + end - start;
          filled[field] = (filled[field] ?? 0) + 1;
        }
      }
    }
    return { occurrences, bounds, averages: lengths.map((length, field) => length / (filled[field] || 1)) };
  }

  #idOf(word: string): number {
    let id = this.#ids.get(word);
    if (id === undefined) {
      id = this.#ids.size;
      this.#ids.set(word, id);
    }
    return id;
  }
}

/** How soon further occurrences of a word stop counting. */
const SATURATION = 1.2;

/** Where each word's documents begin, by counting how many hold it. */
function startsOf(occurrences: Uint32Array, bounds: Uint32Array, fields: number, vocabulary: number): Uint32Array {
  const starts = new Uint32Array(vocabulary + 1);
  const seenIn = new Int32Array(vocabulary).fill(-1);
  for (let slot = 0; slot + 1 < bounds.length; slot++) {
    const document = Math.floor(slot / fields);
    for (let at = bounds[slot] as number; at < (bounds[slot + 1] as number); at++) {
      const term = occurrences[at] as number;
      if (seenIn[term] === document) continue;
      seenIn[term] = document;
      starts[term + 1] = (starts[term + 1] as number) + 1;
    }
  }
  for (let term = 1; term <= vocabulary; term++) starts[term] = (starts[term] as number) + (starts[term - 1] as number);
  return starts;
}

/** Keeps the best `limit` of what it is given, without sorting the rest. */
class Best {
  readonly #limit: number;
  readonly #accepts: (document: number) => boolean;
  #kept: Scored[] = [];
  #least = Number.NEGATIVE_INFINITY;

  constructor(limit: number, accepts: (document: number) => boolean = () => true) {
    this.#limit = limit;
    this.#accepts = accepts;
  }

  add(scored: Scored): void {
    if (scored.score < this.#least || !this.#accepts(scored.document)) return;
    this.#kept.push(scored);
    if (this.#kept.length < this.#limit * 4 + 64) return;
    this.#kept = this.sorted();
    this.#least = this.#kept.at(-1)?.score ?? this.#least;
  }

  sorted(): Scored[] {
    const sorted = this.#kept.sort((a, b) => b.score - a.score || a.document - b.document);
    return sorted.length > this.#limit ? sorted.slice(0, this.#limit) : sorted;
  }
}
