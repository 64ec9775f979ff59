import { toTerm, visitWords } from "./tokenizer.ts";

/** The fields of a document, in the order of its texts. */
export const FIELD_NAMES = ["name", "description", "triggers", "examples", "body"] as const;
export const FIELD_COUNT = FIELD_NAMES.length;

/**
 * An inverted index as flat arrays, so that it can be written to a file and used from there without conversion. Contract: the documents of a
 * term are in ascending order.
 */
export interface Postings {
  /** The number of documents. */
  readonly size: number;
  /** The concatenated terms as UTF-8, and the start of each. */
  readonly text: Uint8Array;
  readonly textStarts: Uint32Array;
  /** A hash table of terms with open addressing: the id of a term plus one, or 0. Its length is a power of two. */
  readonly table: Uint32Array;
  /** The start of each term's documents in the next two arrays. */
  readonly starts: Uint32Array;
  readonly documents: Uint32Array;
  /** The counts of the term in each field of the document, packed. */
  readonly counts: Uint32Array;
  /** The number of terms in each field of each document. */
  readonly lengths: Uint16Array;
  /** Hashes of neighboring terms in each document, ascending, and the start of each document's hashes. */
  readonly pairs: Uint16Array;
  readonly pairStarts: Uint32Array;
}

/** The number of bits of each field in packed counts, and their offsets. */
const COUNT_BITS = [3, 6, 5, 6, 12] as const;
export const COUNT_SHIFTS: readonly number[] = COUNT_BITS.map((_, field) =>
  COUNT_BITS.slice(0, field).reduce((a, b) => a + b, 0),
);
export const COUNT_MASKS: readonly number[] = COUNT_BITS.map((bits) => 2 ** bits - 1);
const COUNT_UNITS = COUNT_SHIFTS.map((shift) => 2 ** shift);
/** The counts of every field except the body. */
export const OWN_FIELDS_MASK = 2 ** (COUNT_SHIFTS[4] as number) - 1;

/** Bounds the size of one document in an index. */
const MAX_PAIRS = 2000;
const MAX_TERMS_READ = 50_000;
const MAX_TERM_LENGTH = 64;

/** Reads documents one by one and builds their postings. */
export class PostingsBuilder {
  readonly #ids = new Map<string, number>();
  readonly #words = new Map<string, number>();
  readonly #names: string[] = [];
  readonly #hashes: number[] = [];
  readonly #terms = new NumberList();
  readonly #documents = new NumberList();
  readonly #counts = new NumberList();
  readonly #lengths: number[] = [];
  readonly #pairs: Uint16Array[] = [];
  /** For each term, the entry in the current document, and the document it belongs to. */
  readonly #entries: number[] = [];
  readonly #seenIn: number[] = [];
  #size = 0;

