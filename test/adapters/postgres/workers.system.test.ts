import { cpSync } from "node:fs";
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

describe.skipIf(!HAS_POSTGRES)("workers", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const countTaken = ({ events }: WorkerProcess) => events.filter(({ type }) => type === "run-taken").length;

  it("execute a detached run with a nested one, which every machine shows", async () => {
    const { url, world, engine } = await openScene(server);
    const [here, there] = [createMachine({ url, world }), createMachine({ url, world })];
    const worker = await there.startWorker("--name", "first");
    const id = await detach(here, "outer", "delegate a 4");
    await engine.waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a-inner 0", "a-inner 1", "a 0", "a 1"]);
    const shown = JSON.parse((await here.command("runs", "show", id, "--json")).stdout);
    expect(shown).toMatchObject({ problems: [], summary: { state: "ended", queue: "runs" } });
    expect((await here.command("workers")).stdout).toMatch(/^first {2}running {2}\d\/8 slots {2}runs/);
    await waitFor(() => expect(worker.events.map(({ type }) => type)).toContain("run-left"));
    worker.signal("SIGTERM");
    expect(await worker.ended).toBe(0);
    expect(worker.events.map(({ type }) => type)).toEqual([
      ...["worker-started", "run-taken", "run-left", "worker-draining", "worker-stopped"],
    ]);
    expect(JSON.parse((await here.command("workers", "--json")).stdout).workers).toEqual([]);
  });

  it("[E-19] apply an approval and a denial of one machine on another with a different home", async () => {
    const { url, world, engine } = await openScene(server);
    const machines = [0, 1].map(() => createMachine({ url, world, needsApproval: true }));
    const [first, second] = machines;
    if (!first || !second) throw new Error("two machines");
    const worker = await first.startWorker();
    const ids = [await detach(second, "payer", "pay yes 1"), await detach(second, "payer", "pay no 1")];
    await engine.waitFor(ids, "waiting");
    worker.signal("SIGTERM");
    await worker.ended;
    const [yes = "", no = ""] = ids;
    expect(await second.command("approve", yes, "--yes")).toMatchObject({ code: 0 });
    expect(await second.command("approve", no, "--deny", "too much", "--yes")).toMatchObject({ code: 0 });
    await second.startWorker();
    await waitFor(() => formatLedger(world).length > 0);
    expect(formatLedger(world)).toEqual(["yes 0"]);
    await engine.waitFor([yes], "ended");
    const { lines } = await engine.runs.read(yes);
    expect(lines.filter(({ type }) => type === "ask")).toHaveLength(1);
  });

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

  it("[E-18] return a run whose skill they lack, or have in another copy, until one has it", async () => {
    const { url, world, engine } = await openScene(server);
    const [right, without, changed] = [
      createMachine({ url, world }),
      createMachine({ url, world, skills: {} }),
      createMachine({ url, world, skills: { payer: "Pay twice." } }),
    ];
    const wrong = [await without.startWorker(), await changed.startWorker()];
    const { stdout, stderr } = await right.command("run", "payer", "pay a 1", "--detach");
    expect(stderr).toContain("no worker has payer as it is here");
    const id = stdout.trim();
    await waitFor(async () => (await engine.runs.find(id)).problem !== undefined);
    expect((await engine.runs.find(id)).problem).toMatchObject({ code: "skill-not-on-worker" });
    expect((await right.command("runs", "show", id)).stdout).toContain("'payer': the run needs");
    await engine.waitFor([id], "stuck");
    expect(world.ledger).toEqual([]);
    expect((await right.command("workers")).stdout).toContain("different copies of payer");
    await right.startWorker();
    await engine.waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a 0"]);
    expect(wrong.reduce((sum, worker) => sum + countTaken(worker), 0)).toBeGreaterThan(0);
  });

  it("[E-18] return a run without trust in its skill, until they trust it", async () => {
    const { url, world, engine } = await openScene(server);
    const [here, there] = [createMachine({ url, world }), createMachine({ url, world, skills: {} })];
    // The same copy is in a workspace there, whose skills need trust.
    const workspace = temporaryFolder();
    cpSync(join(here.home, ".skillet/skills/payer"), join(workspace, ".agent/skills/payer"), { recursive: true });
    const worker = await there.startWorker("--workspace", workspace);
    const { stdout, stderr } = await here.command("run", "payer", "pay a 1", "--detach");
    expect(stderr).toContain("no worker has payer as it is here");
    const id = stdout.trim();
    await engine.waitFor([id], "stuck");
    expect((await engine.runs.find(id)).problem).toMatchObject({ code: "untrusted" });
    expect((await here.command("runs", "show", id)).stdout).toContain("has not been trusted yet");
    expect(world.ledger).toEqual([]);
    expect(countTaken(worker)).toBeGreaterThan(0);
    expect(await there.command("trust", "payer", "--yes", "--workspace", workspace)).toMatchObject({ code: 0 });
    await engine.waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a 0"]);
  });

  it("[E-18] return a run of a workspace that they lack, until a worker has it", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world });
    const folder = temporaryFolder();
    const worker = await machine.startWorker();
    const id = await detach(machine, "payer", "pay a 1", "--workspace", folder);
    await engine.waitFor([id], "stuck");
    expect((await engine.runs.find(id)).problem).toMatchObject({ code: "run-other-workspace" });
    expect((await machine.command("runs", "show", id)).stdout).toContain(folder);
    expect(world.ledger).toEqual([]);
    worker.signal("SIGTERM");
    await worker.ended;
    await machine.startWorker("--workspace", folder);
    await engine.waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a 0"]);
  });

  it("[E-26] [E-10] survive an outage longer than a lease, in which commands fail with a fix", async () => {
    const own = await startPostgres();
    onTestFinished(() => own.remove());
    const { url, world, engine } = await openScene(own);
    const machine = createMachine({ url, world, leaseSeconds: 1 });
    world.setDelay(100);
    const workers = [await machine.startWorker("--slots", "2"), await machine.startWorker("--slots", "2")];
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) ids.push(await detach(machine, "payer", `pay t${index} 6`));
    await waitFor(() => world.ledger.length > 4);
    await own.stop("immediate");
    // Each of them waits for longer than a lease.
    for (const args of [["runs"], ["run", "payer", "pay x 1", "--detach"]]) {
      const { code, stderr } = await machine.command(...args);
      expect(code).toBe(1);
      expect(stderr).toContain("engine-unavailable");
      expect(stderr).toContain("skillet engine check");
    }
    expect(workers.map(({ child }) => child.exitCode)).toEqual([null, null]);
    await own.start();
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

  it("[E-24] finish their runs when they are stopped, and leave the rest to others", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world });
    world.setDelay(200);
    const first = await machine.startWorker("--slots", "2");
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) ids.push(await detach(machine, "payer", `pay t${index} 3`));
    await waitFor(() => world.ledger.length > 1);
    first.signal("SIGTERM");
    expect(await first.ended).toBe(0);
    await machine.startWorker();
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(12);
  });

  it("[E-17] find a run whose leg was lost", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world });
    const id = await detach(machine, "payer", "pay a 1");
    await engine.database.query("delete from dbos.workflow_status");
    const worker = await machine.startWorker();
    await engine.waitFor([id], "ended");
    expect(worker.events).toContainEqual(expect.objectContaining({ type: "runs-found", count: 1 }));
  });

  it("[E-10] survive restarts of the server, and repeat nothing", async () => {
    const own = await startPostgres();
    onTestFinished(() => own.remove());
    const { url, world, engine } = await openScene(own);
    const machine = createMachine({ url, world, leaseSeconds: 2 });
    world.setDelay(100);
    const workers = [await machine.startWorker("--slots", "2"), await machine.startWorker("--slots", "2")];
    const ids: string[] = [];
    for (let index = 0; index < 4; index++) ids.push(await detach(machine, "payer", `pay t${index} 12`));
    for (let count = 0; count < 3; count++) {
      const { length } = world.ledger;
      await waitFor(() => world.ledger.length > length + 4);
      await own.stop("immediate");
      await own.start();
    }
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(48);
    expect(workers.flatMap(listLostWorkers)).toEqual([]);
  });

  it("[E-15] create one run for the same key, and refuse another request with it", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createMachine({ url, world });
    const ids = await Promise.all(
      Array.from({ length: 10 }, () => detach(machine, "payer", "pay a 1", "--key", "order-1", "--tenant", "acme")),
    );
    expect(new Set(ids).size).toBe(1);
    expect(await engine.runs.list()).toHaveLength(1);
    const other = await machine.command("run", "payer", "pay b 1", "--detach", "--key", "order-1", "--tenant", "acme");
    expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining("queue-key-reused") });
    expect(await detach(machine, "payer", "pay b 1", "--key", "order-1", "--tenant", "other")).not.toBe(ids[0]);
  });
});
