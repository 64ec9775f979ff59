import { count, estimateTokens } from "../shared/text.ts";
import { foldColumns } from "./fold.ts";
import type { Printer, Safe } from "./io.ts";

interface Hanging {
  /** The columns below which the lines stand. */
  indent: number;
  /** Those of what stands before the first line, where they are others. */
  start?: number;
  /** The terminal's, when left out. */
  width?: number;
  paint?(line: string): Safe | string;
}

/** Lines below one another, after what stands before the first. */
export function printHanging(out: Printer, before: Safe | string, lines: readonly string[], how: Hanging): void {
  const { indent, start = indent, width = out.width, paint = (line) => line } = how;
  const taken = "x".repeat(Math.max(0, start - indent));
  const [head = "", ...rest] = lines.filter((line) => line !== "");
  const [first = "", ...more] = [taken + head, ...rest].flatMap((line) => wrapped(line, width - indent));
  out.line`${before}${paint(first.slice(taken.length))}`;
  for (const line of more) out.line`${" ".repeat(indent)}${paint(line)}`;
}

interface DiffDisplay {
  /** How many lines are shown at most. Defaults to all. */
  most?: number;
  /** What shows the others. */
  rest?: string;
}

/** Prints the lines of a diff in color. The rest of a line that is wider than the terminal follows after `>`, which begins no line of a diff. */
export function printDiff(out: Printer, lines: readonly string[], display: DiffDisplay = {}): void {
  const { most = Number.POSITIVE_INFINITY, rest = "" } = display;
  for (const line of lines.slice(0, most)) {
    const paint = line.startsWith("+") ? out.green : line.startsWith("-") ? out.red : out.dim;
    const [whole = "", isWider] = foldColumns(line, out.width - 5);
    const [first = "", ...rest] = isWider === undefined ? [whole] : foldColumns(line, out.width - 7);
    out.line`    ${paint(first)}`;
    for (const more of rest) out.line`    ${out.dim(">")} ${paint(more)}`;
  }
  const more = lines.length - most;
  if (more > 0) out.line`    ${out.dim(`… ${count(more, "more line")}: ${rest}`)}`;
}

/** Lines that are no longer than this, but for words that are; and a command stays in one piece, to be copied. */
export function wrapped(text: string, width: number): string[] {
  const [, indent = "", prose = "", command] = COMMAND.exec(text) ?? [];
  if (text.length <= width) return [text];
  const lines: string[] = [];
  let line = "";
  for (const word of [...(prose.match(WORDS) ?? []), ...(command === undefined ? [] : [command])]) {
    if (line !== "" && line.length + 1 + word.length > width - indent.length) {
      lines.push(indent + line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return line === "" ? lines : [...lines, indent + line];
}

/** What follows a colon is one to the end of its line. */
const COMMAND = /^(\s*)(.*?)((?:run: |(?<=: ))skillet .*)?$/s;

/** What stands between backticks or in parentheses is one too; and so is what is quoted: others wrote it, and it begins no line. */
const WORDS = /(?:`[^`]*`|"[^"]*"|\(skillet [^)]*\)|[^ ])+/g;

/** Prints the first lines of a text that a model is told. */
export function printText(out: Printer, title: string, text: string): void {
  if (text === "") return;
  out.line`\n${out.bold(title)} ~${estimateTokens(text)} tokens`;
  const lines = text.split("\n");
  for (const line of lines.slice(0, MOST_LINES))
    for (const part of wrapped(line, out.width - 4)) out.line`  ${out.dim("│")} ${part}`;
  if (lines.length > MOST_LINES)
    out.line`  ${out.dim(`│ … ${count(lines.length - MOST_LINES, "more line")}: --text prints all`)}`;
}

const MOST_LINES = 24;
