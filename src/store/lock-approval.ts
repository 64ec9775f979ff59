import { existsSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Skill, SkillFile } from "../skill/skill.ts";
import { selectScripts } from "../skill/skill-code.ts";
import { type CopiedFile, listCopiedFiles, type SkillCopy } from "../skill/source/skill-copy.ts";
import { createFolder, readRegularFile } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { compareText, shortHash } from "../util/text.ts";
import { diffLockedCopy, diffLockedFiles, diffLockedFolder, locateLockedFolder, readLockFile } from "./lock-diff.ts";
import {
  digestTree,
  formatLock,
  hashSha256,
  isLockedRegularFile,
  LOCK_FILE,
  LOCK_GRANTS,
  type LockedFile,
  type LockedFiles,
  type LockedSkill,
  type LockGrant,
  readTreeFile,
} from "./lock-file.ts";
import { replaceFile, withFileLock } from "./locked-file.ts";

/** A skill as it was reviewed. */
export interface ReviewedSkill {
  copy: SkillCopy;
  /** All files of its folder. If undefined, files outside the copy were not reviewed. */
  folderFiles?: LockedFiles | undefined;
}

/** Returns the path of the lock that serializes all changes of a folder of skills. */
export function getFolderLockPath(skillsDir: string): string {
  return join(skillsDir, ".skillet");
}

/** Lists what an approval of a skill with these files covers. */
export function listLockGrants(skill: Skill, files: readonly Pick<SkillFile, "path" | "executable">[]): LockGrant[] {
  const { packages, toolsets } = skill.manifest;
  const has: Record<LockGrant, boolean> = {
    instructions: true,
    packages: packages.length > 0,
    scripts: selectScripts(skill, files).length > 0,
    toolsets: toolsets.length > 0,
  };
  return LOCK_GRANTS.filter((grant) => has[grant]);
}

/**
 * Records in its lock that a skill is approved in its current state. The files of its source stay recorded, so that an
 * update can tell them apart. Throws a SkillError when the skill differs from what was reviewed, or the lock cannot be
 * written.
 */
