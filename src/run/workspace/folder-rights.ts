import { chmodSync, fstatSync, lstatSync } from "node:fs";
import { isRoot } from "../../sandbox/places.ts";
import { codeOf } from "../../shared/inside.ts";
import { type OpenFolder, openFolder } from "./move-tree.ts";
import { bytesOf, statsAt } from "./walk-workspace.ts";

/** Gives the owner of folders the right to look into them. */
export interface FolderRights {
  /** Opens a folder for as long as `restore` is not called. Contract: the folders above it were opened before. Never throws. */
  open(path: string): void;
  /** The mode that a folder had, where it was changed. */
  modeBefore(path: string): number | undefined;
  /** Gives all folders that are still there the mode that they had. Never throws. */
  restore(): void;
}

const ALL = 0o700;

/**
 * Code can take the rights from a folder of the user's, and programs would still find what is in it by its name. Root needs no rights. Modes
 * are changed through descriptors, so that nobody can put a link in a folder's place meanwhile.
 */
export function createFolderRights(root: string): FolderRights {
  const changed: { path: string; id: string; mode: number }[] = [];
  const user = process.getuid?.();
  const placeOf = (path: string) => (path === "" ? root : `${root}/${path}`);
  return {
    open(path) {
      if (isRoot()) return;
      const stats = statsAt(bytesOf(placeOf(path)));
      if (!stats?.isDirectory() || stats.uid !== user || (stats.mode & ALL) === ALL) return;
      withFolder(placeOf(path), (folder) => {
        const { dev, ino, mode, uid } = statsOf(folder);
        if (uid !== user) return;
        chmodSync(bytesOf(folder.place), (mode & 0o7777) | ALL);
        changed.push({ path, id: `${dev}:${ino}`, mode: mode & 0o7777 });
      });
    },
    modeBefore: (path) => changed.find((one) => one.path === path)?.mode,
    restore() {
      for (const { path, id, mode } of changed.splice(0).reverse()) {
        withFolder(placeOf(path), (folder) => {
          const { dev, ino } = statsOf(folder);
          if (`${dev}:${ino}` === id) chmodSync(bytesOf(folder.place), mode);
        });
      }
    },
  };
}

function withFolder(place: string, work: (folder: OpenFolder) => void): void {
  let folder: OpenFolder | undefined;
  try {
    folder = openFolder(place);
    work(folder);
  } catch (error) {
    // It is gone, or was replaced.
    if (codeOf(error) === "") throw error;
  } finally {
    folder?.close();
  }
}

function statsOf({ fd, place }: OpenFolder) {
  return fd === undefined ? lstatSync(bytesOf(place)) : fstatSync(fd);
}
