import { type SkillFrontmatter, skillEntry } from "@modelcontextprotocol/server/ext/skills";
import { findHidden, spellHidden } from "../shared/hidden.ts";
import { oneLine } from "../shared/text.ts";
import { type Data, isData } from "../skill/data.ts";
import { type Document, parseMarkdown, parseYaml } from "../skill/document.ts";
import { findFrame, trimBody } from "../skill/frame.ts";
import { readSkill } from "../skill/read.ts";
import { renderDocument } from "../skill/render.ts";
import { readSimpleYaml } from "../skill/simple-yaml.ts";
import type { Skill } from "../skill/skill.ts";
import { readText } from "../source/file.ts";
import { withOwnFile } from "../source/file-list.ts";
import { FileSkill } from "../source/file-skill.ts";
import { attempt, withoutHidden } from "./publish-file.ts";
import { differsByReader } from "./publish-readers.ts";
import { SKILL_FILE } from "./publish-uri.ts";

/** A SKILL.md as it is served, and what its frontmatter says. */
export interface PublishedManifest {
  bytes: Uint8Array;
  frontmatter: SkillFrontmatter;
}

/**
 * The SKILL.md of a skill, under this name. A file that is a standard skill, and that every reader reads alike, is served byte
 * for byte. From all others a standard one is made, so that no skill is lost. Nothing when its file is no skill any more.
 */
export async function publishManifest(skill: Skill, name: string): Promise<PublishedManifest | undefined> {
  if (!(skill instanceof FileSkill)) return attempt(() => render(name, { skill, ...partsInCode(skill) }));
  const { form } = skill.origin;
  const read = withOwnFile(skill.origin, readText);
  if (!read || "finding" in read) return undefined;
  const document = form === "yaml" ? parseYaml(read.text) : parseMarkdown(read.text);
  const frontmatter = form === "yaml" ? undefined : await standardFrontmatter(read, document, name);
  const { description, isUsable } = readSkill(document, { form, stem: skill.name, profile: "load" });
  if (!isUsable) return undefined;
  if (frontmatter) return { bytes: Buffer.from(read.text), frontmatter };
  const { instructions: _, ...data } = document.data;
  return render(name, { skill, description, data, body: trimBody(document.body) });
}

/** A description as the standard allows it. */
export function standardDescription(written: string, name: string): string {
  return shortened(spellHidden(written).text.trim(), LONGEST_DESCRIPTION) || `The skill ${name}.`;
}

const LONGEST_DESCRIPTION = 1024;
const LONGEST_COMPATIBILITY = 500;
/** What changes nothing about what the frontmatter says to other readers. */
const HARMLESS: ReadonlySet<string> = new Set(["line-ends", "value-cut"]);

interface Text {
  text: string;
  findings: readonly object[];
}

/** The frontmatter of a text that can be served as it stands. */
async function standardFrontmatter(
  { text, findings }: Text,
  document: Document,
  name: string,
): Promise<SkillFrontmatter | undefined> {
  const { data } = document;
  if (findings.length > 0 || document.findings.some(({ code }) => !HARMLESS.has(code))) return undefined;
  if (data["name"] !== name || findHidden(text).length > 0) return undefined;
  const frame = findFrame(text);
  const source = "start" in frame ? frame.text.slice(frame.start, frame.end) : "";
  if (differsByReader(source)) return undefined;
  const frontmatter = asJson(data) as SkillFrontmatter;
  const isSure = isStandard(frontmatter) && readSimpleYaml(source) !== undefined;
  return isSure || (await isReadAlike(text, frontmatter)) ? frontmatter : undefined;
}

/** Whether the reader that clients have reads the same, and takes it for a standard skill. It takes long, so only what is not plain is asked. */
async function isReadAlike(text: string, frontmatter: SkillFrontmatter): Promise<boolean> {
  try {
    const entry = await skillEntry(frontmatter.name, { [SKILL_FILE]: text });
    return JSON.stringify(entry.frontmatter) === JSON.stringify(frontmatter);
  } catch {
    return false;
  }
}

