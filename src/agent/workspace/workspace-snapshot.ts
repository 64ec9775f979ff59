import { createHash } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
} from "node:fs";
import { posix } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { isInside } from "../../util/safe-path.ts";
import { isGitFolder, isVolatilePart, OWN_SOURCE_ROW, REPOSITORY_SHAPE, type SensitiveRow } from "./sensitive-paths.ts";
import {
  joinRawPath,
  resolveLink,
  resolveLinkFrom,
  toPathBytes,
  toPathText,
  type WorkspaceWalk,
} from "./walk-workspace.ts";

export type EntryKind = "file" | "folder" | "link" | "other";

/** One file, folder or link of a sensitive path before code ran. */
export interface SnapshotEntry {
  kind: EntryKind;
  /** Device and inode. */
  id: string;
  /** Changes with every change of the file, and cannot be set by code. Empty if the file changed too recently. */
  print: string;
  mode: number;
  owner: [uid: number, gid: number];
  mtimeMs: number;
  /** The file's bytes, or the target of the link. */
  bytes?: Buffer;
}

/** A sensitive path with all entries that are compared. */
export interface SnapshotUnit {
  path: string;
  row: SensitiveRow;
  /** Mounted read-only, so that only its location can change, and files with hard links elsewhere. */
  isMounted: boolean;
  /** By inner path; the empty string is the path itself. Empty if the path did not exist. */
  entries: Map<string, SnapshotEntry>;
}

export interface WorkspaceSnapshot {
  root: string;
  units: Map<string, SnapshotUnit>;
  /** Parts of repositories that existed before. */
  parts: WorkspaceWalk["parts"];
  startedAt: number;
  /** True if masked sockets or named pipes are in folders that code can rename. */
  hasMovableMasks?: boolean;
}

export interface SnapshotOptions {
  /** Returns true if the sandbox can mount a path read-only. */
  canMount(path: string): boolean;
  /** Folders whose skills need no trust. */
  own: readonly string[];
}

/** A mount takes about 0.2 ms, and more with each additional one. */
const MAX_MOUNTS = 64;
const MAX_SNAPSHOT_FILE_BYTES = 4 * 1024 * 1024;
const MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024;
const MAX_SNAPSHOT_FILES = 20_000;

/** Reads the sensitive paths of a workspace. Throws a SkillError if they cannot all be compared or mounted. */
export function takeSnapshot(root: string, walk: WorkspaceWalk, { canMount, own }: SnapshotOptions): WorkspaceSnapshot {
  const startedAt = Date.now();
  const rows = new Map<string, SensitiveRow>([
    ...own.map((path) => [path, OWN_SOURCE_ROW] as const),
    ...walk.sensitive,
  ]);
  for (const name of walk.repositories.has("") ? (walk.parts.get("") ?? []) : []) rows.set(name, REPOSITORY_SHAPE);
  // Targets of links and `gitdir:` are sensitive too, recursively.
  for (const [path, row] of rows) {
    const targets = [
      ...findLinkTargets(root, path),
      ...findInnerLinkTargets(root, path, row),
      ...findGitFolders(root, path, row),
    ];
    for (const target of targets) if (!rows.has(target)) rows.set(target, row);
  }
  const units = new Map<string, SnapshotUnit>();
  const budget = { bytes: MAX_SNAPSHOT_BYTES, files: MAX_SNAPSHOT_FILES };
  let mounts = 0;
  const shallowFirst = [...rows].sort(([a], [b]) => a.split("/").length - b.split("/").length);
  for (const [path, row] of shallowFirst) {
    if (isInComparedUnit(units, path)) continue;
    const mayMount = mounts < MAX_MOUNTS && canMount(path) && isMountable(root, path);
    const unit =
      row.isClosed && mayMount
        ? createMountedUnit(root, path, row, budget)
        : createTrackedUnit(root, path, row, budget);
    const stored = unit ?? (mayMount ? createMountedUnit(root, path, row, budget) : undefined);
    if (!stored) throw createTooManyFilesError(path);
    if (stored.isMounted) mounts++;
    units.set(path, stored);
  }
  return { root, units, parts: walk.parts, startedAt };
}

/** Returns true if a path is in a folder that is compared as a whole. */
export function isInComparedUnit(units: ReadonlyMap<string, SnapshotUnit>, path: string): boolean {
  for (let at = posix.dirname(path); at !== "."; at = posix.dirname(at)) {
    if (units.has(at) && !units.get(at)?.row.isOpaque) return true;
  }
  return false;
}

function findLinkTargets(root: string, path: string): string[] {
  if (readEntryStats(root, path)?.isSymbolicLink() !== true) return [];
  const linked = resolveLink(root, path);
  if (linked === undefined) return [];
  if (linked.end !== "") return linked.end === undefined ? linked.paths : [...linked.paths, linked.end];
  throw new SkillError("workspace-symlink", {
    message: `${toPathText(path)} leads to the whole workspace, which cannot be protected from code with write access`,
    fix: 'remove the link, or set workspace = "read" in config.toml',
  });
}

