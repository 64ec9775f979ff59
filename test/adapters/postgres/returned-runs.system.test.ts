import { cpSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMachine, detach, formatLedger, openScene, type WorkerProcess } from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("workers that cannot do a run", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const countTaken = ({ events }: WorkerProcess) => events.filter(({ type }) => type === "run-taken").length;

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
});
