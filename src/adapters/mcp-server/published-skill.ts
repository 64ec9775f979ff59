import { isUtf8 } from "node:buffer";
import { extname } from "node:path";
import { type SkillFrontmatter, skillEntry } from "@modelcontextprotocol/server/ext/skills";
import type { Catalog } from "../../catalog/catalog.ts";
import { parseMarkdownDocument, parseYamlDocument, type SkillDocument, validateSkill } from "../../skill/document.ts";
import { findFrontmatter, readSimpleYaml, renderDocument, trimBody } from "../../skill/frontmatter.ts";
import { isPrivateFile, MAX_NAME_LENGTH, type Skill, type SkillFile, STANDARD_NAME } from "../../skill/skill.ts";
import { FileSkill, readSkillText } from "../../skill/source/file-skill.ts";
import { listSkillFiles, readSkillFile, withOwnFile } from "../../skill/source/skill-files.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { compareText, formatCount, shortHash, truncateLine } from "../../util/text.ts";
import { escapeInvisible, findInvisible } from "../../util/untrusted-text.ts";

/** A SKILL.md as it is served, with its frontmatter. */
export interface PublishedManifest {
  bytes: Uint8Array;
  frontmatter: SkillFrontmatter;
}

/**
 * Returns the SKILL.md of a skill, under this name. A standard skill that every YAML reader reads alike is served byte for byte. Any other
 * is converted to a standard one. Undefined if its file stopped being a skill.
 */
export async function publishManifest(skill: Skill, name: string): Promise<PublishedManifest | undefined> {
  if (!(skill instanceof FileSkill))
    return tryOrUndefined(async () => renderStandardManifest(name, { skill, ...(await createPartsFromCode(skill)) }));
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

/** Shortens a description to the limit of the standard. */
export function toStandardDescription(written: string, name: string): string {
  return truncateAtWord(escapeInvisible(written).text.trim(), MAX_DESCRIPTION_LENGTH) || `The skill ${name}.`;
}

const MAX_DESCRIPTION_LENGTH = 1024;
const MAX_COMPATIBILITY_LENGTH = 500;
/** Findings that do not change how other readers read the frontmatter. */
const HARMLESS_FINDINGS: ReadonlySet<string> = new Set(["line-endings", "value-truncated"]);

interface SkillText {
  text: string;
  findings: readonly object[];
}

/** Returns the frontmatter of a text that can be served verbatim. */
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

/** Returns true if the reader of clients gets the same result and accepts it as a standard skill. Slow, so only called if needed. */
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

async function createPartsFromCode(skill: Skill): Promise<Omit<ManifestParts, "skill">> {
  const { instructions: _, ...data } = skill.manifest.data;
  return { description: skill.description, data, body: await skill.body() };
}

/** Renders a standard SKILL.md with the same content. */
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

/** The key under `metadata` with the original name of the skill. */
const ORIGINAL_NAME_KEY = "original-name";

/** Flattens a mapping to strings: nested values get the key `outer.inner`. */
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

/** Removes invisible characters and values that some YAML readers cannot read. */
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

/** Shortens a key: few readers support long or multi-line keys. */
function toPlainKey(key: string): string {
  return key.length > MAX_KEY_LENGTH || /[\n\r]/.test(key) ? truncateLine(key, MAX_KEY_LENGTH) : key;
}

/** Converts to JSON values. A skill in code may contain any value. */
// biome-ignore lint/suspicious/noExplicitAny: its type is known to the caller.
function toJson(value: JsonObject): any {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return {};
  }
}

/** Truncates at a word, and marks the cut. */
function truncateAtWord(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const characters = [...text];
  if (characters.length <= limit) return text;
  const start = characters.slice(0, limit - 1).join("");
  return `${start.replace(/\s+\S{0,80}$/, "")}…`;
}

/**
 * Returns true if readers of YAML 1.1 and 1.2 may read this frontmatter differently: `no` is a string or false, 2026-01-02 a string or a
 * date. Contract: may return true for text that only looks like such a value.
 */
function isReaderDependent(source: string): boolean {
  // Some readers reject a tab next to a value, and very long keys.
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
  // Octal or decimal; not every reader accepts 0b and 0o.
  /^[-+]?0(?:[\d_]+|o[0-7]+|b[01_]+)$/,
  /^[-+]?(?:[\d.]*|0x[\da-f]*)_[\da-f_.]*$/i,
  /^[-+]?\d+(?::[0-5]?\d)+(?:\.\d*)?$/,
  /^[-+]?[\d.]+e[-+]?\d+$/i,
  // Values outside JSON: more digits than a double holds, and signed zero.
  /^[-+]?\d{16,}$/,
  /^-[0.]+$/,
];

/** Lists the current files of a skill except SKILL.md: the skill's own list may be cached. */
export async function listPublishedFiles(skill: Skill): Promise<readonly SkillFile[]> {
  const { folder, file } = skill.origin;
  const isInFolder = skill instanceof FileSkill && folder !== undefined && file !== undefined;
  const files = isInFolder
    ? listSkillFiles(skill.origin).files
    : ((await tryOrUndefined(() => skill.files()))?.files ?? []);
  return files.filter(({ path }) => path !== MANIFEST_FILE && !isPrivateFile(path));
}

