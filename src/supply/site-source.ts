import { hash } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { grouped, nearest } from "../shared/text.ts";
import { readArchive } from "./archive.ts";
import { type Address, type Fetched, type FetchOptions, SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { type DownloadOptions, download } from "./download.ts";
import { shown } from "./refusal.ts";
import { readSiteIndex, type SiteSkill, type SiteType } from "./site-index.ts";
import { type Unpacked, unpack } from "./unpack.ts";
import { filesFolder } from "./write-source.ts";

export type SiteAddress = Extract<Address, { kind: "site" }>;

const INDEX = { most: 1024 * 1024, seconds: 20, redirects: "same-host" } as const;
const ARTIFACT = { most: SOURCE_LIMITS.archive, seconds: 120, redirects: "same-host" } as const;

/** Fetches the skills that a site offers, or those of these names, each into a folder of its name. */
export async function fetchSite(
  address: SiteAddress,
  { to, names, signal, onFailure, allowPrivate }: FetchOptions,
): Promise<Fetched> {
  const { bytes, url } = await download(address.url, { ...INDEX, signal, allowPrivate });
  const asking = { ...ARTIFACT, signal, allowPrivate, typed: address.url };
  const { skills, notes } = readSiteIndex(bytes, url);
  const folder = filesFolder(to);
  const links = new Map<string, string>();
  let left = SOURCE_LIMITS.bytes;
  for (const name of names?.length ? new Set(names) : skills.map((skill) => skill.name)) {
    try {
      const unpacked = await bring(named(name, skills, url), folder, asking);
      left -= unpacked.bytes;
      for (const [path, target] of unpacked.links) links.set(`${name}/${path}`, target);
      notes.push(...unpacked.notes.map((note) => `${name}: ${note}`));
    } catch (error) {
      if (!onFailure || signal?.aborted || !(error instanceof SkillError)) throw error;
      onFailure(name, error);
    }
    if (left < 0) throw tooMuch(url);
  }
  return { folder, address, links, notes, refused: new Map() };
}

function named(name: string, skills: readonly SiteSkill[], url: string): SiteSkill {
  const skill = skills.find((candidate) => candidate.name === name);
  if (skill) return skill;
  const all = skills.map((candidate) => candidate.name);
  const meant = nearest(name, all);
  throw new SkillError("not-found", {
    message: `${shown(url)} offers no skill ${shown(name)}`,
    fix: meant ? `did you mean ${meant}?` : `it offers: ${all.slice(0, 10).join(", ") || "none"}`,
  });
}

async function bring(skill: SiteSkill, folder: string, asking: DownloadOptions): Promise<Unpacked> {
  const entries = READ[skill.type](await artifactOf(skill, asking), skill);
  const to = join(folder, skill.name);
  mkdirSync(to, 0o755);
  try {
    return await unpack(entries, { to, ...defined({ signal: asking.signal }) });
  } catch (error) {
    rmSync(to, { recursive: true, force: true }); // Half of it is no skill.
    throw error;
  }
}

/** Nothing of it is opened before it is known to be what the site says. */
async function artifactOf({ name, url, sha256 }: SiteSkill, asking: DownloadOptions): Promise<Buffer> {
  const { bytes } = await download(url, asking);
  const digest = hash("sha256", bytes);
  if (digest === sha256) return bytes;
  throw new SkillError("site-digest", {
    message: `The file of ${shown(name)} is not the one that the site names: its digest is sha256:${digest}, not sha256:${sha256}`,
    fix: "nothing of it was opened: tell whoever runs the site, or name the other skills that you want",
  });
}

const READ: Readonly<Record<SiteType, (bytes: Buffer, skill: SiteSkill) => Iterable<SourceEntry>>> = {
  "skill-md": (bytes) => [{ path: "SKILL.md", kind: "file", mode: 0o644, size: bytes.length, read: () => bytes }],
  archive: (bytes, { url }) => readArchive(bytes, basename(new URL(url).pathname)),
};

function tooMuch(url: string): SkillError {
  return new SkillError("source-too-large", {
    message: `The skills of ${shown(url)} have more than ${grouped(SOURCE_LIMITS.bytes)} bytes together`,
    fix: "name those that you want",
  });
}
