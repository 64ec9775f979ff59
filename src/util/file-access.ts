import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";

interface RegularFileOptions {
  /** The maximum size in bytes. Defaults to 64 MiB. */
  limit?: number;
  /** Rejects a symlink. By default, symlinks are followed. */
  refusesLinks?: boolean;
  /** Called before anything is read. Its errors are passed on. */
  check?(stats: Stats): void;
}

const MAX_FILE_BYTES = 64 * 1024 * 1024;

/**
 * Reads a whole file that skillet owns. Throws if it is not a regular file or too large: a pipe or a device in its place would block
 * the command forever.
 */
export function readRegularFile(
  path: string,
  { limit = MAX_FILE_BYTES, refusesLinks, check }: RegularFileOptions = {},
): Buffer {
  const { O_RDONLY, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants;
  const fd = openSync(path, O_RDONLY | O_NONBLOCK | (refusesLinks ? O_NOFOLLOW : 0));
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is not a regular file");
    if (stats.size > limit) throw createTooLargeError(limit);
    check?.(stats);
    return readWhole(fd, stats.size, limit);
  } finally {
    closeSync(fd);
  }
}

/** Reads a whole file as UTF-8 text, like `readRegularFile`. */
export function readRegularText(path: string, options?: RegularFileOptions): string {
  return readRegularFile(path, options).toString("utf8");
}

/** Reads to the end. The file may grow while it is read, but not beyond the limit. */
function readWhole(fd: number, size: number, limit: number): Buffer {
  let bytes = Buffer.allocUnsafe(size + 1);
  for (let length = 0; ; ) {
    const read = readSync(fd, bytes, length, bytes.length - length, length);
    length += read;
    if (length > limit) throw createTooLargeError(limit);
    if (read === 0) return bytes.subarray(0, length);
    if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.allocUnsafe(length)]);
  }
}

function createTooLargeError(limit: number): Error {
  return new Error(
    limit < 1024 * 1024 ? `it is larger than ${limit >> 10} KiB` : `it is larger than ${limit >> 20} MiB`,
  );
}

/** A file or folder that other users control. `path` is relative to the searched folder, and empty for that folder itself. */
export interface ForeignFile {
  path: string;
  /** `nested`: a subfolder that is a git work tree, which git can change without moving HEAD of the outer one. */
  why: "owner" | "writable" | "link" | "special" | "nested";
}

interface ForeignFileOptions {
  /** Kinds to reject in addition to files of other users. */
  refuses: readonly Exclude<ForeignFile["why"], "owner">[];
  /** Names of folders to skip. */
  skips?: ReadonlySet<string>;
}

/** Finds the first file in a folder, or the folder itself, that other users control. Throws if a folder cannot be read. */
export function findForeignFile(folder: string, { refuses, skips }: ForeignFileOptions): ForeignFile | undefined {
  const visit = (path: string): ForeignFile | undefined => {
    const stats = lstatSync(join(folder, path));
    const why = checkFileOwner(stats);
    if (why !== undefined && (why === "owner" || refuses.includes(why))) return { path, why };
    if (!stats.isDirectory()) return undefined;
    const names = readdirSync(join(folder, path)).sort();
    if (path !== "" && refuses.includes("nested") && names.includes(".git")) return { path, why: "nested" };
    for (const name of names) {
      if (skips?.has(name)) continue;
      const found = visit(path === "" ? name : `${path}/${name}`);
      if (found) return found;
    }
    return undefined;
  };
  return visit("");
}

/** Returns the reason why other users control a file, or undefined if they do not. */
export function checkFileOwner(stats: Stats): ForeignFile["why"] | undefined {
  const user = process.getuid?.();
  if (user !== undefined && stats.uid !== user) return "owner";
  if (stats.isSymbolicLink()) return "link"; // Every symlink has the same mode.
  if (!stats.isFile() && !stats.isDirectory()) return "special";
  return (stats.mode & 0o022) === 0 ? undefined : "writable";
}

/** An open folder. `at` refers to this folder even if its path is replaced. */
export interface FolderHandle {
  at: string;
  stats: Stats;
  close(): void;
}

