import { hash, randomUUID } from "node:crypto";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readRegularFile } from "../shared/regular-file.ts";

/** Cached files of one remote skill, by digest. */
export interface RemoteFiles {
  /** Returns the bytes with this digest. Undefined if they are not cached, or are not what they were. */
  read(digest: string): Uint8Array | undefined;
  /** Contract: `bytes` have this digest. Best effort: a cache that cannot be written is not an error. */
  write(digest: string, bytes: Uint8Array): void;
}

const LARGEST = 16 * 1024 * 1024;

/** Opens the cache of one skill. Bytes are hashed again on each read: another program may have changed them. */
export function openRemoteFiles(folder: string): RemoteFiles {
  const memory = new Map<string, Uint8Array>(); // Where the cache cannot be written, this process still has what it fetched.
  const pathOf = (digest: string) => join(folder, digest.replace(":", "-"));
  return {
    read(digest) {
      const kept = memory.get(digest);
      if (kept) return kept;
      try {
        const bytes = readRegularFile(pathOf(digest), { limit: LARGEST, refusesLinks: true });
        return digestOfBytes(bytes) === digest ? bytes : undefined;
      } catch {
        return undefined;
      }
    },
    write(digest, bytes) {
      const part = `${pathOf(digest)}.${randomUUID()}`;
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        writeFileSync(part, bytes, { mode: 0o600, flag: "wx" });
        renameSync(part, pathOf(digest));
      } catch {
        rmSync(part, { force: true });
        memory.set(digest, bytes);
      }
    },
  };
}

export function digestOfBytes(bytes: Uint8Array): string {
  return `sha256:${hash("sha256", bytes)}`;
}
