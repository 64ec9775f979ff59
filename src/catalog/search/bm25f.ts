import {
  COUNT_MASKS,
  COUNT_SHIFTS,
  FIELD_COUNT,
  findTermId,
  OWN_FIELDS_MASK,
  type Postings,
  unpackCount,
} from "./postings.ts";

export interface FieldWeight {
  /** The weight of a word in this field; 0 for a field that is not searched. */
  weight: number;
  /** Length normalization: from 0, where the length does not matter, to 1. */
  shortness: number;
}

/** A term of a query and its weight. */
export interface WeightedTerm {
  term: string;
  weight: number;
}

export interface ScoredDocument {
  document: number;
  score: number;
  /** The number of distinct query words in it. */
  words: number;
}

export interface RankOptions {
  limit?: number;
  /** Documents whose scores are wanted wherever they rank; they are not in `best`. */
  always?: { has(document: number): boolean };
  /** The number of `always` documents to rank. Defaults to 0: only their scores are returned. */
  closest?: number;
  accepts?: (document: number) => boolean;
}

export interface Ranking {
  best: ScoredDocument[];
  /** The best of `always`. */
  closest: ScoredDocument[];
  /** The score of each document, and the number of query words it contains. */
  scores: Float64Array;
  words: Uint16Array;
}

/**
 * Ranks documents by the words of a query (BM25F): a word weighs more if fewer documents have it and if its field weighs more. The
 * weights of a term are computed when a query first contains it.
 */
export class Bm25Index {
  readonly postings: Postings;
  readonly #shares: Float32Array;
  readonly #mask: number;
  readonly #weights: Float32Array;
  readonly #rarities: Float64Array;
  readonly #ids = new Map<string, number>();

  constructor(postings: Postings, fields: readonly FieldWeight[]) {
    this.postings = postings;
    this.#mask = computeFieldMask(fields);
    this.#shares = computeShares(postings, fields);
    this.#weights = new Float32Array(postings.documents.length);
    this.#rarities = new Float64Array(postings.starts.length - 1).fill(UNKNOWN_TERM);
  }

  get size(): number {
    return this.postings.size;
  }

  /** Returns how well a term separates documents; 0 if no document has it in the fields of this index. */
  rarity(term: string): number {
    const id = this.idOf(term);
    return id === -1 ? 0 : this.rarityAt(id);
  }

  rarityAt(id: number): number {
    const known = this.#rarities[id] as number;
    return known === UNKNOWN_TERM ? this.#weigh(id) : known;
  }

  /** Returns the best documents for the query, best first, and the scores of all. Ties keep document order. */
  rank(
    query: Iterable<WeightedTerm>,
    { limit = Number.POSITIVE_INFINITY, always, closest: maxClosest = 0, accepts }: RankOptions = {},
  ): Ranking {
    const { starts, documents } = this.postings;
    const scores = new Float64Array(this.size);
    const words = new Uint16Array(this.size);
    const touched: number[] = [];
    for (const { term, weight } of query) {
      const id = this.idOf(term);
      if (id === -1 || this.rarityAt(id) === 0) continue;
      const end = starts[id + 1] as number;
      for (let at = starts[id] as number; at < end; at++) {
        const own = this.#weights[at] as number;
        if (own === 0) continue;
        const document = documents[at] as number;
        if (words[document] === 0) touched.push(document);
        words[document] = (words[document] as number) + 1;
        scores[document] = (scores[document] as number) + weight * own;
      }
    }
    const best = new BestDocuments(limit, accepts);
    const closest = new BestDocuments(maxClosest);
    for (const document of touched) {
      const score = scores[document] as number;
      if (!best.isWanted(score) && !closest.isWanted(score)) continue;
      const list = always?.has(document) ? closest : best;
      if (list.isWanted(score)) list.add({ document, score, words: words[document] as number });
    }
    return { best: best.sorted(), closest: closest.sorted(), scores, words };
  }

