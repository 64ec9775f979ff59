import {
  cpSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  type Stats,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { findNameProblem, isWindowsDeviceName } from "../skill/skill.ts";
import { readRegularText } from "../util/file-access.ts";
import { type FolderHandle, HAS_DESCRIPTOR_PATHS, openFolderHandle, setFolderMode } from "../util/folder-handle.ts";
import { omitUndefined } from "../util/objects.ts";
import type { ExpectedFolder } from "../util/safe-path.ts";
import { copyFolderTree, hashFolder, writeExtraFiles, writeSkillMd } from "./folder-copy.ts";
import {
  discardStaging,
  flushToDisk,
  listAbandoned,
  markDone,
  moveStaged,
  openStaging,
  readFileIdentity,
  rollBack,
  rollBackAbandoned,
  type StagedMoves,
  type Staging,
  writeStagingJournal,
} from "./folder-staging.ts";
import { getFolderLockPath } from "./lock-approval.ts";
import { withFileLock } from "./locked-file.ts";

/** A skill that is to be in a folder of skills. */
export interface FolderItem {
  /** What its folder there is called. */
  name: string;
  source: "inline" | "ref";
  /** The text of its SKILL.md; without `folder` it is all that there is. */
  skillMd?: string;
  /** Other files to write, by path: those of the folder give way to them. */
  files?: Readonly<Record<string, string>>;
  /** A folder to copy; its SKILL.md gives way to `skillMd`. */
  folder?: string;
  /** Which folder that has to be. */
  expected?: ExpectedFolder;
  /** What is done with a link in it: followed and copied as what it leads to, or refused when it leaves the folder. */
  links?: "follow" | "inside";
  /** Whether a file or folder, by its path in the folder, stays behind. All is copied when left out. */
  omit?: (path: string) => boolean;
  /** What its copy is to hold, as it was looked at. */
  digest?: string;
  /** Whether the folder is given away: nobody else knows it, so it need not be copied. */
  isGiven?: boolean;
}

export interface FolderChange {
  /** The folder of skills. Made when it is not there. */
  skillsDir: string;
  put: readonly FolderItem[];
  /** Names of folders there to take away. */
  remove?: readonly string[];
  /** Folders there that may be replaced: all others that stand in the way are an error. */
  replaces?: readonly string[];
  /** Whether it is to survive a power cut. */
  isDurable: boolean;
  /** Whether what is put there is for reading alone. */
  isReadOnly?: boolean;
  /** Whether it is named by its real path: then a link that stands there now was put there since. */
  isReal?: boolean;
  record?: FolderRecord;
}

/** A file of a folder of skills that changes with it, all or nothing too. */
interface FolderRecord {
  name: string;
  /** Its text now (nothing when it is not there) becomes another. */
  write(before: string | undefined): string;
  /** Called when all has been moved, with where what went away is now: what throws here takes everything back. */
  moved?(gone: (name: string) => string): void;
}

/**
 * Puts skills into a folder and takes others away, all or nothing: staged beside their place, then renamed. Gives the folders that were
 * put, in order. Throws a SkillInstallationError.
 */
export function applyFolderChange(application: FolderChange): string[] {
  const { put } = application;
  const skillsDir = resolve(application.skillsDir);
  const subjects = listSubjects(application);
  for (const item of subjects) withInstallationError(item, application, () => checkFolderName(item, put));
  const { record } = application;
  // A record may change alone: what it tells of may be gone already.
  const first = subjects[0] ?? (record && { name: record.name, source: "ref" as const });
  if (!first) return [];
  withInstallationError(first, application, () => {
    const made = mkdirSync(skillsDir, { recursive: true });
    try {
      withLockedFolder(skillsDir, (dir, real) => {
        if (application.isReal && real !== skillsDir) throw createLedAwayError(real);
        changeFolder(application, dir, real);
      });
    } catch (error) {
      if (made !== undefined) removeEmptyFolders(skillsDir, made);
      throw error;
    }
  });
  return put.map(({ name }) => join(skillsDir, name));
}

function createLedAwayError(real: string): SkillError {
  return new SkillError("target-outside", {
    message: `a link that was put there meanwhile leads to ${real}`,
    fix: "put a folder in the place of the link",
  });
}

/** Takes back what an `apply` left half-done whose process is gone. The next one there does the same. */
export function recoverFolder(skillsDir: string): void {
  if (listAbandoned(skillsDir).length > 0) withLockedFolder(resolve(skillsDir), rollBackAbandoned);
}

/** One change of a folder at a time. A link to it is followed, once. */
function withLockedFolder(skillsDir: string, work: (dir: FolderHandle, real: string) => void): void {
  const real = realpathSync(skillsDir);
  const dir = openFolderHandle(real);
  try {
    // A folder above it may have become a link in between.
    const held = HAS_DESCRIPTOR_PATHS ? readlinkSync(dir.at) : real;
    if (held !== real) throw createLedAwayError(held);
    withFileLock(getFolderLockPath(dir.at), () => work(dir, real));
  } catch (error) {
    throw restoreRealPath(error, dir.at, real);
  } finally {
    dir.close();
  }
}

/** An error that names the folder as people know it, not by its descriptor. */
function restoreRealPath(error: unknown, at: string, real: string): unknown {
  if (!(error instanceof SkillError) || at === real || !error.message.includes(at)) return error;
  const { code, message, fix } = error;
  return new SkillError(code, { message: message.replaceAll(at, real), ...omitUndefined({ fix }), cause: error.cause });
}

function changeFolder(application: FolderChange, dir: FolderHandle, real: string): void {
  rollBackAbandoned(dir);
  const away = listReplacedFolders(application, dir);
  const staging = openStaging(dir);
  try {
    stageAndMove(application, { dir, real, staging, away });
  } catch (error) {
    undoQuietly(dir, staging);
    throw error;
  } finally {
    discardStaging(dir, staging);
    staging.folder.close();
  }
}

interface ChangeContext {
  dir: FolderHandle;
  real: string;
  staging: Staging;
  away: StagedMoves["away"];
}

function stageAndMove(application: FolderChange, { dir, real, staging, away }: ChangeContext): void {
  const { put, isDurable, isReadOnly = false } = application;
  const { at } = staging.folder;
  const [coming, going] = [join(at, "new"), join(at, "old")];
  const flushed = (paths: readonly string[]) => isDurable && flushToDisk(paths, real);
  const written = put.flatMap((item) => {
    const to = join(coming, item.name);
    return withInstallationError(item, application, () => stageItem(item, { to, target: real, isReadOnly }));
  });
  const names = put.map(({ name }) => name);
  const { record } = application;
  if (record) {
    written.push(stageRecord(record, { coming, dir, away }));
    names.push(record.name);
  }
  const moves: StagedMoves = {
    put: Object.fromEntries(names.map((name) => [name, readFileIdentity(join(coming, name))])),
    away,
  };
  const journal = writeStagingJournal(staging, moves);
  flushed([...written, journal, coming, going, at, dir.at]);
  moveStaged(dir, staging, moves);
  record?.moved?.((name) => join(going, name));
  if (isReadOnly) for (const { name } of put) makeReadOnly(join(dir.at, name));
  flushed([coming, going, dir.at]);
  markDone(dir, staging);
  flushed([dir.at]);
}

/** What comes of a record. What it is now goes away with the rest. */
function stageRecord(
  { name, write }: FolderRecord,
  { coming, dir, away }: Pick<ChangeContext, "dir" | "away"> & { coming: string },
): string {
  const stats = lstatSync(join(dir.at, name), { throwIfNoEntry: false });
  if (stats && !stats.isFile()) throw createExistsError(name, stats);
  const text = write(stats && readRegularText(join(dir.at, name), { refusesLinks: true }));
  const file = join(coming, name);
  writeFileSync(file, text, { flag: "wx", mode: 0o644 });
  if (stats) away[name] = stats.mode;
  return file;
}

function makeReadOnly(folder: string): void {
  setFolderMode(folder, lstatSync(folder).mode & 0o555);
}

/** What stands in the way and may go, with its mode. What is not there any more is as it was to be. */
function listReplacedFolders(application: FolderChange, dir: FolderHandle): StagedMoves["away"] {
  const { remove = [], replaces = [] } = application;
  const mayGo = new Set([...remove, ...replaces]);
  const away: StagedMoves["away"] = {};
  for (const item of listSubjects(application)) {
    withInstallationError(item, application, () => {
      const stats = lstatSync(join(dir.at, item.name), { throwIfNoEntry: false });
      if (stats && !(stats.isDirectory() && mayGo.has(item.name))) throw createExistsError(item.name, stats);
      if (stats) away[item.name] = stats.mode;
    });
  }
  return away;
}

function createExistsError(name: string, stats: Stats): SkillError {
  const what = stats.isDirectory() ? "a folder" : stats.isSymbolicLink() ? "a link" : "something that is no folder";
  return new SkillError("in-the-way", {
    message: `${what} called "${name}" is there already, which skillet did not put there`,
    fix: "move it away, or give the skill another name",
  });
}

/** Gives what was written. */
function stageItem(item: FolderItem, place: { to: string; target: string; isReadOnly: boolean }): string[] {
  const { skillMd, files = {}, folder, expected, links = "follow", omit, digest } = item;
  if (folder !== undefined) {
    if (item.isGiven) return moveGivenFolder(folder, place.to);
    const copied = copyFolderTree({ folder, expected, skillMd, links, omit, ...place });
    const written = [...copied, ...writeExtraFiles(place.to, files, place)];
    if (!written.includes(join(place.to, "SKILL.md"))) throw new Error("its folder holds no SKILL.md");
    // What was looked at is what was trusted, and what is written down.
    if (digest !== undefined && hashFolder(place.to).digest !== digest) throw createFilesChangedError();
    return written;
  }
  if (skillMd === undefined) throw new Error("it has neither a text nor a folder");
  mkdirSync(place.to, 0o755);
  return [writeSkillMd(place.to, skillMd, place), ...writeExtraFiles(place.to, files, place), place.to];
}

/** Gives what was moved. To another disk it is copied, to the last file: a lock says what it holds. */
function moveGivenFolder(folder: string, to: string): string[] {
  try {
    renameSync(folder, to);
  } catch (error) {
    if (getErrnoCode(error) !== "EXDEV") throw error;
    cpSync(folder, to, { recursive: true, errorOnExist: true, force: false, verbatimSymlinks: true });
  }
  return [to, ...readdirSync(to, { recursive: true, encoding: "utf8" }).map((path) => join(to, path))];
}

function createFilesChangedError(): SkillError {
  return new SkillError("resource-changed", {
    message: "its files changed while they were copied",
    fix: "try again when nobody works on it",
  });
}

function undoQuietly(dir: FolderHandle, staging: Staging): void {
  try {
    rollBack(dir, staging);
  } catch {} // What went wrong first is what is told; the next change tries again.
}

function listSubjects({ put, remove = [] }: FolderChange): FolderItem[] {
  return [...put, ...remove.map((name): FolderItem => ({ name, source: "ref" }))];
}

/** A name is a folder's here: nothing of it may lead elsewhere, on any system. */
function checkFolderName({ name }: FolderItem, put: readonly FolderItem[]): void {
  const fix = "give the skill another name";
  const problem = findNameProblem(name);
  if (problem) throw new SkillError(problem.code, { message: `its name ${problem.why}`, fix });
  if (isWindowsDeviceName(name.split(".", 1)[0]?.trimEnd() ?? "")) {
    throw new SkillError("name-reserved", { message: "its name is that of a device on Windows", fix });
  }
  if (put.filter((other) => other.name === name).length > 1) {
    throw new SkillError("name-twice", { message: "two skills of that name are to be put there", fix });
  }
}

/** Removes a folder and those above it, up to the last one, as long as they are empty. */
export function removeEmptyFolders(folder: string, last: string): void {
  try {
    rmdirSync(folder);
    if (folder !== last) removeEmptyFolders(dirname(folder), last);
  } catch {} // Somebody else put something there.
}

function withInstallationError<T>({ name, source }: FolderItem, { skillsDir, put }: FolderChange, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof SkillInstallationError) throw error;
    const { code, cause = error, fix } = error instanceof SkillError ? error : { code: "" };
    const why = code === "unwritable" ? cause : error;
    const isRemoval = !put.some((item) => item.name === name);
    throw new SkillInstallationError({
      skillName: name,
      skillsDir,
      source,
      cause: why,
      isRemoval,
      ...omitUndefined({ fix }),
    });
  }
}

interface InstallationErrorDetails {
  skillName: string;
  skillsDir: string;
  /** Whether it was to be written from code, or copied from a folder. */
  source: "inline" | "ref";
  cause: unknown;
  fix?: string;
  /** Whether it was to be taken away. */
  isRemoval?: boolean;
}

/** A skill could not be put in its place, or taken away. Nothing of it, and of what was to come with it, was left there, or changed. */
export class SkillInstallationError extends SkillError {
  readonly skillName: string;
  readonly skillsDir: string;
  readonly source: "inline" | "ref";
  declare readonly cause: Error;

  constructor({ skillName, skillsDir, source, cause, fix, isRemoval = false }: InstallationErrorDetails) {
    super("installation-failed", {
      message: `Skill "${skillName}" cannot be ${isRemoval ? "removed from" : "installed into"} ${skillsDir}: ${getErrorMessage(cause)}`,
      fix: fix ?? "check that the folder can be written to, and that there is room; nothing was left half-written",
      cause: cause instanceof Error ? cause : new Error(String(cause)),
    });
    this.skillName = skillName;
    this.skillsDir = skillsDir;
    this.source = source;
  }
}
