import { appendFileSync, lstatSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile, SkillCopy } from "../skill/source/skill-copy.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { getParentFolder } from "../util/safe-path.ts";
import { readUptimeMs } from "../util/system.ts";
import { compareText, shortHash } from "../util/text.ts";
import {
  hashSha256,
  isLockedRegularFile,
  LOCK_FILE,
  type LockedFile,
  type LockedFiles,
  type LockedSkill,
  type LockedSkills,
  MAX_LOCK_BYTES,
  parseLock,
  readTreeWithFolders,
  sortLockedFiles,
} from "./lock-file.ts";

/**
 * The state of a skill compared with its lock. `there`: all files it has now. `problem`: the reason why the state is
 * unknown.
 */
export type LockState =
  | { is: "unlocked" }
  | { is: "unchanged"; entry: LockedSkill }
  | { is: "changed"; entry: LockedSkill; changes: readonly LockDifference[]; there: LockedFiles }
  | { is: "unknown"; problem: SkillError };

/** The locks of all folders of skills. */
export interface SkillLocks {
  /** Returns the reason why the lock of a folder cannot be used. */
  getProblem(folder: string): SkillError | undefined;
  /** Compares a skill with its lock. Fast: reads bytes again only if a file was touched. */
  getState(skill: Skill): LockState;
  /** Returns the source that the skill was added from, or undefined if it is not locked. */
  getSource(skill: Skill): string | undefined;
  /**
   * Returns the differences between the files read for use and the approved ones, or undefined if the skill is not
   * locked.
   */
  findChanges(skill: Skill, copy: SkillCopy): readonly LockDifference[] | undefined;
  /** Runs work that checks many skills, and reads each lock and each skill once. Contract: the work is synchronous. */
  withCache<T>(work: () => T): T;
}

export function createSkillLocks(skilletHome: string): SkillLocks {
  const stamps = createFingerprintCache(skilletHome);
  const locks = new Map<string, CachedLock>();
  let steady: LookupCache | undefined;
  const lockIn = (folder: string) => {
    if (steady?.locks.has(folder)) return steady.locks.get(folder);
    const lock = lockNow(folder);
    steady?.locks.set(folder, lock);
    return lock;
  };
  const lockNow = (folder: string) => {
    const now = readUptimeMs();
    const stamp = fingerprintLockFile(getLockPath(folder));
    if (stamp === MISSING_FINGERPRINT) return undefined;
    const known = locks.get(folder);
    if (known?.stamp.text === stamp.text && (known.stamp.isSettled || now - known.at < LOCK_CACHE_MS))
      return known.lock;
    const lock = readLockFile(folder);
    locks.set(folder, { stamp, at: now, lock });
    return lock;
  };
  const entryAt = (folder: string) => {
    const lock = lockIn(getParentFolder(folder));
    return lock instanceof SkillError ? lock : lock?.[basename(folder)];
  };
  // If a link replaced an added skill, the skill stays locked. Otherwise the lock of the link's target counts.
  const entryOf = (skill: Skill) => {
    const location = locateLockedFolder(skill);
    return location && (entryAt(location.found) ?? (location.isLink ? entryAt(location.folder) : undefined));
  };
  const stateNow = (skill: Skill): LockState => {
    const location = locateLockedFolder(skill);
    if (!location) return { is: "unlocked" };
    const { found, folder, isLink } = location;
    const own = readStateAt(found, entryAt(found), stamps);
    if (own.is !== "unlocked" || !isLink) return own;
    // The lock of another folder can only forbid the skill here; it approves nothing.
    const other = readStateAt(folder, entryAt(folder), stamps);
    return other.is === "unchanged" ? { is: "unlocked" } : other;
  };
  return {
    getProblem(folder) {
      const lock = lockIn(folder);
      return lock instanceof SkillError ? lock : undefined;
    },
    getState(skill) {
      const state = steady?.states.get(skill) ?? stateNow(skill);
      steady?.states.set(skill, state);
      return state;
    },
    getSource(skill) {
      const entry = entryOf(skill);
      return entry === undefined || entry instanceof SkillError ? undefined : formatLockSource(entry);
    },
    findChanges(skill, copy) {
      const entry = entryOf(skill);
      if (entry instanceof SkillError) return [{ path: LOCK_FILE, what: "changed" }];
      return entry && diffLockedCopy(entry.files, copy.files);
    },
    withCache(work) {
      const outer = steady;
      steady ??= { locks: new Map(), states: new Map() };
      try {
        return work();
      } finally {
        steady = outer;
      }
    },
  };
}

