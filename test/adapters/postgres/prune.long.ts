import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import {
  createPostgresRunStore,
  formatDeletion,
  formatSearch,
  pruneRuns,
  SELECT_OLD,
} from "../../../src/adapters/postgres/postgres-runs.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";

describe.skipIf(!HAS_POSTGRES)("retention", { timeout: 300_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("[E-28] lists and prunes 100,000 runs with 500,000 lines, and keeps those that wait", async () => {
    const database = await openDatabase({ url: await server.createEngine() });
    const countBuffers = async (statement: string) => {
      const [row] = await database.query(`explain (analyze, buffers, format json) ${statement}`);
      const [{ Plan: plan } = { Plan: {} }] = (row?.["QUERY PLAN"] ?? []) as { Plan: Record<string, number> }[];
      return Number(plan["Shared Hit Blocks"]) + Number(plan["Shared Read Blocks"]);
    };
    const list = ["'infinity'", "'~'", "null", "null", "20"].reduce(
      (sql, value, index) => sql.replaceAll(`$${index + 1}`, value),
      formatSearch("true"),
    );
    const fill = async (prefix: string, from: number, to: number) => {
      await database.query(`insert into skillet.runs (id, head, changed_at, tail)
        select '${prefix}' || n, repeat('x', 200), now() - interval '40 days', 'end' from generate_series(${from}, ${to}) n`);
      await database.query(`insert into skillet.lines (run, kind, line)
        select id, 'step', repeat('x', 500) from skillet.runs, generate_series(1, 5) where id like '${prefix}%'`);
      await database.query("vacuum analyze skillet.runs");
    };
    await database.query(
      `insert into skillet.runs (id, head, changed_at) select 'waits-' || n, '{}', now() from generate_series(1, 1000) n`,
    );
    await database.query(`insert into skillet.lines (run, kind, line)
      select id, 'step', repeat('x', 500) from skillet.runs, generate_series(1, 5) where id like 'waits-%'`);
    await fill("first-", 1, 1000);
    const ofFirst = await countBuffers(list);
    await fill("run-", 1, 99_000);
    // A list of 20 reads at most twice the pages among 101,000 runs that it reads among 2,000.
    expect(await countBuffers(list)).toBeLessThanOrEqual(2 * ofFirst);
    const store = createPostgresRunStore(database);
    const page = await store.search?.({ limit: 20 });
    expect([page?.runs.length, page?.total]).toEqual([20, 101_000]);

    // The cost of a batch is that of its rows: those that are left at the end cost as much as the first ones.
    const batch = formatDeletion(`r.id = any(array(${SELECT_OLD.replace("$1", "(now() - interval '30 days')")}))`);
    const first = await countBuffers(batch);
    expect(await pruneRuns(database, { days: 30, most: 1000 })).toBe(95_000);
    await fill("last-", 1, 5000);
    expect(await countBuffers(batch)).toBeLessThanOrEqual(2 * first);
    expect(first).toBeGreaterThan(5000);
    const [left] = await database.query(`select (select count(*)::int from skillet.runs) as runs,
      (select count(*)::int from skillet.lines) as lines`);
    expect(left).toEqual({ runs: 1000, lines: 5000 });
    await database.close();
  });
});
