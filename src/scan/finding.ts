import type { Manifest } from "../skill/manifest.ts";
import type { CopiedFile } from "../source/digest.ts";

/** What is looked at: every file of a skill, by its path. SKILL.md is one of them. */
export interface ScanSubject {
  name: string;
  description: string;
  manifest: Manifest;
  files: ReadonlyMap<string, CopiedFile>;
}

/** How much it would matter if it is what it looks like. */
export const WEIGHTS = ["high", "medium", "low"] as const;
export type Weight = (typeof WEIGHTS)[number];

/** Something that a person should look at. Advice: that nothing was found says nothing. */
export interface ScanFinding {
  /** The rule's id, `fetch-and-execute`. */
  rule: string;
  weight: Weight;
  /** The path in the skill. */
  file: string;
  line?: number;
  column?: number;
  /** What was seen, in a sentence without its full stop. */
  message: string;
  /** What to do. */
  fix: string;
}
