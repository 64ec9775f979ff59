import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createMachine, detach, openScene } from "../../support/engine-scene.ts";
import { temporaryFolder } from "../../support/folder.ts";
import type { ReadRequest, Said } from "../../support/model-protocols.ts";
import { HAS_POSTGRES, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { waitFor } from "../../support/wait-for.ts";

/**
 * The program of a provider. It records each request and each change, and makes one change per key. Then it answers, but not before the
 * test lets it.
 */
const PROVIDER = `
import { appendFileSync, existsSync, readFileSync } from "node:fs";
const folder = process.argv[2];
const { id, method, params } = JSON.parse(readFileSync(0, "utf8"));
const input_schema = { type: "object", properties: { title: { type: "string" } } };
const add = { name: "add", description: "Adds a note.", mutating: true, input_schema };
const results = {
  describe: () => ({ capabilities: [{ id: "notes.notes", description: "Notes.", operations: [add] }] }),
  health: () => ({ is_ready: true }),
  async invoke() {
    const key = params.idempotency_key + "\\n";
    const isDone = readFileSync(folder + "/changes", "utf8").includes(key);
    appendFileSync(folder + "/requests", key);
    if (!isDone) appendFileSync(folder + "/changes", key);
    await new Promise((resolve) => {
      const poll = setInterval(() => existsSync(folder + "/may-answer") && resolve(clearInterval(poll)), 20);
    });
    return { output: { is_done: true } };
  },
};
console.log(JSON.stringify({ version: 1, id, ok: true, result: await results[method]() }));
`;

/** The model adds one note. */
function addOnce({ entries, tools }: ReadRequest): Said {
  const usage = { input: 100, output: 10, cached: 0 };
  const name = Object.keys(tools).find((tool) => tool.endsWith("add")) ?? "";
  if (entries.some((entry) => "result" in entry)) return { text: "added", usage, calls: [] };
  return { text: "", usage, calls: [{ id: "call_1", name, input: { title: "milk" } }] };
}

describe.skipIf(!HAS_POSTGRES)("changes of capabilities", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it.each([
    { fate: "killed", signal: "SIGKILL", decision: [], requests: 2, approvals: 2 },
    { fate: "frozen", signal: "SIGSTOP", decision: ["--deny"], requests: 1, approvals: 1 },
  ] as const)(
    "[E-22] are made once per approval when their worker is $fate before it can record one",
    async ({ signal, decision, requests, approvals }) => {
      const { url, world, engine } = await openScene(server, addOnce);
      const folder = temporaryFolder();
      const read = (name: string) => readFileSync(join(folder, name), "utf8").split("\n").slice(0, -1);
      writeFileSync(join(folder, "provider.mjs"), PROVIDER);
      for (const name of ["requests", "changes"]) writeFileSync(join(folder, name), "");
      const command = JSON.stringify([process.execPath, join(folder, "provider.mjs"), folder]);
      const machine = createMachine({
        ...{ url, world, leaseSeconds: 2, skills: { noter: "Note it." } },
        more: 'capabilities: [notes.notes]\nallowed_tools: ["notes.*"]\n',
        config: `[capabilities.providers.notes]\ncommand = ${command}\n`,
      });
      expect(await machine.command("capability", "grant", "noter", "notes.notes", "--yes")).toMatchObject({ code: 0 });
      const first = await machine.startWorker();
      onTestFinished(() => writeFileSync(join(folder, "may-answer"), ""));
      const id = await detach(machine, "noter", "Note milk.");
      await engine.waitFor([id], "waiting");
      expect(read("requests")).toEqual([]);
      expect(await machine.command("approve", id, "--yes")).toMatchObject({ code: 0 });
      await waitFor(() => read("changes").length > 0);
      first.signal(signal);
      writeFileSync(join(folder, "may-answer"), "");

      // The outcome is not recorded: another worker asks, and makes no change with the approval that was used.
      await machine.startWorker();
      await engine.waitFor([id], "waiting");
      expect((await machine.command("runs", "show", id)).stdout).toContain("it may already be done");
      expect(read("requests")).toHaveLength(1);
      expect(await machine.command("approve", id, "--yes", ...decision)).toMatchObject({ code: 0 });
      await engine.waitFor([id], "ended");
      first.signal("SIGCONT");
      await waitFor(() => signal === "SIGKILL" || first.events.some(({ type }) => type === "run-left"));

      const keys = read("requests");
      expect(keys).toHaveLength(requests);
      expect(new Set(keys)).toHaveLength(1);
      expect(read("changes")).toHaveLength(1);
      const steps = (await engine.runs.read(id)).lines.flatMap((line) => (line.type === "step" ? line.name : []));
      expect(steps.length).toBe(new Set(steps).size);
      const audit = JSON.parse((await machine.command("audit", "--json")).stdout);
      const begun = audit.lines.filter(({ outcome }: { outcome: string }) => outcome === "begun");
      expect(new Set(begun.map(({ approval }: { approval: string }) => approval))).toHaveLength(approvals);
      expect(begun).toHaveLength(approvals);
    },
  );
});
