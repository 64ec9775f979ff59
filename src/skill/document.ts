import type { FindingCode } from "../errors/finding-codes.ts";
import { collectStrings, createJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";
import { escapeCodePoint, findInvisible } from "../util/untrusted-text.ts";
import {
  countNewlines,
  type Frontmatter,
  findFrontmatter,
  findPosition,
  MAX_KEYS,
  normalizeLineEnds,
  readYaml,
  type SkillForm,
  trimBody,
  type YamlResult,
} from "./frontmatter.ts";
import { isKnownKey, type ReportProblem, readManifestValues } from "./manifest.ts";
import {
  type Finding,
  findNameProblem,
  getSeverity,
  hasFatalFindings,
  isWindowsDeviceName,
  type Position,
  type Profile,
  STANDARD_NAME,
} from "./skill.ts";
import { validateTriggers } from "./triggers.ts";

/** The two parts of a SKILL.md. */
export interface ParsedSkillMd {
  /** The frontmatter as written; empty if the text has none that is readable. */
  frontmatter: JsonObject;
  /** The instructions. The whole text, unchanged, if it has no frontmatter. */
  body: string;
  /** Repairs that were needed, and errors. */
  findings: readonly Finding[];
}

/** Splits the text of a SKILL.md into frontmatter and instructions, as discovery does. Never throws. */
export function parseSkillMd(text: string): ParsedSkillMd {
  const { data, body, findings } = parseMarkdownDocument(text);
  const hasFrame = !findings.some(({ code }) => NO_FRONTMATTER_CODES.has(code));
  return { frontmatter: data, body: hasFrame ? trimBody(body) : text, findings };
}

const NO_FRONTMATTER_CODES: ReadonlySet<string> = new Set([
  "frontmatter-missing",
  "frontmatter-language",
  "frontmatter-unclosed",
]);

/** The parsed text of a skill file. It contains everything that was readable, even if a finding makes the file unusable. */
export interface SkillDocument {
  /** The frontmatter as data, with null-prototype objects; empty if the file has none. */
  readonly data: JsonObject;
  readonly body: string;
  /** The line of the file on which `body` starts. */
  readonly bodyLine: number;
  readonly findings: Finding[];
  /** The repaired frontmatter, if it needed repairs. */
  readonly repaired?: string | undefined;
  /** Returns the position of a top-level key. */
  locate(key: string): Position | undefined;
}

const MAX_FRONTMATTER_BYTES = 64 * 1024;

/** Parses a Markdown skill file. */
export function parseMarkdownDocument(raw: string): SkillDocument {
  const frame = findFrontmatter(raw);
  if (!("start" in frame)) {
    return { data: createJsonObject(), body: frame.text, bodyLine: 1, findings: frame.findings, locate: locateNothing };
  }
  return parseFrontmatterDocument(frame);
}

export function parseFrontmatterDocument(frame: Frontmatter): SkillDocument {
  const findings = frame.findings;
  if (!frame.closed) {
    findings.push({
      code: "frontmatter-unclosed",
      message: "the frontmatter has no closing ---",
      line: frame.firstLine - 1,
      column: 1,
    });
    return { data: createJsonObject(), body: "", bodyLine: frame.firstLine, findings, locate: locateNothing };
  }
  const source = frame.text.slice(frame.start, frame.end);
  const { data, locate, repaired } = parseYamlSource(source, frame.firstLine, findings);
  const bodyLine = frame.firstLine + countNewlines(source) + 1;
  return { data, body: frame.text.slice(frame.bodyStart), bodyLine, findings, repaired, locate };
}

/** Parses a YAML skill file: the body is the value of `instructions`. */
export function parseYamlDocument(raw: string): SkillDocument {
  const findings: Finding[] = [];
  const text = normalizeLineEnds(raw, findings);
  const parsed = parseYamlSource(text, 1, findings, "values");
  const { instructions } = parsed.data;
  const bodyLine = (parsed.locate("instructions")?.line ?? 1) + 1;
  return { ...parsed, body: typeof instructions === "string" ? instructions : "", bodyLine };
}

/** Contract: hidden characters are searched in `text`, or only in the `values` if the text also contains the body. */
function parseYamlSource(
  source: string,
  firstLine: number,
  findings: Finding[],
  look: "text" | "values" = "text",
): Omit<SkillDocument, "body" | "bodyLine"> {
  const locate = (key: string) => locateKey(source, firstLine, key);
  if (source.length * 3 > MAX_FRONTMATTER_BYTES && Buffer.byteLength(source) > MAX_FRONTMATTER_BYTES) {
    findings.push({ code: "frontmatter-too-large", message: "is larger than 64 KiB", line: firstLine, column: 1 });
    return { data: createJsonObject(), findings, locate };
  }
  for (const hidden of look === "text" ? findInvisible(source).slice(0, MAX_HIDDEN_FINDINGS) : []) {
    findings.push(createHiddenFinding(hidden.kind, hidden.codePoint, findPosition(source, hidden.index, firstLine)));
  }
  if (findings.some((finding) => finding.code === "control-character"))
    return { data: createJsonObject(), findings, locate };
  let result: YamlResult = readYaml(source, firstLine);
  let repairedText: string | undefined;
  if (result.findings.some((finding) => finding.code === "yaml-syntax")) {
    const repaired = repairYaml(source, firstLine);
    if (repaired) {
      result = repaired.result;
      repairedText = repaired.text;
    }
  }
  for (const finding of result.findings) findings.push(finding);
  if (look === "values" || source.includes("\\")) findings.push(...findHiddenInValues(result.data, locate));
  const cut = source.includes(" #") ? CUT_DESCRIPTION.exec(source) : null;
  if (cut) {
    const message = "the description ends at a #, which starts a comment";
    findings.push({
      code: "value-truncated",
      message,
      ...findPosition(source, cut.index + cut[0].length - 1, firstLine),
    });
  }
  return { data: result.data, findings, locate, repaired: repairedText };
}

const CUT_DESCRIPTION = /^description:[ \t]+[^"'|>\s#][^\n]*? #/m;
const MAX_HIDDEN_FINDINGS = 20;

/** Escapes such as "\u202e" create hidden characters that the source text does not show. */
function findHiddenInValues(data: JsonObject, locate: SkillDocument["locate"]): Finding[] {
  const findings: Finding[] = [];
  for (const [key, value] of Object.entries(data)) {
    if (key === "instructions") continue;
    for (const text of [key, ...collectStrings(value)]) {
      const [hidden] = findInvisible(text);
      if (!hidden) continue;
      findings.push(createHiddenFinding(hidden.kind, hidden.codePoint, locate(key) ?? { line: 1, column: 1 }));
      break;
    }
  }
  return findings;
}

function createHiddenFinding(kind: "control" | "hidden", codePoint: number, position: Position): Finding {
  return kind === "control"
    ? {
        code: "control-character",
        message: `contains the control character ${escapeCodePoint(codePoint)}`,
        ...position,
      }
    : { code: "hidden-text", message: `contains the hidden character ${escapeCodePoint(codePoint)}`, ...position };
}

/** Returns the position of a line that starts with `key:`, `"key":` or `'key':`. */
function locateKey(source: string, firstLine: number, key: string): Position | undefined {
  let line = firstLine;
  for (let start = 0; start < source.length; line++) {
    const end = source.indexOf("\n", start);
    const mark = source[start] === '"' || source[start] === "'" ? source[start] : "";
    const written = `${mark}${key}${mark}`;
    if (
      source.startsWith(written, start) &&
      /^[ \t]*:/.test(source.slice(start + written.length, start + written.length + 9))
    ) {
      return { line, column: 1 };
    }
    if (end === -1) return undefined;
    start = end + 1;
  }
  return undefined;
}

function locateNothing(): undefined {}

export interface ValidationContext {
  form: SkillForm;
  /** The name of the folder, or of the file without its extension. */
  stem: string;
  profile: Profile;
}

interface ValidatedSkill {
  name: string;
  description: string;
  data: JsonObject;
  findings: Finding[];
  /** False if a finding is an error in the profile: the text is then not a skill. */
  isUsable: boolean;
}

/** Validates a document as a skill. Reports only findings that have a severity in the profile. */
export function validateSkill(document: SkillDocument, context: ValidationContext): ValidatedSkill {
  const { data } = document;
  const findings = document.findings.filter((finding) => getSeverity(finding.code, context.profile));
  let last = "";
  const report: ReportProblem = (code, key, message, meant) => {
    // One finding is enough for a list of ten thousand.
    if (!getSeverity(code, context.profile) || last === `${code} ${key}`) return;
    last = `${code} ${key}`;
    const rename = isKnownKey(key) ? "" : ` \`--fix --rename ${truncateLine(key, 64)}\` renames it`;
    const hint = meant ? { meant, fix: `did you mean "${meant}"?${rename}` } : {};
    findings.push({ code, message, key: truncateLine(key, 64), ...document.locate(key), ...hint });
  };
  if (hasFatalFindings(findings, context.profile) && isEmptyObject(data)) {
    return { name: context.stem, description: "", data, findings, isUsable: false };
  }
  const values = readManifestValues(data, report);
  if (values.triggers || values.paths) validateTriggers(data, values.triggers, values.paths ?? [], report);
  const name = readName(data["name"], context, report);
  const description = values.description ?? "";
  if (description === "") report("description-missing", "description", "has no description");
  if (!/\S/.test(document.body)) {
    report(
      "body-missing",
      "instructions",
      context.form === "yaml" ? 'has no text under "instructions"' : "has no instructions",
    );
  }
  if (getSeverity("version-missing", context.profile)) {
    if (getMetadataValue(data, "version") === undefined)
      report("version-missing", "metadata", "has no metadata.version");
    if (!Array.isArray(getMetadataValue(data, "tags"))) report("tags-missing", "metadata", "has no list metadata.tags");
  }
  return { name, description, data, findings, isUsable: !hasFatalFindings(findings, context.profile) };
}

function readName(value: unknown, context: ValidationContext, report: ReportProblem): string {
  const written = readWrittenName(value, report);
  const problem = written === undefined ? undefined : findNameProblem(written);
  if (written !== undefined && !problem) {
    validateName(written, context, report);
    return written;
  }
  const [shown, stem] = [truncateLine(written ?? "", 64), truncateLine(context.stem, 64)];
  const fallback = findNameProblem(context.stem);
  const use = fallback ? "" : `; "${stem}" is used instead`;
  if (problem) report(problem.code, "name", `the name "${shown}" ${problem.why}${use}`);
  if (fallback) report("no-valid-name", "name", `"${stem}" ${fallback.why} and cannot be used as a name`);
  else validateName(context.stem, context, report);
  return context.stem;
}

function readWrittenName(value: unknown, report: ReportProblem): string | undefined {
  if (typeof value === "string") return value.trim();
  const type = value === null ? "null" : Array.isArray(value) ? "a list" : typeof value;
  if (value === undefined) report("name-missing", "name", "has no name");
  else if (typeof value === "number") {
    report("name-type", "name", "the name is a number; quote it");
    return String(value);
  } else report("name-type", "name", `the name is ${type}, not text`);
  return undefined;
}

function validateName(name: string, context: ValidationContext, report: ReportProblem): void {
  const say = (code: FindingCode, message: string) => report(code, "name", message);
  if (!STANDARD_NAME.test(name)) say("name-format", `"${name}" is not lower-case letters, digits and single hyphens`);
  if (isWindowsDeviceName(name)) say("name-device", `"${name}" is a device name on Windows`);
  if (/claude|anthropic/i.test(name)) say("name-vendor", `"${name}" contains a vendor's name`);
  if (name !== context.stem && context.form === "folder") {
    say("name-mismatch", `the name is "${name}", but the folder is "${truncateLine(context.stem, 64)}"`);
  }
}

function getMetadataValue(data: JsonObject, key: string): unknown {
  const { metadata } = data;
  return metadata !== null && typeof metadata === "object" ? (metadata as JsonObject)[key] : undefined;
}

function isEmptyObject(data: JsonObject): boolean {
  for (const _ in data) return false;
  return true;
}

/**
 * Quotes, line by line, the values that make YAML unreadable: an unquoted `: `, a value that starts with `@` or a bracket, an
 * unclosed quote, tabs as indentation. Returns undefined if that does not help.
 */
function repairYaml(source: string, firstLine: number): { text: string; result: YamlResult } | undefined {
  if (countNewlines(source) > MAX_REPAIRABLE_LINES) return undefined;
  const findings: Finding[] = [];
  const lines: string[] = [];
  const blocks = splitTopLevelBlocks(source);
  const budget = { remaining: MAX_REPAIR_ATTEMPTS };
  if (blocks.length > MAX_KEYS) return undefined;
  for (const block of blocks) {
    const repaired = repairBlock(block.lines, budget);
    if (budget.remaining <= 0) return undefined;
    for (const [offset, key] of repaired.changed) {
      const message = `the value of "${truncateLine(key, 64)}" is not valid YAML; it was read as text`;
      findings.push({ code: "yaml-repaired", message, line: firstLine + block.start + offset, column: 1 });
    }
    lines.push(...repaired.lines);
  }
  if (findings.length === 0) return undefined;
  const text = lines.join("\n");
  const result = readYaml(text, firstLine);
  if (result.findings.some((finding) => finding.code !== "yaml-duplicate")) return undefined;
  return { text, result: { data: result.data, findings: [...findings, ...result.findings] } };
}

/** The maximum number of lines that are tried one by one: a text with more errors was not intended as YAML. */
const MAX_REPAIR_ATTEMPTS = 400;

/** No handwritten frontmatter is longer, and the search for the error takes as long as parsing. */
const MAX_REPAIRABLE_LINES = 4000;

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
  const repaired = rest.map((line, index) => {
    const spaced = line.replace(/^\t+/, (tabs) => "  ".repeat(tabs.length));
    const nested = NESTED_LINE.exec(spaced);
    const [, lead = "", , text = ""] = nested ?? [];
    const quoted = nested && !isValidYaml(`x: ${text}`) && !/^[|>&]/.test(text) ? lead + quoteYamlValue(text) : spaced;
    if (quoted !== line) changed.push([index + 1, key]);
    return quoted;
  });
  return { lines: [first, ...repaired], changed };
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
