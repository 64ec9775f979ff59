import { analyzePattern } from "../../skill/pattern-parser.ts";
import { isBroadGlob, isCommonPattern, isCommonPhrase } from "../../skill/triggers.ts";
import type { Bm25Index } from "./bm25f.ts";
import type { MatchReason } from "./matcher.ts";
import { foldText, toTerm, visitWords } from "./tokenizer.ts";
import type { TriggerKind, UnverifiedTrigger } from "./trigger-index.ts";

/** Why a trigger or a name in a query does not give a model the skill's instructions. */
export type WeakCause = "common-word" | "many-skills" | "glob" | "in-passing";

/** How selective a trigger is in this catalog. */
export interface TriggerWeight {
  /** From 0, it says nothing, to 1. The instructions are given from 0.5 on. */
  weight: number;
  weak?: WeakCause;
  /** In how many of how many skills the word or phrase occurs; where that was counted. */
  skills?: number;
  of?: number;
}

/** Weak triggers of at least this weight are offered by name, also where no shortlist is asked for. */
export const OFFERED_WEIGHT = 0.3;

const SELECTIVE_WEIGHT = 0.5;
/** The most that each kind of weak trigger can weigh. */
const MAX_WEIGHTS = { "common-word": 0.2, "in-passing": 0.2, "many-skills": 0.49, glob: 0.4, "broad-glob": 0.2 };
/** In a catalog below this size, a word that a few skills share is still selective. */
const MIN_CATALOG_SIZE = 25;

/**
 * Weighs triggers: by a fixed list of common words, and by how many skills of the catalog hold the word or phrase in their
 * name, description or triggers. A term in n of N skills weighs 1 - ln(n) / ln(N): 1 in a single skill, 0.5 in √N of them.
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

  /** Contract: `rank` is the index of the same texts, made when it is first asked for. */
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

  /** A pattern that needs several texts is as specific as a phrase. One that needs a single text weighs what that does. */
  #weighPattern(pattern: string): TriggerWeight {
    const judged = analyzePattern(pattern);
    if ("problem" in judged || isCommonPattern(judged.needs)) return COMMON_WEIGHT;
    const sets = judged.needs.filter((set) => set.every((need) => /\p{L}/u.test(need)));
    if (judged.needs.length > 1 || sets[0] === undefined) return CERTAIN_WEIGHT;
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

  /** How many skills hold the phrase. A single word counts in all its forms. */
  #countPhrase(phrase: string): number {
    const words: string[] = [];
    visitWords(phrase, (word) => words.push(word));
    const terms = words.flatMap((word) => toTerm(word) ?? []);
    const lists = terms.map((term) => this.#rank().documentsWith(term));
    if (words.length === 1) return Math.max(1, lists[0]?.length ?? 0);
    const wanted = normalizePhrase(phrase);
    // Scripts without blanks are indexed in pairs of characters, which a phrase may begin or end within.
    if (NOT_ASCII.test(phrase)) return this.#countTexts((text) => hasPhrase(text, wanted));
    const fewest = lists.reduce((a, b) => (b.length < a.length ? b : a), lists[0] ?? new Uint32Array(0));
    return Math.max(1, fewest.filter((skill) => hasPhrase(this.#text(skill), wanted)).length);
  }

  /** How many skills hold a text that a pattern needs: as a word or, as in `[a-z]+ing`, as a part of words. */
  #countNeed(need: string): number {
    const term = toTerm(need.trim());
    const skills = term === undefined ? 0 : this.#rank().documentsWith(term).length;
    if (skills > 0) return skills;
    const wanted = normalizePhrase(need);
    return this.#countTexts((text) => text.includes(wanted));
  }

  #countTexts(holds: (text: string) => boolean): number {
    let count = 0;
    for (let skill = 0; skill < this.#size; skill++) if (holds(this.#text(skill))) count++;
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

/** The phrase is in the text, and not as a part of longer words. */
function hasPhrase(text: string, phrase: string): boolean {
  for (let at = text.indexOf(phrase); at !== -1; at = text.indexOf(phrase, at + 1)) {
    const [before, after] = [text[at - 1] ?? " ", text[at + phrase.length] ?? " "];
    if (!/[a-z\d]/.test(before) && !/[a-z\d]/.test(after)) return true;
  }
  return false;
}

type WeightedReason = MatchReason & TriggerWeight;

/** The levels of cues, the strongest first; `NO_CUE` is that of a skill without any. */
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

/** A reason with its level, shared by the skills that it speaks for. */
export interface WeighedCue {
  reason: WeightedReason;
  level: number;
  /** The weight of a reason that is weak and not counted as words, else 0. */
  wordlessWeight: number;
}

export function createWeighedCue(reason: WeightedReason): WeighedCue {
  const { kind, weak, weight } = reason;
  const level = weak ? WEAK : LEVEL_BY_KIND[kind as keyof typeof LEVEL_BY_KIND];
  return { reason, level, wordlessWeight: weak === "glob" || weak === "common-word" ? weight : 0 };
}

/**
 * The cues of a query that speak for skills. A long query has some for thousands of skills and only the best are returned, so no object is
 * made for a skill, and patterns are run only where `confirm` is called: until then a pattern counts as one that matches.
 */
export class TriggerMatches {
  /** The skills with a cue, in the order in which they were found. */
  readonly skills: number[] = [];
  /** For each skill the level of its strongest cue that is selective, and what its most selective one weighs. Weak ones do not add up. */
  readonly levels: Uint8Array;
  readonly weights: Float64Array;
  /** What the most selective of its weak cues weighs that are not counted as words. */
  readonly wordlessWeights: Float64Array;
  /** For each skill the number of its last entry plus one; for each entry its cue, what is unsure of it, and the entry before it. */
  readonly #last: Uint32Array;
  readonly #before: number[] = [];
  readonly #cues: WeighedCue[] = [];
  readonly #unsureCues: (UnverifiedTrigger | undefined)[] = [];
  /** The skills with a cue that is in the query for certain, and those with a pattern that was not run yet. */
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

  /** Returns whether a cue that is in the query for certain speaks for the skill. */
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

  /** Leaves a skill that a cue speaks against only its mentions. */
  keepMentions(skill: number): void {
    this.#keep(skill, (entry) => this.#cues[entry]?.reason.kind === "mention");
  }

  /** The reasons for a skill, those that select it first. */
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
