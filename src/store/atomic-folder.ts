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
import {
  createFolder,
  type FolderHandle,
  HAS_DESCRIPTOR_PATHS,
  openFolderHandle,
  readRegularText,
  setFolderMode,
} from "../util/file-access.ts";
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

/** A skill to put into a folder of skills. */
export interface FolderItem {
  /** The name of its folder there. */
  name: string;
  source: "inline" | "ref";
  /** The text of its SKILL.md; without `folder` it is the only file. */
  skillMd?: string;
  /** Other files to write, by path. They replace files of the folder. */
  files?: Readonly<Record<string, string>>;
  /** A folder to copy. `skillMd` replaces its SKILL.md. */
  folder?: string;
  /** The identity that the folder must have. */
  expected?: ExpectedFolder;
  /** Handling of links in the folder: copy their targets, or reject links that leave the folder. */
  links?: "follow" | "inside";
  /**
   * Returns true for a file or folder, by its path in the folder, that is not copied. Defaults to copying everything.
   */
  omit?: (path: string) => boolean;
  /** The digest that the copy must have: that of the reviewed files. */
  digest?: string;
  /** True if the caller gives the folder away: no other code uses it, so it is moved instead of copied. */
  canMove?: boolean;
}

export interface FolderChange {
  /** The folder of skills. Created if it does not exist. */
  skillsDir: string;
  items: readonly FolderItem[];
  /** Names of folders there to remove. */
  remove?: readonly string[];
  /** Folders there that may be replaced: any other existing folder with the name of an item is an error. */
  replaceable?: readonly string[];
  /** True if the change must survive a power failure. */
  isDurable: boolean;
  /** True if the new files are read-only. */
  isReadOnly?: boolean;
  /** True if `skillsDir` is a real path: then a link in its place was created later. */
  isReal?: boolean;
  record?: FolderRecord;
}

/** A file in a folder of skills that changes together with the folder, all or nothing. */
interface FolderRecord {
  name: string;
  /** Returns the new text for the current one (undefined if the file does not exist). */
  write(before: string | undefined): string;
  /**
   * Called after all moves, with a function that returns the current path of a removed folder. An exception here rolls
   * everything back.
   */
  onMoved?(gone: (name: string) => string): void;
}

/**
 * Puts skills into a folder and removes others, all or nothing: staged next to their destination, then renamed. Returns
 * the new folders, in order. Throws a SkillInstallationError.
 */
export function applyFolderChange(application: FolderChange): string[] {
  const { items: put } = application;
  const skillsDir = resolve(application.skillsDir);
  const subjects = listSubjects(application);
  for (const item of subjects) withInstallationError(item, application, () => checkFolderName(item, put));
  const { record } = application;
  // A record may change alone: its skills may already be gone.
  const first = subjects[0] ?? (record && { name: record.name, source: "ref" as const });
  if (!first) return [];
  withInstallationError(first, application, () => {
    const made = createFolder(skillsDir);
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
    message: `the folder was replaced by a link to ${real}`,
    fix: "replace the link with a folder",
  });
}

/** Rolls back changes that a dead process left half-done. The next change of the folder does the same. */
export function recoverFolder(skillsDir: string): void {
  if (listAbandoned(skillsDir).length > 0) withLockedFolder(resolve(skillsDir), rollBackAbandoned);
}

/** Runs one change of a folder at a time. Follows a link to the folder once. */
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

/** Returns an error that names the folder by its path, not by its descriptor. */
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
  const { items: put, isDurable, isReadOnly = false } = application;
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
  record?.onMoved?.((name) => join(going, name));
  if (isReadOnly) for (const { name } of put) makeReadOnly(join(dir.at, name));
  flushed([coming, going, dir.at]);
  markDone(dir, staging);
  flushed([dir.at]);
}

/** Stages the new text of a record. Its current file moves away with the rest. */
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