/**
 * Returns a skill's folder as it was found, and its real path, which differs for a link. Undefined for skills that are
 * never locked.
 */
export function locateLockedFolder({
  origin: { scope, folder, file, parent },
}: Skill): LockedFolderLocation | undefined {
  // A lock in the folder of a skill is one of its files: it locks nothing.
  if (folder === undefined || parent !== undefined || scope === "bundled" || scope === "integration") return undefined;
  const found = file === undefined ? folder : getParentFolder(file);
  const isLink = found !== folder && (lstatSync(found, { throwIfNoEntry: false })?.isSymbolicLink() ?? false);
  return { found, folder, isLink };
}

interface LockedFolderLocation {
  found: string;
  folder: string;
  isLink: boolean;
}

/**
 * Formats the source of a skill with its path there. The result is the same whether its folder was named or found in
 * the source.
 */
export function formatLockSource({ source, path }: Pick<LockedSkill, "source" | "path">): string {
  const isDivided = source.replace(SCHEME, "").includes("//");
  const full = path === undefined ? source : `${source}${isDivided ? "/" : "//"}${path}`;
  // A local path may be joined with a single slash.
  return LOCAL_PATH.test(source) && !ARCHIVE.test(source) ? full.replace(/\/{2,}/g, "/") : full;
}

const SCHEME = /^[\w+.-]+:\/\//;
const LOCAL_PATH = /^(?:\.{0,2}|~)\//;
/** A folder of such a name is followed by a slash. */
const ARCHIVE = /\.(?:zip|skill|tar\.gz|tgz)(?:$|\/\/(?!\/))/i;

function readStateAt(folder: string, entry: LockedSkill | SkillError | undefined, stamps: FingerprintCache): LockState {
  if (entry instanceof SkillError) return { is: "unknown", problem: entry };
  return entry ? readFolderLockState(folder, entry, stamps) : { is: "unlocked" };
}

/** Compares a folder with its entry in the lock. */
export function readFolderLockState(folder: string, entry: LockedSkill, stamps: FingerprintCache): LockState {
  try {
    const stamp = fingerprintTreeOrNone(folder, entry.files);
    if (stamp && stamps.isVerified(folder, entry.digest, stamp)) return { is: "unchanged", entry };
    const { differences: changes, files, folders } = diffLockedFolder(folder, entry.files);
    if (changes.length > 0) return { is: "changed", entry, changes, there: files };
    // A file added to an empty folder would change none of the fingerprinted times.
    if (stamp && folders.length === listTreeFolders(files).size) stamps.add(folder, entry.digest, stamp);
    return { is: "unchanged", entry };
  } catch (error) {
    return { is: "unknown", problem: createUnreadableFolderError(folder, error) };
  }
}

/** Returns undefined if a file is missing. */
function fingerprintTreeOrNone(folder: string, files: LockedFiles): TreeFingerprint | undefined {
  try {
    return fingerprintTree(folder, files);
  } catch {
    return undefined;
  }
}

/** Returns the lock of a folder, undefined if it has none, or an error if it cannot be used. */
export function readLockFile(folder: string): LockedSkills | SkillError | undefined {
  const file = getLockPath(folder);
  try {
    return parseLock(readLockText(file));
  } catch (error) {
    if (isMissingError(error)) return undefined;
    const { code, fix } =
      error instanceof SkillError
        ? error
        : { code: "lock-unreadable" as const, fix: "check that it is a file that you can read" };
    return new SkillError(code, {
      message: `${file} cannot be used: ${getErrorMessage(error)}`,
      fix,
      cause: error,
    });
  }
}

/** Joins without `join`, which normalizes `..` and takes longer than the file lookup. It is called for every folder. */
function getLockPath(folder: string): string {
  return `${folder}${sep}${LOCK_FILE}`;
}

// Rejects links, which skillet never creates: they would redirect reads and writes.
function readLockText(file: string): string {
  if (lstatSync(file).isSymbolicLink()) throw new Error("it is a link");
  return readRegularText(file, { limit: MAX_LOCK_BYTES, refusesLinks: true });
}

