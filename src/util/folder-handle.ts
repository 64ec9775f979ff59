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

/** An open folder. `at` refers to this folder even if its path is replaced. */
export interface FolderHandle {
  at: string;
  stats: Stats;
  close(): void;
}

// Undefined on systems that cannot open folders.
const DIRECTORY_FLAG = constants.O_DIRECTORY as number | undefined;
const NOFOLLOW_DIRECTORY = constants.O_RDONLY | (DIRECTORY_FLAG ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** True if file descriptors have paths. A path below a descriptor is safe from symlinks that are swapped in above it. */
export const HAS_DESCRIPTOR_PATHS = existsSync("/proc/self/fd");

// O_PATH, which Node does not define, opens a folder on Linux without read permission, so that its mode can be changed.
const PATH_ONLY = process.platform === "linux" && HAS_DESCRIPTOR_PATHS ? 0o10000000 : 0;

/** Opens a folder. Throws if the path is not a folder, or a symlink to one. */
export function openFolderHandle(path: string): FolderHandle {
  if (DIRECTORY_FLAG === undefined) return { at: path, stats: lstatSync(path), close() {} };
  const fd = openSync(path, NOFOLLOW_DIRECTORY);
  return { at: HAS_DESCRIPTOR_PATHS ? `/proc/self/fd/${fd}` : path, stats: fstatSync(fd), close: () => closeSync(fd) };
}

/** Changes the mode of a folder. Does not follow symlinks. */
export function setFolderMode(path: string, mode: number): void {
  if (DIRECTORY_FLAG === undefined) return; // The system has no mode bits.
  const fd = openSync(path, NOFOLLOW_DIRECTORY | PATH_ONLY);
  try {
    if (PATH_ONLY === 0) fchmodSync(fd, mode);
    else chmodSync(`/proc/self/fd/${fd}`, mode);
  } finally {
    closeSync(fd);
  }
}

/** Returns true if the current user owns the file. */
export function isOwnedByUser(stats: Stats): boolean {
  return stats.uid === (process.geteuid?.() ?? stats.uid);
}

// Another process may still write to the folder for a moment.
const REMOVE_OPTIONS = { recursive: true, force: true, maxRetries: 3, retryDelay: 50 };

/** Removes a folder tree, even without permissions on subfolders or with paths that are too long. Targets of symlinks are kept. */
export function removeFolderTree(path: string): void {
  try {
    rmSync(path, REMOVE_OPTIONS);
  } catch {
    flattenTree(path);
    rmSync(path, REMOVE_OPTIONS);
  }
}

/** Makes every subfolder accessible and moves it to the top, because removal needs permissions and paths within the length limit. */
function flattenTree(path: string): void {
  setFolderMode(path, 0o700);
  const top = openFolderHandle(path);
  try {
    const pending = listSubfolders(top.at);
    for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
      const folder = join(top.at, name);
      setFolderMode(folder, 0o700);
      for (const subfolder of listSubfolders(folder)) {
        const newName = crypto.randomUUID();
        setFolderMode(join(folder, subfolder), 0o700);
        renameSync(join(folder, subfolder), join(top.at, newName));
        pending.push(newName);
      }
    }
  } finally {
    top.close();
  }
}

function listSubfolders(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
}
