import { afterAll, beforeAll, describe, it } from "vitest";
import { type Database, openDatabase } from "../../../src/adapters/postgres/database.ts";
import { createPostgresRunStore } from "../../../src/adapters/postgres/postgres-runs.ts";
import type { RunStore } from "../../../src/store/runs.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { useExternalDriver } from "../../support/run-drivers.ts";

// The suites of runs, approvals and conversations, unchanged, with their runs in Postgres.
let server: PostgresServer | undefined;
const opened: Promise<Database>[] = [];

beforeAll(async () => {
  if (HAS_POSTGRES) server = await startPostgres();
});
afterAll(async () => {
  for (const database of opened) await (await database).close();
  await server?.remove();
});

useExternalDriver("postgres", () => {
  let engine: Promise<string> | undefined;
  return () => {
    const open = async () => {
      engine ??= server?.createEngine();
      const database = openDatabase({ url: (await engine) ?? "", connections: 3 });
      opened.push(database);
      return createPostgresRunStore(await database);
    };
    return createDeferredStore(open);
  };
});

/** A scene opens its runs without waiting: the store is opened with the first call. */
function createDeferredStore(open: () => Promise<RunStore>): RunStore {
  let store: Promise<RunStore> | undefined;
  const get = () => {
    store ??= open();
    return store;
  };
  return {
    create: async (run) => (await get()).create(run),
    resume: async (id) => (await get()).resume(id),
    list: async () => (await get()).list(),
    find: async (written) => (await get()).find(written),
    read: async (id) => (await get()).read(id),
    answer: async (id, approval, about) => (await get()).answer(id, approval, about),
    cancel: async (id) => (await get()).cancel(id),
    prune: async (keep, options) => (await get()).prune(keep, options),
  };
}

describe.skipIf(!HAS_POSTGRES)("with runs in Postgres", async () => {
  if (!HAS_POSTGRES) return it("needs Postgres");
  await import("../../agent/resume.test.ts");
  await import("../../agent/journal-resume.test.ts");
  await import("../../agent/approvals.test.ts");
});
