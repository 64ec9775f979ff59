/** The plan for testing a pattern on a text. */
export interface PatternPlan {
  engine: { test(text: string): boolean };
  /** The maximum number of line breaks in a match, if known. */
  breaks: number;
  /** Sets of texts: a match contains one of each, in this order. `gaps` has the maximum distances before, between and after them. */
  needs: readonly NeedSet[];
  gaps: readonly number[];
  isAtStart: boolean;
  /** The maximum number of characters of a match before each need. */
  leads: readonly number[];
}

/** A set of texts of which a pattern needs one, by their ids in the literal index. */
export interface NeedSet {
  id: number;
  texts: readonly number[];
  shortest: number;
  longest: number;
}

/**
 * The positions of the literals that patterns need in a text. In a long text, a pattern is only tested on the lines that can contain a match.
 * The result is the same: the skipped lines have no match.
 */
export class LiteralPositions {
  readonly text: string;
  readonly #folded: string;
  readonly #lines: readonly string[];
  /** The starts of lines in the folded text, which has the same lines as the text itself. */
  readonly #starts: number[] = [0];
  readonly #known: (readonly number[] | undefined)[] = [];
  /** The maximum number of folded units per character: 1 if no character is outside the basic plane or grows in lower case. */
  readonly #units: number;
  readonly #found: LiteralMatches;

  constructor(text: string, folded: string, found: LiteralMatches) {
    this.#found = found;
    this.#units = /[\ud800-\udfff\u0130]/.test(text) ? 2 : 1;
    this.text = text;
    this.#folded = folded;
    this.#lines = text.length < LONG_TEXT ? [] : text.split("\n");
    for (let at = folded.indexOf("\n"); at !== -1; at = folded.indexOf("\n", at + 1)) this.#starts.push(at + 1);
  }

