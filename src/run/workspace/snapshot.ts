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
import { SkillError } from "../../shared/error.ts";
import { isInside } from "../../shared/inside.ts";
import { isGitFolder, isVolatile, OWN_SOURCE, REPOSITORY_SHAPE, type SensitiveRow } from "./sensitive-paths.ts";
import { bytesOf, joinRaw, linkedFrom, linkedPaths, textOf, type WorkspaceWalk } from "./walk-workspace.ts";

export type EntryKind = "file" | "folder" | "link" | "other";

/** One file, folder or link of a sensitive path, as it was before code ran. */
export interface Entry {
  kind: EntryKind;
  /** Device and inode. */
  id: string;
  /** Changes with every change of the file, and cannot be set by code. Empty where the file was changed too shortly ago to tell. */
  print: string;
  mode: number;
  owner: [uid: number, gid: number];
  mtimeMs: number;
  /** The file's bytes, or where the link leads. */
  bytes?: Buffer;
}

/** A sensitive path with all that is compared of it. */
export interface Unit {
  path: string;
  row: SensitiveRow;
  /** Mounted read-only, so that only its place can change, and what has hard links elsewhere. */
  isMounted: boolean;
  /** By the path within it, and by the empty text for itself. Empty where the path did not exist. */
  entries: Map<string, Entry>;
}

export interface Snapshot {
  root: string;
  units: Map<string, Unit>;
  /** Parts of repositories that were there before. */
  parts: WorkspaceWalk["parts"];
  startedAt: number;
  /** Some masked sockets or named pipes are in folders that code can rename. */
  hasMovableMasks?: boolean;
}

export interface SnapshotOptions {
  /** Whether the sandbox can mount a path read-only. */
  canMount(path: string): boolean;
  /** Folders whose skills need no trust. */
  own: readonly string[];
}

/** A mount takes a sandbox about 0.2 ms, and more the more there are. */
const MOST_MOUNTS = 64;
const LARGEST_FILE = 4 * 1024 * 1024;
const MOST_BYTES = 64 * 1024 * 1024;
const MOST_FILES = 20_000;

/** Reads the sensitive paths of a workspace. Throws a SkillError where they cannot all be compared or mounted. */
export function takeSnapshot(root: string, walk: WorkspaceWalk, { canMount, own }: SnapshotOptions): Snapshot {
  const startedAt = Date.now();
  const rows = new Map<string, SensitiveRow>([...own.map((path) => [path, OWN_SOURCE] as const), ...walk.sensitive]);
  for (const name of walk.repositories.has("") ? (walk.parts.get("") ?? []) : []) rows.set(name, REPOSITORY_SHAPE);
  // What links and `gitdir:` lead to is sensitive, too, and so on from there.
  for (const [path, row] of rows) {
    const found = [...ledTo(root, path), ...ledFrom(root, path, row), ...gitFolders(root, path, row)];
    for (const led of found) if (!rows.has(led)) rows.set(led, row);
  }
  const units = new Map<string, Unit>();
  const budget = { bytes: MOST_BYTES, files: MOST_FILES };
  let mounts = 0;
  const shallowFirst = [...rows].sort(([a], [b]) => a.split("/").length - b.split("/").length);
  for (const [path, row] of shallowFirst) {
    if (isWithin(units, path)) continue;
    const mayMount = mounts < MOST_MOUNTS && canMount(path) && isMountable(root, path);
    const unit = row.isClosed && mayMount ? mounted(root, path, row, budget) : tracked(root, path, row, budget);
    const kept = unit ?? (mayMount ? mounted(root, path, row, budget) : undefined);
    if (!kept) throw tooLarge(path);
    if (kept.isMounted) mounts++;
    units.set(path, kept);
  }
  return { root, units, parts: walk.parts, startedAt };
}

/** Returns whether a path is in a folder that is compared as a whole. */
export function isWithin(units: ReadonlyMap<string, Unit>, path: string): boolean {
  for (let at = posix.dirname(path); at !== "."; at = posix.dirname(at)) {
    if (units.has(at) && !units.get(at)?.row.isOpaque) return true;
  }
  return false;
}

function ledTo(root: string, path: string): string[] {
  if (statOf(root, path)?.isSymbolicLink() !== true) return [];
  const linked = linkedPaths(root, path);
  if (linked === undefined) return [];
  if (linked.end !== "") return linked.end === undefined ? linked.paths : [...linked.paths, linked.end];
  throw new SkillError("workspace-link", {
    message: `${textOf(path)} leads to the whole workspace, which cannot be protected from code that may write to it`,
    fix: 'remove the link, or set workspace = "read" in config.toml',
  });
}

