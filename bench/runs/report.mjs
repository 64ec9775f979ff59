import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(3)]);

export function asText(result) {
  const { load, rows } = result;
  const head = `Durable runs. ${machine()}, load ${load.toFixed(2)} at the start.`;
  return `${[head, table("Each, ms", COLUMNS, rows), goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ rows }) {
  const at = (start) => rows.find(({ name }) => name.startsWith(start)).ms;
  const goal = (text, ms, most) => ({ text, measured: `${ms.toFixed(3)} ms`, isMet: ms < most });
  return [
    goal("a step in the journal, on disk, takes less than 2 ms", at("a step"), 2),
    goal("resuming after 1,000 steps takes less than 200 ms", at("resuming"), 200),
    goal("a call of a toolset takes less than 1 ms more than the function", at("a call") - at("the same function"), 1),
    goal("recording a run's statistics takes less than 1 ms", at("recording"), 1),
  ];
}
