import {
  closeSync,
  constants,
  type Dirent,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage } from "../../errors/problem.ts";
import { createFileFingerprint, formatFileId } from "../../util/file-access.ts";
import {
  type ExpectedFolder,
  type FileBytes,
  isInside,
  type OpenedFolder,
  openExpectedFolder,
  openFileInside,
  openSubfolder,
  readFileInside,
  statFolderId,
} from "../../util/safe-path.ts";
import { compareText } from "../../util/text.ts";
import type { FindTarget } from "../lint.ts";
import type { FileList, Finding, Skill, SkillFile, SkillOrigin } from "../skill.ts";

const MAX_FILES = 2000;
const MAX_DEPTH = 16;
export const SKIPPED_FOLDERS: ReadonlySet<string> = new Set([".git", ".hg", ".svn", "node_modules"]);

interface ListFilesOptions {
  /** The expected identity of the folder. */
  expected?: ExpectedFolder;
  /** If true, files with hard links outside of the folder are excluded. */
  refusesShared?: boolean;
}

/** Lists the files of a skill's folder, without SKILL.md. Excluded files are reported with the reason. */
export function listFiles(
  folder: string,
  skillFile: string,
  { expected, refusesShared }: ListFilesOptions = {},
): FileList {
  const found: { file: SkillFile; stats: Stats }[] = [];
  const findings: Finding[] = [];
  const names = new Map<number, number>();
  const report = (code: Finding["code"], message: string) => findings.push({ code, message });
  const visit = (openedFolder: OpenedFolder, below: string, depth: number): boolean => {
    for (const entry of listEntries(openedFolder, findings)) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (path === skillFile) {
        const stats = lstatSync(`${openedFolder.at}/${entry.name}`, { throwIfNoEntry: false });
        if (stats?.isFile()) names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
        continue;
      }
      if (found.length >= MAX_FILES) {
        report("too-many-files", `contains more than ${MAX_FILES} files; the rest is not listed`);
        return false;
      }
      if (entry.isDirectory()) {
        if (SKIPPED_FOLDERS.has(entry.name)) continue;
        if (depth >= MAX_DEPTH) report("too-deep", `"${path}" is nested deeper than ${MAX_DEPTH} folders`);
        else if (!visitIn(openedFolder, path, depth + 1)) return false;
      } else addFile(openedFolder, path, entry);
    }
    return true;
  };
  const visitIn = (openedFolder: OpenedFolder, path: string, depth: number): boolean => {
    let inner: OpenedFolder;
    try {
      inner = openSubfolder(openedFolder, basename(path));
    } catch (error) {
      findings.push({ ...createOpenFinding(error), code: "file-skipped" });
      return true;
    }
    try {
      return visit(inner, path, depth);
    } finally {
      closeSync(inner.fd);
    }
  };
  const addFile = ({ at }: OpenedFolder, path: string, entry: Dirent) => {
    const stats = entry.isFile()
      ? lstatSync(`${at}/${entry.name}`, { throwIfNoEntry: false })
      : linkedFile(path, entry);
    if (!stats) return;
    if (stats.mode & 0o6000) report("file-mode", `"${path}" has its set-id bit set`);
    if (entry.isFile()) names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
    found.push({ file: { path, size: stats.size, executable: (stats.mode & 0o111) !== 0 }, stats });
  };
  const linkedFile = (path: string, entry: Dirent): Stats | undefined => {
    const opened = entry.isSymbolicLink() ? openFileInside(folder, path, expected) : undefined;
    if (opened && "fd" in opened) {
      closeSync(opened.fd);
      return opened.stats;
    }
    if (opened?.code === "outside") report("symlink-outside", `"${path}" is a symlink out of the skill's folder`);
    else if (opened?.code === "not-a-file")
      report("file-skipped", `"${path}" is a symlink to something other than a regular file`);
    else report("file-skipped", opened ? opened.message : `"${path}" is not a regular file`);
    return undefined;
  };
  const openedFolder = openExpectedFolder(folder, expected);
  if ("code" in openedFolder) {
    report(
      "file-skipped",
      openedFolder.code === "changed" ? "is not read: the folder was replaced after discovery" : openedFolder.message,
    );
    return { files: [], findings };
  }
  try {
    visit(openedFolder, "", 1);
  } finally {
    closeSync(openedFolder.fd);
  }
  // A hard link that the search did not visit is outside, or in a folder that is not part of the skill.
  const isShared = ({ stats }: { stats: Stats }) =>
    refusesShared === true && stats.nlink > 1 && stats.nlink > (names.get(stats.ino) ?? 0);
  const [shared, ...more] = found.filter(isShared).map(({ file }) => file.path);
  if (shared !== undefined) {
    const rest = more.length === 0 ? "" : `, and so ${more.length === 1 ? "is 1 more" : `are ${more.length} more`}`;
    report("hard-link-outside", `"${shared}" is a hard link to a file outside of the skill's folder${rest}`);
  }
  return { files: found.filter((one) => !isShared(one)).map(({ file }) => file), findings };
}

