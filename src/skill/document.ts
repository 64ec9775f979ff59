import { findHidden, spell } from "../shared/hidden.ts";
import { type Data, emptyData, stringsIn } from "./data.ts";
import type { Finding, Position } from "./diagnostic.ts";
import { type Frame, findFrame, newlines, plainText, positionAt } from "./frame.ts";
import { mend, type ReadYaml, readYaml } from "./yaml.ts";

/** The text of a skill file, taken apart. What could be read is here even where a finding says that it must not be used. */
export interface Document {
  /** The frontmatter as data, with null-prototype objects; empty when there is none. */
  readonly data: Data;
  readonly body: string;
  /** The line of the file on which `body` starts. */
  readonly bodyLine: number;
  readonly findings: Finding[];
  /** The frontmatter with its repairs written out, when it needed any. */
  readonly mended?: string | undefined;
  /** Where a top-level key stands. */
  locate(key: string): Position | undefined;
}

const FRONTMATTER_LIMIT = 64 * 1024;

/** Takes a Markdown skill file apart. */
export function parseMarkdown(raw: string): Document {
  const frame = findFrame(raw);
  if (!("start" in frame)) {
    return { data: emptyData(), body: frame.text, bodyLine: 1, findings: frame.findings, locate: nowhere };
  }
  return parseFrame(frame);
}

export function parseFrame(frame: Frame): Document {
  const findings = frame.findings;
  if (!frame.closed) {
    findings.push({
      code: "frontmatter-unclosed",
      message: "the frontmatter has no closing ---",
      line: frame.firstLine - 1,
      column: 1,
    });
    return { data: emptyData(), body: "", bodyLine: frame.firstLine, findings, locate: nowhere };
  }
  const source = frame.text.slice(frame.start, frame.end);
  const { data, locate, mended } = parseSource(source, frame.firstLine, findings);
  const bodyLine = frame.firstLine + newlines(source) + 1;
  return { data, body: frame.text.slice(frame.bodyStart), bodyLine, findings, mended, locate };
}

/** Takes a YAML skill file apart: the body stands under `instructions`. */
export function parseYaml(raw: string): Document {
  const findings: Finding[] = [];
  const text = plainText(raw, findings);
  const parsed = parseSource(text, 1, findings, "values");
  const { instructions } = parsed.data;
  const bodyLine = (parsed.locate("instructions")?.line ?? 1) + 1;
  return { ...parsed, body: typeof instructions === "string" ? instructions : "", bodyLine };
}

/** Contract: hidden characters are looked for in the `text`, or in the `values` alone where the text holds the body too. */
function parseSource(
  source: string,
  firstLine: number,
  findings: Finding[],
  look: "text" | "values" = "text",
): Omit<Document, "body" | "bodyLine"> {
  const locate = (key: string) => locateKey(source, firstLine, key);
  if (source.length * 3 > FRONTMATTER_LIMIT && Buffer.byteLength(source) > FRONTMATTER_LIMIT) {
    findings.push({ code: "frontmatter-too-large", message: "is larger than 64 KiB", line: firstLine, column: 1 });
    return { data: emptyData(), findings, locate };
  }
  for (const hidden of look === "text" ? findHidden(source).slice(0, MOST_HIDDEN) : []) {
    findings.push(hiddenFinding(hidden.kind, hidden.codePoint, positionAt(source, hidden.index, firstLine)));
  }
  if (findings.some((finding) => finding.code === "control-character")) return { data: emptyData(), findings, locate };
  let result: ReadYaml = readYaml(source, firstLine);
  let mended: string | undefined;
  if (result.findings.some((finding) => finding.code === "yaml-syntax")) {
    const repaired = mend(source, firstLine);
    if (repaired) {
      result = repaired.result;
      mended = repaired.text;
    }
  }
  for (const finding of result.findings) findings.push(finding);
  if (look === "values" || source.includes("\\")) findings.push(...hiddenInValues(result.data, locate));
  const cut = source.includes(" #") ? CUT_DESCRIPTION.exec(source) : null;
  if (cut) {
    const message = "the description ends at a # that starts a comment";
    findings.push({ code: "value-cut", message, ...positionAt(source, cut.index + cut[0].length - 1, firstLine) });
  }
  return { data: result.data, findings, locate, mended };
}

const CUT_DESCRIPTION = /^description:[ \t]+[^"'|>\s#][^\n]*? #/m;
const MOST_HIDDEN = 20;

/** Escapes such as "\u202e" make hidden characters that the source text does not show. */
function hiddenInValues(data: Data, locate: Document["locate"]): Finding[] {
  const findings: Finding[] = [];
  for (const [key, value] of Object.entries(data)) {
    if (key === "instructions") continue;
    for (const text of [key, ...stringsIn(value)]) {
      const [hidden] = findHidden(text);
      if (!hidden) continue;
      findings.push(hiddenFinding(hidden.kind, hidden.codePoint, locate(key) ?? { line: 1, column: 1 }));
      break;
    }
  }
  return findings;
}

function hiddenFinding(kind: "control" | "hidden", codePoint: number, position: Position): Finding {
  return kind === "control"
    ? { code: "control-character", message: `holds the control character ${spell(codePoint)}`, ...position }
    : { code: "hidden-text", message: `holds the hidden character ${spell(codePoint)}`, ...position };
}

/** Where a line starts with `key:`, `"key":` or `'key':`. */
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

function nowhere(): undefined {}
