import { readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { SkillError } from "../shared/error.ts";
import { codeOf, isInside, reason } from "../shared/inside.ts";
import { grouped } from "../shared/text.ts";
import { readArchive } from "./archive.ts";
import { type Address, type Fetched, type FetchOptions, SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { calledOff, download } from "./download.ts";
import { folderEntries } from "./folder-entries.ts";
import { fetchGit } from "./git-source.ts";
import { entriesInside, noSuchFolder } from "./inside-source.ts";
import { shown } from "./refusal.ts";
import { fetchSite } from "./site-source.ts";
import { writeSource } from "./write-source.ts";

type Of<Kind extends Address["kind"]> = Extract<Address, { kind: Kind }>;

/** Fetches what is at an address into a folder of ours. Throws a SkillError when it cannot be had, or is not taken. */
export async function fetchSource(address: Address, options: FetchOptions): Promise<Fetched> {
  const fetch = FETCH[address.kind] as (address: Address, options: FetchOptions) => Promise<Fetched>;
  try {
    return await fetch(address, options);
  } catch (error) {
    if (options.signal?.aborted && !(error instanceof SkillError)) throw calledOff(options.signal);
    throw error;
  }
}

const FETCH: { [Kind in Address["kind"]]: (address: Of<Kind>, options: FetchOptions) => Promise<Fetched> } = {
  folder: async (address, options) => writeSource(address, folderOf(address, options), options),
  archive: async (address, options) => writeSource(address, await archiveOf(address, options), options),
  git: (address, options) => fetchGit(address, options),
  site: fetchSite,
};

const ARCHIVE = { most: SOURCE_LIMITS.archive, seconds: 120, redirects: "https" } as const;

function folderOf({ path, inside }: Of<"folder">, { to }: FetchOptions): Iterable<SourceEntry> {
  const root = realFolder(path);
  if (isInside(root, realpathSync(to))) {
    throw new SkillError("source-holds-target", {
      message: `${shown(path)} holds the very folder that it is to be copied into`,
      fix: "name the folder of the skill itself",
    });
  }
  if (inside === undefined) return folderEntries(root);
  const real = folderInside(root, inside);
  if (real !== undefined) return folderEntries(real);
  throw noSuchFolder(inside, skillFilesIn(root));
}

function realFolder(path: string): string {
  try {
    const real = realpathSync.native(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw notThere(path, cause);
  }
  throw new SkillError("source-kind", {
    message: `${shown(path)} is a file, and neither a folder nor an archive (.zip, .skill, .tar.gz, .tgz)`,
    fix: "name the folder that the skill is in",
  });
}

function folderInside(root: string, inside: string): string | undefined {
  try {
    const real = realpathSync.native(join(root, inside));
    return isInside(root, real) && statSync(real).isDirectory() ? real : undefined;
  } catch {
    return undefined; // As good as not there.
  }
}

/** As many as a message can name: a folder may be that of a whole disk. */
function skillFilesIn(root: string): string[] {
  const found: string[] = [];
  let looked = 0;
  try {
    for (const { path } of folderEntries(root)) {
      if (++looked > MOST_LOOKED_AT) break;
      if (path.endsWith("/SKILL.md")) found.push(path);
    }
  } catch {} // What cannot be read is no help.
  return found;
}

const MOST_LOOKED_AT = 5000;

async function archiveOf(
  { location, inside }: Of<"archive">,
  { signal, allowPrivate }: FetchOptions,
): Promise<Iterable<SourceEntry>> {
  const bytes = isAbsolute(location)
    ? bytesAt(location)
    : (await download(location, { ...ARCHIVE, signal, allowPrivate, typed: location })).bytes;
  const entries = readArchive(bytes, location);
  return inside === undefined ? entries : entriesInside(entries, inside);
}

function bytesAt(path: string): Buffer {
  try {
    const stats = statSync(path);
    if (stats.isFile() && stats.size <= SOURCE_LIMITS.archive) return readFileSync(path);
    if (stats.isFile()) throw tooLarge(path, stats.size);
  } catch (cause) {
    throw cause instanceof SkillError ? cause : notThere(path, cause);
  }
  throw new SkillError("source-kind", {
    message: `${shown(path)} is no file`,
    fix: "name a folder with a / at its end",
  });
}

function tooLarge(path: string, size: number): SkillError {
  return new SkillError("archive-too-large", {
    message: `${shown(path)} has ${grouped(size)} bytes: an archive may have ${grouped(SOURCE_LIMITS.archive)}`,
    fix: "take what is no skill out of it",
  });
}

function notThere(path: string, cause: unknown): SkillError {
  const isMissing = codeOf(cause) === "ENOENT" || codeOf(cause) === "ENOTDIR";
  return new SkillError(isMissing ? "source-missing" : "source-unreadable", {
    message: `${shown(path)} ${isMissing ? "is not there" : `cannot be read: ${reason(cause)}`}`,
    fix: isMissing ? "check the path" : "check who may read it",
    cause,
  });
}
