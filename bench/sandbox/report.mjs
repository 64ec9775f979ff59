import { goalLines, machine, table } from "../report.mjs";
import { judge } from "./goals.mjs";

const TIMES = [
  ["median", ({ ms }) => ms.toFixed(1)],
  ["p95", ({ p95 }) => p95.toFixed(1)],
  ["least", ({ least }) => least.toFixed(1)],
];
const CROWD = ["once", "waves"].flatMap((key) => [
  [key === "once" ? "at once" : "in waves", (row) => row[key].ms.toFixed(0)],
  ["ms a run", (row) => (row[key].ms / row[key].runs).toFixed(1)],
  ["failed", (row) => row[key].failed],
]);
const MEMORY = [
  ["rss MB", ({ rss }) => rss.toFixed(1)],
  ["heap MB", ({ heap }) => heap.toFixed(2)],
  ["fds", ({ descriptors }) => descriptors],
  ["ready", ({ ready }) => ready],
  ["left", ({ left }) => left],
];

export function asText(result) {
  const title = `Isolating processes. ${machine()}`;
  if (result.absent) return `${title}.\n\nnot run: ${result.absent}\n`;
  const { load, samples, starts, crowd, layers, command, workspace } = result;
  const bounds = Object.entries(starts.bounds).map(([user, by]) => `for ${user} by ${by}`);
  const parts = [
    `${title}, load ${load.toFixed(2)} at the start. Memory and processes are bounded ${bounds.join(", ")}.`,
    table(`From the start of true to its end, ms, ${samples} samples in turn`, TIMES, starts.rows),
    table(`${crowd.atOnce} at once, then ${crowd.waves} waves of ${crowd.atOnce}, ms`, CROWD, crowd.rows),
    ...Object.entries(crowd.memory).map(([user, rows]) => table(`Resources of the host, ${user}`, MEMORY, rows)),
    layerText(layers, samples),
    table(`Opening, and whole commands, ms, ${samples} samples in turn`, TIMES, command.rows),
    table(`Writing to a workspace, ms, ${workspace.rounds} samples in turn`, TIMES, workspace.rows),
    goalLines(judge(result)),
  ];
  return `${parts.join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function layerText({ absent, names, first, rows }, samples) {
  if (absent) return `With packages: not run, ${absent}`;
  const title = `With a layer of ${names}, ms, ${samples} samples in turn; found the first time in ${first.toFixed(1)} ms`;
  return table(title, TIMES, rows);
}
