import { goalLines, machine, table } from "../report.mjs";

const COLD_MS = 200;
const COLD_TIMES_NODE = 5;
const WARM_MS = 50;

const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(1)]);

export function asText(result) {
  const { load, skills, cold, warm } = result;
  const parts = [
    `Advising on prompts over ${skills} skills. ${machine()}, load ${load.toFixed(2)} at the start.`,
    table("A new process for each prompt, with a stored index, ms", COLUMNS, cold),
    table("The advise tool of a running server, ms", COLUMNS, warm),
    goalLines(judge(result)),
  ];
  return `${parts.join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ cold: [node, ...hooks], warm }) {
  const advise = warm.find(({ name }) => name === "advise");
  return [
    ...hooks.flatMap(({ name, ms, least }) => [
      {
        text: `${name}: at most ${COLD_TIMES_NODE} × node -e 0`,
        measured: `${(ms / node.ms).toFixed(2)} × (shortest times ${(least / node.least).toFixed(2)} ×)`,
        isMet: ms <= node.ms * COLD_TIMES_NODE,
      },
      { text: `${name}: at most ${COLD_MS} ms`, measured: `${ms.toFixed(0)} ms`, isMet: ms <= COLD_MS },
    ]),
    {
      text: `advise: at most ${WARM_MS} ms, the slowest of twenty too`,
      measured: `${advise.ms.toFixed(1)} ms, ${advise.p95.toFixed(1)}`,
      isMet: advise.p95 <= WARM_MS,
    },
  ];
}
