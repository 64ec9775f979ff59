import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";

export type PathErrorCode =
  | "outside"
  | "not-found"
  | "not-a-file"
  | "symlink-loop"
  | "too-large"
  | "unreadable"
  | "changed";
export interface PathProblem {
  code: PathErrorCode;
  message: string;
  /** The message without the path, if it names one. */
  why?: string;
}
export type OpenedFile = { fd: number; stats: Stats } | PathProblem;
export type FileBytes = { bytes: Buffer; stats: Stats } | PathProblem;
/** Device and inode of a folder, which identify it even if its path now leads to another folder. */
export type FolderId = string;
/** The conditions under which a folder may be read. */
export interface ExpectedFolder {
  /** The expected id. Without it, no symlink may lead to the folder. */
  id?: FolderId | undefined;
  /** Follows symlinks to it. Contract: only with an `id`. */
  followsLinks?: boolean;
  /** The name of an entry that must be in it. */
  holds?: string;
}

/** Returns true if `path` is `root` or below it. Contract: both are absolute and normalized. */
export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** Returns the part of a path below `root`, or the empty string for `root` itself. Faster than `relative`. */
export function getPathBelow(root: string, path: string): string {
  return path.slice(root.endsWith(sep) ? root.length : root.length + 1);
}

/** Resolves symlinks in the part of a path that exists, and keeps the rest. */
export function resolveRealPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(resolveRealPath(parent), basename(path));
  }
}

/** Returns the id of the folder at a real path, or undefined if it does not exist. A symlink has its own id. */
export function statFolderId(path: string): FolderId | undefined {
  try {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    return stats && getFolderId(path, stats);
  } catch {
    return undefined;
  }
}

/** Returns the id of a folder from its stats. They are read again as big integers only if a number is not exact. */
export function getFolderId(path: string, { dev, ino }: Pick<Stats, "dev" | "ino">): FolderId | undefined {
  if (Number.isSafeInteger(dev) && Number.isSafeInteger(ino)) return `${dev}:${ino}`;
  const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && formatFolderId(stats);
}

/** Returns the `dirname` of a normalized absolute path. Called for each skill, and faster than `dirname`. */
export function getParentFolder(path: string): string {
  const end = path.lastIndexOf("/");
  return sep === "/" && end > 0 ? path.slice(0, end) : dirname(path);
}

/**
 * Returns `join` of a folder and a relative path without `.` parts. Faster for a normalized absolute folder: V8 spends milliseconds on
 * optimizing `join` in commands that call it a hundred times.
 */
export function joinBelow(folder: string, path: string): string {
  return isNormalized(folder) && path !== "" ? `${folder}/${path}` : join(folder, path);
}

/** Returns `resolve` of a path. Faster for a normalized absolute one. */
export function resolvePath(path: string): string {
  return isNormalized(path) ? path : resolve(path);
}

function isNormalized(path: string): boolean {
  return sep === "/" && /^(?:\/(?!\.{1,2}(?:\/|$))[^/]+)+$/.test(path);
}

/** Returns the id of the folder that a path leads to, following symlinks, or undefined if it does not exist. */
export function statLinkedFolderId(path: string): FolderId | undefined {
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats && formatFolderId(stats);
  } catch {
    return undefined;
  }
}

function formatFolderId({ dev, ino }: { dev: bigint; ino: bigint }): FolderId {
  return `${dev}:${ino}`;
}

/**
 * Reads a regular file of at most `limit` bytes below `root`, or returns the reason why not. Symlinks are followed while they stay
 * below `root`. Contract: `root` is a real path. No byte of a file outside is ever read, even if another process swaps symlinks, `root`
 * itself or a folder above it.
 */
export function readFileInside(root: string, path: string, limit: number, expected?: ExpectedFolder): FileBytes {
  const opened = openFileInside(root, path, expected);
  if ("code" in opened) return opened;
  try {
    const { size } = opened.stats;
    if (size > limit) return createPathProblem("too-large", path, `is ${size} bytes, more than ${limit}`);
    const bytes = Buffer.allocUnsafe(size);
    let length = 0;
    while (length < size) {
      const read = readSync(opened.fd, bytes, length, size - length, length);
      if (read === 0) break;
      length += read;
    }
    return { bytes: bytes.subarray(0, length), stats: opened.stats };
  } catch (error) {
    return createPathProblem("unreadable", path, `cannot be read: ${getErrorMessage(error)}`);
  } finally {
    closeSync(opened.fd);
  }
}

/** Opens a regular file below `root`. The caller closes it. */
export function openFileInside(root: string, path: string, expected?: ExpectedFolder): OpenedFile {
  if (path === "" || path.includes("\0")) return createPathProblem("not-found", path, "is not a file name");
  if (isAbsolute(path) || /^[a-z]:/i.test(path))
    return createPathProblem("outside", path, "is not relative to the folder");
  const folder = openExpectedFolder(root, expected);
  if ("code" in folder) return { ...folder, message: `"${path}" ${folder.message}` };
  return folder.at === root ? openAndCompare(folder, root, path) : openByWalking(folder.fd, root, path);
}

/** An open folder. Where file descriptors have paths, `at` refers to this folder even if its path is replaced. */
export interface OpenedFolder {
  fd: number;
  at: string;
}

