import { decodeEscapes, findWords, removeDisplayCodes } from "./taint-text.ts";

/** The number of equal consecutive characters that is not a coincidence. */
export const RUN_LENGTH = 20;

// Random, so that an author cannot craft a text with many runs of one hash.
const HASH_BASE = Math.floor(Math.random() * 0x1_0000_0000) | 1;

let hashTop = 1;
for (let power = 1; power < RUN_LENGTH; power++) hashTop = Math.imul(hashTop, HASH_BASE);

const FREE_SLOT = -1;

/** Indexes all runs of 20 characters in some texts, to find them in others. Each text is read once, however long it is. */
export class SubstringIndex {
  readonly #joined: string;
  /** The start of each run, in the slot of its hash or the next free slot. */
  readonly #slots: Int32Array;
  readonly #shift: number;
  /** Hashes by the start of a run. */
  readonly #hashes: Int32Array;
  readonly #isOut: Uint8Array;
  #left = 0;

  constructor(texts: readonly string[]) {
    // Folded text contains no NUL.
    this.#joined = [...new Set(texts)].filter(({ length }) => length >= RUN_LENGTH).join("\0");
    const { length } = this.#joined;
    const bits = Math.max(4, Math.ceil(Math.log2(length + 1)) + 3);
    this.#shift = 32 - bits;
    this.#slots = new Int32Array(2 ** bits).fill(FREE_SLOT);
    this.#hashes = new Int32Array(length);
    this.#isOut = new Uint8Array(length);
    this.#fill();
  }

  get isEmpty(): boolean {
    return this.#left === 0;
  }

  /** Excludes the runs that this text contains too. */
  exclude(text: string): void {
    if (this.isEmpty) return;
    this.#each(text, (index) => {
      this.#isOut[index] = 1;
      this.#left--;
      return this.isEmpty;
    });
  }

  isContainedIn(text: string): boolean {
    return !this.isEmpty && this.#each(text, () => true);
  }

  #fill(): void {
    const most = this.#slots.length - 1;
    let barrier = -1;
    let hash = 0;
    for (let end = 0; end < this.#joined.length; end++) {
      hash = rollHash(hash, this.#joined, end);
      const at = end - RUN_LENGTH + 1;
      if (this.#joined.charCodeAt(end) === 0) barrier = end;
      if (at < 0 || barrier >= at) continue;
      let slot = hash >>> this.#shift;
      let index = this.#slots[slot] ?? FREE_SLOT;
      while (index !== FREE_SLOT && !(this.#hashes[index] === hash && this.#isAt(index, this.#joined, at))) {
        slot = (slot + 1) & most;
        index = this.#slots[slot] ?? FREE_SLOT;
      }
      if (index !== FREE_SLOT) continue;
      this.#slots[slot] = at;
      this.#hashes[at] = hash;
      this.#left++;
    }
  }

  /** Calls `isEnough` with each run in a text until it returns true. Contract: returns true if it did. */
  #each(text: string, isEnough: (index: number) => boolean): boolean {
    const slots = this.#slots;
    const hashes = this.#hashes;
    const isOut = this.#isOut;
    const shift = this.#shift;
    const most = slots.length - 1;
    let hash = 0;
    for (let end = 0; end < text.length; end++) {
      hash = rollHash(hash, text, end);
      if (end < RUN_LENGTH - 1) continue;
      let slot = hash >>> shift;
      for (let index = slots[slot] ?? FREE_SLOT; index !== FREE_SLOT; index = slots[slot] ?? FREE_SLOT) {
        const isSame = hashes[index] === hash && isOut[index] === 0 && this.#isAt(index, text, end - RUN_LENGTH + 1);
        if (isSame && isEnough(index)) return true;
        slot = (slot + 1) & most;
      }
    }
    return false;
  }

  #isAt(position: number, text: string, at: number): boolean {
    for (let index = 0; index < RUN_LENGTH; index++) {
      if (this.#joined.charCodeAt(position + index) !== text.charCodeAt(at + index)) return false;
    }
    return true;
  }
}

