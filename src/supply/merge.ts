import { isUtf8 } from "node:buffer";
import type { LockedFiles } from "../host/lock/format.ts";
import { lockedFile } from "../host/lock/tree.ts";
import { diffLines } from "../shared/diff.ts";
import { chosen, type LineConflict, type MergeOptions, mergeLines } from "../shared/merge.ts";
import { byText, grouped, oneLine } from "../shared/text.ts";
import { findFrame, newlines } from "../skill/frame.ts";
import { SIGNATURE_FILE } from "../skill/skill.ts";
import type { CopiedFile } from "../source/digest.ts";
import type { Tree } from "./read-tree.ts";

/** What came from the source, what the user made of it, and what comes now. */
export interface Sides {
  base: Tree | undefined;
  /** What the lock says of what came. Without its bytes that still tells who changed a file, and where both did it is a conflict. */
  known?: LockedFiles;
  ours: Tree;
  theirs: Tree;
}

export interface Conflict {
  path: string;
  why: "both-changed" | "both-added" | "removed-here" | "removed-there" | "binary" | "no-base";
  /** For a person: `-` lines are ours and `+` lines theirs; where one side removed the file, what the other changed in it. Bounded. */
  lines: readonly string[];
}

export interface Merged {
  /** What is in conflict is as it is here. */
  files: Map<string, CopiedFile>;
  /** Changed, added or removed here, and left so. */
  kept: string[];
  /** Changed or added there. */
  taken: string[];
  /** Changed on both sides, and both changes are in it. */
  merged: string[];
  /** Removed there, and not changed here. */
  removed: string[];
  conflicts: Conflict[];
}

/** Three trees as one, file by file. Nothing that was changed here is lost: what cannot be kept is a conflict. */
export function mergeTrees(sides: Sides): Merged {
  const result: Merged = { files: new Map(), kept: [], taken: [], merged: [], removed: [], conflicts: [] };
  const paths = new Set([...(sides.base?.keys() ?? []), ...sides.ours.keys(), ...sides.theirs.keys()]);
  for (const path of [...paths].sort(byText)) {
    const ours = sides.ours.get(path);
    const theirs = sides.theirs.get(path);
    const { file, conflict } = mergeFile(path, sides);
    if (file) result.files.set(path, file);
    if (conflict) result.conflicts.push(conflict);
    else if (isSame(ours, theirs)) continue;
    else if (isSame(file, ours)) result.kept.push(path);
    else if (!isSame(file, theirs)) result.merged.push(path);
    else (theirs ? result.taken : result.removed).push(path);
  }
  keepPlaces(result, sides);
  return result;
}

/** The files, with one side's in the place of all that is in conflict. */
export function resolveConflicts(
  { files, conflicts }: Merged,
  { ours, theirs }: Pick<Sides, "ours" | "theirs">,
  side: "mine" | "theirs",
): Map<string, CopiedFile> {
  const resolved = new Map(files);
  for (const { path } of conflicts) {
    const file = (side === "mine" ? ours : theirs).get(path);
    if (file) resolved.set(path, file);
    else resolved.delete(path);
  }
  if (side === "mine") return resolved;
  const standsAt = places(conflicts.flatMap(({ path }) => (theirs.has(path) ? [path] : [])));
  for (const path of files.keys()) if (!theirs.has(path) && standsAt(path) !== undefined) resolved.delete(path);
  return resolved;
}

interface Outcome {
  file?: CopiedFile | undefined;
  conflict?: Conflict;
}

function mergeFile(path: string, sides: Sides): Outcome {
  const [base, ours, theirs] = [sides.base?.get(path), sides.ours.get(path), sides.theirs.get(path)];
  if (isSame(ours, theirs)) return { file: ours };
  if (path === SIGNATURE_FILE) return { file: isAsCame(path, theirs, sides) ? ours : theirs }; // It is made anew, never edited.
  const conflict = (why: Conflict["why"], lines: readonly string[]): Outcome => ({
    file: ours,
    conflict: { path, why, lines },
  });
  if (isAsCame(path, theirs, sides)) return { file: ours };
  if (isAsCame(path, ours, sides)) return { file: theirs };
  if (!sides.base) return conflict("no-base", difference(ours, theirs));
  if (!base) return conflict("both-added", difference(ours, theirs));
  if (!ours) return conflict("removed-here", difference(base, theirs));
  if (!theirs) return conflict("removed-there", difference(base, ours));
  const executable = chosen(base.executable, ours.executable, theirs.executable);
  const merged = mergeBytes(path, base.bytes, ours.bytes, theirs.bytes);
  if ("bytes" in merged) return { file: { bytes: merged.bytes, executable } };
  return "conflicts" in merged
    ? conflict("both-changed", shown(merged.conflicts))
    : conflict("binary", difference(ours, theirs));
}

