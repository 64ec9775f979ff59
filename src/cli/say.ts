import { foldColumns } from "./fold.ts";
import type { Printer, Safe } from "./io.ts";
import { printHanging } from "./wrap.ts";

/** A line of ours, folded where their terminal ends. */
export function sayLine(out: Printer, text: string, paint?: (line: string) => Safe): void {
  printHanging(out, "", [text], { indent: 2, start: 0, ...(paint ? { paint } : {}) });
}

/** A diff below a notice, as far as it is short: nothing of it acts on the terminal. */
export function sayDiff(out: Printer, diff: string | undefined, most = 40): void {
  if (diff === undefined) return;
  const lines = foldColumns(diff, out.width - 6);
  for (const line of lines.slice(0, most)) out.line`  ${out.dim("│")} ${line}`;
  if (lines.length > most) out.line`  ${out.dim("│")} ${out.dim(`… and ${lines.length - most} more lines`)}`;
}

/** What, and on the lines below what to do. What is indented there is to be copied, and stays as it is. */
export function sayNotice(out: Printer, mark: Safe, message: string, fix: string): void {
  printHanging(out, out.text`${mark} `, [message], { indent: 2 });
  for (const line of fix === "" ? [] : fix.split("\n")) {
    const [step = ""] = /^\d+\. /.exec(line) ?? [];
    if (/^\s/.test(line)) out.line`  ${line}`;
    else printHanging(out, `  ${step}`, [line.slice(step.length)], { indent: 2 + step.length });
  }
}
