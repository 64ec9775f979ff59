import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createMachine,
  detach,
  findRepeated,
  formatLedger,
  type Machine,
  startWorld,
  viewEngine,
} from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("machines with one database", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const openScene = async () => {
    const [url, world] = [await server.createEngine(), await startWorld()];
    return { url, world, engine: await viewEngine(url) };
  };

  it("[E-20] share a permanent approval by tenant, and a busy worker sees that it was revoked", async () => {
    const { url, world, engine } = await openScene();
    const options = { url, world, needsApproval: true };
    const [first, second] = [createMachine(options), createMachine(options)];
    const operator = createMachine({ ...options, skills: {} });
    await first.startWorker();
    const run = (machine: Machine, task: string, tenant: string) => detach(machine, "payer", task, "--tenant", tenant);
    const asking = await run(second, "pay a 2", "acme");
    await engine.waitFor([asking], "waiting");
    expect(await operator.command("approve", asking, "--always", "--yes")).toMatchObject({ code: 0 });
    await engine.waitFor([asking], "ended");
    expect(formatLedger(world)).toEqual(["a 0", "a 1"]);
    expect((await operator.command("approve")).stdout).toContain("always: payer  bank.pay");

    // Another worker, with another home: the tenant is not asked again, and another one is.
    await second.startWorker();
    const [free, stranger] = [await run(first, "pay b 2", "acme"), await run(first, "pay c 1", "other")];
    await engine.waitFor([free], "ended");
    await engine.waitFor([stranger], "waiting");

    world.setDelay(50);
    const busy = await run(first, "pay d 40", "acme");
    await waitFor(() => formatLedger(world).includes("d 2"));
    expect(await operator.command("approve", "--forget", "payer")).toMatchObject({ code: 0 });
    const { length } = world.ledger;
    await engine.waitFor([busy], "waiting");
    // The call that was decided before.
    expect(world.ledger.length - length).toBeLessThanOrEqual(1);
    expect(findRepeated(world)).toEqual([]);
  });
});
