import { hash } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import type { ErrorCode } from "../errors/error-codes.ts";
import { SkillError } from "../errors/problem.ts";
import { findNameProblem, isWindowsDeviceName } from "../skill/skill.ts";
import { isJsonObject, omitUndefined } from "../util/objects.ts";
import { findNearest, formatCount, formatNumber } from "../util/text.ts";
import { type DownloadOptions, downloadFile } from "./download.ts";
import { createFilesFolder, type ExtractResult, extractEntries, readArchive } from "./extract.ts";
import {
  type FetchedSource,
  type FetchSourceOptions,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceAddress,
  type SourceEntry,
} from "./remote-source.ts";

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
