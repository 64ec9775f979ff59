import type { FindingCode } from "../errors/finding-codes.ts";
import { globToPattern } from "../util/glob.ts";
import { estimateTokens, findNearest, truncateLine } from "../util/text.ts";
import { escapeCodePoint, findInvisible } from "../util/untrusted-text.ts";
import type { SkillDocument } from "./document.ts";
import { findPosition, trimBody } from "./frontmatter.ts";
import type { Manifest } from "./manifest.ts";
import { parseToolsetRef } from "./manifest-fields.ts";
import { type Finding, getSeverity, type Profile } from "./skill.ts";
import { findToolsetFile, stripDotSlash } from "./skill-code.ts";
import { isKnownTool, parseEntryTool, TOOL_NAMES } from "./tool-names.ts";
import { classifyPatterns, isBroadGlob, isCommonPattern, isCommonPhrase, isTriggerPhrase } from "./triggers.ts";

export interface LintSubject {
  document: SkillDocument;
  manifest: Manifest;
  /** The paths next to SKILL.md; absent if the skill has no folder. */
  files?: readonly string[];
  /** Searches for a link's target that is not among `files`. */
  findTarget?: FindTarget;
}

/**
 * Returns the location of a link's target: in the skill's folder, outside of it, or in the repository if the path is relative to
 * its root. Returns undefined if the target does not exist.
 */
export type FindTarget = (path: string) => "skill" | "outside" | "repository" | undefined;

interface BodyLine {
  text: string;
  number: number;
  isCode: boolean;
  /** True if the line is indented by four spaces after an empty line, and not part of a list: Markdown shows it as code. */
  isIndentedCode: boolean;
}
type LintRule = (subject: LintSubject, lines: readonly BodyLine[]) => Iterable<Omit<Finding, "code">>;

