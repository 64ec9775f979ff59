import { randomBytes } from "node:crypto";
import { lstatSync, renameSync } from "node:fs";
import { posix } from "node:path";
import { getErrorMessage } from "../../errors/problem.ts";
import {
  createHeldFolder,
  digestCurrent,
  formatHeldDiff,
  type HeldChange,
  type HeldChanges,
  type HeldChangesFolder,
  NOTHING_DIGEST,
} from "./held-changes.ts";
import { REPOSITORY_SHAPE, readManifestParts, type SensitiveRow } from "./sensitive-paths.ts";
import {
  joinRawPath,
  readStatsAt,
  toPathBytes,
  toPathText,
  type WorkspaceWalk,
  walkWorkspace,
} from "./walk-workspace.ts";
import {
  createFolderRights,
  type FolderRights,
  moveWorkspaceTree,
  withSafeParent,
  writeSnapshotEntry,
} from "./workspace-files.ts";
import {
  createSnapshotEntry,
  digestPath,
  isInComparedUnit,
  listRawNames,
  readEntries,
  readEntryStats,
  readLinkTarget,
  readRawFile,
  type SnapshotEntry,
  type SnapshotUnit,
  type WorkspaceSnapshot,
} from "./workspace-snapshot.ts";

interface HoldOptions {
  home: string;
  workspace: string;
  skill: string;
  /** For a killed run: the time when it had certainly ended. Later changes are the user's. */
  until?: number;
}

/**
 * Compares the workspace with its snapshot, moves every change of a sensitive path out of it, and restores the previous content. Returns the
 * held changes, or `undefined` if no sensitive path changed.
 */
export function holdChanges(snapshot: WorkspaceSnapshot, options: HoldOptions): HeldChanges | undefined {
  const rights = createFolderRights(snapshot.root);
  try {
    return holdWithRights(snapshot, options, rights);
  } finally {
    rights.restore();
  }
}

function holdWithRights(
  snapshot: WorkspaceSnapshot,
  options: HoldOptions,
  rights: FolderRights,
): HeldChanges | undefined {
  const { root } = snapshot;
  const folder = createHeldFolder(options.home);
  const changes: HeldChange[] = [];
  let walk = walkWorkspace(root, { rights });
  let isMoved = false;
  for (const unit of snapshot.units.values()) {
    if (!unit.isMounted) continue;
    const moved = moveUnitBack(root, unit, folder);
    isMoved ||= moved !== undefined;
    changes.push(...(moved ?? []));
  }
  // A folder that was moved back may have contained others, and may have been in the way of others.
  if (isMoved) walk = walkWorkspace(root, { rights });
  const differences = compareWorkspace(snapshot, walk).filter(
    (one) => options.until === undefined || !isMadeByUser(root, one, options.until),
  );
  for (const difference of differences) changes.push(...holdChange(root, difference, folder));
  if (changes.length === 0) return undefined;
  const { workspace, skill } = options;
  const settled = changes.map((change) => ({ ...change, current: digestCurrent(root, change.raw) }));
  return folder.save({ workspace, skill, at: new Date().toISOString(), changes: settled });
}

/** Moves a read-only path back. Its content is unchanged, but a folder above it may have been renamed. */
function moveUnitBack(
  root: string,
  { path, row, entries }: SnapshotUnit,
  folder: HeldChangesFolder,
): HeldChange[] | undefined {
  const before = entries.get("");
  const isReal = createRealFolderCheck(root);
  if (!before || (isReal(posix.dirname(path)) && readIdentity(root, path) === before.id)) return undefined;
  const found = findByIdentity(root, posix.basename(path), before.id);
  if (found === undefined) return []; // A file is restored from its bytes. A folder that the user removed stays removed.
  const changes: HeldChange[] = [];
  const moveAside = (at: string) =>
    changes.push(...holdChange(root, { path: at, change: "changed", row, before: new Map() }, folder));
  if (isReal(posix.dirname(path)) && readEntryStats(root, path)) moveAside(path);
  try {
    withSafeParent(root, path, (target) => renameSync(toPathBytes(`${root}/${found}`), toPathBytes(target)), {
      make: { onBlocked: moveAside },
    });
  } catch (error) {
    const problem = `it is now ${toPathText(found)}: ${getErrorMessage(error)}`;
    changes.push({ ...createHeldChange({ path, change: "removed", row }), problem });
  }
  return changes;
}

function readIdentity(root: string, path: string): string | undefined {
  const stats = readEntryStats(root, path);
  return stats && `${stats.dev}:${stats.ino}`;
}

/** Finds a file or folder by its name and identity, anywhere in the workspace. */
function findByIdentity(root: string, name: string, id: string): string | undefined {
  const queue = [""];
  for (let at = 0; at < queue.length; at++) {
    const folder = queue[at] as string;
    for (const entry of listRawNames(root, folder === "" ? "." : folder)) {
      const path = joinRawPath(folder, entry);
      const stats = readEntryStats(root, path);
      if (entry === name && stats && `${stats.dev}:${stats.ino}` === id) return path;
      if (stats?.isDirectory()) queue.push(path);
    }
  }
  return undefined;
}