/** True also for a folder without access: no skill is found there either. */
function isMissingError(error: unknown): boolean {
  const { syscall = "" } = Object(error) as { syscall?: string };
  return (
    ["ENOENT", "ENOTDIR"].includes(getErrnoCode(error)) || (getErrnoCode(error) === "EACCES" && syscall === "lstat")
  );
}

// Caches a lock briefly, so that it is not read for each of its skills.
const LOCK_CACHE_MS = 20;

interface CachedLock {
  stamp: TreeFingerprint;
  at: number;
  lock: LockedSkills | SkillError | undefined;
}

/** Results that are reused during one piece of work. */
interface LookupCache {
  locks: Map<string, CachedLock["lock"]>;
  states: Map<Skill, LockState>;
}

const MISSING_FINGERPRINT: TreeFingerprint = { text: "", isSettled: true };

function fingerprintLockFile(file: string): TreeFingerprint {
  const looked = Date.now();
  try {
    // Most folders have no lock: an exception for each skill would cost more than all other work.
    const stats = lstatSync(file, { throwIfNoEntry: false });
    if (!stats) return MISSING_FINGERPRINT;
    const { mtimeMs, ctimeMs, size, ino } = stats;
    return { text: `${mtimeMs}:${ctimeMs}:${size}:${ino}`, isSettled: isSettled(ctimeMs, looked) };
  } catch (error) {
    return { text: getErrnoCode(error), isSettled: true };
  }
}

function createUnreadableFolderError(folder: string, cause: unknown): SkillError {
  return new SkillError("lock-unreadable", {
    message: `${folder} cannot be compared with its lock: ${getErrorMessage(cause)}`,
    fix: "check that you can read all its files",
    cause,
  });
}

/** One file that differs from the approved one; `.` is the whole folder. `mode`: same bytes, different permissions. */
export interface LockDifference {
  path: string;
  what: "added" | "removed" | "changed" | "mode";
}

/** Compares the approved files with the current ones. */
export function diffLockedFiles(approved: LockedFiles, there: LockedFiles): LockDifference[] {
  const paths = new Set([...Object.keys(approved), ...Object.keys(there)]);
  return [...paths].sort(compareText).flatMap((path) => {
    const what = compareLockedFile(approved[path], there[path]);
    return what === undefined ? [] : [{ path, what }];
  });
}

/** The files of a folder, and their differences from the approved ones. */
interface FolderDiff {
  differences: LockDifference[];
  files: LockedFiles;
  folders: readonly string[];
}

/**
 * Compares a folder with the approved files. A link in its place counts as changed, wherever it leads. Throws when it
 * cannot be read.
 */
export function diffLockedFolder(folder: string, approved: LockedFiles): FolderDiff {
  if (!lstatSync(folder).isDirectory())
    return { differences: [{ path: ".", what: "changed" }], files: sortLockedFiles([]), folders: [] };
  const { files, folders } = readTreeWithFolders(folder);
  return { differences: diffLockedFiles(approved, files), files, folders };
}

/** Compares the files that were read for use with the approved ones. Ignores files outside the copy. */
export function diffLockedCopy(approved: LockedFiles, files: ReadonlyMap<string, CopiedFile>): LockDifference[] {
  const changes: LockDifference[] = [];
  for (const [path, { bytes, executable }] of files) {
    const file = approved[path];
    if (!file) changes.push({ path, what: "added" });
    else if (file.size !== bytes.length || file.sha256 !== hashSha256(bytes)) changes.push({ path, what: "changed" });
    else if (path !== "SKILL.md" && isExecutable(file) !== executable) changes.push({ path, what: "mode" });
  }
  return changes;
}

function compareLockedFile(
  approved: LockedFile | undefined,
  there: LockedFile | undefined,
): LockDifference["what"] | undefined {
  if (!approved) return "added";
  if (!there) return "removed";
  if (
    approved.sha256 !== there.sha256 ||
    approved.size !== there.size ||
    isLockedRegularFile(approved) !== isLockedRegularFile(there)
  ) {
    return "changed";
  }
  return approved.mode === there.mode ? undefined : "mode";
}

function isExecutable({ mode }: LockedFile): boolean {
  return (Number.parseInt(mode, 8) & 0o111) !== 0;
}

