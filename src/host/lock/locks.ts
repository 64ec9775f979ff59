import { lstatSync } from "node:fs";
import { basename, sep } from "node:path";
import { clock } from "../../shared/clock.ts";
import { SkillError } from "../../shared/error.ts";
import { codeOf, parentOf, reason } from "../../shared/inside.ts";
import { readRegularText } from "../../shared/regular-file.ts";
import type { Skill } from "../../skill/skill.ts";
import type { SkillCopy } from "../../source/digest.ts";
import { type Drift, driftIn, driftOfCopy } from "./drift.ts";
import { LARGEST_LOCK, LOCK_FILE, type LockedFiles, type LockedSkill, type LockedSkills, parseLock } from "./format.ts";
import { foldersOf, isSettled, openStamps, type Stamp, type Stamps, stampOf } from "./stamps.ts";

/** Whether a skill is what was agreed to when it was added. `there`: all that it holds now. `problem`: why nobody can say. */
export type LockState =
  | { is: "unlocked" }
  | { is: "as-locked"; entry: LockedSkill }
  | { is: "changed"; entry: LockedSkill; drift: readonly Drift[]; there: LockedFiles }
  | { is: "unknown"; problem: SkillError };

/** The locks of the folders that skills are in. */
export interface Locks {
  /** Why the lock of a folder cannot be used. */
  problemIn(folder: string): SkillError | undefined;
  /** Quick while nobody touched it: its bytes are read again only then. */
  stateOf(skill: Skill): LockState;
  /** Where it was added from. Nothing for one that is not locked. */
  sourceOf(skill: Skill): string | undefined;
  /** What of a skill, as it was read in order to be used, is not what was agreed to. Nothing for one that is not locked. */
  changesOf(skill: Skill, copy: SkillCopy): readonly Drift[] | undefined;
  /** For work that asks about many skills at once: in it, no lock and no skill is looked at twice. Contract: the work waits for nothing. */
  steadily<T>(work: () => T): T;
}

