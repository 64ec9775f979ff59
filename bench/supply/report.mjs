import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(0)]);

export function asText(result) {
  const { load, rows, skills } = result;
  const head = `Adding, verifying and scanning skills. ${machine()}, load ${load.toFixed(2)} at the start.`;
  return `${[head, table(`${skills} skills of 4 files, whole commands, ms`, COLUMNS, rows), goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ rows }) {
  const at = (name) => rows.find((row) => row.name === name);
  const within = (text, { ms, least }, most) => ({
    text,
    measured: `${ms.toFixed(0)} ms (shortest ${least.toFixed(0)})`,
    isMet: ms <= most,
  });
  const [add, copy] = [at("skillet add --all"), at("git clone, then cp -r")];
  const [middle, least] = [add.ms / copy.ms, add.least / copy.least];
  const measured = `${middle.toFixed(2)} × (shortest times ${least.toFixed(2)} ×)`;
  return [
    { text: "adding: at most 3 × git clone, then cp -r", measured, isMet: middle <= 3 },
    within("verifying, cold: under 2 s", at("skillet verify, cold"), 2000),
    within("verifying, when nothing changed: under 200 ms", at("skillet verify, nothing changed"), 200),
    within("scanning: under 5 s", at("skillet scan"), 5000),
  ];
}
