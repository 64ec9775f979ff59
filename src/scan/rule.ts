import type { Manifest } from "../skill/manifest.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { truncateLine } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import type { SourceText } from "./source-text.ts";

/** What is looked at: every file of a skill, by its path. SKILL.md is one of them. */
export interface ScanSubject {
  name: string;
  description: string;
  manifest: Manifest;
  files: ReadonlyMap<string, CopiedFile>;
}

/** How much it would matter if it is what it looks like. */
export const FINDING_WEIGHTS = ["high", "medium", "low"] as const;
export type FindingWeight = (typeof FINDING_WEIGHTS)[number];

/** Something that a person should look at. Advice: that nothing was found says nothing. */
export interface ScanFinding {
  /** The rule's id, `fetch-and-execute`. */
  rule: string;
  weight: FindingWeight;
  /** The path in the skill. */
  file: string;
  line?: number;
  column?: number;
  /** What was seen, in a sentence without its full stop. */
  message: string;
  /** What to do. */
  fix: string;
}

/**
 * What a text is where it stands: code that runs, a block of code in a document, a word of code in a sentence, a sentence, what is only
 * noted down (comments in code, data), and what readers of a document do not see.
 */
export const TEXT_REGIONS = ["code", "block", "inline", "prose", "note", "aside"] as const;
export type TextRegion = (typeof TEXT_REGIONS)[number];

/** For every place in order: `h`igh, `m`edium, `l`ow, or `-` where it is not said. */
export type RegionWeights = string;

export interface ScanRule {
  id: string;
  /** Continues "The skill …", and with what was seen after a colon. */
  title: string;
  why: string;
  fix: string;
  /** The most that it can weigh. */
  weight: FindingWeight;
}

/** A rule over statements: lines, with those that go on with them. */
export interface TextRule extends ScanRule {
  weigh: RegionWeights;
  /** In lower case. A statement without any of them is not looked at. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: ScanStatement): MatchSpan | undefined;
  /** Words that only warn of it, or quote it, weigh little. True unless said. */
  heedsMentions?: boolean;
}

export interface ScanStatement {
  text: string;
  /** The file that it is in. */
  page: SourceText;
  /** Where it begins, from 0. */
  line: number;
}

export interface MatchSpan {
  index: number;
  length: number;
}

/** A rule over a whole page, whose words stand somewhere in it. */
export interface SourceRule extends ScanRule {
  /** One word of each list must be there. */
  all: readonly (readonly string[])[];
  find(page: SourceText): SourceMatch | undefined;
}

export interface SourceMatch {
  line: number;
  weight?: FindingWeight;
  /** What is quoted of it. */
  seen: string;
}

/** A rule over a file's bytes. */
export interface FileRule extends ScanRule {
  find(file: ScannedFile): { weight?: FindingWeight; seen: string } | undefined;
}

export interface ScannedFile {
  path: string;
  bytes: Uint8Array;
  executable: boolean;
  /** What its first bytes say that it is, where that is not simply text or a picture. */
  kind?: string | undefined;
}

/** A rule over what a skill says of itself, against what is in it. */
export interface ManifestRule extends ScanRule {
  find(told: ManifestContext): Iterable<SourceMatch & { file?: string }>;
}

export interface ManifestContext {
  description: string;
  manifest: Manifest;
  pages: readonly SourceText[];
  /** The line of a key in SKILL.md, from 0. */
  lineOf(key: string): number;
  /** Whether a text stands anywhere but in the frontmatter. */
  mentions(text: string): boolean;
}

/** The first of several patterns that is there. */
export function findFirstMatch(...patterns: readonly RegExp[]): (text: string) => MatchSpan | undefined {
  return (text) => {
    for (const pattern of patterns) {
      const match = pattern.exec(text);
      if (match) return { index: match.index, length: match[0].length };
    }
    return undefined;
  };
}

const MAX_EXCERPT_LENGTH = 72;

/** A little of what was seen: on one line, nothing that acts on a terminal, and nothing that may be a secret. */
export function formatExcerpt(text: string): string {
  const shown = removeSecrets(truncateLine(text.slice(0, 400)));
  return truncateLine(escapeLine(truncateLine(shown, MAX_EXCERPT_LENGTH)), MAX_EXCERPT_LENGTH);
}

function removeSecrets(text: string): string {
  return text
    .replace(/(:\/\/)[^\s/@]{1,100}@/g, "$1…@")
    .replace(
      /\b((?:[\w-]{0,30}(?:token|secret|passw(?:or)?d|api_?key|authorization|bearer))["']?\s{0,2}[=:]?\s{0,2}["']?)(?=[^\s"'$<{]{6})[^\s"']{1,200}/gi,
      "$1…",
    )
    .replace(/[A-Za-z0-9_+/=-]{20,}/g, (word) => (isSecretLike(word) ? `${word.slice(0, 4)}…` : word));
}

/** Letters and digits in no order that the parts of a path have. */
function isSecretLike(word: string): boolean {
  return word.split(/[/_=-]/).some((part) => part !== "" && !PATH_PART.test(part));
}

const PATH_PART = /^(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,15}|\d{1,5}|[a-z]{2,12}\d{1,3})$/;
