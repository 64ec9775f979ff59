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

/** A folder that was opened without following links, and what its entries are reached by: nobody can put another in its place. */
interface FolderDescriptor {
  place: string;
  /** Where folders have descriptors that lead into them. */
  fd?: number;
  close(): void;
}

/** `O_PATH`: a folder that cannot be listed can be entered all the same. */
const O_PATH = 0o10000000;
const IS_LINUX = process.platform === "linux";
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const FOLDER_FLAGS = constants.O_DIRECTORY | (constants.O_NOFOLLOW ?? 0) | (IS_LINUX ? O_PATH : constants.O_RDONLY);

interface SafeParentOptions {
  /** Makes folders that are missing. `onBlocked` moves away what is there and is no folder. */
  make?: { onBlocked(path: string): void };
}

/** Calls `work` with the place of a path whose parents are real folders of the workspace. Throws where they are not. */
export function withSafeParent<T>(
  root: string,
  path: string,
  work: (place: string) => T,
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
    return retryWithRights(folder.place, () => work(`${folder.place}/${last}`));
  } finally {
    folder.close();
  }
}

function openFolderDescriptor(place: string): FolderDescriptor {
  if (!IS_LINUX) {
    closeSync(openSync(toPathBytes(place), FOLDER_FLAGS));
    return { place, close: () => {} };
  }
  const fd = openSync(toPathBytes(place), FOLDER_FLAGS);
  return { place: `/proc/self/fd/${fd}`, fd, close: () => closeSync(fd) };
}

function openChildFolder(
  { place }: FolderDescriptor,
  name: string,
  onBlocked: (() => void) | undefined,
): FolderDescriptor {
  const next = `${place}/${name}`;
  try {
    return openFolderDescriptor(next);
  } catch (error) {
    const isBlocked = ["ENOTDIR", "ELOOP"].includes(getErrnoCode(error));
    if (!onBlocked || !(isBlocked || getErrnoCode(error) === "ENOENT")) throw error;
    if (isBlocked) onBlocked();
    retryWithRights(place, () => mkdirSync(toPathBytes(next)));
    const made = openFolderDescriptor(next);
    chownTo(made.place, readOwner(place));
    return made;
  }
}

function withFolderPath<T>(place: string, work: (inside: string) => T): T {
  const folder = openFolderDescriptor(place);
  try {
    return work(folder.place);
  } finally {
    folder.close();
  }
}

