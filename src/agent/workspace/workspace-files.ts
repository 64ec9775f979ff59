import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { getErrnoCode } from "../../errors/problem.ts";
import { isRoot } from "../../sandbox/sandbox-folders.ts";
import { readStatsAt, toPathBytes } from "./walk-workspace.ts";
import type { SnapshotEntry } from "./workspace-snapshot.ts";

/** A folder opened without following links, and the path to its entries. It cannot be replaced while it is open. */
interface FolderDescriptor {
  path: string;
  /** Set on platforms where a descriptor leads into its folder. */
  fd?: number;
  close(): void;
}

/** `O_PATH`: allows entering a folder that cannot be listed. */
const O_PATH = 0o10000000;
const IS_LINUX = process.platform === "linux";
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const FOLDER_FLAGS = constants.O_DIRECTORY | (constants.O_NOFOLLOW ?? 0) | (IS_LINUX ? O_PATH : constants.O_RDONLY);

interface SafeParentOptions {
  /** Creates missing folders. `onBlocked` moves a file out of the way. */
  make?: { onBlocked(path: string): void };
}

/** Calls `work` with a path whose parents are real folders of the workspace. Throws if they are not. */
export function withSafeParent<T>(
  root: string,
  path: string,
  work: (path: string) => T,
  { make }: SafeParentOptions = {},
): T {
  const names = path.split("/");
  const last = names.pop() ?? "";
  let folder = openFolderDescriptor(root);
  try {
    for (const [index, name] of names.entries()) {
      const next = openChildFolder(folder, name, make && (() => make.onBlocked(names.slice(0, index + 1).join("/"))));
      folder.close();
      folder = next;
    }
    return retryWithRights(folder.path, () => work(`${folder.path}/${last}`));
  } finally {
    folder.close();
  }
}

function openFolderDescriptor(path: string): FolderDescriptor {
  if (!IS_LINUX) {
    closeSync(openSync(toPathBytes(path), FOLDER_FLAGS));
    return { path, close: () => {} };
  }
  const fd = openSync(toPathBytes(path), FOLDER_FLAGS);
  return { path: `/proc/self/fd/${fd}`, fd, close: () => closeSync(fd) };
}

function openChildFolder(
  { path }: FolderDescriptor,
  name: string,
  onBlocked: (() => void) | undefined,
): FolderDescriptor {
  const next = `${path}/${name}`;
  try {
    return openFolderDescriptor(next);
  } catch (error) {
    const isBlocked = ["ENOTDIR", "ELOOP"].includes(getErrnoCode(error));
    if (!onBlocked || !(isBlocked || getErrnoCode(error) === "ENOENT")) throw error;
    if (isBlocked) onBlocked();
    retryWithRights(path, () => mkdirSync(toPathBytes(next)));
    const child = openFolderDescriptor(next);
    chownTo(child.path, readOwner(path));
    return child;
  }
}

function withFolderPath<T>(path: string, work: (inside: string) => T): T {
  const folder = openFolderDescriptor(path);
  try {
    return work(folder.path);
  } finally {
    folder.close();
  }
}

/** Calls `work` with a path to the current content, even if another process replaces it meanwhile. */
function withHeldPath<T>(path: string, work: (held: string) => T): T {
  if (!IS_LINUX) return work(path);
  const fd = openSync(toPathBytes(path), O_PATH | NO_FOLLOW);
  try {
    return work(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

/** Gives the owner access to an open folder or file. */
function addRights(held: string, needed: number): void {
  const { mode } = readPlaceStats(held);
  if ((mode & needed) !== needed) chmodSync(toPathBytes(held), (mode & 0o7777) | needed);
}

/** Retries with write permission: code can remove it from a folder of its user. */
function retryWithRights<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!["EACCES", "EPERM"].includes(getErrnoCode(error))) throw error;
    const { mode } = readPlaceStats(path);
    chmodSync(toPathBytes(path), (mode & 0o7777) | 0o700);
    try {
      return work();
    } finally {
      chmodSync(toPathBytes(path), mode & 0o7777);
    }
  }
}

