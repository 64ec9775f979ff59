import { createServer } from "node:net";
import { join } from "node:path";
import type { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { createDbosDispatcher } from "../../../src/adapters/postgres/dispatcher.ts";
import {
  createMachine,
  detach,
  findRepeated,
  formatLedger,
  listLostWorkers,
  openScene,
  type WorkerProcess,
} from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("workers that are lost, or lose the database,", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const countTaken = ({ events }: WorkerProcess) => events.filter(({ type }) => type === "run-taken").length;

  it("[E-09] continue the runs of a worker that was killed, and repeat at most the call in flight", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world });
    world.setDelay(100);
    const [first, second] = [await machine.startWorker("--slots", "4"), await machine.startWorker("--slots", "4")];
    const ids: string[] = [];
    for (let index = 0; index < 6; index++) ids.push(await detach(machine, "payer", `pay t${index} 6`));
    await waitFor(() => world.ledger.length > 8 && first.events.some(({ type }) => type === "run-taken"));
    first.signal("SIGKILL");
    const taken = countTaken(first);
    await engine.waitFor(ids, "ended");
    expect(listLostWorkers(second)).toEqual([first.name]);
    expect(new Set(formatLedger(world)).size).toBe(36);
    expect(findRepeated(world).length).toBeLessThanOrEqual(taken);
  });

  it("[E-09] take the runs of a frozen worker, which does nothing more when it wakes", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 2 });
    world.setDelay(100);
    const workers = [await machine.startWorker(), await machine.startWorker()];
    const id = await detach(machine, "payer", "pay a 20");
    await waitFor(() => world.ledger.length > 3);
    const [frozen, next] = workers.sort((a, b) => countTaken(b) - countTaken(a));
    if (!frozen || !next) throw new Error("two workers");
    frozen.signal("SIGSTOP");
    await engine.waitFor([id], "ended");
    expect(listLostWorkers(next)).toEqual([frozen.name]);
    const { length } = world.ledger;
    frozen.signal("SIGCONT");
    await waitFor(() => frozen.events.some(({ type }) => type === "run-left"));
    expect(world.ledger.length).toBe(length);
    expect(findRepeated(world).length).toBeLessThanOrEqual(1);
    const steps = (await engine.runs.read(id)).lines.flatMap((line) => (line.type === "step" ? line.name : []));
    expect(steps.length).toBe(new Set(steps).size);
  });

  it("[E-13] abandon a run that ends its worker, and execute the others", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 2 });
    const workers: WorkerProcess[] = [];
    world.onPayment(({ tag }) => {
      if (tag !== "poison") return;
      for (const worker of workers)
        if (worker.events.some((event) => event.type === "run-taken" && event.run === poison)) worker.signal("SIGKILL");
    });
    const poison = await detach(machine, "payer", "pay poison 1");
    for (let count = 0; count < 3; count++) {
      const worker = await machine.startWorker();
      workers.push(worker);
      if (count < 2) await worker.ended;
    }
    const other = await detach(machine, "payer", "pay other 2");
    await engine.waitFor([other], "ended");
    await engine.waitFor([poison], "stuck");
    expect((await engine.runs.find(poison)).problem?.code).toBe("run-poisonous");
    expect(formatLedger(world).filter((payment) => payment === "poison 0")).toHaveLength(2);
    expect((await machine.command("runs")).stdout).toContain("skillet resume");
  });

  it("[E-13] repeat little of the other runs while a run ends its workers", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 2 });
    const workers: WorkerProcess[] = [];
    let poison = "";
    const isAt = ({ events }: WorkerProcess) =>
      events.some((event) => event.type === "run-taken" && event.run === poison);
    world.onPayment(({ tag }) => {
      if (tag === "poison") for (const worker of workers.filter(isAt)) worker.signal("SIGKILL");
    });
    world.setDelay(50);
    for (let count = 0; count < 3; count++) workers.push(await machine.startWorker("--slots", "2"));
    poison = await detach(machine, "payer", "pay poison 1");
    const others: string[] = [];
    for (let index = 0; index < 10; index++) others.push(await detach(machine, "payer", `pay t${index} 3`));
    await engine.waitFor([poison], "stuck");
    await engine.waitFor(others, "ended");
    // Each of the two workers that it ended had one other run at most: 10 runs cost 12 legs at most.
    const legs = workers.flatMap(({ events }) => events.filter(({ type }) => type === "run-taken")).length - 2;
    expect(others.length / legs).toBeGreaterThanOrEqual(0.8);
    expect(new Set(formatLedger(world).filter((payment) => payment !== "poison 0")).size).toBe(30);
  });

  it("[E-26] [E-10] survive an outage longer than a lease, in which commands fail with a fix", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 4 });
    world.setDelay(100);
    const workers = [await machine.startWorker("--slots", "2"), await machine.startWorker("--slots", "2")];
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) ids.push(await detach(machine, "payer", `pay t${index} 6`));
    await waitFor(() => world.ledger.length > 4);
    await server.stop("immediate");
    // Together they wait for longer than a lease.
    for (const args of [["runs"], ["run", "payer", "pay x 1", "--detach"]]) {
      const { code, stderr } = await machine.command(...args);
      expect(code).toBe(1);
      expect(stderr).toContain("engine-unavailable");
      expect(stderr).toContain("skillet engine check");
    }
    expect(workers.map(({ child }) => child.exitCode)).toEqual([null, null]);
    await server.start();
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(24);
    expect(workers.flatMap(listLostWorkers)).toEqual([]);
  });

  it("[E-26] ask an unavailable database again about once a second, however long it is away", async () => {
    const folder = temporaryFolder();
    let attempts = 0;
    const refusing = createServer((socket) => {
      socket.once("data", () => {
        attempts++;
        socket.destroy();
      });
    });
    await new Promise<void>((resolve) => refusing.listen(join(folder, ".s.PGSQL.5432"), resolve));
    onTestFinished(() => void refusing.close());
    const url = `postgres://localhost/none?host=${encodeURIComponent(folder)}`;
    const database = await openDatabase({ url });
    const dispatcher = createDbosDispatcher(database, url);
    const answer = dispatcher.findLive([{ run: "a", leg: 1 }], new Set()).catch((error) => error);
    // With pauses that double up to a minute, the eighth attempt comes after two minutes.
    await waitFor(() => attempts >= 8);
    refusing.close();
    await (database.pool as Pool).end();
    expect(await answer).toBeInstanceOf(Error);
  });

  it("[E-10] survive the end of a connection that a library has taken, between two statements", async () => {
    const database = await openDatabase({ url: await server.createDatabase() });
    onTestFinished(() => database.close());
    const client = await (database.pool as Pool).connect();
    const { rows } = await client.query("select pg_backend_pid() as pid");
    const ended = new Promise<void>((resolve) => client.once("end", resolve));
    await server.psql("postgres", `select pg_terminate_backend(${rows[0].pid})`);
    await ended;
    client.release(true);
    expect(await database.query("select 1 as one")).toEqual([{ one: 1 }]);
  });

  it("[E-10] survive restarts of the server, and repeat nothing", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world, leaseSeconds: 4 });
    world.setDelay(100);
    const workers = [await machine.startWorker("--slots", "2"), await machine.startWorker("--slots", "2")];
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) ids.push(await detach(machine, "payer", `pay t${index} 12`));
    for (let count = 0; count < 3; count++) {
      const { length } = world.ledger;
      await waitFor(() => world.ledger.length > length + 4);
      await server.stop("immediate");
      await server.start();
    }
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(48);
    expect(workers.flatMap(listLostWorkers)).toEqual([]);
  });
});
