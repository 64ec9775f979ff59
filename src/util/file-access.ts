import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readSync, type Stats } from "node:fs";
import { join } from "node:path";

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
