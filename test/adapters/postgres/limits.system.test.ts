import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { createPostgresProviderLimit } from "../../../src/adapters/postgres/postgres-stores.ts";
import { createProviderLimit } from "../../../src/agent/models/model-providers.ts";
import { createMachine, detach, formatLedger, openScene } from "../../support/engine-scene.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { IS_LONG } from "../../support/sample-steps.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("limits over all workers", { timeout: 300_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const openLimits = async (count: number) => {
    const url = await server.createEngine();
    const open = async () => {
      const database = await openDatabase({ url, connections: 2 });
      onTestFinished(() => database.close());
      return database;
    };
    const limits = await Promise.all(
      Array.from({ length: count }, async () =>
        createPostgresProviderLimit(await open(), "account", createProviderLimit()),
      ),
    );
    return { limits, database: await open() };
  };

  it("[E-16] send no more requests per minute than the account allows, from four processes", async () => {
    const { limits, database } = await openLimits(4);
    const rates = { requestsPerMinute: 600 };
    const times: number[] = [];
    const send = async (limit: (typeof limits)[number]) => {
      for (let request = 0; request < 15; request++) {
        await limit.wait(rates, AbortSignal.timeout(120_000));
        const [row] = await database.query("select extract(epoch from clock_timestamp())::float8 as at");
        times.push(Number(row?.["at"]));
      }
    };
    await Promise.all(limits.map(send));
    times.sort((a, b) => a - b);
    expect(times).toHaveLength(60);
    // 10 in a second by the clock of the server, 30 at once, and the four that were taken before they were seen.
    for (const [index, start] of times.entries()) {
      const most = times.slice(index).map((at, count) => count - 10 * (at - start));
      expect(Math.max(...most)).toBeLessThanOrEqual(30 + limits.length);
    }
  });

  it("[E-16] send at least nine tenths of what the account allows while there is work", async () => {
    const { database } = await openLimits(0);
    const rates = { requestsPerMinute: 120 };
    let waitedMs = 0;
    // Moves the clock of the bucket instead of waiting. The real time of the test only adds requests.
    const delay = async (ms: number) => {
      waitedMs += ms;
      const text = `update skillet.provider_limits set refilled_at = refilled_at - make_interval(secs => ${ms / 1000})`;
      await database.query(text);
    };
    const limits = Array.from({ length: 4 }, () =>
      createPostgresProviderLimit(database, "account", createProviderLimit(), { delay }),
    );
    for (let request = 0; request < 200; request++)
      await limits[request % limits.length]?.wait(rates, AbortSignal.timeout(120_000));
    const allowed = 6 + (120 * waitedMs) / 60_000;
    expect(200 / allowed).toBeGreaterThanOrEqual(0.9);
  });

  it("[E-16] pause all processes after a 429, and count the tokens of all", async () => {
    const { limits, database } = await openLimits(2);
    const [one, other] = limits as [(typeof limits)[number], (typeof limits)[number]];
    const signal = AbortSignal.timeout(120_000);
    await other.wait({}, signal);
    one.pause(60_000);
    await waitFor(
      async () =>
        (await database.query("select 1 from skillet.provider_limits where paused_until > now()")).length === 1,
    );
    const state = { hasSent: false };
    const waiting = other.wait({}, signal).then(() => {
      state.hasSent = true;
    });
    await expect(other.wait({}, AbortSignal.timeout(200))).rejects.toThrow();
    expect(state.hasSent).toBe(false);
    await database.query("update skillet.provider_limits set paused_until = now()");
    await waiting;
    await other.wait({ tokensPerMinute: 600 }, signal);
    one.spend(900);
    await waitFor(
      async () => (await database.query("select 1 from skillet.provider_limits where tokens < 0")).length === 1,
    );
    await expect(other.wait({ tokensPerMinute: 600 }, AbortSignal.timeout(200))).rejects.toThrow();
  });

  it("[E-16] apply to this process alone while the database is away", async () => {
    const database = await openDatabase({ url: "postgres://skillet@127.0.0.1:1/skillet", patienceMs: 0 });
    const limit = createPostgresProviderLimit(database, "account", createProviderLimit());
    await limit.wait({ requestsPerMinute: 1 }, AbortSignal.timeout(60_000));
    await expect(limit.wait({ requestsPerMinute: 1 }, AbortSignal.timeout(100))).rejects.toThrow();
  });

  it.each(IS_LONG ? [2, 4] : [2])(
    "[E-14] [E-16] work on no more runs of a tenant than allowed, with %d workers",
    async (count) => {
      const { url, world, engine } = await openScene(server);
      const machines = Array.from({ length: count }, () =>
        createMachine({ url, world, engine: "tenant_slots = 2", rates: "requests_per_minute = 60000" }),
      );
      world.setDelay(60);
      const [client] = machines;
      if (!client) throw new Error("no machine");
      const large: string[] = [];
      for (let index = 0; index < 4 * count; index++)
        large.push(await detach(client, "payer", `pay large${index} 3`, "--tenant", "large"));
      const small = await detach(client, "payer", "pay small 3", "--tenant", "small");
      await Promise.all(machines.map((machine) => machine.startWorker("--slots", "4")));
      const text =
        "select count(*)::integer as count from skillet.runs where tenant = 'large' and dispatch = 'working'";
      const sampled: number[] = [];
      await waitFor(async () => {
        sampled.push(Number((await engine.database.query(text))[0]?.["count"]));
        return sampled.at(-1) === 0 && world.ledger.length === 3 * (large.length + 1);
      });
      await engine.waitFor([...large, small], "ended");
      expect(Math.max(...sampled)).toBe(2);
      // The runs of the large tenant were queued before, and most of them begin later.
      const first = formatLedger(world).indexOf("small 0");
      expect(
        new Set(
          formatLedger(world)
            .slice(0, first)
            .map((payment) => payment.split(" ")[0]),
        ).size,
      ).toBeLessThan(large.length / 2);
      expect(await engine.database.query("select requests from skillet.provider_limits")).toHaveLength(1);
    },
  );
});