/** Where links in a sensitive folder lead. One that leads to a folder which it is in itself adds nothing. */
function ledFrom(root: string, path: string, row: SensitiveRow): string[] {
  if (statOf(root, path)?.isDirectory() !== true) return [];
  const entries = readEntries(root, path, row, { reads: "links" }) ?? [];
  return [...entries].flatMap(([inner, { kind }]) => {
    if (kind !== "link") return [];
    const linked = linkedPaths(root, `${path}/${inner}`);
    const places = [...(linked?.paths ?? []), ...(linked?.end ? [linked.end] : [])];
    return places.filter((place) => !isInside(place, path) && !isInside(path, place));
  });
}

/** The folders that a `.git` file, a `commondir` or the configuration of a repository names, where they are in the workspace. */
function gitFolders(root: string, path: string, row: SensitiveRow): string[] {
  if (!row.isEverywhere) return [];
  const firstLine = (file: string) => readRaw(root, file, 4096)?.toString("latin1").split("\n")[0];
  const gitFile = firstLine(path);
  const common = firstLine(joinRaw(path, "commondir"));
  return [
    ...(gitFile?.startsWith("gitdir:") ? [[posix.dirname(path), gitFile.slice("gitdir:".length).trim()]] : []),
    ...(common === undefined ? [] : [[path, common.trim()]]),
    ...["config", "config.worktree"].flatMap((name) => configuredIn(root, path, name)),
  ].flatMap(([folder = "", target = ""]) => {
    const linked = linkedFrom(root, folder, target);
    return linked?.end ? [...linked.paths, linked.end] : [];
  });
}

const LONGEST_CONFIG = 1024 * 1024;

/** Keys of a git configuration that name what git runs or reads, by their section. */
const CONFIGURED: Readonly<Record<string, readonly string[]>> = {
  core: ["hookspath", "fsmonitor", "attributesfile"],
  include: ["path"],
  includeif: ["path"],
};

