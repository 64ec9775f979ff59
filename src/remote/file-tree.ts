import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { countNewlines, findFrontmatter } from "../skill/frontmatter.ts";
import { SIGNATURE_FILE } from "../skill/skill.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { createLockedFile, type LockedFiles, sortLockedFiles } from "../store/lock-file.ts";
import { diffLines, type LineConflict, type MergeLinesOptions, mergeLines, pickChangedValue } from "../util/diff.ts";
import { createFolder } from "../util/file-access.ts";
import { compareText, formatNumber, truncateLine } from "../util/text.ts";

/** All files of a tree, by path. */
export type FileTree = ReadonlyMap<string, CopiedFile>;

/** Reads all files of a folder. Throws a SkillError if an entry is not a regular file or cannot be read. */
export function readTree(folder: string): Map<string, CopiedFile> {
  const files = new Map<string, CopiedFile>();
  const visit = (below: string) => {
    for (const entry of wrapTreeError(join(folder, below), (path) => readdirSync(path, { withFileTypes: true }))) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) visit(path);
      else files.set(path, wrapTreeError(join(folder, path), readTreeFile));
    }
  };
  visit("");
  return files;
}

// A file replaced after the folder was listed is neither followed nor waited for.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function readTreeFile(file: string): CopiedFile {
  const fd = openSync(file, READ_FLAGS);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is not a regular file");
    return { bytes: readFileSync(fd), executable: (stats.mode & 0o111) !== 0 };
  } finally {
    closeSync(fd);
  }
}

function wrapTreeError<T>(path: string, work: (path: string) => T): T {
  try {
    return work(path);
  } catch (error) {
    throw new SkillError("lock-unsupported-file", {
      message: `${path} cannot be read: ${getErrnoCode(error) === "ELOOP" ? "it is a symlink" : getErrorMessage(error)}`,
      fix: "replace it with a readable file, or remove it",
      cause: error,
    });
  }
}

/** Writes the files of a tree. Contract: the folder is missing, or contains none of them. */
export function writeTree(folder: string, files: FileTree): void {
  for (const [path, { bytes, executable }] of files) {
    createFolder(dirname(join(folder, path)), 0o755);
    writeFileSync(join(folder, path), bytes, { flag: "wx", mode: executable ? 0o755 : 0o644 });
  }
}

/** Creates the lock file's record of a tree. */
export function toLockedFiles(files: FileTree): LockedFiles {
  return sortLockedFiles(
    [...files].map(([path, { bytes, executable }]) => [path, createLockedFile(bytes, executable)]),
  );
}

/** The sides of a merge: the base from the source, the user's version, and the new version. */
interface MergeSides {
  base: FileTree | undefined;
  /**
   * The lock file's record of the base. Without the base's bytes it still shows which side changed a file; if both did,
   * it is a conflict.
   */
  known?: LockedFiles;
  ours: FileTree;
  theirs: FileTree;
}

export interface MergeConflict {
  path: string;
  reason: "both-changed" | "both-added" | "removed-here" | "removed-there" | "binary" | "no-base";
  /**
   * For people: `-` lines are ours and `+` lines theirs. If one side removed the file, the changes of the other side.
   * Limited in length.
   */
  lines: readonly string[];
}

interface TreeMergeResult {
  /** Files in conflict have our version. */
  files: Map<string, CopiedFile>;
  /** Changed, added or removed here, and kept so. */
  kept: string[];
  /** Changed or added in the source. */
  taken: string[];
  /** Changed on both sides, with both changes included. */
  merged: string[];
  /** Removed in the source, and not changed here. */
  removed: string[];
  conflicts: MergeConflict[];
}

