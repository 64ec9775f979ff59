import type { TextRegion } from "./rule.ts";
import type { SourceText } from "./source-text.ts";

/** Negations, which only count in the clause of the matched words. */
const NEGATION =
  /\b(?:never|don'?t|do not|does not|(?<!\bto )avoid|instead of|rather than|must not|should not)\b[^.:;!?]{0,120}$/i;
/** Like `NEGATION`, but a command after a colon is still part of the clause. */
const CODE_NEGATION = new RegExp(NEGATION.source.replace("[^.:;", "[^.;"), "i");
const WARNS =
  /\b(?:flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|such as|for example|e\.g\.|signs? of|signs?(?=:)|examples? of|poisoned|typosquat\w{0,4}|patterns?|attack\w{0,3}|attempts?|malicious|dangerous|warn\w{0,3}|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|payloads?|bad|wrong|threats?|suspicious|unsafe|harmful|classics?|detections?|(?:pages?|texts?|documents?|content|results?|websites?)\b[^.]{0,40}?\b(?:that|which) (?:asks?|tells?|says?|instructs?|claims?))\b/i;
const MAX_CONTEXT_LENGTH = 160;
const MAX_LINES_ABOVE = 14;
const MAX_TABLE_ROWS = 60;

/**
 * Returns true if a text only warns of the match or quotes it, judged by the words before it and the head of its list or table.
 */
export function isOnlyMentioned(page: SourceText, at: { line: number; column: number; place: TextRegion }): boolean {
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - MAX_CONTEXT_LENGTH), at.column);
  if (SEARCHED.test(before) || (at.place === "block" && isDetectionString(page, at.line))) return true;
  if (at.place === "block" && SHOWN.test(findBlockLead(page, at.line))) return true;
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  // Quotation marks inside a command do not quote its sentence.
  const sentence = at.place === "inline" ? before.slice(0, before.lastIndexOf("`")) : before;
  if ((at.place === "inline" ? CODE_NEGATION : NEGATION).test(before) || WARNS.test(before) || isInQuotes(sentence))
    return true;
  if (text.startsWith("|") && (WARNS.test(text.slice(0, 600)) || WARNS.test(findTableHead(page, at.line)))) return true;
  if (CALLED.test(text.slice(at.column, at.column + MAX_CONTEXT_LENGTH).split(/[.!?](?=\s|$)/, 1)[0] ?? ""))
    return true;
  if (FORBIDDEN.test(findSectionHeading(page, at.line))) return true;
  const head = findListHead(page, at.line);
  return WARNS.test(head) || NEGATION.test(head.replace(/:$/, ""));
}

const TEACHES =
  /\b(?:flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|signs? of|signs?(?=:)|poisoned|attack\w{0,3}|malicious|dangerous|warn\w{0,3}|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|bad|wrong|threats?|suspicious|unsafe|harmful|findings?|inject\w{0,3}|for example|(?<![.\w-])examples?|test cases?|canary|quiz|phishing|scams?)\b/i;

/** Returns true if a text explains what to look for, judged by the words before it or the head of its list or table. */
export function isExplained(
  page: SourceText,
  at: { line: number; column: number; place: TextRegion; isOrder?: boolean },
): boolean {
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - MAX_CONTEXT_LENGTH), at.column);
  if (SEARCHED.test(before)) return true;
  if (at.place === "block") return SHOWN.test(findBlockLead(page, at.line));
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  const sentence = before.split(/[.!?](?=\s)/).at(-1) ?? "";
  // "Look for keys and send them to …" does not teach anything.
  if (TEACHES.test(at.isOrder ? sentence.replace(SEARCHES, "") : sentence)) return true;
  if (text.startsWith("|") && TEACHES.test(findTableHead(page, at.line))) return true;
  return TEACHES.test(findListHead(page, at.line)) || DETECTS.test(findSectionHeading(page, at.line));
}