function isAsCame(path: string, file: CopiedFile | undefined, { base, known }: Sides): boolean {
  if (base) return isSame(base.get(path), file);
  if (!known) return false;
  const [was, is] = [known[path], file && lockedFile(file.bytes, file.executable)];
  return was?.sha256 === is?.sha256 && was?.mode === is?.mode;
}

type MergedBytes = { bytes: Uint8Array } | { conflicts: readonly LineConflict[] } | { isBinary: true };

function mergeBytes(path: string, base: Uint8Array, ours: Uint8Array, theirs: Uint8Array): MergedBytes {
  if (isEqual(base, theirs) || isEqual(ours, theirs)) return { bytes: ours };
  if (isEqual(base, ours)) return { bytes: theirs };
  const [b, o, t] = [textOf(base), textOf(ours), textOf(theirs)];
  if (b === undefined || o === undefined || t === undefined) return { isBinary: true };
  const merged = mergeLines(b, o, t, path === "SKILL.md" ? keysOf(b) : {});
  return "text" in merged ? { bytes: Buffer.from(merged.text) } : merged;
}

/** Each key of a frontmatter stands for itself, with all that is indented below it. */
function keysOf(text: string): MergeOptions {
  const frame = findFrame(text);
  if (!("start" in frame) || !frame.closed) return {};
  return { units: { lines: newlines(frame.text.slice(0, frame.end)), isFirst: (line) => KEY.test(line) } };
}

const KEY = /^[^\s#-][^:]*:(?:\s|$)/;

/**
 * A file that comes cannot stand where one of the user's is: not below a file, and not beside a name that differs only in its case, which
 * many disks take for the same.
 */
function keepPlaces(result: Merged, { ours, theirs }: Sides): void {
  const standsAt = places([...result.files.keys()].filter((path) => !theirs.has(path)));
  result.taken = result.taken.filter((path) => {
    const other = ours.has(path) ? undefined : standsAt(path);
    if (other === undefined) return true;
    result.files.delete(path);
    const lines = [`stands in the place of ${oneLine(other, LONGEST_LINE)}`];
    result.conflicts.push({ path, why: "both-added", lines });
    return false;
  });
  result.conflicts.sort((a, b) => byText(a.path, b.path));
}

/** Which of these paths is in the way of another one. */
function places(paths: readonly string[]): (path: string) => string | undefined {
  const files = new Map(paths.map((path) => [folded(path), path]));
  const folders = new Map(paths.flatMap((path) => foldersOf(folded(path)).map((folder) => [folder, path])));
  return (path) => {
    const wanted = folded(path);
    const above = foldersOf(wanted).find((folder) => files.has(folder));
    return files.get(wanted) ?? folders.get(wanted) ?? (above === undefined ? undefined : files.get(above));
  };
}

function foldersOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
}

function folded(path: string): string {
  return path.normalize("NFC").toLowerCase();
}

const MOST_LINES = 60;
const LONGEST_LINE = 200;
const LARGEST_SHOWN = 1024 * 1024;

function shown(conflicts: readonly LineConflict[]): string[] {
  const lines = conflicts.flatMap(({ ours, theirs, line }) => [
    `@@ line ${line} @@`,
    ...ours.map((one) => `-${one}`),
    ...theirs.map((one) => `+${one}`),
  ]);
  const more = lines.length - MOST_LINES;
  return bounded(more > 0 ? [...lines.slice(0, MOST_LINES), `@@ ${grouped(more)} more lines not shown @@`] : lines);
}

function difference(before: CopiedFile | undefined, after: CopiedFile | undefined): string[] {
  const lines: string[] = [];
  if (before && after && before.executable !== after.executable)
    lines.push(before.executable ? "-executable" : "+executable");
  const [old, now] = [before, after].map((file) => (file ? textOf(file.bytes) : ""));
  const isShown = old !== undefined && now !== undefined && old.length <= LARGEST_SHOWN && now.length <= LARGEST_SHOWN;
  if (isShown) lines.push(...diffLines(old, now, { most: MOST_LINES }));
  else if (!isEqual(before?.bytes, after?.bytes)) lines.push(`-${sizeOf(before)}`, `+${sizeOf(after)}`);
  return bounded(lines.length > 0 ? lines : ["differs in how its last line ends"]);
}

function sizeOf(file: CopiedFile | undefined): string {
  return file ? `${grouped(file.bytes.length)} bytes` : "not there";
}

function bounded(lines: readonly string[]): string[] {
  return lines.map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line));
}

/** Nothing when it is no text. */
function textOf(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) && !bytes.includes(0) ? Buffer.from(bytes).toString("utf8") : undefined;
}

function isSame(a: CopiedFile | undefined, b: CopiedFile | undefined): boolean {
  return a?.executable === b?.executable && isEqual(a?.bytes, b?.bytes);
}

function isEqual(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0);
}