/** Merges three trees, file by file. No local change is lost: a change that cannot be kept is a conflict. */
export function mergeTrees(sides: MergeSides): TreeMergeResult {
  const result: TreeMergeResult = { files: new Map(), kept: [], taken: [], merged: [], removed: [], conflicts: [] };
  const paths = new Set([...(sides.base?.keys() ?? []), ...sides.ours.keys(), ...sides.theirs.keys()]);
  for (const path of [...paths].sort(compareText)) {
    const ours = sides.ours.get(path);
    const theirs = sides.theirs.get(path);
    const { file, conflict } = mergeFile(path, sides);
    if (file) result.files.set(path, file);
    if (conflict) result.conflicts.push(conflict);
    else if (isSameFile(ours, theirs)) continue;
    else if (isSameFile(file, ours)) result.kept.push(path);
    else if (!isSameFile(file, theirs)) result.merged.push(path);
    else (theirs ? result.taken : result.removed).push(path);
  }
  findPathClashes(result, sides);
  return result;
}

/** Returns the merged files, with all conflicts resolved in favor of one side. */
export function resolveMergeConflicts(
  { files, conflicts }: TreeMergeResult,
  { ours, theirs }: Pick<MergeSides, "ours" | "theirs">,
  side: "mine" | "theirs",
): Map<string, CopiedFile> {
  const resolved = new Map(files);
  for (const { path } of conflicts) {
    const file = (side === "mine" ? ours : theirs).get(path);
    if (file) resolved.set(path, file);
    else resolved.delete(path);
  }
  if (side === "mine") return resolved;
  const findClash = createClashTest(conflicts.flatMap(({ path }) => (theirs.has(path) ? [path] : [])));
  for (const path of files.keys()) if (!theirs.has(path) && findClash(path) !== undefined) resolved.delete(path);
  return resolved;
}

interface FileMergeResult {
  file?: CopiedFile | undefined;
  conflict?: MergeConflict;
}

function mergeFile(path: string, sides: MergeSides): FileMergeResult {
  const [base, ours, theirs] = [sides.base?.get(path), sides.ours.get(path), sides.theirs.get(path)];
  if (isSameFile(ours, theirs)) return { file: ours };
  if (path === SIGNATURE_FILE) return { file: isUpstreamVersion(path, theirs, sides) ? ours : theirs }; // A signature is created again, never edited.
  const conflict = (reason: MergeConflict["reason"], lines: readonly string[]): FileMergeResult => ({
    file: ours,
    conflict: { path, reason, lines },
  });
  if (isUpstreamVersion(path, theirs, sides)) return { file: ours };
  if (isUpstreamVersion(path, ours, sides)) return { file: theirs };
  if (!sides.base) return conflict("no-base", formatDifference(ours, theirs));
  if (!base) return conflict("both-added", formatDifference(ours, theirs));
  if (!ours) return conflict("removed-here", formatDifference(base, theirs));
  if (!theirs) return conflict("removed-there", formatDifference(base, ours));
  const executable = pickChangedValue(base.executable, ours.executable, theirs.executable);
  const merged = mergeBytes(path, base.bytes, ours.bytes, theirs.bytes);
  if ("bytes" in merged) return { file: { bytes: merged.bytes, executable } };
  return "conflicts" in merged
    ? conflict("both-changed", formatLineConflicts(merged.conflicts))
    : conflict("binary", formatDifference(ours, theirs));
}

function isUpstreamVersion(path: string, file: CopiedFile | undefined, { base, known }: MergeSides): boolean {
  if (base) return isSameFile(base.get(path), file);
  if (!known) return false;
  const [was, is] = [known[path], file && createLockedFile(file.bytes, file.executable)];
  return was?.sha256 === is?.sha256 && was?.mode === is?.mode;
}

type MergedBytes = { bytes: Uint8Array } | { conflicts: readonly LineConflict[] } | { isBinary: true };

function mergeBytes(path: string, base: Uint8Array, ours: Uint8Array, theirs: Uint8Array): MergedBytes {
  if (hasEqualBytes(base, theirs) || hasEqualBytes(ours, theirs)) return { bytes: ours };
  if (hasEqualBytes(base, ours)) return { bytes: theirs };
  const [b, o, t] = [decodeText(base), decodeText(ours), decodeText(theirs)];
  if (b === undefined || o === undefined || t === undefined) return { isBinary: true };
  const merged = mergeLines(b, o, t, path === "SKILL.md" ? getFrontmatterUnits(b) : {});
  return "text" in merged ? { bytes: Buffer.from(merged.text) } : merged;
}

