import { posix } from "node:path";
import { manifestParts, REPOSITORY_SHAPE, type SensitiveRow } from "./sensitive-paths.ts";
import {
  type Entry,
  entryOf,
  isWithin,
  linkTarget,
  readEntries,
  readRaw,
  type Snapshot,
  statOf,
  type Unit,
} from "./snapshot.ts";
import { bytesOf, joinRaw, statsAt, type WorkspaceWalk } from "./walk-workspace.ts";

/** A difference between a snapshot and the workspace. */
export interface Difference {
  path: string;
  change: "added" | "changed" | "removed";
  row: SensitiveRow;
  /** What has to be written again once the path is free: paths within it, the shortest first. */
  before: Map<string, Entry>;
}

/** Compares by what is there now: names, kinds, modes and bytes. Where a file came from does not matter. */
export function compareWorkspace(snapshot: Snapshot, now: WorkspaceWalk): Difference[] {
  const { root, units } = snapshot;
  const isReal = realFolders(root);
  const differences: Difference[] = [];
  for (const unit of units.values()) differences.push(...compareUnit(root, unit, isReal));
  for (const [path, row] of now.sensitive) {
    if (units.has(path) || isWithin(units, path)) continue;
    if (row === REPOSITORY_SHAPE) continue;
    if (row.isManifest && !isSensitiveManifest(root, path)) continue;
    differences.push({ path, change: "added", row, before: new Map() });
  }
  for (const path of now.repositories) {
    if (path !== "" && (units.has(path) || isWithin(units, path))) continue;
    const known = new Set(snapshot.parts.get(path) ?? []);
    for (const name of now.parts.get(path) ?? []) {
      const part = joinRaw(path, name);
      if (known.has(name) || units.has(part)) continue;
      differences.push({ path: part, change: "added", row: REPOSITORY_SHAPE, before: new Map() });
    }
  }
  return differences;
}

function compareUnit(root: string, unit: Unit, isReal: (folder: string) => boolean): Difference[] {
  const { path, row, entries } = unit;
  const top = entries.get("");
  const stats = isReal(posix.dirname(path)) ? statOf(root, path) : undefined;
  const isMountedFolder = unit.isMounted && top?.kind === "folder";
  if (!top) return stats ? [{ path, change: "added", row, before: new Map() }] : [];
  // Code cannot have removed it: it would have been moved back.
  if (isMountedFolder && !stats) return [];
  if (isMountedFolder && stats && entryOf(stats).id !== top.id)
    return [{ path, change: "changed", row, before: new Map() }];
  if (!stats) return row.isManifest ? [] : [{ path, change: "removed", row, before: entries }];
  if (row.isOpaque) return entryOf(stats).id === top.id ? [] : [{ path, change: "changed", row, before: new Map() }];
  if (row.isManifest) return isSameManifest(root, path, top) ? [] : [{ path, change: "changed", row, before: entries }];
  if (entryOf(stats).kind !== top.kind) return [{ path, change: "changed", row, before: entries }];
  return compareEntries(root, unit);
}

function compareEntries(root: string, { path, row, entries, isMounted }: Unit): Difference[] {
  const differences: Difference[] = [];
  const add = (inner: string, change: Difference["change"], before?: Entry) =>
    differences.push({
      path: inner === "" ? path : `${path}/${inner}`,
      change,
      row,
      before: new Map(before ? [["", before]] : []),
    });
  for (const [inner, entry] of entries) {
    const whole = inner === "" ? path : `${path}/${inner}`;
    const isInReplaced = differences.some((one) => one.change === "changed" && whole.startsWith(`${one.path}/`));
    const stats = isInReplaced ? undefined : statOf(root, whole);
    if (!stats) {
      if (entry.kind !== "folder") add(inner, "removed", entry);
    } else if (!isSame(root, whole, entry)) add(inner, "changed", entry);
  }
  if (isMounted) return differences;
  for (const inner of addedIn(root, path, row, entries)) add(inner, "added");
  return differences;
}

/** New files and links in a folder that is compared as a whole. */
function addedIn(root: string, path: string, row: SensitiveRow, entries: ReadonlyMap<string, Entry>): string[] {
  const now = readEntries(root, path, row, { reads: "names" }) ?? new Map<string, Entry>();
  return [...now].filter(([inner, { kind }]) => !entries.has(inner) && kind !== "folder").map(([inner]) => inner);
}

export function isSame(root: string, path: string, entry: Entry): boolean {
  const stats = statOf(root, path);
  if (!stats) return false;
  const now = entryOf(stats);
  if (now.kind !== entry.kind) return false;
  if (entry.print !== "" && now.print === entry.print) return true;
  if (entry.kind === "folder") return true;
  if (entry.kind === "link") return entry.bytes?.equals(linkTarget(root, path)) === true;
  if (entry.kind === "other" || !entry.bytes) return now.id === entry.id;
  if (now.mode !== entry.mode || Number(stats.size) !== entry.bytes.length) return false;
  return readRaw(root, path, entry.bytes.length + 1)?.equals(entry.bytes) === true;
}

const LONGEST_MANIFEST = 4 * 1024 * 1024;

function isSameManifest(root: string, path: string, before: Entry): boolean {
  if (isSame(root, path, before)) return true;
  const now = readManifest(root, path);
  if (before.kind !== "file" || !now || !before.bytes) return false;
  const parts = manifestParts(now.toString());
  return parts === "" || parts === manifestParts(before.bytes.toString());
}

/** Nothing where it is longer than what is read: package managers read all of it. */
function readManifest(root: string, path: string): Buffer | undefined {
  const bytes = readRaw(root, path, LONGEST_MANIFEST + 1);
  return bytes && bytes.length <= LONGEST_MANIFEST ? bytes : undefined;
}

/** A manifest that is no file may lead to one. */
function isSensitiveManifest(root: string, path: string): boolean {
  const stats = statOf(root, path);
  if (!stats || stats.isDirectory()) return false;
  const bytes = readManifest(root, path);
  return bytes === undefined || manifestParts(bytes.toString()) !== "";
}

/** Whether a folder of the workspace and all above it are folders, and no links. */
export function realFolders(root: string): (folder: string) => boolean {
  const known = new Map<string, boolean>([
    ["", true],
    [".", true],
  ]);
  const isReal = (folder: string): boolean => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    const found = isReal(posix.dirname(folder)) && statsAt(bytesOf(`${root}/${folder}`))?.isDirectory() === true;
    known.set(folder, found);
    return found;
  };
  return isReal;
}
