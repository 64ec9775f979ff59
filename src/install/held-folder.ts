import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  type Stats,
} from "node:fs";

/** A folder that is held: `at` leads into it and nowhere else, also when something is put in its place meanwhile. */
export interface HeldFolder {
  at: string;
  stats: Stats;
  close(): void;
}

// Undefined where folders cannot be opened.
const FOLDER = constants.O_DIRECTORY as number | undefined;
const FOLDER_ITSELF = constants.O_RDONLY | (FOLDER ?? 0) | (constants.O_NOFOLLOW ?? 0);

/** Where descriptors have paths, what is below one cannot be led elsewhere by a link that is swapped in above it. */
export const HAS_DESCRIPTOR_PATHS = existsSync("/proc/self/fd");

// Linux opens with it what may not be read: a folder that is closed could not be opened up otherwise. Node has no name for O_PATH.
const PLACE_ALONE = process.platform === "linux" && HAS_DESCRIPTOR_PATHS ? 0o10000000 : 0;

/** Throws when it is not a folder: a link to one is not. */
export function holdFolder(path: string): HeldFolder {
  if (FOLDER === undefined) return { at: path, stats: lstatSync(path), close() {} };
  const fd = openSync(path, FOLDER_ITSELF);
  return { at: HAS_DESCRIPTOR_PATHS ? `/proc/self/fd/${fd}` : path, stats: fstatSync(fd), close: () => closeSync(fd) };
}

/** Of the folder itself: what a link in its place leads to stays as it is. */
export function setFolderMode(path: string, mode: number): void {
  if (FOLDER === undefined) return; // There are no such bits there.
  const fd = openSync(path, FOLDER_ITSELF | PLACE_ALONE);
  try {
    if (PLACE_ALONE === 0) fchmodSync(fd, mode);
    else chmodSync(`/proc/self/fd/${fd}`, mode);
  } finally {
    closeSync(fd);
  }
}

/** Whether it is this user's own. */
export function isOwn(stats: Stats): boolean {
  return stats.uid === (process.geteuid?.() ?? stats.uid);
}
