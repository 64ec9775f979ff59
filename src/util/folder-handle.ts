import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  type Stats,
} from "node:fs";
import { join } from "node:path";

/** A folder that is held: `at` leads into it and nowhere else, also when something is put in its place meanwhile. */
export interface FolderHandle {
  at: string;
  stats: Stats;
  close(): void;
}

// Undefined where folders cannot be opened.
const DIRECTORY_FLAG = constants.O_DIRECTORY as number | undefined;
const NOFOLLOW_DIRECTORY = constants.O_RDONLY | (DIRECTORY_FLAG ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** Where descriptors have paths, what is below one cannot be led elsewhere by a link that is swapped in above it. */
export const HAS_DESCRIPTOR_PATHS = existsSync("/proc/self/fd");

// Linux opens with it what may not be read: a folder that is closed could not be opened up otherwise. Node has no name for O_PATH.
const PATH_ONLY = process.platform === "linux" && HAS_DESCRIPTOR_PATHS ? 0o10000000 : 0;

/** Throws when it is not a folder: a link to one is not. */
export function openFolderHandle(path: string): FolderHandle {
  if (DIRECTORY_FLAG === undefined) return { at: path, stats: lstatSync(path), close() {} };
  const fd = openSync(path, NOFOLLOW_DIRECTORY);
  return { at: HAS_DESCRIPTOR_PATHS ? `/proc/self/fd/${fd}` : path, stats: fstatSync(fd), close: () => closeSync(fd) };
}

/** Of the folder itself: what a link in its place leads to stays as it is. */
export function setFolderMode(path: string, mode: number): void {
  if (DIRECTORY_FLAG === undefined) return; // There are no such bits there.
  const fd = openSync(path, NOFOLLOW_DIRECTORY | PATH_ONLY);
  try {
    if (PATH_ONLY === 0) fchmodSync(fd, mode);
    else chmodSync(`/proc/self/fd/${fd}`, mode);
  } finally {
    closeSync(fd);
  }
}

/** Whether it is this user's own. */
export function isOwnedByUser(stats: Stats): boolean {
  return stats.uid === (process.geteuid?.() ?? stats.uid);
}

// Somebody may still be writing there for a moment.
const REMOVE_OPTIONS = { recursive: true, force: true, maxRetries: 3, retryDelay: 50 };

/** Takes a tree away, also one that is closed or deeper than any path. Where links in it lead, everything stays. */
export function removeFolderTree(path: string): void {
  try {
    rmSync(path, REMOVE_OPTIONS);
  } catch {
    flattenTree(path);
    rmSync(path, REMOVE_OPTIONS);
  }
}

/** Opens every folder and brings it to the top: nobody but root takes anything out of one that is closed, and a path is only so long. */
function flattenTree(path: string): void {
  setFolderMode(path, 0o700);
  const top = openFolderHandle(path);
  try {
    const waiting = listSubfolders(top.at);
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      const folder = join(top.at, name);
      setFolderMode(folder, 0o700);
      for (const below of listSubfolders(folder)) {
        const as = crypto.randomUUID();
        setFolderMode(join(folder, below), 0o700);
        renameSync(join(folder, below), join(top.at, as));
        waiting.push(as);
      }
    }
  } finally {
    top.close();
  }
}

function listSubfolders(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
}
