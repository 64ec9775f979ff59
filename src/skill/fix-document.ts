import type { FindingCode } from "../errors/finding-codes.ts";
import {
  parseMarkdownDocument,
  parseYamlDocument,
  type SkillDocument,
  type ValidationContext,
  validateSkill,
} from "./document.ts";
import { findFrontmatter, removeLeadingLines, writeYaml } from "./frontmatter.ts";
import { isKnownKey } from "./manifest.ts";
import { findNameProblem, getSeverity, STANDARD_NAME } from "./skill.ts";

export interface FixRequest extends ValidationContext {
  /** Misspelled keys that the user wants renamed. All others are only reported. */
  renamedKeys: ReadonlySet<string>;
  /** True if the file was reached through a symlink. The name of its folder is then not the name of the skill. */
  isLinked: boolean;
}

export interface FixResult {
  /** The text after all fixes; unchanged if a fix would change more than it reports. */
  text: string;
  fixed: FindingCode[];
  /** Fixes that would change other values or the instructions. */
  refused: FindingCode[];
}

/** Fixes a document without changing its meaning. Contract: after parsing again, all other values and the body are the same. */
export function fixDocument(raw: string, request: FixRequest): FixResult {
  const untouched: FixResult = { text: raw, fixed: [], refused: [] };
  if (collectCodes(raw, request).has("frontmatter-missing")) return untouched;
  const fixed: FindingCode[] = [];
  const refused: FindingCode[] = [];
  let text = raw;
  for (const { code, usesPlace = false, isWanted, apply } of FIX_RULES) {
    if ((usesPlace && request.isLinked) || isWanted?.(request) === false || !collectCodes(text, request).has(code))
      continue;
    const change = apply(text, request);
    if (!change || change.text === text) continue;
    if (isOnlyChange(text, change, request, code)) {
      text = change.text;
      fixed.push(code);
    } else refused.push(code);
  }
  return refused.length > 0 ? { ...untouched, refused } : { text, fixed, refused };
}

/** A new text, and the difference between its values and the old ones. */
interface TextChange {
  text: string;
  name?: string;
  renamed?: ReadonlyMap<string, string>;
}

interface FixRule {
  code: FindingCode;
  /** True if the fix depends on the path of the file. */
  usesPlace?: boolean;
  isWanted?: (request: FixRequest) => boolean;
  apply: (text: string, request: FixRequest) => TextChange | undefined;
}

/** One row per finding that can be fixed, in the order in which they are applied. */
const FIX_RULES: readonly FixRule[] = [
  { code: "byte-order-mark", apply: (text) => ({ text: text.replace(/^\ufeff/, "") }) },
  { code: "line-endings", apply: (text) => ({ text: text.replaceAll("\r\n", "\n") }) },
  { code: "leading-blank-lines", apply: (text) => ({ text: removeLeadingLines(text) }) },
  { code: "leading-comment", apply: (text) => ({ text: removeLeadingLines(text) }) },
  { code: "delimiter-whitespace", apply: (text) => ({ text: editFrontmatter(text, (source) => source) }) },
  {
    code: "yaml-repaired",
    apply(text, request) {
      const { repaired } = parseDocument(text, request);
      return repaired === undefined ? undefined : { text: editSource(text, request, () => repaired) };
    },
  },
  { code: "key-misspelled", isWanted: ({ renamedKeys: rename }) => rename.size > 0, apply: renameKeys },
  { code: "name-missing", usesPlace: true, apply: (text, request) => setName(text, request, insertName) },
  {
    code: "name-mismatch",
    usesPlace: true,
    isWanted: ({ profile }) => getSeverity("name-mismatch", profile) === "error",
    apply: (text, request) =>
      setName(text, request, (source, line) => source.replace(NAME_LINE, (_, value) => line + extractComment(value))),
  },
];

const NAME_LINE = /^name[ \t]*:([^\n]*)$/m;

function extractComment(value: string): string {
  const at = value.search(/[ \t]#/);
  return at === -1 ? "" : value.slice(at);
}

function renameKeys(text: string, request: FixRequest): TextChange {
  const renamed = new Map<string, string>();
  let result = text;
  for (const { code, key, meant } of validateSkill(parseDocument(text, request), request).findings) {
    // A finding inside `triggers` has the known key `triggers`.
    if (code !== "key-misspelled" || !key || !meant || isKnownKey(key) || !request.renamedKeys.has(key)) continue;
    if (!/^[\w-]+$/.test(key) || [...renamed.values()].includes(meant)) continue;
    const next = editSource(result, request, (source) =>
      source.replace(new RegExp(`^${key}(?=[ \\t]*:)`, "m"), () => meant),
    );
    if (next === result) continue;
    result = next;
    renamed.set(key, meant);
  }
  return { text: result, renamed };
}

function setName(
  text: string,
  request: FixRequest,
  change: (source: string, line: string) => string,
): TextChange | undefined {
  const { stem } = request;
  if (findNameProblem(stem) || !STANDARD_NAME.test(stem)) return undefined;
  const line = writeYaml({ name: stem }).trimEnd();
  return { text: editSource(text, request, (source) => change(source, line)), name: stem };
}

/** Inserts the line before the first key, with the same indentation. */
function insertName(source: string, line: string): string {
  const first = /^(?![ \t]*(?:#|$)|---|%)([ \t]*)/m.exec(source);
  if (!first) return `${line}\n${source}`;
  return `${source.slice(0, first.index)}${first[1]}${line}\n${source.slice(first.index)}`;
}

function editSource(text: string, context: ValidationContext, change: (source: string) => string): string {
  return context.form === "yaml" ? change(text) : editFrontmatter(text, change);
}

function editFrontmatter(text: string, change: (source: string) => string): string {
  const frame = findFrontmatter(text);
  if (!("start" in frame) || !frame.closed) return text;
  const source = change(frame.text.slice(frame.start, frame.end));
  return `---\n${source}${source.endsWith("\n") || source === "" ? "" : "\n"}---\n${frame.text.slice(frame.bodyStart)}`;
}

/** Returns true if the new text differs from the old one only in the named values. */
function isOnlyChange(
  before: string,
  { text: after, name, renamed }: TextChange,
  context: ValidationContext,
  code: FindingCode,
): boolean {
  const [was, is] = [parseDocument(before, context), parseDocument(after, context)];
  if (was.body !== is.body || (code !== "line-endings" && countCarriageReturns(before) !== countCarriageReturns(after)))
    return false;
  const expected = new Map(Object.entries(was.data).map(([key, value]) => [renamed?.get(key) ?? key, value]));
  if (name !== undefined) expected.set("name", name);
  const values = Object.entries(is.data);
  return values.length === expected.size && values.every(([key, value]) => isSameValue(value, expected.get(key)));
}

function isSameValue(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function countCarriageReturns(text: string): number {
  return text.split("\r").length;
}

function collectCodes(text: string, context: ValidationContext): ReadonlySet<FindingCode> {
  return new Set(validateSkill(parseDocument(text, context), context).findings.map(({ code }) => code));
}

function parseDocument(text: string, context: ValidationContext): SkillDocument {
  return context.form === "yaml" ? parseYamlDocument(text) : parseMarkdownDocument(text);
}
