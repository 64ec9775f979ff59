import { type BigIntStats, type Dirent, lstatSync, readdirSync, readlinkSync, type Stats } from "node:fs";
import { posix } from "node:path";
import { getErrnoCode } from "../../errors/problem.ts";
import { isInside } from "../../util/safe-path.ts";
import {
  findLowercaseRow,
  isRepository,
  PARENT_FOLDERS,
  REPOSITORY_PARTS,
  REPOSITORY_SHAPE,
  type SensitiveRow,
  TOO_DEEP_ROW,
} from "./sensitive-paths.ts";
import type { FolderRights } from "./workspace-files.ts";

/**
 * The relevant paths of a workspace. All paths are relative and have one character for each byte, because file names need not be UTF-8:
 * `toPathBytes` returns the bytes for the system, `toPathText` the text for users.
 */
export interface WorkspaceWalk {
  sensitive: Map<string, SensitiveRow>;
  /** Folders with the shape of a repository. */
  repositories: Set<string>;
  /** The repository parts found in each folder. */
  parts: Map<string, string[]>;
  /** Sockets and named pipes. */
  channels: string[];
  /** Folders that were not read: their paths are too long, or they belong to another user and cannot be listed. */
  unsearched: string[];
}

export function toPathBytes(path: string): Buffer {
  return Buffer.from(path, "latin1");
}

export function toRawPath(path: string): string {
  return Buffer.from(path).toString("latin1");
}

/** Returns a path as text for users. Bytes that are not UTF-8 are replaced. */
export function toPathText(path: string): string {
  return toPathBytes(path).toString();
}

/** The relevant entries of one folder, and its fingerprint when it was read. */
interface FolderListing {
  print: string;
  folders: string[];
  sensitive: { name: string; row: SensitiveRow; isFolder: boolean }[];
  parts: string[];
  channels: string[];
  links: string[];
  isClosed: boolean;
}

export type ListingCache = Map<string, FolderListing>;

const MAX_PATH_BYTES = 3000;
/** A folder changed this shortly before it was read may have the same time as after a later change. */
const RACY_FOLDER_MS = 2000;

interface QueuedFolder {
  path: string;
  /** Already part of a sensitive folder: only sockets and named pipes are searched. */
  isCovered: boolean;
  isInModules: boolean;
  /** Reached through a link, in addition to its own name. */
  isAgain?: boolean;
}

export interface WalkOptions {
  cache?: ListingCache | undefined;
  /** Opens folders that their owner may not list. Without it they count as empty. */
  rights?: FolderRights | undefined;
}

/**
 * Walks the whole workspace, in time linear in its entries. Only symlinks into `node_modules` are followed: their targets get another name
 * that way. With a cache, folders with the same fingerprint are not read again: a change of a folder's entries always changes its ctime,
 * which code cannot set.
 */
export function walkWorkspace(root: string, { cache, rights }: WalkOptions = {}): WorkspaceWalk {
  const walk: WorkspaceWalk = {
    sensitive: new Map(),
    repositories: new Set(),
    parts: new Map(),
    channels: [],
    unsearched: [],
  };
  const queue: QueuedFolder[] = [{ path: "", isCovered: false, isInModules: false }];
  const seen: ListingCache = new Map();
  const named = new Set<string>();
  for (let at = 0; at < queue.length; at++) {
    const folder = queue[at] as QueuedFolder;
    const { path, isCovered, isInModules, isAgain = false } = folder;
    const listing = listFolder(root, path, { cache, rights });
    if (cache) seen.set(path, listing);
    for (const name of isAgain ? [] : listing.channels) walk.channels.push(joinRawPath(path, name));
    if (listing.isClosed) walk.unsearched.push(path);
    const isBare = !isCovered && isRepository(new Set(listing.parts.map((name) => name.toLowerCase())));
    if (!isCovered && listing.parts.length > 0) walk.parts.set(path, listing.parts);
    if (isBare) walk.repositories.add(path);
    const covered = new Set<string>();
    for (const { name, row, isFolder } of isCovered ? [] : listing.sensitive) {
      if ((isInModules && !row.isEverywhere) || (isFolder && row.isManifest)) continue;
      walk.sensitive.set(joinRawPath(path, name), row);
      if (isFolder) covered.add(name);
    }
    for (const name of listing.folders) {
      const child = joinRawPath(path, name);
      if (child.length > MAX_PATH_BYTES) {
        walk.unsearched.push(child);
        if (!isCovered) walk.sensitive.set(child, TOO_DEEP_ROW);
        continue;
      }
      queue.push({
        path: child,
        isCovered: isCovered || covered.has(name),
        isInModules: isInModules || name === MODULES_FOLDER,
        isAgain,
      });
    }
    for (const name of isCovered || isInModules ? [] : listing.links) {
      const end = resolveLink(root, joinRawPath(path, name))?.end;
      if (!end?.split("/").includes(MODULES_FOLDER) || named.has(end) || !isFolderAt(root, end)) continue;
      named.add(end);
      queue.push({ path: end, isCovered: false, isInModules: false, isAgain: true });
    }
  }
  if (cache) {
    cache.clear();
    for (const [path, listing] of seen) cache.set(path, listing);
  }
  for (const path of walk.repositories) {
    if (path !== "") walk.sensitive.set(path, REPOSITORY_SHAPE);
  }
  return walk;
}

const MODULES_FOLDER = "node_modules";

function isFolderAt(root: string, path: string): boolean {
  return readStatsAt(toPathBytes(`${root}/${path}`))?.isDirectory() === true;
}

/** Returns undefined also if a part of the path is not a folder, is too long or cannot be entered: code can cause this. */
export function readStatsAt(path: Buffer): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

