import { goalLines, machine, table } from "../report.mjs";

/** The goals of requirements E-03, E-09 and E-31. */
const MOST_STEP = { "1 kB": 3, "100 kB": 4 };
const LEAST_THROUGHPUT = 0.6;
const MOST_MEGABYTES = 1.5;
const MOST_TAKEOVER_SECONDS = 3;

const RATES = [
  ["runs/s", ({ perSecond }) => perSecond.toFixed(1)],
  ["CPU ms a run", ({ cpuMs }) => cpuMs.toFixed(1)],
];

export function asText(result) {
  if (result.absent) return `Workers: not measured. ${result.absent}\n`;
  const { load, steps, throughput, memory, takeover } = result;
  const head = `Workers. ${machine()}, load ${load.toFixed(2)} at the start.`;
  return `${[
    head,
    table("Steps, ms", [["median", ({ ms }) => ms.toFixed(3)]], steps),
    table("Throughput, medians", RATES, throughput.rows),
    `Memory of a worker: ${memory.idleMb} MB, with ${memory.atOnce} runs at once ${memory.busyMb} MB.`,
    `Runs of a killed worker: ${takeover.medianSeconds} s in the median of ${takeover.kills}.`,
    goalLines(judge(result)),
  ].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, ...(result.absent ? {} : { goals: judge(result) }) };
}

function judge({ steps, throughput, memory, takeover }) {
  const at = (name) => steps.find((row) => row.name === name).ms;
  const goal = (text, measured, isMet) => ({ text, measured, isMet });
  const ofStep = ([size, most]) => {
    const ratio = at(`a step of ${size}, Postgres`) / at(`a step of ${size}, files`);
    return goal(`a step of ${size} takes at most ${most} × one in a file`, `${ratio.toFixed(2)} ×`, ratio <= most);
  };
  const { ratios, median } = throughput;
  return [
    ...Object.entries(MOST_STEP).map(ofStep),
    goal(
      `two workers reach ${LEAST_THROUGHPUT} × the throughput of two processes with files`,
      `${median} × (${ratios.join(", ")})`,
      median >= LEAST_THROUGHPUT,
    ),
    goal(
      `one of ${memory.atOnce} runs at once takes at most ${MOST_MEGABYTES} MB`,
      `${memory.mbPerRun} MB`,
      memory.mbPerRun <= MOST_MEGABYTES,
    ),
    goal(
      `the runs of a killed worker continue within ${MOST_TAKEOVER_SECONDS} s`,
      `${takeover.p95Seconds} s (95 %)`,
      takeover.p95Seconds <= MOST_TAKEOVER_SECONDS,
    ),
  ];
}
