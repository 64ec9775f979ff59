import { afterAll, beforeAll, describe, expect, it } from "vitest";
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
});
