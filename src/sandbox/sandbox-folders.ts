import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Mount, Sandbox } from "../host/sandbox-contract.ts";
import type { Environment } from "../skill/source/locations.ts";
import type { SkillCopy } from "../skill/source/skill-copy.ts";
import { withFileLock } from "../store/locked-file.ts";
import { createFolder, readRegularFile } from "../util/file-access.ts";
import { isInside } from "../util/safe-path.ts";

/**
 * Returns the folder with the parts of sandboxes: copies of skills and package layers. For root it is outside root's
 * home, since code never runs as root and must read it.
 */
export function getSandboxFolder(skilletHome: string): string {
  return isRoot() ? SYSTEM_SANDBOX_FOLDER : skilletHome;
}

export const SYSTEM_SANDBOX_FOLDER = "/var/lib/skillet";

/** The unprivileged user that code runs as if the caller is root and no other user IDs are available. */
export const NOBODY_UID = 65534;

/**
 * User IDs without an account: neither distributions nor systemd use this range. Each process has 64 of them for its
 * runs.
 */
const RUN_USERS = { first: 0x7000_0000, count: 0x1000_0000, ofProcess: 64 };

let usedRunUsers = 0;
let hasRunUsers: boolean | undefined;

/**
 * Returns a user ID for one run if the caller is root: what the kernel counts per user, such as inotify instances, then
 * counts for this run alone. Returns `NOBODY_UID` if the caller is root of a namespace without such IDs.
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
 * Copies a skill's files to a folder that code may read, named by their digest, and returns it. An existing copy stays
 * unchanged: a run sees the bytes that were checked, even if the original changes meanwhile.
 */
export function storeSkillCopy(copy: SkillCopy, store: string): string {
  const folder = join(store, `${copy.digest.replace("sha256:", "")}${copy.isPartial ? "-run" : ""}`);
  if (existsSync(folder)) {
    touchFolder(folder);
    return folder;
  }
  const draft = join(store, `.${randomUUID()}`);
  try {
    makeReadableFolder(store);
    chmodSync(store, isRoot() ? 0o711 : 0o700); // A user who cannot list the folder cannot find copies of private skills.
    for (const [path, { bytes, executable }] of copy.files)
      writeStoredFile(draft, path, bytes, executable ? 0o755 : 0o644);
    renameSync(draft, folder);
  } catch (error) {
    if (existsSync(draft)) rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw createStoreError(store, error); // Another run may have created it just now.
  }
  removeUnusedCopies(store);
  return folder;
}

/**
 * Stores a copy for code that is not prevented from writing to it: a copy that differs from the checked files is
 * replaced.
 */
export function storeVerifiedCopy(copy: SkillCopy, store: string): string {
  const folder = storeSkillCopy(copy, store);
  if (isUnmodified(folder, copy)) return folder;
  return withFileLock(`${folder}.mending`, () => {
    if (isUnmodified(folder, copy)) return folder;
    if (existsSync(folder)) renameSync(folder, join(store, `.${randomUUID()}`)); // Runs that read it continue; it is removed later.
    return storeSkillCopy(copy, store);
  });
}

function isUnmodified(folder: string, { files }: SkillCopy): boolean {
  try {
    const existing = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
      (entry) => !entry.isDirectory(),
    );
    if (existing.length !== files.size) return false;
    return [...files].every(([path, { bytes }]) =>
      readRegularFile(join(folder, path), { limit: bytes.length, refusesLinks: true }).equals(bytes),
    );
  } catch {
    return false;
  }
}

/** Creates a folder that code may read, whatever the umask. */
export function makeReadableFolder(path: string): void {
  if (existsSync(path)) return;
  makeReadableFolder(dirname(path));
  createFolder(path);
  chmodSync(path, 0o755);
}

function writeStoredFile(root: string, path: string, bytes: Uint8Array, mode: number): void {
  const file = join(root, path);
  if (!isInside(root, file)) throw new Error(`${path} is not in the skill's folder`);
  makeReadableFolder(dirname(file));
  writeFileSync(file, bytes, { flag: "wx" });
  chmodSync(file, mode);
}

/** Removes copies unused for a month, and drafts of runs that were killed while writing. */
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
    // The folder belongs to root, so this user does not remove it.
  }
}

function createStoreError(store: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `The skill cannot be copied to ${store}: ${getErrorMessage(cause)}`,
    fix: "check that the folder is writable and the disk has free space",
    cause,
  });
}

/** The folders of package builds. */
export interface PackageFolders {
  /** The folder that this user builds in. */
  own: string;
  /** Packages that root built for all users. Read-only. */
  shared: string | undefined;
}

/**
 * Resolves the package folders: root builds for all users, any other user for itself. SKILLET_PACKAGES sets another
 * folder to build in.
 */
export function resolvePackageFolders({ skilletHome, env }: Pick<Environment, "skilletHome" | "env">): PackageFolders {
  const configured = env["SKILLET_PACKAGES"];
  const own = configured ? resolve(configured) : join(getSandboxFolder(skilletHome), "packages");
  const shared = join(SYSTEM_SANDBOX_FOLDER, "packages");
  return { own, shared: own === shared ? undefined : shared };
}

const PACKAGE_SUBFOLDERS = ["bases", "layers", "sets", "staging", "apt", "libraries", "locks"] as const;

/** Creates the package folder. Throws if other users could change what is built, or redirect writes. */
export function makePackageFolder(root: string): void {
  const folders = PACKAGE_SUBFOLDERS.map((folder) => join(root, folder));
  for (const folder of folders) makeReadableFolder(folder);
  if (areTrustedFolders(root, ...folders)) return;
  throw new SkillError("package-folder-permissions", {
    message: `${root} belongs to another user, or other users can write to it: nothing is built there`,
    fix: `run \`chmod go-w\` on it and its subfolders, or set SKILLET_PACKAGES to another folder`,
  });
}

/** Returns true if only root and this user can have changed the content of these folders. */
export function areTrustedFolders(...folders: string[]): boolean {
  return folders.every((folder) => {
    const stat = lstatSync(folder, { throwIfNoEntry: false });
    const isOwned = stat?.uid === 0 || stat?.uid === process.getuid?.();
    return stat?.isDirectory() === true && isOwned && (stat.mode & 0o022) === 0;
  });
}

/** Maps a mount target path to the path that code in this sandbox must use. */
export function mapSandboxPath(sandbox: Sandbox, mounts: readonly Mount[], path: string): string {
  if (sandbox.mapsPaths) return path;
  const mount = mounts.find(({ to }) => isInside(to, path));
  return mount ? join(mount.from, relative(mount.to, path)) : path;
}
