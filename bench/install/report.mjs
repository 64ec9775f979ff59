import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(1)]);

export function asText(result) {
  const { load, rows, skills, files } = result;
  const head = `Installing skills. ${machine()}, load ${load.toFixed(2)} at the start.`;
  const title = `${skills} skills of ${files} files, ms`;
  return `${[head, table(title, COLUMNS, rows), goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ rows }) {
  const at = (name) => rows.find((row) => row.name === name);
  const goal = (text, row, base) => {
    const [middle, least] = [row.ms / base.ms, row.least / base.least];
    return { text, measured: `${middle.toFixed(2)} × (shortest times ${least.toFixed(2)} ×)`, isMet: middle <= 2 };
  };
  return [
    goal("at most 2 × cp -r", at("skillet"), at("cp -r")),
    goal("on disk: at most 2 × cp -r, then sync -f", at("skillet, on disk"), at("cp -r, then sync -f")),
  ];
}
