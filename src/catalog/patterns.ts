import { RE2JS } from "re2js";

interface Row<T> {
  pattern: string;
  values: T[];
  needs: readonly (readonly string[])[];
  engine?: RE2JS | undefined;
  /** How many line breaks a match can have, as far as that is known. */
  breaks?: number;
}

/** Regular expressions, tried on a text in linear time. One is run only when a text that it cannot match without is there. */
export class PatternIndex<T> {
  readonly #rows = new Map<string, Row<T>>();
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
    const lines = new Lines(text, folded);
    const isThere = (need: string) => lines.with(need).length > 0;
    for (const row of this.#literals.candidates(folded)) {
      if (!row.needs.every((set) => set.some(isThere))) continue;
      row.engine ??= compile(row.pattern);
      const { engine } = row;
      if (!engine) continue;
      row.breaks ??= breaksIn(row.pattern);
      const parts = lines.partsFor(row.needs, row.breaks);
      if (parts ? parts.some((part) => engine.test(part)) : engine.test(text))
        yield { pattern: row.pattern, values: row.values, startsIn: (whole) => startsOf(engine, whole) };
    }
  }
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

/** A text by its lines: of a long one, a pattern is tried only on the lines that can have a match. The result is the same. */
class Lines {
  readonly #folded: string;
  readonly #starts: number[] = [0];
  readonly #known = new Map<string, readonly number[]>();
  readonly #lines: readonly string[];

  constructor(text: string, folded: string) {
    this.#folded = folded;
    this.#lines = text.length < LONG_TEXT ? [] : text.split("\n");
    for (let at = folded.indexOf("\n"); at !== -1; at = folded.indexOf("\n", at + 1)) this.#starts.push(at + 1);
  }

  /** The numbers of the lines that a text is in, ascending. */
  with(need: string): readonly number[] {
    let found = this.#known.get(need);
    if (!found) {
      const lines: number[] = [];
      for (let at = this.#folded.indexOf(need); at !== -1 && lines.length <= MOST_LINES; ) {
        const line = this.#lineAt(at);
        lines.push(line);
        const next = this.#starts[line + 1];
        at = next === undefined ? -1 : this.#folded.indexOf(need, next);
      }
      found = lines;
      this.#known.set(need, found);
    }
    return found;
  }

  /** The parts of the text that can have a match, which has a text of each set; nothing where that is all of it. */
  partsFor(needs: readonly (readonly string[])[], breaks: number): string[] | undefined {
    const [first, ...others] = needs;
    if (!first || breaks > MOST_BREAKS || this.#lines.length < 2) return undefined;
    let [rarest, fewest] = [first, this.#count(first)];
    for (const set of others) {
      const count = this.#count(set);
      if (count < fewest) [rarest, fewest] = [set, count];
    }
    if (fewest > MOST_LINES) return undefined;
    const parts: string[] = [];
    for (const need of rarest) {
      for (const line of this.with(need)) {
        const [from, to] = breaks === 0 ? [line, line] : [this.#near(line, -breaks), this.#near(line, breaks)];
        if (needs.every((set) => set === rarest || set.some((other) => this.#isIn(other, from, to))))
          parts.push(from === to ? (this.#lines[from] as string) : this.#lines.slice(from, to + 1).join("\n"));
      }
    }
    return parts;
  }

  #count(set: readonly string[]): number {
    let count = 0;
    for (const need of set) count += this.with(need).length;
    return count;
  }

  /** Whether a text is in one of these lines, or may be: where it is in many, not all of them are known. */
  #isIn(need: string, from: number, to: number): boolean {
    const lines = this.with(need);
    if (lines.length > MOST_LINES) return true;
    for (const line of lines) if (line >= from && line <= to) return true;
    return false;
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
    let [low, high] = [0, this.#starts.length];
    while (low + 1 < high) {
      const middle = (low + high) >>> 1;
      if ((this.#starts[middle] as number) <= place) low = middle;
      else high = middle;
    }
    return low;
  }
}

const LONG_TEXT = 1000;
const MOST_LINES = 16;
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
