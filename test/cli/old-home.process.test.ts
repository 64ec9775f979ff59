import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { readOrCreateServerToken } from "../../src/remote/clients/mcp-clients.ts";
import { copyOldHome, updateChecksum } from "../support/old-home.ts";

describe("a home of 0.1.0", () => {
  it("keeps its trust: in skills, in the text of a workspace, and in the user's folders", async () => {
    const old = copyOldHome();
    const { trusted, text, mine } = await old.json("trust", "--list");
    expect(trusted.map(({ name, state }: Record<string, string>) => [name, state])).toEqual([
      ["keyed", "unchanged"],
      ["looper", "unchanged"],
      ["writer", "unchanged"],
    ]);
    expect(text).toMatchObject([{ folder: old.cwd }]);
    expect(mine).toMatchObject([{ folder: join(old.root, "mine") }]);
  });

  it("gives a trusted skill the value that was granted to it, and runs it", async () => {
    const old = copyOldHome();
    const { stdout, code } = await old.run(["run", "keyed", "hi", "--model", "runbook"]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("has its key")]);
  });

  it("keeps permanent approvals", async () => {
    const old = copyOldHome();
    const { always } = await old.json("approve");
    expect(always).toMatchObject([{ skill: "writer", allowed: [expect.stringContaining("workspace")] }]);
  });

  it("knows the copies in clients, so that a copy is not a second skill", async () => {
    const old = copyOldHome();
    expect((await old.json("export", "--list")).installed).toMatchObject([
      { name: "greeter", client: "claude", state: "up-to-date" },
    ]);
    const { skills } = await old.json("list");
    expect(skills.filter(({ name }: { name: string }) => name === "greeter")).toMatchObject([
      { source: "~/.skillet/skills", locations: [{ source: "~/.skillet/skills" }] },
    ]);
  });

  it("keeps added skills with their lock, and the signers", async () => {
    const old = copyOldHome();
    expect((await old.json("verify")).skills).toMatchObject([{ name: "adder", state: "unchanged" }]);
    expect((await old.json("signers")).signers).toMatchObject([{ name: "alice" }]);
  });

  it("keeps the statistics, with current stop reasons", async () => {
    const old = copyOldHome();
    const { skills } = await old.json("stats");
    const outcomes = Object.fromEntries(skills.map((row: Record<string, unknown>) => [row["name"], row["outcomes"]]));
    expect(outcomes).toMatchObject({
      looper: { "max-iterations": 1 },
      writer: { answer: 1 },
      "note-taker": { answer: 1, waiting: 1 },
    });
  });

  it("shows its runs with current events, stop reasons and codes", async () => {
    const old = copyOldHome();
    const { runs } = await old.json("runs");
    const stops = runs.map(({ skill, state, end }: Record<string, { stop: string }>) => [skill, state, end?.stop]);
    expect(stops).toContainEqual(["looper", "ended", "max-iterations"]);
    expect(stops).toContainEqual(["note-taker", "waiting", undefined]);
    const { id } = runs.find(({ skill }: { skill: string }) => skill === "writer");
    expect(readFileSync(join(old.skilletHome, `runs/${id}.jsonl`), "utf8")).toContain('"approval-asked"');
    const { lines, problems } = await old.json("runs", "show", id);
    expect(problems).toEqual([]);
    const types = lines.flatMap(({ event }: { event?: { type: string } }) => event?.type ?? []);
    expect(types).toEqual(expect.arrayContaining(["run-started", "approval-requested", "run-ended"]));
    expect(types.filter((type: string) => /-(?:asked|given|said)$/.test(type))).toEqual([]);
  });

  it("keeps its configuration in force, and names the current keys", async () => {
    const old = copyOldHome();
    const { set, diagnostics } = await old.json("config");
    const values = Object.fromEntries(set.map(({ key, value }: Record<string, unknown>) => [key, value]));
    expect(values).toMatchObject({
      "limits.iteration_cap": 20,
      "disclosure.list_intents": ["was kannst du"],
      "tools.mcp.docs.auto_approve": ["read_page"],
    });
    expect(diagnostics.map(({ code }: { code: string }) => code)).toEqual(Array(3).fill("config-renamed"));
  });

  it("keeps the token of its server", () => {
    const old = copyOldHome();
    const before = old.bytes("serve-token").toString().trim();
    expect(readOrCreateServerToken(old.skilletHome)).toMatchObject({ token: before, isNew: false });
  });

  it("completes a run that waited, and continues the audit chain", async () => {
    const old = copyOldHome();
    const before = await old.json("audit", "verify");
    expect(before).toMatchObject({ isWhole: true });
    expect(before.total).toBeGreaterThan(5);
    const { waiting } = await old.json("approve");
    expect(waiting).toMatchObject([{ skill: "note-taker", approvalRequest: { tool: "notes.notes.add" } }]);
    const { code, stdout, stderr } = await old.run(["approve", waiting[0].id, "--yes", "--resume"]);
    expect([code, stderr]).toEqual([0, expect.stringContaining("done")]);
    expect(stdout).toContain("Water the plants");
    const after = await old.json("audit", "verify");
    expect(after.isWhole).toBe(true);
    expect(after.total).toBeGreaterThan(before.total);
    const { skills } = await old.json("stats");
    expect(skills.find(({ name }: { name: string }) => name === "note-taker").outcomes).toEqual({ answer: 2 });
  });
});

