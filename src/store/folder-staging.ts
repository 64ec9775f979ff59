import {
  type BigIntStats,
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { getErrnoCode } from "../errors/problem.ts";
import { STAGING_FOLDER } from "../skill/source/skill-files.ts";
import {
  type FolderHandle,
  isOwnedByUser,
  openFolderHandle,
  readRegularText,
  removeFolderTree,
  setFolderMode,
} from "../util/file-access.ts";
import { findSystemProgram, runProgramSync } from "../util/system.ts";
import { formatProcessOwner, readLiveOwner } from "./locked-file.ts";

/**
 * A folder in which a change of a folder of skills is prepared, inside that folder, under a name that no client takes
 * for a skill. `new` holds the folders to add, `old` the removed ones. Until it is marked done, its journal allows
 * everything to be rolled back.
 */
export interface Staging {
  folder: FolderHandle;
  name: string;
}

/** The moves of a change, by name. */
export interface StagedMoves {
  /** The identity of each folder to add. */
  put: Record<string, string>;
  /** The mode of each folder to remove. */
  away: Record<string, number>;
}

/** Creates a staging folder. Contract: the caller holds the lock of the folder. */
export function openStaging(dir: FolderHandle): Staging {
  const name = `.skillet-${crypto.randomUUID()}`; // Matches STAGING_FOLDER.
  const path = join(dir.at, name);
  mkdirSync(path, 0o700);
  const folder = openFolderHandle(path);
  try {
    if (!isOwnedByUser(folder.stats)) throw new Error("another user replaced the staging folder");
    writeFileSync(join(folder.at, "owner"), formatProcessOwner(), { flag: "wx", mode: 0o600 });
    for (const part of ["new", "old"]) mkdirSync(join(folder.at, part), 0o700);
  } catch (error) {
    folder.close();
    removeTreeQuietly(path);
    throw error;
  }
  return { folder, name };
}

/**
 * Writes the moves down before they start, so that a process that dies in between can be rolled back. Returns the file.
 */
export function writeStagingJournal({ folder }: Staging, moves: StagedMoves): string {
  const file = join(folder.at, "journal");
  writeFileSync(file, JSON.stringify(moves), { flag: "wx", mode: 0o600 });
  return file;
}

export function moveStaged(dir: FolderHandle, { folder }: Staging, { put, away }: StagedMoves): void {
  for (const [name, mode] of Object.entries(away)) {
    const old = join(folder.at, "old", name);
    if ((mode & MODE_KIND) === MODE_FILE && Object.hasOwn(put, name)) linkFile(join(dir.at, name), old);
    else moveFolder(join(dir.at, name), old, mode);
    const { mode: moved } = lstatSync(old);
    if ((moved & MODE_KIND) !== (mode & MODE_KIND)) throw new Error(`${name} was replaced by something else meanwhile`);
  }
  for (const name of Object.keys(put)) renameSync(join(folder.at, "new", name), join(dir.at, name));
}

/**
 * Hard-links a file before it is replaced, so that it exists at every moment: a locked folder is never without its lock
 * file.
 */
function linkFile(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    renameSync(from, to); // Some file systems have no hard links.
  }
}

/** The bits of a mode that hold the file type. */
const MODE_KIND = 0o170000;
const MODE_FILE = 0o100000;

/** Marks the change as done: from here on it cannot be rolled back. A single rename makes it atomic. */
export function markDone(dir: FolderHandle, { name }: Staging): void {
  renameSync(join(dir.at, name), join(dir.at, `${name}.done`));
}

/** Removes a finished staging folder; if that fails, the next change removes it. */
export function discardStaging(dir: FolderHandle, { name }: Staging): void {
  removeTreeQuietly(join(dir.at, `${name}.done`));
}

/** Restores the previous state. Throws when that is impossible now: the next change tries again. */
export function rollBack(dir: FolderHandle, staging: Staging): void {
  const { at } = staging.folder;
  const { put, away } = readStagingJournal(at);
  for (const [name, mark] of Object.entries(put)) {
    const path = join(dir.at, name);
    if (readFileIdentity(path) === mark) moveFolder(path, join(at, "new", name), lstatSync(path).mode);
  }
  const kept = filterNames(join(at, "old"), (old, name) => {
    const path = join(dir.at, name);
    const there = lstatSync(path, { throwIfNoEntry: false });
    if (there && there.ino === lstatSync(join(old, name)).ino) {
      rmSync(join(old, name)); // It was not replaced yet.
      return false;
    }
    if (there) return true;
    renameSync(join(old, name), path);
    const mode = Object.hasOwn(away, name) ? away[name] : undefined; // A skill may be called `constructor`.
    if (mode !== undefined && isReadOnlyFolder(mode) && lstatSync(path).isDirectory())
      setFolderMode(path, mode & 0o777);
    return false;
  });
  flushToDisk([dir.at], dir.at);
  // The user put their own file in the place of a removed one: theirs stays there, and the old one stays here.
  if (kept.length > 0) rmSync(join(at, "journal"), { force: true });
  else markDone(dir, staging);
}

