import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import {
  createPostgresRunStore,
  formatDeletion,
  formatSearch,
  pruneRuns,
  SELECT_OLD,
} from "../../../src/adapters/postgres/postgres-runs.ts";
import {
  createPostgresApprovalStore,
  createPostgresAudit,
  createPostgresStatisticsStore,
} from "../../../src/adapters/postgres/postgres-stores.ts";
import { createPostgresTokenStore } from "../../../src/adapters/postgres/postgres-tokens.ts";
import { createPostgresVault } from "../../../src/adapters/postgres/postgres-vault.ts";
import { hashAuditLine, stringifyCanonical } from "../../../src/capabilities/audit-log.ts";
import { type Caller, describePersonKey } from "../../../src/host/approval.ts";
import type { CapabilityProvider, ProviderAuth } from "../../../src/host/capability-contract.ts";
import type { RunEvent } from "../../../src/host/events.ts";
import type { RunEnd } from "../../../src/store/journal.ts";
import { createRunStore } from "../../../src/store/runs.ts";
import { createStatisticsStore } from "../../../src/store/statistics.ts";
import { testApprovalStore, testStatisticsStore } from "../../../src/testing/contract.ts";
import { testAudit, testVault } from "../../../src/testing/memory-stores.ts";
import { testRunStore } from "../../../src/testing/run-store-cases.ts";
import { SERVER_TOKEN_CASES } from "../../store/server-token-cases.ts";
import { createBrokerScene, memoryNotes } from "../../support/broker.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { startPostgresProxy } from "../../support/postgres-proxy.ts";
import { waitFor } from "../../support/wait-for.ts";

