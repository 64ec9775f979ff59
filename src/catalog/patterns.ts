import { RE2JS } from "re2js";
import { judgePattern } from "../skill/pattern.ts";

interface Row<T> {
  pattern: string;
  values: T[];
  needs: readonly (readonly string[])[];
  /** What is found out when a text first has what the pattern needs. */
  plan?: Plan | undefined;
}

/** How a pattern is tried on a text. */
interface Plan {
  engine: RE2JS;
  /** How many line breaks a match can have, as far as that is known. */
  breaks: number;
  /** The sets of texts that a match has one of each, in this order, and the most characters before, between and after them. */
  needs: readonly NeedSet[];
  gaps: readonly number[];
  isAtStart: boolean;
  /** For each need the most characters of a match before it. */
  leads: readonly number[];
}

/** A set of texts that patterns need one of, numbered, so that each is looked for once in a query. */
interface NeedSet {
  id: number;
  texts: readonly string[];
  shortest: number;
  longest: number;
}

/**
 * Regular expressions, tried on a text in linear time. One is run only where the texts that it cannot match without are there, in their
 * order and as near to each other as a match has them.
 */
export class PatternIndex<T> {
  readonly #rows = new Map<string, Row<T>>();
  readonly #needSets = new Map<string, NeedSet>();
  #literals: Literals<Row<T>> | undefined;

  /** Contract: the pattern was judged, and these are the texts that it cannot match without. */
  add(pattern: string, needs: Row<T>["needs"], value: T): void {
    const known = this.#rows.get(pattern);
    if (known) {
      known.values.push(value);
      return;
    }
    this.#rows.set(pattern, { pattern, values: [value], needs });
    this.#literals = undefined;
  }

  *find(text: string): Generator<PatternMatch & { values: readonly T[] }> {
    this.#literals ??= new Literals([...this.#rows.values()]);
    const folded = text.toLowerCase().replaceAll("ſ", "s");
    const places = new Places(text, folded);
    for (const row of this.#literals.candidates(folded)) {
      if (!("plan" in row)) row.plan = this.#planFor(row);
      const { plan } = row;
      if (!plan || !places.hasMatch(plan)) continue;
      const { engine } = plan;
      yield { pattern: row.pattern, values: row.values, startsIn: (whole) => startsOf(engine, whole) };
    }
  }

  #planFor({ pattern }: Row<T>): Plan | undefined {
    const engine = compile(pattern);
    if (!engine) return undefined;
    const judged = judgePattern(pattern);
    if ("problem" in judged) return undefined;
    const needs = judged.needs.map((texts) => this.#needSet(texts));
    const { gaps, isAtStart } = judged;
    return { engine, breaks: breaksIn(pattern), needs, gaps, isAtStart, leads: leadsOf(needs, gaps) };
  }

  #needSet(texts: readonly string[]): NeedSet {
    const key = texts.join("\0");
    let set = this.#needSets.get(key);
    if (!set) {
      const lengths = texts.map(({ length }) => length);
      set = { id: this.#needSets.size, texts, shortest: Math.min(...lengths), longest: Math.max(...lengths) };
      this.#needSets.set(key, set);
    }
    return set;
  }
}

function leadsOf(needs: readonly NeedSet[], gaps: readonly number[]): number[] {
  let lead = 0;
  return needs.map(({ longest }, at) => {
    const own = lead + (gaps[at] as number);
    lead = own + longest;
    return own;
  });
}

/** A pattern that a text has a match of. */
export interface PatternMatch {
  pattern: string;
  /** Returns where its first matches begin. */
  startsIn(text: string): number[];
}

/** How many matches of a pattern are looked at. */
const MOST_STARTS = 50;

function startsOf(engine: RE2JS, text: string): number[] {
  const matcher = engine.matcher(text);
  const starts: number[] = [];
  while (starts.length < MOST_STARTS && matcher.find()) starts.push(matcher.start());
  return starts;
}

/** One pattern that is tried in linear time. Throws for what that cannot be done with: looking around, references back. */
export function openPattern(pattern: string): { test(text: string): boolean; toString(): string } {
  const engine = RE2JS.compile(pattern);
  // As a regular expression does: by this text others tell one from another.
  return { test: (text) => engine.test(text), toString: () => pattern };
}

