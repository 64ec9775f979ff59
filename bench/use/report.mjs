import { goalLines, machine, table } from "../report.mjs";
import { judge } from "./goals.mjs";

const STARTS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(1)]);
const STEPS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(2)]);
const MEMORY = [
  ["heap MB", ({ heap }) => heap.toFixed(2)],
  ["messages", ({ messages }) => messages],
  ["said MB", ({ said }) => said.toFixed(2)],
  ["rss MB", ({ rss }) => rss.toFixed(0)],
];

export function asText(result) {
  const { load, starts, steps, memory } = result;
  const parts = [
    `Using skills. ${machine()}, load ${load.toFixed(2)} at the start.`,
    table("From the start of a process to its end, or until its first request to the model, ms", STARTS, starts),
    table(`A step of a run of ${steps.count}, ms`, STEPS, steps.rows),
    ...memory.map(memoryText),
    goalLines(judge(result)),
  ];
  return `${parts.join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function memoryText({ name, rows, after }) {
  const title = `Heap of a run, ${name}; ${after.toFixed(2)} MB after it`;
  return table(
    title,
    MEMORY,
    rows.map((row) => ({ name: `step ${row.step}`, ...row })),
  );
}
