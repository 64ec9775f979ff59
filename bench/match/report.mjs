import { goalLines, machine, table } from "../report.mjs";
import { judge } from "./goals.mjs";

const SPEED = [
  ["make", ({ build }) => build?.toFixed(0)],
  ["least", ({ leastBuild }) => leastBuild?.toFixed(0)],
  ["again", ({ again }) => again?.toFixed(0)],
  ["1st query", ({ first }) => first?.toFixed(1)],
  ["median", ({ median }) => median?.toFixed(2)],
  ["p99", ({ p99 }) => p99?.toFixed(2)],
  ["most", ({ most }) => most?.toFixed(1)],
  ["finds", ({ hits }) => hits?.toFixed(0)],
  ["heap MB", ({ megabytes }) => megabytes?.toFixed(0)],
];
const WORST = [["ms", ({ ms }) => (ms < 1000 ? ms.toFixed(2) : ms.toFixed(0))]];
const COMMANDS = [
  ["ms", ({ ms }) => ms.toFixed(0)],
  ["least", ({ least }) => least.toFixed(0)],
  ["× node", ({ ratio }) => ratio.toFixed(2)],
  ["least ×", ({ leastRatio }) => leastRatio.toFixed(2)],
];
const RECALL = [
  ...[1, 3, 5].map((most) => [`@${most} %`, ({ at }) => at[most].toFixed(1)]),
  ["ms", ({ ms }) => ms.toFixed(2)],
];

export function asText(result) {
  const { speed, search, quality } = result;
  const parts = [
    `Matching skills to queries. ${machine()}.`,
    table(
      `${speed.size} skills, ${speed.queries} queries, ms; medians of ${speed.runs} processes, others ${speed.few}`,
      SPEED,
      speed.rows,
    ),
    table("Long queries and hostile patterns, all skills", WORST, worstRows(speed.worst)),
    table(`Commands with ${search.size} skills, one round after another`, COMMANDS, search.rows),
    quality && qualityTable(quality),
    goalLines(judge(result)),
  ];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function worstRows({ lengths, searches, hostile }) {
  const row = (name, ms) => ({ name, ms });
  return [
    ...lengths.rows.map(({ words, ms }) => row(`${words} words`, ms)),
    row("1 MB", lengths.megabyte),
    ...searches.rows.map(({ words, ms }) => row(`${words} words, instructions, no triggers`, ms)),
    ...hostile.together.map(({ letters, ms }) => row(`${letters} × a, then !`, ms)),
    ...[...hostile.plain, ...hostile.hostile].map(({ pattern, ms }) => row(`${hostile.letters}: only ${pattern}`, ms)),
    ...hostile.native.flatMap(({ pattern, rows }) =>
      rows.map(({ letters, ms }) => row(`${letters}: RegExp ${pattern}`, ms)),
    ),
  ];
}

function qualityTable({ tools, queries, unknown, asked, rows }) {
  const left = unknown > 0 ? `; ${unknown} lines without a known tool were skipped` : "";
  const title = `The right one of ${tools} skills among the first, ${asked} of ${queries} queries held out${left}`;
  return table(
    title,
    RECALL,
    rows.map((row) => ({ name: `${row.examples} examples a skill`, ...row })),
  );
}
