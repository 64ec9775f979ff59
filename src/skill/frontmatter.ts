import {
  CORE_SCHEMA,
  constructFromEvents,
  DUMP_SCHEMA,
  defineMappingTag,
  defineScalarTag,
  dump,
  EVENT_ID,
  type Event,
  floatCoreTag,
  intCoreTag,
  NOT_RESOLVED,
  parseEvents,
  SCALAR_STYLE,
  type Schema,
  visit,
  YAMLException,
} from "js-yaml";
import { createJsonObject, type JsonObject } from "../util/objects.ts";
import type { Finding, Position, Skill } from "./skill.ts";

export type SkillForm = "folder" | "markdown" | "yaml" | "code";

/** Contract: `text` may be the beginning of a file. `closed` is true if it contains the end of the frontmatter. */
export interface Frontmatter {
  /** Offsets refer to the text with normalized line endings. */
  text: string;
  start: number;
  end: number;
  bodyStart: number;
  firstLine: number;
  closed: boolean;
  findings: Finding[];
}

/** Finds the `---` lines around the frontmatter. Returns only findings if the text does not start with one. */
export function findFrontmatter(raw: string): Frontmatter | { text: string; findings: Finding[] } {
  const findings: Finding[] = [];
  const text = normalizeLineEnds(raw, findings);
  const opening = OPENING_LINE.exec(text) ?? LABELED_OPENING_LINE.exec(text);
  if (!opening) return { text, findings: [...findings, createMissingFinding(text)] };
  const [whole, before = "", after = ""] = opening;
  const firstLine = countNewlines(before) + 2;
  if (before !== "") findings.push(createLeadingFinding(before));
  if (after !== "") findings.push(createBlanksFinding(firstLine - 1));
  const start = whole.length;
  CLOSING_LINE.lastIndex = start - 1;
  const closing = CLOSING_LINE.exec(text);
  if (!closing) {
    return { text, start, end: text.length, bodyStart: text.length, firstLine, closed: false, findings };
  }
  const end = closing.index + 1;
  if (closing[1]) findings.push(createBlanksFinding(firstLine + countNewlines(text.slice(start, end))));
  return { text, start, end, bodyStart: CLOSING_LINE.lastIndex, firstLine, closed: true, findings };
}

/** Returns the text without comment, label and blank lines before the frontmatter. */
export function removeLeadingLines(text: string): string {
  const [, before = ""] = OPENING_LINE.exec(text) ?? LABELED_OPENING_LINE.exec(text) ?? [];
  return text.slice(before.length);
}

function createLeadingFinding(before: string): Finding {
  const at = { line: 1, column: 1 };
  return before.trim() === ""
    ? { code: "leading-blank-lines", message: "blank lines before the frontmatter", ...at }
    : { code: "leading-comment", message: "a comment or label before the frontmatter", ...at };
}

/** Removes blank lines before a body and white space after it. */
export function trimBody(body: string): string {
  return body
    .replace(/\r\n?/g, "\n")
    .replace(/^(?:[ \t]*\n)+/, "")
    .trimEnd();
}

/** Returns the text without a byte order mark and with LF line endings, and reports each change. */
export function normalizeLineEnds(raw: string, findings: Finding[]): string {
  let text = raw;
  if (text.charCodeAt(0) === 0xfeff) {
    findings.push({ code: "byte-order-mark", message: "starts with a byte order mark", line: 1, column: 1 });
    text = text.slice(1);
  }
  if (!text.includes("\r\n")) return text;
  findings.push({ code: "line-endings", message: "lines end with CR LF", line: 1, column: 1 });
  return text.replaceAll("\r\n", "\n");
}

export function findPosition(text: string, index: number, firstLine: number): Position {
  const before = text.slice(0, index);
  return { line: firstLine + countNewlines(before), column: index - (before.lastIndexOf("\n") + 1) + 1 };
}

export function countNewlines(text: string): number {
  let total = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) total++;
  return total;
}