describe.skipIf(!HAS_POSTGRES)("stores in Postgres", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  const openEngine = async () => {
    const url = await server.createEngine();
    const opened: { close(): Promise<void> }[] = [];
    const open = async (sealKey?: string) => {
      const database = await openDatabase({ url, sealKey });
      opened.push(database);
      return database;
    };
    return { open, close: async () => void (await Promise.all(opened.map((one) => one.close()))) };
  };

  describe("runs", () => {
    const cases = testRunStore(async () => {
      const engine = await openEngine();
      const admin = await engine.open();
      return {
        open: async () => createPostgresRunStore(await engine.open()),
        expireLease: async (id) => {
          await admin.query({ text: "update skillet.runs set lease_until = null where id = $1", values: [id] });
        },
        close: engine.close,
      };
    });
    it.each(cases)("[E-01] $name", ({ run }) => run());
  });

  describe("permanent approvals", () => {
    const cases = testApprovalStore(async () => {
      const engine = await openEngine();
      return { open: async () => createPostgresApprovalStore(await engine.open()), close: engine.close };
    });
    it.each(cases)("[E-20] $name", ({ run }) => run());
  });

  describe("statistics", () => {
    const cases = testStatisticsStore(async () => {
      const engine = await openEngine();
      return { open: async () => createPostgresStatisticsStore(await engine.open()), close: engine.close };
    });
    it.each(cases)("[E-27] $name", ({ run }) => run());
  });

  it("[E-27] counts the runs of each day", async () => {
    const engine = await openEngine();
    const stores = [createPostgresStatisticsStore(await engine.open()), createStatisticsStore(temporaryFolder())];
    const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
    const events = [1, 1, 1, 2].flatMap((day, index) => {
      const run = { run: `run-${index}`, skill: "a", at: new Date(Date.UTC(2026, 0, day, 23, 59)).toISOString() };
      const stop = index === 0 ? ("error" as const) : index === 1 ? ("waiting" as const) : ("answer" as const);
      const end = { stop, isError: index === 0, iterations: 1, ms: 10 * index + 5, usage, cost: 0.5 };
      return { ...run, ...end, type: "run-ended" } satisfies RunEvent;
    });
    for (const store of stores) for (const event of events) await store.record(event);
    const [shared, local] = await Promise.all(stores.map((store) => store.perDay?.()));
    expect(shared).toEqual(local);
    expect(shared).toMatchObject([
      { day: "2026-01-01", runs: 3, succeeded: 1 },
      { day: "2026-01-02", runs: 1 },
    ]);
    await engine.close();
  });

  describe("audit log", () => {
    const cases = testAudit(async () => {
      const engine = await openEngine();
      const database = await engine.open();
      return {
        open: async () => createPostgresAudit(await engine.open()),
        async edit(change) {
          const rows = await database.query("delete from skillet.audit returning seq, line");
          const before = [...rows].sort((a, b) => Number(a["seq"]) - Number(b["seq"])).map(({ line }) => String(line));
          const text =
            "insert into skillet.audit select n, gen_random_uuid(), l from unnest($1::text[]) with ordinality u(l, n)";
          await database.query({ text, values: [change(before)] });
        },
        close: engine.close,
      };
    });
    it.each(cases)("[E-27] $name", ({ run }) => run());
  });

  it("[E-27] keeps one line of the audit log when the answer to its transaction was lost", async () => {
    const url = await server.createEngine();
    const proxy = await startPostgresProxy(server);
    const database = await openDatabase({ url: proxy.urlOf(url) });
    const audit = createPostgresAudit(database);
    const entry = { run: "r", skill: "s", source: "user", method: "invoke" };
    proxy.loseAnswerTo("commit");
    const [one, two] = await Promise.all(["ok", "denied"].map((outcome) => audit.add({ ...entry, outcome })));
    const three = await audit.add({ ...entry, outcome: "begun" });
    expect(proxy.lost).toBe(1);
    const lines = [];
    for await (const line of audit.read()) lines.push(line);
    expect(lines).toEqual([one, two, three]);
    expect(await audit.verify()).toMatchObject({ isWhole: true, lines: 3 });
    await database.close();
  });

  it("[E-27] finds a line of the audit log that a program with the role of a worker, and without the seal key, added", async () => {
    const [engine, entry] = [await openEngine(), { run: "r", skill: "s", source: "user", method: "invoke" }];
    const open = async (key?: string) => createPostgresAudit(await engine.open(key));
    const [sealed, keyless, other] = [await open(SEAL_KEY), await open(), await open(`other ${SEAL_KEY}`)];
    // Lines from before the key have no seal.
    await keyless.add({ ...entry, outcome: "before" });
    await sealed.add({ ...entry, outcome: "ok" });
    await sealed.add({ ...entry, outcome: "ok" });
    expect(await sealed.verify()).toMatchObject({ isWhole: true, lines: 3 });
    expect(await keyless.verify()).toMatchObject({ isWhole: true, lines: 3 });
    expect(await other.verify()).toMatchObject({
      isWhole: false,
      line: 2,
      message: expect.stringContaining("false seal"),
    });
    await keyless.add({ ...entry, outcome: "false" });
    await sealed.add({ ...entry, outcome: "ok" });
    expect(await sealed.verify()).toMatchObject({
      isWhole: false,
      line: 4,
      message: expect.stringContaining("has no seal"),
    });
    await engine.close();
  });

  it("[E-27] finds a line of the audit log with the seal of another line", async () => {
    const [engine, entry] = [await openEngine(), { run: "r", skill: "s", source: "user", method: "invoke" }];
    const database = await engine.open(SEAL_KEY);
    const sealed = createPostgresAudit(database);
    const { hash: prev, ...line } = await sealed.add({ ...entry, outcome: "ok" });
    const next = { ...line, seq: 2, prev };
    const copy = { ...next, hash: hashAuditLine(next) };
    await database.query({
      text: "insert into skillet.audit values (2, gen_random_uuid(), $1)",
      values: [stringifyCanonical(copy)],
    });
    await database.query({ text: "update skillet.audit_head set seq = 2, hash = $1", values: [copy.hash] });
    expect(await sealed.verify()).toMatchObject({
      isWhole: false,
      line: 2,
      message: expect.stringContaining("false seal"),
    });
    await engine.close();
  });

  describe("vault", () => {
    const cases = testVault(async () => {
      const engine = await openEngine();
      return { open: async () => createPostgresVault(await engine.open(SEAL_KEY)), close: engine.close };
    });
    it.each(cases)("[E-23] $name", ({ run }) => run());
  });

  it("[E-23] opens a sign-in of another machine with the same key only, and stores none without it", async () => {
    const engine = await openEngine();
    const [here, there, other, keyless] = await Promise.all(
      [SEAL_KEY, SEAL_KEY, "another-key-of-at-least-32-characters", undefined].map(async (key) =>
        createPostgresVault(await engine.open(key)),
      ),
    );
    const credential = { account: "ada@example.com", secret: { token: "t-0123456789" } };
    await here?.set("mail", "", credential);
    expect(await there?.get("mail", { user: "" })).toMatchObject(credential);
    for (const vault of [other, keyless]) {
      await expect(vault?.get("mail", { user: "" })).rejects.toMatchObject({ code: "engine-sealed" });
      await expect(vault?.set("notes", "", credential)).rejects.toMatchObject({ code: "engine-sealed" });
      await expect(vault?.put("flow", { verifier: "v" }, 60)).rejects.toMatchObject({ code: "engine-sealed" });
      expect(await vault?.list()).toMatchObject([{ namespace: "mail", account: "ada@example.com" }]);
    }
    const database = await engine.open();
    const rows = await database.query("select * from skillet.credentials");
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain("t-0123456789");
    await database.query("update skillet.credentials set account = 'eve@example.com'");
    await expect(there?.get("mail", { user: "" })).rejects.toMatchObject({ code: "engine-altered" });
    // A text without a key, which runs from before the key may have, is never a credential.
    await database.query(`update skillet.credentials set box = '{"token":"of-eve"}'`);
    await expect(there?.get("mail", { user: "" })).rejects.toMatchObject({ code: "engine-sealed" });
    await there?.put("flow", { verifier: "v" }, 60);
    await expect(other?.take("flow")).rejects.toMatchObject({ code: "engine-sealed" });
    const takes = await Promise.all([here?.take("flow"), there?.take("flow")]);
    expect(takes.filter(Boolean)).toEqual([{ verifier: "v" }]);
    await there?.put("flow", { verifier: "v" }, 60);
    await database.query("update skillet.pending set box = '{}'");
    await expect(there?.peek("flow")).rejects.toMatchObject({ code: "engine-sealed" });
    await database.query("update skillet.vault_key set box = 'skillet'");
    await expect(other?.set("mail", "", credential)).rejects.toMatchObject({ code: "engine-sealed" });
    await engine.close();
  });

  it("[E-23] renews a credential once for runs of several workers", async () => {
    const engine = await openEngine();
    const { provider } = memoryNotes();
    const renewals: unknown[] = [];
    const used: unknown[] = [];
    const renewing: CapabilityProvider = {
      ...provider,
      async invoke({ credential }) {
        used.push(credential?.secret["token"]);
        if (credential?.secret["token"] === "new") return { output: { notes: [] } };
        renewals.push(credential);
        await waitFor(() => used.length === renewals.length); // Other calls have their chance.
        const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
        return { output: { notes: [] }, credential: { account: "ada", secret: { token: "new" }, expiresAt } };
      },
    };
    const scenes = await Promise.all(
      Array.from({ length: 4 }, async () =>
        createBrokerScene({ providers: [renewing], vault: createPostgresVault(await engine.open(SEAL_KEY)) }),
      ),
    );
    const old = { account: "ada", secret: { token: "old" }, expiresAt: new Date(Date.now() - 1000).toISOString() };
    await scenes[0]?.capabilities.vault.set("notes", "ada", old);
    const replies = await Promise.all(scenes.map((scene) => scene.invoke("list")));
    expect(replies.map(({ ok }) => ok)).toEqual([true, true, true, true]);
    expect(used.sort()).toEqual(["new", "new", "new", "old"]);
    await engine.close();
  });

  it("[E-23] has separate credentials and sign-ins for the same user id of two tenants, and those from before tenants", async () => {
    const engine = await openEngine();
    const { provider, asked } = memoryNotes();
    const vault = createPostgresVault(await engine.open(SEAL_KEY));
    const auth: ProviderAuth = {
      begin: async () => ({ kind: "paste", message: "Paste it." }),
      complete: async ({ callback }) => ({ account: callback?.text ?? "", secret: { token: callback?.text ?? "" } }),
    };
    const ada = { userId: "ada", chatType: "private" } as const;
    const callers: Caller[] = [{ ...ada, tenant: "red" }, { ...ada, tenant: "blue" }, ada];
    await vault.set("notes", "ada", { account: "before", secret: { token: "before" } });
    for (const caller of callers) {
      const scene = await createBrokerScene({ providers: [{ ...provider, auth }], vault, run: { caller } });
      const name = caller.tenant ?? "before";
      if (caller.tenant !== undefined) {
        const begun = await scene.send("auth.begin", { capability: "notes.notes" });
        const flow = begun.ok ? begun.result["flow"] : undefined;
        // The same id of another tenant cannot complete it.
        const other = await createBrokerScene({
          ...{ providers: [{ ...provider, auth }], vault },
          run: { caller: { ...caller, tenant: "green" } },
        });
        expect(await other.send("auth.complete", { flow, callback: name })).toMatchObject({ ok: false });
        const completed = await scene.send("auth.complete", { flow, callback: name });
        expect(completed).toMatchObject({ ok: true });
      }
      expect(await scene.invoke("list")).toMatchObject({ ok: true });
      expect(asked.at(-1)?.credential?.account).toBe(name);
    }
    expect((await vault.list()).map(({ user }) => describePersonKey(user)).sort()).toEqual([
      ...["ada", "ada of blue", "ada of red"],
    ]);
    await engine.close();
  });

  it.each(Object.entries(SERVER_TOKEN_CASES))("[E-35] [E-33] %s: server tokens", async (_, check) => {
    const engine = await openEngine();
    await check(async () => createPostgresTokenStore(await engine.open(), "database"));
    const database = await engine.open();
    expect(JSON.stringify(await database.query("select * from skillet.server_tokens"))).not.toContain("skt_");
    await engine.close();
  });

  it("[E-35] accepts with a seal key only tokens that an owner of the key created", async () => {
    const engine = await openEngine();
    const [store, keyless] = [
      createPostgresTokenStore(await engine.open(SEAL_KEY), "database"),
      createPostgresTokenStore(await engine.open(), "database"),
    ];
    const { token, text } = await store.create({ person: "ada", scopes: ["load"] });
    const planted = await keyless.create({ person: "ada" });
    expect(await store.find(text)).toEqual(token);
    expect(await store.find(planted.text)).toBeUndefined();
    expect((await store.list()).map(({ id }) => id)).toEqual([token.id]);
    const database = await engine.open();
    await database.query("update skillet.server_tokens set scopes = '{list,load,run,use,approve}'");
    await store.refresh();
    expect(store.isValid(token.id)).toBe(false);
    await engine.close();
  });

  it("[E-28] prunes old and surplus runs by an index, with their lines, and no waiting or active one", async () => {
    const engine = await openEngine();
    const database = await engine.open();
    const fill = async (prefix: string, count: number, columns: string) => {
      await database.query(`insert into skillet.runs (id, head, changed_at, tail, owner, lease_until)
        select '${prefix}' || n, '{}', ${columns} from generate_series(1, ${count}) n`);
      await database.query(`insert into skillet.lines (run, kind, line)
        select id, 'step', 'x' from skillet.runs, generate_series(1, 5) where id like '${prefix}%'`);
    };
    await fill("old-", 6000, "now() - interval '40 days', 'end', null, null");
    await fill("leased-", 3, "now() - interval '40 days', null, gen_random_uuid(), now() + interval '1 hour'");
    await fill("waits-", 20, "now() - interval '20 days', null, null, null");
    await fill("ended-", 20, "now() - n * interval '1 hour', 'end', null, null");
    await database.query("analyze skillet.runs");
    const keep = { days: 30, most: 10 };
    expect(await pruneRuns(database, keep, { isTrial: true })).toBe(6010);
    expect(await pruneRuns(database, keep)).toBe(6010);
    const left =
      await database.query(`select split_part(r.id, '-', 1) as kind, count(distinct r.id)::int as runs, count(*)::int as lines
      from skillet.lines l left join skillet.runs r on r.id = l.run group by 1 order by 1`);
    expect(left).toEqual([
      { kind: "ended", runs: 10, lines: 50 },
      { kind: "leased", runs: 3, lines: 15 },
      { kind: "waits", runs: 20, lines: 100 },
    ]);
    expect(await pruneRuns(database, keep)).toBe(0);

    // The reads to find one expired run do not grow with the number of the others.
    const countBuffers = async () => {
      await database.query("vacuum analyze skillet.runs");
      const [row] = await database.query(
        `explain (analyze, buffers, format json) ${SELECT_OLD.replace("$1", "(now() - interval '100 days')")}`,
      );
      const [{ Plan: plan } = { Plan: {} }] = (row?.["QUERY PLAN"] ?? []) as { Plan: Record<string, number> }[];
      expect(JSON.stringify(plan)).toContain("runs_changed");
      return Number(plan["Shared Hit Blocks"]) + Number(plan["Shared Read Blocks"]);
    };
    await fill("few-", 300, "now(), 'end', null, null");
    const few = await countBuffers();
    await fill("many-", 10_000, "now(), 'end', null, null");
    expect(await countBuffers()).toBeLessThanOrEqual(2 * few + 2);
    // Nor do the lines of a batch cost a scan of all lines, of which the server may have no statistics.
    const plan = await database.query(
      `explain ${formatDeletion(`r.id = any(array(${SELECT_OLD.replace("$1", "now()")}))`)}`,
    );
    const scans = plan.map((row) => String(row["QUERY PLAN"])).filter((line) => line.includes(" on lines "));
    expect(scans.join("\n")).toMatch(/Index|Bitmap/);
    expect(scans.join("\n")).not.toContain("Seq Scan");
    await engine.close();
  });

  it("[E-28] read no more of 10,000 runs than a list shows", async () => {
    const engine = await openEngine();
    const database = await engine.open();
    const fill = async (prefix: string, count: number) => {
      await database.query(`insert into skillet.runs (id, head, tail, started_at)
        select '${prefix}' || n, '{}', case when n % 100 > 0 then 'end' end, now() - n * interval '1 minute'
        from generate_series(1, ${count}) n`);
      await database.query("vacuum analyze skillet.runs");
    };
    const countBuffers = async (condition: string) => {
      const values = ["'infinity'", "'~'", "null", "null", "20"];
      const text = values.reduce(
        (sql, value, index) => sql.replaceAll(`$${index + 1}`, value),
        formatSearch(condition),
      );
      const [row] = await database.query(`explain (analyze, buffers, format json) ${text}`);
      const [{ Plan: plan } = { Plan: {} }] = (row?.["QUERY PLAN"] ?? []) as { Plan: Record<string, number> }[];
      return Number(plan["Shared Hit Blocks"]) + Number(plan["Shared Read Blocks"]);
    };
    // A page for each run of the list, and those of the index. The table has more than 100.
    await fill("many-", 10_000);
    expect(await countBuffers("true")).toBeLessThanOrEqual(2 * 20 + 5);
    expect(await countBuffers("r.tail is null")).toBeLessThanOrEqual(6 * 20 + 5);
    await engine.close();
  });

  it("[E-20] bind permanent approvals to the digest of a skill, its tenant and its person", async () => {
    const engine = await openEngine();
    const database = await engine.open();
    const [acme, other, ada] = [{ tenant: "acme" }, { tenant: "other" }, { tenant: "acme", person: "ada" }].map(
      (scope) => createPostgresApprovalStore(database, scope),
    );
    const operator = createPostgresApprovalStore(database);
    const send = { skill: "mail", source: "user", location: "/home/a/mail", tool: "send", on: "outside" } as const;
    await acme?.add({ ...send, digest: "sha256:1" });
    const elsewhere = { ...send, location: "/home/b/mail", source: "workspace", digest: "sha256:1" };
    expect(await acme?.isAlwaysApproved(elsewhere)).toBe(true);
    for (const store of [other, ada, operator]) expect(await store?.isAlwaysApproved(elsewhere)).toBe(false);
    expect(await acme?.isAlwaysApproved({ ...send, digest: "sha256:2" })).toBe(false);
    expect(await acme?.isAlwaysApproved(send)).toBe(false);
    await expect(acme?.add(send)).rejects.toMatchObject({ code: "not-approved" });
    expect(await other?.forget("mail")).toBe(0);
    expect(await operator.list()).toMatchObject([{ skill: "mail", allowed: ["tool:send"] }]);
    expect(await operator.forget("mail")).toBe(1);
    expect(await acme?.isAlwaysApproved(elsewhere)).toBe(false);
    await engine.close();
  });

  it("[E-04] keeps every value that the file store keeps, byte for byte", async () => {
    const engine = await openEngine();
    const stores = [createPostgresRunStore(await engine.open()), createRunStore(temporaryFolder())];
    const values = [
      ...EDGE_VALUES,
      ...Array.from({ length: 100 }, (_, seed) => createValue(createRandom(seed + 1), 4)),
    ];
    const run = { head: { id: ID, kind: "use", skill: "a", task: "" } as const, request: {} };
    const texts: string[][] = [];
    for (const store of stores) {
      const journal = await store.create(run);
      const returned = [];
      for (const [index, value] of values.entries()) returned.push(await journal.step(`step-${index}`, value));
      await journal.close();
      const { lines, corrupt } = await store.read(ID);
      expect(corrupt).toEqual([]);
      const read = lines.flatMap((line) => (line.type === "step" ? [JSON.stringify(line.value) ?? ""] : []));
      expect(returned.map((value) => JSON.stringify(value) ?? "")).toEqual(read);
      texts.push(read);
    }
    expect(texts[0]?.length).toBe(values.length);
    expect(texts[0]?.every((text, index) => text === texts[1]?.[index])).toBe(true);
    await engine.close();
  });

  it("[E-05] keeps a line once when the answer to its write was lost", async () => {
    const url = await server.createEngine();
    const proxy = await startPostgresProxy(server);
    const database = await openDatabase({ url: proxy.urlOf(url) });
    const store = createPostgresRunStore(database);
    const journal = await store.create({ head: { id: ID, kind: "use", skill: "a", task: "" }, request: {} });
    for (const name of ["a", "b"]) {
      proxy.loseAnswerTo("skillet-append");
      expect(await journal.step(name, name)).toBe(name);
    }
    proxy.loseAnswerTo("skillet-append");
    await journal.end({}, END);
    await journal.close();
    expect(proxy.lost).toBe(3);
    const lines = (await store.read(ID)).lines.map((line) => (line.type === "step" ? line.name : line.type));
    expect(lines).toEqual(["run", "request", "opened", "a", "b", "result", "end"]);
    expect((await store.find(ID)).state).toBe("ended");
    await database.close();
  });

  it("[E-03] writes a step, its events and the lines of others in one round trip", async () => {
    const url = await server.createEngine();
    const proxy = await startPostgresProxy(server);
    const database = await openDatabase({ url: proxy.urlOf(url), connections: 1 });
    const store = createPostgresRunStore(database);
    const journal = await store.create({ head: { id: ID, kind: "use", skill: "a", task: "" }, request: {} });
    await journal.step("first", 1);
    const before = proxy.answers;
    for (let index = 0; index < 10; index++) {
      const event = { type: "tool-called", run: ID, skill: "a", at: new Date(0).toISOString(), tool: "t" } as RunEvent;
      await Promise.all([journal.event(event), journal.step(`step-${index}`, "x".repeat(1000))]);
      expect(journal.lease?.isHeld()).toBe(true);
    }
    expect(proxy.answers - before).toBe(10);
    await journal.close();
    expect((await store.read(ID)).lines.filter(({ type }) => type === "event")).toHaveLength(10);
    await database.close();
  });
});