export function approveInLock(skill: Skill, seen: ReviewedSkill, skilletHome: string): void {
  const folder = findLockedFolder(skill);
  if (folder === undefined) return;
  const [skillsDir, name] = [dirname(folder), basename(folder)];
  withFileLock(getFolderLockPath(skillsDir), () => {
    const lock = readLockFile(skillsDir);
    if (lock instanceof SkillError) throw lock;
    const entry = lock?.[name];
    if (!lock || !entry) return;
    const { files, differences: changes } = diffLockedFolder(folder, entry.files);
    if (changes[0]?.path === ".") throw createOddFileError(name, "its folder", "link");
    const invalid = Object.entries(files).find(([, file]) => !isLockedRegularFile(file));
    if (invalid) throw createOddFileError(name, JSON.stringify(invalid[0]), invalid[1].mode);
    if (!isAsReviewed(files, seen, entry)) throw createSkillChangedError(name);
    const armed = Object.entries(files).find(([, { mode }]) => (Number.parseInt(mode, 8) & SET_ID) !== 0);
    if (armed) throw createOddFileError(name, JSON.stringify(armed[0]), "set-id");
    const originals = createBlobCache(skilletHome);
    originals.store(files, (path) => readTreeFile(join(folder, path)), skillsDir);
    const skills = {
      ...lock,
      [name]: createApprovedEntry(entry, files, listLockGrants(skill, listCopiedFiles(seen.copy))),
    };
    replaceFile(join(skillsDir, LOCK_FILE), formatLock(skills), 0o644);
    const needed = new Set(listEntryDigests(Object.values(skills)));
    originals.release(
      listEntryDigests([entry]).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}

/** Returns the folder whose lock lists the skill: where it was found, or the target of a link that no lock lists. */
function findLockedFolder(skill: Skill): string | undefined {
  const location = locateLockedFolder(skill);
  if (!location?.isLink) return location?.found;
  const lock = readLockFile(dirname(location.found));
  return lock instanceof SkillError || lock?.[basename(location.found)] ? location.found : location.folder;
}

/** Lists the digests of the trees whose originals are kept. */
export function listEntryDigests(entries: readonly LockedSkill[]): string[] {
  return entries.flatMap(({ digest, upstream }) => (upstream ? [digest, upstream.digest] : [digest]));
}

/** Returns the entry of a skill with these files as the approved ones. */
export function createApprovedEntry(entry: LockedSkill, files: LockedFiles, grants: readonly LockGrant[]): LockedSkill {
  const { upstream = { digest: entry.digest, files: entry.files }, ...rest } = entry;
  const digest = digestTree(files);
  return {
    ...rest,
    digest,
    files,
    ...omitUndefined({ upstream: upstream.digest === digest ? undefined : upstream }),
    grants,
  };
}

/** Returns true if exactly these files were reviewed. Files that were not must be as they were approved before. */
function isAsReviewed(files: LockedFiles, { copy, folderFiles: there }: ReviewedSkill, entry: LockedSkill): boolean {
  if (diffLockedCopy(files, copy.files).length > 0) return false;
  if (there) return digestTree(there) === digestTree(files);
  return diffLockedFiles(entry.files, files).every(
    ({ path, what }) => what === "removed" || (copy.files.has(path) && /^(?:644|755)$/.test(files[path]?.mode ?? "")),
  );
}

function createOddFileError(name: string, path: string, mode: string): SkillError {
  const what: Readonly<Record<string, string>> = {
    link: "a link",
    large: "larger than a file of a skill may be",
    "set-id": "set to run as its owner",
  };
  return new SkillError("lock-unsupported-file", {
    message: `Skill "${name}" cannot be approved: ${path} is ${what[mode] ?? "not a file"}`,
    fix: ODD_FILE_FIXES[path === "its folder" ? path : mode] ?? "replace it with a regular file, or remove it",
  });
}

const ODD_FILE_FIXES: Readonly<Record<string, string>> = {
  "set-id": "clear the bit: chmod ug-s",
  "its folder": "replace the link with the folder itself, or remove the skill",
};
const SET_ID = 0o6000;

function createSkillChangedError(name: string): SkillError {
  return new SkillError("resource-changed", {
    message: `Skill "${name}" changed during the review`,
    fix: "review it again when no other program writes to its folder",
  });
}

/**
 * The bytes of approved trees, so that a change can be shown line by line and merged. One file for each tree: all its
 * files concatenated in the order of their paths; the lock has their sizes.
 */
export interface BlobCache {
  /** Stores a tree for a folder of skills. Never throws: without it, a change is shown without the previous text. */
  store(files: LockedFiles, bytesOf: (path: string) => Uint8Array, folder: string): void;
  /** Returns undefined if the tree is missing or does not match the lock. */
  read(files: LockedFiles): ReadonlyMap<string, CopiedFile> | undefined;
  /** Removes trees that a folder of skills no longer needs, unless another folder needs them. */
  release(digests: readonly string[], folder: string): void;
}

export function createBlobCache(skilletHome: string): BlobCache {
  const all = join(skilletHome, "originals");
  const fileOf = (digest: string) => join(all, digest.replace("sha256:", ""));
  // An empty marker file records that a folder of skills needs the tree.
  const needOf = (digest: string, folder: string) => `${fileOf(digest)}.${shortHash(folder)}`;
  return {
    store(files, bytesOf, folder) {
      const digest = digestTree(files);
      const file = fileOf(digest);
      const draft = `${file}.${crypto.randomUUID()}`;
      try {
        createFolder(all, 0o700);
        const need = needOf(digest, folder);
        if (!existsSync(need)) writeFileSync(need, "", { mode: 0o600 });
        if (statSync(file, { throwIfNoEntry: false })?.size === sumFileSizes(files)) return;
        writeFileSync(draft, Buffer.concat(sortPaths(files).map(bytesOf)), { flag: "wx", mode: 0o600 });
        renameSync(draft, file);
      } catch {
        removeFileQuietly(draft);
      }
    },
    read(files) {
      try {
        return splitTreeBytes(readRegularFile(fileOf(digestTree(files)), { refusesLinks: true }), files);
      } catch {
        return undefined; // It was never stored, or was removed to free space.
      }
    },
    release(digests, folder) {
      if (digests.length === 0) return;
      try {
        for (const digest of digests) rmSync(needOf(digest, folder), { force: true });
        const needed = new Set(readdirSync(all).flatMap((name) => (name.includes(".") ? name.split(".", 1) : [])));
        for (const digest of digests) {
          if (!needed.has(basename(fileOf(digest)))) rmSync(fileOf(digest), { force: true });
        }
      } catch {} // It only takes up space.
    },
  };
}

function splitTreeBytes(bytes: Buffer, files: LockedFiles): ReadonlyMap<string, CopiedFile> | undefined {
  const read = new Map<string, CopiedFile>();
  let from = 0;
  for (const path of sortPaths(files)) {
    const { size, mode, sha256: digest } = files[path] as LockedFile;
    const own = bytes.subarray(from, from + size);
    if (hashSha256(own) !== digest) return undefined;
    read.set(path, { bytes: own, executable: (Number.parseInt(mode, 8) & 0o111) !== 0 });
    from += size;
  }
  return read;
}

function removeFileQuietly(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {} // It only takes up space.
}

function sumFileSizes(files: LockedFiles): number {
  return Object.values(files).reduce((sum, { size }) => sum + size, 0);
}

/** Sorts the paths. An object lists numeric keys first, and a lock may have been reordered by hand. */
function sortPaths(files: LockedFiles): string[] {
  return Object.keys(files).sort(compareText);
}