/** Rolls back the half-done changes of dead processes. Contract: the caller holds the lock of the folder. */
export function rollBackAbandoned(dir: FolderHandle): void {
  for (const name of listAbandoned(dir.at)) {
    if (name.endsWith(".done")) removeTreeQuietly(join(dir.at, name));
    else rollBackOne(dir, name);
  }
}

/** Lists the staging folders in a folder, both abandoned and active ones. */
export function listAbandoned(dir: string): string[] {
  return listNames(dir).filter((name) => STAGING_FOLDER.test(name));
}

/**
 * Returns an identity that no other file or folder has or had here. Inode numbers are reused, and device numbers change
 * at boot.
 */
export function readFileIdentity(path: string): string {
  const stats: BigIntStats | undefined = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats?.isDirectory() || stats?.isFile() ? [stats.ino, stats.birthtimeNs].join(":") : "";
}

/**
 * Returns the names in a folder that match. Empty if the path is not a folder: a workspace can contain a folder with a
 * staging name in which `old` is a link to other files of the user. Throws when it cannot be read: an unreadable folder
 * must not count as empty.
 */
function filterNames(path: string, isLeft: (at: string, name: string) => boolean): string[] {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) return [];
  const folder = openFolderHandle(path);
  try {
    return readdirSync(folder.at).filter((name) => isLeft(folder.at, name));
  } finally {
    folder.close();
  }
}

function rollBackOne(dir: FolderHandle, name: string): void {
  let folder: FolderHandle;
  try {
    folder = openFolderHandle(join(dir.at, name));
  } catch {
    return; // A link or a file, so not a staging folder of skillet.
  }
  try {
    const owner = readLiveOwner(join(folder.at, "owner"));
    // This process holds the lock and does nothing else there: its own staging folder is one that could not be rolled
    // back before.
    const isInUse = owner !== undefined && JSON.stringify(owner) !== formatProcessOwner();
    if (isInUse || !isOwnedByUser(folder.stats)) return;
    rollBack(dir, { folder, name });
    discardStaging(dir, { folder, name });
  } finally {
    folder.close();
  }
}

/** Moves a folder. A read-only folder cannot be moved into another one, so it becomes writable first. */
function moveFolder(from: string, to: string, mode: number): void {
  if (isReadOnlyFolder(mode)) setFolderMode(from, (mode & 0o777) | 0o200);
  renameSync(from, to);
}

function isReadOnlyFolder(mode: number): boolean {
  return (mode & MODE_KIND) !== MODE_FILE && (mode & 0o200) === 0;
}

/**
 * Reads the journal; empty if it was not written, since then nothing was moved. A link or a device in its place does
 * not count.
 */
function readStagingJournal(at: string): StagedMoves {
  try {
    const { put, away } = JSON.parse(
      readRegularText(join(at, "journal"), { limit: MAX_STAGING_JOURNAL_BYTES, refusesLinks: true }),
    );
    return { put: filterEntries(put, isText), away: filterEntries(away, Number.isInteger) };
  } catch {
    return { put: {}, away: {} };
  }
}

const MAX_STAGING_JOURNAL_BYTES = 16 * 1024 * 1024;

/** Drops entries that are not plain names with a valid value: a workspace can contain a forged journal. */
function filterEntries<T>(entries: Record<string, T>, isValue: (value: unknown) => boolean): Record<string, T> {
  const isOurs = (name: string) => name !== "" && name !== "." && name !== ".." && name === basename(name);
  return Object.fromEntries(Object.entries(entries).filter(([name, value]) => isOurs(name) && isValue(value)));
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function removeTreeQuietly(path: string): void {
  try {
    removeFolderTree(path);
  } catch {} // It is not a skill, and the next change tries again.
}

// One by one, 2,000 small files take six times as long as syncing the whole file system; a few files are faster one by
// one.
const MAX_SINGLE_FLUSHES = 100;

/**
 * Returns once these files and folders are on the disk. Contract: all are on the file system of `folder`, a real path.
 */
export function flushToDisk(paths: readonly string[], folder: string): void {
  if (paths.length > MAX_SINGLE_FLUSHES && flushFileSystem(folder)) return;
  for (const path of paths) flushPath(path);
}

function flushPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } catch (error) {
    if (getErrnoCode(error) !== "EINVAL") throw error; // Some file systems cannot sync folders.
  } finally {
    closeSync(fd);
  }
}

/** Uses `sync -f`: Node has no call for it. */
function flushFileSystem(folder: string): boolean {
  const file = process.platform === "linux" ? findSystemProgram("sync") : undefined;
  return file !== undefined && runProgramSync({ file, args: ["-f", folder], env: {} }) !== undefined;
}