/** Merges a frontmatter by key: each key with its indented lines is one unit. */
function getFrontmatterUnits(text: string): MergeLinesOptions {
  const frame = findFrontmatter(text);
  if (!("start" in frame) || !frame.closed) return {};
  return {
    units: { lines: countNewlines(frame.text.slice(0, frame.end)), isFirst: (line) => FRONTMATTER_KEY.test(line) },
  };
}

const FRONTMATTER_KEY = /^[^\s#-][^:]*:(?:\s|$)/;

/**
 * Turns an incoming file into a conflict if a local file is in its way: it cannot be below a file, or next to a name
 * that differs only in case, which many disks treat as the same.
 */
function findPathClashes(result: TreeMergeResult, { ours, theirs }: MergeSides): void {
  const findClash = createClashTest([...result.files.keys()].filter((path) => !theirs.has(path)));
  result.taken = result.taken.filter((path) => {
    const other = ours.has(path) ? undefined : findClash(path);
    if (other === undefined) return true;
    result.files.delete(path);
    const lines = [`conflicts with ${truncateLine(other, MAX_LINE_LENGTH)}`];
    result.conflicts.push({ path, reason: "both-added", lines });
    return false;
  });
  result.conflicts.sort((a, b) => compareText(a.path, b.path));
}

/** Creates a function that returns which of these paths is in the way of another one. */
function createClashTest(paths: readonly string[]): (path: string) => string | undefined {
  const files = new Map(paths.map((path) => [foldCase(path), path]));
  const folders = new Map(paths.flatMap((path) => listAncestors(foldCase(path)).map((folder) => [folder, path])));
  return (path) => {
    const wanted = foldCase(path);
    const above = listAncestors(wanted).find((folder) => files.has(folder));
    return files.get(wanted) ?? folders.get(wanted) ?? (above === undefined ? undefined : files.get(above));
  };
}

function listAncestors(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
}

function foldCase(path: string): string {
  return path.normalize("NFC").toLowerCase();
}

const MAX_CONFLICT_LINES = 60;
const MAX_LINE_LENGTH = 200;
const MAX_DIFF_BYTES = 1024 * 1024;

function formatLineConflicts(conflicts: readonly LineConflict[]): string[] {
  const lines = conflicts.flatMap(({ ours, theirs, line }) => [
    `@@ line ${line} @@`,
    ...ours.map((one) => `-${one}`),
    ...theirs.map((one) => `+${one}`),
  ]);
  const more = lines.length - MAX_CONFLICT_LINES;
  return truncateLines(
    more > 0 ? [...lines.slice(0, MAX_CONFLICT_LINES), `@@ ${formatNumber(more)} more lines not shown @@`] : lines,
  );
}

function formatDifference(before: CopiedFile | undefined, after: CopiedFile | undefined): string[] {
  const lines: string[] = [];
  if (before && after && before.executable !== after.executable)
    lines.push(before.executable ? "-executable" : "+executable");
  const [old, now] = [before, after].map((file) => (file ? decodeText(file.bytes) : ""));
  const isShown =
    old !== undefined && now !== undefined && old.length <= MAX_DIFF_BYTES && now.length <= MAX_DIFF_BYTES;
  if (isShown) lines.push(...diffLines(old, now, { maxLines: MAX_CONFLICT_LINES }));
  else if (!hasEqualBytes(before?.bytes, after?.bytes)) lines.push(`-${formatSize(before)}`, `+${formatSize(after)}`);
  return truncateLines(lines.length > 0 ? lines : ["differs in its final line break"]);
}

function formatSize(file: CopiedFile | undefined): string {
  return file ? `${formatNumber(file.bytes.length)} bytes` : "missing";
}

function truncateLines(lines: readonly string[]): string[] {
  return lines.map((line) => (line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}…` : line));
}

/** Returns undefined for binary content. */
function decodeText(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) && !bytes.includes(0) ? Buffer.from(bytes).toString("utf8") : undefined;
}

function isSameFile(a: CopiedFile | undefined, b: CopiedFile | undefined): boolean {
  return a?.executable === b?.executable && hasEqualBytes(a?.bytes, b?.bytes);
}

function hasEqualBytes(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0);
}