/** Reads a listed file for publication. Undefined if it cannot be read or has too many invisible characters. */
export async function readPublishedFile(skill: Skill, path: string): Promise<Uint8Array | undefined> {
  const bytes = await readRawFile(skill, path);
  if (!bytes || !isTextBytes(bytes)) return bytes;
  const text = Buffer.from(bytes).toString("utf8");
  if (isMostlyHidden(text)) return undefined;
  const shown = escapeHiddenCharacters(text, ANNOTATED_TYPES.has(getMimeType(path) ?? ""));
  return shown === text ? bytes : Buffer.from(shown);
}

/** Returns false for bytes with a zero: such files are usually binary. */
export function isTextBytes(bytes: Uint8Array): boolean {
  return isUtf8(bytes) && !bytes.includes(0);
}

/** Escapes invisible characters, with a note if one line more does no harm. */
function escapeHiddenCharacters(written: string, isNoted = true): string {
  const { text, count: hidden } = escapeInvisible(written);
  if (hidden === 0 || !isNoted) return text;
  return `[${formatCount(hidden, "hidden character")} in this text, written out as \\u{…}]\n${text}`;
}

const MAX_HIDDEN_CHARACTERS = 100_000;
const SCAN_WINDOW = 64 * 1024;

// Escaping megabytes of them would take many seconds.
function isMostlyHidden(text: string): boolean {
  if (text.length <= MAX_HIDDEN_CHARACTERS) return false;
  let found = 0;
  for (let start = 0; start < text.length && found <= MAX_HIDDEN_CHARACTERS; start += SCAN_WINDOW) {
    found += findInvisible(text.slice(start, start + SCAN_WINDOW)).length;
  }
  return found > MAX_HIDDEN_CHARACTERS;
}

/** Returns the type by file extension; undefined for an unknown one. */
export function getMimeType(path: string): string | undefined {
  return MIME_TYPES.get(extname(path).toLowerCase());
}

async function readRawFile(skill: Skill, path: string): Promise<Uint8Array | undefined> {
  if (skill instanceof FileSkill) {
    const result = readSkillFile(skill.origin, path);
    return "bytes" in result ? result.bytes : undefined;
  }
  return tryOrUndefined(() => skill.read(path));
}

/** Calls a method of an untrusted skill; undefined if it throws. */
export async function tryOrUndefined<T>(call: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await call();
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
 * Lists all skills of a catalog by their published names, in the order of their URIs. Contract: it depends only on the catalog, not on
 * what a client may see, so that a URI means the same skill to every client.
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
  const standard = toStandardName(name);
  for (let number = 1; ; number++) {
    const ending = number === 1 ? "" : `-${number}`;
    const free = truncateName(standard, MAX_NAME_LENGTH - ending.length) + ending;
    if (!taken.has(free)) return free;
  }
}

/** Converts a name to the standard: `My_Skill` becomes `my-skill`. */
export function toStandardName(name: string): string {
  const letters = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const standard = letters.replace(/[^a-z0-9]+/g, "-").replace(/^-/, "");
  return truncateName(standard, MAX_NAME_LENGTH) || `skill-${shortHash(name)}`;
}

function truncateName(name: string, length: number): string {
  return name.slice(0, length).replace(/-$/, "");
}

/** The address of a file of a published skill: `skill://name/path/to/file`. */
export interface SkillAddress {
  /** The published name of the skill. */
  name: string;
  /** Relative to the skill's folder, with `/` as separator; empty for the folder itself. */
  path: string;
}

export const MANIFEST_FILE = "SKILL.md";

/** Formats the canonical URI, as every URL parser writes it. Undefined for a path that has none. */
export function formatSkillFileUri(name: string, path = ""): string | undefined {
  const parts = path === "" ? [] : path.split("/");
  return parts.every(isPathName) ? ["skill:/", name, ...parts.map(encodePathPart)].join("/") : undefined;
}

/** Formats the URI of a skill's SKILL.md. */
export function formatSkillUri(name: string): string {
  return `skill://${name}/${MANIFEST_FILE}`;
}

/** Parses a URI in any escaping. Undefined if it leaves the skill or is not a skill URI. */
export function parseSkillUri(uri: string): SkillAddress | undefined {
  const [, name = "", rest] = /^skill:\/\/([^/?#]+)(?:\/([^?#]+))?$/i.exec(uri) ?? [];
  if (name === "") return undefined;
  const parts = (rest?.split("/") ?? []).map(decodePathPart);
  return parts.every((part) => part !== undefined && isPathName(part)) ? { name, path: parts.join("/") } : undefined;
}

// A backslash is a character here but a separator on Windows, where a client may store the files.
function isPathName(part: string): boolean {
  return part !== "" && part !== "." && part !== ".." && !/[/\\\0\p{Surrogate}]/u.test(part);
}

// Keeps the characters that URL parsers keep in a path, so that a link resolved against SKILL.md has the same spelling.
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
