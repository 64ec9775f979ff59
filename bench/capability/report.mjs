import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = ["ms", "p95", "least"].map((key) => [key === "ms" ? "median" : key, (row) => row[key].toFixed(3)]);

export function asText(result) {
  const { load, rows, atOnce } = result;
  const head = `Capabilities. ${machine()}, load ${load.toFixed(2)} at the start.`;
  const runs = `${atOnce.runs} runs at once, each with its own sandbox and socket: ${Math.round(atOnce.ms)} ms.`;
  return `${[head, table("Each, ms", COLUMNS, rows), runs, goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

function judge({ rows, verifications, atOnce }) {
  const at = (start) => rows.find(({ name }) => name.startsWith(start));
  const beside = at("a call").ms - at("the provider").ms;
  const { perCoreSecond } = verifications;
  return [
    {
      text: "a call takes less than 2 ms in addition to the provider",
      measured: `${beside.toFixed(3)} ms`,
      isMet: beside < 2,
    },
    {
      text: "one core verifies 5,000 tokens a second",
      measured: `${Math.round(perCoreSecond)}`,
      isMet: perCoreSecond >= 5000,
    },
    {
      text: `of ${atOnce.runs} runs at once, none sees another's socket`,
      measured: atOnce.isAlone ? "none does" : "one does",
      isMet: atOnce.isAlone,
    },
  ];
}
