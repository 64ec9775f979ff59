import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatJournalLine } from "../../../src/store/journal.ts";
import { createMachine, detach, type Reply, startWorld, viewEngine } from "../../support/engine-scene.ts";
import { API_KEY } from "../../support/model-server.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";

const SECRET = 's3cret "Value"/42+x';
const TASK = "reconcile the ledgers of the harbour";
const SEAL_KEY = "jQ4n0b8ZqkR5p1c2W7mYt3xVu6sLd9fa";

/** A secret as the tools of a shell, JSON and URLs write it. */
function spell(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    ...[secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)],
    ...(["base64", "base64url", "hex"] as const).map((encoding) => bytes.toString(encoding).replace(/=+$/, "")),
    [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" "),
  ];
}

/** The model prints the secret in several encodings, repeats it, and passes it to the bank. */
const leak: Reply = (asked) => {
  const results = asked.entries.filter((entry) => "result" in entry).length;
  const usage = { input: 10, output: 1, cached: 0 };
  const call = (name: string, input: object) => ({
    text: `with ${SECRET}`,
    usage,
    calls: [{ id: `c${results}`, name, input }],
  });
  if (results === 0)
    return call("bash", { command: 'echo "$K"; printf %s "$K" | base64; printf %s "$K" | od -An -v -tx1 -w99; false' });
  if (results === 1)
    return call(Object.keys(asked.tools).find((name) => name.endsWith("pay")) ?? "", { tag: SECRET, number: 1 });
  if (results === 2) return call(SECRET, { [SECRET]: Buffer.from(SECRET).toString("hex") });
  return { text: `It is ${SECRET}, or ${Buffer.from(SECRET).toString("base64")}.`, usage, calls: [] };
};

