import { randomBytes } from "node:crypto";
import { lstatSync, renameSync } from "node:fs";
import { posix } from "node:path";
import { reason } from "../../shared/inside.ts";
import { compareWorkspace, type Difference, realFolders } from "./compare-workspace.ts";
import { createFolderRights, type FolderRights } from "./folder-rights.ts";
import {
  currentOf,
  type HeldChange,
  type HeldChanges,
  type HeldFolder,
  NOTHING,
  openHeldFolder,
} from "./held-changes.ts";
import { diffOf } from "./held-diff.ts";
import { atPlace, moveTree, writeEntry } from "./move-tree.ts";
import { digestOf, namesIn, type Snapshot, statOf, type Unit } from "./snapshot.ts";
import { bytesOf, joinRaw, textOf, walkWorkspace } from "./walk-workspace.ts";

export interface HoldOptions {
  home: string;
  workspace: string;
  skill: string;
  /** For a run that was killed: when it was certainly over. What was made later is the user's. */
  until?: number;
}

/**
 * Compares the workspace with its snapshot, takes every change of a sensitive path out of it, and puts back what was there. Returns the held
 * changes, or `undefined` where nothing sensitive changed.
 */
export function holdChanges(snapshot: Snapshot, options: HoldOptions): HeldChanges | undefined {
  const rights = createFolderRights(snapshot.root);
  try {
    return holdWithRights(snapshot, options, rights);
  } finally {
    rights.restore();
  }
}

function holdWithRights(snapshot: Snapshot, options: HoldOptions, rights: FolderRights): HeldChanges | undefined {
  const { root } = snapshot;
  const folder = openHeldFolder(options.home);
  const changes: HeldChange[] = [];
  let walk = walkWorkspace(root, { rights });
  let isMoved = false;
  for (const unit of snapshot.units.values()) {
    if (!unit.isMounted) continue;
    const moved = moveBack(root, unit, folder);
    isMoved ||= moved !== undefined;
    changes.push(...(moved ?? []));
  }
  // What was moved back can have held others in it, and what was in its way may be gone.
  if (isMoved) walk = walkWorkspace(root, { rights });
  const differences = compareWorkspace(snapshot, walk).filter(
    (one) => options.until === undefined || !isOfUser(root, one, options.until),
  );
  for (const difference of differences) changes.push(...hold(root, difference, folder));
  if (changes.length === 0) return undefined;
  const { workspace, skill } = options;
  const settled = changes.map((change) => ({ ...change, current: currentOf(root, change.raw) }));
  return folder.save({ workspace, skill, at: new Date().toISOString(), changes: settled });
}

/** A path that was mounted read-only is as it was, wherever it is now: a folder above it can have been renamed. */
function moveBack(root: string, { path, row, entries }: Unit, folder: HeldFolder): HeldChange[] | undefined {
  const before = entries.get("");
  const isReal = realFolders(root);
  if (!before || (isReal(posix.dirname(path)) && idAt(root, path) === before.id)) return undefined;
  const found = locate(root, posix.basename(path), before.id);
  if (found === undefined) return []; // A file is restored from its bytes; a folder that the user removed is gone.
  const changes: HeldChange[] = [];
  const moveAside = (at: string) =>
    changes.push(...hold(root, { path: at, change: "changed", row, before: new Map() }, folder));
  if (isReal(posix.dirname(path)) && statOf(root, path)) moveAside(path);
  try {
    atPlace(root, path, (place) => renameSync(bytesOf(`${root}/${found}`), bytesOf(place)), {
      make: { onBlocked: moveAside },
    });
  } catch (error) {
    const problem = `it is now ${textOf(found)}: ${reason(error)}`;
    changes.push({ ...describe({ path, change: "removed", row }), problem });
  }
  return changes;
}

function idAt(root: string, path: string): string | undefined {
  const stats = statOf(root, path);
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Finds a file or folder by its name and identity, wherever it is. */
function locate(root: string, name: string, id: string): string | undefined {
  const queue = [""];
  for (let at = 0; at < queue.length; at++) {
    const folder = queue[at] as string;
    for (const entry of namesIn(root, folder === "" ? "." : folder)) {
      const path = joinRaw(folder, entry);
      const stats = statOf(root, path);
      if (entry === name && stats && `${stats.dev}:${stats.ino}` === id) return path;
      if (stats?.isDirectory()) queue.push(path);
    }
  }
  return undefined;
}

/** Moves what is at a path to the held folder, and writes what was there before. */
function hold(root: string, difference: Difference, folder: HeldFolder): HeldChange[] {
  const { path, change, before } = difference;
  const blocked: HeldChange[] = [];
  const held = describe(difference);
  try {
    // What could not be looked at counts as removed, and can be there all the same.
    if (change !== "removed" || currentOf(root, path) !== NOTHING) held.stored = takeOut(root, path, folder);
  } catch (error) {
    held.problem = reason(error);
  }
  // Shown is what was taken out, and not what was there before: another run in the workspace can have changed it in between.
  const place = held.stored === undefined ? { root, path } : { root: folder.root, path: held.stored };
  Object.assign(held, diffOf({ ...place, command: `skillet approve ${folder.id} --details` }, difference));
  if (held.stored !== undefined) held.digest = digestOf(folder.root, held.stored);
  try {
    for (const [inner, entry] of before) {
      const whole = inner === "" ? path : `${path}/${inner}`;
      const isWritten = atPlace(root, whole, (place) => isThere(place) || writeEntry(place, entry), {
        make: {
          onBlocked: (at) =>
            blocked.push(
              ...hold(root, { path: at, change: "changed", row: difference.row, before: new Map() }, folder),
            ),
        },
      });
      if (!isWritten) held.problem = "what was there before could not be written again";
    }
  } catch (error) {
    held.problem = reason(error);
  }
  return [...blocked, held];
}

function isThere(place: string): boolean {
  return lstatSync(bytesOf(place), { throwIfNoEntry: false }) !== undefined;
}

function takeOut(root: string, path: string, folder: HeldFolder): string {
  return atPlace(root, path, (from) => {
    try {
      const { name, place: to } = folder.next();
      moveTree(from, to);
      return name;
    } catch (error) {
      // It must not stay under its name, also where there is no room to move it to.
      const name = `${folder.id}-${randomBytes(4).toString("hex")}`;
      renameSync(bytesOf(from), bytesOf(`${from.slice(0, from.lastIndexOf("/"))}/${name}`));
      const parent = posix.dirname(path);
      throw new Error(`it is now ${textOf(parent === "." ? name : joinRaw(parent, name))}: ${reason(error)}`);
    }
  });
}

function describe({ path, change, row }: Omit<Difference, "before">): HeldChange {
  return { path: textOf(path), change, group: row.group, diff: "", raw: path, current: "" };
}

/** Whether a difference came about after a killed run was over. */
function isOfUser(root: string, { path, change }: Difference, until: number): boolean {
  if (change === "removed") {
    const parent = statOf(root, posix.dirname(path));
    return parent === undefined || Number(parent.ctimeMs) > until;
  }
  const stats = statOf(root, path);
  return stats !== undefined && Number(stats.birthtimeMs) > until;
}
