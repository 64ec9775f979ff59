import { goalLines, machine, table } from "../report.mjs";

const COLUMNS = [["median", ({ value, unit }) => `${value.toFixed(unit === "MB" ? 1 : 0)} ${unit}`]];

export function asText(result) {
  const { load, rounds, rows, sizes } = result;
  const head = `The page of skillet studio: start with ${sizes.start} skills, page with ${sizes.page}. ${machine()}, load ${load.toFixed(2)} at the start.`;
  return `${[head, table(`${rounds} interleaved rounds`, COLUMNS, rows), goalLines(judge(result))].join("\n\n")}\n`;
}

export function asJson(result) {
  return { node: process.versions.node, ...result, goals: judge(result) };
}

/** Judges the goals as ratios of interleaved measurements. */
function judge({ rows }) {
  const getValue = (name) => rows.find((row) => row.name === name).value;
  const ratio = (text, name, base, most) => {
    const measured = getValue(name) / getValue(base);
    return { text: `${text}: at most ${most} ×`, measured: `${measured.toFixed(2)} ×`, isMet: measured <= most };
  };
  const added = getValue("memory of studio") - getValue("memory of list --watch");
  return [
    ratio("start to the first byte, to skillet list", "start to first byte", "skillet list", 2),
    ratio(
      "main-thread time until the rows are there, to a static page",
      "page of studio, main thread",
      "static page, main thread",
      3,
    ),
    ratio("nodes of the page, to a static page", "page of studio, nodes", "static page, nodes", 1),
    ratio("time until the rows are there, to a static page", "page of studio, rows", "static page, rows", 1.5),
    { text: "the server adds less than 30 MB to list --watch", measured: `${added.toFixed(1)} MB`, isMet: added < 30 },
  ];
}
