import { SkillError } from "../errors/problem.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { formatNumber } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";

/** Where skills come from: what somebody typed, read. */
export type SourceAddress =
  /** A folder on this machine; `path` is absolute. */
  | { kind: "folder"; path: string; inside?: string }
  /** A zip (`.zip`, `.skill`) or a compressed tar (`.tar.gz`, `.tgz`): an absolute path, or an https address. */
  | { kind: "archive"; location: string; inside?: string }
  /** A repository. `ref` is a branch, a tag or a commit: the default branch when left out. `namesake`: a folder here that is written nearly so. */
  | { kind: "git"; url: string; ref?: string; inside?: string; namesake?: string }
  /** A site with `/.well-known/agent-skills/index.json`; `url` is that of the index. */
  | { kind: "site"; url: string };

/** One thing in a source, as the source itself tells of it: nothing of it is believed yet. */
export interface SourceEntry {
  /** As it is written there, with `/` between its parts. */
  path: string;
  kind: "file" | "folder" | "link" | "other";
  /** Only the bits that say who may do what. */
  mode: number;
  /** How many bytes it says it has. */
  size: number;
  /** Of a link: where it leads, as it is written there. */
  target?: string;
  /** Its bytes, for a file. Throws a SkillError when they are not what the source says, or more. */
  read(): Uint8Array;
}

/** What was fetched and written into a folder of ours. */
export interface FetchedSource {
  /** Its files, below this folder: regular files and folders, and nothing else. */
  folder: string;
  address: SourceAddress;
  /** The commit that a repository was at. */
  commit?: string;
  /** Links, by their paths, and where they lead as written: none was made. */
  links: ReadonlyMap<string, string>;
  /** What of the source is not there, and why: a sentence each. */
  notes: readonly string[];
  /** Entries that were not written, by their paths, and why. A skill that has one is refused; other skills are not. */
  refused: ReadonlyMap<string, SkillError>;
}

export interface FetchSourceOptions {
  /** Made by whoever calls, empty, for the user alone. */
  to: string;
  env: Readonly<Record<string, string | undefined>>;
  /** The commit to fetch, whatever the ref leads to by now. */
  commit?: string;
  /** Of a site: only skills of these names; all of them when there is none. */
  names?: readonly string[];
  /** Of a site: called with each name that cannot be had, in the place of failing over it. */
  onFailure?(name: string, error: SkillError): void;
  /** Asks private addresses too that only the source named. */
  allowPrivate?: boolean;
  signal?: AbortSignal;
}

/** What a source may be. */
export const SOURCE_LIMITS = {
  /** Files, folders and links together. */
  entries: 50_000,
  bytes: 512 * 1024 * 1024,
  /** Of one file. */
  file: 64 * 1024 * 1024,
  /** Of an archive as it is, before anything is taken out. */
  archive: 128 * 1024 * 1024,
  /** How many times larger an archive may become, once it is more than a few MiB. */
  ratio: 100,
  depth: 32,
  /** Bytes of a path. */
  path: 1024,
};

/** Where a skill was fetched from, as its lock says it. */
export type Provenance = Pick<LockedSkill, "source" | "path" | "ref" | "commit">;

/** A source that is not taken, over one entry of it. `why` goes on after the entry's name. */
export function createEntryError(code: EntryCode, path: string, why: string, cause?: unknown): SkillError {
  return new SkillError(code, {
    message: `${quoteSourcePath(path)} ${why}`,
    fix: REFUSED_SOURCE_FIX,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** An archive that is not taken, over how it is made. `why` goes on after "The archive". */
export function createArchiveError(code: ArchiveCode, why: string, cause?: unknown): SkillError {
  return new SkillError(code, {
    message: `The archive ${why}`,
    fix: REFUSED_SOURCE_FIX,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Found before anything is written: a hundred thousand entries are refused at once. */
export function createTooManyError(found: number): SkillError {
  const why = `holds at least ${formatNumber(found)} files, folders and links: one may hold ${formatNumber(SOURCE_LIMITS.entries)}`;
  return createArchiveError("source-too-many", why);
}

/** A name of somebody else's, for one line of a message. */
export function quoteSourcePath(path: string): string {
  const start = path.length > MAX_QUOTED_LENGTH ? `${path.slice(0, MAX_QUOTED_LENGTH - 1)}…` : path;
  return `"${escapeLine(start)}"`;
}

/** Every way in which an entry stops a source from being taken. */
export const ENTRY_CODES = [
  "archive-nested",
  "entry-absolute",
  "entry-backslash",
  "entry-clash",
  "entry-colon",
  "entry-control",
  "entry-damaged",
  "entry-deep",
  "entry-device",
  "entry-empty",
  "entry-encoding",
  "entry-ending",
  "entry-hidden",
  "entry-kind",
  "entry-long",
  "entry-parent",
  "entry-repository",
  "entry-size",
  "entry-through-file",
  "entry-through-link",
  "entry-too-large",
  "entry-twice",
  "entry-unwritable",
  "source-too-large",
  "source-too-many",
] as const;
export type EntryCode = (typeof ENTRY_CODES)[number];

/**
 * Refusals that concern one file alone: it is left out, and the skill that it belongs to is refused. Every other code stops the whole
 * source: names that lead elsewhere, entries that contradict each other, damage, and the limits of a source.
 */
const SINGLE_FILE_CODES: ReadonlySet<string> = new Set<EntryCode>([
  "archive-nested",
  "entry-clash",
  "entry-colon",
  "entry-deep",
  "entry-device",
  "entry-ending",
  "entry-hidden",
  "entry-kind",
  "entry-long",
  "entry-too-large",
]);

/** True for the code of a refusal that concerns one file alone. */
export function isSingleFileCode(code: string): boolean {
  return SINGLE_FILE_CODES.has(code);
}

/** Every way in which an archive itself does. */
export const ARCHIVE_CODES = [
  "archive-ambiguous",
  "archive-bomb",
  "archive-broken",
  "archive-disagrees",
  "archive-encrypted",
  "archive-method",
  "archive-overlap",
  "archive-parts",
  "archive-stray",
  "archive-too-large",
  "archive-unknown",
  "archive-zip64",
  "source-too-many",
] as const;
type ArchiveCode = (typeof ARCHIVE_CODES)[number];

const MAX_QUOTED_LENGTH = 120;
const REFUSED_SOURCE_FIX =
  "nothing of the source was taken: look into it before you trust it, and tell whoever made it";
