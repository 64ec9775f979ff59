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
} from "node:fs";
import { basename, dirname, join } from "node:path";
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
import type { Finding } from "../diagnostics.ts";
import type { FindTarget } from "../lint.ts";
import type { FileList, Skill, SkillFile, SkillOrigin } from "../skill.ts";
import type { DiscoveryCache } from "./discovery-cache.ts";
import { createFileFingerprint, createOpenFinding, formatFileId, statIfExists } from "./read-file.ts";

const MAX_FILES = 2000;
const MAX_DEPTH = 16;
export const SKIPPED_FOLDERS: ReadonlySet<string> = new Set([".git", ".hg", ".svn", "node_modules"]);

interface ListFilesOptions {
  /** What the folder has to be. */
  expected?: ExpectedFolder;
  /** Whether files that have other names outside of the folder are left out. */
  refusesShared?: boolean;
}

/** Lists the files of a skill's folder, without SKILL.md. What is not served is not listed, and says why. */
export function listFiles(
  folder: string,
  skillFile: string,
  { expected, refusesShared }: ListFilesOptions = {},
): FileList {
  const found: { file: SkillFile; stats: Stats }[] = [];
  const findings: Finding[] = [];
  const names = new Map<number, number>();
  const say = (code: Finding["code"], message: string) => findings.push({ code, message });
  const visit = (held: OpenedFolder, below: string, depth: number): boolean => {
    for (const entry of listEntries(held, findings)) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (path === skillFile) {
        const stats = lstatSync(`${held.at}/${entry.name}`, { throwIfNoEntry: false });
        if (stats?.isFile()) names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
        continue;
      }
      if (found.length >= MAX_FILES) {
        say("too-many-files", `holds more than ${MAX_FILES} files; the rest is not listed`);
        return false;
      }
      if (entry.isDirectory()) {
        if (SKIPPED_FOLDERS.has(entry.name)) continue;
        if (depth >= MAX_DEPTH) say("too-deep", `"${path}" is nested deeper than ${MAX_DEPTH} folders`);
        else if (!visitIn(held, path, depth + 1)) return false;
      } else addFile(held, path, entry);
    }
    return true;
  };
  const visitIn = (held: OpenedFolder, path: string, depth: number): boolean => {
    let inner: OpenedFolder;
    try {
      inner = openSubfolder(held, basename(path));
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
    if (stats.mode & 0o6000) say("file-mode", `"${path}" has its set-id bit set`);
    if (entry.isFile()) names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
    found.push({ file: { path, size: stats.size, executable: (stats.mode & 0o111) !== 0 }, stats });
  };
  const linkedFile = (path: string, entry: Dirent): Stats | undefined => {
    const opened = entry.isSymbolicLink() ? openFileInside(folder, path, expected) : undefined;
    if (opened && "fd" in opened) {
      closeSync(opened.fd);
      return opened.stats;
    }
    if (opened?.code === "outside") say("link-outside", `"${path}" is a link that leaves the skill's folder`);
    else if (opened?.code === "not-a-file")
      say("file-skipped", `"${path}" is a link to something that is no regular file`);
    else say("file-skipped", opened ? opened.message : `"${path}" is not a regular file`);
    return undefined;
  };
  const held = openExpectedFolder(folder, expected);
  if ("code" in held) {
    say("file-skipped", held.code === "changed" ? "is not read: it is not the folder that was found" : held.message);
    return { files: [], findings };
  }
  try {
    visit(held, "", 1);
  } finally {
    closeSync(held.fd);
  }
  // A name that was not met is outside, or in a folder that is no part of the skill.
  const isShared = ({ stats }: { stats: Stats }) =>
    refusesShared === true && stats.nlink > 1 && stats.nlink > (names.get(stats.ino) ?? 0);
  const [shared, ...more] = found.filter(isShared).map(({ file }) => file.path);
  if (shared !== undefined) {
    const rest = more.length === 0 ? "" : `, and so ${more.length === 1 ? "is 1 more" : `are ${more.length} more`}`;
    say("hard-link-outside", `"${shared}" is a hard link to a file outside of the skill's folder${rest}`);
  }
  return { files: found.filter((one) => !isShared(one)).map(({ file }) => file), findings };
}

/**
 * Returns why a skill's own file is not read: it has a name outside of the skill's folder. A symlink is followed: what it leads to is judged
 * as any other file outside.
 */