function isStandard({ description, compatibility, metadata }: SkillFrontmatter): boolean {
  const isLong = (text: unknown, limit: number) => typeof text !== "string" || text === "" || text.length > limit;
  if (isLong(description, LONGEST_DESCRIPTION)) return false;
  if (compatibility !== undefined && isLong(compatibility, LONGEST_COMPATIBILITY)) return false;
  return metadata === undefined || (isData(metadata) && Object.values(metadata).every((it) => typeof it === "string"));
}

interface Parts {
  skill: Skill;
  description: string;
  data: Data;
  body: string;
}

function partsInCode(skill: Skill): Omit<Parts, "skill"> {
  const { instructions: _, ...data } = skill.manifest.data;
  return { description: skill.description, data, body: skill.body() };
}

/** A standard SKILL.md that says the same. */
function render(name: string, { skill, description, data: written, body }: Parts): PublishedManifest {
  const { name: ownName, description: _, compatibility, metadata, ...rest } = clean(asJson(written)) as Data;
  const runsOn = compatibility === undefined || compatibility === null ? "" : asText(compatibility);
  const texts = metadata === undefined || metadata === null ? {} : flat(isData(metadata) ? metadata : { metadata });
  const original = skill.name === name && typeof ownName === "string" ? ownName : skill.name;
  if (original !== name) texts[ORIGINAL_NAME] = original;
  const data = {
    name,
    description: standardDescription(description, name),
    ...rest,
    ...(runsOn === "" ? {} : { compatibility: shortened(runsOn, LONGEST_COMPATIBILITY) }),
    ...(Object.keys(texts).length === 0 ? {} : { metadata: texts }),
  };
  return { bytes: Buffer.from(renderDocument(data, withoutHidden(body))), frontmatter: asJson(data) };
}

/** The key under `metadata` that has the name by which the skill is known here. */
const ORIGINAL_NAME = "original-name";

/** A mapping of texts: what is nested is put under `outer.inner`. */
function flat(values: Data, prefix = ""): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    if (isData(value)) Object.assign(texts, flat(value, `${prefix}${key}.`));
    else texts[plainKey(prefix + key)] = asText(value);
  }
  return texts;
}

function asText(value: unknown): string {
  if (value === null) return "";
  if (Array.isArray(value) && value.every((item) => Object(item) !== item)) return value.map(asText).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const DEEPEST = 16;

/** The same without what cannot be seen, and without what some reader of YAML cannot read. */
function clean(value: unknown, depth = 0): unknown {
  if (typeof value === "string") {
    const { text } = spellHidden(value);
    return text.includes("\n") ? text.trimStart() : text;
  }
  if (value === null || typeof value !== "object") return value;
  if (depth > DEEPEST) return spellHidden(JSON.stringify(value)).text;
  if (Array.isArray(value)) return value.map((item) => clean(item, depth + 1));
  const data: Data = {};
  for (const [key, item] of Object.entries(value)) {
    if (key !== "__proto__") data[plainKey(spellHidden(key).text)] = clean(item, depth + 1);
  }
  return data;
}

const LONGEST_KEY = 200;

/** Longer ones, or such as have several lines, are written in a way that few readers know. */
function plainKey(key: string): string {
  return key.length > LONGEST_KEY || /[\n\r]/.test(key) ? oneLine(key, LONGEST_KEY) : key;
}

/** As it comes out of JSON. A skill in code may hold anything. */
// biome-ignore lint/suspicious/noExplicitAny: what it is was known before.
function asJson(value: Data): any {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return {};
  }
}

/** At most so many characters, cut after a word and marked. */
function shortened(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const characters = [...text];
  if (characters.length <= limit) return text;
  const start = characters.slice(0, limit - 1).join("");
  return `${start.replace(/\s+\S{0,80}$/, "")}…`;
}