function readPlaceStats(path: string) {
  const fd = /^\/proc\/self\/fd\/(\d+)$/.exec(path)?.[1];
  return fd === undefined ? lstatSync(toPathBytes(path)) : fstatSync(Number(fd));
}

function readOwner(path: string): SnapshotEntry["owner"] {
  const { uid, gid } = readPlaceStats(path);
  return [uid, gid];
}

function chownTo(path: string, [uid, gid]: SnapshotEntry["owner"]): void {
  if (isRoot()) chownSync(toPathBytes(path), uid, gid);
}

/** Moves a file, folder or link. Contract: `from` is not followed if it is a link, and nothing exists at `to`. */
export function moveWorkspaceTree(from: string, to: string): void {
  try {
    // Renaming a folder requires write access to it.
    if (lstatSync(toPathBytes(from)).isDirectory()) withFolderPath(from, (inside) => addRights(inside, 0o700));
    renameSync(toPathBytes(from), toPathBytes(to));
  } catch (error) {
    if (getErrnoCode(error) !== "EXDEV") throw error;
    try {
      copyWorkspaceTree(from, to);
    } catch (failed) {
      removeWorkspaceTree(to);
      throw failed;
    }
    removeWorkspaceTree(from);
  }
}

/** Copies without following links, even if other processes swap them. Sockets, pipes and devices are skipped. */
export function copyWorkspaceTree(from: string, to: string): void {
  const stats = lstatSync(toPathBytes(from));
  if (stats.isSymbolicLink()) symlinkSync(readlinkSync(toPathBytes(from), "buffer"), toPathBytes(to));
  if (stats.isFile()) withHeldPath(from, (source) => copyHeldFile(source, to));
  if (!stats.isDirectory()) return;
  withFolderPath(from, (source) => {
    addRights(source, 0o700);
    mkdirSync(toPathBytes(to), { mode: 0o700 });
    withFolderPath(to, (target) => {
      for (const name of readdirSync(toPathBytes(source), "latin1"))
        copyWorkspaceTree(`${source}/${name}`, `${target}/${name}`);
    });
  });
}

const CHUNK_BYTES = 1024 * 1024;

/** Copies a file. Contract: `source` was opened without following links. */
function copyHeldFile(source: string, to: string): void {
  addRights(source, 0o400);
  const input = openSync(toPathBytes(source), constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const { mode, atimeMs, mtimeMs } = fstatSync(input);
    const output = openSync(toPathBytes(to), "wx", 0o600);
    try {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (let read = readSync(input, chunk); read > 0; read = readSync(input, chunk)) {
        for (let at = 0; at < read; ) at += writeSync(output, chunk, at, read - at);
      }
      fchmodSync(output, (mode & 0o7777) | 0o600);
      futimesSync(output, atimeMs / 1000, mtimeMs / 1000);
    } finally {
      closeSync(output);
    }
  } finally {
    closeSync(input);
  }
}

/** Removes without following links, even if other processes swap them. */
export function removeWorkspaceTree(path: string): void {
  const stats = lstatSync(toPathBytes(path), { throwIfNoEntry: false });
  if (!stats) return;
  if (!stats.isDirectory()) {
    unlinkSync(toPathBytes(path));
    return;
  }
  withFolderPath(path, (inside) => {
    addRights(inside, 0o700);
    for (const name of readdirSync(toPathBytes(inside), "latin1")) removeWorkspaceTree(`${inside}/${name}`);
  });
  rmdirSync(toPathBytes(path));
}

