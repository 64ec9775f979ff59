import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import { listSkillScripts } from "../skill/skill-code.ts";
import type { CopiedFile, SkillCopy } from "../skill/source/skill-copy.ts";
import { readRegularFile } from "../util/file-access.ts";
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

/** A skill as it was looked at. */
export interface ReviewedSkill {
  copy: SkillCopy;
  /** All that its folder held. Without it, what is no part of the copy was not looked at. */
  there?: LockedFiles | undefined;
}

/** What stands between one change of a folder of skills and another, of whatever kind. */
export function getFolderLockPath(skillsDir: string): string {
  return join(skillsDir, ".skillet");
}

/** What somebody agrees to who agrees to a skill. */
export function listLockGrants(skill: Skill): LockGrant[] {
  const { packages, toolsets } = skill.manifest;
  const has: Record<LockGrant, boolean> = {
    instructions: true,
    packages: packages.length > 0,
    scripts: listSkillScripts(skill).length > 0,
    toolsets: toolsets.length > 0,
  };
  return LOCK_GRANTS.filter((grant) => has[grant]);
}

/**
 * Writes down in its lock that a skill is agreed to as it is now. What its source gave stays known, so that an update can tell the two
 * apart. Throws a SkillError when it is not what was looked at any more, or cannot be written down.
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
    const { files, drift } = diffLockedFolder(folder, entry.files);
    if (drift[0]?.path === ".") throw createOddFileError(name, "its folder", "link");
    const odd = Object.entries(files).find(([, file]) => !isLockedRegularFile(file));
    if (odd) throw createOddFileError(name, JSON.stringify(odd[0]), odd[1].mode);
    if (!isAsReviewed(files, seen, entry)) throw createSkillChangedError(name);
    const armed = Object.entries(files).find(([, { mode }]) => (Number.parseInt(mode, 8) & SET_ID) !== 0);
    if (armed) throw createOddFileError(name, JSON.stringify(armed[0]), "set-id");
    const originals = createBlobCache(skilletHome);
    originals.keep(files, (path) => readTreeFile(join(folder, path)), skillsDir);
    const skills = { ...lock, [name]: createApprovedEntry(entry, files, listLockGrants(skill)) };
    replaceFile(join(skillsDir, LOCK_FILE), formatLock(skills), 0o644);
    const needed = new Set(listEntryDigests(Object.values(skills)));
    originals.forget(
      listEntryDigests([entry]).filter((digest) => !needed.has(digest)),
      skillsDir,
    );
  });
}

/** The folder that a lock tells of: where a skill was found, or where a link there leads that no lock knows. */
function findLockedFolder(skill: Skill): string | undefined {
  const place = locateLockedFolder(skill);
  if (!place?.isLink) return place?.found;
  const lock = readLockFile(dirname(place.found));
  return lock instanceof SkillError || lock?.[basename(place.found)] ? place.found : place.folder;
}

/** Of which originals are kept. */
export function listEntryDigests(entries: readonly LockedSkill[]): string[] {
  return entries.flatMap(({ digest, upstream }) => (upstream ? [digest, upstream.digest] : [digest]));
}

/** The entry of a skill whose files are these from now on. */
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

/** Whether just this was looked at. What was not must be as it was agreed to before. */
function isAsReviewed(files: LockedFiles, { copy, there }: ReviewedSkill, entry: LockedSkill): boolean {
  if (diffLockedCopy(files, copy.files).length > 0) return false;
  if (there) return digestTree(there) === digestTree(files);
  return diffLockedFiles(entry.files, files).every(
    ({ path, what }) => what === "removed" || (copy.files.has(path) && /^(?:644|755)$/.test(files[path]?.mode ?? "")),
  );
}

function createOddFileError(name: string, path: string, mode: string): SkillError {
  const what: Readonly<Record<string, string>> = {
    link: "a link",
    large: "larger than any file of a skill may be",
    "set-id": "set to run as its owner",
  };
  return new SkillError("lock-odd-file", {
    message: `Of skill "${name}", ${path} is ${what[mode] ?? "no file"}: nobody can agree to that`,
    fix: ODD_FILE_FIXES[path === "its folder" ? path : mode] ?? "put a plain file in its place, or remove it",
  });
}

const ODD_FILE_FIXES: Readonly<Record<string, string>> = {
  "set-id": "clear that: chmod ug-s",
  "its folder": "put the folder itself there in place of the link, or remove the skill",
};
const SET_ID = 0o6000;

function createSkillChangedError(name: string): SkillError {
  return new SkillError("resource-changed", {
    message: `Skill "${name}" changed while it was looked at`,
    fix: "look at it again when nobody works on it",
  });
}

/**
 * The bytes of trees that were agreed to, so that a change can be shown line by line and merged. One file a tree: all of its files, one
 * after the other, in the order of their paths; how long each is stands in the lock.
 */
export interface BlobCache {
  /** For a folder of skills. Nothing fails when it cannot be kept: then a change is shown without what was there before. */
  keep(files: LockedFiles, bytesOf: (path: string) => Uint8Array, folder: string): void;
  /** Nothing when it is not there, or not what the lock says. */
  read(files: LockedFiles): ReadonlyMap<string, CopiedFile> | undefined;
  /** What a folder of skills needs no longer goes, unless another does. */
  forget(digests: readonly string[], folder: string): void;
}

export function createBlobCache(skilletHome: string): BlobCache {
  const all = join(skilletHome, "originals");
  const fileOf = (digest: string) => join(all, digest.replace("sha256:", ""));
  // An empty file says that a folder of skills needs it.
  const needOf = (digest: string, folder: string) => `${fileOf(digest)}.${shortHash(folder)}`;
  return {
    keep(files, bytesOf, folder) {
      const digest = digestTree(files);
      const file = fileOf(digest);
      const draft = `${file}.${crypto.randomUUID()}`;
      try {
        mkdirSync(all, { recursive: true, mode: 0o700 });
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
        return undefined; // It was never kept, or was taken away to make room.
      }
    },
    forget(digests, folder) {
      if (digests.length === 0) return;
      try {
        for (const digest of digests) rmSync(needOf(digest, folder), { force: true });
        const needed = new Set(readdirSync(all).flatMap((name) => (name.includes(".") ? name.split(".", 1) : [])));
        for (const digest of digests) {
          if (!needed.has(basename(fileOf(digest)))) rmSync(fileOf(digest), { force: true });
        }
      } catch {} // It only takes up room.
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
  } catch {} // It only takes up room.
}

function sumFileSizes(files: LockedFiles): number {
  return Object.values(files).reduce((sum, { size }) => sum + size, 0);
}

/** In order, whatever order they stand in: numbers come first in a table, and a lock may have been put in another order by hand. */
function sortPaths(files: LockedFiles): string[] {
  return Object.keys(files).sort(compareText);
}
