/** How many characters in a row are no accident. */
export const RUN = 20;

// Nobody who writes a text knows it, so that nobody can write one with many runs of one hash.
const BASE = Math.floor(Math.random() * 0x1_0000_0000) | 1;
const TOP = Array.from({ length: RUN - 1 }).reduce<number>((power) => Math.imul(power, BASE), 1);
const FREE = -1;

/** All runs of 20 characters in some texts, to be looked for in others: each is read once, however long it is. */
export class Runs {
  readonly #joined: string;
  /** Where a run stands, at a place that its hash says, or the next free one behind it. */
  readonly #slots: Int32Array;
  readonly #shift: number;
  /** By where a run stands. */
  readonly #hashes: Int32Array;
  readonly #isOut: Uint8Array;
  #left = 0;

  constructor(texts: readonly string[]) {
    // No text that was folded has a NUL in it.
    this.#joined = [...new Set(texts)].filter(({ length }) => length >= RUN).join("\0");
    const { length } = this.#joined;
    const bits = Math.max(4, Math.ceil(Math.log2(length + 1)) + 3);
    this.#shift = 32 - bits;
    this.#slots = new Int32Array(2 ** bits).fill(FREE);
    this.#hashes = new Int32Array(length);
    this.#isOut = new Uint8Array(length);
    this.#fill();
  }

  get isEmpty(): boolean {
    return this.#left === 0;
  }

  /** Takes out what stands in this text too. */
  exclude(text: string): void {
    if (this.isEmpty) return;
    this.#each(text, (place) => {
      this.#isOut[place] = 1;
      this.#left--;
      return this.isEmpty;
    });
  }

  isIn(text: string): boolean {
    return !this.isEmpty && this.#each(text, () => true);
  }

  #fill(): void {
    const most = this.#slots.length - 1;
    let barrier = -1;
    let hash = 0;
    for (let end = 0; end < this.#joined.length; end++) {
      hash = rolled(hash, this.#joined, end);
      const at = end - RUN + 1;
      if (this.#joined.charCodeAt(end) === 0) barrier = end;
      if (at < 0 || barrier >= at) continue;
      let slot = hash >>> this.#shift;
      let place = this.#slots[slot] ?? FREE;
      while (place !== FREE && !(this.#hashes[place] === hash && this.#isAt(place, this.#joined, at))) {
        slot = (slot + 1) & most;
        place = this.#slots[slot] ?? FREE;
      }
      if (place !== FREE) continue;
      this.#slots[slot] = at;
      this.#hashes[at] = hash;
      this.#left++;
    }
  }

  /** Calls with each run that stands in a text, until one is enough. Contract: whether one was. */
  #each(text: string, isEnough: (place: number) => boolean): boolean {
    const slots = this.#slots;
    const hashes = this.#hashes;
    const isOut = this.#isOut;
    const shift = this.#shift;
    const most = slots.length - 1;
    let hash = 0;
    for (let end = 0; end < text.length; end++) {
      hash = rolled(hash, text, end);
      if (end < RUN - 1) continue;
      let slot = hash >>> shift;
      for (let place = slots[slot] ?? FREE; place !== FREE; place = slots[slot] ?? FREE) {
        const isSame = hashes[place] === hash && isOut[place] === 0 && this.#isAt(place, text, end - RUN + 1);
        if (isSame && isEnough(place)) return true;
        slot = (slot + 1) & most;
      }
    }
    return false;
  }

  #isAt(place: number, text: string, at: number): boolean {
    for (let index = 0; index < RUN; index++) {
      if (this.#joined.charCodeAt(place + index) !== text.charCodeAt(at + index)) return false;
    }
    return true;
  }
}

/** The hash of the run that ends here, from that of the one before it. */
function rolled(hash: number, text: string, end: number): number {
  const rest = end < RUN ? hash : (hash - Math.imul(text.charCodeAt(end - RUN), TOP)) | 0;
  return (Math.imul(rest, BASE) + text.charCodeAt(end)) | 0;
}
