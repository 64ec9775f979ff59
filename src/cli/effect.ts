import { createHash } from "node:crypto";
import type { Effect } from "../host/approvals.ts";
import { withShortTexts } from "../run/shown.ts";
import { reveal } from "../shared/hidden.ts";
import { byText, grouped, oneLine } from "../shared/text.ts";
import { shortPath } from "../source/locations.ts";
import { foldColumns, foldLines, forTerminal } from "./fold.ts";
import type { Io, Printer } from "./io.ts";

export interface ShowEffectOptions {
  /** Shows all of the input, however long it is. */
  isWhole?: boolean;
}

/**
 * Shows an approval request: what, where, how much, whether it can be undone, who asks, and the input as it will be executed. Returns whether
 * all of the input was shown: if not, nobody may approve it yet.
 */
export function showEffect(out: Printer, effect: Effect, home: string, options: ShowEffectOptions = {}): boolean {
  const { skill, source, place, tool, what, from, where, amount, reason, input } = effect;
  const who = skill || source || "the conversation";
  const path = shortPath(place, home);
  const copy = skill === "" || path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, says: string | undefined][] = [
    ["what", what],
    ["from", from?.join("\n")],
    ["where", where],
    ["how much", amount],
    ["undo", undoOf(effect)],
    ["asked by", `${reveal(who)}${copy === "" ? "" : ` (${reveal(copy)})`}`],
    // The headline says it already, but where a skill said what it does without asking.
    ["because", effect.on === "other" && !from ? reason : undefined],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)}${from && effect.on === "other" ? TOLD : ON[effect.on]}`;
  for (const [label, says] of rows) if (says !== undefined && says !== "") field(out, label, says);
  return showInput(out, input, options);
}

/** Shows all of the input, a screen at a time. Returns whether it was shown to its end. */
export async function pageInput(io: Io, out: Printer, { input }: Effect, signal?: AbortSignal): Promise<boolean> {
  const lines = inputLines(fieldsIn(input), out.width);
  const room = Math.max(5, (io.stderr.rows ?? 24) - 2);
  for (let at = 0; at < lines.length; at += room) {
    printInputLines(out, lines.slice(at, at + room));
    const left = lines.length - at - room;
    if (left <= 0) break;
    const answer = await io.ask?.(`[Enter] more (${grouped(left)} lines)  [q] stop `, signal);
    if (answer === undefined || /^\s*q/i.test(answer)) return false;
  }
  out.line`  ${out.dim(`${digestOf(input)}, the complete input`)}`;
  return true;
}

const ON: Record<Effect["on"], string> = {
  workspace: " would change files of the workspace",
  outside: " would change something outside of the workspace",
  other: ": the skill did not say beforehand that it would do this",
};

const TOLD = ": what it is given comes from text that you did not write";

/** The same in a line: `mailer.send: send a mail (team@example.com)`. */
export function effectLine({ tool, what, where = "" }: Pick<Effect, "tool" | "what" | "where">): string {
  return `${tool}: ${what}${where === "" ? "" : ` (${where})`}`;
}

/** What it is given, in a line: `to: ann@example.com, subject: Minutes`. Empty where it is given nothing. */
export function inputLine({ input }: Pick<Effect, "input">): string {
  const fields = fieldsIn(input);
  return fields[0] === "" || fields[0] === "{}" ? "" : oneLine(fields.join(", "));
}

const LABEL = 10;

function field(out: Printer, label: string, says: string): void {
  const lines = foldColumns(says, out.width - LABEL - 3);
  for (const [index, line] of lines.entries()) out.line`  ${out.dim((index === 0 ? label : "").padEnd(LABEL))}${line}`;
}

function undoOf({ isReversible, on }: Pick<Effect, "isReversible" | "on">): string {
  if (isReversible === undefined) return on === "workspace" ? "only by hand" : "not known whether it is possible";
  return isReversible ? "possible" : "not possible";
}

/** The longest input that is shown at once. Of a longer one the beginning of each text is shown, and the rest on request. */
const LONGEST = 6000;
const BEGINNING = 200;

function showInput(
  out: Printer,
  input: unknown,
  { isWhole = !Number.isFinite(out.width) }: ShowEffectOptions,
): boolean {
  const all = fieldsIn(input);
  if (all[0] === "" || all[0] === "{}") return true;
  const isShort = lengthOf(all) <= LONGEST;
  out.line`  ${out.dim("input")}`;
  const texts = isWhole || isShort ? all : fieldsIn(withShortTexts(input, BEGINNING));
  const lines = inputLines(texts, out.width);
  const most = isWhole || isShort ? lines.length : MOST_LINES;
  printInputLines(out, lines.slice(0, most));
  for (const warning of lookAlikesIn(all.join("\n"))) {
    const [first = "", ...rest] = foldColumns(warning, out.width - 6);
    out.line`  ${out.yellow("!")} ${first}`;
    for (const line of rest) out.line`    ${line}`;
  }
  if (isWhole || isShort) out.line`  ${out.dim(digestOf(input))}`;
  else {
    const size = grouped(lengthOf(all));
    out.line`  ${out.yellow("!")} The input has ${size} characters and is not shown in full. Look at all of it before you approve it.`;
  }
  return isWhole || isShort;
}

const MOST_LINES = 60;

interface InputLine {
  text: string;
  /** Whether it is the rest of a line that is wider than the terminal. */
  isFolded: boolean;
}

/** Only a field begins at the edge: a text cannot begin a line that looks like one. */
function inputLines(fields: readonly string[], width: number): InputLine[] {
  return fields.flatMap((field) =>
    foldLines(field, width - 8).flatMap((pieces, line) =>
      pieces.map((text, piece) => ({ text: line + piece === 0 ? text : `  ${text}`, isFolded: piece > 0 })),
    ),
  );
}

/** Prints lines of input. What was folded has another border: text cannot pass for a line by itself, such as one of a diff. */
function printInputLines(out: Printer, lines: readonly InputLine[]): void {
  for (const { text, isFolded } of lines) out.line`  ${out.dim(isFolded ? "┆" : "│")} ${text}`;
}

/** Identifies an input, with its keys in order: the same digest is the same input. */
export function digestOf(input: unknown): string {
  const ordered = JSON.stringify(input, (_, value: unknown) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => byText(a, b)))
      : value,
  );
  return `sha256:${createHash("sha256")
    .update(ordered ?? "")
    .digest("hex")
    .slice(0, 16)}`;
}

/** Warns of words that mix Latin letters with look-alikes of other scripts. */
function lookAlikesIn(text: string): string[] {
  if (/^[\x00-\x7f]*$/.test(text)) return [];
  const words = text.match(/[\p{L}\p{N}\p{M}.@_-]+/gu) ?? [];
  const mixed = words.filter(
    (word) => /\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}]/u.test(word),
  );
  return [...new Set(mixed)].slice(0, 5).map((word) => {
    const [letter = ""] = /[\p{Script=Cyrillic}\p{Script=Greek}]/u.exec(word) ?? [];
    const code = letter.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
    return `"${oneLine(forTerminal(word), 60)}" mixes alphabets: ${letter} is U+${code}`;
  });
}

/** A line each, or several where a text has them. */
function fieldsIn(input: unknown): string[] {
  const entries = input !== null && typeof input === "object" && !Array.isArray(input) ? Object.entries(input) : [];
  if (entries.length === 0) return [JSON.stringify(input) ?? ""];
  return entries.map(([key, value]) => `${reveal(key)}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}