/** Moves the current content of a path to the held folder, and restores the previous content. */
function holdChange(root: string, difference: WorkspaceDifference, folder: HeldChangesFolder): HeldChange[] {
  const { path, change, before } = difference;
  const blocked: HeldChange[] = [];
  const held = createHeldChange(difference);
  try {
    // An unreadable path counts as removed, but may still exist.
    if (change !== "removed" || digestCurrent(root, path) !== NOTHING_DIGEST)
      held.stored = moveToHeldFolder(root, path, folder);
  } catch (error) {
    held.problem = getErrorMessage(error);
  }
  // The diff shows the moved content, not the workspace: another run may have changed the path in between.
  const location = held.stored === undefined ? { root, path } : { root: folder.root, path: held.stored };
  Object.assign(held, formatHeldDiff({ ...location, command: `skillet approve ${folder.id} --details` }, difference));
  if (held.stored !== undefined) held.digest = digestPath(folder.root, held.stored);
  try {
    for (const [inner, entry] of before) {
      const whole = inner === "" ? path : `${path}/${inner}`;
      const isWritten = withSafeParent(
        root,
        whole,
        (target) => doesExist(target) || writeSnapshotEntry(target, entry),
        {
          make: {
            onBlocked: (at) =>
              blocked.push(
                ...holdChange(root, { path: at, change: "changed", row: difference.row, before: new Map() }, folder),
              ),
          },
        },
      );
      if (!isWritten) held.problem = "the previous content could not be restored";
    }
  } catch (error) {
    held.problem = getErrorMessage(error);
  }
  return [...blocked, held];
}

function doesExist(path: string): boolean {
  return lstatSync(toPathBytes(path), { throwIfNoEntry: false }) !== undefined;
}

function moveToHeldFolder(root: string, path: string, folder: HeldChangesFolder): string {
  return withSafeParent(root, path, (from) => {
    try {
      const { name, path: to } = folder.next();
      moveWorkspaceTree(from, to);
      return name;
    } catch (error) {
      // The content must not keep its name, even if there is no space to move it.
      const name = `${folder.id}-${randomBytes(4).toString("hex")}`;
      renameSync(toPathBytes(from), toPathBytes(`${from.slice(0, from.lastIndexOf("/"))}/${name}`));
      const parent = posix.dirname(path);
      throw new Error(
        `it is now ${toPathText(parent === "." ? name : joinRawPath(parent, name))}: ${getErrorMessage(error)}`,
      );
    }
  });
}

function createHeldChange({ path, change, row }: Omit<WorkspaceDifference, "before">): HeldChange {
  return { path: toPathText(path), change, group: row.group, diff: "", raw: path, current: "" };
}

/** Returns true if a difference was made after a killed run had ended. */
function isMadeByUser(root: string, { path, change }: WorkspaceDifference, until: number): boolean {
  if (change === "removed") {
    const parent = readEntryStats(root, posix.dirname(path));
    return parent === undefined || Number(parent.ctimeMs) > until;
  }
  const stats = readEntryStats(root, path);
  return stats !== undefined && Number(stats.birthtimeMs) > until;
}

/** A difference between a snapshot and the workspace. */
export interface WorkspaceDifference {
  path: string;
  change: "added" | "changed" | "removed";
  row: SensitiveRow;
  /** The entries to write again once the path is free: inner paths, the shortest first. */
  before: Map<string, SnapshotEntry>;
}

/** Compares names, kinds, modes and bytes. The origin of a file does not matter. */
function compareWorkspace(snapshot: WorkspaceSnapshot, now: WorkspaceWalk): WorkspaceDifference[] {
  const { root, units } = snapshot;
  const isReal = createRealFolderCheck(root);
  const differences: WorkspaceDifference[] = [];
  for (const unit of units.values()) differences.push(...compareUnit(root, unit, isReal));
  for (const [path, row] of now.sensitive) {
    if (units.has(path) || isInComparedUnit(units, path)) continue;
    if (row === REPOSITORY_SHAPE) continue;
    if (row.isManifest && !isSensitiveManifest(root, path)) continue;
    differences.push({ path, change: "added", row, before: new Map() });
  }
  for (const path of now.repositories) {
    if (path !== "" && (units.has(path) || isInComparedUnit(units, path))) continue;
    const known = new Set(snapshot.parts.get(path) ?? []);
    for (const name of now.parts.get(path) ?? []) {
      const part = joinRawPath(path, name);
      if (known.has(name) || units.has(part)) continue;
      differences.push({ path: part, change: "added", row: REPOSITORY_SHAPE, before: new Map() });
    }
  }
  return differences;
}

