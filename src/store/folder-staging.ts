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
import { readRegularText } from "../util/file-access.ts";
import {
  type FolderHandle,
  isOwnedByUser,
  openFolderHandle,
  removeFolderTree,
  setFolderMode,
} from "../util/folder-handle.ts";
import { findSystemProgram, runProgramSync } from "../util/system.ts";
import { formatProcessOwner, readLiveOwner } from "./locked-file.ts";

/**
 * Where a change of a folder of skills is made ready, in that folder, under a name that no client takes for a skill's: `new` holds what is
 * to come, `old` what is to go. Until it is called done, everything can be taken back by what stands in its journal.
 */
export interface Staging {
  folder: FolderHandle;
  name: string;
}

/** What is moved, by name. */
export interface StagedMoves {
  /** What tells each folder that comes from any other. */
  put: Record<string, string>;
  /** The mode of each folder that goes. */
  away: Record<string, number>;
}

/** Contract: whoever calls holds the lock of the folder. */
export function openStaging(dir: FolderHandle): Staging {
  const name = `.skillet-${crypto.randomUUID()}`; // As UNFINISHED has it.
  const path = join(dir.at, name);
  mkdirSync(path, 0o700);
  const folder = openFolderHandle(path);
  try {
    if (!isOwnedByUser(folder.stats)) throw new Error("somebody else put a folder in the place of ours");
    writeFileSync(join(folder.at, "owner"), formatProcessOwner(), { flag: "wx", mode: 0o600 });
    for (const part of ["new", "old"]) mkdirSync(join(folder.at, part), 0o700);
  } catch (error) {
    folder.close();
    removeTreeQuietly(path);
    throw error;
  }
  return { folder, name };
}

/** What is to be moved is written down first: a process that ends in between leaves everything to be taken back. Gives the file. */
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
    if ((moved & MODE_KIND) !== (mode & MODE_KIND))
      throw new Error(`something else was put in the place of ${name} meanwhile`);
  }
  for (const name of Object.keys(put)) renameSync(join(folder.at, "new", name), join(dir.at, name));
}

/** A file that another takes the place of is there all the time, the one or the other: what was locked is never without its lock. */
function linkFile(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    renameSync(from, to); // Some file systems have no second names.
  }
}

/** The bits of a mode that say whether it is a folder, a file or something else. */
const MODE_KIND = 0o170000;
const MODE_FILE = 0o100000;

/** What was moved stays so: from here on nothing can be taken back. One rename says it, so it is said wholly or not at all. */
export function markDone(dir: FolderHandle, { name }: Staging): void {
  renameSync(join(dir.at, name), join(dir.at, `${name}.done`));
}

/** What is left of it has no use any more; what cannot go now goes the next time. */
export function discardStaging(dir: FolderHandle, { name }: Staging): void {
  removeTreeQuietly(join(dir.at, `${name}.done`));
}

/** Puts everything back as it was. Throws when that cannot be done now: it is tried again with the next change. */
export function rollBack(dir: FolderHandle, staging: Staging): void {
  const { at } = staging.folder;
  const { put, away } = readStagingJournal(at);
  for (const [name, mark] of Object.entries(put)) {
    const place = join(dir.at, name);
    if (readFileIdentity(place) === mark) moveFolder(place, join(at, "new", name), lstatSync(place).mode);
  }
  const kept = filterNames(join(at, "old"), (old, name) => {
    const place = join(dir.at, name);
    const there = lstatSync(place, { throwIfNoEntry: false });
    if (there && there.ino === lstatSync(join(old, name)).ino) {
      rmSync(join(old, name)); // Nothing had taken its place yet.
      return false;
    }
    if (there) return true;
    renameSync(join(old, name), place);
    const mode = Object.hasOwn(away, name) ? away[name] : undefined; // A skill may be called `constructor`.
    if (mode !== undefined && isReadOnlyFolder(mode) && lstatSync(place).isDirectory())
      setFolderMode(place, mode & 0o777);
    return false;
  });
  flushToDisk([dir.at], dir.at);
  // Somebody put something of their own in the place of what was to go: theirs stays there, and the old one here.
  if (kept.length > 0) rmSync(join(at, "journal"), { force: true });
  else markDone(dir, staging);
}

/** Takes back what processes left half-done that are gone. Contract: whoever calls holds the lock of the folder. */
export function rollBackAbandoned(dir: FolderHandle): void {
  for (const name of listAbandoned(dir.at)) {
    if (name.endsWith(".done")) removeTreeQuietly(join(dir.at, name));
    else rollBackOne(dir, name);
  }
}

/** Names of what changes left in a folder, or are at. */
export function listAbandoned(dir: string): string[] {
  return listNames(dir).filter((name) => STAGING_FOLDER.test(name));
}

/** What tells a folder or file from any other that is or was here: their numbers are used again, and those of disks change when a machine starts. */
export function readFileIdentity(path: string): string {
  const stats: BigIntStats | undefined = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats?.isDirectory() || stats?.isFile() ? [stats.ino, stats.birthtimeNs].join(":") : "";
}

/**
 * Names of a folder for which this is true. None when it is no folder: a workspace can come with one that is called as ours are, in which
 * `old` is a link to where the user keeps other things. Throws when it cannot be read: nothing may be taken for empty that is not.
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
    return; // A link or a file, and so nothing of ours.
  }
  try {
    const owner = readLiveOwner(join(folder.at, "owner"));
    // This process itself has the lock, and so is at nothing else there: what is its own could not be taken back before.
    const isAtIt = owner !== undefined && JSON.stringify(owner) !== formatProcessOwner();
    if (isAtIt || !isOwnedByUser(folder.stats)) return;
    rollBack(dir, { folder, name });
    discardStaging(dir, { folder, name });
  } finally {
    folder.close();
  }
}

/** A folder that is for reading alone cannot be moved into another. */
function moveFolder(from: string, to: string, mode: number): void {
  if (isReadOnlyFolder(mode)) setFolderMode(from, (mode & 0o777) | 0o200);
  renameSync(from, to);
}

function isReadOnlyFolder(mode: number): boolean {
  return (mode & MODE_KIND) !== MODE_FILE && (mode & 0o200) === 0;
}

/** Nothing was moved before it was written. A link or a device in its place is no journal. */
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

/** A workspace can come with a journal: what is no name of ours, or tells nothing of it, is left out. */
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
  } catch {} // It is nobody's skill, and is tried again with the next change.
}

// One by one, 2,000 small files take six times as long as the whole file system at once; few files are quicker by themselves.
const MAX_SINGLE_FLUSHES = 100;

/** Comes back when these files and folders are on the disk. Contract: all are on the file system that `folder`, a real path, is on. */
export function flushToDisk(paths: readonly string[], folder: string): void {
  if (paths.length > MAX_SINGLE_FLUSHES && flushFileSystem(folder)) return;
  for (const path of paths) flushPath(path);
}

function flushPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } catch (error) {
    if (getErrnoCode(error) !== "EINVAL") throw error; // Some file systems have no such thing for folders.
  } finally {
    closeSync(fd);
  }
}

/** Node has no call for it. */
function flushFileSystem(folder: string): boolean {
  const file = process.platform === "linux" ? findSystemProgram("sync") : undefined;
  return file !== undefined && runProgramSync({ file, args: ["-f", folder], env: {} }) !== undefined;
}