/** Opens a folder if it is the expected one. The caller closes it. The message of a problem starts with a verb. */
export function openExpectedFolder(
  root: string,
  { id, holds, followsLinks }: ExpectedFolder = {},
): OpenedFolder | PathProblem {
  let fd: number;
  try {
    fd = openSync(root, followsLinks ? FOLDER_FLAGS & ~(constants.O_NOFOLLOW ?? 0) : FOLDER_FLAGS);
  } catch (error) {
    const isReplaced = ["ELOOP", "ENOTDIR"].includes(getErrnoCode(error));
    return isReplaced ? createReplacedProblem() : classifyOpenError(error);
  }
  const at = existsSync("/proc/self/fd") ? `/proc/self/fd/${fd}` : root;
  try {
    // The id alone is not enough: a symlink above it may already have led to another folder when the id was read.
    const isAtRoot = () => (at === root ? realpathSync.native(root) : readlinkSync(at)) === root;
    const isSame =
      (id === undefined || formatFolderId(fstatSync(fd, { bigint: true })) === id) &&
      (followsLinks || (id !== undefined && at === root) || isAtRoot());
    if (isSame && (holds === undefined || lstatSync(`${at}/${holds}`))) return { fd, at };
  } catch {
    // It no longer exists, so it is not the expected one.
  }
  closeSync(fd);
  return createReplacedProblem();
}

function createReplacedProblem(): PathProblem {
  return { code: "changed", message: "is not read: its folder was replaced" };
}

/** Opens a folder in an open folder. Throws if it is not a folder, or a symlink to one. */
export function openSubfolder({ at }: OpenedFolder, name: string): OpenedFolder {
  const path = `${at}/${name}`;
  const fd = openSync(path, FOLDER_FLAGS);
  return { fd, at: existsSync("/proc/self/fd") ? `/proc/self/fd/${fd}` : path };
}

const MAX_LINKS = 40;
const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const FOLDER_FLAGS = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0);

// Checking a path and then opening it leaves a gap in which a symlink can be swapped. Here every component is opened below the
// descriptor of the one before it, and the kernel follows none, so the checked file is the one that is read.
function openByWalking(top: number, root: string, path: string): OpenedFile {
  const folders = [top];
  let rest = path.split("/");
  let links = 0;
  try {
    for (;;) {
      const name = rest.shift();
      if (name === undefined) return createPathProblem("not-a-file", path, "is a folder");
      if (name === "" || name === ".") continue;
      if (name === "..") {
        const current = folders.pop();
        if (current !== undefined) closeSync(current);
        if (folders.length === 0) return createPathProblem("outside", path, "leaves the folder");
        continue;
      }
      const here = `/proc/self/fd/${folders.at(-1)}/${name}`;
      let fd: number;
      try {
        fd = openSync(here, READ_FLAGS);
      } catch (error) {
        if (getErrnoCode(error) !== "ELOOP") return createOpenProblem(path, error);
        if (++links > MAX_LINKS) return createPathProblem("symlink-loop", path, "is an endless chain of symlinks");
        const target = readlinkSync(here);
        if (isAbsolute(target)) {
          if (!isInside(root, target)) return createPathProblem("outside", path, "is a symlink that leaves the folder");
          for (const folder of folders.splice(1)) closeSync(folder);
          rest = [...relative(root, target).split("/"), ...rest];
        } else {
          rest = [...target.split("/"), ...rest];
        }
        continue;
      }
      const stats = fstatSync(fd);
      if (stats.isDirectory()) {
        folders.push(fd);
        continue;
      }
      if (stats.isFile() && rest.every((part) => part === "" || part === ".")) return { fd, stats };
      closeSync(fd);
      return stats.isFile()
        ? createPathProblem("not-found", path, "does not exist")
        : createPathProblem("not-a-file", path, "is not a regular file");
    }
  } catch (error) {
    return createOpenProblem(path, error);
  } finally {
    for (const folder of folders) closeSync(folder);
  }
}

// Where descriptors have no path (macOS, Windows): resolve the path, open the file, resolve again and compare. The folder is kept open
// meanwhile, and must still be at its path.
function openAndCompare(folder: OpenedFolder, root: string, path: string): OpenedFile {
  try {
    const real = realpathSync(join(root, path));
    if (!isInside(root, real)) return createPathProblem("outside", path, "leaves the folder");
    const fd = openSync(real, READ_FLAGS);
    const stats = fstatSync(fd);
    const isThere = statFolderId(root) === formatFolderId(fstatSync(folder.fd, { bigint: true }));
    if (stats.isFile() && isThere && realpathSync(join(root, path)) === real) return { fd, stats };
    closeSync(fd);
    return stats.isFile()
      ? createPathProblem("outside", path, "changed while it was opened")
      : createPathProblem("not-a-file", path, "is not a regular file");
  } catch (error) {
    return createOpenProblem(path, error);
  } finally {
    closeSync(folder.fd);
  }
}

function createOpenProblem(path: string, error: unknown): PathProblem {
  const { code, message } = classifyOpenError(error);
  return createPathProblem(code, path, message);
}

function classifyOpenError(error: unknown): PathProblem {
  switch (getErrnoCode(error)) {
    case "ENOENT":
    case "ENOTDIR":
    case "ENAMETOOLONG":
      return { code: "not-found", message: "does not exist" };
    case "ELOOP":
      return { code: "symlink-loop", message: "is an endless chain of symlinks" };
    case "ENXIO":
    case "EISDIR":
      return { code: "not-a-file", message: "is not a regular file" };
    default:
      return { code: "unreadable", message: `cannot be read: ${getErrorMessage(error)}` };
  }
}

function createPathProblem(code: PathErrorCode, path: string, why: string): PathProblem {
  return { code, message: `"${path}" ${why}`, why };
}
