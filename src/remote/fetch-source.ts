import { hash } from "node:crypto";
import {
  type Dirent,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, isAbsolute, join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { findNameProblem, isWindowsDeviceName } from "../skill/skill.ts";
import type { Environment } from "../skill/source/locations.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { createFolder } from "../util/file-access.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { isInside, readFileInside } from "../util/safe-path.ts";
import { compareText, findNearest, formatCount, formatNumber } from "../util/text.ts";
import { listCandidates, type SourceListing } from "./candidate.ts";
import { createDownloadCancelledError, type DownloadOptions, downloadFile } from "./download.ts";
import { createNoFolderError, selectEntriesInside } from "./entry-path.ts";
import { createFilesFolder, type ExtractResult, extractEntries, extractSource, readArchive } from "./extract.ts";
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
  createFolder(to, 0o700);
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
  where: { skillsDir: SkillsDir; environment: Environment },
): Provenance {
  const { ref, ...rest } = address.kind === "git" ? address : { ref: undefined, ...address };
  return {
    source: makeSourcePortable(formatSourceAddress(rest as SourceAddress), where),
    ...omitUndefined({ path: path === "" ? undefined : path, ref, commit }),
  };
}

function makeSourcePortable(source: string, where: { skillsDir: SkillsDir; environment: Environment }): string {
  const { workspace } = where.environment;
  if (!where.skillsDir.isProject || !isAbsolute(source) || !isInside(workspace, source)) return source;
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

type SiteAddress = Extract<SourceAddress, { kind: "site" }>;

const INDEX_DOWNLOAD = { most: 1024 * 1024, seconds: 20, redirects: "same-host" } as const;
const ARTIFACT_DOWNLOAD = { most: SOURCE_LIMITS.archive, seconds: 120, redirects: "same-host" } as const;

/** Fetches the skills that a site offers, or the named ones, each into a folder of its name. */
export async function fetchSite(
  address: SiteAddress,
  { to, names, signal, onFailure, allowPrivate }: FetchSourceOptions,
): Promise<FetchedSource> {
  const { bytes, url } = await downloadFile(address.url, { ...INDEX_DOWNLOAD, signal, allowPrivate });
  const downloadOptions = { ...ARTIFACT_DOWNLOAD, signal, allowPrivate, typed: address.url };
  const { skills, notes } = parseSiteIndex(bytes, url);
  const folder = createFilesFolder(to);
  const links = new Map<string, string>();
  let remaining = SOURCE_LIMITS.bytes;
  for (const name of names?.length ? new Set(names) : skills.map((skill) => skill.name)) {
    try {
      const unpacked = await extractSiteSkill(findSiteSkill(name, skills, url), folder, downloadOptions);
      remaining -= unpacked.bytes;
      for (const [path, target] of unpacked.links) links.set(`${name}/${path}`, target);
      notes.push(...unpacked.notes.map((note) => `${name}: ${note}`));
    } catch (error) {
      if (!onFailure || signal?.aborted || !(error instanceof SkillError)) throw error;
      onFailure(name, error);
    }
    if (remaining < 0) throw createSiteTooLargeError(url);
  }
  return { folder, address, links, notes, refused: new Map() };
}

function findSiteSkill(name: string, skills: readonly SiteSkill[], url: string): SiteSkill {
  const skill = skills.find((candidate) => candidate.name === name);
  if (skill) return skill;
  const all = skills.map((candidate) => candidate.name);
  const meant = findNearest(name, all);
  throw new SkillError("not-found", {
    message: `${quoteSourcePath(url)} offers no skill ${quoteSourcePath(name)}`,
    fix: meant ? `did you mean ${meant}?` : `it offers: ${all.slice(0, 10).join(", ") || "none"}`,
  });
}

async function extractSiteSkill(
  skill: SiteSkill,
  folder: string,
  downloadOptions: DownloadOptions,
): Promise<ExtractResult> {
  const entries = ARTIFACT_READERS[skill.type](await downloadArtifact(skill, downloadOptions), skill);
  const to = join(folder, skill.name);
  mkdirSync(to, 0o755);
  try {
    return await extractEntries(entries, { to, ...omitUndefined({ signal: downloadOptions.signal }) });
  } catch (error) {
    rmSync(to, { recursive: true, force: true }); // An incomplete folder is not a skill.
    throw error;
  }
}

/** Downloads the file of a skill. It is not opened before its digest is verified. */
async function downloadArtifact({ name, url, sha256 }: SiteSkill, downloadOptions: DownloadOptions): Promise<Buffer> {
  const { bytes } = await downloadFile(url, downloadOptions);
  const digest = hash("sha256", bytes);
  if (digest === sha256) return bytes;
  throw new SkillError("site-digest-mismatch", {
    message: `The file of ${quoteSourcePath(name)} does not match the site's index: its digest is sha256:${digest}, not sha256:${sha256}`,
    fix: "it was not opened: report it to the operator of the site, or name the other skills that you want",
  });
}

const ARTIFACT_READERS: Readonly<Record<SiteType, (bytes: Buffer, skill: SiteSkill) => Iterable<SourceEntry>>> = {
  "skill-md": (bytes) => [{ path: "SKILL.md", kind: "file", mode: 0o644, size: bytes.length, read: () => bytes }],
  archive: (bytes, { url }) => readArchive(bytes, basename(new URL(url).pathname)),
};

function createSiteTooLargeError(url: string): SkillError {
  return new SkillError("source-too-large", {
    message: `The skills of ${quoteSourcePath(url)} have more than ${formatNumber(SOURCE_LIMITS.bytes)} bytes together`,
    fix: "name the skills that you want",
  });
}

/** A skill that a site offers. */
interface SiteSkill {
  name: string;
  type: SiteType;
  /** The absolute address. */
  url: string;
  /** The hexadecimal digest of the file at `url`. */
  sha256: string;
}

interface SiteIndex {
  skills: SiteSkill[];
  notes: string[];
}

/** Kinds of entries: a SKILL.md, or an archive of a whole folder. */
const SITE_TYPES = ["skill-md", "archive"] as const;
type SiteType = (typeof SITE_TYPES)[number];

const SUPPORTED_SCHEMA_VERSION = "0.2.0";
const INDEX_SCHEMA = `https://schemas.agentskills.io/discovery/${SUPPORTED_SCHEMA_VERSION}/schema.json`;
const MAX_SKILLS = 500;

/** Parses the index of a site. Throws a SkillError if it is not usable at all. `url`: its address. */
function parseSiteIndex(bytes: Buffer, url: string): SiteIndex {
  const index = parseIndexJson(bytes, url);
  checkIndexVersion(index, url);
  const { skills } = index;
  if (!Array.isArray(skills)) throw createSiteIndexError("site-index", url, 'has no list "skills"');
  if (skills.length > MAX_SKILLS) {
    throw createSiteIndexError(
      "site-too-many",
      url,
      `offers ${formatCount(skills.length, "skill")}: at most ${MAX_SKILLS} are supported`,
    );
  }
  const read: SiteIndex = { skills: [], notes: [] };
  for (const [at, entry] of skills.entries()) {
    const skill = parseIndexEntry(entry, at, url);
    if (typeof skill === "string") read.notes.push(skill);
    else if (read.skills.some(({ name }) => name.toLowerCase() === skill.name.toLowerCase())) {
      throw createSiteIndexError("site-index", url, `names ${quoteSourcePath(skill.name)} twice`);
    } else read.skills.push(skill);
  }
  return read;
}

function parseIndexJson(bytes: Buffer, url: string): Readonly<Record<string, unknown>> {
  let index: unknown;
  try {
    index = JSON.parse(bytes.toString().replace(/^\ufeff/, ""));
  } catch (cause) {
    throw createSiteIndexError("site-index", url, "is not JSON", cause);
  }
  if (isJsonObject(index)) return index;
  throw createSiteIndexError("site-index", url, "is not a list of skills");
}

function checkIndexVersion({ $schema }: Readonly<Record<string, unknown>>, url: string): void {
  if ($schema === INDEX_SCHEMA) return;
  const version = typeof $schema === "string" ? (/\/discovery\/([^/]+)\//.exec($schema)?.[1] ?? $schema) : "none";
  throw createSiteIndexError(
    "site-version",
    url,
    `has version ${quoteSourcePath(version)} of the discovery schema: only ${SUPPORTED_SCHEMA_VERSION} is supported`,
  );
}

/** Parses an entry of the index, or returns the reason why it is skipped. */
function parseIndexEntry(entry: unknown, at: number, base: string): SiteSkill | string {
  const { name, type, url, digest } = isJsonObject(entry) ? entry : {};
  const label = typeof name === "string" ? quoteSourcePath(name) : `Skill ${at + 1}`;
  if (typeof name !== "string" || typeof type !== "string")
    return `${label} of the site has no name or no type: skipped`;
  if (!isSiteType(type)) return `${label} of the site has the unknown type ${quoteSourcePath(type)}: skipped`;
  const problem =
    findNameProblem(name)?.why ??
    (isWindowsDeviceName(name) || /[. ]$/.test(name) ? "is not a folder name" : undefined);
  if (problem !== undefined) return `${label} of the site ${problem}: skipped`;
  const address = typeof url === "string" ? URL.parse(url, base) : null;
  if (address?.username !== "" || address.password !== "") return `${label} of the site has no usable address: skipped`;
  const sha256 = typeof digest === "string" ? /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1] : undefined;
  if (sha256 === undefined) return `${label} of the site has no digest (sha256:…): skipped`;
  return { name, type, url: address.href, sha256 };
}

function isSiteType(type: string): type is SiteType {
  return (SITE_TYPES as readonly string[]).includes(type);
}

function createSiteIndexError(code: ErrorCode, url: string, why: string, cause?: unknown): SkillError {
  const fix = "report it to the operator of the site, or add its skills from another source (a repository, an archive)";
  return new SkillError(code, {
    message: `${quoteSourcePath(url)} ${why}`,
    fix,
    ...(cause === undefined ? {} : { cause }),
  });
}
