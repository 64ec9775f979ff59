import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { createPostgresRunStore, pruneRuns } from "../../../src/adapters/postgres/postgres-runs.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";

describe.skipIf(!HAS_POSTGRES)("retention", { timeout: 300_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("[E-28] lists and prunes 100,000 runs with 500,000 lines, and keeps those that wait", async () => {
    const database = await openDatabase({ url: await server.createEngine() });
    await database.query(`insert into skillet.runs (id, head, changed_at, tail)
      select 'run-' || n, repeat('x', 200), now() - interval '40 days', 'end' from generate_series(1, 100000) n`);
    await database.query(
      `insert into skillet.runs (id, head, changed_at) select 'waits-' || n, '{}', now() from generate_series(1, 1000) n`,
    );
    await database.query(`insert into skillet.lines (run, kind, line)
      select id, 'step', repeat('x', 500) from skillet.runs, generate_series(1, 5)`);
    await database.query("analyze skillet.runs");
    const store = createPostgresRunStore(database);
    const page = await store.search?.({ limit: 20 });
    expect([page?.runs.length, page?.total]).toEqual([20, 101_000]);
    expect(await pruneRuns(database, { days: 30, most: 1000 })).toBe(100_000);
    const [left] = await database.query(`select (select count(*)::int from skillet.runs) as runs,
      (select count(*)::int from skillet.lines) as lines`);
    expect(left).toEqual({ runs: 1000, lines: 5000 });
    await database.close();
  });
});
