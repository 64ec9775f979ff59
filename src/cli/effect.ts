import type { Effect } from "../host/approvals.ts";
import { grouped } from "../shared/text.ts";
import { shortPath } from "../source/locations.ts";
import type { Printer, Safe } from "./io.ts";
import { forTerminal } from "./say.ts";

/** All that somebody has to know who is to agree: what, where, how much, for ever or not, whose idea it is, and the input as it is. */
export function showEffect(out: Printer, effect: Effect, home: string): void {
  const { skill, source, place, tool, what, where, amount, isReversible, reason, input } = effect;
  const who = skill === "" ? out.text`the conversation` : out.text`${out.bold(skill)}`;
  const path = shortPath(place, home);
  const from = path.startsWith(source) ? path : [source, path].filter((part) => part !== "").join(", ");
  const rows: [label: string, says: string | Safe | undefined][] = [
    ["what", what],
    ["where", where],
    ["how much", amount],
    ["undo", undoOf(out, isReversible)],
    ["asked by", out.text`${who}${from === "" ? "" : out.dim(` (${from})`)}`],
    ["because", reason],
  ];
  out.line`${out.yellow("?")} ${out.bold(tool)} ${ON[effect.on]}`;
  for (const [label, says] of rows) if (says !== undefined && says !== "") field(out, label, says);
  showInput(out, input);
}

const ON: Record<Effect["on"], string> = {
  workspace: "would change files of the workspace",
  outside: "would change something outside of the workspace",
  other: "may change anything: it does not say what",
};

const LABEL = 10;

function field(out: Printer, label: string, says: string | Safe): void {
  const lines = typeof says === "string" ? folded(says, out.width - LABEL - 3) : [says];
  for (const [index, line] of lines.entries()) out.line`  ${out.dim((index === 0 ? label : "").padEnd(LABEL))}${line}`;
}

function undoOf(out: Printer, isReversible: boolean | undefined): Safe {
  if (isReversible === undefined) return out.text`not known whether it is possible`;
  return isReversible ? out.text`possible` : out.red("not possible");
}

/** What is agreed to must be seen: of this much, nothing is left out. */
const LONGEST = 6000;

function showInput(out: Printer, input: unknown): void {
  const entries = input !== null && typeof input === "object" && !Array.isArray(input) ? Object.entries(input) : [];
  const text =
    entries.length === 0
      ? (JSON.stringify(input) ?? "")
      : entries
          .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
          .join("\n");
  if (text === "" || text === "{}") return;
  out.line`  ${out.dim("input")}`;
  for (const line of folded(text.slice(0, LONGEST), out.width - 5)) out.line`  ${out.dim("│")} ${line}`;
  if (text.length > LONGEST)
    out.line`  ${out.yellow("!")} ${grouped(text.length - LONGEST)} more characters are not shown`;
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
