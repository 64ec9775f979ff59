import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { resolveClientTarget } from "../clients/native-clients.ts";
import { type DiscoverOptions, resolveEnvironment } from "../config/discover.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { SkillScope } from "../skill/skill.ts";
import { type Environment, formatDisplayPath, listLocations } from "../skill/source/locations.ts";
import { statIfExists } from "../skill/source/read-file.ts";
import { createAdoptedFolders } from "../store/copy-records.ts";
import {
  createFingerprintCache,
  diffLockedFolder,
  type FingerprintCache,
  type LockDifference,
  readFolderLockState,
  readLockFile,
} from "../store/lock-diff.ts";
import { LOCK_FILE, type LockedSkill, type LockedSkills, parseLock } from "../store/lock-file.ts";
import { resolveRealPath } from "../util/safe-path.ts";
import { compareText } from "../util/text.ts";
import { foldName } from "./entry-path.ts";

/** A folder of skills with a lock: that for all projects, or a workspace's own. */
export interface SkillsDir {
  /** Its real path, be it there or not. */
  folder: string;
  isProject: boolean;
  /** The folder as people are told. */
  shown: string;
  /** Whether its skills were adopted: skillet did not make the folder, and other programs write to it. */
  isAdopted?: true;
}

/** True when trust in a skill there is recorded apart from its lock, since others can write the lock: all but `~/.skillet/installed`. */
export function needsTrust({ isProject, isAdopted }: Pick<SkillsDir, "isProject" | "isAdopted">): boolean {
  return isProject || isAdopted === true;
}

/** Where `skillet add` puts skills. Throws a SkillError when there can be no such folder. */
export function resolveSkillsDir(around: Environment, isProject: boolean): SkillsDir {
  const folder = isProject
    ? resolveClientTarget("agents", { around, isProject }).folder
    : resolveRealPath(join(around.skilletHome, "installed"));
  return { folder, isProject, shown: formatDisplayPath(folder, around) };
}

/** Returns the folder that an adopted skill is in, as a place. */
export function resolveAdoptedDir(folder: string, around: Environment, isProject: boolean): SkillsDir {
  const added = findOwnDir(around, isProject);
  if (added?.folder === folder) return added;
  return { folder, isProject, shown: formatDisplayPath(folder, around), isAdopted: true };
}

/**
 * Returns every folder of skills with a lock, for all projects or of the workspace: the one that `skillet add` uses, whether it is there or
 * not, then those with adopted skills.
 */
export function listLockedDirs(around: Environment, isProject: boolean): SkillsDir[] {
  const first = resolveSkillsDir(around, isProject);
  const all = listLocations(around).filter(({ sameAs }) => sameAs === undefined);
  const ofScope = (scope: SkillScope) => all.flatMap((one) => (one.scope === scope ? resolveRealPath(one.path) : []));
  const project = new Set(ofScope("workspace"));
  const folders = isProject
    ? [...project]
    : [...ofScope("user"), ...createAdoptedFolders(around.skilletHome).list()].filter((folder) => !project.has(folder));
  const locked = [...new Set(folders)].filter(
    (folder) => folder !== first.folder && statIfExists(join(folder, LOCK_FILE)),
  );
  return [first, ...locked.map((folder) => resolveAdoptedDir(folder, around, isProject))];
}

/** Nothing when there can be no such folder. */
function findOwnDir(around: Environment, isProject: boolean): SkillsDir | undefined {
  try {
    return resolveSkillsDir(around, isProject);
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** Throws a SkillError when another folder of the place is the same on some disks. */
export function checkNameClash(name: string, { folder, shown }: SkillsDir, locked: LockedSkills): void {
  const names = [...Object.keys(locked), ...(statIfExists(folder) ? readdirSync(folder) : [])];
  const other = names.find((one) => one !== name && foldName(one) === foldName(name));
  if (other === undefined) return;
  throw new SkillError("in-the-way", {
    message: `"${name}" and ${JSON.stringify(other)}, which is in ${shown}, are one folder on some disks`,
    fix: locked[other] ? `remove the other one first: skillet remove ${other}` : "move the other one away",
  });
}

/** What is locked there. Throws a SkillError when the lock cannot be used. */
export function readLockedSkills({ folder }: Pick<SkillsDir, "folder">): LockedSkills {
  const lock = readLockFile(folder);
  if (lock instanceof SkillError) throw lock;
  return lock ?? parseLockedSkills(undefined);
}

/** The same from a text that was read while nobody else was at it. */
export function parseLockedSkills(text: string | undefined): Record<string, LockedSkills[string]> {
  return text === undefined ? Object.create(null) : parseLock(text);
}

/** Compares all that was added or adopted with its lock. Throws a SkillError when the lock cannot be used. */
export function verifySkills(
  options: Pick<DiscoverOptions, "workspace" | "home" | "env"> & { isProject?: boolean; isFull?: boolean } = {},
): VerifyResult[] {
  const around = resolveEnvironment(options);
  const stamps = options.isFull ? undefined : createFingerprintCache(around.skilletHome);
  return listLockedDirs(around, options.isProject ?? false).flatMap((place) =>
    Object.entries(readLockedSkills(place)).map(([name, entry]) => verifySkill(place, name, entry, stamps)),
  );
}

/** Whether a skill is what its lock says. */
export type VerifyResult = { name: string } & (
  | { is: "as-locked" }
  | { is: "changed"; drift: readonly LockDifference[] }
  | { is: "missing" }
  /** It is there, and not in the lock. */
  | { is: "unlocked" }
  | { is: "unreadable"; why: string }
);

/** Compares one skill with its lock. `stamps`: with what was seen before, so that what nobody touched need not be read. */
export function verifySkill(
  place: SkillsDir,
  name: string,
  entry: LockedSkill,
  stamps?: FingerprintCache,
): VerifyResult {
  const folder = join(place.folder, name);
  const isMissing = () => !lstatSync(folder, { throwIfNoEntry: false });
  if (stamps) {
    const state = readFolderLockState(folder, entry, stamps);
    if (state.is === "changed") return { name, is: "changed", drift: state.drift };
    if (state.is !== "unknown") return { name, is: "as-locked" };
    return isMissing() ? { name, is: "missing" } : { name, is: "unreadable", why: state.problem.message };
  }
  if (isMissing()) return { name, is: "missing" };
  try {
    const { drift } = diffLockedFolder(folder, entry.files);
    return drift.length > 0 ? { name, is: "changed", drift } : { name, is: "as-locked" };
  } catch (error) {
    return { name, is: "unreadable", why: getErrorMessage(error) };
  }
}

/** What else is in a folder of skills than its lock says. */
export function listUnlocked(place: SkillsDir, locked: ReadonlySet<string>): string[] {
  if (!statIfExists(place.folder)?.isDirectory()) return [];
  return readdirSync(place.folder, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith(".") && !locked.has(entry.name))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink() || /\.(?:md|ya?ml)$/i.test(entry.name))
    .map(({ name }) => name)
    .sort(compareText);
}