/** Files and folders that a git configuration names, each with the folder that its path starts from. */
function configuredIn(root: string, path: string, name: string): string[][] {
  const text = readRaw(root, joinRaw(path, name), LONGEST_CONFIG)?.toString("latin1") ?? "";
  const worktree = posix.basename(path).toLowerCase() === ".git" ? posix.dirname(path) : path;
  let section = "";
  return text.split("\n").flatMap((line) => {
    const [, header, rest = line] = /^\s*\[\s*([\w-]+)[^\]]*\](.*)$/.exec(line) ?? [];
    section = header?.toLowerCase() ?? section;
    const [, key = "", value = ""] = /^\s*([\w-]+)\s*=\s*(.*)$/.exec(rest) ?? [];
    if (CONFIGURED[section]?.includes(key.toLowerCase()) !== true) return [];
    const target = value
      .replace(/\s[#;].*$/, "")
      .replaceAll('"', "")
      .trim();
    return /^(?:true|false|yes|no|on|off|\d*)$/i.test(target) ? [] : [[section === "core" ? worktree : path, target]];
  });
}

/** A mount's path is text, and where a link leads is not decided by what is mounted over it. */
function isMountable(root: string, path: string): boolean {
  const stats = statOf(root, path);
  return (stats?.isFile() || stats?.isDirectory()) === true && bytesOf(path).equals(Buffer.from(textOf(path)));
}

type Budget = { bytes: number; files: number };

/** Files with hard links can be written by their other names: those are compared. So is a file itself. */
function mounted(root: string, path: string, row: SensitiveRow, budget: Budget): Unit | undefined {
  const unit = tracked(root, path, row, budget, { isLinked: true });
  return unit && { ...unit, isMounted: true };
}

/** Returns `undefined` where there is too much to compare. */
function tracked(
  root: string,
  path: string,
  row: SensitiveRow,
  budget: Budget,
  { isLinked = false } = {},
): Unit | undefined {
  const take = (size: number) => {
    budget.bytes -= size;
    budget.files--;
    return size <= LARGEST_FILE && budget.bytes >= 0 && budget.files >= 0;
  };
  const entries = readEntries(root, path, row, { reads: isLinked ? "linked" : "all", take });
  return entries && { path, row, isMounted: false, entries };
}

export interface ReadOptions {
  /** `linked`: only files that have other names, and the path itself. `names`: no bytes. `links`: only symlinks. */
  reads: "all" | "linked" | "names" | "links";
  /** Whether there is room for a file of so many bytes. */
  take?(size: number): boolean;
}

/** The entries at a path, with their bytes. `undefined` where there is no room for all of them. */
export function readEntries(
  root: string,
  path: string,
  row: SensitiveRow,
  { reads, take = () => true }: ReadOptions,
): Map<string, Entry> | undefined {
  const isLinked = reads === "linked";
  const entries = new Map<string, Entry>();
  const within = [""];
  let isGit: boolean | undefined;
  for (let at = 0; at < within.length; at++) {
    const inner = within[at] as string;
    if (isGit && isVolatile(inner)) continue;
    if ((isLinked || reads === "links") && at > MOST_FILES) break;
    const whole = inner === "" ? path : `${path}/${inner}`;
    const stats = statOf(root, whole);
    if (!stats) continue;
    const entry = entryOf(stats);
    if (entry.kind === "folder" && !row.isOpaque) {
      const names = namesIn(root, whole);
      if (inner === "") isGit = isGitFolder(row, names);
      within.push(...names.map((name) => joinRaw(inner, name)));
    }
    if (entry.kind === "link") entry.bytes = linkTarget(root, whole);
    const isSkipped = isLinked && inner !== "" && (entry.kind !== "file" || stats.nlink === 1n);
    if (isSkipped || (reads === "links" && entry.kind !== "link")) continue;
    if (entry.kind === "file" && reads !== "names") {
      const isTaken = take(Number(stats.size));
      if (!isTaken && !isLinked) return undefined;
      const bytes = isTaken ? readRaw(root, whole, LARGEST_FILE) : undefined;
      if (bytes) entry.bytes = bytes;
    }
    entries.set(inner, entry);
  }
  return entries;
}

export function statOf(root: string, path: string): BigIntStats | undefined {
  try {
    return lstatSync(bytesOf(`${root}/${path}`), { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined; // A part of the path is no folder.
  }
}

const RACY_MS = 100;

export function entryOf(stats: BigIntStats): Entry {
  const kind = stats.isFile() ? "file" : stats.isDirectory() ? "folder" : stats.isSymbolicLink() ? "link" : "other";
  const isRacy = Date.now() - Number(stats.ctimeMs) < RACY_MS;
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

export function linkTarget(root: string, path: string): Buffer {
  return readlinkSync(bytesOf(`${root}/${path}`), "buffer");
}

export function namesIn(root: string, path: string): string[] {
  try {
    return readdirSync(bytesOf(`${root}/${path}`), "latin1").sort();
  } catch {
    return [];
  }
}

const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** The bytes of a regular file, at most so many; nothing where there is none or it cannot be read. */
export function readRaw(root: string, path: string, most: number): Buffer | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(bytesOf(`${root}/${path}`), READ);
    const stats = fstatSync(fd);
    if (!stats.isFile() || isElsewhere(fd, `${root}/${path}`)) return undefined;
    const bytes = Buffer.allocUnsafe(Math.min(stats.size, most));
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

/** Whether a link led to another place: code of another run can swap a folder above while this process reads. */
function isElsewhere(fd: number, place: string): boolean {
  if (process.platform !== "linux" || place.startsWith("/proc/self/fd/")) return false;
  return readlinkSync(`/proc/self/fd/${fd}`, "latin1" as BufferEncoding) !== place;
}

/** A digest of everything at a path: names, kinds, modes and bytes. */
export function digestOf(root: string, path: string): string {
  const hash = createHash("sha256");
  const add = (at: string) => {
    const stats = statOf(root, at);
    if (!stats) return hash.update("nothing\0");
    const { kind, mode } = entryOf(stats);
    hash.update(`${kind} ${kind === "file" ? mode : ""}\0`);
    if (kind === "file")
      hash.update(
        createHash("sha256")
          .update(readRaw(root, at, Number(stats.size)) ?? "")
          .digest(),
      );
    if (kind === "link") hash.update(linkTarget(root, at)).update("\0");
    for (const name of kind === "folder" ? namesIn(root, at) : []) {
      hash.update(`${name}\0`);
      add(`${at}/${name}`);
    }
    return hash.update("end\0");
  };
  add(path);
  return hash.digest("hex");
}

function tooLarge(path: string): SkillError {
  return new SkillError("workspace-unwatchable", {
    message: `The workspace has more sensitive files than can be compared before and after a run; the first is ${textOf(path)}`,
    fix: 'work in a smaller folder, or set workspace = "read" in config.toml',
  });
}