/** Returns the hash of the run that ends here, computed from the previous one. */
function rollHash(hash: number, text: string, end: number): number {
  const rest = end < RUN_LENGTH ? hash : (hash - Math.imul(text.charCodeAt(end - RUN_LENGTH), hashTop)) | 0;
  return (Math.imul(rest, HASH_BASE) + text.charCodeAt(end)) | 0;
}

/** The words of a text, to find those of an address whatever is between them. */
export interface WordText {
  /** The indexes of each word in `starts` and `ends`, in order. */
  places: ReadonlyMap<string, readonly number[]>;
  starts: readonly number[];
  ends: readonly number[];
  /** By index: true if a bracket opens right after the word, or closes right before it. */
  opens: readonly boolean[];
  closes: readonly boolean[];
}

/** Reduces a text to its words, as written and with its escapes decoded. */
export function createWordTexts(text: string): WordText[] {
  return [...new Set([text, decodeEscapes(text)].map(removeDisplayCodes))].map(createWordText);
}

function createWordText(text: string): WordText {
  const { plain, words } = findWords(text);
  const positions = new Map<string, number[]>();
  for (const [index, { word }] of words.entries()) {
    const known = positions.get(word);
    if (known) known.push(index);
    else positions.set(word, [index]);
  }
  const starts = words.map(({ at }) => at);
  const ends = words.map(({ at, word }) => at + word.length);
  const between = (from = 0, to = plain.length) => plain.slice(from, Math.min(to, from + MAX_MARK_LENGTH));
  return {
    places: positions,
    starts,
    ends,
    opens: words.map((_, index) => OPENING_BRACKET.test(between(ends[index], starts[index + 1]))),
    closes: words.map((_, index) =>
      CLOSING_BRACKET.test(
        between(Math.max(ends[index - 1] ?? 0, (starts[index] ?? 0) - MAX_MARK_LENGTH), starts[index]),
      ),
    ),
  };
}

const OPENING_BRACKET = /[<([{]/;

const CLOSING_BRACKET = /[>)\]}]/;

const MAX_MARK_LENGTH = 64;

/** An address to look for. */
export interface ScatteredPiece {
  letters: string;
  /** The number of words. */
  count: number;
}

/** The maximum number of characters between the words of an address. */
const MAX_GAP = 160;

/** Beyond this number of matches the search stops and reports a hit: the text could contain the address. */
const MAX_MATCHES = 1_000_000;

/** Two words in this order occur in many texts: then only brackets and their content may be between them. */
const MIN_WORDS = 3;

/**
 * Returns true if the words of an address, or parts of them, occur in a text in this order and close together. No list of markup is
 * complete: a model repairs an address with anything in it. Contract: linear in the number of words that are part of the address.
 */
export function containsScatteredPiece(
  { places: positions, starts, ends, opens, closes }: WordText,
  piece: ScatteredPiece,
): boolean {
  const { letters, count } = piece;
  const { length } = letters;
  const isThere = (at: number, end: number) => positions.has(letters.slice(at, end));
  const parts = Array.from({ length }, (_, index) => index);
  if (!parts.some((at) => isThere(0, at + 1)) || !parts.some((at) => isThere(at, length))) return false;
  const found: { place: number; at: number; end: number }[] = [];
  for (const at of parts) {
    for (const last of parts.slice(at)) {
      const end = last + 1;
      for (const index of positions.get(letters.slice(at, end)) ?? []) found.push({ place: index, at, end });
      if (found.length > MAX_MATCHES) return true;
    }
  }
  // The last letters first: each word is used once.
  found.sort((a, b) => a.place - b.place || b.at - a.at);
  /** By the number of letters found so far: the start of the latest such match, and the index of its last word. */
  const begun: ({ start: number; last: number } | undefined)[] = [];
  for (const { place: index, at, end } of found) {
    const before = at === 0 ? { start: starts[index] ?? 0, last: index } : begun[at];
    if (!before || (ends[index] ?? 0) - before.start > length + MAX_GAP) continue;
    const isNext = index - before.last <= 1;
    if (!isNext && count < MIN_WORDS && !(opens[before.last] && closes[index])) continue;
    if (end === length) return true;
    if (before.start >= (begun[end]?.start ?? 0)) begun[end] = { start: before.start, last: index };
  }
  return false;
}
