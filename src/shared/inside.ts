import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
} from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";

export type InsideCode = "outside" | "not-found" | "not-a-file" | "link-loop" | "too-large" | "unreadable";
export interface Refusal {
  code: InsideCode;
  message: string;
}
export type Opened = { fd: number; stats: Stats } | Refusal;
export type Bytes = { bytes: Buffer } | Refusal;

/** True when `path` is `root` or below it. Contract: both absolute and normalised. */
export function isInside(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/** The rest of a path that is inside of `root`; nothing for `root` itself. What `relative` gives, which takes long to look for more. */
export function below(root: string, path: string): string {
  return path.slice(root.endsWith(sep) ? root.length : root.length + 1);
}

/** Where a path leads, links followed as far as there is something: what is not there yet is where it would be. */
export function realPlace(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPlace(parent), basename(path));
  }
}

/**
 * Reads a regular file below `root`, at most `limit` bytes of it, or says why not. Links are followed while they stay
 * below `root`. Contract: `root` is a real path. No byte of a file outside is ever read, also while somebody swaps links.
 */
export function readInside(root: string, path: string, limit: number): Bytes {
  const opened = openInside(root, path);
  if ("code" in opened) return opened;
  try {
    const { size } = opened.stats;
    if (size > limit) return refuse("too-large", path, `is ${size} bytes, more than ${limit}`);
    const bytes = Buffer.allocUnsafe(size);
    let length = 0;
    while (length < size) {
      const read = readSync(opened.fd, bytes, length, size - length, length);
      if (read === 0) break;
      length += read;
    }
    return { bytes: bytes.subarray(0, length) };
  } catch (error) {
    return refuse("unreadable", path, `cannot be read: ${reason(error)}`);
  } finally {
    closeSync(opened.fd);
  }
}

/** Opens a regular file below `root`. The caller closes it. */
export function openInside(root: string, path: string): Opened {
  if (path === "" || path.includes("\0")) return refuse("not-found", path, "is not a file name");
  if (isAbsolute(path) || /^[a-z]:/i.test(path)) return refuse("outside", path, "is not relative to the folder");
  return existsSync("/proc/self/fd") ? openByWalking(root, path) : openAndCompare(root, path);
}

const MOST_LINKS = 40;
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

// Checking a path and then opening it leaves a gap in which a link can be swapped. Here every component is opened below the
// descriptor of the one before it and none is followed by the kernel, so what was checked is what is read.
function openByWalking(root: string, path: string): Opened {
  const folders: number[] = [];
  let rest = path.split("/");
  let links = 0;
  try {
    folders.push(openSync(root, constants.O_RDONLY | constants.O_DIRECTORY));
    for (;;) {
      const name = rest.shift();
      if (name === undefined) return refuse("not-a-file", path, "is a folder");
      if (name === "" || name === ".") continue;
      if (name === "..") {
        const left = folders.pop();
        if (left !== undefined) closeSync(left);
        if (folders.length === 0) return refuse("outside", path, "leaves the folder");
        continue;
      }
      const here = `/proc/self/fd/${folders.at(-1)}/${name}`;
      let fd: number;
      try {
        fd = openSync(here, READ);
      } catch (error) {
        if (codeOf(error) !== "ELOOP") return refuseOpen(path, error);
        if (++links > MOST_LINKS) return refuse("link-loop", path, "is a chain of links without end");
        const target = readlinkSync(here);
        if (isAbsolute(target)) {
          if (!isInside(root, target)) return refuse("outside", path, "is a link that leaves the folder");
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
        ? refuse("not-found", path, "does not exist")
        : refuse("not-a-file", path, "is not a regular file");
    }
  } catch (error) {
    return refuseOpen(path, error);
  } finally {
    for (const folder of folders) closeSync(folder);
  }
}

// Where descriptors have no path (macOS, Windows): resolve, open, and compare what was opened with what a second look finds.
function openAndCompare(root: string, path: string): Opened {
  try {
    const real = realpathSync(join(root, path));
    if (!isInside(root, real)) return refuse("outside", path, "leaves the folder");
    const fd = openSync(real, READ);
    const stats = fstatSync(fd);
    if (stats.isFile() && realpathSync(join(root, path)) === real) return { fd, stats };
    closeSync(fd);
    return stats.isFile()
      ? refuse("outside", path, "changed while it was opened")
      : refuse("not-a-file", path, "is not a regular file");
  } catch (error) {
    return refuseOpen(path, error);
  }
}

function refuseOpen(path: string, error: unknown): Refusal {
  switch (codeOf(error)) {
    case "ENOENT":
    case "ENOTDIR":
    case "ENAMETOOLONG":
      return refuse("not-found", path, "does not exist");
    case "ELOOP":
      return refuse("link-loop", path, "is a chain of links without end");
    case "ENXIO":
    case "EISDIR":
      return refuse("not-a-file", path, "is not a regular file");
    default:
      return refuse("unreadable", path, `cannot be read: ${reason(error)}`);
  }
}

function refuse(code: InsideCode, path: string, why: string): Refusal {
  return { code, message: `"${path}" ${why}` };
}

/** The system's code of an error (`ENOENT`), or the empty string. */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** What went wrong, without the path that Node's message repeats. */
export function reason(error: unknown): string {
  if (!(error instanceof Error))
    return Object(error) === error ? "something that is no error was thrown" : String(error);
  return /^[A-Z0-9]+: ([^,]+),/.exec(error.message)?.[1] ?? error.message;
}
