// Runs one measurement in a separate process: `node child.mjs '{"task": …}'`. Prints the result as JSON.
import { readFileSync } from "node:fs";
import { CONTENDERS } from "./contenders.mjs";
import { library } from "./library.mjs";
import { costOfHostile, costOfLength, costOfSearch } from "./worst.mjs";

const {
  task,
  contender,
  skills: path,
  indexFolder,
  queries: file,
  folder,
  rounds,
  seconds,
} = JSON.parse(process.argv[2]);
const { loadCatalog, createDirectorySource, createMatcher, defineSkill } = await library();
const queries = JSON.parse(readFileSync(file, "utf8"));
const opening = process.hrtime.bigint();
const catalog = await loadCatalog([createDirectorySource({ path, indexFolder })]);
const { skills } = catalog;
const open = since(opening);
const result = await (task === "worst" ? worst() : compare());
process.stdout.write(JSON.stringify({ found: skills.length, open, ...result }));

async function compare() {
  // The time to load these modules is not part of building an index.
  if (contender === "minisearch") await CONTENDERS.minisearch({ skills: [], folder });
  const building = process.hrtime.bigint();
  const { search } = await CONTENDERS[contender]({ createMatcher, skills, folder });
  const build = since(building);
  const asking = process.hrtime.bigint();
  await search(queries[0]);
  const first = since(asking);
  let hits = 0;
  for (const query of queries) hits += await search(query);
  const times = [];
  const end = process.hrtime.bigint() + BigInt(seconds * 1e9);
  for (let round = 0; round < rounds && (round === 0 || process.hrtime.bigint() < end); round++) {
    for (const query of queries) {
      const start = process.hrtime.bigint();
      await search(query);
      times.push(since(start));
    }
  }
  const megabytes = process.memoryUsage().heapUsed / 2 ** 20;
  const { skills: anew } = await catalog.reload();
  const rebuilding = process.hrtime.bigint();
  await CONTENDERS[contender]({ createMatcher, skills: anew, folder });
  const again = since(rebuilding);
  return { build, again, first, times, hits: hits / queries.length, megabytes };
}

async function worst() {
  const matcher = createMatcher(skills);
  for (let round = 0; round < 3; round++) for (const query of queries) await matcher.match(query);
  return {
    lengths: await costOfLength(matcher),
    searches: await costOfSearch(createMatcher(skills.map(withoutTriggers))),
    hostile: await costOfHostile({ matcher, createMatcher, defineSkill }),
  };
}

/** Removes the triggers: most published skills have none. */
function withoutTriggers(skill) {
  const none = { keywords: [], verbs: [], patterns: [], examples: [], negative: [] };
  const manifest = { ...skill.manifest, triggers: none, paths: [] };
  const { name, description, origin, findings } = skill;
  return { name, description, origin, findings, manifest, body: () => skill.body(), examples: () => [] };
}

function since(start) {
  return Number(process.hrtime.bigint() - start) / 1e6;
}