const OPENING_LINE = /^((?:[ \t]*\n)*)---([ \t]*)(?:\n|$)/;
// A page that starts with a heading and a horizontal rule is not a skill: the line after the --- must be a key.
const LABELED_OPENING_LINE =
  /^((?:(?:[ \t]*|<!--[^\n]*-->[ \t]*|#[^\n]*)\n){1,5})---([ \t]*)\n(?=[A-Za-z_][\w-]*[ \t]*:)/;
const CLOSING_LINE = /\n---([ \t]*)(?:\n|$)/g;

function createMissingFinding(text: string): Finding {
  const first = /^\s*(-{3,}\S*|--[ \t]*(?=\n))/.exec(text.slice(0, 200));
  if (first?.[1] && /^---[a-z]/i.test(first[1])) {
    return { code: "frontmatter-language", message: "the opening line must be --- alone", line: 1, column: 4 };
  }
  const message = first
    ? "has no frontmatter: the opening line is not exactly ---"
    : "has no frontmatter: it does not start with a --- line";
  return { code: "frontmatter-missing", message, line: 1, column: 1 };
}

function createBlanksFinding(line: number): Finding {
  return { code: "delimiter-whitespace", message: "spaces after the ---", line, column: 4 };
}

/** Returns a SKILL.md with this frontmatter and body. Contract: parsing it returns the same values. */
export function renderDocument(data: JsonObject, body: string): string {
  return `---\n${writeYaml(data)}---\n\n${trimBody(body)}\n`;
}

/** Returns the skill as a SKILL.md: its frontmatter as written, and its instructions. */
export async function toSkillMd(skill: Skill): Promise<string> {
  return renderSkillMd(skill, await skill.body());
}

/** Returns the skill with these instructions as a SKILL.md. */
export function renderSkillMd(skill: Skill, body: string): string {
  const { name: _name, description: _description, instructions: _instructions, ...rest } = skill.manifest.data;
  return renderDocument({ name: skill.name, description: skill.description, ...rest }, body);
}

export interface YamlResult {
  data: JsonObject;
  findings: Finding[];
}

/** Reads one YAML mapping. Rejects aliases, tags, deep nesting and too many keys; reports duplicate keys. */
export function readYaml(source: string, firstLine: number): YamlResult {
  const simple = readSimpleYaml(source);
  return simple ? { data: simple, findings: [] } : readFullYaml(source, firstLine);
}

/** Like `readYaml`, but always uses the full parser. */
export function readFullYaml(source: string, firstLine: number): YamlResult {
  const findings: Finding[] = [];
  const fail = (finding: Finding): YamlResult => ({ data: createJsonObject(), findings: [...findings, finding] });
  try {
    const events = parseEvents(source, YAML_LIMITS);
    const refused = findRefusedEvent(events, source, firstLine);
    if (refused) return fail(refused);
    const documents = constructDocuments(events, source, firstLine, findings);
    if (documents.length > 1) {
      return fail({ code: "yaml-documents", message: "contains several YAML documents", line: firstLine, column: 1 });
    }
    const [data] = documents;
    if (data === undefined || data === null) return { data: createJsonObject(), findings };
    if (typeof data === "object" && !Array.isArray(data)) return { data: data as JsonObject, findings };
    const message = `is ${Array.isArray(data) ? "a list" : "a single value"}, not key: value lines`;
    return fail({ code: "frontmatter-type", message, line: firstLine, column: 1 });
  } catch (error) {
    return fail(createYamlFinding(error, firstLine));
  }
}

/** Writes data so that `readYaml` and YAML 1.1 readers return the same data. */
export function writeYaml(data: JsonObject): string {
  // Parsed objects have no prototype, at any depth, and js-yaml does not write such objects.
  return dump(structuredClone(data), {
    schema: DUMP_SCHEMA,
    lineWidth: -1,
    noRefs: true,
    quoteStyle: "double",
    // An unquoted key that starts with --- or ... would end the document.
    transform: (documents) =>
      visit(documents, (node) => {
        if (node.kind === "scalar" && /^(?:---|\.\.\.)(?:\s|$)/.test(node.value))
          node.style = SCALAR_STYLE.DOUBLE_QUOTED;
      }),
  });
}

const YAML_LIMITS = { maxDepth: 16 };
export const MAX_KEYS = 256;
const TOO_MANY_KEYS = `more than ${MAX_KEYS} keys in one place`;

/** Created on demand: most starts read no YAML that needs it. */
let cachedSchema: Schema | undefined;

function getYamlSchema(): Schema {
  cachedSchema ??= CORE_SCHEMA.withTags(
    // `.inf`, `.nan` and 1e999 have no JSON form, so they remain text.
    [intCoreTag, floatCoreTag].map((tag) =>
      defineScalarTag(tag.tagName, {
        ...tag,
        resolve(source, isExplicit, tagName) {
          const value = tag.resolve(source, isExplicit, tagName);
          return typeof value === "number" && !Number.isFinite(value) ? NOT_RESOLVED : value;
        },
      }),
    ),
    defineMappingTag<{ data: JsonObject; size: number }, JsonObject>("tag:yaml.org,2002:map", {
      create: () => ({ data: createJsonObject(), size: 0 }),
      addPair(carrier, key, value) {
        if (key !== null && typeof key === "object") return "a list or mapping as a key";
        if (++carrier.size > MAX_KEYS) return TOO_MANY_KEYS;
        carrier.data[String(key)] = value;
        return "";
      },
      has: (carrier, key) => String(key) in carrier.data,
      keys: (data) => Object.keys(data),
      get: (data, key) => data[String(key)],
      finalize: (carrier) => carrier.data,
      identify: (data) => data !== null && typeof data === "object" && !Array.isArray(data),
    }),
  );
  return cachedSchema;
}

function constructDocuments(events: Event[], source: string, firstLine: number, findings: Finding[]): unknown[] {
  try {
    return constructFromEvents(events, { source, schema: getYamlSchema(), maxAliases: 0 });
  } catch (error) {
    if (!isYamlError(error) || !error.reason.includes("duplicated mapping key")) throw error;
    findings.push({ code: "yaml-duplicate", message: "a key occurs twice", ...getErrorPosition(error, firstLine) });
    return constructFromEvents(events, { source, schema: getYamlSchema(), maxAliases: 0, json: true });
  }
}

function isYamlError(error: unknown): error is YAMLException {
  return error instanceof YAMLException;
}

function findRefusedEvent(events: Event[], source: string, firstLine: number): Finding | undefined {
  for (const event of events) {
    if (event.type === EVENT_ID.POP || event.type === EVENT_ID.DOCUMENT) continue;
    if (event.anchorStart !== -1) {
      const message = "uses an anchor or alias (& or *)";
      return { code: "yaml-alias", message, ...getIndexPosition(source, event.anchorStart, firstLine) };
    }
    if (event.type !== EVENT_ID.ALIAS && event.tagStart !== -1) {
      const message = "uses a YAML tag (!)";
      return { code: "yaml-tag", message, ...getIndexPosition(source, event.tagStart, firstLine) };
    }
  }
  return undefined;
}

// The parser's own message quotes the file, which may be a symlink to a private file: only the reason is used.
function createYamlFinding(error: unknown, firstLine: number): Finding {
  if (!isYamlError(error)) {
    return { code: "yaml-syntax", message: "cannot be read as YAML", line: firstLine, column: 1 };
  }
  const why = error.reason.replace(/["<][^">]*[">]/g, "…");
  const limit = error.reason.includes(TOO_MANY_KEYS)
    ? `has ${TOO_MANY_KEYS}`
    : /depth/i.test(why)
      ? "is nested too deep"
      : undefined;
  return limit
    ? { code: "yaml-limit", message: limit, ...getErrorPosition(error, firstLine) }
    : { code: "yaml-syntax", message: `is not valid YAML: ${why}`, ...getErrorPosition(error, firstLine) };
}

function getErrorPosition(error: YAMLException, firstLine: number): { line: number; column: number } {
  return { line: firstLine + (error.mark?.line ?? 0), column: (error.mark?.column ?? 0) + 1 };
}

function getIndexPosition(source: string, index: number, firstLine: number): { line: number; column: number } {
  const before = source.slice(0, index).split("\n");
  return { line: firstLine + before.length - 1, column: (before.at(-1)?.length ?? 0) + 1 };
}

/**
 * Reads the YAML of almost every skill: plain or simply quoted ASCII values, lists of them, and one level of `key: value` lines
 * below a key. Returns undefined for everything else, which the full parser then reads. Contract: the full parser returns the
 * same result (a test compares them). This parser takes a fifth of the time.
 */
export function readSimpleYaml(source: string): JsonObject | undefined {
  const data = createJsonObject();
  let key: string | undefined;
  let below: JsonObject | unknown[] | undefined;
  let indent = 0;
  let keys = 0;
  for (let start = 0; start < source.length; ) {
    let end = source.indexOf("\n", start);
    if (end === -1) end = source.length;
    const from = skipSpaces(source, start);
    const depth = from - start;
    start = end + 1;
    if (from === end && depth === 0) continue;
    if (++keys > MAX_SIMPLE_KEYS) return undefined;
    const isItem = source.charCodeAt(from) === DASH;
    const colon = isItem ? from : findKeyEnd(source, from);
    if (colon === -1) return undefined;
    const at = skipSpaces(source, colon + 1);
    const isEmpty = at >= end;
    if (!isEmpty && at === colon + 1) return undefined;
    if (depth === 0) {
      key = source.slice(from, colon);
      if (SPECIAL_SCALARS.has(key)) return undefined;
      const value = isEmpty ? null : readSimpleValue(source, at, end);
      if (isItem || value === undefined || key in data || at > end) return undefined;
      data[key] = value;
      below = undefined;
      continue;
    }
    if (key === undefined || isEmpty) return undefined;
    if (below === undefined && data[key] === null) {
      below = isItem ? [] : createJsonObject();
      data[key] = below;
      indent = depth;
    }
    if (below === undefined || depth !== indent || Array.isArray(below) !== isItem) return undefined;
    const value = isItem ? readScalar(source.slice(at, end)) : readSimpleValue(source, at, end);
    if (value === undefined) return undefined;
    if (Array.isArray(below)) below.push(value);
    else {
      const name = source.slice(from, colon);
      if (name in below || SPECIAL_SCALARS.has(name)) return undefined;
      below[name] = value;
    }
  }
  return data;
}

const MAX_SIMPLE_KEYS = 200;
const MAX_KEY_LENGTH = 60;
const SPACE = 0x20;
const DASH = 0x2d;
const COLON = 0x3a;
const HASH = 0x23;

function skipSpaces(source: string, start: number): number {
  let at = start;
  while (source.charCodeAt(at) === SPACE) at++;
  return at;
}

/** Returns the index of the colon after a plain key, or -1. */
function findKeyEnd(source: string, start: number): number {
  if (!isLetter(source.charCodeAt(start))) return -1;
  let at = start + 1;
  while (isKeyCharacter(source.charCodeAt(at))) at++;
  return source.charCodeAt(at) === COLON && at - start <= MAX_KEY_LENGTH ? at : -1;
}

function isLetter(unit: number): boolean {
  return (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a);
}

function isKeyCharacter(unit: number): boolean {
  return isLetter(unit) || (unit >= 0x30 && unit <= 0x39) || unit === DASH || unit === 0x5f;
}

function readSimpleValue(source: string, start: number, end: number): unknown {
  if (source[start] !== "[") return readScalar(source.slice(start, end));
  if (source[end - 1] !== "]" || !ASCII.test(source.slice(start, end))) return undefined;
  const items: unknown[] = [];
  for (const part of source.slice(start + 1, end - 1).split(",")) {
    const item = part.trim();
    const value = FLOW_ITEM.test(item) || QUOTED.test(item) ? readScalar(item) : undefined;
    if (value === undefined) return undefined;
    items.push(value);
  }
  return items;
}

const ASCII = /^[ -~]*$/;
const FLOW_ITEM = /^[A-Za-z][\w ./+-]*$/;
const QUOTED = /^(?:"[ !#-[\]-~]*"|'[ -&(-~]*')$/;
const WHOLE_NUMBER = /^(?:0|[1-9]\d{0,8})$/;
const VERSION_NUMBER = /^\d+\.\d+\.\d+$/;
const SPECIAL_SCALARS = new Map<string, boolean | undefined>([
  ["true", true],
  ["false", false],
  ...["null", "Null", "NULL", "True", "TRUE", "False", "FALSE"].map((word) => [word, undefined] as const),
]);

function readScalar(text: string): unknown {
  if (isLetter(text.charCodeAt(0))) {
    if (!isPlainScalar(text)) return undefined;
    return text.length <= 5 && SPECIAL_SCALARS.has(text) ? SPECIAL_SCALARS.get(text) : text;
  }
  if (QUOTED.test(text)) return text.slice(1, -1);
  if (WHOLE_NUMBER.test(text)) return Number(text);
  return VERSION_NUMBER.test(text) ? text : undefined;
}

/** Returns true for printable ASCII without `: `, ` #`, or a space or colon at its end. */
function isPlainScalar(text: string): boolean {
  let last = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < SPACE || unit > 0x7e || (unit === SPACE && last === COLON) || (unit === HASH && last === SPACE))
      return false;
    last = unit;
  }
  return last !== SPACE && last !== COLON;
}
