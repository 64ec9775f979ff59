import type { Finding, Position } from "./skill.ts";

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