/** One row per rule. The codes, their severities and their fixes are in `finding-codes.ts`. */
export const LINT_RULES: { readonly [Key in FindingCode]?: LintRule } = {
  "hidden-text-body": function* ({ document }) {
    for (const { index, codePoint } of findInvisible(document.body)) {
      const position = findPosition(document.body, index, document.bodyLine);
      yield { message: `the instructions contain the hidden character ${escapeCodePoint(codePoint)}`, ...position };
    }
  },
  "dead-link": function* (subject, lines) {
    for (const { target, place, ...position } of findMissingTargets(subject, lines)) {
      if (place === undefined && !target.startsWith("/"))
        yield { message: `the link to "${truncateLine(target, 120)}" has no target`, ...position };
    }
  },
  "link-outside-skill": function* (subject, lines) {
    for (const { target, place, ...position } of findMissingTargets(subject, lines)) {
      const link = `the link to "${truncateLine(target, 120)}"`;
      if (place === "outside") yield { message: `${link} leaves the skill's folder`, ...position };
      else if (place === "repository")
        yield { message: `${link} is relative to the repository, not to the skill's folder`, ...position };
    }
  },
  "script-missing": function* ({ files, manifest }) {
    for (const { path } of files ? manifest.scripts : []) {
      if (!files?.includes(stripDotSlash(path)))
        yield { message: `the script "${truncateLine(path, 120)}" is not in the skill's folder` };
    }
  },
  "toolset-missing": function* ({ files, manifest, document }) {
    for (const written of files ? manifest.toolsets : []) {
      const ref = parseToolsetRef(written);
      if ("problem" in ref || findToolsetFile(ref, (path) => files?.includes(path) ?? false) !== undefined) continue;
      yield {
        message: `the toolset "${truncateLine(written, 120)}" is not in the skill's folder`,
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
  "todo-found": function* (_, lines) {
    for (const { text, number, isCode } of lines) {
      const prose = isCode ? "" : removeInlineCode(text);
      const match = TASK_FIRST.exec(prose) ?? TASK_MARKED.exec(prose);
      if (match) yield { message: "contains an open task", line: number, column: match.index + 1 };
    }
  },
  "template-unedited": function* ({ document, manifest }, lines) {
    if (manifest.description.includes(DESCRIPTION_PLACEHOLDER))
      yield { message: "the description is still the one of `skillet new`", ...document.locate("description") };
    const line = lines.find(({ text, isCode }) => !isCode && isTemplateLine(text));
    if (line)
      yield { message: "the instructions still have text of the `skillet new` template", line: line.number, column: 1 };
  },
  "use-when-missing": function* ({ document, manifest }) {
    const { whenToUse, triggers, description } = manifest;
    if (
      description === "" ||
      whenToUse ||
      triggers.keywords.length + triggers.verbs.length + triggers.patterns.length > 0
    )
      return;
    if (!USE_WHEN_HINT.test(description))
      yield { message: "the description does not say when to use the skill", ...document.locate("description") };
  },
  // Triggers that match every query are ignored, and reported when the skill is read.
  "trigger-broad": function* ({ document, manifest: { triggers, paths } }) {
    const patterns = classifyPatterns(triggers.patterns).usable.filter(({ needs }) => isCommonPattern(needs));
    const globs = classifyPatterns(paths, globToPattern).usable.filter(({ text }) => isBroadGlob(text));
    const phrases = (list: readonly string[]) => list.filter((text) => isTriggerPhrase(text) && isCommonPhrase(text));
    const broad: [key: string, list: string, texts: string[], what: string, fix?: string][] = [
      ["triggers", "keywords", phrases(triggers.keywords), "common words"],
      ["triggers", "verbs", phrases(triggers.verbs), "common words"],
      ["triggers", "patterns", patterns.map(({ text }) => text), "patterns without a specific word"],
      ["paths", "paths", globs.map(({ text }) => text), "globs for most files", GLOB_FIX],
    ];
    for (const [key, list, texts, what, fix] of broad) {
      if (texts.length === 0) continue;
      const shown = texts.slice(0, 5).map((text) => `"${truncateLine(text, 64)}"`);
      const more = texts.length > 5 ? ` and ${texts.length - 5} more` : "";
      const message = `"${list}" has ${shown.join(", ")}${more}: ${what} alone never load the instructions`;
      yield { message, ...document.locate(key), ...(fix ? { fix } : {}) };
    }
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
      const match = ABSOLUTE_PATH.exec(text);
      if (match)
        yield {
          message: `names "${truncateLine(match[1] ?? "", 80)}"`,
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
        const meant = findNearest(parseEntryTool(entry), TOOL_NAMES);
        const fix = meant ? { fix: `did you mean "${meant}"?` } : {};
        yield {
          message: `"${key}" names the tool "${truncateLine(parseEntryTool(entry), 64)}", which no client has`,
          ...document.locate(key),
          ...fix,
        };
      }
    }
  },
};

export function lintDocument(subject: LintSubject, profile: Profile): Finding[] {
  const lines = splitBodyLines(subject.document);
  const findings: Finding[] = [];
  for (const [code, rule] of Object.entries(LINT_RULES) as [FindingCode, LintRule][]) {
    if (!getSeverity(code, profile)) continue;
    let reported = 0;
    for (const finding of rule(subject, lines)) {
      findings.push({ code, ...finding });
      if (++reported === MAX_FINDINGS_PER_RULE) break;
    }
  }
  return findings;
}

const GLOB_FIX = "name a folder or a file, and add a keyword: a phrase of two or more words";

/** Twenty findings per rule are enough to fix a file. */
const MAX_FINDINGS_PER_RULE = 20;

// Every repetition is bounded: a megabyte of brackets or backticks must not take longer than any other megabyte.
const LINK = /\[[^\]\n]{0,300}\]\((?:<([^>\n]{1,300})>|([^()\s]{1,300}))(?:\s{1,9}["'(][^\n]{0,300}?["')])?\)/g;
const INLINE_CODE = /`[^`\n]{1,300}`/g;
/** A task at the start of a line or an item, or one that is marked elsewhere. Prose about TODO comments does not match. */
const TASK_FIRST = /^[ \t>*+#-]{0,20}(?:\d{1,3}[.)] )?(?:\[[ x]?\] ?)?(?:TODO|FIXME|TBD)\b/;
const TASK_MARKED = /[\s>*[(-](?:TODO|FIXME|TBD)(?=[:\])(]|\s*$)/;
const USE_WHEN_HINT =
  /\b(?:use (?:this|it|when|for|if|to|after|before|whenever)|when(?:ever)?|trigger|invoke|if (?:the )?user|asks?)\b/i;
const ABSOLUTE_PATH =
  /(?:^|[\s"'`(=:])((?:\/(?:Users|home)\/[^\s"'`)/]+|[A-Za-z]:\\+(?:Users|Documents)[^\s"'`)]*)[^\s"'`)]*)/;

function splitBodyLines(document: SkillDocument): BodyLine[] {
  const lines: BodyLine[] = [];
  let fence: string | undefined;
  let isInList = false;
  for (const [index, text] of document.body.split("\n").entries()) {
    const [, mark, info = ""] = FENCE.exec(text) ?? [];
    const isCode = fence !== undefined || mark !== undefined;
    if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence) && info.trim() === "") fence = undefined;
    if (LIST_ITEM.test(text)) isInList = true;
    else if (/^\S/.test(text)) isInList = false;
    const before = lines.at(-1);
    const isIndentedCode =
      !isCode &&
      !isInList &&
      /^(?: {4}|\t)/.test(text) &&
      (before === undefined || before.isIndentedCode || before.text.trim() === "");
    lines.push({ text, number: document.bodyLine + index, isCode, isIndentedCode });
  }
  return lines;
}

/**
 * A line that opens or closes a code block, including those in a list or a quotation. More backticks after the fence mean inline
 * code.
 */
const FENCE = /^[ \t>]{0,40}(?:(?:[-*+]|\d{1,3}[.)])[ \t]{1,4})?(`{3,}|~{3,})((?:(?<=`)[^`]*|(?<=~).*))$/;
const LIST_ITEM = /^[ \t]{0,20}(?:[-*+]|\d{1,3}[.)])[ \t]/;

interface MissingTarget {
  target: string;
  place: ReturnType<FindTarget>;
  line: number;
  column: number;
}

/** Returns the links whose targets are not among the skill's listed files. */
function* findMissingTargets({ files, findTarget }: LintSubject, lines: readonly BodyLine[]): Generator<MissingTarget> {
  if (!files) return;
  const listed = new Set(files.flatMap(listParentFolders));
  for (const { text, number, isCode, isIndentedCode } of lines) {
    if (isCode || isIndentedCode) continue;
    for (const match of removeInlineCode(text).matchAll(LINK)) {
      const target = parseLocalTarget(match[1] ?? match[2] ?? "");
      if (target === undefined || listed.has(target)) continue;
      yield { target, place: findTarget?.(target), line: number, column: match.index + 1 };
    }
  }
}

function removeInlineCode(text: string): string {
  return text.includes("`") ? text.replace(INLINE_CODE, (code) => " ".repeat(code.length)) : text;
}

/**
 * Returns the path of a link, relative to the skill's folder or, with a leading slash, to a root. Undefined for URLs and
 * placeholders.
 */
function parseLocalTarget(link: string): string | undefined {
  const written = link.replace(/[?#].*$/, "");
  const path = decodeLink(written);
  if (path === "" || ADDRESS.test(path) || PLACEHOLDER.test(path)) return undefined;
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop();
    else parts.push(part);
  }
  return parts.length === 0 ? undefined : `${path.startsWith("/") ? "/" : ""}${parts.join("/")}`;
}

const ADDRESS = /^(?:[a-z][a-z0-9+.-]*:|\/\/)/i;
/**
 * Placeholders for paths in templates and examples: `{name}`, `$FILE`, `<url>`, `url`, `...`, `path/to/file.md`, `ADR-NNN.md`.
 */
const PLACEHOLDER =
  /[$<>{}*[\]]|\.\.\.|\u2026|(?:^|\/)path\/to\/|^(?:[Uu]rl|[Ll]ink|[Pp]ath|[Ff]ile|href|[A-Z_]*(?:URL|LINK|PATH|FILE|NAME)[A-Z_]*)$|(?<![A-Za-z])(?:X{2,}|N{2,}|YYYY)(?![A-Za-z])/;

function decodeLink(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function listParentFolders(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** The placeholder after the title in the description of a new skill. */
export const DESCRIPTION_PLACEHOLDER = "describe here in one sentence what it does";

/** The instructions of a new skill, below its title. `skillet new` writes them, and `check` reports them until they are edited. */
export const INSTRUCTIONS_TEMPLATE = [
  "State the goal in one sentence, so that the agent knows when it is done.",
  "",
  "## Steps",
  "",
  "1. Describe what to look at first.",
  "2. Describe what to do, with the exact commands.",
  "3. Describe how to verify the result.",
  "",
  "## Good to know",
  "",
  "- What usually goes wrong, and how to fix it.",
  "- Long details belong in files next to this one: name them here, and they are read only when needed.",
];

const PLACEHOLDER_LINES: ReadonlySet<string> = new Set(INSTRUCTIONS_TEMPLATE.filter((line) => line.endsWith(".")));

/** Returns true if a line of the instructions is still the one that `skillet new` wrote. */
function isTemplateLine(line: string): boolean {
  return PLACEHOLDER_LINES.has(line.trimEnd());
}
