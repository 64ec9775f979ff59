import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMachine, detach, findRepeated, formatLedger, openScene } from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("workers", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

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
