import { RE2JS } from "re2js";
import { judgePattern } from "../skill/pattern.ts";
import { type NeedSet, PatternPlaces, type PatternPlan } from "./pattern-places.ts";

interface Row<T> {
  pattern: string;
  values: T[];
  needs: readonly (readonly string[])[];
  /** What is found out when a text first has what the pattern needs. */
  plan?: (PatternPlan & { engine: LazyEngine }) | undefined;
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
    const places = new PatternPlaces(text, folded);
    for (const row of this.#literals.candidates(folded)) {
      if (!("plan" in row)) row.plan = this.#planFor(row);
      const { plan } = row;
      if (!plan || !places.hasMatch(plan)) continue;
      const { engine } = plan;
      yield { pattern: row.pattern, values: row.values, startsIn: (whole) => engine.startsIn(whole) };
    }
  }

  #planFor({ pattern }: Row<T>): Row<T>["plan"] {
    const judged = judgePattern(pattern);
    if ("problem" in judged) return undefined;
    const needs = judged.needs.map((texts) => this.#needSet(texts));
    const { gaps, isAtStart } = judged;
    const engine = new LazyEngine(pattern);
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

/** A pattern that is compiled when it is first tried: most queries that have its texts do not have them near enough to each other. */
class LazyEngine {
  readonly #pattern: string;
  #compiled: RE2JS | false | undefined;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  test(text: string): boolean {
    this.#compiled ??= compile(this.#pattern) ?? false;
    return this.#compiled !== false && this.#compiled.test(text);
  }

  startsIn(text: string): number[] {
    const starts: number[] = [];
    if (!this.#compiled) return starts;
    const matcher = this.#compiled.matcher(text);
    while (starts.length < MOST_STARTS && matcher.find()) starts.push(matcher.start());
    return starts;
  }
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

const WINDOW = 8;

/** For each pattern the rarest text that it needs, so that a query wakes few of them. */
class Literals<R extends { needs: readonly (readonly string[])[] }> {
  readonly #rows = new Map<string, R[]>();
  /** Patterns that need no text in particular. */
  readonly #always: R[] = [];
  /** For the hash of a text's first three characters, or of fewer where it has no more, which lengths to look up. */
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
        const slot = hash(window, 0, Math.min(window.length, PREFIX));
        this.#lengths[slot] = (this.#lengths[slot] ?? 0) | (1 << window.length);
      }
    }
  }

  candidates(text: string): Set<R> {
    const found = new Set(this.#always);
    for (let at = 0; at < text.length; at++) {
      for (let size = 1; size <= PREFIX && at + size <= text.length; size++) {
        const lengths = this.#lengths[hash(text, at, size)] ?? 0;
        // Other texts may have the same hash: what is as long as the prefix, or longer than the longest prefix, is meant.
        const meant = size === PREFIX ? lengths & -(1 << PREFIX) : lengths & (1 << size);
        if (meant !== 0) this.#collect(text, at, meant, found);
      }
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

const PREFIX = 3;

function hash(text: string, from: number, size: number): number {
  let sum = 0;
  for (let at = from; at < from + size; at++) sum = sum * 131 + text.charCodeAt(at);
  return (sum ^ (sum >>> 14)) & 0x3fff;
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