  /** Returns true if the pattern matches. Contract: the text contains one text of each set that it needs. */
  hasMatch(plan: PatternPlan): boolean {
    const { engine, needs, breaks } = plan;
    const rarest = this.#rarest(needs);
    const positions = rarest === -1 ? [] : this.#placesOf(needs[rarest] as NeedSet);
    if (rarest === -1 || positions.length > MAX_COMPARED_PLACES) return engine.test(this.text);
    const isInParts = breaks <= MAX_LINE_BREAKS && this.#lines.length > 1;
    let [tried, parts] = [-1, 0];
    for (const index of positions) {
      const line = this.#lineAt(index);
      if (line === tried) continue;
      if (!this.#hasNeeds(plan, rarest, index, breaks === 0 ? line : undefined)) continue;
      // Parts of several lines overlap, so their number is limited.
      if (!isInParts || (breaks > 0 && ++parts > MAX_TEXT_PARTS)) return engine.test(this.text);
      const lead = this.#units * (plan.leads[rarest] as number);
      if (engine.test(breaks === 0 ? this.#restOf(line, index - lead) : this.#partAround(line, breaks))) return true;
      tried = line;
    }
    return false;
  }

  /** Returns the index of the need with the fewest positions; -1 without needs. */
  #rarest(needs: readonly NeedSet[]): number {
    let [rarest, fewest] = [-1, Number.POSITIVE_INFINITY];
    for (let at = 0; at < needs.length; at++) {
      const { length } = this.#placesOf(needs[at] as NeedSet);
      if (length < fewest) [rarest, fewest] = [at, length];
    }
    return rarest;
  }

  /**
   * Returns true if the other needs may surround one that starts at a position. It tracks only the first and last possible position of each,
   * so a result of true may not be a match; false is certain.
   */
  #hasNeeds({ needs, gaps, isAtStart }: PatternPlan, from: number, index: number, line: number | undefined): boolean {
    const start = line === undefined ? 0 : (this.#starts[line] as number);
    const end = (line === undefined ? undefined : this.#starts[line + 1]) ?? this.#folded.length;
    let [first, last] = [index, index];
    for (let at = from + 1; at < needs.length; at++) {
      const [before, set] = [needs[at - 1] as NeedSet, needs[at] as NeedSet];
      const positions = this.#placesOf(set);
      const max = Math.min(last + before.longest + this.#units * (gaps[at] as number), end - set.shortest);
      const lowest = findFirstFrom(positions, first + before.shortest);
      const highest = findFirstFrom(positions, max + 1) - 1;
      if (lowest > highest) return false;
      [first, last] = [positions[lowest] as number, positions[highest] as number];
    }
    [first, last] = [index, index];
    for (let at = from - 1; at >= 0; at--) {
      const set = needs[at] as NeedSet;
      const positions = this.#placesOf(set);
      const lowest = findFirstFrom(
        positions,
        Math.max(first - this.#units * (gaps[at + 1] as number) - set.longest, start),
      );
      const highest = findFirstFrom(positions, last - set.shortest + 1) - 1;
      if (lowest > highest) return false;
      [first, last] = [positions[lowest] as number, positions[highest] as number];
    }
    return !isAtStart || first <= this.#units * (gaps[0] as number);
  }

  /** Returns the positions where a text of the set starts, ascending. */
  #placesOf(set: NeedSet): readonly number[] {
    let places = this.#known[set.id];
    if (!places) {
      places = this.#findPlaces(set);
      this.#known[set.id] = places;
    }
    return places;
  }

  #findPlaces({ texts }: NeedSet): readonly number[] {
    if (texts.length === 1) return this.#found.placesOf(texts[0] as number);
    const places = texts.flatMap((id) => this.#found.placesOf(id));
    return places.length < 2 ? places : places.sort((a, b) => a - b);
  }

  /** Returns the line from a position on, or from the blank before it: for `\\b`, a text that follows a blank is like the start of a text. */
  #restOf(line: number, index: number): string {
    const [own, start] = [this.#lines[line] as string, this.#starts[line] as number];
    if (index <= start || this.text.length !== this.#folded.length) return own;
    const blank = own.lastIndexOf(" ", index - start - 1);
    return blank === -1 ? own : own.slice(blank + 1);
  }

  /** Returns the line with `breaks` more lines before and after it, not counting blank ones. */
  #partAround(line: number, breaks: number): string {
    return this.#lines.slice(this.#near(line, -breaks), this.#near(line, breaks) + 1).join("\n");
  }

  /** Returns the line that is `distance` lines away, not counting blank ones. */
  #near(line: number, distance: number): number {
    const step = Math.sign(distance);
    let [at, remaining] = [line, Math.abs(distance)];
    while (remaining > 0 && at + step >= 0 && at + step < this.#lines.length) {
      at += step;
      if (this.#lines[at]?.trim() !== "") remaining--;
    }
    return at;
  }

  #lineAt(index: number): number {
    return findFirstFrom(this.#starts, index + 1) - 1;
  }
}

/** Returns the index of the first number that is at least `least`, in an ascending list. */
function findFirstFrom(numbers: readonly number[], least: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

const LONG_TEXT = 1000;
/** The maximum number of positions of its rarest need at which a pattern is compared. */
const MAX_COMPARED_PLACES = 256;
const MAX_TEXT_PARTS = 16;
const MAX_LINE_BREAKS = 4;

/** Finds all of its literals in a text in one pass, whatever their number. */
export class LiteralIndex {
  readonly #ids = new Map<string, number>();
  readonly #texts: string[] = [];
  /** The last literal added to each hash slot, plus one; and for each literal the previous one of its slot. */
  readonly #last = new Uint32Array(SLOTS);
  readonly #before: number[] = [];
  /** The prefix hash of each literal: most literals in a slot differ here, so they need not be compared. */
  readonly #hashes: number[] = [];
  /** The prefix lengths in use. */
  #sizes: readonly number[] = [];

  get size(): number {
    return this.#texts.length;
  }

  /** Adds a text and returns its id. Contract: it is not empty. */
  add(text: string): number {
    const known = this.#ids.get(text);
    if (known !== undefined) return known;
    const id = this.#texts.push(text) - 1;
    this.#ids.set(text, id);
    const size = PREFIX_SIZES.find((least) => text.length >= least) ?? 1;
    if (!this.#sizes.includes(size)) this.#sizes = [...this.#sizes, size].sort((a, b) => a - b);
    const hash = hashOf(text, size);
    const slot = hashSlot(hash, size);
    this.#hashes.push(hash);
    this.#before.push(this.#last[slot] as number);
    this.#last[slot] = id + 1;
    return id;
  }

  find(text: string): LiteralMatches {
    const found = new LiteralMatches(this.#texts.length);
    const longest = this.#sizes.at(-1) ?? 0;
    const hasSize = Array.from({ length: longest + 1 }, (_, size) => this.#sizes.includes(size));
    for (let at = 0; at < text.length; at++) {
      let hash = 0;
      const max = Math.min(longest, text.length - at);
      for (let size = 1; size <= max; size++) {
        hash = addToHash(hash, text.charCodeAt(at + size - 1));
        if (!hasSize[size]) continue;
        let id = (this.#last[hashSlot(hash, size)] as number) - 1;
        for (; id !== -1; id = (this.#before[id] as number) - 1)
          if (this.#hashes[id] === hash && text.startsWith(this.#texts[id] as string, at)) found.add(id, at);
      }
    }
    return found;
  }
}

/** The prefix lengths by which literals are hashed: the longest that fits. */
const PREFIX_SIZES = [5, 3, 2, 1];
const SLOTS = 1 << 15;

/** Adds a character to a hash, so that hashing five characters also yields the hashes of their prefixes. */
function addToHash(hash: number, character: number): number {
  return (Math.imul(hash, 31) + character) | 0;
}

function hashOf(text: string, size: number): number {
  let hash = 0;
  for (let at = 0; at < size; at++) hash = addToHash(hash, text.charCodeAt(at));
  return hash;
}

/** Distributes prefixes of different lengths over different slots. */
function hashSlot(hash: number, size: number): number {
  const mixed = Math.imul(hash + size, 0x9e3779b1);
  return (mixed ^ (mixed >>> 15)) & (SLOTS - 1);
}

const NO_TEXTS: readonly number[] = [];

/** The positions of the literals of an index in a text. */
export class LiteralMatches {
  /** The ids of the literals found, in the order of their first occurrence. */
  readonly texts: number[] = [];
  readonly #places: (number[] | undefined)[];

  constructor(size: number) {
    this.#places = new Array(size);
  }

  add(id: number, index: number): void {
    const places = this.#places[id];
    if (places) places.push(index);
    else {
      this.#places[id] = [index];
      this.texts.push(id);
    }
  }

  has(id: number): boolean {
    return this.#places[id] !== undefined;
  }

  /** Returns the positions of a literal, ascending. */
  placesOf(id: number): readonly number[] {
    return this.#places[id] ?? NO_TEXTS;
  }
}