const SEAL_KEY = "a-seal-key-of-at-least-32-characters";

const ID = "20260102-030405-0a1b2c3d";

const END: Omit<RunEnd, "type"> = {
  ...({ stop: "answer", isError: false, iterations: 2, ms: 1200 } as const),
  usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 0 },
};

const EDGE_VALUES: readonly unknown[] = [
  ...[
    "",
    "\u0000",
    "a\u0000b",
    "\ud800",
    "\udfff\ud800",
    "\u2028\u2029\ufeff",
    "2026-01-02T03:04:05.000Z",
    "$1 %s \\ ' \"",
  ],
  ...[JSON.parse('{"__proto__":{"a":1},"constructor":1}'), { "\u0000": "\u0000", "\ud800": 1 }],
  ...[-0, 1e308, 5e-324, 0.1 + 0.2, Number.MAX_SAFE_INTEGER, Number.NaN, null, undefined, [], {}, [[[]]]],
  "x".repeat(10 * 1024 * 1024),
];

/** Returns the same numbers for the same seed. */
function createRandom(seed: number): (max: number) => number {
  let state = seed;
  return (max) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

function createValue(random: (max: number) => number, depth: number): unknown {
  const text = () => Array.from({ length: random(8) }, () => String.fromCharCode(random(0x10000))).join("");
  const kinds: (() => unknown)[] = [
    ...[text, () => random(1e9) / 7, () => random(2) === 1, () => null],
    () => Array.from({ length: random(4) }, () => createValue(random, depth - 1)),
    () => Object.fromEntries(Array.from({ length: random(4) }, () => [text(), createValue(random, depth - 1)])),
  ];
  return kinds[random(depth > 0 ? kinds.length : 4)]?.();
}
