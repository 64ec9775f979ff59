import { cpus } from "node:os";
import { judge } from "./goals.mjs";

const COLUMNS = [
  ["found", ({ found }) => found],
  ["ms", ({ ms }) => ms?.toFixed(1)],
  ["least", ({ least }) => least?.toFixed(1)],
  ["× floor", ({ timesFloor }) => timesFloor?.toFixed(2)],
  ["× node", ({ timesNode }) => timesNode?.toFixed(2)],
  ["peak MB", ({ megabytes }) => megabytes?.toFixed(0)],
];
const LABEL_WIDTH = 22;
const COLUMN_WIDTH = 10;

export function asText({ floor, results }) {
  const parts = [`Finding and listing skills, whole commands. ${machine()}.`];
  if (floor !== "C")
    parts.push("There is no C compiler here: the floor is a Node program, and the goals are judged by it.");
  parts.push(...results.map(sizeText), notes(results), goalLines(judge(results)));
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

export function asJson({ floor, results }) {
  return { floor, node: process.versions.node, results, goals: judge(results) };
}

export function machine() {
  return `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${cpus().length} cores`;
}

/** Formats a table. `columns` are pairs of a title and a function from a row to its cell; rows have a `label` or a `name`. */
export function table(title, columns, rows) {
  const labels = rows.map(({ name, label = name }) => label);
  const width = Math.max(LABEL_WIDTH, ...labels.map((label) => label.length + 2));
  const header = `${"".padEnd(width)}${columns.map(([name]) => name.padStart(COLUMN_WIDTH)).join("")}`;
  return [title, header, ...rows.map((row) => rowText(row, columns, width))].join("\n");
}

export function goalLines(goals) {
  const rows = goals.map(({ text, measured, isMet }) => {
    const verdict = measured === undefined ? "not run" : isMet ? "met" : "missed";
    return `${verdict.padEnd(9)}${text}${measured === undefined ? "" : `: ${measured}`}`;
  });
  return ["Goals", ...rows].join("\n");
}

function sizeText({ size, runs, peerRuns, rows }) {
  const hasFewerPeerRuns = peerRuns < runs && rows.some(({ isPeer }) => isPeer);
  const fewer = hasFewerPeerRuns ? `, ${peerRuns} for the peers` : "";
  return table(`${size} skills, medians of ${runs} rounds${fewer}`, COLUMNS, rows);
}

function rowText(row, columns, width) {
  const label = (row.label ?? row.name).padEnd(width);
  if (row.absent) return `${label}${"n/a".padStart(COLUMN_WIDTH)}  ${row.absent}`;
  return (
    label +
    columns
      .map(([, cell]) => String(cell(row) ?? "").padStart(COLUMN_WIDTH))
      .join("")
      .trimEnd()
  );
}

function notes(results) {
  const peers = results[0]?.rows.filter(({ isPeer }) => isPeer) ?? [];
  if (peers.length === 0) return undefined;
  return ["Peers", ...peers.map(({ name, note }) => `${name.padEnd(LABEL_WIDTH)}${note}`)].join("\n");
}
