import { analyzePattern } from "../../skill/pattern-parser.ts";
import { isBroadGlob, isCommonPattern, isCommonPhrase } from "../../skill/triggers.ts";
import type { Bm25Index } from "./bm25f.ts";
import type { MatchReason } from "./matcher.ts";
import { foldText, toTerm, visitWords } from "./tokenizer.ts";
import type { TriggerKind, UnverifiedTrigger } from "./trigger-index.ts";

/** The reason why a trigger or name in a query does not give a model the skill's instructions. */
export type WeakCause = "common-word" | "many-skills" | "glob" | "in-passing";

/** The selectivity of a trigger in this catalog. */
export interface TriggerWeight {
  /** From 0, not selective, to 1. The instructions are given from 0.5 on. */
  weight: number;
  weak?: WeakCause;
  /** The number of skills that contain the word or phrase, of how many; if it was counted. */
  skills?: number;
  of?: number;
}

/** Weak triggers of at least this weight are offered by name, even if no shortlist is requested. */
export const OFFERED_WEIGHT = 0.3;

const SELECTIVE_WEIGHT = 0.5;
/** The maximum weight of each kind of weak trigger. */
const MAX_WEIGHTS = { "common-word": 0.2, "in-passing": 0.2, "many-skills": 0.49, glob: 0.4, "broad-glob": 0.2 };
/** In a smaller catalog, a word shared by a few skills is still selective. */
const MIN_CATALOG_SIZE = 25;

/**
 * Weighs triggers by a fixed list of common words, and by how many skills of the catalog contain the word or phrase in their name,
 * description or triggers. A term in n of N skills weighs 1 - ln(n) / ln(N): 1 in a single skill, 0.5 in √N of them.
 */
