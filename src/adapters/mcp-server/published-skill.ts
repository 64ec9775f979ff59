import { isUtf8 } from "node:buffer";
import { extname } from "node:path";
import { type SkillFrontmatter, skillEntry } from "@modelcontextprotocol/server/ext/skills";
import type { Catalog } from "../../catalog/catalog.ts";
import { parseMarkdownDocument, parseYamlDocument, type SkillDocument, validateSkill } from "../../skill/document.ts";
import { findFrontmatter, trimBody } from "../../skill/frontmatter.ts";
import { readSimpleYaml, renderDocument } from "../../skill/frontmatter-yaml.ts";
import { isPrivateFile, MAX_NAME_LENGTH, type Skill, type SkillFile, STANDARD_NAME } from "../../skill/skill.ts";
import { FileSkill } from "../../skill/source/file-skill.ts";
import { readSkillText } from "../../skill/source/read-file.ts";
import { listSkillFiles, readSkillFile, withOwnFile } from "../../skill/source/skill-files.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { compareText, formatCount, shortHash, truncateLine } from "../../util/text.ts";
import { escapeInvisible, findInvisible } from "../../util/untrusted-text.ts";

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
  if (!(skill instanceof FileSkill))
    return tryOrUndefined(() => renderStandardManifest(name, { skill, ...createPartsFromCode(skill) }));
  const { form } = skill.origin;
  const read = withOwnFile(skill.origin, readSkillText);
  if (!read || "finding" in read) return undefined;
  const document = form === "yaml" ? parseYamlDocument(read.text) : parseMarkdownDocument(read.text);
  const frontmatter = form === "yaml" ? undefined : await readStandardFrontmatter(read, document, name);
  const { description, isUsable } = validateSkill(document, { form, stem: skill.name, profile: "load" });
  if (!isUsable) return undefined;
  if (frontmatter) return { bytes: Buffer.from(read.text), frontmatter };
  const { instructions: _, ...data } = document.data;
  return renderStandardManifest(name, { skill, description, data, body: trimBody(document.body) });
}

/** A description as the standard allows it. */
export function toStandardDescription(written: string, name: string): string {
  return truncateAtWord(escapeInvisible(written).text.trim(), MAX_DESCRIPTION_LENGTH) || `The skill ${name}.`;
}

const MAX_DESCRIPTION_LENGTH = 1024;
const MAX_COMPATIBILITY_LENGTH = 500;
/** What changes nothing about what the frontmatter says to other readers. */
const HARMLESS_FINDINGS: ReadonlySet<string> = new Set(["line-ends", "value-cut"]);

interface SkillText {
  text: string;
  findings: readonly object[];
}

/** The frontmatter of a text that can be served as it stands. */
async function readStandardFrontmatter(
  { text, findings }: SkillText,
  document: SkillDocument,
  name: string,
): Promise<SkillFrontmatter | undefined> {
  const { data } = document;
  if (findings.length > 0 || document.findings.some(({ code }) => !HARMLESS_FINDINGS.has(code))) return undefined;
  if (data["name"] !== name || findInvisible(text).length > 0) return undefined;
  const frame = findFrontmatter(text);
  const source = "start" in frame ? frame.text.slice(frame.start, frame.end) : "";
  if (isReaderDependent(source)) return undefined;
  const frontmatter = toJson(data) as SkillFrontmatter;
  const isSure = isStandardFrontmatter(frontmatter) && readSimpleYaml(source) !== undefined;
  return isSure || (await isReadTheSame(text, frontmatter)) ? frontmatter : undefined;
}

/** Whether the reader that clients have reads the same, and takes it for a standard skill. It takes long, so only what is not plain is asked. */
async function isReadTheSame(text: string, frontmatter: SkillFrontmatter): Promise<boolean> {
  try {
    const entry = await skillEntry(frontmatter.name, { [MANIFEST_FILE]: text });
    return JSON.stringify(entry.frontmatter) === JSON.stringify(frontmatter);
  } catch {
    return false;
  }
}

function isStandardFrontmatter({ description, compatibility, metadata }: SkillFrontmatter): boolean {
  const isLong = (text: unknown, limit: number) => typeof text !== "string" || text === "" || text.length > limit;
  if (isLong(description, MAX_DESCRIPTION_LENGTH)) return false;
  if (compatibility !== undefined && isLong(compatibility, MAX_COMPATIBILITY_LENGTH)) return false;
  return (
    metadata === undefined || (isJsonObject(metadata) && Object.values(metadata).every((it) => typeof it === "string"))
  );
}

