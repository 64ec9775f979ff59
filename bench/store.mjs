// Puts new measurements into bench/results, for docs/benchmarks.md: node bench/store.mjs OUTPUT "conditions of the machine"
// OUTPUT is the output of `npm run bench -- NAME… --json`. A result names its bench and the field; a row names its line with `from`.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";

const RESULTS = join(import.meta.dirname, "results");
const [file, conditions] = process.argv.slice(2);
if (file === undefined || conditions === undefined)
  throw new Error("usage: node bench/store.mjs OUTPUT CONDITIONS: the load, the rounds, and what else ran");
const text = readFileSync(file, "utf8");
const measured = JSON.parse(text.slice(text.search(/^\{/m)));

for (const name of readdirSync(RESULTS)) {
  const path = join(RESULTS, name);
  const result = JSON.parse(readFileSync(path, "utf8"));
  const { bench, size, field } = result.measure ?? {};
  if (measured[bench] === undefined) continue;
  const lines = listLines(measured[bench]).filter((line) => size === undefined || line.size === size);
  // Other tools are measured rarely: without them, a result keeps all of its rows.
  const found = result.rows.map(({ from }) => lines.find((line) => line.name === from && line[field] !== undefined));
  if (found.some((line) => line === undefined)) {
    process.stdout.write(`${name}: unchanged, because not all of its rows were measured\n`);
    continue;
  }
  for (const [index, line] of found.entries()) result.rows[index].value = round(line[field]);
  const date = new Date().toISOString().slice(0, 10);
  const { node = process.versions.node } = measured[bench];
  const machine = `Linux x64, ${cpus().length} cores, Node ${node}`;
  writeFileSync(path, `${JSON.stringify({ ...result, date, machine, conditions }, null, 2)}\n`);
  process.stdout.write(`${name}: stored; now: npm run docs\n`);
}

/** Lists all lines of tables, at any depth, with the size that they belong to. */
function listLines(value, size) {
  if (typeof value !== "object" || value === null) return [];
  const inner = value.size ?? size;
  const own = typeof value.name === "string" ? [{ ...value, size: inner }] : [];
  return [...own, ...Object.values(value).flatMap((one) => listLines(one, inner))];
}

function round(value) {
  return value >= 20 ? Math.round(value) : Number(value.toPrecision(2));
}
