import { lstatSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { applyFolderChange, type FolderChange, SkillInstallationError } from "../store/atomic-folder.ts";
import { createBlobCache, listEntryDigests } from "../store/lock-approval.ts";
import {
  digestTree,
  formatLock,
  LOCK_FILE,
  type LockedFiles,
  type LockedSkill,
  MAX_LOCK_BYTES,
  readFileTree,
} from "../store/lock-file.ts";
import { formatProcessOwner, readLiveOwner } from "../store/locked-file.ts";
import { createOwnFolders } from "../store/own-folders.ts";
import { removeFolderTree } from "../util/folder-handle.ts";
import { formatNumber } from "../util/text.ts";
import type { FileTree } from "./file-tree.ts";
import { parseLockedSkills, readLockedSkills, type SkillsDir } from "./skills-dir.ts";

/** A skill that is to be in a folder of skills, and what its lock will say. */
export interface SkillWrite {
  name: string;
  entry: LockedSkill;
  /** Its files, in a folder of ours that is given away. */
  folder: string;
  /** The digest of what stands there and gives way; nothing when nothing does. */
  before?: string;
  /** What is kept for later: what was agreed to, and what came from the source where that is another. */
  originals: readonly { files: LockedFiles; tree: FileTree }[];
}

interface SkillsDirChanges {
  place: SkillsDir;
  put?: readonly SkillWrite[];
  /** Names, each with the digest of what stands there. */
  remove?: Readonly<Record<string, string | undefined>>;
  skilletHome: string;
}

/**
 * Puts skills into their folder and takes others away, with its lock, all or nothing. Throws a SkillError: then nothing changed. What is
 * not as it was looked at stops it too, so that nothing is lost that somebody just wrote.
 */
export function applySkillsDirChanges({ place, put = [], remove = {}, skilletHome }: SkillsDirChanges): void {
  const originals = createBlobCache(skilletHome);
  for (const one of put)
    for (const { files, tree } of one.originals) originals.keep(files, createTreeReader(tree), place.folder);
  const looked = [...put.map(({ name, before }) => [name, before] as const), ...Object.entries(remove)];
  let unneeded: string[] = [];
  applyOrExplain(place, put, {
    skillsDir: place.folder,
    put: put.map(({ name, folder }) => ({ name, source: "ref", folder, isGiven: true })),
    remove: Object.keys(remove).filter((name) => isPresent(join(place.folder, name))),
    replaces: put.flatMap(({ name, before }) => (before === undefined ? [] : name)),
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
      // Only now can nobody write into what goes: what is not as it was looked at comes back.
      moved(gone) {
        for (const [name, digest] of looked) checkUnchanged(digestInstalled(gone(name)), digest, place, name);
      },
    },
  });
  originals.forget(unneeded, place.folder);
  const written = put.map(({ name }) => join(place.folder, name));
  createOwnFolders(skilletHome).markChanged(written, "update"); // Not an edit of the user's, wherever the folder is.
}

function applyOrExplain(place: SkillsDir, put: readonly SkillWrite[], application: FolderChange): void {
  try {
    applyFolderChange(application);
  } catch (error) {
    const name = error instanceof SkillInstallationError && isInTheWay(error.cause) ? error.skillName : undefined;
    const isNew = put.some((one) => one.name === name && one.before === undefined);
    throw (isNew && createAddedMeanwhileError(name ?? "", place)) || error;
  }
}

/** What is in the way of a skill that nobody had added when it was looked at may be that very skill. */
export function createAddedMeanwhileError(name: string, place: SkillsDir): SkillError | undefined {
  if (!readLockedSkills(place)[name]) return undefined;
  return new SkillError("changed", {
    message: `"${name}" was added by another process meanwhile`,
    fix: "try again",
  });
}

function isInTheWay(cause: unknown): boolean {
  return cause instanceof SkillError && cause.code === "in-the-way";
}

function createTreeReader(tree: FileTree): (path: string) => Uint8Array {
  return (path) => tree.get(path)?.bytes ?? new Uint8Array();
}

function checkUnchanged(now: string | undefined, before: string | undefined, place: SkillsDir, name: string): void {
  if (now === before) return;
  throw new SkillError("resource-changed", {
    message: `${join(place.folder, name)} changed while it was looked at`,
    fix: "try again when nobody works on it",
  });
}

export function checkLockSize(text: string): string {
  if (text.length <= MAX_LOCK_BYTES) return text;
  throw new SkillError("lock-too-large", {
    message: `${LOCK_FILE} would be larger than ${formatNumber(MAX_LOCK_BYTES)} bytes, and could not be read again`,
    fix: "add fewer skills, or remove some first",
  });
}

/** Of what stands in a place; nothing when nothing does. Throws a SkillError when it cannot be read. */
export function digestInstalled(folder: string): string | undefined {
  if (!isPresent(folder)) return undefined;
  try {
    return digestTree(readFileTree(folder));
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${folder} cannot be read: ${getErrorMessage(error)}`,
      fix: "check that it is a folder, and that you may read all that is in it",
      cause: error,
    });
  }
}

function isPresent(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Work with a folder of its own, for the user alone, that is gone afterwards. What processes left there that are gone goes too. */
export async function withStagingFolder<T>(skilletHome: string, work: (folder: string) => Promise<T>): Promise<T> {
  const all = join(skilletHome, "staging");
  const own = join(all, crypto.randomUUID());
  try {
    mkdirSync(all, { recursive: true, mode: 0o700 });
    removeAbandonedStaging(all);
    mkdirSync(own, 0o700);
    writeFileSync(join(own, OWNER_FILE), formatProcessOwner(), { flag: "wx", mode: 0o600 });
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `${all} cannot be written to: ${getErrorMessage(error)}`,
      fix: "check that the folder can be written to, and that there is room",
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
// Between making a folder and writing down whose it is, less time passes.
const UNOWNED_GRACE_MS = 60_000;

// Whoever keeps what is skillet's elsewhere may have a folder of that name already, with other things in it.
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
  } catch {} // The next one tries again.
}
