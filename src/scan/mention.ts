import type { Page } from "./page.ts";
import type { Place } from "./rule.ts";

const WARNS =
  /\b(?:never|don'?t|do not|does not|(?<!\bto )avoid|instead of|rather than|flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|blocks?|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|such as|for example|e\.g\.|signs? of|patterns?|attack\w{0,3}|attempts?|malicious|dangerous|warn\w{0,3}|must not|should not|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|payloads?|bad|wrong|threats?|suspicious|unsafe|harmful)\b/i;
const NEAR = 160;
const ABOVE = 14;
const MOST_ROWS = 60;

/** Whether words only warn of something, or quote it: by what stands before them, and by what a list or a table is headed with. */
export function isMentioned(page: Page, at: { line: number; column: number; place: Place }): boolean {
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - NEAR), at.column);
  if (SEARCHED.test(before)) return true;
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  if (WARNS.test(before) || isQuoted(before)) return true;
  if (text.startsWith("|") && (WARNS.test(text.slice(0, 600)) || WARNS.test(headOfTable(page, at.line)))) return true;
  return WARNS.test(headOf(page, at.line));
}

/** In the quotes of what is searched for: neither shell nor program runs what stands there. */
const SEARCHED =
  /(?:\b(?:grep|egrep|fgrep|rg|ag|ack|git grep)\s[^\n|;&"']{0,60}(?:'[^'\n]{0,120}|"[^"`$\n]{0,120})|\bre\.(?:compile|search|match|findall|finditer)\(\s?r?(?:"[^"\n]{0,120}|'[^'\n]{0,120})|\bnew RegExp\((?:"[^"\n]{0,120}|'[^'\n]{0,120}))$/;

/**
 * Whether a line shows what a rule of a code checker finds: the line above names the rule, and the file beside it defines that. Without the
 * latter a comment would be enough to make anything weigh little.
 */
export function isSample(page: Page, line: number, textOf: (path: string) => string | undefined): boolean {
  const [, id] =
    /(?:#|\/\/)\s{0,2}(?:todo)?ruleid:\s{0,2}([\w.-]{2,80})/.exec((page.lines[line - 1] ?? "").slice(0, 200)) ?? [];
  if (id === undefined) return false;
  const stem = page.path.replace(/\.\w{1,6}$/, "");
  return [".yml", ".yaml"].some((ending) => textOf(stem + ending)?.includes(`id: ${id}\n`));
}

function headOfTable(page: Page, line: number): string {
  let top = line;
  while (top > 0 && line - top < MOST_ROWS && (page.lines[top - 1] ?? "").startsWith("|")) top--;
  return (page.lines[top] ?? "").slice(0, 300);
}

/** What a list, a table or a section is headed with. */
function headOf(page: Page, line: number): string {
  if (!/^\s{0,12}(?:[-*+|]|\d{1,3}[.)])/.test((page.lines[line] ?? "").slice(0, 40))) return "";
  for (let above = line - 1; above >= 0 && line - above < ABOVE; above--) {
    const text = (page.lines[above] ?? "").slice(0, 300).trim();
    if (text.startsWith("#") || (text.endsWith(":") && !/^[-*+|]/.test(text))) return text;
  }
  return "";
}

function isQuoted(before: string): boolean {
  const straight = before.split('"').length % 2 === 0;
  return straight || before.lastIndexOf("“") > before.lastIndexOf("”");
}