export function joinRawPath(folder: string, name: string): string {
  return folder === "" ? name : `${folder}/${name}`;
}

function listFolder(root: string, path: string, { cache, rights }: WalkOptions): FolderListing {
  rights?.open(path);
  const bytes = toPathBytes(path === "" ? root : `${root}/${path}`);
  const print = cache ? fingerprintFolder(bytes) : "";
  const cached = print === "" ? undefined : cache?.get(path);
  if (cached?.print === print) return cached;
  const listing: FolderListing = {
    print,
    folders: [],
    sensitive: [],
    parts: [],
    channels: [],
    links: [],
    isClosed: false,
  };
  const parent = posix.basename(path);
  const entries = readFolderEntries(bytes);
  if (entries === "closed") return { ...listing, print: "", isClosed: true };
  for (const entry of entries) {
    const { name } = entry;
    const isFolder = entry.isDirectory();
    if (isFolder) listing.folders.push(name);
    else if (entry.isSocket() || entry.isFIFO()) listing.channels.push(name);
    else if (entry.isSymbolicLink()) listing.links.push(name);
    const small = name.toLowerCase();
    // A link with the name of such a folder gives its target that name.
    const row = findLowercaseRow(small, parent) ?? (entry.isSymbolicLink() ? PARENT_FOLDERS.get(small) : undefined);
    if (row) listing.sensitive.push({ name, row, isFolder });
    if (REPOSITORY_PARTS.has(small)) listing.parts.push(name);
  }
  return listing;
}

/** Returns an empty string if the folder changed so recently that its times prove nothing. */
function fingerprintFolder(path: Buffer): string {
  let stats: BigIntStats | undefined;
  try {
    stats = lstatSync(path, { throwIfNoEntry: false, bigint: true });
  } catch {
    return "";
  }
  if (!stats || Date.now() - Number(stats.ctimeMs) < RACY_FOLDER_MS) return "";
  return `${stats.dev}:${stats.ino}:${stats.ctimeNs}:${stats.mtimeNs}`;
}

/** Returns `closed` for another user's folder that cannot be listed. */
function readFolderEntries(path: Buffer): Dirent[] | "closed" {
  try {
    return readdirSync(path, { withFileTypes: true, encoding: "latin1" as BufferEncoding });
  } catch (error) {
    return ["EACCES", "EPERM"].includes(getErrnoCode(error)) ? "closed" : []; // Otherwise it was removed.
  }
}

/**
 * Creates a check of how far a user can reach a path through its folders: `own` if only a permission is missing that the user can set.
 * Nothing can be mounted over a path that the sandbox user cannot reach.
 */
export function createReachCheck(
  root: string,
  user: number,
  rights?: Pick<FolderRights, "modeBefore">,
): (path: string) => "yes" | "no" | "own" {
  const groups = user === process.getuid?.() ? (process.getgroups?.() ?? []) : [user];
  const known = new Map<string, "yes" | "no" | "own">([
    ["", "yes"],
    [".", "yes"],
  ]);
  const reach = (folder: string): "yes" | "no" | "own" => {
    const before = known.get(folder);
    if (before !== undefined) return before;
    const above = reach(posix.dirname(folder));
    const found = above === "yes" ? enter(folder) : above;
    known.set(folder, found);
    return found;
  };
  const enter = (folder: string) => {
    const stats = readStatsAt(toPathBytes(`${root}/${folder}`));
    if (!stats) return "no";
    const mode = rights?.modeBefore(folder) ?? stats.mode;
    if (stats.uid === user) return (mode & 0o100) === 0 ? "own" : "yes";
    return (mode & (groups.includes(stats.gid) ? 0o010 : 0o001)) === 0 ? "no" : "yes";
  };
  return (path) => reach(posix.dirname(path));
}

const MAX_FOLLOWED_LINKS = 40;

/** Resolves a path that a file in `folder` names. */
export function resolveLinkFrom(root: string, folder: string, target: string): ReturnType<typeof resolveLink> {
  const inner = resolveInRoot(root, target);
  return inner === undefined ? undefined : resolveLink(root, target.startsWith("/") ? inner : `${folder}/${inner}`);
}

/** Returns a relative target unchanged, or an absolute one relative to the workspace. `undefined` if it is outside. */
function resolveInRoot(root: string, target: string): string | undefined {
  if (!target.startsWith("/")) return target;
  return isInside(root, target) ? target.slice(root.length + 1) : undefined;
}

/** Returns the paths that a symlink leads through within the workspace, including links, and its end. `undefined` if it has no end. */
export function resolveLink(root: string, link: string): { paths: string[]; end: string | undefined } | undefined {
  const paths: string[] = [];
  let at: string[] = [];
  let rest = link.split("/");
  for (let links = 0; rest.length > 0; ) {
    const [name = "", ...more] = rest;
    rest = more;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      if (at.length === 0) return { paths, end: undefined }; // It leaves the workspace.
      at = at.slice(0, -1);
      continue;
    }
    const path = [...at, name].join("/");
    const stats = readStatsAt(toPathBytes(`${root}/${path}`));
    if (!stats?.isSymbolicLink()) {
      at = [...at, name];
      continue;
    }
    if (++links > MAX_FOLLOWED_LINKS) return undefined;
    if (path !== link) paths.push(path);
    const target = readlinkSync(toPathBytes(`${root}/${path}`), "latin1" as BufferEncoding);
    const inner = resolveInRoot(root, target);
    if (inner === undefined) return { paths, end: undefined };
    if (target.startsWith("/")) at = [];
    rest = [...inner.split("/"), ...rest];
  }
  return { paths, end: at.join("/") };
}
