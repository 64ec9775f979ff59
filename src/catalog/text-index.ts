/** Texts that are all looked for in another text in one pass, whatever their number. */
export class TextIndex {
  readonly #ids = new Map<string, number>();
  readonly #texts: string[] = [];
  /** For the hash of the characters that texts are filed under the text added last, plus one; for each text the one before it. */
  readonly #last = new Uint32Array(SLOTS);
  readonly #before: number[] = [];
  /** How many characters texts are filed under, where there are such texts. */
  #sizes: readonly number[] = [];

  get size(): number {
    return this.#texts.length;
  }

  /** Returns the number of the text. Contract: it is not empty. */
  add(text: string): number {
    const known = this.#ids.get(text);
    if (known !== undefined) return known;
    const id = this.#texts.push(text) - 1;
    this.#ids.set(text, id);
    const size = SIZES.find((least) => text.length >= least) ?? 1;
    if (!this.#sizes.includes(size)) this.#sizes = [...this.#sizes, size].sort((a, b) => a - b);
    const slot = slotOf(text, 0, size);
    this.#before.push(this.#last[slot] as number);
    this.#last[slot] = id + 1;
    return id;
  }

  find(text: string): FoundTexts {
    const found = new FoundTexts(this.#texts.length);
    for (let at = 0; at < text.length; at++) {
      for (const size of this.#sizes) {
        if (at + size > text.length) break;
        for (
          let id = (this.#last[slotOf(text, at, size)] as number) - 1;
          id !== -1;
          id = (this.#before[id] as number) - 1
        )
          if (text.startsWith(this.#texts[id] as string, at)) found.add(id, at);
      }
    }
    return found;
  }
}

/** Texts are filed under this many of their first characters: the most that a text has. The hash is of the number too. */
const SIZES = [5, 3, 2, 1];
const SLOTS = 1 << 15;

function slotOf(text: string, from: number, size: number): number {
  let hash = size;
  for (let at = from; at < from + size; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  return (hash ^ (hash >>> 15)) & (SLOTS - 1);
}

const NONE: readonly number[] = [];

/** Where each text of an index is in another text. */
export class FoundTexts {
  /** The numbers of the texts that are there, in the order in which they first occur. */
  readonly texts: number[] = [];
  readonly #places: (number[] | undefined)[];

  constructor(size: number) {
    this.#places = new Array(size);
  }

  add(id: number, place: number): void {
    const places = this.#places[id];
    if (places) places.push(place);
    else {
      this.#places[id] = [place];
      this.texts.push(id);
    }
  }

  has(id: number): boolean {
    return this.#places[id] !== undefined;
  }

  /** The places of a text, ascending. */
  placesOf(id: number): readonly number[] {
    return this.#places[id] ?? NONE;
  }
}
