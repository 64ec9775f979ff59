import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  type Stats,
} from "node:fs";
import { byText } from "../../shared/text.ts";
import type { LockedFile, LockedFiles } from "./format.ts";

/** Every file below a folder, to the last dot file, as it is now. Throws when it cannot be read. */
export function treeOf(folder: string): LockedFiles {
  return lookInto(folder).files;
}

/** The same, with the paths of the folders in it. */
export function lookInto(folder: string): { files: LockedFiles; folders: string[] } {
  const found: [string, LockedFile][] = [];
  const folders: string[] = [];
  visit(folder, "", found, folders);
  return { files: sorted(found), folders };
}

/** `sha256:…` over every file: its path, mode, size and bytes. `except`: a path that is not counted. */
export function treeDigest(files: LockedFiles, except?: string): string {
  const lines = Object.keys(files)
    .filter((path) => path !== except)
    .sort(byText)
    .map((path) => {
      const { mode, size, sha256 } = files[path] as LockedFile;
      return JSON.stringify([path, mode, size, sha256]);
    });
  return sha256(lines.join("\n"));
}

/** What a file's mode is in a lock: whether it can be run, and bits that none should have. Who else may read or write it differs by machine. */
export function modeOf({ mode }: Pick<Stats, "mode">): string {
  return ((mode & 0o111 ? 0o755 : 0o644) | (mode & 0o7002)).toString(8);
}

/** Whether it is a file at all: see `LockedFile`. */
export function isFile({ mode }: LockedFile): boolean {
  return /^[0-7]+$/.test(mode);
}

let crypto: typeof import("node:crypto") | undefined;

export function sha256(bytes: string | Uint8Array): string {
  crypto ??= process.getBuiltinModule("node:crypto"); // Loading it costs a start, and most have no lock.
  return `sha256:${crypto.hash("sha256", bytes)}`;
}

/** A file of a tree that is not on a disk. */
export function lockedFile(bytes: Uint8Array, isExecutable: boolean): LockedFile {
  return { mode: isExecutable ? "755" : "644", size: bytes.length, sha256: sha256(bytes) };
}

/** Without a prototype: a file may be called `__proto__`. */
export function sorted(entries: readonly (readonly [string, LockedFile])[]): LockedFiles {
  const files: Record<string, LockedFile> = Object.create(null);
  for (const [path, file] of entries.toSorted(([a], [b]) => byText(a, b))) files[path] = file;
  return files;
}

/** The bytes of a file of a tree. Throws when it is none. */
export function bytesAt(file: string): Buffer {
  return opened(file, (fd, stats) => {
    if (!stats.isFile()) throw new Error("it is no file");
    return readFileSync(fd);
  });
}

// What was put in a file's place since the folder was listed is neither followed nor waited for.
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
// As much as a source may bring. What is larger is not read: it is no file of a skill.
const LARGEST_FILE = 64 * 1024 * 1024;

function visit(root: string, below: string, found: [string, LockedFile][], folders: string[]): void {
  for (const entry of readdirSync(below === "" ? root : `${root}/${below}`, { withFileTypes: true })) {
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) {
      folders.push(path);
      visit(root, path, found, folders);
    } else found.push([path, entry.isFile() ? fileAt(`${root}/${path}`) : otherAt(`${root}/${path}`)]);
  }
}

function fileAt(file: string): LockedFile {
  return opened(file, (fd, stats) => {
    if (!stats.isFile()) return odd(stats);
    if (stats.size > LARGEST_FILE) return { ...odd(stats), mode: "large" };
    const bytes = readFileSync(fd);
    return { mode: modeOf(stats), size: bytes.length, sha256: sha256(bytes) };
  });
}

function opened<T>(file: string, work: (fd: number, stats: Stats) => T): T {
  const fd = openSync(file, READ);
  try {
    return work(fd, fstatSync(fd));
  } finally {
    closeSync(fd);
  }
}

/** A link, a pipe, a socket or a device: none is ever agreed to, so what it is needs only to differ from any file. */
function otherAt(path: string): LockedFile {
  const stats = lstatSync(path);
  if (!stats.isSymbolicLink()) return odd(stats);
  return { mode: "link", size: 0, sha256: sha256(readlinkSync(path)) };
}

function odd(stats: Stats): LockedFile {
  return { mode: "other", size: 0, sha256: sha256(`${stats.mode} ${stats.size}`) };
}
