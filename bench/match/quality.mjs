import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { library } from "./library.mjs";

const HELD_OUT = 4000;
const EXAMPLES = [0, 5, 20];
const AT = [1, 3, 5];

/**
 * Measures how often the right skill is among the first few, for queries with known answers. `tools.json` has descriptions by
 * name, `queries.csv` the columns Query and Tool. Every name becomes a skill.
 */
export async function quality({ folder, say }) {
  const parts = await library();
  const tools = JSON.parse(readFileSync(join(folder, "tools.json"), "utf8"));
  const [, ...lines] = readCsv(readFileSync(join(folder, "queries.csv"), "utf8"));
  const known = lines.flatMap(([query, tool]) =>
    Object.hasOwn(tools, tool) ? { query, tool, key: sha256(query) } : [],
  );
  known.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const [asked, others] = [known.slice(0, HELD_OUT), known.slice(HELD_OUT)];
  const rows = [];
  for (const number of EXAMPLES) {
    say(`quality: ${number} examples a skill`);
    const examples = examplesOf(others, number);
    const skills = Object.entries(tools).map(([name, text]) => skillOf(parts, { name, text, examples }));
    rows.push({ examples: number, ...(await recall(parts.createMatcher(skills), asked)) });
  }
  return {
    tools: Object.keys(tools).length,
    queries: known.length,
    unknown: lines.length - known.length,
    asked: asked.length,
    rows,
  };
}

async function recall(matcher, asked) {
  const within = AT.map(() => 0);
  const start = process.hrtime.bigint();
  for (const { query, tool } of asked) {
    const place = (await matcher.match(query)).matches.findIndex(({ skill }) => skill.name === tool);
    for (const [index, most] of AT.entries()) if (place !== -1 && place < most) within[index]++;
  }
  const ms = Number(process.hrtime.bigint() - start) / 1e6 / asked.length;
  return { at: Object.fromEntries(AT.map((most, index) => [most, (100 * within[index]) / asked.length])), ms };
}

function examplesOf(queries, number) {
  const examples = new Map();
  for (const { query, tool } of queries) {
    const list = examples.get(tool) ?? [];
    if (list.length < number) list.push(query);
    examples.set(tool, list);
  }
  return examples;
}

// The names and texts may be invalid and defineSkill is strict, so they are added to its result afterwards.
function skillOf({ defineSkill }, { name, text, examples }) {
  const plain = defineSkill({ name: "tool", description: "A tool.", instructions: "Use it." });
  const own = examples.get(name) ?? [];
  const manifest = { ...plain.manifest, description: text, triggers: { ...plain.manifest.triggers, examples: own } };
  return { ...plain, name, description: text, manifest, examples: () => own };
}

function sha256(text) {
  return createHash("sha256").update(text).digest("hex");
}

/** Parses rows of cells by RFC 4180: a quoted cell may contain commas, line breaks and doubled quotes. */
function readCsv(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain);
    if (end !== ",") rows.push([]);
  }
  return rows.filter((row) => row.length > 1);
}
