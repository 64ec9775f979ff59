import { lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DiscoverOptions, resolveEnvironment } from "../config/discover.ts";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { SkillScope } from "../skill/skill.ts";
import { type Environment, formatDisplayPath, listLocations } from "../skill/source/locations.ts";
import { applyFolderChange, type FolderChange, SkillInstallationError } from "../store/atomic-folder.ts";
import { createAdoptedFolders } from "../store/copy-records.ts";
import { createBlobCache, getFolderLockPath, listEntryDigests } from "../store/lock-approval.ts";
import {
  createFingerprintCache,
  diffLockedFolder,
  type FingerprintCache,
  type LockDifference,
  readFolderLockState,
  readLockFile,
} from "../store/lock-diff.ts";
import {
  digestTree,
  formatLock,
  LOCK_FILE,
  type LockedFiles,
  type LockedSkill,
  type LockedSkills,
  MAX_LOCK_BYTES,
  parseLock,
  readFileTree,
} from "../store/lock-file.ts";
import { formatProcessOwner, readLiveOwner, replaceFile, withFileLock } from "../store/locked-file.ts";
import { createOwnFolders } from "../store/own-folders.ts";
import { createFolder, removeFolderTree, statIfExists } from "../util/file-access.ts";
import { resolveRealPath } from "../util/safe-path.ts";
import { compareText, formatNumber } from "../util/text.ts";
import { resolveClientTarget } from "./clients/native-clients.ts";
import { foldName } from "./entry-path.ts";
import type { FileTree } from "./file-tree.ts";

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
export function resolveSkillsDir(environment: Environment, isProject: boolean): SkillsDir {
  const folder = isProject
    ? resolveClientTarget("agents", { around: environment, isProject }).folder
    : resolveRealPath(join(environment.skilletHome, "installed"));
  return { folder, isProject, shown: formatDisplayPath(folder, environment) };
}

/** Returns the folder of an adopted skill. */
export function resolveAdoptedDir(folder: string, environment: Environment, isProject: boolean): SkillsDir {
  const added = findOwnDir(environment, isProject);
  if (added?.folder === folder) return added;
  return { folder, isProject, shown: formatDisplayPath(folder, environment), isAdopted: true };
}

/**
 * Lists every folder of skills with a lock file, for all projects or for the workspace: the one that `skillet add`
 * uses, whether it exists or not, then those with adopted skills.
 */
export function listLockedDirs(environment: Environment, isProject: boolean): SkillsDir[] {
  const first = resolveSkillsDir(environment, isProject);
  const all = listLocations(environment).filter(({ sameAs }) => sameAs === undefined);
  const ofScope = (scope: SkillScope) => all.flatMap((one) => (one.scope === scope ? resolveRealPath(one.path) : []));
  const project = new Set(ofScope("workspace"));
  const folders = isProject
    ? [...project]
    : [...ofScope("user"), ...createAdoptedFolders(environment.skilletHome).list()].filter(
        (folder) => !project.has(folder),
      );
  const locked = [...new Set(folders)].filter(
    (folder) => folder !== first.folder && statIfExists(join(folder, LOCK_FILE)),
  );
  return [first, ...locked.map((folder) => resolveAdoptedDir(folder, environment, isProject))];
}

