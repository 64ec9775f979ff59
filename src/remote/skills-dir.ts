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

/** A folder of skills with a lock file: the one for all projects, or a workspace's own. */
export interface SkillsDir {
  /** Its real path, whether it exists or not. */
  folder: string;
  isProject: boolean;
  /** The path of the folder in messages. */
  shown: string;
  /** True if its skills were adopted: skillet did not create the folder, and other programs write to it. */
  isAdopted?: true;
}

/**
 * Returns true if trust in a skill there is recorded outside its lock file, because others can write the lock file:
 * everywhere except `~/.skillet/installed`.
 */
export function needsTrust({ isProject, isAdopted }: Pick<SkillsDir, "isProject" | "isAdopted">): boolean {
  return isProject || isAdopted === true;
}

/** Returns the folder that `skillet add` writes skills to. Throws a SkillError if it cannot exist. */
export function resolveSkillsDir(around: Environment, isProject: boolean): SkillsDir {
  const folder = isProject
    ? resolveClientTarget("agents", { around, isProject }).folder
    : resolveRealPath(join(around.skilletHome, "installed"));
  return { folder, isProject, shown: formatDisplayPath(folder, around) };
}

/** Returns the folder of an adopted skill. */
export function resolveAdoptedDir(folder: string, around: Environment, isProject: boolean): SkillsDir {
  const added = findOwnDir(around, isProject);
  if (added?.folder === folder) return added;
  return { folder, isProject, shown: formatDisplayPath(folder, around), isAdopted: true };
}

/**
 * Lists every folder of skills with a lock file, for all projects or for the workspace: the one that `skillet add`
 * uses, whether it exists or not, then those with adopted skills.
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

/** Returns undefined if the folder cannot exist. */
function findOwnDir(around: Environment, isProject: boolean): SkillsDir | undefined {
  try {
    return resolveSkillsDir(around, isProject);
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** Throws a SkillError if another folder has the same name on some disks. */
export function checkNameClash(name: string, { folder, shown }: SkillsDir, locked: LockedSkills): void {
  const names = [...Object.keys(locked), ...(statIfExists(folder) ? readdirSync(folder) : [])];
  const other = names.find((one) => one !== name && foldName(one) === foldName(name));
  if (other === undefined) return;
  throw new SkillError("unmanaged-path", {
    message: `"${name}" and ${JSON.stringify(other)}, which is in ${shown}, are the same folder on some disks`,
    ...(locked[other]
      ? { fix: "remove the other one first", commands: [`skillet remove ${other}`] }
      : { fix: "move the other one away" }),
  });
}

/** Reads the lock file of a folder. Throws a SkillError if it cannot be used. */
export function readLockedSkills({ folder }: Pick<SkillsDir, "folder">): LockedSkills {
  const lock = readLockFile(folder);
  if (lock instanceof SkillError) throw lock;
  return lock ?? parseLockedSkills(undefined);
}

/** Parses the text of a lock file that was read under its lock. */
export function parseLockedSkills(text: string | undefined): Record<string, LockedSkills[string]> {
  return text === undefined ? Object.create(null) : parseLock(text);
}

/** Compares all added and adopted skills with their lock files. Throws a SkillError if a lock file cannot be used. */
export function verifySkills(
  options: Pick<DiscoverOptions, "workspace" | "home" | "env"> & { isProject?: boolean; isFull?: boolean } = {},
): VerifyResult[] {
  const around = resolveEnvironment(options);
  const stamps = options.isFull ? undefined : createFingerprintCache(around.skilletHome);
  return listLockedDirs(around, options.isProject ?? false).flatMap((place) =>
    Object.entries(readLockedSkills(place)).map(([name, entry]) => verifySkill(place, name, entry, stamps)),
  );
}

/** The result of comparing a skill with its lock file. */
export type VerifyResult = { name: string } & (
  | { is: "as-locked" }
  | { is: "changed"; drift: readonly LockDifference[] }
  | { is: "missing" }
  /** It exists, but is not in the lock file. */
  | { is: "unlocked" }
  | { is: "unreadable"; why: string }
);

/** Compares one skill with its lock file. `stamps`: cached fingerprints, so that untouched files need not be read. */
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
    const { differences: drift } = diffLockedFolder(folder, entry.files);
    return drift.length > 0 ? { name, is: "changed", drift } : { name, is: "as-locked" };
  } catch (error) {
    return { name, is: "unreadable", why: getErrorMessage(error) };
  }
}

/** Lists the skills in a folder that are not in its lock file. */
export function listUnlocked(place: SkillsDir, locked: ReadonlySet<string>): string[] {
  if (!statIfExists(place.folder)?.isDirectory()) return [];
  return readdirSync(place.folder, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith(".") && !locked.has(entry.name))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink() || /\.(?:md|ya?ml)$/i.test(entry.name))
    .map(({ name }) => name)
    .sort(compareText);
}