interface ManifestParts {
  skill: Skill;
  description: string;
  data: JsonObject;
  body: string;
}

function createPartsFromCode(skill: Skill): Omit<ManifestParts, "skill"> {
  const { instructions: _, ...data } = skill.manifest.data;
  return { description: skill.description, data, body: skill.body() };
}

/** A standard SKILL.md that says the same. */
function renderStandardManifest(
  name: string,
  { skill, description, data: written, body }: ManifestParts,
): PublishedManifest {
  const { name: ownName, description: _, compatibility, metadata, ...rest } = cleanValue(toJson(written)) as JsonObject;
  const runsOn = compatibility === undefined || compatibility === null ? "" : toMetadataText(compatibility);
  const texts =
    metadata === undefined || metadata === null ? {} : flattenValues(isJsonObject(metadata) ? metadata : { metadata });
  const original = skill.name === name && typeof ownName === "string" ? ownName : skill.name;
  if (original !== name) texts[ORIGINAL_NAME_KEY] = original;
  const data = {
    name,
    description: toStandardDescription(description, name),
    ...rest,
    ...(runsOn === "" ? {} : { compatibility: truncateAtWord(runsOn, MAX_COMPATIBILITY_LENGTH) }),
    ...(Object.keys(texts).length === 0 ? {} : { metadata: texts }),
  };
  return { bytes: Buffer.from(renderDocument(data, escapeHiddenCharacters(body))), frontmatter: toJson(data) };
}

/** The key under `metadata` that has the name by which the skill is known here. */
const ORIGINAL_NAME_KEY = "original-name";

/** A mapping of texts: what is nested is put under `outer.inner`. */
function flattenValues(values: JsonObject, prefix = ""): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    if (isJsonObject(value)) Object.assign(texts, flattenValues(value, `${prefix}${key}.`));
    else texts[toPlainKey(prefix + key)] = toMetadataText(value);
  }
  return texts;
}

function toMetadataText(value: unknown): string {
  if (value === null) return "";
  if (Array.isArray(value) && value.every((item) => Object(item) !== item)) return value.map(toMetadataText).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const MAX_DEPTH = 16;

/** The same without what cannot be seen, and without what some reader of YAML cannot read. */
function cleanValue(value: unknown, depth = 0): unknown {
  if (typeof value === "string") {
    const { text } = escapeInvisible(value);
    return text.includes("\n") ? text.trimStart() : text;
  }
  if (value === null || typeof value !== "object") return value;
  if (depth > MAX_DEPTH) return escapeInvisible(JSON.stringify(value)).text;
  if (Array.isArray(value)) return value.map((item) => cleanValue(item, depth + 1));
  const data: JsonObject = {};
  for (const [key, item] of Object.entries(value)) {
    if (key !== "__proto__") data[toPlainKey(escapeInvisible(key).text)] = cleanValue(item, depth + 1);
  }
  return data;
}

const MAX_KEY_LENGTH = 200;

/** Longer ones, or such as have several lines, are written in a way that few readers know. */
function toPlainKey(key: string): string {
  return key.length > MAX_KEY_LENGTH || /[\n\r]/.test(key) ? truncateLine(key, MAX_KEY_LENGTH) : key;
}

/** As it comes out of JSON. A skill in code may hold anything. */
// biome-ignore lint/suspicious/noExplicitAny: what it is was known before.
function toJson(value: JsonObject): any {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return {};
  }
}

/** At most so many characters, cut after a word and marked. */
function truncateAtWord(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const characters = [...text];
  if (characters.length <= limit) return text;
  const start = characters.slice(0, limit - 1).join("");
  return `${start.replace(/\s+\S{0,80}$/, "")}…`;
}

/**
 * Whether readers of YAML 1.1 and 1.2 may make different values of this frontmatter: `no` is a text to one and false to the
 * other, 2026-01-02 a date. Contract: true more often than it must be, where text only looks like such a value.
 */
function isReaderDependent(source: string): boolean {
  // Some readers refuse a tab between a key and its value or after it, and a key that does not end soon.
  if (source.includes("\t")) return true;
  return source.split("\n").some((line) => findKeyEnd(line) > MAX_SCANNED_KEY || splitYamlLine(line).some(isAmbiguous));
}

