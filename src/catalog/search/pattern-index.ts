import { RE2JS } from "re2js";
import { analyzePattern } from "../../skill/pattern-parser.ts";
import {
  LiteralIndex,
  type LiteralMatches,
  LiteralPositions,
  type NeedSet,
  type PatternPlan,
} from "./literal-prefilter.ts";

interface PatternRow<T> {
  pattern: string;
  values: T[];
  needs: readonly NeedSet[];
  /** Computed when a query first contains what the pattern needs; false for an unusable pattern. */
  plan: UsablePlan | false | undefined;
}

type UsablePlan = PatternPlan & { engine: LazyEngine };

/**
 * Regular expressions that are tested in linear time. One is run only if the literals it requires are present, in order and as close
 * together as in a match.
 */
export class PatternIndex<T> {
  readonly #rows = new Map<string, PatternRow<T>>();
  readonly #needSets = new Map<string, NeedSet>();
  readonly #texts = new LiteralIndex();
  #prefilter: NeedFilter | undefined;
  /** In insertion order. */
  readonly #list: PatternRow<T>[] = [];

  /** Contract: the pattern was analyzed, and `needs` are the texts that it cannot match without. */
  add(pattern: string, needs: readonly (readonly string[])[], value: T): void {
    const known = this.#rows.get(pattern);
    if (known) {
      known.values.push(value);
      return;
    }
    const sets = needs.map((texts) => this.#needSet(texts));
    const row = { pattern, values: [value], needs: sets, plan: undefined };
    this.#rows.set(pattern, row);
    this.#list.push(row);
    this.#prefilter = undefined;
  }

  /** Returns the patterns whose required texts occur in a text. `isAllowed` can get the starts of the first matches. */
  find(text: string, isAllowed: (starts: () => readonly number[]) => boolean = () => true): PatternCandidate<T>[] {
    const candidates: PatternCandidate<T>[] = [];
    if (this.#rows.size === 0) return candidates;
    this.#prefilter ??= new NeedFilter(this.#list, [...this.#needSets.values()], this.#texts.size);
    const folded = text.toLowerCase().replaceAll("ſ", "s");
    const found = this.#texts.find(folded);
    const places = new LiteralPositions(text, folded, found);
    for (const number of this.#prefilter.find(found)) {
      const row = this.#list[number] as PatternRow<T>;
      row.plan ??= createPatternPlan(row);
      if (row.plan) candidates.push(new PatternCandidate(row, row.plan, places, isAllowed));
    }
    return candidates;
  }

  #needSet(texts: readonly string[]): NeedSet {
    const key = texts.join("\0");
    let set = this.#needSets.get(key);
    if (!set) {
      const lengths = texts.map(({ length }) => length);
      const ids = texts.map((text) => this.#texts.add(text));
      set = { id: this.#needSets.size, texts: ids, shortest: Math.min(...lengths), longest: Math.max(...lengths) };
      this.#needSets.set(key, set);
    }
    return set;
  }
}

function createPatternPlan<T>({ pattern, needs }: PatternRow<T>): UsablePlan | false {
  const facts = analyzePattern(pattern);
  if ("problem" in facts) return false;
  const { gaps, isAtStart } = facts;
  const engine = new LazyEngine(pattern);
  return { engine, breaks: countLineBreaks(pattern), needs, gaps, isAtStart, leads: measureLeads(needs, gaps) };
}

function measureLeads(needs: readonly NeedSet[], gaps: readonly number[]): number[] {
  let lead = 0;
  return needs.map(({ longest }, at) => {
    const own = lead + (gaps[at] as number);
    lead = own + longest;
    return own;
  });
}

/** A pattern that may match a text. It is run on first use. */
export class PatternCandidate<T> {
  readonly pattern: string;
  readonly values: readonly T[];
  readonly #plan: UsablePlan;
  readonly #places: LiteralPositions;
  readonly #isAllowed: (starts: () => readonly number[]) => boolean;
  #isFound: boolean | undefined;

  constructor(
    { pattern, values }: PatternRow<T>,
    plan: UsablePlan,
    places: LiteralPositions,
    isAllowed: (starts: () => readonly number[]) => boolean,
  ) {
    this.pattern = pattern;
    this.values = values;
    this.#plan = plan;
    this.#places = places;
    this.#isAllowed = isAllowed;
  }

  isFound(): boolean {
    const { engine } = this.#plan;
    this.#isFound ??= this.#places.hasMatch(this.#plan) && this.#isAllowed(() => engine.startsIn(this.#places.text));
    return this.#isFound;
  }
}

/** The maximum number of matches of a pattern to examine. */
const MAX_STARTS = 50;

/** A pattern that is compiled on first use: in most queries its texts are not close enough together. */
class LazyEngine {
  readonly #pattern: string;
  #compiled: RE2JS | false | undefined;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  test(text: string): boolean {
    this.#compiled ??= compileRe2(this.#pattern) ?? false;
    return this.#compiled !== false && this.#compiled.test(text);
  }

  startsIn(text: string): number[] {
    const starts: number[] = [];
    if (!this.#compiled) return starts;
    const matcher = this.#compiled.matcher(text);
    while (starts.length < MAX_STARTS && matcher.find()) starts.push(matcher.start());
    return starts;
  }
}

/** Compiles a pattern that is tested in linear time. Throws for lookarounds and backreferences. */
export function compileLinearPattern(pattern: string): { test(text: string): boolean; toString(): string } {
  const engine = RE2JS.compile(pattern);
  // As `RegExp` does: callers compare patterns by this text.
  return { test: (text) => engine.test(text), toString: () => pattern };
}

// An analyzed pattern compiles. If the two ever differ, only the trigger is lost.
function compileRe2(pattern: string): RE2JS | undefined {
  try {
    return RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE);
  } catch {
    return undefined;
  }
}

const ANY_NUMBER = Number.POSITIVE_INFINITY;
/** Escapes that never match a line break; `\s` is counted separately. */
const PLAIN_ESCAPE = /\\(?:[bBdwS]|[^A-Za-z\d])/g;

/** Returns the maximum number of line breaks in a match, not counting blank lines; infinity if unknown. */
function countLineBreaks(pattern: string): number {
  const rest = pattern.replace(PLAIN_ESCAPE, "");
  const blanks = rest.split("\\s").length - 1;
  const isUnsure = /\\(?!s)|[\^$\0-\x1f]|\(\?[a-zA-Z-]*[smU]|\[[^\]]*\\s/.test(rest);
  // A repeated group may repeat its line breaks.
  return isUnsure || (blanks > 0 && /\)[*+{]/.test(rest)) ? ANY_NUMBER : blanks;
}

/**
 * Finds the patterns for which a text contains one text of each of their sets. A long text involves thousands of patterns, so everything is
 * numbers in a few arrays.
 */
export class NeedFilter {
  /** The set ids of each pattern. */
  readonly #sets: Lists;
  /** The sets that contain each text. */
  readonly #setsByText: Lists;
  /** The patterns filed under each text, and those without a required text. */
  readonly #byText: Lists;
  readonly #always: readonly number[];
  /** The number of the search that last found the set or the pattern. */
  readonly #setSeen: Uint32Array;
  readonly #seen: Uint32Array;
  #searches = 0;

  /** Contract: the sets are ordered by id. */
  constructor(patterns: readonly { needs: readonly NeedSet[] }[], sets: readonly NeedSet[], texts: number) {
    this.#sets = packLists(patterns.map(({ needs }) => needs.map(({ id }) => id)));
    const setsByText: number[][] = Array.from({ length: texts }, () => []);
    for (const { id, texts: own } of sets) for (const text of own) setsByText[text]?.push(id);
    this.#setsByText = packLists(setsByText);
    const { byText, always } = fileByText(patterns, texts);
    this.#byText = packLists(byText);
    this.#always = always;
    this.#setSeen = new Uint32Array(sets.length);
    this.#seen = new Uint32Array(patterns.length);
  }

  /** Returns the pattern numbers, in the order in which the text contains the texts they are filed under. */
  find({ texts }: LiteralMatches): number[] {
    const search = ++this.#searches;
    const [setSeen, seen] = [this.#setSeen, this.#seen];
    for (const text of texts) {
      const { starts, items } = this.#setsByText;
      for (let at = starts[text] as number; at < (starts[text + 1] as number); at++)
        setSeen[items[at] as number] = search;
    }
    const found = [...this.#always];
    const { starts, items } = this.#byText;
    for (const text of texts) {
      for (let at = starts[text] as number; at < (starts[text + 1] as number); at++) {
        const pattern = items[at] as number;
        if (seen[pattern] === search) continue;
        seen[pattern] = search;
        if (this.#hasAll(pattern, search)) found.push(pattern);
      }
    }
    return found;
  }

  #hasAll(pattern: number, search: number): boolean {
    const { starts, items } = this.#sets;
    for (let at = starts[pattern] as number; at < (starts[pattern + 1] as number); at++)
      if (this.#setSeen[items[at] as number] !== search) return false;
    return true;
  }
}

/** Files each pattern under the texts of the set that the fewest patterns share, so each text leads to few patterns. */
function fileByText(patterns: readonly { needs: readonly NeedSet[] }[], texts: number) {
  const counts = new Uint32Array(texts);
  for (const { needs } of patterns)
    for (const set of needs) for (const id of set.texts) counts[id] = (counts[id] as number) + 1;
  const byText: number[][] = Array.from({ length: texts }, () => []);
  const always: number[] = [];
  for (const [pattern, { needs }] of patterns.entries()) {
    let [best, least]: [NeedSet | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (const set of needs) {
      // A short text occurs everywhere, so it adds the cost of chance hits.
      const chance = set.shortest < 3 ? 1000 / set.shortest : 0;
      const cost = set.texts.reduce((sum, id) => sum + (counts[id] as number), chance);
      if (cost < least) [best, least] = [set, cost];
    }
    if (!best) always.push(pattern);
    else for (const id of best.texts) byText[id]?.push(pattern);
  }
  return { byText, always };
}

/** Concatenated lists of numbers: list `n` is from `starts[n]` up to, not including, `starts[n + 1]`. */
interface Lists {
  starts: Uint32Array;
  items: Uint32Array;
}

function packLists(lists: readonly (readonly number[])[]): Lists {
  const starts = new Uint32Array(lists.length + 1);
  for (const [at, { length }] of lists.entries()) starts[at + 1] = (starts[at] as number) + length;
  const items = new Uint32Array(starts[lists.length] as number);
  for (const [at, list] of lists.entries()) items.set(list, starts[at]);
  return { starts, items };
}