/** Calls `work` with a path that leads to what is at a place now, whatever is put there meanwhile. */
function withHeldPath<T>(place: string, work: (held: string) => T): T {
  if (!IS_LINUX) return work(place);
  const fd = openSync(toPathBytes(place), O_PATH | NO_FOLLOW);
  try {
    return work(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

/** Lets the owner use an open folder or file. */
function addRights(held: string, needed: number): void {
  const { mode } = readPlaceStats(held);
  if ((mode & needed) !== needed) chmodSync(toPathBytes(held), (mode & 0o7777) | needed);
}

/** Code can take the right to write from a folder of its user's. */
function retryWithRights<T>(place: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!["EACCES", "EPERM"].includes(getErrnoCode(error))) throw error;
    const { mode } = readPlaceStats(place);
    chmodSync(toPathBytes(place), (mode & 0o7777) | 0o700);
    try {
      return work();
    } finally {
      chmodSync(toPathBytes(place), mode & 0o7777);
    }
  }
}

function readPlaceStats(place: string) {
  const fd = /^\/proc\/self\/fd\/(\d+)$/.exec(place)?.[1];
  return fd === undefined ? lstatSync(toPathBytes(place)) : fstatSync(Number(fd));
}

function readOwner(place: string): SnapshotEntry["owner"] {
  const { uid, gid } = readPlaceStats(place);
  return [uid, gid];
}

function chownTo(place: string, [uid, gid]: SnapshotEntry["owner"]): void {
  if (isRoot()) chownSync(toPathBytes(place), uid, gid);
}

/** Moves a file, folder or link. Contract: what is at `from` is not followed, and nothing is at `to`. */
export function moveWorkspaceTree(from: string, to: string): void {
  try {
    // To rename a folder is to write to it.
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

/** Copies without following links, also while others swap them. Sockets, pipes and devices have nothing to copy. */
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

/** Contract: `source` leads to what was opened without following links. */
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

/** Removes without following links, also while others swap them. */
export function removeWorkspaceTree(place: string): void {
  const stats = lstatSync(toPathBytes(place), { throwIfNoEntry: false });
  if (!stats) return;
  if (!stats.isDirectory()) {
    unlinkSync(toPathBytes(place));
    return;
  }
  withFolderPath(place, (inside) => {
    addRights(inside, 0o700);
    for (const name of readdirSync(toPathBytes(inside), "latin1")) removeWorkspaceTree(`${inside}/${name}`);
  });
  rmdirSync(toPathBytes(place));
}

/** Gives a tree to the owner of the folder that it is in, where the caller is root. */
export function chownTreeLike(folder: string, place: string): void {
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
  give(place);
}

/** Writes an entry as it was before. Contract: nothing is at its place. Returns false for what cannot be made again. */
export function writeSnapshotEntry(place: string, { kind, bytes, mode, owner, mtimeMs }: SnapshotEntry): boolean {
  const target = toPathBytes(place);
  if (kind === "folder") {
    mkdirSync(target);
    withFolderPath(place, (made) => {
      chownTo(made, owner);
      chmodSync(toPathBytes(made), mode);
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

/** Gives the owner of folders the right to look into them. */
export interface FolderRights {
  /** Opens a folder for as long as `restore` is not called. Contract: the folders above it were opened before. Never throws. */
  open(path: string): void;
  /** The mode that a folder had, where it was changed. */
  modeBefore(path: string): number | undefined;
  /** Gives all folders that are still there the mode that they had. Never throws. */
  restore(): void;
}

const OWNER_RIGHTS = 0o700;

/**
 * Code can take the rights from a folder of the user's, and programs would still find what is in it by its name. Root needs no rights. Modes
 * are changed through descriptors, so that nobody can put a link in a folder's place meanwhile.
 */
export function createFolderRights(root: string): FolderRights {
  const changed: { path: string; id: string; mode: number }[] = [];
  const user = process.getuid?.();
  const placeOf = (path: string) => (path === "" ? root : `${root}/${path}`);
  return {
    open(path) {
      if (isRoot()) return;
      const stats = readStatsAt(toPathBytes(placeOf(path)));
      if (!stats?.isDirectory() || stats.uid !== user || (stats.mode & OWNER_RIGHTS) === OWNER_RIGHTS) return;
      withOpenFolder(placeOf(path), (folder) => {
        const { dev, ino, mode, uid } = readDescriptorStats(folder);
        if (uid !== user) return;
        chmodSync(toPathBytes(folder.place), (mode & 0o7777) | OWNER_RIGHTS);
        changed.push({ path, id: `${dev}:${ino}`, mode: mode & 0o7777 });
      });
    },
    modeBefore: (path) => changed.find((one) => one.path === path)?.mode,
    restore() {
      for (const { path, id, mode } of changed.splice(0).reverse()) {
        withOpenFolder(placeOf(path), (folder) => {
          const { dev, ino } = readDescriptorStats(folder);
          if (`${dev}:${ino}` === id) chmodSync(toPathBytes(folder.place), mode);
        });
      }
    },
  };
}

function withOpenFolder(place: string, work: (folder: FolderDescriptor) => void): void {
  let folder: FolderDescriptor | undefined;
  try {
    folder = openFolderDescriptor(place);
    work(folder);
  } catch (error) {
    // It is gone, or was replaced.
    if (getErrnoCode(error) === "") throw error;
  } finally {
    folder?.close();
  }
}

function readDescriptorStats({ fd, place }: FolderDescriptor) {
  return fd === undefined ? lstatSync(toPathBytes(place)) : fstatSync(fd);
}