// What was judged compiles. Should the two ever differ, a trigger is lost and not the conversation.
function compile(pattern: string): RE2JS | undefined {
  try {
    return RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
  } catch {
    return undefined;
  }
}

const ANY_NUMBER = Number.POSITIVE_INFINITY;
/** Escapes whose meaning has nothing to do with line breaks; `\s` is counted. */
const PLAIN_ESCAPE = /\\(?:[bBdwS]|[^A-Za-z\d])/g;

/** How many line breaks, with blank lines between them, a match of the pattern has at most. Any number where that is not sure. */
function breaksIn(pattern: string): number {
  const rest = pattern.replace(PLAIN_ESCAPE, "");
  const blanks = rest.split("\\s").length - 1;
  const isUnsure = /\\(?!s)|[\^$\0-\x1f]|\(\?[a-zA-Z-]*[smU]|\[[^\]]*\\s/.test(rest);
  // What is repeated as a whole may have breaks as often.
  return isUnsure || (blanks > 0 && /\)[*+{]/.test(rest)) ? ANY_NUMBER : blanks;
}

/**
 * Where a text has what patterns need. Of a long text, a pattern is tried only on the lines that can have a match. The result is the same:
 * whatever is left out has no match.
 */
class Places {
  readonly #text: string;
  readonly #folded: string;
  readonly #lines: readonly string[];
  /** Where lines begin in the folded text, which has the same lines as the text itself. */
  readonly #starts: number[] = [0];
  readonly #known: (readonly number[] | undefined)[] = [];
  /** The most units of the folded text that a character has: where none is outside the basic plane or grows in lower case, 1. */
  readonly #units: number;
  readonly #grams = new Map<number, Grams>();

  constructor(text: string, folded: string) {
    this.#units = /[\ud800-\udfff\u0130]/.test(text) ? 2 : 1;
    this.#text = text;
    this.#folded = folded;
    this.#lines = text.length < LONG_TEXT ? [] : text.split("\n");
    for (let at = folded.indexOf("\n"); at !== -1; at = folded.indexOf("\n", at + 1)) this.#starts.push(at + 1);
  }

  hasMatch(plan: Plan): boolean {
    const { engine, needs, breaks } = plan;
    const rarest = this.#rarest(needs);
    if (rarest === undefined) return false;
    const places = rarest === -1 ? [] : this.#placesOf(needs[rarest] as NeedSet);
    if (rarest === -1 || places.length > MOST_PLACES) return engine.test(this.#text);
    const isInParts = breaks <= MOST_BREAKS && this.#lines.length > 1;
    let [tried, parts] = [-1, 0];
    for (const place of places) {
      const line = this.#lineAt(place);
      if (line === tried) continue;
      if (!this.#hasNeeds(plan, rarest, place, breaks === 0 ? line : undefined)) continue;
      // Parts of several lines overlap, so there may be only so many of them.
      if (!isInParts || (breaks > 0 && ++parts > MOST_PARTS)) return engine.test(this.#text);
      const lead = this.#units * (plan.leads[rarest] as number);
      if (engine.test(breaks === 0 ? this.#restOf(line, place - lead) : this.#partAround(line, breaks))) return true;
      tried = line;
    }
    return false;
  }

  /** The number of the need with the fewest places, -1 where there is no need; nothing when one is not in the text. */
  #rarest(needs: readonly NeedSet[]): number | undefined {
    let [rarest, fewest] = [-1, Number.POSITIVE_INFINITY];
    for (let at = 0; at < needs.length; at++) {
      const { length } = this.#placesOf(needs[at] as NeedSet);
      if (length === 0) return undefined;
      if (length < fewest) [rarest, fewest] = [at, length];
    }
    return rarest;
  }

  /**
   * Whether the other needs may be before and after one that begins at a place. It follows the first and the last place that each can have,
   * so what it finds need not be a match; where it finds nothing, there is none.
   */
  #hasNeeds({ needs, gaps, isAtStart }: Plan, from: number, place: number, line: number | undefined): boolean {
    const start = line === undefined ? 0 : (this.#starts[line] as number);
    const end = (line === undefined ? undefined : this.#starts[line + 1]) ?? this.#folded.length;
    let [first, last] = [place, place];
    for (let at = from + 1; at < needs.length; at++) {
      const [before, set] = [needs[at - 1] as NeedSet, needs[at] as NeedSet];
      const places = this.#placesOf(set);
      const most = Math.min(last + before.longest + this.#units * (gaps[at] as number), end - set.shortest);
      const lowest = firstFrom(places, first + before.shortest);
      const highest = firstFrom(places, most + 1) - 1;
      if (lowest > highest) return false;
      [first, last] = [places[lowest] as number, places[highest] as number];
    }
    [first, last] = [place, place];
    for (let at = from - 1; at >= 0; at--) {
      const set = needs[at] as NeedSet;
      const places = this.#placesOf(set);
      const lowest = firstFrom(places, Math.max(first - this.#units * (gaps[at + 1] as number) - set.longest, start));
      const highest = firstFrom(places, last - set.shortest + 1) - 1;
      if (lowest > highest) return false;
      [first, last] = [places[lowest] as number, places[highest] as number];
    }
    return !isAtStart || first <= this.#units * (gaps[0] as number);
  }

  /** Where a text of the set begins, ascending. */
  #placesOf(set: NeedSet): readonly number[] {
    let places = this.#known[set.id];
    if (!places) {
      places = this.#findPlaces(set);
      this.#known[set.id] = places;
    }
    return places;
  }

  #findPlaces({ texts }: NeedSet): readonly number[] {
    const places: number[] = [];
    for (const text of texts) {
      const size = GRAMS.find((least) => text.length >= least);
      if (size !== undefined) this.#gramsOf(size).find(text, places);
      else
        for (let at = this.#folded.indexOf(text); at !== -1; at = this.#folded.indexOf(text, at + 1)) places.push(at);
    }
    return texts.length === 1 || places.length < 2 ? places : places.sort((a, b) => a - b);
  }

  #gramsOf(size: number): Grams {
    let grams = this.#grams.get(size);
    if (!grams) {
      grams = new Grams(this.#folded, size);
      this.#grams.set(size, grams);
    }
    return grams;
  }

  /** The line from a place on, or from the blank before it: to `\\b`, what follows a blank is what begins a text. */
  #restOf(line: number, place: number): string {
    const [own, start] = [this.#lines[line] as string, this.#starts[line] as number];
    if (place <= start || this.#text.length !== this.#folded.length) return own;
    const blank = own.lastIndexOf(" ", place - start - 1);
    return blank === -1 ? own : own.slice(blank + 1);
  }

  /** The line with so many more before and after it, blank ones not counted. */
  #partAround(line: number, breaks: number): string {
    return this.#lines.slice(this.#near(line, -breaks), this.#near(line, breaks) + 1).join("\n");
  }

  /** The line that is so many lines before or after one, blank ones not counted. */
  #near(line: number, distance: number): number {
    const step = Math.sign(distance);
    let [at, left] = [line, Math.abs(distance)];
    while (left > 0 && at + step >= 0 && at + step < this.#lines.length) {
      at += step;
      if (this.#lines[at]?.trim() !== "") left--;
    }
    return at;
  }

  #lineAt(place: number): number {
    return firstFrom(this.#starts, place + 1) - 1;
  }
}

/** The index of the first number that is at least this large, in ascending ones. */
function firstFrom(numbers: readonly number[], least: number): number {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The places of a text by the characters that begin there: thousands of texts are looked for in one query. */
class Grams {
  readonly #text: string;
  readonly #size: number;
  readonly #first = new Int32Array(SLOTS).fill(-1);
  readonly #next: Int32Array;

  constructor(text: string, size: number) {
    this.#text = text;
    this.#size = size;
    this.#next = new Int32Array(text.length);
    for (let at = text.length - size; at >= 0; at--) {
      const slot = this.#slotOf(text, at);
      this.#next[at] = this.#first[slot] as number;
      this.#first[slot] = at;
    }
  }

  /** Adds the places of a text that is at least so long, ascending. */
  find(text: string, places: number[]): void {
    for (let at = this.#first[this.#slotOf(text, 0)] as number; at !== -1; at = this.#next[at] as number)
      if (this.#text.startsWith(text, at)) places.push(at);
  }

  #slotOf(text: string, from: number): number {
    let hash = 0;
    for (let at = from; at < from + this.#size; at++) hash = (hash * 31 + text.charCodeAt(at)) | 0;
    return (hash ^ (hash >>> 14)) & (SLOTS - 1);
  }
}

/** How many characters texts are filed under: the most that a text has. */
const GRAMS = [5, 3];
const SLOTS = 1 << 14;
const LONG_TEXT = 1000;
/** How many places of its rarest need a pattern is compared at. */
const MOST_PLACES = 256;
const MOST_PARTS = 16;
const MOST_BREAKS = 4;

const WINDOW = 8;

/** For each pattern the rarest text that it needs, so that a query wakes few of them. */
class Literals<R extends { needs: readonly (readonly string[])[] }> {
  readonly #rows = new Map<string, R[]>();
  /** Patterns that need no text in particular. */
  readonly #always: R[] = [];
  /** For the hash of a text's first two characters, which lengths to look up. */
  readonly #lengths = new Uint16Array(1 << 14);

  constructor(rows: readonly R[]) {
    const counts = new Map<string, number>();
    for (const { needs } of rows) {
      for (const window of new Set(needs.flat().flatMap(windows))) counts.set(window, (counts.get(window) ?? 0) + 1);
    }
    for (const row of rows) {
      const best = rarest(row.needs, counts);
      if (best.length === 0) this.#always.push(row);
      for (const window of best) {
        const others = this.#rows.get(window);
        if (others) others.push(row);
        else this.#rows.set(window, [row]);
        const slot = hash(window, 0);
        this.#lengths[slot] = (this.#lengths[slot] ?? 0) | (1 << window.length);
      }
    }
  }

  candidates(text: string): Set<R> {
    const found = new Set(this.#always);
    for (let at = 0; at < text.length; at++) {
      // A text of one character is filed under it alone, longer ones under their first two.
      this.#collect(text, at, (this.#lengths[hash(text[at] ?? "", 0)] ?? 0) & 2, found);
      if (at + 1 < text.length) this.#collect(text, at, (this.#lengths[hash(text, at)] ?? 0) & ~2, found);
    }
    return found;
  }

  #collect(text: string, at: number, lengths: number, found: Set<R>): void {
    for (let length = 1; lengths >> length !== 0; length++) {
      if ((lengths & (1 << length)) === 0 || at + length > text.length) continue;
      for (const row of this.#rows.get(text.slice(at, at + length)) ?? []) found.add(row);
    }
  }
}

function hash(text: string, at: number): number {
  const next = at + 1 < text.length ? text.charCodeAt(at + 1) : 0;
  return (text.charCodeAt(at) * 131 + next * 7) & 0x3fff;
}

function windows(text: string): string[] {
  if (text.length <= WINDOW) return text === "" ? [] : [text];
  return Array.from({ length: text.length - WINDOW + 1 }, (_, at) => text.slice(at, at + WINDOW));
}

/** The set that fewest patterns share, a window of each of its texts. */
function rarest(needs: readonly (readonly string[])[], counts: ReadonlyMap<string, number>): string[] {
  let best: string[] = [];
  let least = Number.POSITIVE_INFINITY;
  for (const set of needs) {
    const chosen = set.map((text) =>
      windows(text).reduce((a, b) => ((counts.get(b) ?? 0) < (counts.get(a) ?? 0) ? b : a)),
    );
    // A short text is found everywhere: it costs what it would wake by chance.
    const cost = chosen.reduce(
      (sum, window) => sum + (counts.get(window) ?? 0) + (window.length < 3 ? 1000 : 0) / window.length,
      0,
    );
    if (cost < least) [best, least] = [chosen, cost];
  }
  return best;
}
