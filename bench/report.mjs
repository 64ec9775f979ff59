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
  const machine = `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${cpus().length} cores`;
  const parts = [`Finding and listing skills, whole commands. ${machine}.`];
  if (floor !== "C")
    parts.push("There is no C compiler here: the floor is a Node program, and the goals are judged by it.");
  parts.push(...results.map(sizeText), notes(results), goals(results));
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

export function asJson({ floor, results }) {
  return `${JSON.stringify({ floor, node: process.versions.node, results, goals: judge(results) }, null, 2)}\n`;
}

function sizeText({ size, runs, peerRuns, rows }) {
  const hasFewerPeerRuns = peerRuns < runs && rows.some(({ isPeer }) => isPeer);
  const fewer = hasFewerPeerRuns ? `, ${peerRuns} for the peers` : "";
  const header = `${"".padEnd(LABEL_WIDTH)}${COLUMNS.map(([title]) => title.padStart(COLUMN_WIDTH)).join("")}`;
  return [`${size} skills, medians of ${runs} rounds${fewer}`, header, ...rows.map(rowText)].join("\n");
}

function rowText(row) {
  const label = row.label.padEnd(LABEL_WIDTH);
  if (row.absent) return `${label}${"n/a".padStart(COLUMN_WIDTH)}  ${row.absent}`;
  return (
    label +
    COLUMNS.map(([, cell]) => String(cell(row) ?? "").padStart(COLUMN_WIDTH))
      .join("")
      .trimEnd()
  );
}

function notes(results) {
  const peers = results[0]?.rows.filter(({ isPeer }) => isPeer) ?? [];
  if (peers.length === 0) return undefined;
  return ["Peers", ...peers.map(({ name, note }) => `${name.padEnd(LABEL_WIDTH)}${note}`)].join("\n");
}

function goals(results) {
  const rows = judge(results).map(({ text, measured, isMet }) => {
    const verdict = measured === undefined ? "not run" : isMet ? "met" : "missed";
    return `${verdict.padEnd(9)}${text}${measured === undefined ? "" : `: ${measured}`}`;
  });
  return ["Goals", ...rows].join("\n");
}
