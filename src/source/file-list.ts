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
  type Bytes,
  type ExpectedFolder,
  folderIdOf,
  isInside,
  type OpenedFolder,
  openFolder,
  openFolderIn,
  openInside,
  readInside,
} from "../shared/inside.ts";
import { byText } from "../shared/text.ts";
import type { Finding } from "../skill/diagnostic.ts";
import type { FindTarget } from "../skill/lint.ts";
import type { FileList, Origin, Skill, SkillFile } from "../skill/skill.ts";
import { fileIdOf, openFinding, stampOf } from "./file.ts";

const MOST_FILES = 2000;
const DEEPEST = 16;
export const SKIPPED_FOLDERS: ReadonlySet<string> = new Set([".git", ".hg", ".svn", "node_modules"]);

export interface ListOptions {
  /** What the folder has to be. */
  expected?: ExpectedFolder;
  /** Whether files that have other names outside of the folder are left out. */
  refusesShared?: boolean;
}

/** Lists the files of a skill's folder, without SKILL.md. What is not served is not listed, and says why. */
export function listFiles(folder: string, skillFile: string, { expected, refusesShared }: ListOptions = {}): FileList {
  const found: { file: SkillFile; stats: Stats }[] = [];
  const findings: Finding[] = [];
  const names = new Map<number, number>();
  const say = (code: Finding["code"], message: string) => findings.push({ code, message });
  const visit = (held: OpenedFolder, below: string, depth: number): boolean => {
    for (const entry of entriesOf(held, findings)) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (path === skillFile) {
        const stats = lstatSync(`${held.at}/${entry.name}`, { throwIfNoEntry: false });
        if (stats?.isFile()) names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
        continue;
      }
      if (found.length >= MOST_FILES) {
        say("too-many-files", `holds more than ${MOST_FILES} files; the rest is not listed`);
        return false;
      }
      if (entry.isDirectory()) {
        if (SKIPPED_FOLDERS.has(entry.name)) continue;
        if (depth >= DEEPEST) say("too-deep", `"${path}" is nested deeper than ${DEEPEST} folders`);
        else if (!visitIn(held, path, depth + 1)) return false;
      } else addFile(held, path, entry);
    }
    return true;
  };
  const visitIn = (held: OpenedFolder, path: string, depth: number): boolean => {
    let inner: OpenedFolder;
    try {
      inner = openFolderIn(held, basename(path));
    } catch (error) {
      findings.push({ ...openFinding(error), code: "file-skipped" });
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
    const opened = entry.isSymbolicLink() ? openInside(folder, path, expected) : undefined;
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
  const held = openFolder(folder, expected);
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
export function sharedFileFinding(
  file: string,
  folder: string | undefined,
  { nlink, ino }: Stats,
): Finding | undefined {
  if (nlink < 2 || lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  if (folder !== undefined && countNames(folder, ino) >= nlink) return undefined;
  return {
    code: "skill-file-shared",
    message: "is a hard link to a file outside of the skill's folder, and is not read",
  };
}

/** Returns why a file that was opened is not read: its name was given to another one meanwhile, so that the names of that one were counted. */
export function replacedFileFinding(file: string, opened: Stats): Finding | undefined {
  const now = lstatSync(file, { throwIfNoEntry: false });
  if (now?.isSymbolicLink() || (now && isSameFile(now, opened))) return undefined;
  return { code: "unreadable", message: "was replaced while it was read" };
}

/** Counts the names of a file in a folder, among as many files as are listed of a skill. */
function countNames(folder: string, ino: number): number {
  let count = 0;
  let files = 0;
  const queue = [{ at: folder, depth: 1 }];
  for (const { at, depth } of queue) {
    for (const entry of entriesAt(at)) {
      const path = join(at, entry.name);
      if (entry.isFile()) count += lstatSync(path, { throwIfNoEntry: false })?.ino === ino ? 1 : 0;
      else if (entry.isDirectory() && depth < DEEPEST && !SKIPPED_FOLDERS.has(entry.name))
        queue.push({ at: path, depth: depth + 1 });
      if (++files > MOST_FILES) return count;
    }
  }
  return count;
}

/** A folder that cannot be read has no names: they count as outside. */
function entriesAt(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Lists the files of a skill as they are now. */
export function listSkillFiles(origin: Origin): FileList {
  const { scope, folder, file = "" } = origin;
  if (folder === undefined) return { files: [], findings: [] };
  return listFiles(folder, basename(file), {
    expected: expectedFolder(origin),
    refusesShared: scope === "workspace",
  });
}

/**
 * Calls `use` with a path that leads to the skill's own file, in the folder that was found, or returns undefined if that folder or file is
 * another now. A link to a file outside of the folder is followed only to the file that was found: any other is somebody's secret.
 */
export function withOwnFile<T>(origin: Origin & { file: string }, use: (path: string) => T): T | Unopened | undefined {
  const { folder, folderId, file } = origin;
  if (folderId === undefined) return use(file);
  const around = folder ?? dirname(file);
  const held = openFolder(around, { id: folderId, followsLinks: folder === undefined });
  if ("code" in held) {
    if (held.code === "changed") return undefined;
    return { finding: held.code === "not-found" ? NOT_THERE : { code: "unreadable", message: held.message } };
  }
  let fd: number | undefined;
  try {
    fd = openOwnFile(held, origin);
    if (fd === undefined) return undefined;
    return use(held.at === around ? file : `/proc/self/fd/${fd}`);
  } catch (error) {
    return { finding: openFinding(error) };
  } finally {
    if (fd !== undefined) closeSync(fd);
    closeSync(held.fd);
  }
}

interface Unopened {
  finding: Finding;
}

const NOT_THERE: Finding = { code: "not-found", message: "is not there" };
const OWN_FILE = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens a skill's own file, or returns undefined when it is a link to another file outside, or another name of one. Throws when there is none. */
function openOwnFile({ at }: OpenedFolder, { scope, folder, folderId, file, fileId }: Origin & { file: string }) {
  const path = `${at}/${basename(file)}`;
  const isLink = lstatSync(path).isSymbolicLink();
  const opened = isLink && folder !== undefined ? openInside(folder, basename(file), { id: folderId }) : undefined;
  if (opened && "fd" in opened) return opened.fd;
  const fd = openSync(path, isLink ? OWN_FILE : OWN_FILE | (constants.O_NOFOLLOW ?? 0));
  const stats = fstatSync(fd);
  const isDoubtful = isLink || (scope === "workspace" && stats.isFile() && stats.nlink > 1);
  const isThere = isLink || scope !== "workspace" || isSameFile(lstatSync(path), stats);
  if (isThere && (!isDoubtful || fileIdOf(stampOf(stats)) === fileId)) return fd;
  closeSync(fd);
  return undefined;
}

/** Whether another folder, or none, is where the skill was found. */
export function isReplaced({ origin: { folder, folderId } }: Pick<Skill, "origin">): boolean {
  return folder !== undefined && folderId !== undefined && folderIdOf(folder) !== folderId;
}

/** The folder of a skill is the one that was found, and holds its file: no other is read, whatever is put in its place. */
export function expectedFolder({ folderId, file }: Origin): ExpectedFolder {
  return { id: folderId, ...(file === undefined ? {} : { holds: basename(file) }) };
}

/**
 * Reads a file of a skill from the folder that was found. Whoever makes a workspace may give a file of the user's a second name in it: such a
 * file is not read.
 */
export function readSkillFile(origin: Origin, path: string): Bytes {
  const { scope, folder } = origin;
  if (folder === undefined) return { code: "not-found", message: `"${path}" does not exist` };
  const read = readInside(folder, path, LARGEST_RESOURCE, expectedFolder(origin));
  if ("code" in read || scope !== "workspace") return read;
  if (read.stats.nlink > 1 && !listSkillFiles(origin).files.some((file) => file.path === path))
    return { code: "outside", message: `"${path}" is a hard link to a file outside of the skill's folder` };
  if (isStillAt(folder, path, { expected: expectedFolder(origin), stats: read.stats })) return read;
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
  const again = openInside(folder, path, expected);
  if ("code" in again) return false;
  closeSync(again.fd);
  return isSameFile(again.stats, stats);
}

/** Each new or removed name of a file changes its ctime. */
function isSameFile(a: Stats, b: Stats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.nlink === b.nlink && a.ctimeMs === b.ctimeMs;
}

export const LARGEST_RESOURCE = 8 * 1024 * 1024;

function entriesOf({ at }: OpenedFolder, findings: Finding[]): Dirent[] {
  try {
    return readdirSync(at, { withFileTypes: true }).sort((a, b) => byText(a.name, b.name));
  } catch (error) {
    findings.push({ ...openFinding(error), code: "file-skipped" });
    return [];
  }
}

/**
 * Looks for what links in a skill's instructions point to. Contract: only the repository around the skill is looked at, or, where there is
 * none, the folder above that of its skills; whether something exists elsewhere on the machine is not revealed.
 */
export function targetFinder(folder: string): FindTarget {
  const repository = repositoryAround(folder);
  const bound = repository ?? dirname(dirname(folder));
  return (path) => {
    if (path.includes("\0")) return undefined;
    if (path.startsWith("/")) return isThere(bound, join(bound, path)) ? "repository" : undefined;
    const place = join(folder, path);
    if (isInside(folder, place)) {
      if (isThere(bound, place)) return "skill"; // What is not listed has its own finding.
      return repository !== undefined && isThere(repository, join(repository, path)) ? "repository" : undefined;
    }
    return !isInside(bound, place) || isThere(bound, place) ? "outside" : undefined;
  };
}

function repositoryAround(folder: string): string | undefined {
  for (let above = folder; above !== dirname(above); above = dirname(above))
    if (existsSync(join(above, ".git"))) return above;
  return undefined;
}

function isThere(bound: string, place: string): boolean {
  try {
    return isInside(bound, realpathSync.native(place));
  } catch {
    return false;
  }
}