function splitYamlLine(line: string): string[] {
  const text = line.replace(/^[ \t]*(?:-[ \t]+)*/, "");
  if (/[[{]/.test(text)) return text.split(/[,[\]{}]|:(?:[ \t]|$)|[ \t]#/);
  const colon = findKeyEnd(text);
  return [text.slice(0, Math.max(0, colon)), text.slice(colon + 1)].map((part) => part.replace(/[ \t]#.*$/, ""));
}

function findKeyEnd(line: string): number {
  return line.search(/:(?:[ \t]|$)/);
}

const MAX_SCANNED_KEY = 1000;
const MAX_SCANNED_VALUE = 40;

function isAmbiguous(part: string): boolean {
  const value = part.trim();
  return value.length <= MAX_SCANNED_VALUE && AMBIGUOUS_VALUES.some((pattern) => pattern.test(value));
}

const AMBIGUOUS_VALUES: readonly RegExp[] = [
  /^(?:y|n|yes|no|on|off|=|<<)$/i,
  /^\d{4}-\d\d?-\d\d?(?:[Tt \t].*)?$/,
  // Octal or not, and who takes 0b and 0o.
  /^[-+]?0(?:[\d_]+|o[0-7]+|b[01_]+)$/,
  /^[-+]?(?:[\d.]*|0x[\da-f]*)_[\da-f_.]*$/i,
  /^[-+]?\d+(?::[0-5]?\d)+(?:\.\d*)?$/,
  /^[-+]?[\d.]+e[-+]?\d+$/i,
  // What JSON has not: more digits than a double holds, and zero with a sign.
  /^[-+]?\d{16,}$/,
  /^-[0.]+$/,
];

/** The files beside SKILL.md as they are now: a skill's own list is that of when somebody first asked. */
export function listPublishedFiles(skill: Skill): readonly SkillFile[] {
  const { folder, file } = skill.origin;
  const isInFolder = skill instanceof FileSkill && folder !== undefined && file !== undefined;
  const files = isInFolder ? listSkillFiles(skill.origin).files : (tryOrUndefined(() => skill.files().files) ?? []);
  return files.filter(({ path }) => path !== MANIFEST_FILE && !isPrivateFile(path));
}

/** What is published of a listed file. Nothing when it cannot be read, or is full of what cannot be seen. */
export function readPublishedFile(skill: Skill, path: string): Uint8Array | undefined {
  const bytes = readRawFile(skill, path);
  if (!bytes || !isTextBytes(bytes)) return bytes;
  const text = Buffer.from(bytes).toString("utf8");
  if (isMostlyHidden(text)) return undefined;
  const shown = escapeHiddenCharacters(text, ANNOTATED_TYPES.has(getMimeType(path) ?? ""));
  return shown === text ? bytes : Buffer.from(shown);
}

/** No text in bytes with a zero: most that has one is a program's. */
export function isTextBytes(bytes: Uint8Array): boolean {
  return isUtf8(bytes) && !bytes.includes(0);
}

/** The same text with what cannot be seen written out, and said where a line of ours does no harm. */
function escapeHiddenCharacters(written: string, isNoted = true): string {
  const { text, count: hidden } = escapeInvisible(written);
  if (hidden === 0 || !isNoted) return text;
  return `[${formatCount(hidden, "hidden character")} in this text, written out as \\u{…}]\n${text}`;
}

const MAX_HIDDEN_CHARACTERS = 100_000;
const SCAN_WINDOW = 64 * 1024;

// Megabytes of them would take many seconds to write out, and nobody would read that.
function isMostlyHidden(text: string): boolean {
  if (text.length <= MAX_HIDDEN_CHARACTERS) return false;
  let found = 0;
  for (let start = 0; start < text.length && found <= MAX_HIDDEN_CHARACTERS; start += SCAN_WINDOW) {
    found += findInvisible(text.slice(start, start + SCAN_WINDOW)).length;
  }
  return found > MAX_HIDDEN_CHARACTERS;
}

/** By the file's ending; nothing for one that nobody knows. */
export function getMimeType(path: string): string | undefined {
  return MIME_TYPES.get(extname(path).toLowerCase());
}

function readRawFile(skill: Skill, path: string): Uint8Array | undefined {
  if (skill instanceof FileSkill) {
    const result = readSkillFile(skill.origin, path);
    return "bytes" in result ? result.bytes : undefined;
  }
  return tryOrUndefined(() => skill.read(path));
}

/** What a skill that somebody else wrote gives; nothing when it throws. */
export function tryOrUndefined<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

const ANNOTATED_TYPES: ReadonlySet<string> = new Set(["text/markdown", "text/plain"]);

const MIME_TYPES: ReadonlyMap<string, string> = new Map([
  [".md", "text/markdown"],
  [".markdown", "text/markdown"],
  [".txt", "text/plain"],
  [".json", "application/json"],
  [".yaml", "application/yaml"],
  [".yml", "application/yaml"],
  [".toml", "application/toml"],
  [".py", "text/x-python"],
  [".sh", "application/x-sh"],
  [".bash", "application/x-sh"],
  [".js", "text/javascript"],
  [".mjs", "text/javascript"],
  [".ts", "text/typescript"],
  [".html", "text/html"],
  [".css", "text/css"],
  [".csv", "text/csv"],
  [".xml", "application/xml"],
  [".svg", "image/svg+xml"],
  [".png", "image/png"],
  [".jpg", "image/jpeg"],
  [".jpeg", "image/jpeg"],
  [".gif", "image/gif"],
  [".webp", "image/webp"],
  [".pdf", "application/pdf"],
]);

/**
 * All skills of a catalog by the names under which they are published, in the order of their addresses. Contract: of a catalog,
 * not of what somebody may see of it, so that an address means the same skill to every client.
 */
export function listPublishedNames(catalog: Catalog): ReadonlyMap<string, Skill> {
  const known = NAMES_BY_CATALOG.get(catalog);
  if (known) return known;
  const names = new Map(catalog.skills.filter(({ name }) => isStandardName(name)).map((skill) => [skill.name, skill]));
  for (const skill of catalog.skills)
    if (!isStandardName(skill.name)) names.set(findFreeName(skill.name, names), skill);
  const ordered = new Map([...names].sort(([a], [b]) => compareText(formatSkillUri(a), formatSkillUri(b))));
  NAMES_BY_CATALOG.set(catalog, ordered);
  return ordered;
}

export function isStandardName(name: string): boolean {
  return name.length <= MAX_NAME_LENGTH && STANDARD_NAME.test(name);
}

const NAMES_BY_CATALOG = new WeakMap<Catalog, ReadonlyMap<string, Skill>>();

function findFreeName(name: string, taken: ReadonlyMap<string, Skill>): string {
  const wanted = toStandardName(name);
  for (let number = 1; ; number++) {
    const ending = number === 1 ? "" : `-${number}`;
    const free = truncateName(wanted, MAX_NAME_LENGTH - ending.length) + ending;
    if (!taken.has(free)) return free;
  }
}

/** The name as the standard wants it: `My_Skill` is `my-skill`. */
export function toStandardName(name: string): string {
  const letters = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const standard = letters.replace(/[^a-z0-9]+/g, "-").replace(/^-/, "");
  return truncateName(standard, MAX_NAME_LENGTH) || `skill-${shortHash(name)}`;
}

function truncateName(name: string, length: number): string {
  return name.slice(0, length).replace(/-$/, "");
}

/** Where a file of a published skill is: `skill://name/path/to/file`. */
export interface SkillAddress {
  /** The skill's name as it is published. */
  name: string;
  /** Relative to the skill's folder, with `/` between its parts; empty for the folder itself. */
  path: string;
}

export const MANIFEST_FILE = "SKILL.md";

/** The one spelling of an address: as every URL parser writes it. Nothing for a path that has none. */
export function formatSkillFileUri(name: string, path = ""): string | undefined {
  const parts = path === "" ? [] : path.split("/");
  return parts.every(isPathName) ? ["skill:/", name, ...parts.map(encodePathPart)].join("/") : undefined;
}

/** That of a skill itself. */
export function formatSkillUri(name: string): string {
  return `skill://${name}/${MANIFEST_FILE}`;
}

/** What a URI says, however it is escaped. Nothing when it leads out of the skill, or is none of ours. */
export function parseSkillUri(uri: string): SkillAddress | undefined {
  const [, name = "", rest] = /^skill:\/\/([^/?#]+)(?:\/([^?#]+))?$/i.exec(uri) ?? [];
  if (name === "") return undefined;
  const parts = (rest?.split("/") ?? []).map(decodePathPart);
  return parts.every((part) => part !== undefined && isPathName(part)) ? { name, path: parts.join("/") } : undefined;
}

// A backslash is a letter here and a separator on Windows, where a client may write the files down.
function isPathName(part: string): boolean {
  return part !== "" && part !== "." && part !== ".." && !/[/\\\0\p{Surrogate}]/u.test(part);
}

// What URL parsers leave as it is in a path stays, so that a link resolved against SKILL.md is spelled the same.
function encodePathPart(part: string): string {
  return part.replace(/[^\w!$&'()*+,.:;=@[\]|~-]/gu, encodeURIComponent);
}

function decodePathPart(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
