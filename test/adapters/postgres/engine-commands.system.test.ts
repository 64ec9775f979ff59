import { mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { createPostgresRunStore } from "../../../src/adapters/postgres/postgres-runs.ts";
import { createPostgresAudit } from "../../../src/adapters/postgres/postgres-stores.ts";
import type { ApprovalRequest } from "../../../src/host/approval.ts";
import { Printed, type Run } from "../../pins/printed-json.ts";
import { skillet } from "../../support/command.ts";
import { createMachine as createPayingMachine, detach, openScene } from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { followChanges, startStudio } from "../../support/studio.ts";
import { waitFor } from "../../support/wait-for.ts";

const ID = "20260102-030405-0a1b2c3d";
const OTHER = "20260102-030406-99999999";

const REQUEST: ApprovalRequest = {
  ...{ run: ID, skill: "mailer", source: "user", location: "/skills/mailer", tool: "mailer.send" },
  ...{ input: { to: "ann@example.com" }, on: "outside", what: "send a mail", reason: "it changes something outside" },
};

describe.skipIf(!HAS_POSTGRES)("skillet with an engine", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  /** A machine without skills and models, which knows the database. */
  const createMachine = (url: string) => {
    const home = temporaryFolder();
    mkdirSync(join(home, ".skillet"));
    writeFileSync(join(home, ".skillet/config.toml"), '[engine]\nurl = "env:ENGINE_URL"\n');
    const run: Run = (args, options = {}) => skillet(args, { ...options, env: { HOME: home, ENGINE_URL: url } });
    return Object.assign((...args: string[]) => run(args), { run });
  };

  it("[E-21] approves, denies, cancels and shows runs from a machine without skills and models", async () => {
    const url = await server.createDatabase();
    const machine = createMachine(url);
    expect(await machine("runs")).toMatchObject({ code: 1, stderr: expect.stringContaining("engine-outdated") });
    expect(await machine("engine", "init")).toMatchObject({ code: 0 });
    const database = await openDatabase({ url });
    const store = createPostgresRunStore(database);
    for (const id of [ID, OTHER]) {
      const run = { head: { id, kind: "use", skill: "mailer", task: "send it" } as const, request: {} };
      const journal = await store.create(run);
      await journal.ask("approval:1", REQUEST);
      await journal.close();
    }
    const waiting = JSON.parse((await machine("runs", "--state", "waiting", "--json")).stdout);
    expect(waiting.runs.map(({ id }: { id: string }) => id)).toEqual([OTHER, ID]);
    expect(await machine("approve", "0a1b2c3d", "--yes")).toMatchObject({ code: 0 });
    expect(await machine("approve", "99999999", "--deny", "not now", "--yes")).toMatchObject({ code: 0 });
    expect((await store.find(ID)).state).toBe("answered");
    const shown = JSON.parse((await machine("runs", "show", "99999999", "--json")).stdout);
    expect(shown.problems).toEqual([]);
    expect(shown.lines.at(-1)).toMatchObject({ type: "answer", isApproved: false, reason: "not now" });
    expect(await machine("cancel", "0a1b2c3d")).toMatchObject({ code: 0 });
    expect((await store.find(ID)).state).toBe("cancelled");
    expect(await machine("resume", "99999999")).toMatchObject({ code: 1, stderr: expect.stringContaining("mailer") });
    await database.close();
  });

  it("[V-05] shows runs of other machines in the page of studio while they change", async () => {
    const url = await server.createEngine();
    const machine = createMachine(url);
    const database = await openDatabase({ url });
    const store = createPostgresRunStore(database);
    const studio = await startStudio(machine.run);
    const send = await studio.open();
    expect((await send("/api/runs")).json).toMatchObject({ runs: [], total: 0 });
    const changes = await followChanges(studio.url, send);
    // The first look: the page reads everything again, as it may have read the runs before it.
    await waitFor(() => expect(changes()).toContainEqual({ type: "runs", names: [] }));
    const named = () => changes().flatMap(({ type, names }) => (type === "runs" ? names : []));
    const run = { head: { id: ID, kind: "use", skill: "mailer", task: "send it" } as const, request: {} };
    const journal = await store.create(run);
    await waitFor(() => expect(named()).toContain(ID));
    await waitFor(async () =>
      expect((await send("/api/runs")).json.runs).toMatchObject([{ id: ID, state: "running" }]),
    );
    const known = changes().length;
    await journal.ask("approval:1", REQUEST);
    await journal.close();
    await waitFor(() =>
      expect(
        changes()
          .slice(known)
          .map(({ type }) => type),
      ).toContain("approvals"),
    );
    await waitFor(async () => expect((await send("/api/approvals")).json.waiting).toMatchObject([{ id: ID }]));
    expect((await send(`/api/runs/${ID}`)).json).toEqual(
      JSON.parse((await machine("runs", "show", ID, "--json")).stdout),
    );
    await database.close();
  });

  it("[E-29] needs a role that can only read and write rows, and reports one that can do more", async () => {
    const url = await server.createDatabase();
    const name = new URL(url).pathname.slice(1);
    const owner = createMachine(url);
    const role = `worker_${name}`;
    await server.psql(name, `create role ${role} login`);
    const { stdout: sql } = await owner("engine", "init", "--print-sql", "--role", role);
    await server.psql(name, sql);
    const worker = createMachine(server.urlOf(name, role));
    const check = await worker("engine", "check");
    expect(check).toMatchObject({ code: 0, stdout: expect.stringContaining("can only read and write rows") });
    const database = await openDatabase({ url: server.urlOf(name, role) });
    const journal = await createPostgresRunStore(database).create({
      ...{ head: { id: ID, kind: "use", skill: "a", task: "" }, request: {} },
    });
    await journal.step("first", 1);
    await journal.close();
    await expect(database.query("drop table skillet.lines")).rejects.toMatchObject({ code: "engine-failed" });
    await expect(database.query("update skillet.versions set version = 2")).rejects.toMatchObject({
      code: "engine-failed",
    });
    // A stolen role can add lines to the audit log, and change or remove none.
    const audit = createPostgresAudit(database);
    await audit.add({ run: ID, skill: "a", source: "user", method: "load", outcome: "ok" });
    for (const change of [
      "update skillet.audit set line = '{}'",
      "delete from skillet.audit",
      "truncate skillet.audit",
    ])
      await expect(database.query(change), change).rejects.toMatchObject({ code: "engine-failed" });
    expect(await audit.verify()).toMatchObject({ isWhole: true });
    await database.close();
    expect((await owner("engine", "check")).stdout).toContain("! the role is a superuser");
    expect(await worker("engine", "init")).toMatchObject({ code: 1 });
  });

  it("[E-26] fails with a fix while the database is away, and never prints its password", async () => {
    const url = "postgres://skillet:hunter2@127.0.0.1:1/skillet";
    for (const args of [["runs"], ["engine", "check"], ["cancel", "last"], ["approve"]]) {
      const { code, stdout, stderr } = await createMachine(url)(...args);
      expect(code).toBe(1);
      expect(stderr).toContain("engine-unavailable");
      expect(stderr).toContain("skillet engine check");
      expect(stdout + stderr).not.toContain("hunter2");
    }
  });

  it("[E-26] abandons a database that accepts connections and answers nothing, in two attempts", async () => {
    let connections = 0;
    const silent = createServer((socket) => {
      connections++;
      socket.on("error", () => {}).resume();
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void silent.close());
    const { port } = silent.address() as AddressInfo;
    const { code, stderr } = await createMachine(`postgres://skillet@127.0.0.1:${port}/skillet`)("runs");
    expect(code).toBe(1);
    expect(stderr).toContain("engine-unavailable");
    // The first takes 3 seconds of 3.5, and the second gets 1 second at most.
    expect(connections).toBe(2);
  });

  it("prints the JSON that docs/json.md describes", async () => {
    const machine = createMachine(await server.createDatabase());
    const printed = new Printed();
    const run: Run = (args) => machine(...args);
    await printed.take(run, "Failed", ["runs"]);
    await printed.take(run, "EngineInit", ["engine", "init"]);
    await printed.take(run, "EngineCheck", ["engine", "check"]);
    await printed.take(run, "EnginePrune", ["engine", "prune"]);
    await printed.take(run, "Workers", ["workers"]);
    expect(printed.misfits()).toBe("");
  });

  it("removes old runs with the records of their dispatch, and no queued ones", async () => {
    const { url, world, engine } = await openScene(server);
    const machine = createPayingMachine({ url, world });
    const old = await detach(machine, "payer", "pay a 0");
    await machine.startWorker();
    await engine.waitFor([old], "ended");
    await waitFor(async () => (await engine.dispatcher.prune(new Date(Date.now() + 1000))) === 1);
    const report = async (...args: string[]) =>
      JSON.parse((await machine.command("engine", "prune", "--json", ...args)).stdout);
    expect(await report()).toEqual({ isDryRun: false, runs: 0, legs: 0 });
    expect(await report("--older-than", "0", "--dry-run")).toEqual({ isDryRun: true, runs: 1, legs: 0 });
    expect(await report("--older-than", "0")).toEqual({ isDryRun: false, runs: 1, legs: 0 });
    expect(await engine.runs.list()).toEqual([]);
  });

  it("refuses a password in the configuration file", async () => {
    const home = temporaryFolder();
    const set = (value: string) => skillet(["config", "set", "engine.url", value], { env: { HOME: home } });
    expect((await set("postgres://skillet:hunter2@localhost/skillet")).code).toBe(2);
    expect((await set("postgres://localhost/skillet?password=hunter2")).code).toBe(2);
    expect((await set("env:DATABASE_URL")).code).toBe(0);
  });
});