describe.skipIf(!HAS_POSTGRES)("the content of a database", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres({ log_statement: "all", log_min_duration_statement: "0" });
  });
  afterAll(() => server.remove());

  const runLeaks = async (env: Readonly<Record<string, string>> = {}) => {
    const [url, world] = [await server.createEngine(), await startWorld(leak)];
    const engine = await viewEngine(url, env["SEAL_KEY"]);
    const config = '[skills.payer]\nK = "env:OF_ENV"\n';
    const machine = createMachine({
      ...{ url, world, config, more: "env: [K]\n", needsApproval: true },
      env: { OF_ENV: SECRET, ...env },
    });
    expect(await machine.command("trust", "--secrets", "payer", "--yes")).toMatchObject({ code: 0 });
    const worker = await machine.startWorker();
    const id = await detach(machine, "payer", `${TASK}, with ${SECRET}`);
    await engine.waitFor([id], "waiting");
    expect(await machine.command("approve", id, "--yes")).toMatchObject({ code: 0 });
    await engine.waitFor([id], "ended");
    worker.signal("SIGTERM");
    await worker.ended;
    const dump = await server.call("pg_dump", "--inserts", new URL(url).pathname.slice(1));
    return { dump, output: worker.stdout() + worker.stderr(), machine, id, url, engine };
  };

  it("[E-06] has no value of a secret in any table, dump or log", async () => {
    const { dump, output, id, engine } = await runLeaks();
    const { lines } = await engine.runs.read(id);
    expect(JSON.stringify(lines)).toContain("[K]");
    expect(dump).toContain(TASK);
    expect(server.readLog()).toContain(id);
    for (const text of [dump, output, server.readLog()])
      for (const spelled of [...spell(SECRET), ...spell(API_KEY)]) expect(text).not.toContain(spelled);
  });

  it("[E-06] has no text of a task with a seal key, and fails with the fix on a machine without the key", async () => {
    const before = server.readLog().length;
    const { dump, machine, id, url } = await runLeaks({ SEAL_KEY });
    for (const text of [dump, server.readLog().slice(before)])
      for (const part of [TASK, "harbour", "[K]", SEAL_KEY, "It is", ...spell(SECRET)])
        expect(text).not.toContain(part);
    expect(dump).toContain("sealed-1 ");
    expect((await machine.command("runs", "show", id)).stdout).toContain(TASK);
    const world = await startWorld();
    const other = createMachine({ url, world, env: { SEAL_KEY: SEAL_KEY.replace("j", "k") } });
    for (const one of [createMachine({ url, world }), other]) {
      const { code, stderr } = await one.command("runs");
      expect(code).toBe(1);
      expect(stderr).toContain("engine-sealed");
      expect(stderr).toContain("engine.seal_key");
    }
    const short = createMachine({ url, world, env: { SEAL_KEY: "short" } });
    expect((await short.command("runs")).stderr).toContain("at least 32");
  });

  it("[E-06] opens a sealed line only in its place, and reads lines from before places", async () => {
    const url = await server.createEngine();
    const { database, runs } = await viewEngine(url, SEAL_KEY);
    const create = async (id: string) => {
      const journal = await runs.create({ head: { id, kind: "use", skill: "a", task: "" }, request: {} });
      for (const name of ["a", "b", "c"]) await journal.step(name, name);
      await journal.close();
    };
    const [id, other] = ["20260102-030405-0a1b2c3d", "20260102-030405-0a1b2c3e"];
    await create(id);
    await create(other);
    const resumed = await runs.resume(id);
    await resumed.step("d", "d");
    await resumed.close();
    await runs.cancel(other);
    const { lines } = await runs.read(id);
    expect(lines.map((line) => (line.type === "step" ? line.name : line.type))).toEqual([
      ...["run", "request", "opened", "a", "b", "c", "opened", "d"],
    ]);
    const before = await database.query("select * from skillet.lines order by seq");
    const restore = async () => {
      await database.query("delete from skillet.lines");
      await database.query({
        text: `insert into skillet.lines (run, seq, owner, n, kind, line) overriding system value
          select run, seq, owner, n, kind, line from jsonb_to_recordset($1)
            as l(run text, seq bigint, owner uuid, n integer, kind text, line text)`,
        values: [JSON.stringify(before)],
      });
    };
    const at = (run: string, index: number) =>
      `(select seq from skillet.lines where run = '${run}' order by seq offset ${index} limit 1)`;
    const line = (run: string, index: number) => `(select line from skillet.lines where seq = ${at(run, index)})`;
    const altered = { code: "engine-altered" };
    for (const change of [
      // Another line of the run, the same line of another run, one repeated, two exchanged, one removed, one in plain text.
      `update skillet.lines set line = ${line(id, 2)} where seq = ${at(id, 3)}`,
      `update skillet.lines set line = ${line(other, 2)} where seq = ${at(id, 2)}`,
      `insert into skillet.lines (run, kind, line) select run, kind, line from skillet.lines where seq = ${at(id, 0)}`,
      `update skillet.lines set line = case seq when ${at(id, 2)} then ${line(id, 3)} else ${line(id, 2)} end
        where seq in (${at(id, 2)}, ${at(id, 3)})`,
      `delete from skillet.lines where seq = ${at(id, 3)}`,
      `delete from skillet.lines where seq = ${at(id, 4)}`,
      `insert into skillet.lines (run, kind, line) values ('${id}', 'cancel', '{"type":"cancel"}')`,
      `update skillet.lines set line = replace(line, 'sealed-2 step', 'sealed-2 end') where seq = ${at(id, 2)}`,
      `update skillet.lines set line = regexp_replace(line, '^sealed-2 \\S+ \\S+ \\S+ ', '') where seq = ${at(id, 2)}`,
    ]) {
      await database.query(change);
      await expect(runs.read(id), change).rejects.toMatchObject(altered);
      await expect(runs.resume(id), change).rejects.toMatchObject(altered);
      expect((await runs.list()).map((run) => run.id).sort()).toEqual([id, other]);
      await restore();
    }
    await database.query(
      `update skillet.runs set head = (select head from skillet.runs where id = '${other}') where id = '${id}'`,
    );
    await expect(runs.read(id)).rejects.toMatchObject(altered);
    expect((await runs.list()).find((run) => run.id === id)?.state).toBe("corrupt");

    // As before places: the seal names the run only. What follows has places.
    const { sealer } = database;
    const old = "20250102-030405-0a1b2c3d";
    const [head, ...rest] = lines.map((one) =>
      sealer.seal(old, formatJournalLine(one.type === "run" ? { ...one, id: old } : one).trimEnd()),
    );
    await database.query({ text: "insert into skillet.runs (id, head) values ($1, $2)", values: [old, `${head}\n`] });
    for (const [index, text] of rest.entries())
      await database.query({
        text: "insert into skillet.lines (run, kind, line) values ($1, $2, $3)",
        values: [old, lines[index + 1]?.type, `${text}\n`],
      });
    const journal = await runs.resume(old);
    expect(journal.getStep("d")).toEqual({ value: "d" });
    await journal.step("e", "e");
    await journal.close();
    await runs.cancel(old);
    expect((await runs.read(old)).lines.slice(-3).map(({ type }) => type)).toEqual(["opened", "step", "cancel"]);
  });
});
