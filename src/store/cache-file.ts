import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { SearchStore } from "../catalog/catalog.ts";
import { shortHash } from "../util/text.ts";

/** Bounds of a folder of cache files with the same ending. */
interface CacheBounds {
  ending: string;
  /** A larger file is neither read nor written. */
  mostBytes: number;
  /** The files that were not written for longest are removed. */
  mostFiles: number;
  /** A file that was not written for longer is not read. Defaults to no limit. */
  longestMs?: number;
}

const WRITABLE_BY_OTHERS = 0o022;
const CACHE_OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** Reads a cache file that only this user can have written. Never throws. */
export function readCacheFile(file: string, { mostBytes, longestMs }: CacheBounds): Uint8Array | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(file, CACHE_OPEN_FLAGS);
    const stats = fstatSync(fd);
    const user = process.getuid?.();
    const isOwn = user === undefined || (stats.uid === user && (stats.mode & WRITABLE_BY_OTHERS) === 0);
    const isRecent = longestMs === undefined || stats.mtimeMs > Date.now() - longestMs;
    return stats.isFile() && isOwn && isRecent && stats.size <= mostBytes ? readFileSync(fd) : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Writes a cache file atomically. Several processes may write it at once: each writes a draft and puts it in place as a whole, and the
 * last one stays. Never throws.
 */
export function writeCacheFile(folder: string, file: string, bytes: Uint8Array, bounds: CacheBounds): void {
  if (bytes.length > bounds.mostBytes) return;
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    rmSync(draft, { force: true }); // A draft of an earlier process with the same pid, which ended while it wrote.
    writeFileSync(draft, bytes, { flag: "wx", mode: 0o600 });
    renameSync(draft, file);
    removeOldest(folder, bounds);
  } catch {
    if (existsSync(draft)) rmSync(draft, { force: true });
  }
}

/** Removes the files that were not written for longest, and abandoned drafts. */
function removeOldest(folder: string, { ending, mostFiles, longestMs = Number.POSITIVE_INFINITY }: CacheBounds): void {
  const names = readdirSync(folder).filter((name) => name.includes(ending));
  if (names.length <= mostFiles && names.every((name) => name.endsWith(ending)) && !Number.isFinite(longestMs)) return;
  const files = names.flatMap((name) => {
    const stats = statSync(join(folder, name), { throwIfNoEntry: false });
    return stats ? { path: join(folder, name), isDraft: !name.endsWith(ending), at: stats.mtimeMs } : [];
  });
  const kept = files.filter(({ isDraft }) => !isDraft).sort((a, b) => b.at - a.at);
  const outdated = kept.filter(({ at }, place) => place >= mostFiles || at < Date.now() - longestMs);
  const abandoned = files.filter(({ isDraft, at }) => isDraft && at < Date.now() - ABANDONED_MS);
  for (const { path } of [...outdated, ...abandoned]) rmSync(path, { force: true });
}

const ABANDONED_MS = 60 * 60 * 1000;

/** Limits of the search indexes: one for each workspace. */
const SEARCH_CACHE_BOUNDS = { ending: ".search", mostBytes: 256 * 1024 * 1024, mostFiles: 16 };

/** Creates a store that keeps a search index in a file of the user's cache folder. */
export function createSearchFileStore(folder: string, key: string): SearchStore {
  const file = join(folder, `${shortHash(key)}${SEARCH_CACHE_BOUNDS.ending}`);
  return {
    key,
    load: () => readCacheFile(file, SEARCH_CACHE_BOUNDS),
    save: (bytes) => writeCacheFile(folder, file, bytes, SEARCH_CACHE_BOUNDS),
    createFiltered: () => createSearchFileStore(folder, `${key} narrowed`),
    now: () => Date.now(),
  };
}
