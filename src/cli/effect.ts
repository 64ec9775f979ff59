import type { Effect } from "../host/approvals.ts";
import { reveal } from "../shared/hidden.ts";
import { grouped } from "../shared/text.ts";
import { shortPath } from "../source/locations.ts";
import type { Printer, Safe } from "./io.ts";
import { forTerminal } from "./say.ts";

/** All that somebody has to know who is to agree: what, where, how much, for ever or not, whose idea it is, and the input as it is. */
export function showEffect(out: Printer, effect: Effect, home: string): void {
  const { skill, source, place, tool, what, where, amount, reason, input } = effect;
  const who = out.bold(skill || source || "the conversation");
  const path = shortPath(place, home);
  const from = skill === "" || path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, says: string | Safe | undefined][] = [
    ["what", what],
    ["where", where],
    ["how much", amount],
    ["undo", undoOf(effect)],
    ["asked by", out.text`${who}${from === "" ? "" : out.dim(` (${from})`)}`],
    // The headline says it already, but where a skill said what it does without asking.
    ["because", effect.on === "other" ? reason : undefined],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)}${ON[effect.on]}`;
  for (const [label, says] of rows) if (says !== undefined && says !== "") field(out, label, says);
  showInput(out, input);
}

const ON: Record<Effect["on"], string> = {
  workspace: " would change files of the workspace",
  outside: " would change something outside of the workspace",
  other: ": the skill did not say beforehand that it would do this",
};

/** The same in a line: `mailer.send: send a mail (team@example.com)`. */
export function effectLine({ tool, what, where = "" }: Pick<Effect, "tool" | "what" | "where">): string {
  return `${tool}: ${what}${where === "" ? "" : ` (${where})`}`;
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

/** What is agreed to must be seen: of this much, nothing is left out. */
const LONGEST = 6000;

function showInput(out: Printer, input: unknown): void {
  const entries = input !== null && typeof input === "object" && !Array.isArray(input) ? Object.entries(input) : [];
  const texts =
    entries.length === 0
      ? [JSON.stringify(input) ?? ""]
      : entries.map(([key, value]) => `${reveal(key)}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  if (texts[0] === "" || texts[0] === "{}") return;
  out.line`  ${out.dim("input")}`;
  let left = LONGEST;
  for (const text of texts) {
    const lines = folded(text.slice(0, left), out.width - 7);
    // Only a field stands at the edge: a text cannot begin a line that looks like one.
    for (const [index, line] of (left > 0 ? lines : []).entries())
      out.line`  ${out.dim("│")} ${index === 0 ? "" : "  "}${line}`;
    left = Math.max(0, left - text.length);
  }
  const hidden = texts.join("").length - LONGEST;
  if (hidden > 0) out.line`  ${out.yellow("!")} ${grouped(hidden)} more characters are not shown`;
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