function compareUnit(root: string, unit: SnapshotUnit, isReal: (folder: string) => boolean): WorkspaceDifference[] {
  const { path, row, entries } = unit;
  const top = entries.get("");
  const stats = isReal(posix.dirname(path)) ? readEntryStats(root, path) : undefined;
  const isMountedFolder = unit.isMounted && top?.kind === "folder";
  if (!top) return stats ? [{ path, change: "added", row, before: new Map() }] : [];
  // The code cannot have removed it: otherwise it would have been moved back.
  if (isMountedFolder && !stats) return [];
  if (isMountedFolder && stats && createSnapshotEntry(stats).id !== top.id)
    return [{ path, change: "changed", row, before: new Map() }];
  if (!stats) return row.isManifest ? [] : [{ path, change: "removed", row, before: entries }];
  if (row.isOpaque)
    return createSnapshotEntry(stats).id === top.id ? [] : [{ path, change: "changed", row, before: new Map() }];
  if (row.isManifest) return isSameManifest(root, path, top) ? [] : [{ path, change: "changed", row, before: entries }];
  if (createSnapshotEntry(stats).kind !== top.kind) return [{ path, change: "changed", row, before: entries }];
  return compareEntries(root, unit);
}

function compareEntries(root: string, { path, row, entries, isMounted }: SnapshotUnit): WorkspaceDifference[] {
  const differences: WorkspaceDifference[] = [];
  const add = (inner: string, change: WorkspaceDifference["change"], before?: SnapshotEntry) =>
    differences.push({
      path: inner === "" ? path : `${path}/${inner}`,
      change,
      row,
      before: new Map(before ? [["", before]] : []),
    });
  for (const [inner, entry] of entries) {
    const whole = inner === "" ? path : `${path}/${inner}`;
    const isInReplaced = differences.some((one) => one.change === "changed" && whole.startsWith(`${one.path}/`));
    const stats = isInReplaced ? undefined : readEntryStats(root, whole);
    if (!stats) {
      if (entry.kind !== "folder") add(inner, "removed", entry);
    } else if (!isSameEntry(root, whole, entry)) add(inner, "changed", entry);
  }
  if (isMounted) return differences;
  for (const inner of findAddedEntries(root, path, row, entries)) add(inner, "added");
  return differences;
}

/** Finds new files and links in a folder that is compared as a whole. */
function findAddedEntries(
  root: string,
  path: string,
  row: SensitiveRow,
  entries: ReadonlyMap<string, SnapshotEntry>,
): string[] {
  const now = readEntries(root, path, row, { reads: "names" }) ?? new Map<string, SnapshotEntry>();
  return [...now].filter(([inner, { kind }]) => !entries.has(inner) && kind !== "folder").map(([inner]) => inner);
}

function isSameEntry(root: string, path: string, entry: SnapshotEntry): boolean {
  const stats = readEntryStats(root, path);
  if (!stats) return false;
  const now = createSnapshotEntry(stats);
  if (now.kind !== entry.kind) return false;
  if (entry.print !== "" && now.print === entry.print) return true;
  if (entry.kind === "folder") return true;
  if (entry.kind === "link") return entry.bytes?.equals(readLinkTarget(root, path)) === true;
  if (entry.kind === "other" || !entry.bytes) return now.id === entry.id;
  if (now.mode !== entry.mode || Number(stats.size) !== entry.bytes.length) return false;
  return readRawFile(root, path, entry.bytes.length + 1)?.equals(entry.bytes) === true;
}

const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;

function isSameManifest(root: string, path: string, before: SnapshotEntry): boolean {
  if (isSameEntry(root, path, before)) return true;
  const now = readManifestBytes(root, path);
  if (before.kind !== "file" || !now || !before.bytes) return false;
  const parts = readManifestParts(now.toString());
  return parts === "" || parts === readManifestParts(before.bytes.toString());
}

/** Returns the bytes, or undefined if the file exceeds the read limit: package managers read all of it. */
function readManifestBytes(root: string, path: string): Buffer | undefined {
  const bytes = readRawFile(root, path, MAX_MANIFEST_BYTES + 1);
  return bytes && bytes.length <= MAX_MANIFEST_BYTES ? bytes : undefined;
}

/** Returns true if a manifest is sensitive. One that is not a file may lead to one. */
function isSensitiveManifest(root: string, path: string): boolean {
  const stats = readEntryStats(root, path);
  if (!stats || stats.isDirectory()) return false;
  const bytes = readManifestBytes(root, path);
  return bytes === undefined || readManifestParts(bytes.toString()) !== "";
}

/** Creates a check that a folder of the workspace and all its parents are real folders, not links. */
function createRealFolderCheck(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>([
    ["", true],
    [".", true],
  ]);
  const isReal = (folder: string): boolean => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    const found =
      isReal(posix.dirname(folder)) && readStatsAt(toPathBytes(`${root}/${folder}`))?.isDirectory() === true;
    known.set(folder, found);
    return found;
  };
  return isReal;
}
