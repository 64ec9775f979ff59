import { goalLines, machine } from "../report.mjs";

const MOST_SECONDS = 10;

export function asText(result) {
  const { load, skills, pairs, seconds, cpuSeconds } = result;
  const head = `Comparing the descriptions of ${skills} skills. ${machine()}, load ${load.toFixed(2)} at the start.`;
  const list = (values) => values.map((one) => one.toFixed(2)).join(", ");
  const body = `${list(seconds)} s, of which the processor works ${list(cpuSeconds)} s; ${pairs} pairs compete`;
  return `${[head, body, goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ skills, seconds }) {
  const median = seconds.toSorted((a, b) => a - b)[Math.floor(seconds.length / 2)];
  return [
    {
      text: `${skills} skills: less than ${MOST_SECONDS} s`,
      measured: `${median.toFixed(2)} s`,
      isMet: median < MOST_SECONDS,
    },
  ];
}
