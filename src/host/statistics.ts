import type { SkillEvent } from "./events.ts";

/** What was used, how often, and what came of it. Several programs may write at once. */
export interface Statistics {
  /** Takes note of what ended, was refused or was loaded. Contract: never throws; what cannot be written down is lost. */
  take(event: SkillEvent): void;
  /** The skills that were used or loaded, the last one first; at most so many. Empty when nothing is known. */
  recent(most: number): readonly string[];
  /** One row a skill, by name; with `since`, only what happened from then on. Throws a SkillError when it cannot be read. */
  perSkill(options?: { since?: Date }): readonly SkillStatistics[];
}

export interface SkillStatistics {
  skill: string;
  /** Where the copies that were used came from. */
  sources: readonly string[];
  runs: number;
  loads: number;
  refused: number;
  /** How runs ended, by `stop`. */
  outcomes: Readonly<Record<string, number>>;
  /** Of those that ended: half, and all but a twentieth, took at most so long. */
  p50Ms?: number;
  p95Ms?: number;
  iterations: number;
  inputTokens: number;
  outputTokens: number;
  /** In US dollars, where prices are known. */
  cost?: number;
  /** When it was last used or loaded, as ISO 8601 writes it. */
  lastUse?: string;
}