// Undefined on systems that cannot open folders.
const DIRECTORY_FLAG = constants.O_DIRECTORY as number | undefined;
const NOFOLLOW_DIRECTORY = constants.O_RDONLY | (DIRECTORY_FLAG ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** True if file descriptors have paths. A path below a descriptor is safe from symlinks that are swapped in above it. */
export const HAS_DESCRIPTOR_PATHS = existsSync("/proc/self/fd");

// O_PATH, which Node does not define, opens a folder on Linux without read permission, so that its mode can be changed.
const PATH_ONLY = process.platform === "linux" && HAS_DESCRIPTOR_PATHS ? 0o10000000 : 0;

/** Opens a folder. Throws if the path is not a folder, or a symlink to one. */
export function openFolderHandle(path: string): FolderHandle {
  if (DIRECTORY_FLAG === undefined) return { at: path, stats: lstatSync(path), close() {} };
  const fd = openSync(path, NOFOLLOW_DIRECTORY);
  return { at: HAS_DESCRIPTOR_PATHS ? `/proc/self/fd/${fd}` : path, stats: fstatSync(fd), close: () => closeSync(fd) };
}

/** Changes the mode of a folder. Does not follow symlinks. */
export function setFolderMode(path: string, mode: number): void {
  if (DIRECTORY_FLAG === undefined) return; // The system has no mode bits.
  const fd = openSync(path, NOFOLLOW_DIRECTORY | PATH_ONLY);
  try {
    if (PATH_ONLY === 0) fchmodSync(fd, mode);
    else chmodSync(`/proc/self/fd/${fd}`, mode);
  } finally {
    closeSync(fd);
  }
}

/** Returns true if the current user owns the file. */
export function isOwnedByUser(stats: Stats): boolean {
  return stats.uid === (process.geteuid?.() ?? stats.uid);
}

// Another process may still write to the folder for a moment.
const REMOVE_OPTIONS = { recursive: true, force: true, maxRetries: 3, retryDelay: 50 };

/** Removes a folder tree, even without permissions on subfolders or with paths that are too long. Targets of symlinks are kept. */
export function removeFolderTree(path: string): void {
  try {
    rmSync(path, REMOVE_OPTIONS);
  } catch {
    flattenTree(path);
    rmSync(path, REMOVE_OPTIONS);
  }
}

/** Makes every subfolder accessible and moves it to the top, because removal needs permissions and paths within the length limit. */
function flattenTree(path: string): void {
  setFolderMode(path, 0o700);
  const top = openFolderHandle(path);
  try {
    const pending = listSubfolders(top.at);
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      const folder = join(top.at, name);
      setFolderMode(folder, 0o700);
      for (const subfolder of listSubfolders(folder)) {
        const newName = crypto.randomUUID();
        setFolderMode(join(folder, subfolder), 0o700);
        renameSync(join(folder, subfolder), join(top.at, newName));
        pending.push(newName);
      }
    }
  } finally {
    top.close();
  }
}

function listSubfolders(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
}

export function readTextOrNone(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

/** Detects that a file changed, without reading it. */
export interface FileFingerprint {
  mtimeMs: number;
  size: number;
  ino: number;
}

/** Decodes UTF-16 text, or returns undefined if the file is not UTF-16. */
export function decodeUtf16(bytes: Uint8Array): string | undefined {
  const label = detectUtf16(bytes);
  return label ? new TextDecoder(label).decode(bytes) : undefined;
}

/**
 * Creates a folder and its missing parents, and returns the first one that was created, if any. A recursive `mkdirSync` is not used:
 * it never returns where the system refuses with ENOENT, as in `/proc`.
 */
export function createFolder(path: string, mode?: number): string | undefined {
  if (statIfExists(path)?.isDirectory()) return undefined;
  const parent = dirname(path);
  const first = parent === path || statIfExists(parent) ? undefined : createFolder(parent, mode);
  try {
    mkdirSync(path, { mode });
    return first ?? path;
  } catch (error) {
    if (statIfExists(path)?.isDirectory()) return first; // Another process created it.
    throw error;
  }
}

/** Returns the stats of a path, or undefined if it does not exist or a parent folder is not readable. */
export function statIfExists(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

export function createFileFingerprint(stats: Stats): FileFingerprint {
  return { mtimeMs: stats.mtimeMs, size: stats.size, ino: stats.ino };
}

export function isSameFingerprint(a: FileFingerprint, b: FileFingerprint): boolean {
  return a.mtimeMs === b.mtimeMs && a.size === b.size && a.ino === b.ino;
}

/** Formats an identity of a file without reading it. */
export function formatFileId({ ino, size, mtimeMs }: FileFingerprint): string {
  return `${ino}:${size}:${mtimeMs}`;
}

/** Returns true if the file at a path is not the one that was found, because it was or is a symlink. */
export function isLinkedFile(path: string, { ino }: FileFingerprint): boolean {
  try {
    return lstatSync(path).ino !== ino;
  } catch {
    return true; // It was removed, or is no longer accessible.
  }
}

export function detectUtf16(bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  const start = Buffer.from(bytes.subarray(0, 4)).toString("hex");
  // Without a byte order mark, the dashes of the first line indicate the encoding.
  if (start.startsWith("fffe") || start === "2d002d00") return "utf-16le";
  return start.startsWith("feff") || start === "002d002d" ? "utf-16be" : undefined;
}
