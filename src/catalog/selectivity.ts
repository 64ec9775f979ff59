import { isBroadGlob, isCommonPattern, isCommonPhrase } from "../skill/broad.ts";
import { judgePattern } from "../skill/pattern.ts";
import type { CueKind } from "./cues.ts";
import type { RankIndex } from "./rank.ts";
import { eachWord, termOf } from "./terms.ts";
import { fold } from "./units.ts";

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
const CAPS = { "common-word": 0.2, "in-passing": 0.2, "many-skills": 0.49, glob: 0.4, "broad-glob": 0.2 };
/** In a catalog below this size, a word that a few skills share is still selective. */
const SMALLEST_CATALOG = 25;

/**
 * Weighs triggers: by a fixed list of common words, and by how many skills of the catalog hold the word or phrase in their
 * name, description or triggers. A term in n of N skills weighs 1 - ln(n) / ln(N): 1 in a single skill, 0.5 in √N of them.
 */
export class Selectivity {
  readonly #size: number;
  readonly #textOf: (skill: number) => string;
  readonly #rank: () => RankIndex;
  readonly #texts: string[] = [];
  readonly #known: Record<Group, Map<string, TriggerWeight>> = {
    phrase: new Map(),
    pattern: new Map(),
    glob: new Map(),
  };

  /** Contract: `rank` is the index of the same texts, made when it is first asked for. */
  constructor(size: number, textOf: (skill: number) => string, rank: () => RankIndex) {
    this.#size = size;
    this.#textOf = textOf;
    this.#rank = rank;
  }

  weigh(kind: CueKind, text: string, isPassing: boolean): TriggerWeight {
    if (isPassing) return IN_PASSING;
    const group = GROUPS[kind];
    if (group === undefined) return CERTAIN;
    const known = this.#known[group];
    let weight = known.get(text);
    if (!weight) {
      weight = this.#weighNew(group, text);
      known.set(text, weight);
    }
    return weight;
  }

  #weighNew(group: Group, text: string): TriggerWeight {
    if (group === "phrase") return this.#weighPhrase(text);
    if (group === "pattern") return this.#weighPattern(text);
    return { weight: CAPS[isBroadGlob(text) ? "broad-glob" : "glob"], weak: "glob" };
  }

  #weighPhrase(text: string): TriggerWeight {
    if (isCommonPhrase(text)) return this.#hasContent(text) ? COMMON : NOTHING;
    return this.#weightOf(this.#countPhrase(text));
  }

  /** A pattern that needs several texts is as specific as a phrase. One that needs a single text weighs what that does. */
  #weighPattern(pattern: string): TriggerWeight {
    const judged = judgePattern(pattern);
    if ("problem" in judged || isCommonPattern(judged.needs)) return COMMON;
    const sets = judged.needs.filter((set) => set.every((need) => /\p{L}/u.test(need)));
    if (judged.needs.length > 1 || sets[0] === undefined) return CERTAIN;
    return this.#weightOf(Math.max(...sets[0].map((need) => this.#countNeed(need))));
  }

  #weightOf(skills: number): TriggerWeight {
    const size = Math.max(this.#size, SMALLEST_CATALOG);
    const weight = skills <= 1 ? 1 : Math.max(0, 1 - Math.log(skills) / Math.log(size));
    const counted = { skills, of: this.#size };
    if (skills * skills <= size) return { weight: Math.max(SELECTIVE_WEIGHT, rounded(weight)), ...counted };
    return { weight: Math.min(CAPS["many-skills"], rounded(weight)), weak: "many-skills", ...counted };
  }

  #hasContent(text: string): boolean {
    let hasContent = false;
    eachWord(text, (word) => {
      hasContent ||= termOf(word) !== undefined;
    });
    return hasContent;
  }

  /** How many skills hold the phrase. A single word counts in all its forms. */
  #countPhrase(phrase: string): number {
    const words: string[] = [];
    eachWord(phrase, (word) => words.push(word));
    const terms = words.flatMap((word) => termOf(word) ?? []);
    const lists = terms.map((term) => this.#rank().documentsWith(term));
    if (words.length === 1) return Math.max(1, lists[0]?.length ?? 0);
    const wanted = plain(phrase);
    // Scripts without blanks are indexed in pairs of characters, which a phrase may begin or end within.
    if (NOT_ASCII.test(phrase)) return this.#countTexts((text) => hasPhrase(text, wanted));
    const fewest = lists.reduce((a, b) => (b.length < a.length ? b : a), lists[0] ?? new Uint32Array(0));
    return Math.max(1, fewest.filter((skill) => hasPhrase(this.#text(skill), wanted)).length);
  }

  /** How many skills hold a text that a pattern needs: as a word or, as in `[a-z]+ing`, as a part of words. */
  #countNeed(need: string): number {
    const term = termOf(need.trim());
    const skills = term === undefined ? 0 : this.#rank().documentsWith(term).length;
    if (skills > 0) return skills;
    const wanted = plain(need);
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
      text = plain(this.#textOf(skill));
      this.#texts[skill] = text;
    }
    return text;
  }
}

type Group = "phrase" | "pattern" | "glob";
const GROUPS: { readonly [Kind in CueKind]?: Group } = {
  keyword: "phrase",
  verb: "phrase",
  phrase: "phrase",
  pattern: "pattern",
  path: "glob",
};
const NOT_ASCII = /[^\0-\x7f]/;
const CERTAIN: TriggerWeight = { weight: 1 };
const COMMON: TriggerWeight = { weight: CAPS["common-word"], weak: "common-word" };
const NOTHING: TriggerWeight = { weight: 0, weak: "common-word" };
const IN_PASSING: TriggerWeight = { weight: CAPS["in-passing"], weak: "in-passing" };

function rounded(weight: number): number {
  return Math.round(weight * 100) / 100;
}

function plain(text: string): string {
  return fold(text).replace(/[\s_-]+/g, " ");
}

/** The phrase is in the text, and not as a part of longer words. */
function hasPhrase(text: string, phrase: string): boolean {
  for (let at = text.indexOf(phrase); at !== -1; at = text.indexOf(phrase, at + 1)) {
    const [before, after] = [text[at - 1] ?? " ", text[at + phrase.length] ?? " "];
    if (!/[a-z\d]/.test(before) && !/[a-z\d]/.test(after)) return true;
  }
  return false;
}
