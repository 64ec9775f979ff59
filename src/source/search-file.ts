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
import { shortHash } from "../shared/hash.ts";

/** Keeps the bytes of a search index between processes. It never throws: an index that is lost is built again. */
export interface SearchStore {
  /** Names everything that the index depends on besides the skills themselves. */
  readonly key: string;
  load(): Uint8Array | undefined;
  save(bytes: Uint8Array): void;
  /** The time of the clock that files get theirs from. */
  now(): number;
}

/** A larger index is not written, and a larger file not read. */
const MOST_BYTES = 256 * 1024 * 1024;
/** How many workspaces keep an index. */
const MOST_FILES = 16;

/**
 * Keeps a search index in a file of the user's own cache folder. Several processes may write it at once: each writes a draft and puts it in
 * place as a whole, and the last one stays.
 */
export function openSearchFile(folder: string, key: string): SearchStore {
  const file = join(folder, `${shortHash(key)}${ENDING}`);
  return { key, load: () => readOwn(file), save: (bytes) => write(folder, file, bytes), now: () => Date.now() };
}

const ENDING = ".search";
const WRITABLE_BY_OTHERS = 0o022;
const OPEN = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

function readOwn(file: string): Uint8Array | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(file, OPEN);
    const stats = fstatSync(fd);
    const user = process.getuid?.();
    const isOwn = user === undefined || (stats.uid === user && (stats.mode & WRITABLE_BY_OTHERS) === 0);
    return stats.isFile() && isOwn && stats.size <= MOST_BYTES ? readFileSync(fd) : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function write(folder: string, file: string, bytes: Uint8Array): void {
  if (bytes.length > MOST_BYTES) return;
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    rmSync(draft, { force: true }); // Of an earlier process with this number, which ended while it wrote.
    writeFileSync(draft, bytes, { flag: "wx", mode: 0o600 });
    renameSync(draft, file);
    removeOldest(folder);
  } catch {
    if (existsSync(draft)) rmSync(draft, { force: true });
  }
}

/** Removes the indexes that were not written for longest, and drafts that nobody finished. */
function removeOldest(folder: string): void {
  const files = readdirSync(folder).flatMap((name) => {
    if (!name.includes(ENDING)) return [];
    const stats = statSync(join(folder, name), { throwIfNoEntry: false });
    return stats ? { path: join(folder, name), isDraft: !name.endsWith(ENDING), at: stats.mtimeMs } : [];
  });
  const kept = files.filter(({ isDraft }) => !isDraft).sort((a, b) => b.at - a.at);
  const abandoned = files.filter(({ isDraft, at }) => isDraft && at < Date.now() - ABANDONED_MS);
  for (const { path } of [...kept.slice(MOST_FILES), ...abandoned]) rmSync(path, { force: true });
}

const ABANDONED_MS = 60 * 60 * 1000;