/** Makes the owner of the parent folder the owner of a tree, if the caller is root. */
export function chownTreeLike(folder: string, path: string): void {
  if (!isRoot()) return;
  const { uid, gid } = lstatSync(toPathBytes(folder));
  const give = (path: string) => {
    const stats = lstatSync(toPathBytes(path));
    if (stats.isSymbolicLink()) return;
    withHeldPath(path, (held) => chownSync(toPathBytes(held), uid, gid));
    if (!stats.isDirectory()) return;
    withFolderPath(path, (inside) => {
      for (const name of readdirSync(toPathBytes(inside), "latin1")) give(`${inside}/${name}`);
    });
  };
  give(path);
}

/** Restores an entry. Contract: nothing exists at its path. Returns false for an entry that cannot be restored. */
export function writeSnapshotEntry(path: string, { kind, bytes, mode, owner, mtimeMs }: SnapshotEntry): boolean {
  const target = toPathBytes(path);
  if (kind === "folder") {
    mkdirSync(target);
    withFolderPath(path, (folder) => {
      chownTo(folder, owner);
      chmodSync(toPathBytes(folder), mode);
    });
    return true;
  }
  if (kind === "link" && bytes) {
    symlinkSync(bytes, target);
    return true;
  }
  if (kind !== "file" || !bytes) return false;
  const fd = openSync(target, "wx", 0o600);
  try {
    writeFileSync(fd, bytes);
    if (isRoot()) fchownSync(fd, ...owner);
    fchmodSync(fd, mode);
    futimesSync(fd, mtimeMs / 1000, mtimeMs / 1000);
  } finally {
    closeSync(fd);
  }
  return true;
}

/** Temporarily gives the owner of folders the permission to read them. */
export interface FolderRights {
  /** Opens a folder until `restore` is called. Contract: its parents were opened before. Never throws. */
  open(path: string): void;
  /** Returns the original mode of a folder, if it was changed. */
  modeBefore(path: string): number | undefined;
  /** Restores the mode of all folders that still exist. Never throws. */
  restore(): void;
}

const OWNER_RIGHTS = 0o700;

/**
 * Creates temporary folder permissions. Code can remove permissions from a folder of the user, and programs would still find its content by
 * name. Root needs no permissions. Modes are changed through descriptors, so that no link can take a folder's place meanwhile.
 */
export function createFolderRights(root: string): FolderRights {
  const changed: { path: string; id: string; mode: number }[] = [];
  const user = process.getuid?.();
  const toFullPath = (path: string) => (path === "" ? root : `${root}/${path}`);
  return {
    open(path) {
      if (isRoot()) return;
      const stats = readStatsAt(toPathBytes(toFullPath(path)));
      if (!stats?.isDirectory() || stats.uid !== user || (stats.mode & OWNER_RIGHTS) === OWNER_RIGHTS) return;
      withOpenFolder(toFullPath(path), (folder) => {
        const { dev, ino, mode, uid } = readDescriptorStats(folder);
        if (uid !== user) return;
        chmodSync(toPathBytes(folder.path), (mode & 0o7777) | OWNER_RIGHTS);
        changed.push({ path, id: `${dev}:${ino}`, mode: mode & 0o7777 });
      });
    },
    modeBefore: (path) => changed.find((one) => one.path === path)?.mode,
    restore() {
      for (const { path, id, mode } of changed.splice(0).reverse()) {
        withOpenFolder(toFullPath(path), (folder) => {
          const { dev, ino } = readDescriptorStats(folder);
          if (`${dev}:${ino}` === id) chmodSync(toPathBytes(folder.path), mode);
        });
      }
    },
  };
}

function withOpenFolder(path: string, work: (folder: FolderDescriptor) => void): void {
  let folder: FolderDescriptor | undefined;
  try {
    folder = openFolderDescriptor(path);
    work(folder);
  } catch (error) {
    // The folder was removed or replaced.
    if (getErrnoCode(error) === "") throw error;
  } finally {
    folder?.close();
  }
}

function readDescriptorStats({ fd, path }: FolderDescriptor) {
  return fd === undefined ? lstatSync(toPathBytes(path)) : fstatSync(fd);
}
