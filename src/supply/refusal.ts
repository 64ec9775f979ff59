import { SkillError } from "../shared/error.ts";
import { reveal } from "../shared/hidden.ts";
import { grouped } from "../shared/text.ts";
import { SOURCE_LIMITS } from "./contract.ts";

/** A source that is not taken, over one entry of it. `why` goes on after the entry's name. */
export function refusedEntry(code: EntryCode, path: string, why: string, cause?: unknown): SkillError {
  return new SkillError(code, {
    message: `${shown(path)} ${why}`,
    fix: FIX,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** An archive that is not taken, over how it is made. `why` goes on after "The archive". */
export function refusedArchive(code: ArchiveCode, why: string, cause?: unknown): SkillError {
  return new SkillError(code, { message: `The archive ${why}`, fix: FIX, ...(cause === undefined ? {} : { cause }) });
}

/** Found before anything is written: a hundred thousand entries are refused at once. */
export function tooMany(found: number): SkillError {
  const why = `holds at least ${grouped(found)} files, folders and links: one may hold ${grouped(SOURCE_LIMITS.entries)}`;
  return refusedArchive("source-too-many", why);
}

/** A name of somebody else's, for one line of a message. */
export function shown(path: string): string {
  const start = path.length > LONGEST_SHOWN ? `${path.slice(0, LONGEST_SHOWN - 1)}…` : path;
  return `"${reveal(start)}"`;
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
const OF_ONE_FILE: ReadonlySet<string> = new Set<EntryCode>([
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
export function isOfOneFile(code: string): boolean {
  return OF_ONE_FILE.has(code);
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
export type ArchiveCode = (typeof ARCHIVE_CODES)[number];

const LONGEST_SHOWN = 120;
const FIX = "nothing of the source was taken: look into it before you trust it, and tell whoever made it";
