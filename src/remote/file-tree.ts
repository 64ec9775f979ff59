import { isUtf8 } from "node:buffer";
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { countNewlines, findFrontmatter } from "../skill/frontmatter.ts";
import { SIGNATURE_FILE } from "../skill/skill.ts";
import type { CopiedFile } from "../skill/source/skill-copy.ts";
import { createLockedFile, type LockedFiles, sortLockedFiles } from "../store/lock-file.ts";
import { diffLines, type LineConflict, type MergeLinesOptions, mergeLines, pickChangedValue } from "../util/diff.ts";
import { compareText, formatNumber, truncateLine } from "../util/text.ts";

/** Every file of a tree, by path. */
export type FileTree = ReadonlyMap<string, CopiedFile>;

/** Reads every file of a folder. Throws a SkillError when something in it is no file, or cannot be read. */
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

// What was put in a file's place since the folder was listed is neither followed nor waited for.
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function readTreeFile(file: string): CopiedFile {
  const fd = openSync(file, READ_FLAGS);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is no file");
    return { bytes: readFileSync(fd), executable: (stats.mode & 0o111) !== 0 };
  } finally {
    closeSync(fd);
  }
}

function wrapTreeError<T>(path: string, work: (path: string) => T): T {
  try {
    return work(path);
  } catch (error) {
    throw new SkillError("lock-odd-file", {
      message: `${path} cannot be read: ${getErrnoCode(error) === "ELOOP" ? "it is a link" : getErrorMessage(error)}`,
      fix: "put in its place what you may read, or remove it",
      cause: error,
    });
  }
}

/** Contract: the folder is not there yet, or holds nothing of these. */
export function writeTree(folder: string, files: FileTree): void {
  for (const [path, { bytes, executable }] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o755 });
    writeFileSync(join(folder, path), bytes, { flag: "wx", mode: executable ? 0o755 : 0o644 });
  }
}

/** What a lock says of a tree. */
export function toLockedFiles(files: FileTree): LockedFiles {
  return sortLockedFiles(
    [...files].map(([path, { bytes, executable }]) => [path, createLockedFile(bytes, executable)]),
  );
}

/** What came from the source, what the user made of it, and what comes now. */
interface MergeSides {
  base: FileTree | undefined;
  /** What the lock says of what came. Without its bytes that still tells who changed a file, and where both did it is a conflict. */
  known?: LockedFiles;
  ours: FileTree;
  theirs: FileTree;
}

export interface MergeConflict {
  path: string;
  why: "both-changed" | "both-added" | "removed-here" | "removed-there" | "binary" | "no-base";
  /** For a person: `-` lines are ours and `+` lines theirs; where one side removed the file, what the other changed in it. Bounded. */
  lines: readonly string[];
}

interface TreeMergeResult {
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
  conflicts: MergeConflict[];
}

/** Three trees as one, file by file. Nothing that was changed here is lost: what cannot be kept is a conflict. */
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

/** The files, with one side's in the place of all that is in conflict. */
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
  const standsAt = createClashTest(conflicts.flatMap(({ path }) => (theirs.has(path) ? [path] : [])));
  for (const path of files.keys()) if (!theirs.has(path) && standsAt(path) !== undefined) resolved.delete(path);
  return resolved;
}

interface FileMergeResult {
  file?: CopiedFile | undefined;
  conflict?: MergeConflict;
}

function mergeFile(path: string, sides: MergeSides): FileMergeResult {
  const [base, ours, theirs] = [sides.base?.get(path), sides.ours.get(path), sides.theirs.get(path)];
  if (isSameFile(ours, theirs)) return { file: ours };
  if (path === SIGNATURE_FILE) return { file: isUpstreamVersion(path, theirs, sides) ? ours : theirs }; // It is made anew, never edited.
  const conflict = (why: MergeConflict["why"], lines: readonly string[]): FileMergeResult => ({
    file: ours,
    conflict: { path, why, lines },
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

/** Each key of a frontmatter stands for itself, with all that is indented below it. */
function getFrontmatterUnits(text: string): MergeLinesOptions {
  const frame = findFrontmatter(text);
  if (!("start" in frame) || !frame.closed) return {};
  return {
    units: { lines: countNewlines(frame.text.slice(0, frame.end)), isFirst: (line) => FRONTMATTER_KEY.test(line) },
  };
}

const FRONTMATTER_KEY = /^[^\s#-][^:]*:(?:\s|$)/;

/**
 * A file that comes cannot stand where one of the user's is: not below a file, and not beside a name that differs only in its case, which
 * many disks take for the same.
 */
function findPathClashes(result: TreeMergeResult, { ours, theirs }: MergeSides): void {
  const standsAt = createClashTest([...result.files.keys()].filter((path) => !theirs.has(path)));
  result.taken = result.taken.filter((path) => {
    const other = ours.has(path) ? undefined : standsAt(path);
    if (other === undefined) return true;
    result.files.delete(path);
    const lines = [`stands in the place of ${truncateLine(other, MAX_LINE_LENGTH)}`];
    result.conflicts.push({ path, why: "both-added", lines });
    return false;
  });
  result.conflicts.sort((a, b) => compareText(a.path, b.path));
}

/** Which of these paths is in the way of another one. */
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
  if (isShown) lines.push(...diffLines(old, now, { most: MAX_CONFLICT_LINES }));
  else if (!hasEqualBytes(before?.bytes, after?.bytes)) lines.push(`-${formatSize(before)}`, `+${formatSize(after)}`);
  return truncateLines(lines.length > 0 ? lines : ["differs in how its last line ends"]);
}

function formatSize(file: CopiedFile | undefined): string {
  return file ? `${formatNumber(file.bytes.length)} bytes` : "not there";
}

function truncateLines(lines: readonly string[]): string[] {
  return lines.map((line) => (line.length > MAX_LINE_LENGTH ? `${line.slice(0, MAX_LINE_LENGTH)}…` : line));
}

/** Nothing when it is no text. */
function decodeText(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) && !bytes.includes(0) ? Buffer.from(bytes).toString("utf8") : undefined;
}

function isSameFile(a: CopiedFile | undefined, b: CopiedFile | undefined): boolean {
  return a?.executable === b?.executable && hasEqualBytes(a?.bytes, b?.bytes);
}

function hasEqualBytes(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0);
}
