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
import { isRoot } from "../../sandbox/places.ts";
import { codeOf } from "../../shared/inside.ts";
import type { Entry } from "./snapshot.ts";
import { bytesOf } from "./walk-workspace.ts";

/** A folder that was opened without following links, and what its entries are reached by: nobody can put another in its place. */
export interface OpenFolder {
  place: string;
  /** Where folders have descriptors that lead into them. */
  fd?: number;
  close(): void;
}

/** `O_PATH`: a folder that cannot be listed can be entered all the same. */
const O_PATH = 0o10000000;
const IS_LINUX = process.platform === "linux";
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0;
const FOLDER = constants.O_DIRECTORY | (constants.O_NOFOLLOW ?? 0) | (IS_LINUX ? O_PATH : constants.O_RDONLY);

export interface ParentOptions {
  /** Makes folders that are missing. `onBlocked` moves away what is there and is no folder. */
  make?: { onBlocked(path: string): void };
}

/** Calls `work` with the place of a path whose parents are real folders of the workspace. Throws where they are not. */
export function atPlace<T>(root: string, path: string, work: (place: string) => T, { make }: ParentOptions = {}): T {
  const names = path.split("/");
  const last = names.pop() ?? "";
  let folder = openFolder(root);
  try {
    for (const [index, name] of names.entries()) {
      const next = stepInto(folder, name, make && (() => make.onBlocked(names.slice(0, index + 1).join("/"))));
      folder.close();
      folder = next;
    }
    return withRights(folder.place, () => work(`${folder.place}/${last}`));
  } finally {
    folder.close();
  }
}

export function openFolder(place: string): OpenFolder {
  if (!IS_LINUX) {
    closeSync(openSync(bytesOf(place), FOLDER));
    return { place, close: () => {} };
  }
  const fd = openSync(bytesOf(place), FOLDER);
  return { place: `/proc/self/fd/${fd}`, fd, close: () => closeSync(fd) };
}

function stepInto({ place }: OpenFolder, name: string, onBlocked: (() => void) | undefined): OpenFolder {
  const next = `${place}/${name}`;
  try {
    return openFolder(next);
  } catch (error) {
    const isBlocked = ["ENOTDIR", "ELOOP"].includes(codeOf(error));
    if (!onBlocked || !(isBlocked || codeOf(error) === "ENOENT")) throw error;
    if (isBlocked) onBlocked();
    withRights(place, () => mkdirSync(bytesOf(next)));
    const made = openFolder(next);
    giveTo(made.place, ownerOf(place));
    return made;
  }
}

function inFolder<T>(place: string, work: (inside: string) => T): T {
  const folder = openFolder(place);
  try {
    return work(folder.place);
  } finally {
    folder.close();
  }
}

/** Calls `work` with a path that leads to what is at a place now, whatever is put there meanwhile. */
function holding<T>(place: string, work: (held: string) => T): T {
  if (!IS_LINUX) return work(place);
  const fd = openSync(bytesOf(place), O_PATH | NO_FOLLOW);
  try {
    return work(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}

/** Lets the owner use an open folder or file. */
function openRights(held: string, needed: number): void {
  const { mode } = lstatOrFd(held);
  if ((mode & needed) !== needed) chmodSync(bytesOf(held), (mode & 0o7777) | needed);
}

/** Code can take the right to write from a folder of its user's. */
function withRights<T>(place: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!["EACCES", "EPERM"].includes(codeOf(error))) throw error;
    const { mode } = lstatOrFd(place);
    chmodSync(bytesOf(place), (mode & 0o7777) | 0o700);
    try {
      return work();
    } finally {
      chmodSync(bytesOf(place), mode & 0o7777);
    }
  }
}

function lstatOrFd(place: string) {
  const fd = /^\/proc\/self\/fd\/(\d+)$/.exec(place)?.[1];
  return fd === undefined ? lstatSync(bytesOf(place)) : fstatSync(Number(fd));
}

function ownerOf(place: string): Entry["owner"] {
  const { uid, gid } = lstatOrFd(place);
  return [uid, gid];
}

function giveTo(place: string, [uid, gid]: Entry["owner"]): void {
  if (isRoot()) chownSync(bytesOf(place), uid, gid);
}

/** Moves a file, folder or link. Contract: what is at `from` is not followed, and nothing is at `to`. */
export function moveTree(from: string, to: string): void {
  try {
    // To rename a folder is to write to it.
    if (lstatSync(bytesOf(from)).isDirectory()) inFolder(from, (inside) => openRights(inside, 0o700));
    renameSync(bytesOf(from), bytesOf(to));
  } catch (error) {
    if (codeOf(error) !== "EXDEV") throw error;
    try {
      copyTree(from, to);
    } catch (failed) {
      removeTree(to);
      throw failed;
    }
    removeTree(from);
  }
}

/** Copies without following links, also while others swap them. Sockets, pipes and devices have nothing to copy. */
export function copyTree(from: string, to: string): void {
  const stats = lstatSync(bytesOf(from));
  if (stats.isSymbolicLink()) symlinkSync(readlinkSync(bytesOf(from), "buffer"), bytesOf(to));
  if (stats.isFile()) holding(from, (source) => copyFile(source, to));
  if (!stats.isDirectory()) return;
  inFolder(from, (source) => {
    openRights(source, 0o700);
    mkdirSync(bytesOf(to), { mode: 0o700 });
    inFolder(to, (target) => {
      for (const name of readdirSync(bytesOf(source), "latin1")) copyTree(`${source}/${name}`, `${target}/${name}`);
    });
  });
}

const CHUNK_BYTES = 1024 * 1024;

/** Contract: `source` leads to what was opened without following links. */
function copyFile(source: string, to: string): void {
  openRights(source, 0o400);
  const input = openSync(bytesOf(source), constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const { mode, atimeMs, mtimeMs } = fstatSync(input);
    const output = openSync(bytesOf(to), "wx", 0o600);
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
export function removeTree(place: string): void {
  const stats = lstatSync(bytesOf(place), { throwIfNoEntry: false });
  if (!stats) return;
  if (!stats.isDirectory()) {
    unlinkSync(bytesOf(place));
    return;
  }
  inFolder(place, (inside) => {
    openRights(inside, 0o700);
    for (const name of readdirSync(bytesOf(inside), "latin1")) removeTree(`${inside}/${name}`);
  });
  rmdirSync(bytesOf(place));
}

/** Gives a tree to the owner of the folder that it is in, where the caller is root. */
export function giveToOwnerOf(folder: string, place: string): void {
  if (!isRoot()) return;
  const { uid, gid } = lstatSync(bytesOf(folder));
  const give = (path: string) => {
    const stats = lstatSync(bytesOf(path));
    if (stats.isSymbolicLink()) return;
    holding(path, (held) => chownSync(bytesOf(held), uid, gid));
    if (!stats.isDirectory()) return;
    inFolder(path, (inside) => {
      for (const name of readdirSync(bytesOf(inside), "latin1")) give(`${inside}/${name}`);
    });
  };
  give(place);
}

/** Writes an entry as it was before. Contract: nothing is at its place. Returns false for what cannot be made again. */
export function writeEntry(place: string, { kind, bytes, mode, owner, mtimeMs }: Entry): boolean {
  const target = bytesOf(place);
  if (kind === "folder") {
    mkdirSync(target);
    inFolder(place, (made) => {
      giveTo(made, owner);
      chmodSync(bytesOf(made), mode);
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
