import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startBalancer } from "../../support/balancer.ts";
import { startCollector } from "../../support/collector.ts";
import { skillet } from "../../support/command.ts";
import {
  createMachine,
  detach,
  findRepeated,
  formatLedger,
  type Machine,
  openScene,
} from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { createHomeWith } from "../../support/mcp-process.ts";
import { payingSkill } from "../../support/paying-skill.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { startPostgresProxy } from "../../support/postgres-proxy.ts";
import { connectWith, startTeamServer } from "../../support/team-server.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("machines with one database", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("[E-20] share a permanent approval by tenant, and a busy worker sees that it was revoked", async () => {
    const { url, world, engine } = await openScene(server);
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

  it("[E-30] continue a call of one server with the answer that another one receives", async () => {
    const { url, engine } = await openScene(server);
    const ledger = join(temporaryFolder(), "ledger");
    const config = '[engine]\nurl = "env:ENGINE_URL"\n';
    const open = () =>
      startTeamServer(createHomeWith({ ...payingSkill("bank", ledger), "home/.skillet/config.toml": config }), [], {
        ENGINE_URL: url,
      });
    const [one, two] = await Promise.all([open(), open()]);
    const proxy = await startBalancer([one.url, two.url]);
    const client = await connectWith(proxy.url, one.token, "2026-07-28", {
      capabilities: { elicitation: { form: {} } },
    });
    client.client.setRequestHandler("elicitation/create", () => ({
      action: "accept",
      content: { decision: "yes, this once" },
    }));
    for (const to of ["Ada", "Eve"])
      expect((await client.call("call_skill_tool", { skill: "bank", tool: "bank.pay", input: { to } })).text).toContain(
        `paid ${to}`,
      );
    expect(readFileSync(ledger, "utf8")).toBe("Ada\nEve\n");
    for (const count of proxy.counts) expect(count).toBeGreaterThan(1);
    expect(await engine.database.query("select 1 from skillet.messages")).toEqual([]);
  });

  it("[E-33] [E-35] share tokens: one created or revoked on one machine counts on the server of another", async () => {
    const { url } = await openScene(server);
    const config = '[engine]\nurl = "env:ENGINE_URL"\n';
    const other = await startTeamServer(createHomeWith({ "home/.skillet/config.toml": config }), [], {
      ENGINE_URL: url,
    });
    const here = createHomeWith({ "home/.skillet/config.toml": config });
    const command = async (...args: string[]) => {
      const ran = await skillet(["token", ...args], { cwd: here.cwd, env: { HOME: here.home, ENGINE_URL: url } });
      expect(ran.code, ran.stderr).toBe(0);
      return ran.stdout;
    };
    const { id, token } = JSON.parse(await command("create", "ada", "--json"));
    const client = await connectWith(other.url, token, "2025-11-25");
    expect(await client.client.listTools()).toBeTruthy();
    expect(JSON.parse(await command("list", "--json")).tokens).toMatchObject([
      { id, person: "ada", isValid: true, storedIn: expect.stringContaining(" at ") },
    ]);
    expect(existsSync(join(here.home, ".skillet/server-tokens.json"))).toBe(false);
    expect(await command("revoke", "ada")).toContain("within 2 seconds");
    await waitFor(async () => {
      const { status } = await other.send("/mcp", { token, method: "POST", body: "{}" });
      expect(status).toBe(401);
    });
    await waitFor(() => expect(other.process.said()).toContain("ended the sessions and calls of ada"));
  });

  it("[Q-30] are not ready while the database is cut off or stopped, and ready on its return", async () => {
    const proxy = await startPostgresProxy(server);
    const { url } = await openScene(server);
    const config = '[engine]\nurl = "env:ENGINE_URL"\n';
    const team = await startTeamServer(createHomeWith({ "home/.skillet/config.toml": config }), [], {
      ENGINE_URL: proxy.urlOf(url),
    });
    const ask = async (path: string) => {
      const answer = await team.send(path);
      return [answer.status, await answer.text()];
    };
    const becomes = (...answer: [number, string]) => waitFor(async () => expect(await ask("/readyz")).toEqual(answer));
    await becomes(200, "ok\n");
    proxy.cut();
    await becomes(503, "unavailable: database\n");
    expect(await ask("/healthz")).toEqual([200, "ok\n"]);
    proxy.restore();
    await becomes(200, "ok\n");
    await server.stop("immediate");
    await becomes(503, "unavailable: database\n");
    await server.start();
    await becomes(200, "ok\n");
    // Its answer counts for a second, so that requests without a token cost the database nothing.
    const { answers } = proxy;
    const all = await Promise.all(Array.from({ length: 200 }, () => ask("/readyz")));
    expect(new Set(all.map(String))).toEqual(new Set(["200,ok\n"]));
    expect(proxy.answers - answers).toBeLessThan(100);
  });

  it("[E-27] count a run once, and export one trace of it, however often it moves", async () => {
    const { url, world, engine } = await openScene(server);
    const { url: endpoint, spans } = await startCollector();
    const [trace, caller] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
    const options = { url, world, env: { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } };
    const machine = createMachine({ ...options, needsApproval: true });
    const client = createMachine({ ...options, env: { TRACEPARENT: `00-${trace}-${caller}-01` } });
    const first = await machine.startWorker();
    const id = await detach(client, "payer", "pay a 6");
    await engine.waitFor([id], "waiting");
    first.signal("SIGTERM");
    await first.ended;
    expect(await client.command("approve", id, "--run", "--yes")).toMatchObject({ code: 0 });
    world.setDelay(100);
    const second = await machine.startWorker();
    await waitFor(() => formatLedger(world).includes("a 1"));
    second.signal("SIGKILL");
    await second.ended;
    const third = await machine.startWorker();
    await engine.waitFor([id], "ended");
    third.signal("SIGTERM");
    await third.ended;

    const rows = await engine.database.query("select run, stop from skillet.uses order by run");
    expect(rows).toEqual([{ run: id, stop: "answer" }]);
    const bare = createMachine({ url, world, skills: {} });
    expect(JSON.parse((await bare.command("audit", "verify", "--json")).stdout)).toMatchObject({ isWhole: true });
    const { stdout } = await bare.command("stats", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ total: { runs: 1 }, skills: [{ name: "payer", iterations: 7 }] });

    const runs = spans().filter(({ attributes }) => attributes["skillet.run"] === id);
    expect(runs.length).toBeGreaterThan(1);
    expect(new Set(spans().map(({ traceId }) => traceId))).toEqual(new Set([trace]));
    for (const { parentSpanId } of runs) expect(parentSpanId).toBe(caller);
    expect(new Set(spans().map(({ spanId }) => spanId)).size).toBe(spans().length);
  });
});