  /** Returns the documents that contain a word, in order. */
  documentsWith(word: string): Uint32Array {
    const { starts, documents, counts } = this.postings;
    const id = this.idOf(word);
    if (id === -1) return NO_DOCUMENTS;
    const [from, to] = [starts[id] as number, starts[id + 1] as number];
    return documents.slice(from, to).filter((_, at) => ((counts[from + at] as number) & this.#mask) !== 0);
  }

  /** Returns the packed counts of the term in each field of the document; 0 if this index does not have it. */
  countsIn(document: number, term: string): number {
    const at = this.#placeOf(document, this.idOf(term));
    return at === -1 ? 0 : ((this.postings.counts[at] as number) & this.#mask) >>> 0;
  }

  /** Returns the weight of the term with this id in the document; 0 if it is missing. */
  weightAt(document: number, id: number): number {
    const at = id === -1 || this.rarityAt(id) === 0 ? -1 : this.#placeOf(document, id);
    return at === -1 ? 0 : (this.#weights[at] as number);
  }

  /** Returns the id of a term, or -1. */
  idOf(term: string): number {
    let id = this.#ids.get(term);
    if (id === undefined) {
      id = findTermId(this.postings, term);
      if (this.#ids.size >= MAX_CACHED_IDS) this.#ids.clear();
      this.#ids.set(term, id);
    }
    return id;
  }

  #placeOf(document: number, id: number): number {
    const { starts, documents } = this.postings;
    if (id === -1) return -1;
    let [low, high] = [starts[id] as number, starts[id + 1] as number];
    const end = high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((documents[middle] as number) < document) low = middle + 1;
      else high = middle;
    }
    return low < end && documents[low] === document ? low : -1;
  }

  /** Computes the weights of a term from its counts per field: rarer terms weigh more, and repetitions weigh less and less. */
  #weigh(id: number): number {
    const { starts, documents, counts } = this.postings;
    const mask = this.#mask;
    const [from, to] = [starts[id] as number, starts[id + 1] as number];
    let held = 0;
    for (let at = from; at < to; at++) if (((counts[at] as number) & mask) !== 0) held++;
    const rarity = held === 0 ? 0 : computeRarity(this.size, held);
    for (let at = from; at < to; at++) {
      const packed = ((counts[at] as number) & mask) >>> 0;
      if (packed === 0) continue;
      const frequency = this.#frequency((documents[at] as number) * FIELD_COUNT, packed);
      // Rounded before the multiplication, as a Float32Array would store it.
      this.#weights[at] = Math.fround(frequency / (SATURATION + frequency)) * rarity;
    }
    this.#rarities[id] = rarity;
    return rarity;
  }

  #frequency(own: number, packed: number): number {
    const shares = this.#shares;
    let frequency = 0;
    if ((packed & OWN_FIELDS_MASK) !== 0) {
      for (let field = 0; field < BODY_FIELD; field++) {
        const times = unpackCount(packed, field);
        if (times !== 0) frequency += times * (shares[own + field] as number);
      }
    }
    const inBody = packed >>> BODY_SHIFT; // Most terms are only in the body.
    return inBody === 0 ? frequency : frequency + inBody * (shares[own + BODY_FIELD] as number);
  }
}

const UNKNOWN_TERM = -1;
/** The last field. */
const BODY_FIELD = FIELD_COUNT - 1;
const BODY_SHIFT = COUNT_SHIFTS[BODY_FIELD] as number;
const MAX_CACHED_IDS = 10_000;
const NO_DOCUMENTS = new Uint32Array(0);
/** Determines how soon repetitions of a word stop counting. */
const SATURATION = 1.2;

function computeRarity(size: number, held: number): number {
  return Math.log(1 + (size - held + 0.5) / (held + 0.5));
}

function computeFieldMask(fields: readonly FieldWeight[]): number {
  let mask = 0;
  for (const [field, { weight }] of fields.entries())
    if (weight > 0) mask += (COUNT_MASKS[field] as number) * 2 ** (COUNT_SHIFTS[field] as number);
  return mask;
}

/** Computes the weight of one occurrence in each field of each document. */
function computeShares({ size, lengths }: Postings, fields: readonly FieldWeight[]): Float32Array {
  const shares = new Float32Array(size * FIELD_COUNT);
  for (const [field, { weight, shortness }] of fields.entries()) {
    let [total, filled] = [0, 0];
    for (let document = 0; document < size; document++) {
      const length = lengths[document * FIELD_COUNT + field] as number;
      total += length;
      if (length > 0) filled++;
    }
    const average = total / (filled || 1) || 1;
    for (let document = 0; document < size; document++) {
      const at = document * FIELD_COUNT + field;
      shares[at] = weight / (1 - shortness + (shortness * (lengths[at] as number)) / average);
    }
  }
  return shares;
}

/** Keeps the best `limit` documents without sorting the rest. */
class BestDocuments {
  readonly #limit: number;
  readonly #accepts: (document: number) => boolean;
  #kept: ScoredDocument[] = [];
  #least = Number.NEGATIVE_INFINITY;

  constructor(limit: number, accepts: (document: number) => boolean = () => true) {
    this.#limit = limit;
    this.#accepts = accepts;
  }

  isWanted(score: number): boolean {
    return this.#limit > 0 && score >= this.#least;
  }

  add(scored: ScoredDocument): void {
    if (!this.#accepts(scored.document)) return;
    this.#kept.push(scored);
    if (this.#kept.length < this.#limit * 4 + 64) return;
    this.#kept = this.sorted();
    this.#least = this.#kept.at(-1)?.score ?? this.#least;
  }

  sorted(): ScoredDocument[] {
    const sorted = this.#kept.sort((a, b) => b.score - a.score || a.document - b.document);
    return sorted.length > this.#limit ? sorted.slice(0, this.#limit) : sorted;
  }
}
