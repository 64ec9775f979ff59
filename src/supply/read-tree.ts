import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { LockedFiles } from "../host/lock/format.ts";
import { lockedFile, sorted } from "../host/lock/tree.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import type { CopiedFile } from "../source/digest.ts";

/** Every file of a tree, by path. */
export type Tree = ReadonlyMap<string, CopiedFile>;

/** Reads every file of a folder. Throws a SkillError when something in it is no file, or cannot be read. */
export function readTree(folder: string): Map<string, CopiedFile> {
  const files = new Map<string, CopiedFile>();
  const visit = (below: string) => {
    for (const entry of whileAt(join(folder, below), (path) => readdirSync(path, { withFileTypes: true }))) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) visit(path);
      else files.set(path, whileAt(join(folder, path), fileAt));
    }
  };
  visit("");
  return files;
}

// What was put in a file's place since the folder was listed is neither followed nor waited for.
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function fileAt(file: string): CopiedFile {
  const fd = openSync(file, READ);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is no file");
    return { bytes: readFileSync(fd), executable: (stats.mode & 0o111) !== 0 };
  } finally {
    closeSync(fd);
  }
}

function whileAt<T>(path: string, work: (path: string) => T): T {
  try {
    return work(path);
  } catch (error) {
    throw new SkillError("lock-odd-file", {
      message: `${path} cannot be read: ${codeOf(error) === "ELOOP" ? "it is a link" : reason(error)}`,
      fix: "put in its place what you may read, or remove it",
      cause: error,
    });
  }
}

/** Contract: the folder is not there yet, or holds nothing of these. */
export function writeTree(folder: string, files: Tree): void {
  for (const [path, { bytes, executable }] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true, mode: 0o755 });
    writeFileSync(join(folder, path), bytes, { flag: "wx", mode: executable ? 0o755 : 0o644 });
  }
}

/** What a lock says of a tree. */
export function lockedFilesOf(files: Tree): LockedFiles {
  return sorted([...files].map(([path, { bytes, executable }]) => [path, lockedFile(bytes, executable)]));
}