export function openLocks(skilletHome: string): Locks {
  const stamps = openStamps(skilletHome);
  const locks = new Map<string, Remembered>();
  let steady: Steady | undefined;
  const lockIn = (folder: string) => {
    if (steady?.locks.has(folder)) return steady.locks.get(folder);
    const lock = lockNow(folder);
    steady?.locks.set(folder, lock);
    return lock;
  };
  const lockNow = (folder: string) => {
    const now = clock();
    const stamp = stampOfFile(lockFileIn(folder));
    if (stamp === NOT_THERE) return undefined;
    const known = locks.get(folder);
    if (known?.stamp.text === stamp.text && (known.stamp.isSettled || now - known.at < FRESH_MS)) return known.lock;
    const lock = readLock(folder);
    locks.set(folder, { stamp, at: now, lock });
    return lock;
  };
  const entryAt = (folder: string) => {
    const lock = lockIn(parentOf(folder));
    return lock instanceof SkillError ? lock : lock?.[basename(folder)];
  };
  // Where a link was put in the place of what was added, that is locked still, and else where it leads.
  const entryOf = (skill: Skill) => {
    const place = placeIn(skill);
    return place && (entryAt(place.found) ?? (place.isLink ? entryAt(place.folder) : undefined));
  };
  const stateNow = (skill: Skill): LockState => {
    const place = placeIn(skill);
    if (!place) return { is: "unlocked" };
    const { found, folder, isLink } = place;
    const own = stateAt(found, entryAt(found), stamps);
    if (own.is !== "unlocked" || !isLink) return own;
    // The lock of another folder says what not to use there. It vouches for nothing here.
    const other = stateAt(folder, entryAt(folder), stamps);
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
      return entry === undefined || entry instanceof SkillError ? undefined : saySource(entry);
    },
    changesOf(skill, copy) {
      const entry = entryOf(skill);
      if (entry instanceof SkillError) return [{ path: LOCK_FILE, what: "changed" }];
      return entry && driftOfCopy(entry.files, copy.files);
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
export function placeIn({ origin: { scope, folder, file, parent } }: Skill): SkillPlace | undefined {
  // A lock in the folder of a skill is one of its files: nothing is locked by it.
  if (folder === undefined || parent !== undefined || scope === "bundled" || scope === "integration") return undefined;
  const found = file === undefined ? folder : parentOf(file);
  const isLink = found !== folder && (lstatSync(found, { throwIfNoEntry: false })?.isSymbolicLink() ?? false);
  return { found, folder, isLink };
}

interface SkillPlace {
  found: string;
  folder: string;
  isLink: boolean;
}

/** Where a skill is from, and which of its source's it is: the same, whether its folder was named with the source or found in it. */
export function saySource({ source, path }: Pick<LockedSkill, "source" | "path">): string {
  const isDivided = source.replace(SCHEME, "").includes("//");
  const said = path === undefined ? source : `${source}${isDivided ? "/" : "//"}${path}`;
  // What is in a folder of this machine is a folder as well.
  return LOCAL.test(source) && !ARCHIVE.test(source) ? said.replace(/\/{2,}/g, "/") : said;
}

const SCHEME = /^[\w+.-]+:\/\//;
const LOCAL = /^(?:\.{0,2}|~)\//;
/** A folder of such a name has a slash behind it. */
const ARCHIVE = /\.(?:zip|skill|tar\.gz|tgz)(?:$|\/\/(?!\/))/i;

function stateAt(folder: string, entry: LockedSkill | SkillError | undefined, stamps: Stamps): LockState {
  if (entry instanceof SkillError) return { is: "unknown", problem: entry };
  return entry ? stateOfFolder(folder, entry, stamps) : { is: "unlocked" };
}

/** Whether a folder is what its entry says. */
export function stateOfFolder(folder: string, entry: LockedSkill, stamps: Stamps): LockState {
  try {
    const stamp = stampOrNone(folder, entry.files);
    if (stamp && stamps.isKnown(folder, entry.digest, stamp)) return { is: "as-locked", entry };
    const { drift, files, folders } = driftIn(folder, entry.files);
    if (drift.length > 0) return { is: "changed", entry, drift, there: files };
    // What is put into a folder that holds nothing so far would change none of the times that are looked at.
    if (stamp && folders.length === foldersOf(files).size) stamps.add(folder, entry.digest, stamp);
    return { is: "as-locked", entry };
  } catch (error) {
    return { is: "unknown", problem: unreadableFolder(folder, error) };
  }
}

/** Nothing when something is not there. */
function stampOrNone(folder: string, files: LockedFiles): Stamp | undefined {
  try {
    return stampOf(folder, files);
  } catch {
    return undefined;
  }
}

/** The lock of a folder; nothing when it has none, and what is wrong with it when it cannot be used. */
export function readLock(folder: string): LockedSkills | SkillError | undefined {
  const file = lockFileIn(folder);
  try {
    return parseLock(textOf(file));
  } catch (error) {
    if (isNotThere(error)) return undefined;
    const { code, fix } =
      error instanceof SkillError
        ? error
        : { code: "lock-unreadable" as const, fix: "check that it is a file you may read" };
    return new SkillError(code, {
      message: `${file} cannot be used: ${reason(error)}`,
      fix: fix ?? "",
      cause: error,
    });
  }
}

/** As `join` would say it, which is asked for every folder: to look for `..` in each takes longer than to look for the file. */
function lockFileIn(folder: string): string {
  return `${folder}${sep}${LOCK_FILE}`;
}

// A link would be written through, or read from where nobody meant to: skillet makes none.
function textOf(file: string): string {
  if (lstatSync(file).isSymbolicLink()) throw new Error("it is a link");
  return readRegularText(file, { limit: LARGEST_LOCK, refusesLinks: true });
}

/** In a folder that may not be looked into no skill is found either. */
function isNotThere(error: unknown): boolean {
  const { syscall = "" } = Object(error) as { syscall?: string };
  return ["ENOENT", "ENOTDIR"].includes(codeOf(error)) || (codeOf(error) === "EACCES" && syscall === "lstat");
}

// One that was just written is read again and again, and not for every skill in it.
const FRESH_MS = 20;

interface Remembered {
  stamp: Stamp;
  at: number;
  lock: LockedSkills | SkillError | undefined;
}

/** What is known while some work is done. */
interface Steady {
  locks: Map<string, Remembered["lock"]>;
  states: Map<Skill, LockState>;
}

const NOT_THERE: Stamp = { text: "", isSettled: true };

function stampOfFile(file: string): Stamp {
  const looked = Date.now();
  try {
    // Most folders have none: an error for each of their skills would cost more than all else of them.
    const stats = lstatSync(file, { throwIfNoEntry: false });
    if (!stats) return NOT_THERE;
    const { mtimeMs, ctimeMs, size, ino } = stats;
    return { text: `${mtimeMs}:${ctimeMs}:${size}:${ino}`, isSettled: isSettled(ctimeMs, looked) };
  } catch (error) {
    return { text: codeOf(error), isSettled: true };
  }
}

function unreadableFolder(folder: string, cause: unknown): SkillError {
  return new SkillError("lock-unreadable", {
    message: `${folder} cannot be compared with its lock: ${reason(cause)}`,
    fix: "check that you may read all that is in it",
    cause,
  });
}
