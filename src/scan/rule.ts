import type { Manifest } from "../skill/manifest.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { truncateLine } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import type { SourceText } from "./source-text.ts";

/** The input of a scan: every file of a skill by its path, including SKILL.md. */
export interface ScanSubject {
  name: string;
  description: string;
  manifest: Manifest;
  files: ReadonlyMap<string, CopiedFile>;
}

/** The severity of a finding, if its suspicion is correct. */
export const FINDING_WEIGHTS = ["high", "medium", "low"] as const;
export type FindingWeight = (typeof FINDING_WEIGHTS)[number];

/** A finding that a person should review. It is advice: an empty result does not prove that a skill is safe. */
export interface ScanFinding {
  /** The rule's id, `fetch-and-execute`. */
  rule: string;
  weight: FindingWeight;
  /** The path in the skill. */
  file: string;
  line?: number;
  column?: number;
  /** A description of the match, without a final period. */
  message: string;
  /** The suggested step. */
  fix: string;
}

/**
 * The region of a text: code that runs, a code block in a document, inline code, prose, notes (comments in code, data), and text
 * that readers of a document do not see.
 */
export const TEXT_REGIONS = ["code", "block", "inline", "prose", "note", "aside"] as const;
export type TextRegion = (typeof TEXT_REGIONS)[number];

/** The weight for each region, in order: `h`igh, `m`edium, `l`ow, or `-` for not reported. */
export type RegionWeights = string;

export interface ScanRule {
  id: string;
  /** Continues "The skill …". A colon and the matched text follow. */
  title: string;
  why: string;
  fix: string;
  /** The maximum weight of a finding. */
  weight: FindingWeight;
}

/** A rule over statements: lines joined with their continuation lines. */
export interface TextRule extends ScanRule {
  regionWeights: RegionWeights;
  /** In lower case. Statements without any of them are skipped. */
  keywords: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: ScanStatement): MatchSpan | undefined;
  /** If true, a text that only warns of the match or quotes it gets a low weight. Defaults to true. */
  skipsMentions?: boolean;
}

export interface ScanStatement {
  text: string;
  page: SourceText;
  /** The first line, from 0. */
  line: number;
}

export interface MatchSpan {
  index: number;
  length: number;
}

/** A rule over a whole page that contains its keywords. */
export interface SourceRule extends ScanRule {
  /** The page must contain one keyword of each list. */
  keywordGroups: readonly (readonly string[])[];
  find(page: SourceText): SourceMatch | undefined;
}

export interface SourceMatch {
  line: number;
  weight?: FindingWeight;
  /** The quoted text. */
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
  /** The type that the first bytes indicate; undefined for plain text and pictures. */
  kind?: string | undefined;
}

/** A rule that compares the claims of a manifest with the content of the skill. */
export interface ManifestRule extends ScanRule {
  find(manifest: ManifestContext): Iterable<SourceMatch & { file?: string }>;
}

export interface ManifestContext {
  description: string;
  manifest: Manifest;
  pages: readonly SourceText[];
  /** The line of a key in SKILL.md, from 0. */
  lineOf(key: string): number;
  /** Returns true if a text occurs outside of the frontmatter. */
  mentions(text: string): boolean;
}

/** Creates a search for the first of several patterns that matches. */
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

/** Formats an excerpt of a match: one line, without terminal codes and without possible secrets. */
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

/** Returns true if letters and digits are mixed in a way that parts of a path are not. */
function isSecretLike(word: string): boolean {
  return word.split(/[/_=-]/).some((part) => part !== "" && !PATH_PART.test(part));
}

const PATH_PART = /^(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,15}|\d{1,5}|[a-z]{2,12}\d{1,3})$/;

/**
 * The meaning of a signal: the skill hides something from the user (or may), sends data to a fixed address, reads or names
 * private data, performs a permanent or unusual action, skips the user's approval, asks people for credentials, contains a
 * sentence that sends something, or names intimate data.
 */