/** Returns undefined if the folder cannot exist. */
function findOwnDir(environment: Environment, isProject: boolean): SkillsDir | undefined {
  try {
    return resolveSkillsDir(environment, isProject);
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
function parseLockedSkills(text: string | undefined): Record<string, LockedSkills[string]> {
  return text === undefined ? Object.create(null) : parseLock(text);
}

/** Compares all added and adopted skills with their lock files. Throws a SkillError if a lock file cannot be used. */
export function verifySkills(
  options: Pick<DiscoverOptions, "workspace" | "home" | "env"> & { isProject?: boolean; isFull?: boolean } = {},
): VerifyResult[] {
  const environment = resolveEnvironment(options);
  const stamps = options.isFull ? undefined : createFingerprintCache(environment.skilletHome);
  return listLockedDirs(environment, options.isProject ?? false).flatMap((skillsDir) =>
    Object.entries(readLockedSkills(skillsDir)).map(([name, entry]) => verifySkill(skillsDir, name, entry, stamps)),
  );
}

/** The result of comparing a skill with its lock file. */
export type VerifyResult = { name: string } & (
  | { is: "unchanged" }
  | { is: "changed"; changes: readonly LockDifference[] }
  | { is: "missing" }
  /** It exists, but is not in the lock file. */
  | { is: "unlocked" }
  | { is: "unreadable"; reason: string }
);

/** Compares one skill with its lock file. `stamps`: cached fingerprints, so that untouched files need not be read. */
export function verifySkill(
  skillsDir: SkillsDir,
  name: string,
  entry: LockedSkill,
  stamps?: FingerprintCache,
): VerifyResult {
  const folder = join(skillsDir.folder, name);
  const isMissing = () => !lstatSync(folder, { throwIfNoEntry: false });
  if (stamps) {
    const state = readFolderLockState(folder, entry, stamps);
    if (state.is === "changed") return { name, is: "changed", changes: state.changes };
    if (state.is !== "unknown") return { name, is: "unchanged" };
    return isMissing() ? { name, is: "missing" } : { name, is: "unreadable", reason: state.problem.message };
  }
  if (isMissing()) return { name, is: "missing" };
  try {
    const { differences: changes } = diffLockedFolder(folder, entry.files);
    return changes.length > 0 ? { name, is: "changed", changes } : { name, is: "unchanged" };
  } catch (error) {
    return { name, is: "unreadable", reason: getErrorMessage(error) };
  }
}

/** Lists the skills in a folder that are not in its lock file. */
export function listUnlocked(skillsDir: SkillsDir, locked: ReadonlySet<string>): string[] {
  if (!statIfExists(skillsDir.folder)?.isDirectory()) return [];
  return readdirSync(skillsDir.folder, { withFileTypes: true })
    .filter((entry) => !entry.name.startsWith(".") && !locked.has(entry.name))
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink() || /\.(?:md|ya?ml)$/i.test(entry.name))
    .map(({ name }) => name)
    .sort(compareText);
}

/** A skill to write to a folder of skills, and its entry in the lock file. */
export interface SkillWrite {
  name: string;
  entry: LockedSkill;
  /** Its files, in a private folder that is moved away. */
  folder: string;
  /** The digest of the existing skill that is replaced; undefined for a new skill. */
  before?: string;
  /** The files to keep for later: the approved ones, and those from the source if they differ. */
  originals: readonly { files: LockedFiles; tree: FileTree }[];
}

interface SkillsDirChanges {
  skillsDir: SkillsDir;
  put?: readonly SkillWrite[];
  /** Names, each with the digest of the existing skill. */
  remove?: Readonly<Record<string, string | undefined>>;
  skilletHome: string;
}

/**
 * Writes skills to their folder and removes others, with the lock file, all or nothing. Throws a SkillError; nothing
 * changed then. It also stops if a skill changed since it was checked, so that no recent edit is lost.
 */
export function applySkillsDirChanges({ skillsDir, put = [], remove = {}, skilletHome }: SkillsDirChanges): void {
  const originals = createBlobCache(skilletHome);
  for (const one of put)
    for (const { files, tree } of one.originals) originals.store(files, createTreeReader(tree), skillsDir.folder);
  const expected = [...put.map(({ name, before }) => [name, before] as const), ...Object.entries(remove)];
  let unneeded: string[] = [];
  applyOrExplain(skillsDir, put, {
    skillsDir: skillsDir.folder,
    items: put.map(({ name, folder }) => ({ name, source: "ref", folder, canMove: true })),
    remove: Object.keys(remove).filter((name) => isPresent(join(skillsDir.folder, name))),
    replaceable: put.flatMap(({ name, before }) => (before === undefined ? [] : name)),
    isDurable: true,
    isReal: true,
    record: {
      name: LOCK_FILE,
      write(text) {
        const skills = parseLockedSkills(text);
        const before = listEntryDigests(
          [...put.map(({ name }) => name), ...Object.keys(remove)].flatMap((name) => skills[name] ?? []),
        );
        for (const { name, entry } of put) skills[name] = entry;
        for (const name of Object.keys(remove)) delete skills[name];
        const needed = new Set(listEntryDigests(Object.values(skills)));
        unneeded = before.filter((digest) => !needed.has(digest));
        return checkLockSize(formatLock(skills));
      },
      // Only now can no process write to the replaced folders: one that changed since it was checked is restored.
      onMoved(gone) {
        for (const [name, digest] of expected) checkUnchanged(digestInstalled(gone(name)), digest, skillsDir, name);
      },
    },
  });
  originals.release(unneeded, skillsDir.folder);
  const written = put.map(({ name }) => join(skillsDir.folder, name));
  createOwnFolders(skilletHome).markChanged(written, "update"); // Not an edit by the user, wherever the folder is.
}

function applyOrExplain(skillsDir: SkillsDir, put: readonly SkillWrite[], application: FolderChange): void {
  try {
    applyFolderChange(application);
  } catch (error) {
    const name = error instanceof SkillInstallationError && isInTheWay(error.cause) ? error.skillName : undefined;
    const isNew = put.some((one) => one.name === name && one.before === undefined);
    throw (isNew && createAddedMeanwhileError(name ?? "", skillsDir)) || error;
  }
}

/** Returns an error if another process added the skill after it was checked as missing. */
export function createAddedMeanwhileError(name: string, skillsDir: SkillsDir): SkillError | undefined {
  if (!readLockedSkills(skillsDir)[name]) return undefined;
  return new SkillError("changed", {
    message: `"${name}" was added by another process in the meantime`,
    fix: "try again",
  });
}

function isInTheWay(cause: unknown): boolean {
  return cause instanceof SkillError && cause.code === "unmanaged-path";
}

function createTreeReader(tree: FileTree): (path: string) => Uint8Array {
  return (path) => tree.get(path)?.bytes ?? new Uint8Array();
}

function checkUnchanged(now: string | undefined, before: string | undefined, skillsDir: SkillsDir, name: string): void {
  if (now === before) return;
  throw new SkillError("resource-changed", {
    message: `${join(skillsDir.folder, name)} changed while it was checked`,
    fix: "try again when no other program writes to it",
  });
}

export function checkLockSize(text: string): string {
  if (text.length <= MAX_LOCK_BYTES) return text;
  throw new SkillError("lock-too-large", {
    message: `${LOCK_FILE} would be larger than ${formatNumber(MAX_LOCK_BYTES)} bytes, and could not be read again`,
    fix: "add fewer skills, or remove some first",
  });
}

/**
 * Computes the digest of an installed skill. Returns undefined if it is missing. Throws a SkillError if it cannot be
 * read.
 */
export function digestInstalled(folder: string): string | undefined {
  if (!isPresent(folder)) return undefined;
  try {
    return digestTree(readFileTree(folder));
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${folder} cannot be read: ${getErrorMessage(error)}`,
      fix: "check that it is a folder, and that you may read all files in it",
      cause: error,
    });
  }
}

function isPresent(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/**
 * Runs `work` with its own private folder, which is removed afterwards. Also removes folders of processes that have
 * exited.
 */
export async function withStagingFolder<T>(skilletHome: string, work: (folder: string) => Promise<T>): Promise<T> {
  const all = join(skilletHome, "staging");
  const own = join(all, crypto.randomUUID());
  try {
    createFolder(all, 0o700);
    removeAbandonedStaging(all);
    mkdirSync(own, 0o700);
    writeFileSync(join(own, OWNER_FILE), formatProcessOwner(), { flag: "wx", mode: 0o600 });
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `${all} is not writable: ${getErrorMessage(error)}`,
      fix: "check that the folder is writable and the disk has free space",
      cause: error,
    });
  }
  try {
    const folder = join(own, "work");
    mkdirSync(folder, 0o700);
    return await work(folder);
  } finally {
    removeStagingQuietly(own);
  }
}

const OWNER_FILE = "owner";
// Longer than the time between creating a folder and recording its owner.
const UNOWNED_GRACE_MS = 60_000;

// A custom skillet home may already have a folder of that name, with other content.
const STAGING_NAME = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function removeAbandonedStaging(all: string): void {
  for (const name of readdirSync(all)) {
    if (!STAGING_NAME.test(name)) continue;
    const folder = join(all, name);
    const owner = lstatSync(join(folder, OWNER_FILE), { throwIfNoEntry: false });
    const age = Date.now() - (lstatSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY);
    if (owner?.size ? readLiveOwner(join(folder, OWNER_FILE)) === undefined : age > UNOWNED_GRACE_MS)
      removeStagingQuietly(folder);
  }
}

function removeStagingQuietly(folder: string): void {
  try {
    removeFolderTree(folder);
  } catch {} // The next run tries again.
}

/**
 * Removes skills from the lock file of a folder and keeps their files. An empty lock file is removed if skillet did not
 * create the folder.
 */
export function removeAdoptions(
  { folder: skillsDir, isAdopted }: SkillsDir,
  names: readonly string[],
  skilletHome: string,
): void {
  withFileLock(getFolderLockPath(skillsDir), () => {
    const skills = { ...readLockedSkills({ folder: skillsDir }) };
    const gone = names.flatMap((name) => skills[name] ?? []);
    for (const name of names) delete skills[name];
    const isEmpty = Object.keys(skills).length === 0;
    if (isAdopted && isEmpty) rmSync(join(skillsDir, LOCK_FILE), { force: true });
    else if (gone.length > 0) replaceFile(join(skillsDir, LOCK_FILE), formatLock(skills), 0o644);
    const needed = new Set(listEntryDigests(Object.values(skills)));
    createBlobCache(skilletHome).release(
      listEntryDigests(gone).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}