/**
 * Returns a finding if a skill's own file must not be read, because it has a hard link outside of the skill's folder. Symlinks
 * are followed, and their targets are checked like any other outside file.
 */
export function checkSharedFile(file: string, folder: string | undefined, { nlink, ino }: Stats): Finding | undefined {
  if (nlink < 2 || lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  if (folder !== undefined && countHardLinks(folder, ino) >= nlink) return undefined;
  return {
    code: "skill-file-hard-link",
    message: "is a hard link to a file outside of the skill's folder, and is not read",
  };
}

/**
 * Returns a finding if an opened file must not be read, because another file replaced it meanwhile and the hard links of that one
 * were counted.
 */
export function checkReplacedFile(file: string, opened: Stats): Finding | undefined {
  const now = lstatSync(file, { throwIfNoEntry: false });
  if (now?.isSymbolicLink() || isUnmoved(file, opened)) return undefined;
  return { code: "unreadable", message: "was replaced while it was read" };
}

/** Counts the hard links of a file in a folder, among as many files as are listed of a skill. */
function countHardLinks(folder: string, ino: number): number {
  let count = 0;
  let files = 0;
  const queue = [{ at: folder, depth: 1 }];
  for (const { at, depth } of queue) {
    for (const entry of readEntries(at)) {
      const path = join(at, entry.name);
      if (entry.isFile()) count += lstatSync(path, { throwIfNoEntry: false })?.ino === ino ? 1 : 0;
      else if (entry.isDirectory() && depth < MAX_DEPTH && !SKIPPED_FOLDERS.has(entry.name))
        queue.push({ at: path, depth: depth + 1 });
      if (++files > MAX_FILES) return count;
    }
  }
  return count;
}

/** Returns no entries for an unreadable folder: its hard links count as outside. */
function readEntries(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Lists the current files of a skill. */
export function listSkillFiles(origin: SkillOrigin): FileList {
  const { scope, folder, file = "" } = origin;
  if (folder === undefined) return { files: [], findings: [] };
  return listFiles(folder, basename(file), {
    expected: getExpectedFolder(origin),
    refusesShared: scope === "workspace",
  });
}

/**
 * Calls `use` with a path to the skill's own file in the discovered folder, or returns undefined if the folder or file was
 * replaced. A symlink out of the folder is followed only to the discovered file: any other could be a secret.
 */
export function withOwnFile<T>(
  origin: SkillOrigin & { file: string },
  use: (path: string) => T,
): T | UnopenedFile | undefined {
  const { folder, folderId, file } = origin;
  if (folderId === undefined) return use(file);
  const parentFolder = folder ?? dirname(file);
  const openedFolder = openExpectedFolder(parentFolder, { id: folderId, followsLinks: folder === undefined });
  if ("code" in openedFolder) {
    if (openedFolder.code === "changed") return undefined;
    return {
      finding:
        openedFolder.code === "not-found" ? NOT_FOUND_FINDING : { code: "unreadable", message: openedFolder.message },
    };
  }
  let fd: number | undefined;
  try {
    fd = openOwnFile(openedFolder, origin);
    if (fd === undefined) return undefined;
    return use(openedFolder.at === parentFolder ? file : `/proc/self/fd/${fd}`);
  } catch (error) {
    return { finding: createOpenFinding(error) };
  } finally {
    if (fd !== undefined) closeSync(fd);
    closeSync(openedFolder.fd);
  }
}

interface UnopenedFile {
  finding: Finding;
}

const NOT_FOUND_FINDING: Finding = { code: "not-found", message: "does not exist" };
const OWN_FILE_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a skill's own file. Returns undefined for a symlink to another outside file, or a hard link of one. Throws if the file is
 * missing.
 */
function openOwnFile({ at }: OpenedFolder, { scope, folder, folderId, file, fileId }: SkillOrigin & { file: string }) {
  const path = `${at}/${basename(file)}`;
  const isLink = lstatSync(path).isSymbolicLink();
  const opened = isLink && folder !== undefined ? openFileInside(folder, basename(file), { id: folderId }) : undefined;
  if (opened && "fd" in opened) return opened.fd;
  const fd = openSync(path, isLink ? OWN_FILE_FLAGS : OWN_FILE_FLAGS | (constants.O_NOFOLLOW ?? 0));
  const stats = fstatSync(fd);
  const isDoubtful = isLink || (scope === "workspace" && stats.isFile() && stats.nlink > 1);
  const isThere = isLink || scope !== "workspace" || isUnmoved(path, stats);
  if (isThere && (!isDoubtful || formatFileId(createFileFingerprint(stats)) === fileId)) return fd;
  closeSync(fd);
  return undefined;
}

/** Returns true if the skill's folder was replaced or removed after discovery. */
export function isFolderReplaced({ origin: { folder, folderId } }: Pick<Skill, "origin">): boolean {
  return folder !== undefined && folderId !== undefined && statFolderId(folder) !== folderId;
}

/**
 * Returns the expected identity of a skill's folder: the discovered one, with the skill's file. A folder that replaced it is not
 * read.
 */
export function getExpectedFolder({ folderId, file }: SkillOrigin): ExpectedFolder {
  return { id: folderId, ...(file === undefined ? {} : { holds: basename(file) }) };
}

/**
 * Reads a file of a skill from the discovered folder. The author of a workspace can add hard links to a user's files: such a file
 * is not read.
 */
export function readSkillFile(origin: SkillOrigin, path: string): FileBytes {
  const { scope, folder } = origin;
  if (folder === undefined) return { code: "not-found", message: `"${path}" does not exist` };
  const read = readFileInside(folder, path, MAX_RESOURCE_BYTES, getExpectedFolder(origin));
  if ("code" in read || scope !== "workspace") return read;
  if (read.stats.nlink > 1 && !listSkillFiles(origin).files.some((file) => file.path === path))
    return { code: "outside", message: `"${path}" is a hard link to a file outside of the skill's folder` };
  if (isStillAt(folder, path, { expected: getExpectedFolder(origin), stats: read.stats })) return read;
  return { code: "changed", message: `"${path}" was replaced while it was read` };
}

/**
 * Returns true if a path of the skill still leads to the file whose hard links were counted. A hard link that was removed after
 * opening is no longer counted: an outside file then has one link, like a file of the skill.
 */
function isStillAt(
  folder: string,
  path: string,
  { expected, stats }: { expected: ExpectedFolder; stats: Stats },
): boolean {
  const again = openFileInside(folder, path, expected);
  if ("code" in again) return false;
  closeSync(again.fd);
  return isSameFile(again.stats, stats) && isUnmoved(`${folder}/${path}`, stats);
}

/**
 * Returns true if a path leads to this file, with as many hard links as it had when it was opened. Looks twice: the system resolves the
 * path before it reads the links of its file, so an outside file that is moved away in between has one link too few in one look.
 */
function isUnmoved(path: string, opened: Stats): boolean {
  return [1, 2].every(() => {
    const now = statSync(path, { throwIfNoEntry: false });
    return now !== undefined && isSameFile(now, opened);
  });
}

/** Each added or removed hard link of a file changes its ctime. */
function isSameFile(a: Stats, b: Stats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.nlink === b.nlink && a.ctimeMs === b.ctimeMs;
}

export const MAX_RESOURCE_BYTES = 8 * 1024 * 1024;

function listEntries({ at }: OpenedFolder, findings: Finding[]): Dirent[] {
  try {
    return readdirSync(at, { withFileTypes: true }).sort((a, b) => compareText(a.name, b.name));
  } catch (error) {
    findings.push({ ...createOpenFinding(error), code: "file-skipped" });
    return [];
  }
}

/**
 * Creates a search for the targets of links in a skill's instructions. Contract: it searches only the repository of the skill or,
 * without one, the parent of its skill folder, so that it does not reveal which other files exist.
 */
export function createTargetFinder(folder: string): FindTarget {
  let found: { repository: string | undefined } | undefined; // Most skills have no links: their repository is not searched.
  return (path) => {
    if (path.includes("\0")) return undefined;
    found ??= { repository: findRepository(folder) };
    const { repository } = found;
    const bound = repository ?? dirname(dirname(folder));
    if (path.startsWith("/")) return existsWithin(bound, join(bound, path)) ? "repository" : undefined;
    const target = join(folder, path);
    if (isInside(folder, target)) {
      if (existsWithin(bound, target)) return "skill"; // Unlisted files have their own finding.
      return repository !== undefined && existsWithin(repository, join(repository, path)) ? "repository" : undefined;
    }
    return !isInside(bound, target) || existsWithin(bound, target) ? "outside" : undefined;
  };
}

function findRepository(folder: string): string | undefined {
  for (let above = folder; above !== dirname(above); above = dirname(above))
    if (existsSync(join(above, ".git"))) return above;
  return undefined;
}

function existsWithin(bound: string, path: string): boolean {
  try {
    return isInside(bound, realpathSync.native(path));
  } catch {
    return false;
  }
}

/** Folders in a skill's folder whose skills are samples: they are reported, but not loaded. */
const SAMPLE_FOLDERS: ReadonlySet<string> = new Set(["tests", "fixtures", "examples", "templates"]);

/** Returns the sample folder that contains a path inside a skill, if any. */
export function findSampleFolder(path: string): string | undefined {
  return path.split("/").find((part) => SAMPLE_FOLDERS.has(part));
}

/** The known state of a skill's folder. */
export interface FolderSnapshot {
  /** The stats of the folder itself, at its real path. */
  stats?: Stats;
  /** False if it has no folder `evals`. Undefined if unknown. */
  hasEvals?: boolean;
}
/**
 * The temporary folder of an installation: its content is not installed yet, or is being removed. Users do not choose such names.
 */
export const STAGING_FOLDER = /^\.skillet-[0-9a-f-]{36}(?:\.done)?$/;

/** Creates the finding for a file or folder that could not be opened. */
export function createOpenFinding(error: unknown): Finding {
  switch (getErrnoCode(error)) {
    case "ENOENT":
      return { code: "not-found", message: "does not exist" };
    case "ELOOP":
      return { code: "symlink-loop", message: "is a symlink to itself" };
    case "ENXIO":
      return { code: "not-a-file", message: "is not a regular file" };
    case "ENOTDIR":
      return { code: "not-a-folder", message: "is not a folder" };
    default:
      return { code: "unreadable", message: `cannot be read: ${getErrorMessage(error)}` };
  }
}

/** Creates the finding for a symlink that leads to no file or folder. */
export function createBrokenLinkFinding(path: string): Finding {
  try {
    statSync(path);
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT") return createOpenFinding(error);
  }
  return { code: "symlink-broken", message: "is a broken symlink" };
}
