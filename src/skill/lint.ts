import type { Code } from "../codes/findings.ts";
import { findHidden, spell } from "../shared/hidden.ts";
import { estimateTokens, nearest, oneLine } from "../shared/text.ts";
import { type Finding, type Profile, severityOf } from "./diagnostic.ts";
import type { Document } from "./document.ts";
import { positionAt, trimBody } from "./frame.ts";
import type { Manifest } from "./manifest.ts";
import { plainPath } from "./script.ts";
import { isKnownTool, TOOL_NAMES, toolNameOf } from "./tool-names.ts";
import { findToolsetFile, parseToolsetRef } from "./toolset-ref.ts";

export interface LintSubject {
  document: Document;
  manifest: Manifest;
  /** The paths beside SKILL.md; absent where there is no folder to look in. */
  files?: readonly string[];
}

interface Line {
  text: string;
  number: number;
  isCode: boolean;
}
type Rule = (subject: LintSubject, lines: readonly Line[]) => Iterable<Omit<Finding, "code">>;

/** One row a rule. Codes, severities and ways to mend them stand in the one table of codes. */
export const RULES: { readonly [Key in Code]?: Rule } = {
  "hidden-text-body": function* ({ document }) {
    for (const { index, codePoint } of findHidden(document.body)) {
      const position = positionAt(document.body, index, document.bodyLine);
      yield { message: `the instructions hold the hidden character ${spell(codePoint)}`, ...position };
    }
  },
  "dead-link": function* ({ files }, lines) {
    if (!files) return;
    const there = new Set(files.flatMap(withFolders));
    for (const line of lines) {
      if (line.isCode) continue;
      for (const match of withoutInlineCode(line.text).matchAll(LINK)) {
        const target = localTarget(match[1] ?? match[2] ?? "");
        if (target === undefined || there.has(target)) continue;
        yield {
          message: `the link to "${oneLine(target, 120)}" leads nowhere`,
          line: line.number,
          column: match.index + 1,
        };
      }
    }
  },
  "script-missing": function* ({ files, manifest }) {
    for (const { path } of files ? manifest.scripts : []) {
      if (!files?.includes(plainPath(path)))
        yield { message: `the script "${oneLine(path, 120)}" is not in the skill's folder` };
    }
  },
  "toolset-missing": function* ({ files, manifest, document }) {
    for (const written of files ? manifest.toolsets : []) {
      const ref = parseToolsetRef(written);
      if ("problem" in ref || findToolsetFile(ref, (path) => files?.includes(path) ?? false) !== undefined) continue;
      yield {
        message: `the toolset "${oneLine(written, 120)}" is not in the skill's folder`,
        ...document.locate("toolsets"),
      };
    }
  },
  tab: function* (_, lines) {
    const line = lines.find(({ text, isCode }) => !isCode && /^ *\t/.test(text));
    if (line) yield { message: "indented with a tab", line: line.number, column: 1 };
  },
  "long-line": function* (_, lines) {
    for (const { text, number, isCode } of lines) {
      if (!isCode && text.length > 500) yield { message: `${text.length} characters`, line: number, column: 501 };
    }
  },
  "open-task": function* (_, lines) {
    for (const { text, number, isCode } of lines) {
      const prose = isCode ? "" : withoutInlineCode(text);
      const match = TASK_FIRST.exec(prose) ?? TASK_MARKED.exec(prose);
      if (match) yield { message: "holds a task that is still open", line: number, column: match.index + 1 };
    }
  },
  "no-cue": function* ({ document, manifest }) {
    const { whenToUse, triggers, description } = manifest;
    if (
      description === "" ||
      whenToUse ||
      triggers.keywords.length + triggers.verbs.length + triggers.patterns.length > 0
    )
      return;
    if (!CUE.test(description))
      yield { message: "the description does not say when to use the skill", ...document.locate("description") };
  },
  "body-long": function* ({ document }) {
    const body = trimBody(document.body);
    const [lines, tokens] = [body.split("\n").length, estimateTokens(body)];
    if (lines > 500 || tokens > 5000) {
      yield { message: `${lines} lines, ~${tokens} tokens`, line: document.bodyLine, column: 1 };
    }
  },
  "absolute-path": function* (_, lines) {
    for (const { text, number } of lines) {
      const match = ABSOLUTE.exec(text);
      if (match)
        yield {
          message: `names "${oneLine(match[1] ?? "", 80)}"`,
          line: number,
          column: match.index + match[0].indexOf(match[1] ?? "") + 1,
        };
    }
  },
  "tool-unknown": function* ({ document, manifest }) {
    const { required, allowed, preapproved, disallowed } = manifest.tools;
    for (const [key, entries] of Object.entries({
      required_tools: required,
      allowed_tools: allowed,
      "allowed-tools": preapproved,
      "disallowed-tools": disallowed,
    })) {
      for (const entry of entries.filter((entry) => !isKnownTool(entry))) {
        const meant = nearest(toolNameOf(entry), TOOL_NAMES);
        const fix = meant ? { fix: `did you mean "${meant}"?` } : {};
        yield {
          message: `"${key}" names the tool "${oneLine(toolNameOf(entry), 64)}", which no client has`,
          ...document.locate(key),
          ...fix,
        };
      }
    }
  },
};

