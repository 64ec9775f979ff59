import { join } from "node:path";
import { shortHash } from "../shared/hash.ts";
import { readCacheFile, writeCacheFile } from "./cache-file.ts";

/** Keeps the bytes of a search index between processes. It never throws: an index that is lost is built again. */
export interface SearchStore {
  /** Names everything that the index depends on besides the skills themselves. */
  readonly key: string;
  load(): Uint8Array | undefined;
  save(bytes: Uint8Array): void;
  /** The store for some of the skills. Each would replace the index of the other in one. */
  narrow?(): SearchStore;
  /** The time of the clock that files get theirs from. */
  now(): number;
}

/** An index for each of so many workspaces. */
const BOUNDS = { ending: ".search", mostBytes: 256 * 1024 * 1024, mostFiles: 16 };

/** Keeps a search index in a file of the user's own cache folder. */
export function openSearchFile(folder: string, key: string): SearchStore {
  const file = join(folder, `${shortHash(key)}${BOUNDS.ending}`);
  return {
    key,
    load: () => readCacheFile(file, BOUNDS),
    save: (bytes) => writeCacheFile(folder, file, bytes, BOUNDS),
    narrow: () => openSearchFile(folder, `${key} narrowed`),
    now: () => Date.now(),
  };
}
