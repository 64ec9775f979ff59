import type { Page } from "./page.ts";
import type { Place } from "./rule.ts";

const WARNS =
  /\b(?:never|don'?t|do not|does not|avoid|instead of|rather than|flags?|detect\w{0,3}|reject\w{0,2}|refus\w{1,3}|blocks?|look for|looks? like|watch for|check(?:s|ed)? (?:for|that)|search for|such as|for example|e\.g\.|signs? of|patterns?|attack\w{0,3}|attempts?|malicious|dangerous|warn\w{0,3}|must not|should not|forbidden|prohibit\w{0,2}|injection|vulnerab\w{1,8}|red flags?|indicators?|anti-?patterns?|tries to|exploit\w{0,3}|payloads?|bad|wrong|threats?)\b/i;
const NEAR = 160;
const ABOVE = 14;

/** Whether words only warn of something, or quote it: by what stands before them, and by what a list is headed with. */
export function isMentioned(page: Page, at: { line: number; column: number; place: Place }): boolean {
  if (at.place !== "prose" && at.place !== "inline" && at.place !== "note") return false;
  const text = page.lines[at.line] ?? "";
  const before = text.slice(Math.max(0, at.column - NEAR), at.column);
  if (WARNS.test(before) || isQuoted(before)) return true;
  if (text.startsWith("|") && WARNS.test(text.slice(0, 600))) return true;
  return WARNS.test(headOf(page, at.line));
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