export class TriggerSelectivity {
  readonly #size: number;
  readonly #textOf: (skill: number) => string;
  readonly #rank: () => Bm25Index;
  readonly #texts: string[] = [];
  readonly #known: Record<WeightGroup, Map<string, TriggerWeight>> = {
    phrase: new Map(),
    pattern: new Map(),
    glob: new Map(),
  };

  /** Contract: `rank` returns the index of the same texts, built on first use. */
  constructor(size: number, textOf: (skill: number) => string, rank: () => Bm25Index) {
    this.#size = size;
    this.#textOf = textOf;
    this.#rank = rank;
  }

  weigh(kind: TriggerKind, text: string, isPassing: boolean): TriggerWeight {
    if (isPassing) return PASSING_WEIGHT;
    const group = GROUP_BY_KIND[kind];
    if (group === undefined) return CERTAIN_WEIGHT;
    const known = this.#known[group];
    let weight = known.get(text);
    if (!weight) {
      weight = this.#weighNew(group, text);
      known.set(text, weight);
    }
    return weight;
  }

  #weighNew(group: WeightGroup, text: string): TriggerWeight {
    if (group === "phrase") return this.#weighPhrase(text);
    if (group === "pattern") return this.#weighPattern(text);
    return { weight: MAX_WEIGHTS[isBroadGlob(text) ? "broad-glob" : "glob"], weak: "glob" };
  }

  #weighPhrase(text: string): TriggerWeight {
    if (isCommonPhrase(text)) return this.#hasContent(text) ? COMMON_WEIGHT : NO_WEIGHT;
    return this.#weightOf(this.#countPhrase(text));
  }

  /** A pattern that needs several texts is as specific as a phrase. One that needs a single text has the weight of that text. */
  #weighPattern(pattern: string): TriggerWeight {
    const facts = analyzePattern(pattern);
    if ("problem" in facts || isCommonPattern(facts.needs)) return COMMON_WEIGHT;
    const sets = facts.needs.filter((set) => set.every((need) => /\p{L}/u.test(need)));
    if (facts.needs.length > 1 || sets[0] === undefined) return CERTAIN_WEIGHT;
    return this.#weightOf(Math.max(...sets[0].map((need) => this.#countNeed(need))));
  }

  #weightOf(skills: number): TriggerWeight {
    const size = Math.max(this.#size, MIN_CATALOG_SIZE);
    const weight = skills <= 1 ? 1 : Math.max(0, 1 - Math.log(skills) / Math.log(size));
    const counted = { skills, of: this.#size };
    if (skills * skills <= size) return { weight: Math.max(SELECTIVE_WEIGHT, roundWeight(weight)), ...counted };
    return { weight: Math.min(MAX_WEIGHTS["many-skills"], roundWeight(weight)), weak: "many-skills", ...counted };
  }

  #hasContent(text: string): boolean {
    let hasContent = false;
    visitWords(text, (word) => {
      hasContent ||= toTerm(word) !== undefined;
    });
    return hasContent;
  }

  /** Returns the number of skills that contain the phrase. Counts all forms of a single word. */
  #countPhrase(phrase: string): number {
    const words: string[] = [];
    visitWords(phrase, (word) => words.push(word));
    const terms = words.flatMap((word) => toTerm(word) ?? []);
    const lists = terms.map((term) => this.#rank().documentsWith(term));
    if (words.length === 1) return Math.max(1, lists[0]?.length ?? 0);
    const wanted = normalizePhrase(phrase);
    // Scripts without spaces are indexed as character pairs, and a phrase may start or end within one.
    if (NOT_ASCII.test(phrase)) return this.#countTexts((text) => hasPhrase(text, wanted));
    const fewest = lists.reduce((a, b) => (b.length < a.length ? b : a), lists[0] ?? new Uint32Array(0));
    return Math.max(1, fewest.filter((skill) => hasPhrase(this.#text(skill), wanted)).length);
  }

  /** Returns the number of skills with a text that a pattern needs: as a word or, as in `[a-z]+ing`, as part of a word. */
  #countNeed(need: string): number {
    const term = toTerm(need.trim());
    const skills = term === undefined ? 0 : this.#rank().documentsWith(term).length;
    if (skills > 0) return skills;
    const wanted = normalizePhrase(need);
    return this.#countTexts((text) => text.includes(wanted));
  }

  #countTexts(isMatch: (text: string) => boolean): number {
    let count = 0;
    for (let skill = 0; skill < this.#size; skill++) if (isMatch(this.#text(skill))) count++;
    return Math.max(1, count);
  }

  #text(skill: number): string {
    let text = this.#texts[skill];
    if (text === undefined) {
      text = normalizePhrase(this.#textOf(skill));
      this.#texts[skill] = text;
    }
    return text;
  }
}

type WeightGroup = "phrase" | "pattern" | "glob";
const GROUP_BY_KIND: { readonly [Kind in TriggerKind]?: WeightGroup } = {
  keyword: "phrase",
  verb: "phrase",
  phrase: "phrase",
  pattern: "pattern",
  path: "glob",
};
const NOT_ASCII = /[^\0-\x7f]/;
const CERTAIN_WEIGHT: TriggerWeight = { weight: 1 };
const COMMON_WEIGHT: TriggerWeight = { weight: MAX_WEIGHTS["common-word"], weak: "common-word" };
const NO_WEIGHT: TriggerWeight = { weight: 0, weak: "common-word" };
const PASSING_WEIGHT: TriggerWeight = { weight: MAX_WEIGHTS["in-passing"], weak: "in-passing" };

function roundWeight(weight: number): number {
  return Math.round(weight * 100) / 100;
}

function normalizePhrase(text: string): string {
  return foldText(text).replace(/[\s_-]+/g, " ");
}

/** Returns true if the phrase is in the text, and not as part of longer words. */
function hasPhrase(text: string, phrase: string): boolean {
  for (let at = text.indexOf(phrase); at !== -1; at = text.indexOf(phrase, at + 1)) {
    const [before, after] = [text[at - 1] ?? " ", text[at + phrase.length] ?? " "];
    if (!/[a-z\d]/.test(before) && !/[a-z\d]/.test(after)) return true;
  }
  return false;
}

type WeightedReason = MatchReason & TriggerWeight;

/** The levels of cues, strongest first; `NO_TRIGGER` is that of a skill without any. */
export const [EXPLICIT, PHRASE, TRIGGER, WEAK, NO_TRIGGER] = [0, 1, 2, 3, 4] as const;
const LEVEL_BY_KIND: Record<Exclude<TriggerKind, "negative">, number> = {
  mention: EXPLICIT,
  name: PHRASE,
  example: PHRASE,
  phrase: PHRASE,
  keyword: TRIGGER,
  verb: TRIGGER,
  pattern: TRIGGER,
  path: TRIGGER,
};

/** A reason with its level, shared by the skills it supports. */
export interface WeighedCue {
  reason: WeightedReason;
  level: number;
  /** The weight of a weak reason that is not counted as words, otherwise 0. */
  wordlessWeight: number;
}

export function createWeighedCue(reason: WeightedReason): WeighedCue {
  const { kind, weak, weight } = reason;
  const level = weak ? WEAK : LEVEL_BY_KIND[kind as keyof typeof LEVEL_BY_KIND];
  return { reason, level, wordlessWeight: weak === "glob" || weak === "common-word" ? weight : 0 };
}

/**
 * The cues of a query that support skills. A long query has cues for thousands of skills and only the best are returned. So no object is
 * created per skill, and patterns only run in `confirm`: until then a pattern counts as a match.
 */
export class TriggerMatches {
  /** The skills with a cue, in the order they were found. */
  readonly skills: number[] = [];
  /** The level of each skill's strongest selective cue, and the weight of its most selective one. Weak ones do not add up. */
  readonly levels: Uint8Array;
  readonly weights: Float64Array;
  /** The weight of its most selective weak cue that is not counted as words. */
  readonly wordlessWeights: Float64Array;
  /** The last entry of each skill plus one; and for each entry its cue, its unverified trigger, and the previous entry. */
  readonly #last: Uint32Array;
  readonly #before: number[] = [];
  readonly #cues: WeighedCue[] = [];
  readonly #unsureCues: (UnverifiedTrigger | undefined)[] = [];
  /** The skills with a verified cue, and those with a pattern that has not run yet. */
  readonly #sure: Uint8Array;
  readonly #unsure: Uint8Array;

  constructor(size: number) {
    this.levels = new Uint8Array(size).fill(NO_TRIGGER);
    this.weights = new Float64Array(size);
    this.wordlessWeights = new Float64Array(size);
    this.#last = new Uint32Array(size);
    this.#sure = new Uint8Array(size);
    this.#unsure = new Uint8Array(size);
  }

  add(skill: number, cue: WeighedCue, unsure: UnverifiedTrigger | undefined): void {
    if (this.#last[skill] === 0) this.skills.push(skill);
    this.#put(skill, cue, unsure);
  }

  /** Returns true if a verified cue supports the skill. */
  has(skill: number): boolean {
    if (this.#sure[skill] === 0) this.confirm(skill);
    return this.#sure[skill] === 1;
  }

  isUnsure(skill: number): boolean {
    return this.#unsure[skill] === 1;
  }

  /** Runs the patterns of the skill, and removes those that do not match. */
  confirm(skill: number): void {
    if (this.isUnsure(skill)) this.#keep(skill, (entry) => this.#unsureCues[entry]?.isFound() ?? true);
  }

  /** Removes all cues of a rejected skill except its mentions. */
  keepMentions(skill: number): void {
    this.#keep(skill, (entry) => this.#cues[entry]?.reason.kind === "mention");
  }

  /** Returns the reasons for a skill, selecting ones first. */
  reasonsOf(skill: number): WeightedReason[] {
    return this.#entriesOf(skill)
      .map((entry) => (this.#cues[entry] as WeighedCue).reason)
      .sort((a, b) => Number(a.weak !== undefined) - Number(b.weak !== undefined));
  }

  #put(skill: number, cue: WeighedCue, unsure: UnverifiedTrigger | undefined): void {
    this.#before.push(this.#last[skill] as number);
    this.#last[skill] = this.#cues.push(cue);
    this.#unsureCues.push(unsure);
    (unsure ? this.#unsure : this.#sure)[skill] = 1;
    const { level, wordlessWeight, reason } = cue;
    if (level < (this.levels[skill] as number)) this.levels[skill] = level;
    if (reason.weight > (this.weights[skill] as number)) this.weights[skill] = reason.weight;
    if (wordlessWeight > (this.wordlessWeights[skill] as number)) this.wordlessWeights[skill] = wordlessWeight;
  }

  #keep(skill: number, isKept: (entry: number) => boolean): void {
    const kept = this.#entriesOf(skill).filter(isKept);
    this.#last[skill] = 0;
    this.#unsure[skill] = 0;
    this.#sure[skill] = 0;
    this.levels[skill] = NO_TRIGGER;
    this.weights[skill] = 0;
    this.wordlessWeights[skill] = 0;
    for (const entry of kept) this.#put(skill, this.#cues[entry] as WeighedCue, undefined);
  }

  #entriesOf(skill: number): number[] {
    const entries: number[] = [];
    for (let last = this.#last[skill] as number; last !== 0; last = this.#before[last - 1] as number)
      entries.push(last - 1);
    return entries.reverse();
  }
}
