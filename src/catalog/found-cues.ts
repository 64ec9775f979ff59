import type { CueKind, UnsureCue } from "./cues.ts";
import type { Reason } from "./match.ts";
import type { TriggerWeight } from "./selectivity.ts";

export type WeighedReason = Reason & TriggerWeight;

/** The levels of cues, the strongest first; `NO_CUE` is that of a skill without any. */
export const [EXPLICIT, PHRASE, TRIGGER, WEAK, NO_CUE] = [0, 1, 2, 3, 4] as const;
const LEVEL_OF: Record<Exclude<CueKind, "negative">, number> = {
  mention: EXPLICIT,
  name: PHRASE,
  example: PHRASE,
  phrase: PHRASE,
  keyword: TRIGGER,
  verb: TRIGGER,
  pattern: TRIGGER,
  path: TRIGGER,
};

/**
 * The cues of a query that speak for skills. A long query has some for thousands of skills and only the best are returned, so no object is
 * made for a skill, and patterns are run only where `confirm` is called: until then a pattern counts as one that matches.
 */
export class FoundCues {
  /** The skills with a cue, in the order in which they were found. */
  readonly skills: number[] = [];
  /** For each skill the level of its strongest cue that is selective, and what its most selective one weighs. Weak ones do not add up. */
  readonly levels: Uint8Array;
  readonly weights: Float64Array;
  /** What the most selective of its weak cues weighs that are not counted as words. */
  readonly wordlessWeights: Float64Array;
  /** For each skill its last cue plus one, and for each cue the one before it. */
  readonly #last: Uint32Array;
  readonly #before: number[] = [];
  readonly #reasons: WeighedReason[] = [];
  readonly #unsureCues: (UnsureCue | undefined)[] = [];
  /** The skills with a cue that is in the query for certain, and those with a pattern that was not run yet. */
  readonly #sure: Uint8Array;
  readonly #unsure: Uint8Array;

  constructor(size: number) {
    this.levels = new Uint8Array(size).fill(NO_CUE);
    this.weights = new Float64Array(size);
    this.wordlessWeights = new Float64Array(size);
    this.#last = new Uint32Array(size);
    this.#sure = new Uint8Array(size);
    this.#unsure = new Uint8Array(size);
  }

  add(skill: number, reason: WeighedReason, unsure: UnsureCue | undefined): void {
    if (this.#last[skill] === 0) this.skills.push(skill);
    this.#put(skill, reason, unsure);
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
    if (this.isUnsure(skill)) this.#keep(skill, (cue) => this.#unsureCues[cue]?.isFound() ?? true);
  }

  /** Leaves a skill that a cue speaks against only its mentions. */
  keepMentions(skill: number): void {
    this.#keep(skill, (cue) => this.#reasons[cue]?.kind === "mention");
  }

  /** The reasons for a skill, those that select it first. */
  reasonsOf(skill: number): WeighedReason[] {
    return this.#cuesOf(skill)
      .map((cue) => this.#reasons[cue] as WeighedReason)
      .sort((a, b) => Number(a.weak !== undefined) - Number(b.weak !== undefined));
  }

  #put(skill: number, reason: WeighedReason, unsure: UnsureCue | undefined): void {
    this.#before.push(this.#last[skill] as number);
    this.#last[skill] = this.#reasons.push(reason);
    this.#unsureCues.push(unsure);
    (unsure ? this.#unsure : this.#sure)[skill] = 1;
    const { kind, weak, weight } = reason;
    const level = weak ? WEAK : LEVEL_OF[kind as keyof typeof LEVEL_OF];
    if (level < (this.levels[skill] as number)) this.levels[skill] = level;
    if (weight > (this.weights[skill] as number)) this.weights[skill] = weight;
    if ((weak === "glob" || weak === "common-word") && weight > (this.wordlessWeights[skill] as number))
      this.wordlessWeights[skill] = weight;
  }

  #keep(skill: number, isKept: (cue: number) => boolean): void {
    const kept = this.#cuesOf(skill).filter(isKept);
    this.#last[skill] = 0;
    this.#unsure[skill] = 0;
    this.#sure[skill] = 0;
    this.levels[skill] = NO_CUE;
    this.weights[skill] = 0;
    this.wordlessWeights[skill] = 0;
    for (const cue of kept) this.#put(skill, this.#reasons[cue] as WeighedReason, undefined);
  }

  #cuesOf(skill: number): number[] {
    const cues: number[] = [];
    for (let cue = this.#last[skill] as number; cue !== 0; cue = this.#before[cue - 1] as number) cues.push(cue - 1);
    return cues.reverse();
  }
}
