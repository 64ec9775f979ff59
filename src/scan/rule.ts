import type { Manifest } from "../skill/manifest.ts";
import type { Weight } from "./finding.ts";
import type { Page } from "./page.ts";

/**
 * What a text is where it stands: code that runs, a block of code in a document, a word of code in a sentence, a sentence, what is only
 * noted down (comments in code, data), and what readers of a document do not see.
 */
export const PLACES = ["code", "block", "inline", "prose", "note", "aside"] as const;
export type Place = (typeof PLACES)[number];

/** For every place in order: `h`igh, `m`edium, `l`ow, or `-` where it is not said. */
export type Weighing = string;

export interface Rule {
  id: string;
  /** Continues "The skill …", and with what was seen after a colon. */
  title: string;
  why: string;
  fix: string;
  /** The most that it can weigh. */
  weight: Weight;
}

/** A rule over statements: lines, with those that go on with them. */
export interface TextRule extends Rule {
  weigh: Weighing;
  /** In lower case. A statement without any of them is not looked at. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: Statement): Found | undefined;
  /** Words that only warn of it, or quote it, weigh little. True unless said. */
  heedsMentions?: boolean;
}

export interface Statement {
  text: string;
  /** The file that it is in. */
  page: Page;
  /** Where it begins, from 0. */
  line: number;
}

export interface Found {
  index: number;
  length: number;
}

/** A rule over a whole page, whose words stand somewhere in it. */
export interface PageRule extends Rule {
  /** One word of each list must be there. */
  all: readonly (readonly string[])[];
  find(page: Page): PageFound | undefined;
}

export interface PageFound {
  line: number;
  weight?: Weight;
  /** What is quoted of it. */
  seen: string;
}

/** A rule over a file's bytes. */
export interface FileRule extends Rule {
  find(file: BytesOfFile): { weight?: Weight; seen: string } | undefined;
}

export interface BytesOfFile {
  path: string;
  bytes: Uint8Array;
  executable: boolean;
  /** What its first bytes say that it is, where that is not simply text or a picture. */
  kind?: string | undefined;
}

/** A rule over what a skill says of itself, against what is in it. */
export interface SkillRule extends Rule {
  find(told: Told): Iterable<PageFound & { file?: string }>;
}

export interface Told {
  description: string;
  manifest: Manifest;
  pages: readonly Page[];
  /** The line of a key in SKILL.md, from 0. */
  lineOf(key: string): number;
  /** Whether a text stands anywhere but in the frontmatter. */
  mentions(text: string): boolean;
}

/** The first of several patterns that is there. */
export function first(...patterns: readonly RegExp[]): (text: string) => Found | undefined {
  return (text) => {
    for (const pattern of patterns) {
      const match = pattern.exec(text);
      if (match) return { index: match.index, length: match[0].length };
    }
    return undefined;
  };
}
