import { appendFileSync, lstatSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import type { CopiedFile, SkillCopy } from "../skill/source/skill-copy.ts";
import { readRegularText } from "../util/file-access.ts";
import { getParentFolder } from "../util/safe-path.ts";
import { compareText, shortHash } from "../util/text.ts";
import { readUptimeMs } from "../util/timeout.ts";
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

/** Whether a skill is what was agreed to when it was added. `there`: all that it holds now. `problem`: why nobody can say. */
export type LockState =
  | { is: "unlocked" }
  | { is: "as-locked"; entry: LockedSkill }
  | { is: "changed"; entry: LockedSkill; drift: readonly LockDifference[]; there: LockedFiles }
  | { is: "unknown"; problem: SkillError };

/** The locks of the folders that skills are in. */
export interface SkillLocks {
  /** Why the lock of a folder cannot be used. */
  problemIn(folder: string): SkillError | undefined;
  /** Quick while nobody touched it: its bytes are read again only then. */
  stateOf(skill: Skill): LockState;
  /** Where it was added from. Nothing for one that is not locked. */
  sourceOf(skill: Skill): string | undefined;
  /** What of a skill, as it was read in order to be used, is not what was agreed to. Nothing for one that is not locked. */
  changesOf(skill: Skill, copy: SkillCopy): readonly LockDifference[] | undefined;
  /** For work that asks about many skills at once: in it, no lock and no skill is looked at twice. Contract: the work waits for nothing. */
  steadily<T>(work: () => T): T;
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
  // Where a link was put in the place of what was added, that is locked still, and else where it leads.
  const entryOf = (skill: Skill) => {
    const place = locateLockedFolder(skill);
    return place && (entryAt(place.found) ?? (place.isLink ? entryAt(place.folder) : undefined));
  };
  const stateNow = (skill: Skill): LockState => {
    const place = locateLockedFolder(skill);
    if (!place) return { is: "unlocked" };
    const { found, folder, isLink } = place;
    const own = readStateAt(found, entryAt(found), stamps);
    if (own.is !== "unlocked" || !isLink) return own;
    // The lock of another folder says what not to use there. It vouches for nothing here.
    const other = readStateAt(folder, entryAt(folder), stamps);
    return other.is === "as-locked" ? { is: "unlocked" } : other;
  };
  return {
    problemIn(folder) {
      const lock = lockIn(folder);
      return lock instanceof SkillError ? lock : undefined;
    },
    stateOf(skill) {
      const state = steady?.states.get(skill) ?? stateNow(skill);
      steady?.states.set(skill, state);
      return state;
    },
    sourceOf(skill) {
      const entry = entryOf(skill);
      return entry === undefined || entry instanceof SkillError ? undefined : formatLockSource(entry);
    },
    changesOf(skill, copy) {
      const entry = entryOf(skill);
      if (entry instanceof SkillError) return [{ path: LOCK_FILE, what: "changed" }];
      return entry && diffLockedCopy(entry.files, copy.files);
    },
    steadily(work) {
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

/** A skill's folder as it was found, and where that leads, which is another one where it is a link. Nothing for what is never locked. */
export function locateLockedFolder({
  origin: { scope, folder, file, parent },
}: Skill): LockedFolderLocation | undefined {
  // A lock in the folder of a skill is one of its files: nothing is locked by it.
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

/** Where a skill is from, and which of its source's it is: the same, whether its folder was named with the source or found in it. */
export function formatLockSource({ source, path }: Pick<LockedSkill, "source" | "path">): string {
  const isDivided = source.replace(SCHEME, "").includes("//");
  const said = path === undefined ? source : `${source}${isDivided ? "/" : "//"}${path}`;
  // What is in a folder of this machine is a folder as well.
  return LOCAL_PATH.test(source) && !ARCHIVE.test(source) ? said.replace(/\/{2,}/g, "/") : said;
}

const SCHEME = /^[\w+.-]+:\/\//;
const LOCAL_PATH = /^(?:\.{0,2}|~)\//;
/** A folder of such a name has a slash behind it. */
const ARCHIVE = /\.(?:zip|skill|tar\.gz|tgz)(?:$|\/\/(?!\/))/i;

function readStateAt(folder: string, entry: LockedSkill | SkillError | undefined, stamps: FingerprintCache): LockState {
  if (entry instanceof SkillError) return { is: "unknown", problem: entry };
  return entry ? readFolderLockState(folder, entry, stamps) : { is: "unlocked" };
}

/** Whether a folder is what its entry says. */
export function readFolderLockState(folder: string, entry: LockedSkill, stamps: FingerprintCache): LockState {
  try {
    const stamp = fingerprintTreeOrNone(folder, entry.files);
    if (stamp && stamps.isKnown(folder, entry.digest, stamp)) return { is: "as-locked", entry };
    const { drift, files, folders } = diffLockedFolder(folder, entry.files);
    if (drift.length > 0) return { is: "changed", entry, drift, there: files };
    // What is put into a folder that holds nothing so far would change none of the times that are looked at.
    if (stamp && folders.length === listTreeFolders(files).size) stamps.add(folder, entry.digest, stamp);
    return { is: "as-locked", entry };
  } catch (error) {
    return { is: "unknown", problem: createUnreadableFolderError(folder, error) };
  }
}

/** Nothing when something is not there. */
function fingerprintTreeOrNone(folder: string, files: LockedFiles): TreeFingerprint | undefined {
  try {
    return fingerprintTree(folder, files);
  } catch {
    return undefined;
  }
}

/** The lock of a folder; nothing when it has none, and what is wrong with it when it cannot be used. */
export function readLockFile(folder: string): LockedSkills | SkillError | undefined {
  const file = getLockPath(folder);
  try {
    return parseLock(readLockText(file));
  } catch (error) {
    if (isMissingError(error)) return undefined;
    const { code, fix } =
      error instanceof SkillError
        ? error
        : { code: "lock-unreadable" as const, fix: "check that it is a file you may read" };
    return new SkillError(code, {
      message: `${file} cannot be used: ${getErrorMessage(error)}`,
      fix: fix ?? "",
      cause: error,
    });
  }
}

/** As `join` would say it, which is asked for every folder: to look for `..` in each takes longer than to look for the file. */
function getLockPath(folder: string): string {
  return `${folder}${sep}${LOCK_FILE}`;
}

// A link would be written through, or read from where nobody meant to: skillet makes none.
function readLockText(file: string): string {
  if (lstatSync(file).isSymbolicLink()) throw new Error("it is a link");
  return readRegularText(file, { limit: MAX_LOCK_BYTES, refusesLinks: true });
}

/** In a folder that may not be looked into no skill is found either. */
function isMissingError(error: unknown): boolean {
  const { syscall = "" } = Object(error) as { syscall?: string };
  return (
    ["ENOENT", "ENOTDIR"].includes(getErrnoCode(error)) || (getErrnoCode(error) === "EACCES" && syscall === "lstat")
  );
}

// One that was just written is read again and again, and not for every skill in it.
const LOCK_CACHE_MS = 20;

interface CachedLock {
  stamp: TreeFingerprint;
  at: number;
  lock: LockedSkills | SkillError | undefined;
}

/** What is known while some work is done. */
interface LookupCache {
  locks: Map<string, CachedLock["lock"]>;
  states: Map<Skill, LockState>;
}

const MISSING_FINGERPRINT: TreeFingerprint = { text: "", isSettled: true };

function fingerprintLockFile(file: string): TreeFingerprint {
  const looked = Date.now();
  try {
    // Most folders have none: an error for each of their skills would cost more than all else of them.
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
    fix: "check that you may read all that is in it",
    cause,
  });
}

/** One file that is not as it was agreed to; `.` is the whole folder. `mode`: the same bytes, but who may do what with them differs. */
export interface LockDifference {
  path: string;
  what: "added" | "removed" | "changed" | "mode";
}

/** What differs between what was agreed to and what is there. */
export function diffLockedFiles(agreed: LockedFiles, there: LockedFiles): LockDifference[] {
  const paths = new Set([...Object.keys(agreed), ...Object.keys(there)]);
  return [...paths].sort(compareText).flatMap((path) => {
    const what = compareLockedFile(agreed[path], there[path]);
    return what === undefined ? [] : [{ path, what }];
  });
}

/** What is in a folder, and how that differs. */
interface FolderDiff {
  drift: LockDifference[];
  files: LockedFiles;
  folders: readonly string[];
}

/** The same for a folder. A link in its place is another one, wherever it leads. Throws when it cannot be read. */
export function diffLockedFolder(folder: string, agreed: LockedFiles): FolderDiff {
  if (!lstatSync(folder).isDirectory())
    return { drift: [{ path: ".", what: "changed" }], files: sortLockedFiles([]), folders: [] };
  const { files, folders } = readTreeWithFolders(folder);
  return { drift: diffLockedFiles(agreed, files), files, folders };
}

/** The same for what was read of a skill in order to be used: what is not part of that is not looked at. */
export function diffLockedCopy(agreed: LockedFiles, files: ReadonlyMap<string, CopiedFile>): LockDifference[] {
  const drift: LockDifference[] = [];
  for (const [path, { bytes, executable }] of files) {
    const file = agreed[path];
    if (!file) drift.push({ path, what: "added" });
    else if (file.size !== bytes.length || file.sha256 !== hashSha256(bytes)) drift.push({ path, what: "changed" });
    else if (path !== "SKILL.md" && isExecutable(file) !== executable) drift.push({ path, what: "mode" });
  }
  return drift;
}

function compareLockedFile(
  agreed: LockedFile | undefined,
  there: LockedFile | undefined,
): LockDifference["what"] | undefined {
  if (!agreed) return "added";
  if (!there) return "removed";
  if (
    agreed.sha256 !== there.sha256 ||
    agreed.size !== there.size ||
    isLockedRegularFile(agreed) !== isLockedRegularFile(there)
  ) {
    return "changed";
  }
  return agreed.mode === there.mode ? undefined : "mode";
}

function isExecutable({ mode }: LockedFile): boolean {
  return (Number.parseInt(mode, 8) & 0o111) !== 0;
}

/**
 * What trees looked like when their bytes were last compared, so that the next look needs no bytes. A cache of the user's own: anything odd
 * about it makes it empty. Lines are only ever added, so that two processes never undo what the other wrote.
 */
export interface FingerprintCache {
  /** Whether this tree was as `digest` says, and nobody has touched it since. */
  isKnown(folder: string, digest: string, stamp: TreeFingerprint): boolean;
  /** Writes down that it is. Contract: the stamp was taken before its bytes were read. */
  add(folder: string, digest: string, stamp: TreeFingerprint): void;
}

interface TreeFingerprint {
  /** Of every file and folder: its number, size, mode and times. */
  text: string;
  /** Whether the clock has ticked between the last change of something in it and the look: what came later has other times then. */
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
    isKnown: (folder, digest, { text }) => read().get(shortHash(folder)) === `${digest} ${text}`,
    add(folder, digest, { text, isSettled }) {
      if (!isSettled) return;
      const [key, value] = [shortHash(folder), `${digest} ${text}`];
      if (read().get(key) === value) return;
      read().set(key, value);
      try {
        mkdirSync(dirname(file), { recursive: true });
        appendFileSync(file, `${key} ${value}\n`, { mode: 0o600 });
      } catch {} // It is compared again the next time.
    },
  };
}

/** A clock ticks only so often: what is written in the tick of a look has the same times as what was looked at. */
function isSettled(changedMs: number, lookedMs: number): boolean {
  return lookedMs - changedMs >= TICK_MS;
}

const TICK_MS = 50;
const CACHE_LINE = /^(\S+) (sha256:[0-9a-f]{64} sha256:[0-9a-f]{64})$/;
// Of 40,000 skills, each twice.
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
  } catch {} // It is only longer than it has to be.
}

/**
 * How a tree that holds just these files looks, without its bytes and without listing its folders: what is added to one changes its times.
 * Throws when one of them is not there.
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
  // Which file is which needs no telling: the digest of the lock goes with it.
  return { text: hashSha256(new Uint8Array(new Float64Array(seen).buffer)), isSettled: isSettled(newest, looked) };
}

/** The folders that the files of a tree are in. */
function listTreeFolders(files: LockedFiles): Set<string> {
  const folders = new Set<string>();
  for (const path of Object.keys(files)) {
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1)) folders.add(path.slice(0, at));
  }
  return folders;
}