describe("a file of a newer skillet", () => {
  const COMMANDS: Record<string, string[]> = {
    "trust.json": ["trust", "writer", "--yes"],
    "text-approvals.json": ["trust", "--text", ".", "--yes"],
    "own-folders.json": ["trust", "--mine", "../source", "--yes"],
    "grants.json": ["config", "set", "skills.note-taker.network", "127.0.0.1:9"],
    "signers.json": ["signers", "remove", "alice"],
    "installs.json": ["export", "note-taker", "--to", "claude"],
    "approvals.json": ["approve", "--forget", "writer"],
    "installed/skills.lock": ["remove", "adder", "--yes"],
  };

  it.each(Object.entries(COMMANDS))(
    "%s is a problem that names both versions, and stays unchanged",
    async (path, args) => {
      const old = copyOldHome();
      const file = join(old.skilletHome, path);
      writeFileSync(file, readFileSync(file, "utf8").replace('"version": 1', '"version": 2'));
      if (path === "trust.json") writeFileSync(join(old.cwd, "skills/writer/more.md"), "Changed.");
      const before = readFileSync(file, "utf8");
      expect(before).toContain('"version": 2');
      const { code, stdout, stderr } = await old.run(args);
      expect(stdout + stderr).toMatch(/version 2, and this skillet supports version 1/);
      expect(stdout + stderr).toContain("update skillet");
      expect(code).not.toBe(0);
      expect(readFileSync(file, "utf8")).toBe(before);
    },
  );

  it("that records a run is listed, and neither resumed, approved nor canceled", async () => {
    const old = copyOldHome();
    const { waiting } = await old.json("approve");
    const { id } = waiting[0];
    const file = join(old.skilletHome, `runs/${id}.jsonl`);
    const [first = "", ...rest] = readFileSync(file, "utf8").split("\n");
    const newer = first.replace('"version":1', '"version":2').replace(/^(.*),"crc":"\w+"\}$/, updateChecksum);
    writeFileSync(file, [newer, ...rest].join("\n"));
    const before = readFileSync(file, "utf8");
    expect((await old.json("runs")).runs).toContainEqual(expect.objectContaining({ id, formatVersion: 2 }));
    for (const args of [
      ["resume", id],
      ["approve", id, "--yes"],
      ["cancel", id],
    ]) {
      const { code, stderr } = await old.run(args);
      expect(stderr).toContain("has format version 2, and this skillet supports version 1");
      expect(code).not.toBe(0);
    }
    expect(readFileSync(file, "utf8")).toBe(before);
  });

  it("with statistics is a problem, and stays unchanged", async () => {
    const old = copyOldHome();
    const database = new DatabaseSync(join(old.skilletHome, "statistics.db"));
    database.exec("PRAGMA user_version = 99");
    database.close();
    const before = old.bytes("statistics.db");
    const { code, stderr } = await old.run(["stats"]);
    expect([code === 0, stderr]).toEqual([false, expect.stringContaining("written by another version")]);
    expect(old.bytes("statistics.db").equals(before)).toBe(true);
  });
});
