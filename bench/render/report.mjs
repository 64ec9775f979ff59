import { goalLines, machine, table } from "../report.mjs";

const MOST_MS = 5;
const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(3)]);

export function asText(result) {
  const { load, skills, rounds, rows } = result;
  const head = `Rendering a prompt of ${skills} skills. ${machine()}, load ${load.toFixed(2)} at the start.`;
  return `${[head, table(`${rounds} rounds, ms`, COLUMNS, rows), goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ skills, rows }) {
  return rows.map(({ name, ms }) => ({
    text: `${skills} skills ${name}: less than ${MOST_MS} ms`,
    measured: `${ms.toFixed(3)} ms`,
    isMet: ms < MOST_MS,
  }));
}
