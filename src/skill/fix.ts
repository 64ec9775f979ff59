import type { Code } from "../codes/findings.ts";
import { severityOf } from "./diagnostic.ts";
import { type Document, parseMarkdown, parseYaml } from "./document.ts";
import { findFrame, withoutLeadingLines } from "./frame.ts";
import { isKnownKey } from "./manifest.ts";
import { STANDARD_NAME, unusableName } from "./name.ts";
import type { Place } from "./read.ts";
import { readSkill } from "./read.ts";
import { writeYaml } from "./yaml.ts";

export interface FixRequest extends Place {
  /** Misspelled keys that the user wants renamed. All others are only reported. */
  rename: ReadonlySet<string>;
  /** Whether the file was reached through a link. Its folder's name is then not the name of the skill. */
  isLinked: boolean;
}

export interface Fixed {
  /** The text after all fixes; the same as before if a fix would change more than it reports. */
  text: string;
  fixed: Code[];
  /** Fixes that would change other values or the instructions. */
  refused: Code[];
}

/** Fixes what can be fixed without changing what the skill says. Contract: parsed again, all other values and the body are the same. */
export function fixDocument(raw: string, request: FixRequest): Fixed {
  const untouched: Fixed = { text: raw, fixed: [], refused: [] };
  if (codesIn(raw, request).has("frontmatter-missing")) return untouched;
  const fixed: Code[] = [];
  const refused: Code[] = [];
  let text = raw;
  for (const { code, usesPlace = false, isWanted, apply } of FIXES) {
    if ((usesPlace && request.isLinked) || isWanted?.(request) === false || !codesIn(text, request).has(code)) continue;
    const change = apply(text, request);
    if (!change || change.text === text) continue;
    if (changesOnly(text, change, request, code)) {
      text = change.text;
      fixed.push(code);
    } else refused.push(code);
  }
  return refused.length > 0 ? { ...untouched, refused } : { text, fixed, refused };
}

/** A new text, and how its values differ from those of the old one. */
interface Change {
  text: string;
  name?: string;
  renamed?: ReadonlyMap<string, string>;
}

interface Fix {
  code: Code;
  /** Whether the fix depends on where the file is. */
  usesPlace?: boolean;
  isWanted?: (request: FixRequest) => boolean;
  apply: (text: string, request: FixRequest) => Change | undefined;
}

/** One row per finding that can be fixed, in the order in which they are applied. */
const FIXES: readonly Fix[] = [
  { code: "byte-order-mark", apply: (text) => ({ text: text.replace(/^\ufeff/, "") }) },
  { code: "line-ends", apply: (text) => ({ text: text.replaceAll("\r\n", "\n") }) },
  { code: "leading-blank", apply: (text) => ({ text: withoutLeadingLines(text) }) },
  { code: "leading-comment", apply: (text) => ({ text: withoutLeadingLines(text) }) },
  { code: "delimiter-blanks", apply: (text) => ({ text: withFrontmatter(text, (source) => source) }) },
  {
    code: "yaml-repaired",
    apply(text, request) {
      const { mended } = parse(text, request);
      return mended === undefined ? undefined : { text: inSource(text, request, () => mended) };
    },
  },
  { code: "key-misspelled", isWanted: ({ rename }) => rename.size > 0, apply: renameKeys },
  { code: "name-missing", usesPlace: true, apply: (text, request) => setName(text, request, insertName) },
  {
    code: "name-differs",
    usesPlace: true,
    isWanted: ({ profile }) => severityOf("name-differs", profile) === "error",
    apply: (text, request) =>
      setName(text, request, (source, line) => source.replace(NAME_LINE, (_, value) => line + commentIn(value))),
  },
];

const NAME_LINE = /^name[ \t]*:([^\n]*)$/m;

function commentIn(value: string): string {
  const at = value.search(/[ \t]#/);
  return at === -1 ? "" : value.slice(at);
}

function renameKeys(text: string, request: FixRequest): Change {
  const renamed = new Map<string, string>();
  let result = text;
  for (const { code, key, meant } of readSkill(parse(text, request), request).findings) {
    // A finding inside `triggers` has the known key `triggers`.
    if (code !== "key-misspelled" || !key || !meant || isKnownKey(key) || !request.rename.has(key)) continue;
    if (!/^[\w-]+$/.test(key) || [...renamed.values()].includes(meant)) continue;
    const next = inSource(result, request, (source) =>
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
): Change | undefined {
  const { stem } = request;
  if (unusableName(stem) || !STANDARD_NAME.test(stem)) return undefined;
  const line = writeYaml({ name: stem }).trimEnd();
  return { text: inSource(text, request, (source) => change(source, line)), name: stem };
}

/** Puts the line before the first key, indented as that is. */
function insertName(source: string, line: string): string {
  const first = /^(?![ \t]*(?:#|$)|---|%)([ \t]*)/m.exec(source);
  if (!first) return `${line}\n${source}`;
  return `${source.slice(0, first.index)}${first[1]}${line}\n${source.slice(first.index)}`;
}

function inSource(text: string, place: Place, change: (source: string) => string): string {
  return place.form === "yaml" ? change(text) : withFrontmatter(text, change);
}

function withFrontmatter(text: string, change: (source: string) => string): string {
  const frame = findFrame(text);
  if (!("start" in frame) || !frame.closed) return text;
  const source = change(frame.text.slice(frame.start, frame.end));
  return `---\n${source}${source.endsWith("\n") || source === "" ? "" : "\n"}---\n${frame.text.slice(frame.bodyStart)}`;
}

/** Whether the new text differs from the old one in nothing but what the change names. */
function changesOnly(before: string, { text: after, name, renamed }: Change, place: Place, code: Code): boolean {
  const [was, is] = [parse(before, place), parse(after, place)];
  if (was.body !== is.body || (code !== "line-ends" && returns(before) !== returns(after))) return false;
  const expected = new Map(Object.entries(was.data).map(([key, value]) => [renamed?.get(key) ?? key, value]));
  if (name !== undefined) expected.set("name", name);
  const values = Object.entries(is.data);
  return values.length === expected.size && values.every(([key, value]) => isSame(value, expected.get(key)));
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function returns(text: string): number {
  return text.split("\r").length;
}

function codesIn(text: string, place: Place): ReadonlySet<Code> {
  return new Set(readSkill(parse(text, place), place).findings.map(({ code }) => code));
}

function parse(text: string, place: Place): Document {
  return place.form === "yaml" ? parseYaml(text) : parseMarkdown(text);
}