/** Finds the targets of links in a sensitive folder. A link to a folder that contains it adds nothing. */
function findInnerLinkTargets(root: string, path: string, row: SensitiveRow): string[] {
  if (readEntryStats(root, path)?.isDirectory() !== true) return [];
  const entries = readEntries(root, path, row, { reads: "links" }) ?? [];
  return [...entries].flatMap(([inner, { kind }]) => {
    if (kind !== "link") return [];
    const linked = resolveLink(root, `${path}/${inner}`);
    const paths = [...(linked?.paths ?? []), ...(linked?.end ? [linked.end] : [])];
    return paths.filter((target) => !isInside(target, path) && !isInside(path, target));
  });
}

/** Finds the folders in the workspace that a `.git` file, a `commondir` or the configuration of a repository names. */
function findGitFolders(root: string, path: string, row: SensitiveRow): string[] {
  if (!row.isEverywhere) return [];
  const firstLine = (file: string) => readRawFile(root, file, 4096)?.toString("latin1").split("\n")[0];
  const gitFile = firstLine(path);
  const common = firstLine(joinRawPath(path, "commondir"));
  return [
    ...(gitFile?.startsWith("gitdir:") ? [[posix.dirname(path), gitFile.slice("gitdir:".length).trim()]] : []),
    ...(common === undefined ? [] : [[path, common.trim()]]),
    ...["config", "config.worktree"].flatMap((name) => readGitConfigPaths(root, path, name)),
  ].flatMap(([folder = "", target = ""]) => {
    const linked = resolveLinkFrom(root, folder, target);
    return linked?.end ? [...linked.paths, linked.end] : [];
  });
}

const MAX_GIT_CONFIG_BYTES = 1024 * 1024;

/** Keys of a git configuration that name files which git runs or reads, by section. */
const GIT_CONFIG_KEYS: Readonly<Record<string, readonly string[]>> = {
  core: ["hookspath", "fsmonitor", "attributesfile"],
  include: ["path"],
  includeif: ["path"],
};

