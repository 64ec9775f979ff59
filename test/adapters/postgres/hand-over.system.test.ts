import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createMachine, detach, formatLedger, openScene, startWorld, viewEngine } from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { IS_LONG } from "../../support/sample-steps.ts";
import { waitFor } from "../../support/wait-for.ts";

/** The database of the previous release, with active runs. */
const OLD_ENGINE = join(import.meta.dirname, "../../fixtures/old-engine/engine-1.sql");

describe.skipIf(!HAS_POSTGRES)("runs that move to another worker", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("[E-11] move once when several workers find the same one gone, or the same legs lost", async () => {
    const [url, world] = [await server.createEngine(), await startWorld()];
    const machine = createMachine({ url, world });
    const ids = [await detach(machine, "payer", "pay a 1"), await detach(machine, "payer", "pay b 1")];
    const reapers = await Promise.all(Array.from({ length: 5 }, () => viewEngine(url)));
    const [{ database }] = reapers as [(typeof reapers)[0]];
    const listLegs = () => database.query("select leg, dispatch, worker from skillet.runs order by id");
    await database.query(
      `insert into skillet.workers (name, host, pid, version, slots, queues) values ('gone', 'h', 1, '0', 8, '{runs}')`,
    );
    await database.query("update skillet.runs set dispatch = 'working', worker = 'gone'");
    const [gone] = await database.query("select seen_at::text as seen_at from skillet.workers");
    const moved = await Promise.all(reapers.map(({ queue }) => queue.recover("gone", String(gone?.["seen_at"]))));
    expect(moved.filter(Boolean).map((legs) => legs?.map(({ run }) => run).sort())).toEqual([ids.sort()]);
    expect(await listLegs()).toEqual(ids.map(() => ({ leg: 2, dispatch: "queued", worker: null })));

    await database.query("delete from dbos.workflow_status");
    await database.query("update skillet.runs set changed_at = now() - interval '1 minute'");
    const found = await Promise.all(reapers.map(({ queue }) => queue.sweep()));
    expect(found.reduce((sum, count) => sum + count, 0)).toBe(2);
    expect(await listLegs()).toEqual(ids.map(() => ({ leg: 3, dispatch: "queued", worker: null })));
    const legs = await database.query("select workflow_uuid as id from dbos.workflow_status order by 1");
    expect(legs.map(({ id }) => id)).toEqual(ids.map((id) => `${id}#3`));
  });

  it("[E-09] are taken from a worker that froze in a transaction, and the one that waits for its locks lives", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 1 });
    const id = await detach(machine, "payer", "pay a 1");
    await engine.database.query(
      `insert into skillet.workers (name, host, pid, version, slots, queues, seen_at)
        values ('frozen', 'h', 1, '0', 8, '{runs}', now() - interval '1 minute')`,
    );
    await engine.database.query("update skillet.runs set dispatch = 'working', worker = 'frozen'");
    const scene = { isLocked: false, isFrozen: false, isOver: false };
    const over = Promise.withResolvers<void>();
    const frozen = (await viewEngine(url)).database
      .transaction(async ({ query }) => {
        if (scene.isOver) return;
        await query("select 1 from skillet.runs for update");
        scene.isLocked = true;
        while (!scene.isFrozen) await query("select pg_sleep(0.05)");
        await over.promise;
      })
      .catch(() => {});
    onTestFinished(async () => {
      scene.isFrozen = scene.isOver = true;
      over.resolve();
      await frozen;
    });
    await waitFor(() => scene.isLocked);
    const worker = await machine.startWorker();
    const readWorker = async () => {
      const [row] = await engine.database.query({
        text: `select seen_at::text as seen, exists (select 1 from pg_stat_activity where wait_event_type = 'Lock') as waits
          from skillet.workers where name = $1`,
        values: [worker.name],
      });
      return row;
    };
    await waitFor(async () => (await readWorker())?.["waits"] === true);
    const before = await readWorker();
    await waitFor(async () => (await readWorker())?.["seen"] !== before?.["seen"]);
    expect((await readWorker())?.["waits"]).toBe(true);

    scene.isFrozen = true;
    await engine.waitFor([id], "ended");
    expect(worker.events).toContainEqual(
      expect.objectContaining({ type: "worker-lost", worker: "frozen", runs: [id] }),
    );
    expect(formatLedger(world)).toEqual(["a 0"]);
  });

  it.each(IS_LONG ? [["fetch"], ["write"]] : [["write"]])(
    "[E-08] send nothing when the worker froze right before the %s of a call and another one made it",
    async (place) => {
      const [url, world] = [await server.createEngine(), await startWorld()];
      const engine = await viewEngine(url);
      const frozen = createMachine({ url, world, leaseSeconds: 1, env: { FREEZE_BEFORE: place } });
      const worker = await frozen.startWorker();
      const id = await detach(frozen, "payer", "pay a 2");
      await waitFor(() => / T /.test(readFileSync(`/proc/${worker.pid}/stat`, "utf8")));
      expect(formatLedger(world)).toEqual([]);
      await createMachine({ url, world, leaseSeconds: 1 }).startWorker();
      await engine.waitFor([id], "ended");
      expect(formatLedger(world)).toEqual(["a 0", "a 1"]);
      worker.signal("SIGCONT");
      await waitFor(() => worker.events.some((event) => event.type === "run-left" && event.run === id));
      expect(formatLedger(world)).toEqual(["a 0", "a 1"]);
    },
  );

  it("[E-12] hold no slot and no lease while they wait for an approval", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, needsApproval: true });
    const ids: string[] = [];
    for (let index = 0; index < 8; index++) ids.push(await detach(machine, "payer", `pay t${index} 1`));
    await machine.startWorker("--slots", "1");
    await engine.waitFor(ids, "waiting");
    const isIdle = async () => {
      const [worker] = await engine.queue.listWorkers();
      const [row] = await engine.database.query(`select count(*) filter (where lease_until is not null) as leases,
        (select count(*) from dbos.workflow_status where status = 'PENDING') as legs from skillet.runs`);
      return worker?.running === 0 && Number(row?.["leases"]) === 0 && Number(row?.["legs"]) === 0;
    };
    await waitFor(isIdle);
    expect(formatLedger(world)).toEqual([]);
    // The slot executes another run while all of these wait.
    const [first = ""] = ids;
    expect(await machine.command("approve", first, "--yes")).toMatchObject({ code: 0 });
    await engine.waitFor([first], "ended");
    expect(formatLedger(world)).toEqual(["t0 0"]);
  });

  it("[E-25] of the previous release are resumed by this one", async () => {
    const [url, world] = [await server.createDatabase(), await startWorld()];
    await server.psql(new URL(url).pathname.slice(1), readFileSync(OLD_ENGINE, "utf8"));
    const machine = createMachine({ url, world });
    expect(await machine.command("runs")).toMatchObject({ stderr: expect.stringContaining("engine-outdated") });
    expect(await machine.command("engine", "init")).toMatchObject({ code: 0 });
    const engine = await viewEngine(url);
    const runs = await engine.runs.list();
    expect(runs.map(({ state, task }) => [state, task])).toEqual([
      ["queued", "pay queued 1"],
      ["interrupted", "delegate half 6"],
      ["waiting", "pay asked 2"],
    ]);
    await machine.startWorker();
    expect(await machine.command("approve", runs[2]?.id ?? "", "--yes")).toMatchObject({ code: 0 });
    await engine.waitFor(
      runs.map(({ id }) => id),
      "ended",
    );
    // The nested run was over: only the active call is repeated.
    expect(formatLedger(world).sort()).toEqual(["asked 0", "asked 1", "half 0", "half 1", "half 2", "queued 0"]);
  });
});