  /** Adds a document with one text per field; the last may be absent. */
  add(texts: readonly string[]): void {
    const document = this.#size++;
    const pairs = new Set<number>();
    for (let field = 0; field < FIELD_COUNT; field++) {
      const text = texts[field] ?? "";
      let length = 0;
      let before = -1;
      const take = (word: string) => {
        const term = this.#termOf(word);
        if (term === -1 || length >= MAX_TERMS_READ) return;
        length++;
        this.#count(term, document, field);
        if (before !== -1 && before !== term && pairs.size < MAX_PAIRS)
          pairs.add(hashPair(this.#hashes[before] as number, this.#hashes[term] as number));
        before = term;
      };
      if (text !== "") visitWords(text, take);
      this.#lengths.push(Math.min(length, 0xffff));
    }
    this.#pairs.push(Uint16Array.from(pairs).sort());
  }

  /** Copies the terms of the documents that have a number in `from`. Each of them must then be added with `copyDocument`. */
  copyTerms(other: Postings, from: readonly (number | undefined)[]): void {
    const places = new Int32Array(other.size).fill(-1);
    for (const [document, old] of from.entries()) if (old !== undefined) places[old] = document;
    const vocabulary = other.starts.length - 1;
    for (let id = 0; id < vocabulary; id++) {
      let term = -1;
      for (let at = other.starts[id] as number; at < (other.starts[id + 1] as number); at++) {
        const document = places[other.documents[at] as number] as number;
        if (document === -1) continue;
        if (term === -1) term = this.#idOf(getTerm(other, id));
        this.#terms.push(term);
        this.#documents.push(document);
        this.#counts.push(other.counts[at] as number);
      }
    }
  }

  /** Adds a document of other postings, whose terms were copied. */
  copyDocument(other: Postings, document: number): void {
    this.#size++;
    for (let field = 0; field < FIELD_COUNT; field++)
      this.#lengths.push(other.lengths[document * FIELD_COUNT + field] as number);
    this.#pairs.push(other.pairs.slice(other.pairStarts[document], other.pairStarts[document + 1]));
  }

  build(): Postings {
    const order = sortByKey(this.#terms.values(), sortByKey(this.#documents.values()));
    const [terms, documents, counts] = [this.#terms.values(), this.#documents.values(), this.#counts.values()];
    const starts = new Uint32Array(this.#names.length + 1);
    for (const term of terms) starts[term + 1] = (starts[term + 1] as number) + 1;
    for (let id = 1; id < starts.length; id++) starts[id] = (starts[id] as number) + (starts[id - 1] as number);
    const pairStarts = new Uint32Array(this.#size + 1);
    for (const [document, own] of this.#pairs.entries())
      pairStarts[document + 1] = (pairStarts[document] as number) + own.length;
    const pairs = new Uint16Array(pairStarts[this.#size] as number);
    for (const [document, own] of this.#pairs.entries()) pairs.set(own, pairStarts[document]);
    return {
      size: this.#size,
      ...this.#vocabulary(),
      starts,
      documents: order.map((at) => documents[at] as number),
      counts: order.map((at) => counts[at] as number),
      lengths: Uint16Array.from(this.#lengths),
      pairs,
      pairStarts,
    };
  }

  #vocabulary(): Pick<Postings, "text" | "textStarts" | "table"> {
    const text = Uint8Array.from(Buffer.from(this.#names.join("")));
    const textStarts = new Uint32Array(this.#names.length + 1);
    let length = 64;
    while (length < this.#names.length * 2) length *= 2;
    const table = new Uint32Array(length);
    for (const [id, name] of this.#names.entries()) {
      const bytes = Buffer.byteLength(name);
      textStarts[id + 1] = (textStarts[id] as number) + bytes;
      let slot = (this.#hashes[id] as number) & (length - 1);
      while (table[slot] !== 0) slot = (slot + 1) & (length - 1);
      table[slot] = id + 1;
    }
    return { text, textStarts, table };
  }

  #termOf(word: string): number {
    let id = this.#words.get(word);
    if (id === undefined) {
      const term = toTerm(word);
      id = term === undefined ? -1 : this.#idOf(term);
      this.#words.set(word, id);
    }
    return id;
  }

  #idOf(text: string): number {
    const term = text.slice(0, MAX_TERM_LENGTH).toWellFormed();
    let id = this.#ids.get(term);
    if (id === undefined) {
      id = this.#names.length;
      this.#ids.set(term, id);
      this.#names.push(term);
      this.#hashes.push(hashTerm(term));
      this.#entries.push(0);
      this.#seenIn.push(-1);
    }
    return id;
  }

  #count(term: number, document: number, field: number): void {
    if (this.#seenIn[term] !== document) {
      this.#seenIn[term] = document;
      this.#entries[term] = this.#terms.length;
      this.#terms.push(term);
      this.#documents.push(document);
      this.#counts.push(0);
    }
    const entry = this.#entries[term] as number;
    const packed = this.#counts.at(entry);
    if (unpackCount(packed, field) < (COUNT_MASKS[field] as number))
      this.#counts.set(entry, packed + (COUNT_UNITS[field] as number));
  }
}

/** Returns the id of a term; -1 if no document has it. */
export function findTermId(postings: Postings, term: string): number {
  const { table } = postings;
  let slot = hashTerm(term) & (table.length - 1);
  // A damaged table may have no empty slot.
  for (let tries = 0; tries < table.length; tries++) {
    const id = (table[slot] as number) - 1;
    if (id === -1) return -1;
    if (getTerm(postings, id) === term) return id;
    slot = (slot + 1) & (table.length - 1);
  }
  return -1;
}

export function getTerm({ text, textStarts }: Postings, id: number): string {
  const [from, to] = [textStarts[id] ?? 0, textStarts[id + 1] ?? 0];
  let term = "";
  for (let at = from; at < to; at++) {
    const code = text[at] as number;
    if (code > 127) return Buffer.from(text.subarray(from, to)).toString("utf8");
    term += String.fromCharCode(code);
  }
  return term;
}

/** Returns true if two terms are neighbors in a document. A few of a thousand answers are false positives. */
export function hasTermPair({ pairs, pairStarts }: Postings, document: number, a: string, b: string): boolean {
  const wanted = hashPair(hashTerm(a), hashTerm(b));
  let [low, high] = [pairStarts[document] ?? 0, pairStarts[document + 1] ?? 0];
  const end = high;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((pairs[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low < end && pairs[low] === wanted;
}

export function unpackCount(packed: number, field: number): number {
  return (packed >>> (COUNT_SHIFTS[field] as number)) & (COUNT_MASKS[field] as number);
}

/** FNV-1a of the UTF-16 units. */
function hashTerm(term: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < term.length; at++) hash = Math.imul(hash ^ term.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

function hashPair(a: number, b: number): number {
  return (Math.imul(Math.imul(a, 31) + b, 0x9e3779b1) >>> 16) & 0xffff;
}

/** A growable list of numbers, without an object for each. */
class NumberList {
  #values = new Uint32Array(1024);
  length = 0;

  push(value: number): void {
    if (this.length === this.#values.length) {
      const larger = new Uint32Array(this.length * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.length++] = value;
  }

  at(index: number): number {
    return this.#values[index] as number;
  }

  set(index: number, value: number): void {
    this.#values[index] = value;
  }

  values(): Uint32Array {
    return this.#values.subarray(0, this.length);
  }
}

/** Returns the order of entries by ascending keys; equal keys keep the order of `order`. */
function sortByKey(keys: Uint32Array, order?: Uint32Array): Uint32Array {
  let max = 0;
  for (const key of keys) if (key > max) max = key;
  const starts = new Uint32Array(max + 2);
  for (const key of keys) starts[key + 1] = (starts[key + 1] as number) + 1;
  for (let key = 1; key < starts.length; key++) starts[key] = (starts[key] as number) + (starts[key - 1] as number);
  const sorted = new Uint32Array(keys.length);
  for (let at = 0; at < keys.length; at++) {
    const entry = order ? (order[at] as number) : at;
    const key = keys[entry] as number;
    sorted[starts[key] as number] = entry;
    starts[key] = (starts[key] as number) + 1;
  }
  return sorted;
}
