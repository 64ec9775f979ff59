import type { Effect } from "../host/approvals.ts";
import { withShortTexts } from "../run/shown.ts";
import { reveal } from "../shared/hidden.ts";
import { grouped, oneLine } from "../shared/text.ts";
import { shortPath } from "../source/locations.ts";
import type { Printer, Safe } from "./io.ts";
import { forTerminal } from "./say.ts";

/** All that somebody has to know who is to agree: what, where, how much, for ever or not, whose idea it is, and the input as it is. */
export function showEffect(out: Printer, effect: Effect, home: string): void {
  const { skill, source, place, tool, what, from, where, amount, reason, input } = effect;
  const who = out.bold(skill || source || "the conversation");
  const path = shortPath(place, home);
  const copy = skill === "" || path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, says: string | Safe | undefined][] = [
    ["what", what],
    ["from", from?.join("\n")],
    ["where", where],
    ["how much", amount],
    ["undo", undoOf(effect)],
    ["asked by", out.text`${who}${copy === "" ? "" : out.dim(` (${copy})`)}`],
    // The headline says it already, but where a skill said what it does without asking.
    ["because", effect.on === "other" && !from ? reason : undefined],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)}${from && effect.on === "other" ? TOLD : ON[effect.on]}`;
  for (const [label, says] of rows) if (says !== undefined && says !== "") field(out, label, says);
  showInput(out, input);
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

function field(out: Printer, label: string, says: string | Safe): void {
  const lines = typeof says === "string" ? folded(says, out.width - LABEL - 3) : [says];
  for (const [index, line] of lines.entries()) out.line`  ${out.dim((index === 0 ? label : "").padEnd(LABEL))}${line}`;
}

function undoOf({ isReversible, on }: Pick<Effect, "isReversible" | "on">): string {
  if (isReversible === undefined) return on === "workspace" ? "only by hand" : "not known whether it is possible";
  return isReversible ? "possible" : "not possible";
}

/** What is agreed to must be seen: of this much, nothing is left out; of more, the beginning of each text is shown. */
const LONGEST = 6000;
const BEGINNING = 200;

function showInput(out: Printer, input: unknown): void {
  const all = fieldsIn(input);
  if (all[0] === "" || all[0] === "{}") return;
  const texts = lengthOf(all) > LONGEST ? fieldsIn(withShortTexts(input, BEGINNING)) : all;
  out.line`  ${out.dim("input")}`;
  let left = LONGEST;
  for (const text of texts) {
    const lines = folded(text.slice(0, left), out.width - 7);
    // Only a field stands at the edge: a text cannot begin a line that looks like one.
    for (const [index, line] of (left > 0 ? lines : []).entries())
      out.line`  ${out.dim("│")} ${index === 0 ? "" : "  "}${line}`;
    left = Math.max(0, left - text.length);
  }
  const hidden = lengthOf(all) - Math.min(lengthOf(texts), LONGEST);
  if (hidden > 0) out.line`  ${out.yellow("!")} ${grouped(hidden)} more characters are not shown`;
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

/** Its lines, none longer than this. Folded after it was made safe: what is written out is longer. */
function folded(text: string, width: number): string[] {
  const room = Number.isFinite(width) ? Math.max(20, width) : Number.POSITIVE_INFINITY;
  return forTerminal(text)
    .replaceAll("\t", "    ")
    .split(/\r?\n/)
    .flatMap((line) => {
      const pieces: string[] = [];
      for (let rest = [...line]; pieces.length === 0 || rest.length > 0; rest = rest.slice(room))
        pieces.push(rest.slice(0, room).join(""));
      return pieces;
    });
}
