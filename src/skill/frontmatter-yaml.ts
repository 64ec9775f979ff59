import type { Event, Schema, YAMLException } from "js-yaml";
import { createJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { countNewlines, trimBody } from "./frontmatter.ts";
import type { Finding, Skill } from "./skill.ts";
import { getYamlLibrary } from "./yaml-library.ts";

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
    const events = getYamlLibrary().parseEvents(source, YAML_LIMITS);
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
  const { DUMP_SCHEMA, dump, SCALAR_STYLE, visit } = getYamlLibrary();
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

/**
 * Quotes, line by line, the values that make YAML unreadable: an unquoted `: `, a value that starts with `@` or a bracket, an
 * unclosed quote, tabs as indentation. Returns undefined if that does not help.
 */
export function repairYaml(source: string, firstLine: number): { text: string; result: YamlResult } | undefined {
  if (countNewlines(source) > MAX_REPAIRABLE_LINES) return undefined;
  const findings: Finding[] = [];
  const lines: string[] = [];
  const blocks = splitTopLevelBlocks(source);
  const budget = { remaining: MAX_REPAIR_ATTEMPTS };
  if (blocks.length > MAX_KEYS) return undefined;
  for (const block of blocks) {
    const mended = repairBlock(block.lines, budget);
    if (budget.remaining <= 0) return undefined;
    for (const [offset, key] of mended.changed) {
      const message = `the value of "${truncateLine(key, 64)}" is not valid YAML; it was read as text`;
      findings.push({ code: "yaml-repaired", message, line: firstLine + block.start + offset, column: 1 });
    }
    lines.push(...mended.lines);
  }
  if (findings.length === 0) return undefined;
  const text = lines.join("\n");
  const result = readYaml(text, firstLine);
  if (result.findings.some((finding) => finding.code !== "yaml-duplicate")) return undefined;
  return { text, result: { data: result.data, findings: [...findings, ...result.findings] } };
}

const YAML_LIMITS = { maxDepth: 16 };
const MAX_KEYS = 256;
/** The maximum number of lines that are tried one by one: a text with more errors was not intended as YAML. */
const MAX_REPAIR_ATTEMPTS = 400;
/** No handwritten frontmatter is longer, and the search for the error takes as long as parsing. */
const MAX_REPAIRABLE_LINES = 4000;
const TOO_MANY_KEYS = `more than ${MAX_KEYS} keys in one place`;

/** Created on demand: most starts read no YAML that needs it. */
let cachedSchema: Schema | undefined;

function getYamlSchema(): Schema {
  const { CORE_SCHEMA, defineMappingTag, defineScalarTag, floatCoreTag, intCoreTag, NOT_RESOLVED } = getYamlLibrary();
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
  const { constructFromEvents } = getYamlLibrary();
  try {
    return constructFromEvents(events, { source, schema: getYamlSchema(), maxAliases: 0 });
  } catch (error) {
    if (!isYamlError(error) || !error.reason.includes("duplicated mapping key")) throw error;
    findings.push({ code: "yaml-duplicate", message: "a key occurs twice", ...getErrorPosition(error, firstLine) });
    return constructFromEvents(events, { source, schema: getYamlSchema(), maxAliases: 0, json: true });
  }
}

function isYamlError(error: unknown): error is YAMLException {
  return error instanceof getYamlLibrary().YAMLException;
}

function findRefusedEvent(events: Event[], source: string, firstLine: number): Finding | undefined {
  const { EVENT_ID } = getYamlLibrary();
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

interface KeyBlock {
  start: number;
  lines: string[];
}

/** Returns the lines of each top-level key. Comments between two keys belong to neither. */
function splitTopLevelBlocks(source: string): KeyBlock[] {
  const blocks: KeyBlock[] = [];
  for (const [index, line] of source.split("\n").entries()) {
    const last = blocks.at(-1);
    if (last && !KEY_LINE.test(line)) {
      last.lines.push(line);
      continue;
    }
    const own = (last?.lines.findLastIndex((one) => !one.startsWith("#")) ?? 0) + 1;
    const comments = own > 0 ? (last?.lines.splice(own) ?? []) : [];
    if (comments.length > 0) blocks.push({ start: index - comments.length, lines: comments });
    blocks.push({ start: index, lines: [line] });
  }
  return blocks;
}

const KEY_LINE = /^["']?[A-Za-z_$][\w.$-]*["']?:/;
const FIRST_LINE = /^(["']?[A-Za-z_$][\w.$-]*["']?):[ \t]*(.*)$/;
const NESTED_LINE = /^([ \t]+(?:- +)?(["']?[\w.$-]+["']?):[ \t]+|[ \t]*- +)(.*)$/;

interface RepairedBlock {
  lines: string[];
  /** The offset of each changed line, and its key. */
  changed: [number, string][];
}

function repairBlock(lines: string[], budget: { remaining: number }): RepairedBlock {
  const [first = "", ...rest] = lines;
  const parts = FIRST_LINE.exec(first);
  budget.remaining--;
  if (!parts || isValidYaml(lines.join("\n"))) return { lines, changed: [] };
  const [, key = "", value = ""] = parts;
  if (value !== "" && !/^[|>]/.test(value)) {
    if (rest.some((line) => /^\S/.test(line))) return { lines, changed: [] };
    const blank = lines.length - lines.findLastIndex((line) => line.trim() !== "") - 1;
    const folded = [value, ...rest.map((line) => line.trim()).filter(Boolean)].join(" ");
    return { lines: [`${key}: ${quoteYamlValue(folded)}`, ...Array(blank).fill("")], changed: [[0, key]] };
  }
  const changed: [number, string][] = [];
  budget.remaining -= rest.length;
  if (budget.remaining <= 0) return { lines, changed };
  const mended = rest.map((line, index) => {
    const spaced = line.replace(/^\t+/, (tabs) => "  ".repeat(tabs.length));
    const nested = NESTED_LINE.exec(spaced);
    const [, lead = "", , text = ""] = nested ?? [];
    const quoted = nested && !isValidYaml(`x: ${text}`) && !/^[|>&]/.test(text) ? lead + quoteYamlValue(text) : spaced;
    if (quoted !== line) changed.push([index + 1, key]);
    return quoted;
  });
  return { lines: [first, ...mended], changed };
}

/** Only syntax errors are repaired: YAML that exceeds a limit or uses an alias remains rejected. */
function isValidYaml(text: string): boolean {
  return !readYaml(text, 1).findings.some(
    (finding) => finding.code === "yaml-syntax" || finding.code === "frontmatter-type",
  );
}

/** Returns a value as quoted text. A comment after it is kept: the author may have intended it as text. */
function quoteYamlValue(value: string): string {
  const at = value.search(/[ \t]#/);
  const text = (at === -1 ? value : value.slice(0, at)).trim();
  const comment = at === -1 ? "" : value.slice(at).trimEnd();
  const mark = text[0];
  if (mark !== '"' && mark !== "'") return JSON.stringify(text) + comment;
  const inner = text.slice(1);
  const meant = inner.endsWith(mark) ? inner.slice(0, -1) : inner.includes(mark) ? text : inner;
  return JSON.stringify(meant) + comment;
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
