import { spellHidden } from "../shared/hidden.ts";
import type { Printer, Safe } from "./io.ts";

/** Text of others, without what acts on a terminal: it is written out, and nothing is printed over. */
export function forTerminal(text: string): string {
  return spellHidden(text.replace(/\r(?!\n)/g, "\n")).text;
}

/** What, and on the lines below what to do. */
export function sayNotice(out: Printer, mark: Safe, message: string, fix: string): void {
  out.line`${mark} ${message}`;
  if (fix !== "") for (const line of fix.split("\n")) out.line`  ${line}`;
}
