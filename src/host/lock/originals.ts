import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { shortHash } from "../../shared/hash.ts";
import { readRegularFile } from "../../shared/regular-file.ts";
import { byText } from "../../shared/text.ts";
import type { CopiedFile } from "../../source/digest.ts";
import type { LockedFile, LockedFiles } from "./format.ts";
import { sha256, treeDigest } from "./tree.ts";

/**
 * The bytes of trees that were agreed to, so that a change can be shown line by line and merged. One file a tree: all of its files, one
 * after the other, in the order of their paths; how long each is stands in the lock.
 */
export interface Originals {
  /** For a folder of skills. Nothing fails when it cannot be kept: then a change is shown without what was there before. */
  keep(files: LockedFiles, bytesOf: (path: string) => Uint8Array, folder: string): void;
  /** Nothing when it is not there, or not what the lock says. */
  read(files: LockedFiles): ReadonlyMap<string, CopiedFile> | undefined;
  /** What a folder of skills needs no longer goes, unless another does. */
  forget(digests: readonly string[], folder: string): void;
}

export function openOriginals(skilletHome: string): Originals {
  const all = join(skilletHome, "originals");
  const fileOf = (digest: string) => join(all, digest.replace("sha256:", ""));
  // An empty file says that a folder of skills needs it.
  const needOf = (digest: string, folder: string) => `${fileOf(digest)}.${shortHash(folder)}`;
  return {
    keep(files, bytesOf, folder) {
      const digest = treeDigest(files);
      const file = fileOf(digest);
      const draft = `${file}.${crypto.randomUUID()}`;
      try {
        mkdirSync(all, { recursive: true, mode: 0o700 });
        const need = needOf(digest, folder);
        if (!existsSync(need)) writeFileSync(need, "", { mode: 0o600 });
        if (statSync(file, { throwIfNoEntry: false })?.size === sizeOf(files)) return;
        writeFileSync(draft, Buffer.concat(pathsOf(files).map(bytesOf)), { flag: "wx", mode: 0o600 });
        renameSync(draft, file);
      } catch {
        removeQuietly(draft);
      }
    },
    read(files) {
      try {
        return taken(readRegularFile(fileOf(treeDigest(files)), { refusesLinks: true }), files);
      } catch {
        return undefined; // It was never kept, or was taken away to make room.
      }
    },
    forget(digests, folder) {
      if (digests.length === 0) return;
      try {
        for (const digest of digests) rmSync(needOf(digest, folder), { force: true });
        const needed = new Set(readdirSync(all).flatMap((name) => (name.includes(".") ? name.split(".", 1) : [])));
        for (const digest of digests) {
          if (!needed.has(basename(fileOf(digest)))) rmSync(fileOf(digest), { force: true });
        }
      } catch {} // It only takes up room.
    },
  };
}

function taken(bytes: Buffer, files: LockedFiles): ReadonlyMap<string, CopiedFile> | undefined {
  const read = new Map<string, CopiedFile>();
  let from = 0;
  for (const path of pathsOf(files)) {
    const { size, mode, sha256: digest } = files[path] as LockedFile;
    const own = bytes.subarray(from, from + size);
    if (sha256(own) !== digest) return undefined;
    read.set(path, { bytes: own, executable: (Number.parseInt(mode, 8) & 0o111) !== 0 });
    from += size;
  }
  return read;
}

function removeQuietly(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {} // It only takes up room.
}

function sizeOf(files: LockedFiles): number {
  return Object.values(files).reduce((sum, { size }) => sum + size, 0);
}

/** In order, whatever order they stand in: numbers come first in a table, and a lock may have been put in another order by hand. */
function pathsOf(files: LockedFiles): string[] {
  return Object.keys(files).sort(byText);
}
