// Measures a step of a run in Postgres side by side with a step in a file, and then workers: their throughput as a ratio to processes with
// files, the memory of a run, and how soon the runs of a killed worker continue. `node bench/workers.mjs`, after `npm run build`. Needs a
// database that it may write to: DATABASE_URL.
import "../tools/pinned-node.mjs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openPostgresStores } from "skillet/postgres";
import { createRunStore } from "skillet/store";
import { measureQueued } from "./workers/queued.mjs";

const ROUNDS = 7;
const STEPS = 100;
const SIZES = { "1 kB": 1000, "100 kB": 100_000 };

const url = process.env.DATABASE_URL;
if (!url) {
  process.stderr.write(
    "DATABASE_URL is not set: it names a database in which `skillet engine init` created the tables\n",
  );
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), "skillet-bench-"));
const { runs, close } = await openPostgresStores({ url });
const stores = { file: createRunStore(folder), postgres: runs };
const results = {};
let number = 0;

for (const [label, size] of Object.entries(SIZES)) {
  const medians = Object.fromEntries(Object.keys(stores).map((name) => [name, []]));
  // Interleaved, so that other load slows both.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, store] of Object.entries(stores)) {
      const ms = await measureStep(store, size);
      if (round > 0) medians[name].push(ms);
    }
  }
  const [file, postgres] = [median(medians.file), median(medians.postgres)];
  results[label] = { fileMs: round(file), postgresMs: round(postgres), ratio: round(postgres / file) };
}
await close();
rmSync(folder, { recursive: true, force: true });
if (!process.argv.includes("--steps")) results.workers = await measureQueued(url);
process.stdout.write(`${JSON.stringify(results, null, 2)}\n`);

/** Returns the median time of a step with its event. */
async function measureStep(store, size) {
  const id = `20260101-000000-${String(process.pid * 1000 + number++)
    .padStart(8, "0")
    .slice(-8)}`;
  const journal = await store.create({ head: { id, kind: "use", skill: "bench", task: "" }, request: {} });
  const value = "x".repeat(size);
  const times = [];
  for (let step = 0; step < STEPS; step++) {
    const start = performance.now();
    const event = { type: "tool-called", run: id, skill: "bench", at: new Date().toISOString(), tool: "t" };
    await Promise.all([journal.event(event), journal.step(`tool:${step}`, value)]);
    times.push(performance.now() - start);
  }
  await journal.close();
  return median(times);
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

function round(value) {
  return Math.round(value * 100) / 100;
}