export function checkSharedFile(file: string, folder: string | undefined, { nlink, ino }: Stats): Finding | undefined {
  if (nlink < 2 || lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  if (folder !== undefined && countHardLinks(folder, ino) >= nlink) return undefined;
  return {
    code: "skill-file-shared",
    message: "is a hard link to a file outside of the skill's folder, and is not read",
  };
}

/** Returns why a file that was opened is not read: its name was given to another one meanwhile, so that the names of that one were counted. */
export function checkReplacedFile(file: string, opened: Stats): Finding | undefined {
  const now = lstatSync(file, { throwIfNoEntry: false });
  if (now?.isSymbolicLink() || (now && isSameFile(now, opened))) return undefined;
  return { code: "unreadable", message: "was replaced while it was read" };
}

/** Counts the names of a file in a folder, among as many files as are listed of a skill. */
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

/** A folder that cannot be read has no names: they count as outside. */
function readEntries(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Lists the files of a skill as they are now. */
export function listSkillFiles(origin: SkillOrigin): FileList {
  const { scope, folder, file = "" } = origin;
  if (folder === undefined) return { files: [], findings: [] };
  return listFiles(folder, basename(file), {
    expected: getExpectedFolder(origin),
    refusesShared: scope === "workspace",
  });
}

/**
 * Calls `use` with a path that leads to the skill's own file, in the folder that was found, or returns undefined if that folder or file is
 * another now. A link to a file outside of the folder is followed only to the file that was found: any other is somebody's secret.
 */
export function withOwnFile<T>(
  origin: SkillOrigin & { file: string },
  use: (path: string) => T,
): T | UnopenedFile | undefined {
  const { folder, folderId, file } = origin;
  if (folderId === undefined) return use(file);
  const around = folder ?? dirname(file);
  const held = openExpectedFolder(around, { id: folderId, followsLinks: folder === undefined });
  if ("code" in held) {
    if (held.code === "changed") return undefined;
    return { finding: held.code === "not-found" ? NOT_FOUND_FINDING : { code: "unreadable", message: held.message } };
  }
  let fd: number | undefined;
  try {
    fd = openOwnFile(held, origin);
    if (fd === undefined) return undefined;
    return use(held.at === around ? file : `/proc/self/fd/${fd}`);
  } catch (error) {
    return { finding: createOpenFinding(error) };
  } finally {
    if (fd !== undefined) closeSync(fd);
    closeSync(held.fd);
  }
}

interface UnopenedFile {
  finding: Finding;
}

const NOT_FOUND_FINDING: Finding = { code: "not-found", message: "is not there" };
const OWN_FILE_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens a skill's own file, or returns undefined when it is a link to another file outside, or another name of one. Throws when there is none. */
function openOwnFile({ at }: OpenedFolder, { scope, folder, folderId, file, fileId }: SkillOrigin & { file: string }) {
  const path = `${at}/${basename(file)}`;
  const isLink = lstatSync(path).isSymbolicLink();
  const opened = isLink && folder !== undefined ? openFileInside(folder, basename(file), { id: folderId }) : undefined;
  if (opened && "fd" in opened) return opened.fd;
  const fd = openSync(path, isLink ? OWN_FILE_FLAGS : OWN_FILE_FLAGS | (constants.O_NOFOLLOW ?? 0));
  const stats = fstatSync(fd);
  const isDoubtful = isLink || (scope === "workspace" && stats.isFile() && stats.nlink > 1);
  const isThere = isLink || scope !== "workspace" || isSameFile(lstatSync(path), stats);
  if (isThere && (!isDoubtful || formatFileId(createFileFingerprint(stats)) === fileId)) return fd;
  closeSync(fd);
  return undefined;
}

/** Whether another folder, or none, is where the skill was found. */
export function isFolderReplaced({ origin: { folder, folderId } }: Pick<Skill, "origin">): boolean {
  return folder !== undefined && folderId !== undefined && statFolderId(folder) !== folderId;
}

/** The folder of a skill is the one that was found, and holds its file: no other is read, whatever is put in its place. */
export function getExpectedFolder({ folderId, file }: SkillOrigin): ExpectedFolder {
  return { id: folderId, ...(file === undefined ? {} : { holds: basename(file) }) };
}

/**
 * Reads a file of a skill from the folder that was found. Whoever makes a workspace may give a file of the user's a second name in it: such a
 * file is not read.
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
 * True when a path of the skill leads to a file whose names were counted. A hard link that is removed after the file was opened is not counted
 * any more: a file outside then has one name, as a file of the skill has.
 */
function isStillAt(
  folder: string,
  path: string,
  { expected, stats }: { expected: ExpectedFolder; stats: Stats },
): boolean {
  const again = openFileInside(folder, path, expected);
  if ("code" in again) return false;
  closeSync(again.fd);
  return isSameFile(again.stats, stats);
}

/** Each new or removed name of a file changes its ctime. */
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
 * Looks for what links in a skill's instructions point to. Contract: only the repository around the skill is looked at, or, where there is
 * none, the folder above that of its skills; whether something exists elsewhere on the machine is not revealed.
 */
export function createTargetFinder(folder: string): FindTarget {
  const repository = findRepository(folder);
  const bound = repository ?? dirname(dirname(folder));
  return (path) => {
    if (path.includes("\0")) return undefined;
    if (path.startsWith("/")) return existsWithin(bound, join(bound, path)) ? "repository" : undefined;
    const place = join(folder, path);
    if (isInside(folder, place)) {
      if (existsWithin(bound, place)) return "skill"; // What is not listed has its own finding.
      return repository !== undefined && existsWithin(repository, join(repository, path)) ? "repository" : undefined;
    }
    return !isInside(bound, place) || existsWithin(bound, place) ? "outside" : undefined;
  };
}

function findRepository(folder: string): string | undefined {
  for (let above = folder; above !== dirname(above); above = dirname(above))
    if (existsSync(join(above, ".git"))) return above;
  return undefined;
}

function existsWithin(bound: string, place: string): boolean {
  try {
    return isInside(bound, realpathSync.native(place));
  } catch {
    return false;
  }
}

/** Folders in a skill's folder whose skills are samples: they are reported, and not loaded. */
const SAMPLE_FOLDERS: ReadonlySet<string> = new Set(["tests", "fixtures", "examples", "templates"]);

/** Returns the folder of samples that a path inside a skill is in. */
export function findSampleFolder(path: string): string | undefined {
  return path.split("/").find((part) => SAMPLE_FOLDERS.has(part));
}

/** What was seen of the folder of a skill. */
export interface FolderSnapshot {
  /** Of the folder itself, as it is at its real path. */
  stats?: Stats;
  /** False: it has no folder `evals`. Undefined where that is not known. */
  hasEvals?: boolean;
}

/** As deep as the files of a skill are listed. */
const MAX_NESTED_DEPTH = 16;
const MAX_NESTED_FOLDERS = 2000;
/** Where an installation is made ready: what lies there is not there yet, or not any more. Nobody gives a folder of their own such a name. */
export const STAGING_FOLDER = /^\.skillet-[0-9a-f-]{36}(?:\.done)?$/;

/**
 * Finds the folders below that of a skill that have a SKILL.md, outer ones first. Links are not followed: what they lead to is not inside.
 * `path` is that of the folder in the index, `stats` its own. `isCut`: there are more folders than are searched. `hasEvals`: it has a folder of
 * that name; undefined where a link of that name may lead to one.
 */
export function findNestedFolders(
  folder: string,
  { path, index, stats }: { path: string; index?: DiscoveryCache | undefined; stats?: Stats | undefined },
): { folders: string[]; isCut: boolean; hasEvals?: boolean } {
  const at = (inside: string) => (inside === "" ? folder : `${folder}/${inside}`);
  const known = index?.nestedFolders(path, (inside) => (inside === "" && stats ? stats : statIfExists(at(inside))));
  if (known) return { folders: known.skills, isCut: false, hasEvals: known.all.includes(EVALS_FOLDER) };
  const visited: { path: string; isSkill: boolean }[] = [];
  let isWhole = true;
  const visit = (inside: string, depth: number): void => {
    const listed =
      visited.length < MAX_NESTED_FOLDERS && depth <= MAX_NESTED_DEPTH ? listSubfolders(at(inside)) : undefined;
    if (!listed) {
      isWhole = false; // What cannot be read, or is too deep, is reported with the files of the skill.
      return;
    }
    if (inside === "" && listed.hasEvalsLink) isWhole = false;
    visited.push({ path: inside, isSkill: listed.isSkill && inside !== "" });
    for (const name of listed.folders) visit(inside === "" ? name : `${inside}/${name}`, depth + 1);
  };
  visit("", 1);
  if (isWhole) index?.addNestedFolders(path, visited);
  return {
    folders: visited.flatMap(({ path: inside, isSkill }) => (isSkill ? inside : [])),
    isCut: visited.length >= MAX_NESTED_FOLDERS,
    ...(isWhole ? { hasEvals: visited.some(({ path: inside }) => inside === EVALS_FOLDER) } : {}),
  };
}

/** The folder of the queries that a skill is evaluated with. */
const EVALS_FOLDER = "evals";

/** Returns the folders in a folder, whether it has a SKILL.md, and whether it has a link to what may be a folder of queries. */
function listSubfolders(folder: string): { folders: string[]; isSkill: boolean; hasEvalsLink: boolean } | undefined {
  let entries: Dirent[];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return undefined;
  }
  const folders: string[] = [];
  let [isSkill, hasEvalsLink] = [false, false];
  for (const entry of entries) {
    const { name } = entry;
    if (entry.isDirectory()) {
      if (!SKIPPED_FOLDERS.has(name) && !STAGING_FOLDER.test(name)) folders.push(name);
    } else if (name === "SKILL.md") isSkill = true;
    else if (name === EVALS_FOLDER) hasEvalsLink = true;
  }
  return { folders: folders.length > 1 ? folders.sort(compareText) : folders, isSkill, hasEvalsLink };
}