const SEARCHES = /\b(?:look|search|check) for\b/gi;
/** The announcement of a block as an attacker's technique. */
const SHOWN =
  /\b(?:attackers?|attacks?|malicious|malware|exploits?|compromised|indicators? of compromise|IOCs?|red flags?|suspicious|(?:do not|never|don['’]t) run|bad examples?|anti-?patterns?|detect(?:ed|s|ion)?|phishing)\b[^\n]{0,60}:\s{0,3}$/i;
/** The name that the rest of a sentence gives it. */
const CALLED =
  /\b(?:typosquat\w{0,4}|red flag|(?:is|are) (?:malicious|suspicious|an attack|dangerous|a warning sign)|in (?:the )?logs?\b)/i;
const DETECTS =
  /^#{1,6}\s[^\n]{0,60}?\b(?:detect(?:s|ing|ion)?|attacks?|threats?|indicators?|incidents?|malware|phishing|red flags?|warning signs)\b/i;
const FORBIDDEN = /^#{1,6}\s{1,3}(?:never|do not|don['’]t|what not to|avoid|red flags|anti-?patterns|forbidden)\b/i;

/** Returns the line that announces a block of code. */
function findBlockLead(page: SourceText, line: number): string {
  let above = line - 1;
  while (above >= 0 && line - above < MAX_TABLE_ROWS && page.placeAt(above) === "block") above--;
  if (above >= 0 && (page.lines[above] ?? "").trim() === "") above--;
  return (page.lines[above] ?? "").slice(0, 300);
}

/** Returns the heading of the section of a line, if it is near. */
function findSectionHeading(page: SourceText, line: number): string {
  for (let above = line - 1; above >= 0 && line - above < 8; above--) {
    const text = (page.lines[above] ?? "").slice(0, 120);
    if (text.startsWith("#")) return text;
  }
  return "";
}

/** The quoted argument of a search command: neither a shell nor a program runs it. */
const SEARCHED =
  /(?:\b(?:grep|egrep|fgrep|rg|ag|ack|git grep)\s[^\n|;&"']{0,60}(?:'[^'\n]{0,120}|"[^"`$\n]{0,120})|\bre\.(?:compile|search|match|findall|finditer)\(\s?r?(?:"[^"\n]{0,120}|'[^'\n]{0,120})|\bnew RegExp\((?:"[^"\n]{0,120}|'[^'\n]{0,120}))$/;

/**
 * Returns true if a line is a sample for a rule of a code checker: the line above names the rule, and the file next to it defines
 * the rule. Without the definition, a comment would be enough to downgrade any finding.
 */
export function isDetectionSample(
  page: SourceText,
  line: number,
  textOf: (path: string) => string | undefined,
): boolean {
  const [, id] =
    /(?:#|\/\/)\s{0,2}(?:todo)?ruleid:\s{0,2}([\w.-]{2,80})/.exec((page.lines[line - 1] ?? "").slice(0, 200)) ?? [];
  if (id === undefined) return false;
  const stem = page.path.replace(/\.\w{1,6}$/, "");
  return [".yml", ".yaml"].some((ending) => textOf(stem + ending)?.includes(`id: ${id}\n`));
}

/** Returns true for a string of a YARA rule, which is a search pattern. */
function isDetectionString(page: SourceText, line: number): boolean {
  if (!/^\s{0,12}\$\w{0,40}\s?=\s?["'/{]/.test((page.lines[line] ?? "").slice(0, 80))) return false;
  return page.lines
    .slice(Math.max(0, line - MAX_LINES_ABOVE), line)
    .some((above) => /^\s{0,12}strings:\s{0,4}$/.test(above));
}

function findTableHead(page: SourceText, line: number): string {
  let top = line;
  while (top > 0 && line - top < MAX_TABLE_ROWS && (page.lines[top - 1] ?? "").startsWith("|")) top--;
  return (page.lines[top] ?? "").slice(0, 300);
}

/** Returns the line that heads a list, a table or a section. */
function findListHead(page: SourceText, line: number): string {
  if (!/^\s{0,12}(?:[-*+|]|\d{1,3}[.)])/.test((page.lines[line] ?? "").slice(0, 40))) return "";
  for (let above = line - 1; above >= 0 && line - above < MAX_LINES_ABOVE; above--) {
    const text = (page.lines[above] ?? "").slice(0, 300).trim();
    if (text.startsWith("#") || (text.endsWith(":") && !/^[-*+|]/.test(text))) return text;
  }
  return "";
}

/** Text that the model must write somewhere is not a quotation. */
const DICTATED =
  /(?:prompt|text|entry|entries|line|message|rule|instructions?|following|\)|command|comment|note)[^"“.]{0,12}:\s{0,2}["“][^"”]{0,160}$/i;

function isInQuotes(before: string): boolean {
  if (DICTATED.test(before)) return false;
  const straight = before.split('"').length % 2 === 0;
  return straight || before.lastIndexOf("“") > before.lastIndexOf("”");
}
