import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { count } from "../shared/text.ts";
import { isData } from "../skill/data.ts";
import { isWindowsDevice, unusableName } from "../skill/name.ts";
import { shown } from "./refusal.ts";

/** One skill that a site offers. */
export interface SiteSkill {
  name: string;
  type: SiteType;
  /** Absolute. */
  url: string;
  /** Hexadecimal, of the file that is at `url`. */
  sha256: string;
}

export interface SiteIndex {
  skills: SiteSkill[];
  notes: string[];
}

/** What an entry can be: a SKILL.md, or an archive of a whole folder. */
export const SITE_TYPES = ["skill-md", "archive"] as const;
export type SiteType = (typeof SITE_TYPES)[number];

const UNDERSTOOD = "0.2.0";
const SCHEMA = `https://schemas.agentskills.io/discovery/${UNDERSTOOD}/schema.json`;
const MOST_SKILLS = 500;

/** Reads what a site says that it offers. Throws a SkillError when nothing of it can be relied on. `url`: where it was. */
export function readSiteIndex(bytes: Buffer, url: string): SiteIndex {
  const index = parsed(bytes, url);
  judgeVersion(index, url);
  const { skills } = index;
  if (!Array.isArray(skills)) throw wrong("site-index", url, 'has no list "skills"');
  if (skills.length > MOST_SKILLS) {
    throw wrong("site-too-many", url, `offers ${count(skills.length, "skill")}: at most ${MOST_SKILLS} are looked at`);
  }
  const read: SiteIndex = { skills: [], notes: [] };
  for (const [at, entry] of skills.entries()) {
    const skill = readEntry(entry, at, url);
    if (typeof skill === "string") read.notes.push(skill);
    else if (read.skills.some(({ name }) => name.toLowerCase() === skill.name.toLowerCase())) {
      throw wrong("site-index", url, `names ${shown(skill.name)} twice`);
    } else read.skills.push(skill);
  }
  return read;
}

function parsed(bytes: Buffer, url: string): Readonly<Record<string, unknown>> {
  let index: unknown;
  try {
    index = JSON.parse(bytes.toString().replace(/^\ufeff/, ""));
  } catch (cause) {
    throw wrong("site-index", url, "is no JSON", cause);
  }
  if (isData(index)) return index;
  throw wrong("site-index", url, "is no list of skills");
}

function judgeVersion({ $schema }: Readonly<Record<string, unknown>>, url: string): void {
  if ($schema === SCHEMA) return;
  const version = typeof $schema === "string" ? (/\/discovery\/([^/]+)\//.exec($schema)?.[1] ?? $schema) : "none";
  throw wrong(
    "site-version",
    url,
    `is of version ${shown(version)} of the discovery of skills: ${UNDERSTOOD} is understood`,
  );
}

/** A skill, or why it is left out. */
function readEntry(entry: unknown, at: number, base: string): SiteSkill | string {
  const { name, type, url, digest } = isData(entry) ? entry : {};
  const called = typeof name === "string" ? shown(name) : `Skill ${at + 1}`;
  if (typeof name !== "string" || typeof type !== "string")
    return `${called} of the site has no name or no type: left out`;
  if (!isSiteType(type)) return `${called} of the site is of the type ${shown(type)}, which is not known: left out`;
  const bad =
    unusableName(name)?.why ?? (isWindowsDevice(name) || /[. ]$/.test(name) ? "is no name of a folder" : undefined);
  if (bad !== undefined) return `${called} of the site ${bad}: left out`;
  const place = typeof url === "string" ? URL.parse(url, base) : null;
  if (place?.username !== "" || place.password !== "")
    return `${called} of the site has no address that can be asked: left out`;
  const sha256 = typeof digest === "string" ? /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1] : undefined;
  if (sha256 === undefined) return `${called} of the site has no digest (sha256:…) to compare with: left out`;
  return { name, type, url: place.href, sha256 };
}

function isSiteType(type: string): type is SiteType {
  return (SITE_TYPES as readonly string[]).includes(type);
}

function wrong(code: ErrorCode, url: string, why: string, cause?: unknown): SkillError {
  const fix = "tell whoever runs the site, or add its skills from where they are kept (a repository, an archive)";
  return new SkillError(code, { message: `${shown(url)} ${why}`, fix, ...(cause === undefined ? {} : { cause }) });
}
