import { lstatSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode } from "../errors/problem.ts";
import { SKIPPED_FOLDERS } from "../skill/source/skill-files.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { isInside } from "../util/safe-path.ts";
import { formatProcessOwner, readLiveOwner } from "./locked-file.ts";

/** Fingerprints of the files below some folders, by path. A fingerprint changes with every write. */
export type FileFingerprints = Readonly<Record<string, string>>;

/**
 * Detects changes below folders while code runs. The fingerprints are on disk, so that the next process detects the
 * changes of a killed one.
 */
export interface OwnFolderWatches {
  /** Takes fingerprints and starts a watch. The returned function ends it, and returns the changed paths. */
  begin(folders: readonly string[]): () => string[];
  /** Returns the paths inside a folder that changed since an active watch began. */
  changedIn(place: string): string[];
  /**
   * Ends the watches of dead processes, and returns the paths that changed since. Returns all of `own` if the
   * fingerprints are unreadable.
   */
  settle(own: readonly string[]): string[];
}

export function createOwnFolderWatches(skilletHome: string): OwnFolderWatches {
  const all = join(skilletHome, "own-watches");
  const names = () => {
    try {
      return readdirSync(all).filter((name) => name.endsWith(".json"));
    } catch {
      return []; // No watch was ever started.
    }
  };
  return {
    begin(folders) {
      const before = fingerprintFiles(folders);
      const id = crypto.randomUUID();
      mkdirSync(all, { recursive: true, mode: 0o700 });
      writeFileSync(join(all, `${id}.owner`), formatProcessOwner(), { flag: "wx", mode: 0o600 });
      const draft = join(all, `${id}.draft`);
      writeFileSync(draft, JSON.stringify({ folders, before }), { flag: "wx", mode: 0o600 });
      renameSync(draft, join(all, `${id}.json`)); // Atomic.
      return () => {
        const changed = diffFingerprints(before, fingerprintFiles(folders));
        removeWatch(all, id);
        return changed;
      };
    },
    changedIn(place) {
      return names().flatMap((name) => {
        const watch = readWatch(join(all, name));
        if (watch === "unreadable") return [place];
        if (!watch?.folders.some((folder) => isInside(folder, place))) return [];
        const within = Object.entries(watch.before).filter(([path]) => isInside(place, path));
        return diffFingerprints(Object.fromEntries(within), fingerprintFiles([place]));
      });
    },
    settle(own) {
      return names().flatMap((name) => {
        const id = name.slice(0, -".json".length);
        if (readLiveOwner(join(all, `${id}.owner`)) !== undefined) return [];
        const watch = readWatch(join(all, name));
        if (watch === undefined) return [];
        const changed = watch === "unreadable" ? own : diffFingerprints(watch.before, fingerprintFiles(watch.folders));
        removeWatch(all, id);
        return changed;
      });
    },
  };
}

/** Enough for a folder of skills. A larger one counts as changed as a whole. */
const MAX_WATCHED_FILES = 50_000;

function fingerprintFiles(folders: readonly string[]): FileFingerprints {
  const seen: Record<string, string> = Object.create(null); // A folder may be called `__proto__`.
  let remaining = MAX_WATCHED_FILES;
  const visit = (path: string) => {
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (!stats || remaining-- <= 0) return;
    const { ino, size, mode, uid, mtimeMs, ctimeMs } = stats;
    // The times of a folder change with its entries, which have their own fingerprints.
    seen[path] = stats.isDirectory() ? `${ino} ${mode} ${uid}` : `${ino} ${size} ${mode} ${uid} ${mtimeMs} ${ctimeMs}`;
    if (!stats.isDirectory()) return;
    for (const name of listNames(path)) if (!SKIPPED_FOLDERS.has(name)) visit(join(path, name));
  };
  for (const folder of folders) visit(folder);
  if (remaining >= 0) return seen;
  return Object.fromEntries(folders.map((folder) => [folder, `too many files ${crypto.randomUUID()}`]));
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // No skill can be read there either.
  }
}

function diffFingerprints(before: FileFingerprints, now: FileFingerprints): string[] {
  const paths = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...paths].filter((path) => before[path] !== now[path]);
}

/** Returns undefined if the watch has just ended. */
function readWatch(file: string): { folders: readonly string[]; before: FileFingerprints } | "unreadable" | undefined {
  try {
    const { folders, before } = JSON.parse(readRegularText(file)) as Record<string, unknown>;
    if (Array.isArray(folders) && isJsonObject(before)) return { folders, before: before as FileFingerprints };
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return undefined;
  }
  return "unreadable";
}

function removeWatch(all: string, id: string): void {
  for (const end of ["json", "owner"]) rmSync(join(all, `${id}.${end}`), { force: true });
}