/** Lists existing folders that may be replaced, with their modes. A folder to remove that is already gone is fine. */
function listReplacedFolders(application: FolderChange, dir: FolderHandle): StagedMoves["away"] {
  const { remove = [], replaceable: replaces = [] } = application;
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
  const what = stats.isDirectory() ? "a folder" : stats.isSymbolicLink() ? "a link" : "something that is not a folder";
  return new SkillError("unmanaged-path", {
    message: `${what} called "${name}" already exists, and skillet did not create it`,
    fix: "move it away, or give the skill another name",
  });
}

/** Returns the written paths. */
function stageItem(item: FolderItem, place: { to: string; target: string; isReadOnly: boolean }): string[] {
  const { skillMd, files = {}, folder, expected, links = "follow", omit, digest } = item;
  if (folder !== undefined) {
    if (item.canMove) return moveGivenFolder(folder, place.to);
    const copied = copyFolderTree({ folder, expected, skillMd, links, omit, ...place });
    const written = [...copied, ...writeExtraFiles(place.to, files, place)];
    if (!written.includes(join(place.to, "SKILL.md"))) throw new Error("its folder holds no SKILL.md");
    // The digest is that of the files that were reviewed and are recorded.
    if (digest !== undefined && hashFolder(place.to).digest !== digest) throw createFilesChangedError();
    return written;
  }
  if (skillMd === undefined) throw new Error("it has neither a text nor a folder");
  mkdirSync(place.to, 0o755);
  return [writeSkillMd(place.to, skillMd, place), ...writeExtraFiles(place.to, files, place), place.to];
}

/** Returns the moved paths. On another disk it copies every file, because the lock lists them all. */
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
    fix: "try again when no other program writes to its folder",
  });
}

function undoQuietly(dir: FolderHandle, staging: Staging): void {
  try {
    rollBack(dir, staging);
  } catch {} // The first error is the one to report; the next change tries again.
}

function listSubjects({ items: put, remove = [] }: FolderChange): FolderItem[] {
  return [...put, ...remove.map((name): FolderItem => ({ name, source: "ref" }))];
}

/** Rejects names that lead outside the folder on any system. */
function checkFolderName({ name }: FolderItem, put: readonly FolderItem[]): void {
  const fix = "give the skill another name";
  const problem = findNameProblem(name);
  if (problem) throw new SkillError(problem.code, { message: `its name ${problem.why}`, fix });
  if (isWindowsDeviceName(name.split(".", 1)[0]?.trimEnd() ?? "")) {
    throw new SkillError("name-reserved", { message: "its name is a device name on Windows", fix });
  }
  if (put.filter((other) => other.name === name).length > 1) {
    throw new SkillError("duplicate-name", { message: "two skills have this name", fix });
  }
}

/** Removes a folder and its parents, up to `last`, as long as they are empty. */
export function removeEmptyFolders(folder: string, last: string): void {
  try {
    rmdirSync(folder);
    if (folder !== last) removeEmptyFolders(dirname(folder), last);
  } catch {} // Another program put a file there.
}

function withInstallationError<T>(
  { name, source }: FolderItem,
  { skillsDir, items: put }: FolderChange,
  work: () => T,
): T {
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
  /** Origin of the skill: written from code, or copied from a folder. */
  source: "inline" | "ref";
  cause: unknown;
  fix?: string;
  /** True if the skill was to be removed. */
  isRemoval?: boolean;
}

/** A skill could not be installed or removed. The folder is unchanged, also for all other skills of the same change. */
export class SkillInstallationError extends SkillError {
  override readonly name = "SkillInstallationError";
  readonly skillName: string;
  readonly skillsDir: string;
  readonly source: "inline" | "ref";
  declare readonly cause: Error;

  constructor({ skillName, skillsDir, source, cause, fix, isRemoval = false }: InstallationErrorDetails) {
    super("installation-failed", {
      message: `Skill "${skillName}" cannot be ${isRemoval ? "removed from" : "installed into"} ${skillsDir}: ${getErrorMessage(cause)}`,
      fix: fix ?? "check that the folder is writable and the disk has free space; nothing was left half-written",
      cause: cause instanceof Error ? cause : new Error(String(cause)),
    });
    this.skillName = skillName;
    this.skillsDir = skillsDir;
    this.source = source;
  }
}
