import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { SearchStore } from "../catalog/catalog.ts";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { renameFormerFields } from "../errors/renamed-names.ts";
import { createFolder, readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { readUptimeMs } from "../util/system.ts";
import { shortHash } from "../util/text.ts";
import { replaceFile, withFileLock } from "./locked-file.ts";

/** A JSON file in the user's folder with entries by name or path. */
export interface JsonStore<T> {
  readonly file: string;
  /** Empty if the file cannot be read. `isCurrent`: a change of another process counts at once, not after a moment. */
  entries(options?: { isCurrent?: boolean }): Readonly<Record<string, T>>;
  /** Returns the reason why the file cannot be read. */
  problem(): string | undefined;
  /**
   * Contract: `work` receives the current entries while no other process can write them. Throws a SkillError when they
   * cannot be written.
   */
  update<R>(work: (entries: Record<string, T>) => R): R;
}

export interface JsonStoreOptions<T> {
  file: string;
  isEntry: (entry: unknown) => entry is T;
  /** The error for an unreadable file. */
  unreadable: { code: ErrorCode; fix: string };
  /** The key of the entries in the file. Defaults to `skills`. */
  collection?: string;
}

export function createJsonStore<T>({
  file,
  isEntry,
  unreadable,
  collection = "skills",
}: JsonStoreOptions<T>): JsonStore<T> {
  let known: StoreContent<T> | undefined;
  let stamp = "";
  let looked = Number.NEGATIVE_INFINITY;
  // Reads the file again after a short time, so that a revocation by another process applies here too.
  const read = (isCurrent = false) => {
    if (known !== undefined && !isCurrent && readUptimeMs() - looked < CACHE_MS) return known;
    looked = readUptimeMs();
    const now = readStoreFingerprint(file);
    if (known === undefined || now !== stamp)
      known = now === MISSING ? { entries: createEntries() } : readStoreContent(file, isEntry, collection);
    stamp = now;
    return known;
  };
  return {
    file,
    entries: ({ isCurrent = false } = {}) => read(isCurrent).entries,
    problem: () => read().problem,
    update(work) {
      const result = withFileLock(file, () => {
        const { problem, entries, isNewer } = readStoreContent(file, isEntry, collection);
        if (problem !== undefined) {
          const { code } = unreadable;
          const fix = isNewer ? "the file was left as it is" : unreadable.fix;
          throw new SkillError(code, { message: `${file} cannot be read: ${problem}`, fix });
        }
        const before = JSON.stringify(entries);
        const done = work(entries);
        if (JSON.stringify(entries) !== before)
          replaceFile(file, `${JSON.stringify({ version: FORMAT_VERSION, [collection]: entries }, null, 2)}\n`);
        return done;
      });
      known = undefined;
      return result;
    },
  };
}

/** Listing ten thousand skills takes less time. */
const CACHE_MS = 50;

const FORMAT_VERSION = 1;

interface StoreContent<T> {
  entries: Record<string, T>;
  problem?: string;
  /** A newer skillet wrote the file. */
  isNewer?: boolean;
}

function readStoreContent<T>(
  file: string,
  isEntry: (entry: unknown) => entry is T,
  collection: string,
): StoreContent<T> {
  const entries = createEntries<T>();
  let text: string;
  try {
    text = readRegularText(file);
  } catch (error) {
    return getErrnoCode(error) === "ENOENT" ? { entries } : { entries, problem: getErrorMessage(error) };
  }
  try {
    const { version, [collection]: stored } = JSON.parse(text);
    if (version !== FORMAT_VERSION) {
      const has = typeof version === "number" ? `format version ${version}` : "no format version";
      const isNewer = typeof version === "number" && version > FORMAT_VERSION;
      return {
        entries,
        problem: `it has ${has}, and this skillet supports version ${FORMAT_VERSION}${isNewer ? ": update skillet" : ""}`,
        isNewer,
      };
    }
    if (!isJsonObject(stored)) throw new Error("it has no entries");
    for (const entry of Object.values(stored)) if (isJsonObject(entry)) renameFormerFields(entry);
    if (!Object.values(stored).every(isEntry)) throw new Error("it has an invalid entry");
    return { entries: Object.assign(entries, stored) };
  } catch (error) {
    return { entries, problem: getErrorMessage(error) };
  }
}

function createEntries<T>(): Record<string, T> {
  return Object.create(null); // A skill may be called `constructor`.
}

const MISSING = "";

/** Returns `MISSING` for a file that does not exist. Most do not at a start, where exceptions would take longer than the work. */
function readStoreFingerprint(file: string): string {
  try {
    const stats = statSync(file, { throwIfNoEntry: false });
    if (stats) return `${stats.mtimeMs}:${stats.size}:${stats.ino}`;
    // A file in place of the folder is a problem, which is reported when the store is read.
    return statSync(dirname(file), { throwIfNoEntry: false })?.isDirectory() === false ? "ENOTDIR" : MISSING;
  } catch (error) {
    return getErrnoCode(error);
  }
}

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
    createFolder(folder, 0o700);
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
  const outdated = kept.filter(({ at }, index) => index >= mostFiles || at < Date.now() - longestMs);
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