/**
 * Fingerprints of trees whose bytes were compared before, so that the next check reads no bytes. The user's own cache:
 * any irregularity empties it. Lines are only appended, so that two processes never undo each other's writes.
 */
export interface FingerprintCache {
  /** Returns true if the tree matched `digest`, and was not touched since. */
  isVerified(folder: string, digest: string, stamp: TreeFingerprint): boolean;
  /** Records that the tree matches. Contract: the fingerprint was taken before its bytes were read. */
  add(folder: string, digest: string, stamp: TreeFingerprint): void;
}

interface TreeFingerprint {
  /** Inode, size, mode and times of every file and folder, hashed. */
  text: string;
  /** True if the clock ticked between the last change and the check: any later change has different times. */
  isSettled: boolean;
}

export function createFingerprintCache(skilletHome: string): FingerprintCache {
  const file = join(skilletHome, "cache", "verified");
  let known: Map<string, string> | undefined;
  const read = () => {
    known ??= readFingerprints(file);
    return known;
  };
  return {
    isVerified: (folder, digest, { text }) => read().get(shortHash(folder)) === `${digest} ${text}`,
    add(folder, digest, { text, isSettled }) {
      if (!isSettled) return;
      const [key, value] = [shortHash(folder), `${digest} ${text}`];
      if (read().get(key) === value) return;
      read().set(key, value);
      try {
        createFolder(dirname(file));
        appendFileSync(file, `${key} ${value}\n`, { mode: 0o600 });
      } catch {} // It is compared again the next time.
    },
  };
}

/** Clocks have a limited resolution: a write in the same tick as the check leaves the same times. */
function isSettled(changedMs: number, lookedMs: number): boolean {
  return lookedMs - changedMs >= TICK_MS;
}

const TICK_MS = 50;
const CACHE_LINE = /^(\S+) (sha256:[0-9a-f]{64} sha256:[0-9a-f]{64})$/;
// Enough for 40,000 skills, each twice.
const MAX_CACHE_BYTES = 16 * 1024 * 1024;

function readFingerprints(file: string): Map<string, string> {
  const known = new Map<string, string>();
  let lines: string[];
  try {
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > MAX_CACHE_BYTES) {
      rmSync(file, { force: true });
      return known;
    }
    lines = readRegularText(file, { limit: MAX_CACHE_BYTES, refusesLinks: true }).split("\n");
  } catch {
    return known;
  }
  for (const line of lines) {
    const [, key, value] = CACHE_LINE.exec(line) ?? [];
    if (key !== undefined && value !== undefined) known.set(key, value);
  }
  if (lines.length > 2 * known.size + SPARE_LINES) compactCache(file, known);
  return known;
}

const SPARE_LINES = 1000;

function compactCache(file: string, known: ReadonlyMap<string, string>): void {
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    writeFileSync(draft, [...known].map(([key, value]) => `${key} ${value}\n`).join(""), { mode: 0o600 });
    renameSync(draft, file);
  } catch {} // It is only longer than necessary.
}

/**
 * Fingerprints a tree with exactly these files, without reading bytes or listing folders: an added file changes the
 * times of its folder. Throws when a file is missing.
 */
export function fingerprintTree(folder: string, files: LockedFiles): TreeFingerprint {
  const looked = Date.now();
  const seen: number[] = [];
  let newest = 0;
  const look = (path: string) => {
    const { mtimeMs, ctimeMs, size, ino, mode } = lstatSync(path);
    if (ctimeMs > newest) newest = ctimeMs;
    seen.push(ino, size, mode, mtimeMs, ctimeMs);
  };
  look(folder);
  for (const path of listTreeFolders(files)) look(`${folder}/${path}`);
  for (const path of Object.keys(files)) look(`${folder}/${path}`);
  // The file names are not needed: the digest of the lock is stored with the fingerprint.
  return { text: hashSha256(new Uint8Array(new Float64Array(seen).buffer)), isSettled: isSettled(newest, looked) };
}

/** Lists the folders that contain the files of a tree. */
function listTreeFolders(files: LockedFiles): Set<string> {
  const folders = new Set<string>();
  for (const path of Object.keys(files)) {
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.add(path.slice(0, at));
  }
  return folders;
}