export type SignalKind =
  | "hides"
  | "downplays"
  | "secrecy"
  | "sends"
  | "private"
  | "personal"
  | "acts"
  | "unasked"
  | "asks"
  | "tells"
  | "intimate"
  | NearSignalKind
  | IntentSignalKind;

/** Kinds in `rules/intent-signals.ts`: intents first, then effects. */
type IntentSignalKind =
  | "withholds"
  | "self-hiding"
  | "overrides"
  | "overrules"
  | "misleads"
  | "ships-out"
  | "saves-and-runs"
  | "fakes"
  | "begs-secret"
  | "names-secrets"
  | "takes-secrets"
  | "moves-money"
  | "destroys"
  | "opens-up";

/** Kinds in `rules/nearby-code-signals.ts` and `rules/nearby-text-signals.ts`. Each is named after its match. */
type NearSignalKind =
  | "unknown-host"
  | "sends-unknown"
  | "unnamed-client"
  | "sending"
  | "fetching"
  | "numeric-address"
  | "file-host"
  | "drop-host"
  | "identity"
  | "env-dump"
  | "key-file"
  | "decoding"
  | "script-decoding"
  | "runs-text"
  | "from-pieces"
  | "background"
  | "hidden-place"
  | "runnable"
  | "lasting"
  | "watching"
  | "guard-off"
  | "elevating"
  | "gated"
  | "mining"
  | "name-lookup"
  | "text-record"
  | "prerequisite"
  | "release-link"
  | "code-host-release"
  | "terminal-paste"
  | "archive-lock"
  | "remote-run"
  | "obeys-remote"
  | "to-agent"
  | "encoded-words"
  | "decode-and-follow"
  | "left-out"
  | "when-asked"
  | "false-account"
  | "no-trace"
  | "harm-done"
  | "agent-file"
  | "standing-order"
  | "tells-data"
  | "whole-data"
  | "styled-away"
  | "trigger-word"
  | "deletes-home"
  | "guard-dialog"
  | "stretched-yes"
  | "prose-unknown"
  | "package-address"
  | "shell-socket"
  | "grants-rights"
  | "fixed-spender"
  | "destroys-all"
  | "no-confirm";

/** A weak signal. It is not reported on its own: `SIGNAL_RULES` define the combinations that matter. */
export interface ScanSignal {
  kind: SignalKind;
  /** In lower case. Statements without any of them are skipped. */
  words: readonly string[];
  /** Contract: its cost is linear in the text, which is a few hundred characters long. */
  find(text: string, statement: ScanStatement): MatchSpan | undefined;
  /** `code`: counts only in code, including inline code. `prose`: counts only outside of code. Defaults to both. */
  where?: "code" | "prose";
}

/** A rule over signals that are near each other. */
export interface SignalRule extends ScanRule {
  /** One signal of each list must occur. The finding is reported at the position of the first one. */
  all: readonly (readonly SignalKind[])[];
  /** The maximum number of lines between two signals. */
  within: number;
  /** If true, the rule is skipped where another rule already has a high finding. */
  isFallback?: boolean;
}

/** The position of a signal. */
export interface SeenSignal {
  kind: SignalKind;
  line: number;
  column: number;
  seen: string;
}

/** Contract: `signals` belong to one file, at most a few dozen of each kind. */
export function findCombinedSignal(
  { all, within }: SignalRule,
  signals: readonly SeenSignal[],
): SeenSignal | undefined {
  const [own = [], ...others] = all;
  return signals.find(
    (signal) =>
      own.includes(signal.kind) &&
      others.every((kinds) =>
        signals.some((other) => kinds.includes(other.kind) && Math.abs(other.line - signal.line) <= within),
      ),
  );
}

/** Splits a list at its commas. Spaces are significant. */
export function splitKeywords(text: string): readonly string[] {
  return text.split(",");
}
