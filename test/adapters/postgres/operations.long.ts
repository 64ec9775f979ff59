import { spawnSync } from "node:child_process";
import { delimiter } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  createMachine,
  detach,
  findRepeated,
  formatLedger,
  listLostWorkers,
  openScene,
  viewEngine,
  type WorkerProcess,
} from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { codeBlocks } from "../../support/markdown-code.ts";
import { HAS_POSTGRES, POSTGRES_PROGRAMS, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

async function openOwnScene() {
  const server = await startPostgres();
  onTestFinished(() => server.remove());
  return { server, ...(await openScene(server)) };
}

describe.skipIf(!HAS_POSTGRES)("workers over a long time", () => {
  it("[E-10] [E-26] repeat nothing in 20 restarts of the server and 3 outages longer than a lease", async () => {
    const { server, url, world, engine } = await openOwnScene();
    const machine = createMachine({ url, world, leaseSeconds: 4 });
    world.setDelay(100);
    const workers = [await machine.startWorker("--slots", "4"), await machine.startWorker("--slots", "4")];
    const ids: string[] = [];
    for (let index = 0; index < 8; index++) ids.push(await detach(machine, "payer", `pay t${index} 30`));
    for (let count = 0; count < 23; count++) {
      const { length } = world.ledger;
      await waitFor(() => world.ledger.length > length + 4);
      await server.stop(count % 2 === 0 ? "immediate" : "fast");
      // A command waits for longer than a lease before it fails.
      if (count % 8 === 7)
        for (let command = 0; command < 2; command++) expect(await machine.command("runs")).toMatchObject({ code: 1 });
      await server.start();
    }
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(240);
    expect(workers.flatMap(listLostWorkers)).toEqual([]);
  });

  it("[E-26] take runs within a few signs of life after the server was away for long", async () => {
    const { server, url, world } = await openOwnScene();
    const engine = await viewEngine(url);
    const machine = createMachine({ url, world });
    await machine.startWorker();
    await server.stop();
    // Each command waits for about four seconds.
    for (let count = 0; count < 15; count++) expect(await machine.command("runs")).toMatchObject({ code: 1 });
    await server.start();
    const id = await detach(machine, "payer", "pay a 1");
    const beats = new Set<string>();
    await waitFor(async () => {
      const [row] = await engine.database.query("select seen_at::text as at from skillet.workers");
      beats.add(String(row?.["at"]));
      return world.ledger.length > 0;
    });
    await engine.waitFor([id], "ended");
    // Two a second.
    expect(beats.size).toBeLessThan(12);
  });

  it("[E-17] find every run whose leg is lost, however often", async () => {
    const { url, world, engine } = await openOwnScene();
    const machine = createMachine({ url, world });
    world.setDelay(20);
    const ids: string[] = [];
    for (let index = 0; index < 20; index++) ids.push(await detach(machine, "payer", `pay t${index} 3`));
    await Promise.all([machine.startWorker("--slots", "2"), machine.startWorker("--slots", "2")]);
    for (let round = 0; round < 5; round++) {
      const { length } = world.ledger;
      await engine.database.query("delete from dbos.workflow_status where status in ('ENQUEUED', 'DELAYED')");
      await waitFor(() => world.ledger.length > Math.min(length + 5, 59));
    }
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(60);
  });

  it("[E-24] fail and repeat nothing while all of them are replaced twice under load", async () => {
    const { url, world, engine } = await openOwnScene();
    const machine = createMachine({ url, world });
    world.setDelay(50);
    let workers = [await machine.startWorker("--slots", "2"), await machine.startWorker("--slots", "2")];
    const ids: string[] = [];
    for (let index = 0; index < 12; index++) ids.push(await detach(machine, "payer", `pay t${index} 4`));
    for (let round = 0; round < 2; round++) {
      const next: WorkerProcess[] = [];
      for (const worker of workers) {
        const { length } = world.ledger;
        await waitFor(() => world.ledger.length > length + 1 || world.ledger.length === 48);
        worker.signal("SIGTERM");
        next.push(await machine.startWorker("--slots", "2"));
        expect(await worker.ended).toBe(0);
      }
      workers = next;
    }
    await engine.waitFor(ids, "ended");
    expect(findRepeated(world)).toEqual([]);
    expect(formatLedger(world)).toHaveLength(48);
    const ends = (await engine.runs.list()).map(({ end }) => end?.stop);
    expect(new Set(ends)).toEqual(new Set(["answer"]));
  });

  it("continue after a restore, from the backup that docs/workers.md describes", async () => {
    const { server, url: created, world } = await openOwnScene();
    await server.psql("postgres", `alter database ${new URL(created).pathname.slice(1)} rename to skillet`);
    const url = server.urlOf("skillet");
    const folder = temporaryFolder();
    const run = (mark: string) => {
      const [block] = codeBlocks("docs/workers.md").filter(({ marks }) => marks.includes(mark));
      const env = {
        PATH: [POSTGRES_PROGRAMS, "/usr/bin", "/bin"].join(delimiter),
        ...{ PGHOST: server.folder, PGUSER: "postgres" },
      };
      expect(spawnSync("bash", ["-c", block?.code ?? "exit 1"], { cwd: folder, env, encoding: "utf8" })).toMatchObject({
        status: 0,
      });
    };
    const machine = createMachine({ url, world, needsApproval: true });
    const worker = await machine.startWorker();
    const id = await detach(machine, "payer", "pay a 2");
    await waitFor(async () => JSON.parse((await machine.command("runs", "--json")).stdout).runs[0].state === "waiting");
    worker.signal("SIGTERM");
    await worker.ended;
    run("backup");
    await server.psql("postgres", "drop database skillet with (force)");
    await server.psql("postgres", "create database skillet");
    run("restore");
    expect(await machine.command("approve", id, "--yes", "--always")).toMatchObject({ code: 0 });
    await machine.startWorker();
    await (await viewEngine(url)).waitFor([id], "ended");
    expect(formatLedger(world)).toEqual(["a 0", "a 1"]);
  });
});