export function lint(subject: LintSubject, profile: Profile): Finding[] {
  const lines = bodyLines(subject.document);
  const findings: Finding[] = [];
  for (const [code, rule] of Object.entries(RULES) as [Code, Rule][]) {
    if (!severityOf(code, profile)) continue;
    let said = 0;
    for (const finding of rule(subject, lines)) {
      findings.push({ code, ...finding });
      if (++said === MOST_OF_A_KIND) break;
    }
  }
  return findings;
}

/** Twenty of a kind are enough to mend a file by. */
const MOST_OF_A_KIND = 20;

// Every repetition is bounded: a megabyte of brackets or backticks must not take longer than any other megabyte.
const LINK = /\[[^\]\n]{0,300}\]\((?:<([^>\n]{1,300})>|([^()\s]{1,300}))(?:\s{1,9}["'(][^\n]{0,300}?["')])?\)/g;
const INLINE_CODE = /`[^`\n]{1,300}`/g;
/** A task at the start of a line or an item, or one that is marked as such elsewhere; prose about TODO comments is neither. */
const TASK_FIRST = /^[ \t>*+#-]{0,20}(?:\d{1,3}[.)] )?(?:\[[ x]?\] ?)?(?:TODO|FIXME|TBD)\b/;
const TASK_MARKED = /[\s>*[(-](?:TODO|FIXME|TBD)(?=[:\])(]|\s*$)/;
const CUE =
  /\b(?:use (?:this|it|when|for|if|to|after|before|whenever)|when(?:ever)?|trigger|invoke|if (?:the )?user|asks?)\b/i;
const ABSOLUTE =
  /(?:^|[\s"'`(=:])((?:\/(?:Users|home)\/[^\s"'`)/]+|[A-Za-z]:\\+(?:Users|Documents)[^\s"'`)]*)[^\s"'`)]*)/;

function bodyLines(document: Document): Line[] {
  const lines: Line[] = [];
  let fence: string | undefined;
  for (const [index, text] of document.body.split("\n").entries()) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(text)?.[1];
    const isCode = fence !== undefined || mark !== undefined;
    if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence) && text.trim() === mark) fence = undefined;
    lines.push({ text, number: document.bodyLine + index, isCode });
  }
  return lines;
}

function withoutInlineCode(text: string): string {
  return text.includes("`") ? text.replace(INLINE_CODE, (code) => " ".repeat(code.length)) : text;
}

/** The path a link names inside the skill's folder, or nothing when it points elsewhere on purpose. */
function localTarget(link: string): string | undefined {
  const bare = link.replace(/[?#].*$/, "");
  if (bare === "" || /^[a-z][a-z0-9+.-]*:/i.test(bare) || bare.startsWith("/") || /[$<{*]/.test(bare)) return undefined;
  const parts: string[] = [];
  for (const part of decoded(bare).split("/")) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop();
    else parts.push(part);
  }
  return parts.length === 0 ? undefined : parts.join("/");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function withFolders(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}
