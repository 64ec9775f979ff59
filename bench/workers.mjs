// Runs in Postgres side by side with runs in files: a step, the throughput of two processes, the memory of a run, and how soon the runs of a
// killed worker continue. Starts its own Postgres server, or uses DATABASE_URL, where `skillet engine init` created the tables.
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { openPostgresStores } from "skillet/postgres";
import { createRunStore } from "skillet/store";
import { measureQueued } from "./workers/queued.mjs";

const STEPS = 100;
const SIZES = { "1 kB": 1000, "100 kB": 100_000 };

export async function workers({ runs: rounds, say }) {
  const [load] = loadavg();
  const server = await findServer();
  if (server === undefined) return { absent: "Postgres is not installed: apt-get install postgresql" };
  try {
    say("workers: steps");
    const steps = await measureSteps(server.url, rounds);
    return { load, rounds, steps, ...(await measureQueued(server.url, { rounds, say })) };
  } finally {
    await server.remove();
  }
}

async function findServer() {
  const { DATABASE_URL: url } = process.env;
  if (url) return { url, remove: async () => {} };
  const { HAS_POSTGRES, startPostgres } = await import("../test/support/postgres.ts");
  if (!HAS_POSTGRES) return undefined;
  // As an installed server: a commit is on the disk, as a step in a file is.
  const server = await startPostgres({ fsync: "on", full_page_writes: "on" });
  return { url: await server.createEngine(), remove: server.remove };
}

/** Measures steps of both stores in turns, so that other load slows both. */
async function measureSteps(url, rounds) {
  const folder = mkdtempSync(join(tmpdir(), "skillet-bench-"));
  const { runs, close } = await openPostgresStores({ url });
  const stores = { files: createRunStore(folder), Postgres: runs };
  const rows = [];
  let number = 0;
  for (const [label, size] of Object.entries(SIZES)) {
    const medians = Object.fromEntries(Object.keys(stores).map((name) => [name, []]));
    for (let round = 0; round <= rounds; round++) {
      for (const [name, store] of Object.entries(stores)) {
        const ms = await measureStep(store, size, number++);
        if (round > 0) medians[name].push(ms);
      }
    }
    for (const name of Object.keys(stores))
      rows.push({ name: `a step of ${label}, ${name}`, ms: median(medians[name]) });
  }
  await close();
  rmSync(folder, { recursive: true, force: true });
  return rows;
}

/** Returns the median time of a step with its event. */
async function measureStep(store, size, number) {
  const id = `20260101-000000-${String(process.pid * 1000 + number)
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
