import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Environment } from "../skill/source/locations.ts";
import type { SkillCopy } from "../skill/source/skill-copy.ts";
import { withFileLock } from "../store/locked-file.ts";
import { readRegularFile } from "../util/file-access.ts";
import { isInside } from "../util/safe-path.ts";

/**
 * Where sandboxes find what they are made of: copies of skills, package layers. As root that is not root's own folder, since code
 * never runs as root and has to read it.
 */
export function getSandboxFolder(skilletHome: string): string {
  return isRoot() ? SYSTEM_SANDBOX_FOLDER : skilletHome;
}

export const SYSTEM_SANDBOX_FOLDER = "/var/lib/skillet";

/** Whom code runs as where the caller is root and has no other users to give: nobody. */
export const NOBODY_UID = 65534;

/** Users that no account has and nothing hands out: neither distributions nor systemd use this range. One for each process and 64 runs of it. */
const RUN_USERS = { first: 0x7000_0000, count: 0x1000_0000, ofProcess: 64 };

let usedRunUsers = 0;
let hasRunUsers: boolean | undefined;

/**
 * Returns a user for one run, where the caller is root: what the kernel counts for a user, such as inotify instances, is this run's alone.
 * Nobody, where the caller is root of a namespace without such users.
 */
export function allocateRunUser(): number {
  hasRunUsers ??= isRangeMapped(RUN_USERS);
  if (!hasRunUsers) return NOBODY_UID;
  const { first, count, ofProcess } = RUN_USERS;
  return first + ((process.pid * ofProcess + (usedRunUsers++ % ofProcess)) % count);
}

export function isRunUser(user: number): boolean {
  return user >= RUN_USERS.first && user < RUN_USERS.first + RUN_USERS.count;
}

function isRangeMapped({ first, count }: { first: number; count: number }): boolean {
  if (process.platform !== "linux") return false;
  return ["uid_map", "gid_map"].every((name) => {
    const ranges = readFileSync(`/proc/self/${name}`, "utf8").trim().split("\n");
    return ranges.some((range) => {
      const [start = 0, , length = 0] = range.trim().split(/\s+/).map(Number);
      return start <= first && first + count <= start + length;
    });
  });
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

export function getSkillStoreFolder(skilletHome: string): string {
  return join(getSandboxFolder(skilletHome), "store");
}

const MAX_UNUSED_MS = 30 * 24 * 60 * 60 * 1000;

/**
 * Puts a skill's files where code may read them, under the name of their digest, and gives the folder. What is there stays as it
 * is: a run sees the bytes that were judged, whatever happens to the original meanwhile.
 */
export function storeSkillCopy(copy: SkillCopy, store: string): string {
  const folder = join(store, copy.digest.replace("sha256:", ""));
  if (existsSync(folder)) {
    touchFolder(folder);
    return folder;
  }
  const draft = join(store, `.${randomUUID()}`);
  try {
    makeReadableFolder(store);
    chmodSync(store, isRoot() ? 0o711 : 0o700); // Who cannot list it cannot find a copy of what is private.
    for (const [path, { bytes, executable }] of copy.files)
      writeStoredFile(draft, path, bytes, executable ? 0o755 : 0o644);
    renameSync(draft, folder);
  } catch (error) {
    if (existsSync(draft)) rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw createStoreError(store, error); // Another run may just have put it there.
  }
  removeUnusedCopies(store);
  return folder;
}

/** The same for code that nothing keeps from writing there: what is not as it was judged is put there anew. */
export function storeVerifiedCopy(copy: SkillCopy, store: string): string {
  const folder = storeSkillCopy(copy, store);
  if (isUnmodified(folder, copy)) return folder;
  return withFileLock(`${folder}.mending`, () => {
    if (isUnmodified(folder, copy)) return folder;
    if (existsSync(folder)) renameSync(folder, join(store, `.${randomUUID()}`)); // Whoever reads it goes on; it is swept later.
    return storeSkillCopy(copy, store);
  });
}

function isUnmodified(folder: string, { files }: SkillCopy): boolean {
  try {
    const there = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory());
    if (there.length !== files.size) return false;
    return [...files].every(([path, { bytes }]) =>
      readRegularFile(join(folder, path), { limit: bytes.length, refusesLinks: true }).equals(bytes),
    );
  } catch {
    return false;
  }
}

/** A folder that code may read, also where the umask says otherwise. */
export function makeReadableFolder(path: string): void {
  if (existsSync(path)) return;
  makeReadableFolder(dirname(path));
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o755);
}

function writeStoredFile(root: string, path: string, bytes: Uint8Array, mode: number): void {
  const file = join(root, path);
  if (!isInside(root, file)) throw new Error(`${path} is not in the skill's folder`);
  makeReadableFolder(dirname(file));
  writeFileSync(file, bytes, { flag: "wx" });
  chmodSync(file, mode);
}

/** What nobody used for a month goes, and what a run left that was killed while it wrote. */
function removeUnusedCopies(store: string): void {
  const now = Date.now();
  for (const name of readdirSync(store)) {
    const path = join(store, name);
    const age = now - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now);
    if (age > (name.startsWith(".") ? 60 * 60 * 1000 : MAX_UNUSED_MS)) rmSync(path, { recursive: true, force: true });
  }
}

function touchFolder(folder: string): void {
  try {
    const now = new Date();
    utimesSync(folder, now, now);
  } catch {
    // Root's own, and so not swept by this user.
  }
}

function createStoreError(store: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `A copy of the skill cannot be put into ${store}: ${getErrorMessage(cause)}`,
    fix: "check that the folder can be written to, and that there is room",
    cause,
  });
}

/** Where roots are kept. */
export interface PackageFolders {
  /** What this user builds. */
  own: string;
  /** What root built for everybody. Only read. */
  shared: string | undefined;
}

/** Root builds for everybody, any other user for itself; SKILLET_PACKAGES names another folder to build in. */
export function resolvePackageFolders({ skilletHome, env }: Pick<Environment, "skilletHome" | "env">): PackageFolders {
  const given = env["SKILLET_PACKAGES"];
  const own = given ? resolve(given) : join(getSandboxFolder(skilletHome), "packages");
  const shared = join(SYSTEM_SANDBOX_FOLDER, "packages");
  return { own, shared: own === shared ? undefined : shared };
}

const PACKAGE_SUBFOLDERS = ["bases", "layers", "sets", "staging", "apt", "libraries", "locks"] as const;

/** Throws where others could change what is built, or lead what is written elsewhere. */
export function makePackageFolder(place: string): void {
  const folders = PACKAGE_SUBFOLDERS.map((folder) => join(place, folder));
  for (const folder of folders) makeReadableFolder(folder);
  if (areTrustedFolders(place, ...folders)) return;
  throw new SkillError("package-place", {
    message: `${place} is somebody else's, or others can write to it: nothing is built there`,
    fix: `\`chmod go-w\` it and the folders in it, or name another one in SKILLET_PACKAGES`,
  });
}

/** Whether none but root and this user can have changed what is in these folders. */
export function areTrustedFolders(...folders: string[]): boolean {
  return folders.every((folder) => {
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    const isOwned = stat?.uid === 0 || stat?.uid === process.getuid?.();
    return stat?.isDirectory() === true && isOwned && (stat.mode & 0o022) === 0;
  });
}
