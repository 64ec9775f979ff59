import { goalLines, machine, table } from "../report.mjs";
import { judge } from "./goals.mjs";

const times = (digits) =>
  ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(digits)]);
const SECOND = ["a second", ({ perSecond }) => perSecond.toFixed(0)];
const HELD = [
  ["rss MB", ({ rss }) => rss.toFixed(1)],
  ["heap MB", ({ heap }) => heap.toFixed(2)],
  ["threads", ({ threads }) => threads],
];

export function asText(result) {
  const { load, skills, starts, calls, clients, growth, once } = result;
  const parts = [
    `Serving ${skills} skills over MCP. ${machine()}, load ${load.toFixed(2)} at the start.`,
    table("From the start of a process until tools/list is answered, ms", times(1), starts),
    table("A call over stdio, ms", times(2), calls),
    table("A request over HTTP that has no session, ms; and ten at once", [...times(2), SECOND], once),
    ...clients.map(clientsText),
    table(
      "What a process holds after",
      HELD,
      growth.flatMap(({ rows }) => rows),
    ),
    goalLines(judge(result)),
  ];
  return `${parts.join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function clientsText({ name, count, before, during, after }) {
  const rows = [
    { name: "before", ...before },
    { name: `${count} clients`, ...during },
    { name: "when they have gone", ...after },
  ];
  return table(`What a process holds for clients that each have ${name}`, HELD, rows);
}
