import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { grouped, nearest } from "../shared/text.ts";
import { readArchive } from "./archive.ts";
import { type Address, type Fetched, type FetchOptions, SOURCE_LIMITS, type SourceEntry } from "./contract.ts";
import { download } from "./download.ts";
import { shown } from "./refusal.ts";
import { readSiteIndex, type SiteSkill, type SiteType } from "./site-index.ts";
import { unpack } from "./unpack.ts";
import { filesFolder } from "./write-source.ts";

export type SiteAddress = Extract<Address, { kind: "site" }>;

const INDEX = { most: 1024 * 1024, seconds: 20, redirects: "same-host" } as const;
const ARTIFACT = { most: SOURCE_LIMITS.archive, seconds: 120, redirects: "same-host" } as const;

/** Fetches the skills that a site offers, or those of these names, each into a folder of its name. */
export async function fetchSite(address: SiteAddress, { to, names, signal }: FetchOptions): Promise<Fetched> {
  const { bytes, url } = await download(address.url, { ...INDEX, signal });
  const { skills, notes } = readSiteIndex(bytes, url);
  const folder = filesFolder(to);
  const links = new Map<string, string>();
  let left = SOURCE_LIMITS.bytes;
  for (const skill of chosen(skills, names, url)) {
    const own = join(folder, skill.name);
    mkdirSync(own, 0o755);
    const entries = READ[skill.type](await artifactOf(skill, signal), skill);
    const unpacked = await unpack(entries, { to: own, ...defined({ signal }) });
    left -= unpacked.bytes;
    if (left < 0) throw tooMuch(url);
    for (const [path, target] of unpacked.links) links.set(`${skill.name}/${path}`, target);
    notes.push(...unpacked.notes.map((note) => `${skill.name}: ${note}`));
  }
  return { folder, address, links, notes };
}

function chosen(skills: readonly SiteSkill[], names: readonly string[] | undefined, url: string): readonly SiteSkill[] {
  if (names === undefined) return skills;
  return names.map((name) => {
    const skill = skills.find((candidate) => candidate.name === name);
    if (skill) return skill;
    const all = skills.map((candidate) => candidate.name);
    const meant = nearest(name, all);
    throw new SkillError("not-found", {
      message: `${shown(url)} offers no skill ${shown(name)}`,
      fix: meant ? `did you mean ${meant}?` : `it offers: ${all.slice(0, 10).join(", ") || "none"}`,
    });
  });
}

/** Nothing of it is opened before it is known to be what the site says. */
async function artifactOf({ name, url, sha256 }: SiteSkill, signal: AbortSignal | undefined): Promise<Buffer> {
  const { bytes } = await download(url, { ...ARTIFACT, signal });
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
