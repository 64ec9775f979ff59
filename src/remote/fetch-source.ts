import {
  type Dirent,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { basename, isAbsolute, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { findNameProblem } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { omitUndefined } from "../util/objects.ts";
import { isInside, readFileInside } from "../util/safe-path.ts";
import { compareText, formatNumber } from "../util/text.ts";
import { listCandidates, type SourceListing } from "./candidate.ts";
import { createDownloadCancelledError, downloadFile } from "./download.ts";
import { createNoFolderError, selectEntriesInside } from "./entry-path.ts";
import { extractSource, readArchive } from "./extract.ts";
import { fetchGit } from "./git-fetch.ts";
import {
  createEntryError,
  type FetchedSource,
  type FetchSourceOptions,
  type Provenance,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceAddress,
  type SourceEntry,
} from "./remote-source.ts";
import { fetchSite } from "./site-fetch.ts";
import type { SkillsDir } from "./skills-dir.ts";
import { formatSourceAddress, parseSourceAddress } from "./source-address.ts";

/** A fetched source and its content. */
export interface FetchedListing {
  fetched: FetchedSource;
  listing: SourceListing;
}

/** Fetches a source into its own folder below `work`, and lists its skills. */
export async function fetchListing(
  address: SourceAddress,
  work: string,
  options: Omit<FetchSourceOptions, "to">,
): Promise<FetchedListing> {
  const to = join(work, crypto.randomUUID(), getAddressStem(address)); // A skill that states no name gets that of its folder.
  mkdirSync(to, { recursive: true, mode: 0o700 });
  const fetched = await fetchSource(address, { ...options, to });
  return { fetched, listing: await listCandidates(fetched) };
}

function getAddressStem(address: SourceAddress): string {
  const path = address.kind === "folder" ? address.path : address.kind === "archive" ? address.location : address.url;
  const last =
    address.kind === "site" ? "" : basename(address.inside ?? path).replace(/\.(?:git|zip|skill|tgz|tar\.gz)$/i, "");
  return last === "" || findNameProblem(last) ? "skill" : last;
}

/**
 * Creates the record of a skill's origin for the lock file. A folder in the workspace is recorded relative to it: other
 * users have the workspace elsewhere.
 */
export function createProvenance(
  { address, commit }: Pick<FetchedSource, "address" | "commit">,
  path: string,
  where: { place: SkillsDir; around: Environment },
): Provenance {
  const { ref, ...rest } = address.kind === "git" ? address : { ref: undefined, ...address };
  return {
    source: makeSourcePortable(formatSourceAddress(rest as SourceAddress), where),
    ...omitUndefined({ path: path === "" ? undefined : path, ref, commit }),
  };
}

function makeSourcePortable(source: string, { place, around }: { place: SkillsDir; around: Environment }): string {
  const { workspace } = around;
  if (!place.isProject || !isAbsolute(source) || !isInside(workspace, source)) return source;
  return `.${source.slice(workspace === "/" ? 0 : workspace.length) || "/"}`; // Unchanged text: `//` separates the path inside an archive.
}

/** Returns the address of a locked skill, to fetch it again. */
export function getLockedAddress({ source, ref }: LockedSkill, { workspace, home }: Environment): SourceAddress {
  const address = parseSourceAddress(source, { cwd: workspace, home });
  return address.kind === "git" ? { ...address, ...omitUndefined({ ref }) } : address;
}

type AddressOf<Kind extends SourceAddress["kind"]> = Extract<SourceAddress, { kind: Kind }>;

/**
 * Fetches the content of an address into a private folder. Throws a SkillError if it cannot be fetched or is refused.
 */
export async function fetchSource(address: SourceAddress, options: FetchSourceOptions): Promise<FetchedSource> {
  const fetch = FETCHERS[address.kind] as (
    address: SourceAddress,
    options: FetchSourceOptions,
  ) => Promise<FetchedSource>;
  try {
    return await fetch(address, options);
  } catch (error) {
    if (options.signal?.aborted && !(error instanceof SkillError)) throw createDownloadCancelledError(options.signal);
    throw error;
  }
}

const FETCHERS: {
  [Kind in SourceAddress["kind"]]: (address: AddressOf<Kind>, options: FetchSourceOptions) => Promise<FetchedSource>;
} = {
  folder: async (address, options) => extractSource(address, readLocalFolder(address, options), options),
  archive: async (address, options) => extractSource(address, await loadArchive(address, options), options),
  git: (address, options) => fetchGit(address, options),
  site: fetchSite,
};

const ARCHIVE_DOWNLOAD = { most: SOURCE_LIMITS.archive, seconds: 120, redirects: "https" } as const;

function readLocalFolder({ path, inside }: AddressOf<"folder">, { to }: FetchSourceOptions): Iterable<SourceEntry> {
  const root = resolveLocalFolder(path);
  if (isInside(root, realpathSync(to))) {
    throw new SkillError("source-contains-target", {
      message: `${quoteSourcePath(path)} contains the folder that it would be copied into`,
      fix: "name the folder of the skill itself",
    });
  }
  if (inside === undefined) return readSourceFolder(root);
  const real = resolveFolderInside(root, inside);
  if (real !== undefined) return readSourceFolder(real);
  throw createNoFolderError(inside, findSkillFiles(root));
}

function resolveLocalFolder(path: string): string {
  try {
    const real = realpathSync.native(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw createMissingSourceError(path, cause);
  }
  throw new SkillError("source-kind", {
    message: `${quoteSourcePath(path)} is neither a folder nor an archive (.zip, .skill, .tar.gz, .tgz)`,
    fix: "name the folder of the skill",
  });
}

function resolveFolderInside(root: string, inside: string): string | undefined {
  try {
    const real = realpathSync.native(join(root, inside));
    return isInside(root, real) && statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined; // Treated as missing.
  }
}

/** Lists as many skills as a message can show: a folder may be that of a whole disk. */
function findSkillFiles(root: string): string[] {
  const found: string[] = [];
  let searched = 0;
  try {
    for (const { path } of readSourceFolder(root)) {
      if (++searched > MAX_SEARCHED_ENTRIES) break;
      if (path.endsWith("/SKILL.md")) found.push(path);
    }
  } catch {} // Unreadable content gives no suggestions.
  return found;
}

const MAX_SEARCHED_ENTRIES = 5000;

async function loadArchive(
  { location, inside }: AddressOf<"archive">,
  { signal, allowPrivate }: FetchSourceOptions,
): Promise<Iterable<SourceEntry>> {
  const bytes = isAbsolute(location)
    ? readArchiveFile(location)
    : (await downloadFile(location, { ...ARCHIVE_DOWNLOAD, signal, allowPrivate, typed: location })).bytes;
  const entries = readArchive(bytes, location);
  return inside === undefined ? entries : selectEntriesInside(entries, inside);
}

function readArchiveFile(path: string): Buffer {
  try {
    const stats = statSync(path);
    if (stats.isFile() && stats.size <= SOURCE_LIMITS.archive) return readFileSync(path);
    if (stats.isFile()) throw createArchiveTooLargeError(path, stats.size);
  } catch (cause) {
    throw cause instanceof SkillError ? cause : createMissingSourceError(path, cause);
  }
  throw new SkillError("source-kind", {
    message: `${quoteSourcePath(path)} is not a file`,
    fix: "append / to the path of a folder",
  });
}

function createArchiveTooLargeError(path: string, size: number): SkillError {
  return new SkillError("archive-too-large", {
    message: `${quoteSourcePath(path)} has ${formatNumber(size)} bytes: the limit for an archive is ${formatNumber(SOURCE_LIMITS.archive)}`,
    fix: "remove files from it that belong to no skill",
  });
}

function createMissingSourceError(path: string, cause: unknown): SkillError {
  const isMissing = getErrnoCode(cause) === "ENOENT" || getErrnoCode(cause) === "ENOTDIR";
  return new SkillError(isMissing ? "source-missing" : "source-unreadable", {
    message: `${quoteSourcePath(path)} ${isMissing ? "was not found" : `cannot be read: ${getErrorMessage(cause)}`}`,
    fix: isMissing ? "check the path" : "check its permissions",
    cause,
  });
}

/** Folders of version control: they are large, contain removed content, and have settings that programs act on. */
const VERSION_CONTROL_FOLDERS: ReadonlySet<string> = new Set([".git", ".hg", ".svn"]);

/** Yields the content of a local folder. Follows no symlink. Contract: `folder` is a real path. */
export function* readSourceFolder(folder: string, below = ""): Generator<SourceEntry, void, undefined> {
  for (const { name } of listFolder(folder, below)) {
    if (VERSION_CONTROL_FOLDERS.has(name)) continue;
    const path = below === "" ? name : `${below}/${name}`;
    const entry = createFolderEntry(folder, path);
    yield entry;
    if (entry.kind === "folder") yield* readSourceFolder(folder, path);
  }
}

function listFolder(folder: string, below: string): Dirent[] {
  const path = below === "" ? folder : `${folder}/${below}`;
  return wrapReadError(path, () => readdirSync(path, { withFileTypes: true })).sort((a, b) =>
    compareText(a.name, b.name),
  );
}

function createFolderEntry(folder: string, path: string): SourceEntry {
  const file = `${folder}/${path}`;
  const stats = wrapReadError(file, () => lstatSync(file));
  const { mode, size } = stats;
  const entry = { path, mode: mode & 0o7777, read: () => new Uint8Array() };
  if (stats.isDirectory()) return { ...entry, kind: "folder", size: 0 };
  if (stats.isFile()) return { ...entry, kind: "file", size, read: () => readEntryBytes(folder, path, size) };
  if (!stats.isSymbolicLink()) return { ...entry, kind: "other", size: 0 };
  return { ...entry, kind: "link", size: 0, target: wrapReadError(file, () => readlinkSync(file)) };
}

// Reads through the folder's descriptors: even if a file is replaced meanwhile, no byte from outside is read.
function readEntryBytes(folder: string, path: string, size: number): Uint8Array {
  const read = readFileInside(folder, path, size);
  if ("code" in read && read.code !== "too-large") {
    throw new SkillError("source-unreadable", { message: read.message, fix: UNREADABLE_FIX });
  }
  if ("code" in read || read.bytes.length !== size)
    throw createEntryError("entry-size", path, "changed while it was read");
  return read.bytes;
}

const UNREADABLE_FIX = "check its permissions, or remove it from the folder";

function wrapReadError<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new SkillError("source-unreadable", {
      message: `${quoteSourcePath(path)} cannot be read: ${getErrorMessage(cause)}`,
      fix: UNREADABLE_FIX,
      cause,
    });
  }
}
