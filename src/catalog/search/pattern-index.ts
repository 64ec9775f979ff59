import { RE2JS } from "re2js";
import { analyzePattern } from "../../skill/pattern-parser.ts";
import { LiteralIndex, LiteralPositions, type NeedSet, type PatternPlan } from "./literal-prefilter.ts";
import { NeedFilter } from "./need-filter.ts";

interface PatternRow<T> {
  pattern: string;
  values: T[];
  needs: readonly NeedSet[];
  /** Computed when a query first has what the pattern needs; false for a pattern that cannot be used. */
  plan: UsablePlan | false | undefined;
}

type UsablePlan = PatternPlan & { engine: LazyEngine };

/**
 * Regular expressions, tried on a text in linear time. One is run only where the texts that it cannot match without are there, in their
 * order and as near to each other as a match has them.
 */
export class PatternIndex<T> {
  readonly #rows = new Map<string, PatternRow<T>>();
  readonly #needSets = new Map<string, NeedSet>();
  readonly #texts = new LiteralIndex();
  #prefilter: NeedFilter | undefined;
  /** In the order in which they were added. */
  readonly #list: PatternRow<T>[] = [];

  /** Contract: the pattern was judged, and these are the texts that it cannot match without. */
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

  /** The patterns whose texts a text has. `isAllowed` is given where the first matches of one begin, if it asks. */
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
  const judged = analyzePattern(pattern);
  if ("problem" in judged) return false;
  const { gaps, isAtStart } = judged;
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

/** A pattern that a text may have a match of. It is run when it is first asked for that. */
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

/** How many matches of a pattern are looked at. */
const MAX_STARTS = 50;

/** A pattern that is compiled when it is first tried: most queries that have its texts do not have them near enough to each other. */
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

/** One pattern that is tried in linear time. Throws for what that cannot be done with: looking around, references back. */
export function compileLinearPattern(pattern: string): { test(text: string): boolean; toString(): string } {
  const engine = RE2JS.compile(pattern);
  // As a regular expression does: by this text others tell one from another.
  return { test: (text) => engine.test(text), toString: () => pattern };
}

// What was judged compiles. Should the two ever differ, a trigger is lost and not the conversation.
function compileRe2(pattern: string): RE2JS | undefined {
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
function countLineBreaks(pattern: string): number {
  const rest = pattern.replace(PLAIN_ESCAPE, "");
  const blanks = rest.split("\\s").length - 1;
  const isUnsure = /\\(?!s)|[\^$\0-\x1f]|\(\?[a-zA-Z-]*[smU]|\[[^\]]*\\s/.test(rest);
  // What is repeated as a whole may have breaks as often.
  return isUnsure || (blanks > 0 && /\)[*+{]/.test(rest)) ? ANY_NUMBER : blanks;
}