/** Reads the files and folders that a git configuration names, each with the folder that its path is relative to. */
function readGitConfigPaths(root: string, path: string, name: string): string[][] {
  const text = readRawFile(root, joinRawPath(path, name), MAX_GIT_CONFIG_BYTES)?.toString("latin1") ?? "";
  const worktree = posix.basename(path).toLowerCase() === ".git" ? posix.dirname(path) : path;
  let section = "";
  return text.split("\n").flatMap((line) => {
    const [, header, rest = line] = /^\s*\[\s*([\w-]+)[^\]]*\](.*)$/.exec(line) ?? [];
    section = header?.toLowerCase() ?? section;
    const [, key = "", value = ""] = /^\s*([\w-]+)\s*=\s*(.*)$/.exec(rest) ?? [];
    if (GIT_CONFIG_KEYS[section]?.includes(key.toLowerCase()) !== true) return [];
    const target = value
      .replace(/\s[#;].*$/, "")
      .replaceAll('"', "")
      .trim();
    return /^(?:true|false|yes|no|on|off|\d*)$/i.test(target) ? [] : [[section === "core" ? worktree : path, target]];
  });
}

/** Returns true if a path can be mounted: it must be text, and a mount over a link does not change where the link leads. */
function isMountable(root: string, path: string): boolean {
  const stats = readEntryStats(root, path);
  return (stats?.isFile() || stats?.isDirectory()) === true && toPathBytes(path).equals(Buffer.from(toPathText(path)));
}

type SnapshotBudget = { bytes: number; files: number };

/** Creates a read-only unit. Files with hard links can be written through other names, so they are compared. So is a single file. */
function createMountedUnit(
  root: string,
  path: string,
  row: SensitiveRow,
  budget: SnapshotBudget,
): SnapshotUnit | undefined {
  const unit = createTrackedUnit(root, path, row, budget, { isLinked: true });
  return unit && { ...unit, isMounted: true };
}

/** Creates a compared unit. Returns `undefined` if there is too much to compare. */
function createTrackedUnit(
  root: string,
  path: string,
  row: SensitiveRow,
  budget: SnapshotBudget,
  { isLinked = false } = {},
): SnapshotUnit | undefined {
  const take = (size: number) => {
    budget.bytes -= size;
    budget.files--;
    return size <= MAX_SNAPSHOT_FILE_BYTES && budget.bytes >= 0 && budget.files >= 0;
  };
  const entries = readEntries(root, path, row, { reads: isLinked ? "linked" : "all", take });
  return entries && { path, row, isMounted: false, entries };
}

export interface ReadEntriesOptions {
  /** `linked`: only files that have other names, and the path itself. `names`: no bytes. `links`: only symlinks. */
  reads: "all" | "linked" | "names" | "links";
  /** Returns true if there is room for a file of this size. */
  take?(size: number): boolean;
}

/** Reads the entries at a path, with their bytes. `undefined` if there is no room for all of them. */
export function readEntries(
  root: string,
  path: string,
  row: SensitiveRow,
  { reads, take = () => true }: ReadEntriesOptions,
): Map<string, SnapshotEntry> | undefined {
  const isLinked = reads === "linked";
  const entries = new Map<string, SnapshotEntry>();
  const queue = [""];
  let isGit: boolean | undefined;
  for (let at = 0; at < queue.length; at++) {
    const inner = queue[at] as string;
    if (isGit && isVolatilePart(inner)) continue;
    if ((isLinked || reads === "links") && at > MAX_SNAPSHOT_FILES) break;
    const whole = inner === "" ? path : `${path}/${inner}`;
    const stats = readEntryStats(root, whole);
    if (!stats) continue;
    const entry = createSnapshotEntry(stats);
    if (entry.kind === "folder" && !row.isOpaque) {
      const names = listRawNames(root, whole);
      if (inner === "") isGit = isGitFolder(row, names);
      queue.push(...names.map((name) => joinRawPath(inner, name)));
    }
    if (entry.kind === "link") entry.bytes = readLinkTarget(root, whole);
    const isSkipped = isLinked && inner !== "" && (entry.kind !== "file" || stats.nlink === 1n);
    if (isSkipped || (reads === "links" && entry.kind !== "link")) continue;
    if (entry.kind === "file" && reads !== "names") {
      const isTaken = take(Number(stats.size));
      if (!isTaken && !isLinked) return undefined;
      const bytes = isTaken ? readRawFile(root, whole, MAX_SNAPSHOT_FILE_BYTES) : undefined;
      if (bytes) entry.bytes = bytes;
    }
    entries.set(inner, entry);
  }
  return entries;
}

export function readEntryStats(root: string, path: string): BigIntStats | undefined {
  try {
    return lstatSync(toPathBytes(`${root}/${path}`), { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined; // A part of the path is not a folder.
  }
}

const RACY_FILE_MS = 100;

export function createSnapshotEntry(stats: BigIntStats): SnapshotEntry {
  const kind = stats.isFile() ? "file" : stats.isDirectory() ? "folder" : stats.isSymbolicLink() ? "link" : "other";
  const isRacy = Date.now() - Number(stats.ctimeMs) < RACY_FILE_MS;
  const id = `${stats.dev}:${stats.ino}`;
  return {
    kind,
    id,
    print: isRacy ? "" : `${id}:${stats.size}:${stats.ctimeNs}:${stats.mtimeNs}:${stats.mode}`,
    mode: Number(stats.mode & 0o7777n),
    owner: [Number(stats.uid), Number(stats.gid)],
    mtimeMs: Number(stats.mtimeMs),
  };
}

export function readLinkTarget(root: string, path: string): Buffer {
  return readlinkSync(toPathBytes(`${root}/${path}`), "buffer");
}

export function listRawNames(root: string, path: string): string[] {
  try {
    return readdirSync(toPathBytes(`${root}/${path}`), "latin1").sort();
  } catch {
    return [];
  }
}

const READ_FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Reads the bytes of a regular file, up to the maximum; undefined if it does not exist or cannot be read. */
export function readRawFile(root: string, path: string, max: number): Buffer | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(toPathBytes(`${root}/${path}`), READ_FLAGS);
    const stats = fstatSync(fd);
    if (!stats.isFile() || isOpenedElsewhere(fd, `${root}/${path}`)) return undefined;
    const bytes = Buffer.allocUnsafe(Math.min(stats.size, max));
    let length = 0;
    while (length < bytes.length) {
      const read = readSync(fd, bytes, length, bytes.length - length, length);
      if (read === 0) break;
      length += read;
    }
    return bytes.subarray(0, length);
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Returns true if a link led elsewhere: code of another run can swap a parent folder during the read. */
function isOpenedElsewhere(fd: number, path: string): boolean {
  if (process.platform !== "linux" || path.startsWith("/proc/self/fd/")) return false;
  return readlinkSync(`/proc/self/fd/${fd}`, "latin1" as BufferEncoding) !== path;
}

/** Returns a digest of everything at a path: names, kinds, modes and bytes. */
export function digestPath(root: string, path: string): string {
  const hash = createHash("sha256");
  const add = (at: string) => {
    const stats = readEntryStats(root, at);
    if (!stats) return hash.update("nothing\0");
    const { kind, mode } = createSnapshotEntry(stats);
    hash.update(`${kind} ${kind === "file" ? mode : ""}\0`);
    if (kind === "file")
      hash.update(
        createHash("sha256")
          .update(readRawFile(root, at, Number(stats.size)) ?? "")
          .digest(),
      );
    if (kind === "link") hash.update(readLinkTarget(root, at)).update("\0");
    for (const name of kind === "folder" ? listRawNames(root, at) : []) {
      hash.update(`${name}\0`);
      add(`${at}/${name}`);
    }
    return hash.update("end\0");
  };
  add(path);
  return hash.digest("hex");
}

function createTooManyFilesError(path: string): SkillError {
  return new SkillError("workspace-unwatchable", {
    message: `The workspace has too many sensitive files to compare before and after a run; the first is ${toPathText(path)}`,
    fix: 'work in a smaller folder, or set workspace = "read" in config.toml',
  });
}
