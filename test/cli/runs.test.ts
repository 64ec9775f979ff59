import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunEvent } from "../../src/host/events.ts";
import { NO_USAGE } from "../../src/host/model-contract.ts";
import { formatJournalLine } from "../../src/store/journal.ts";
import { createRunStore, type RunStore } from "../../src/store/runs.ts";
import { createTestRun, EFFECT, TAIL } from "../store/run-scene.ts";
import { createHome, type Place } from "../support/home.ts";

type Journal = Awaited<ReturnType<RunStore["create"]>>;

interface Written extends Place {
  runs: RunStore;
  begun(id: string, work?: (journal: Journal) => unknown, head?: Parameters<typeof createTestRun>[1]): Promise<string>;
}

/** A home with recorded runs. */
function written(): Written {
  const at = createHome({});
  const runs = createRunStore(join(at.home, ".skillet"));
  return {
    ...at,
    runs,
    async begun(id, work = () => {}, head = {}) {
      const journal = await runs.create(createTestRun(id, head));
      await work(journal);
      await journal.close();
      return join(at.home, ".skillet/runs", `${id}.jsonl`);
    },
  };
}

const ID = "20260102-030405-0a1b2c3d";
const usage = { ...NO_USAGE, inputTokens: 12_000, outputTokens: 345 };
const event = (journal: Journal, one: object, run = ID, skill = "mailer") =>
  journal.event({ run, skill, at: new Date().toISOString(), ...one } as RunEvent);
const started = { type: "run-started", model: "a-model", tools: [], depth: 1, limits: { iterations: 1, seconds: 1 } };

describe("skillet runs", () => {
  it("are explained before the first one", async () => {
    const { run } = createHome({});
    const { code, stdout, stderr } = await run(["runs"]);
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("there are no runs yet");
    expect(stderr).toContain("skillet run host-report");
    expect(JSON.parse((await run(["runs", "--json"])).stdout)).toEqual({ runs: [], total: 0 });
  });

  it("are listed with their outcome, and with the next step for those that are not over", async () => {
    const { run, begun } = written();
    await begun("20260101-000001-00000001", (journal) => journal.end({}, { ...TAIL, usage, cost: 0.0123 }));
    await begun("20260101-000002-00000002", (journal) =>
      journal.end({}, { ...TAIL, stop: "max-iterations", isError: true }),
    );
    await begun("20260101-000003-00000003", (journal) => journal.ask("approval:1", EFFECT));
    await begun("20260101-000004-00000004", () => {}, { kind: "chat", skill: "", task: "hello" });
    const { code, stdout } = await run(["runs"]);
    expect(code).toBe(0);
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^! 00000004 {2}just now {2}chat {4}interrupted$/),
      "  hello",
      "  skillet resume 00000004",
      expect.stringMatching(/^\? 00000003 {2}just now {2}mailer {2}waiting$/),
      "  Send it",
      "  approval needed: mailer.send: send a mail",
      "  skillet approve 00000003 --resume",
      expect.stringMatching(/^✗ 00000002 {2}just now {2}mailer {2}step limit {3}1\.2 s$/),
      "  Send it",
      expect.stringMatching(/^✓ 00000001 {2}just now {2}mailer {2}done {9}1\.2 s · 12,345 tokens · \$0\.01$/),
      "  Send it",
      "",
    ]);
    expect((await run(["runs", "show", "00000003"])).stdout).toMatch(
      /\n {2}skillet approve 00000003 --resume {2}approves it and resumes the run; --deny REASON denies it\n$/,
    );
    expect((await run(["approve"])).stderr).toBe(
      "skillet approve ID --deny REASON --resume denies the request and resumes the run\n",
    );
  });

  it("can be filtered", async () => {
    const { run, begun } = written();
    const file = await begun("20260101-000001-00000001", (journal) => journal.end({}, TAIL));
    await begun("20260101-000002-00000002", () => {}, { skill: "other" });
    const at = new Date(Date.now() - 3 * 86_400_000).toISOString();
    const old = [
      formatJournalLine({ ...createTestRun("20250101-000000-00000009").head, type: "run", version: 1, at }),
      formatJournalLine({ ...TAIL, type: "end", at }),
    ];
    writeFileSync(join(dirname(file), "20250101-000000-00000009.jsonl"), old.join(""));
    const ids = async (...args: string[]) =>
      JSON.parse((await run(["runs", "--json", ...args])).stdout).runs.map(({ id }: { id: string }) => id.at(-1));
    expect(await ids()).toEqual(["2", "1", "9"]);
    expect(await ids("--state", "ended")).toEqual(["1", "9"]);
    await begun("20260101-000003-00000003", (journal) => journal.end({}, { ...TAIL, stop: "error", isError: true }));
    expect(await ids("--state", "done")).toEqual(["1", "9"]);
    expect(await ids("--state", "failed")).toEqual(["3"]);
    rmSync(join(dirname(file), "20260101-000003-00000003.jsonl"));
    expect(await ids("--skill", "other")).toEqual(["2"]);
    expect(await ids("--since", "2d")).toEqual(["2", "1"]);
    const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    expect(await ids("--since", yesterday)).toEqual(["2", "1"]);
    expect(await ids("--since", "2000-01-01")).toHaveLength(3);
    expect(await ids("--since", "100h", "-n", "1")).toEqual(["2"]);
    expect((await run(["runs"])).stdout).toContain("3 days ago");
    expect((await run(["runs", "-n", "1"])).stderr).toContain("and 2 older ones: skillet runs -n 3");
    expect((await run(["runs", "--skill", "none"])).stderr).toBe("none of 3 runs matches\n");
    expect(await run(["runs", "--state", "endet"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("did you mean ended?"),
    });
    expect((await run(["runs", "--since", "soon"])).code).toBe(2);
    expect((await run(["runs", "-n", "many"])).code).toBe(2);
    expect((await run(["runs", "shwo"])).stderr).toContain("did you mean skillet runs show?");
  });

  it("are found by any prefix of a listed id, which is preferred to the end of another", async () => {
    const { begun, runs, run } = written();
    await begun("20260101-000001-3f2a91c0");
    await begun("20260101-000002-77b01c3f");
    expect((await run(["cancel", "3f2"])).stdout).toBe("✓ cancelled: 20260101-000001-3f2a91c0\n");
    expect((await runs.find("3f")).id).toBe("20260101-000001-3f2a91c0");
    expect((await runs.find("1c3f")).id).toBe("20260101-000002-77b01c3f");
    expect((await runs.find("20260101-000002")).id).toBe("20260101-000002-77b01c3f");
    await expect(async () => await runs.find("20260101")).rejects.toThrow("2 runs match 20260101");
    await expect(async () => await runs.find("f2a")).rejects.toThrow("Unknown run f2a");
  });

  it("that are active on this machine can be awaited or canceled, and no file has to be removed", async () => {
    const { runs } = written();
    const journal = await runs.create(createTestRun(ID));
    await expect(async () => await runs.resume(ID)).rejects.toThrow(
      expect.objectContaining({
        code: "run-busy",
        message: `Run ${ID} is in use by process ${process.pid}`,
        fix: "wait for it to end, or cancel it",
        commands: [`skillet cancel ${ID}`],
      }),
    );
    await journal.close();
  });

  it("never exceed 80 columns at a terminal, and contain no control sequence", async () => {
    const { run, begun } = written();
    const tail = { ...TAIL, ms: 7_200_000, usage: { ...usage, inputTokens: 123_456_789 }, cost: 1234.5 };
    const head = { skill: "s".repeat(64), task: `${"very long ".repeat(20)}\u001b[2J` };
    await begun(
      "20260101-000001-00000001",
      (journal) => journal.end({}, { ...tail, stop: "budget", isError: true }),
      head,
    );
    await begun("20260101-000002-00000002", (journal) => journal.ask("a", { ...EFFECT, what: "w".repeat(300) }), {
      ...head,
      task: "\u001b[31mred\u202e",
    });
    const { stdout } = await run(["runs"], { isTTY: true, columns: 80, env: { NO_COLOR: "1" } });
    for (const line of stdout.split("\n")) expect([line, [...line].length <= 80]).toEqual([line, true]);
    expect(stdout).not.toContain("\u001b");
    expect(stdout).not.toContain("\u202e");
    expect(stdout).toContain("\\u{1b}[31mred");
  });
});

describe("skillet runs show", () => {
  it("lists events in order: steps, calls, approvals, nested runs, and the end", async () => {
    const { run, begun } = written();
    await begun(ID, async (journal) => {
      await event(journal, started);
      await event(journal, { type: "step-ended", step: 1, ms: 1500, usage, cost: 0.02, calls: 2 });
      await event(journal, { type: "tool-called", step: 1, tool: "bash", input: { command: "ls -l" } });
      await event(journal, {
        type: "tool-ended",
        step: 1,
        tool: "bash",
        isError: true,
        code: "exit",
        ms: 40,
        characters: 0,
      });
      await event(journal, { type: "tool-called", step: 1, tool: "use_skill", input: { skill: "inner" } });
      await event(journal, { ...started, depth: 2, parent: ID }, "inner-run", "inner");
      await event(
        journal,
        { type: "tool-called", step: 1, tool: "read_file", input: { path: "a" } },
        "inner-run",
        "inner",
      );
      await event(journal, { type: "run-ended", ...TAIL }, "inner-run", "inner");
      await event(journal, { type: "tool-ended", step: 1, tool: "use_skill", isError: false, ms: 900, characters: 3 });
      await event(journal, { type: "approval-requested", step: 2, tool: "mailer.send", approvalRequest: EFFECT });
      await event(journal, {
        type: "approval-decided",
        step: 2,
        tool: "mailer.send",
        isApproved: false,
        reason: "not now",
      });
      await event(journal, { type: "run-ended", ...TAIL });
      await journal.end({ content: "It was not sent.\nBecause." }, { ...TAIL, usage, cost: 0.02, model: "a-model" });
    });
    const { code, stdout, stderr } = await run(["runs", "show", "0a1b2c3d"]);
    expect([code, stderr]).toEqual([0, ""]);
    const lines = stdout.split("\n").map((line) => line.replace(/^ +\+\d+\.\d s {2}/, "@ "));
    expect(lines[0]).toBe(`✓ mailer  done  ${ID}`);
    expect(lines[2]).toBe("  Send it");
    expect(lines.filter((line) => line.startsWith("@"))).toEqual([
      "@ mailer with a-model",
      "@ step 1  1.5 s · 12,345 tokens · $0.02",
      "@   bash ls -l  exit 0.0 s",
      "@   use_skill inner  ok 0.9 s",
      "@   inner with a-model",
      "@     read_file a  not finished",
      "@   ✓ inner answer, 1.2 s",
      "@   ? mailer requests mailer.send: send a mail no: not now",
    ]);
    expect(stdout).toContain(
      "  It was not sent.\n  Because.\n✓ done (2 iterations, 1.2 s, 12,345 tokens, $0.02, a-model)\n",
    );
  });

  it("omits the empty fields of a chat's request", async () => {
    const { run, runs } = written();
    const head = { id: ID, kind: "chat", skill: "", task: "hello" } as const;
    await (await runs.create({ head, request: { message: "hello", context: "", active: [] } })).close();
    const { stdout } = await run(["runs", "show", "0a1"]);
    expect(stdout).toContain("  hello\n");
    expect(stdout).not.toMatch(/context|active/);
  });

  it("marks steps that were started twice, and who resumed the run", async () => {
    const { run, begun, runs } = written();
    const called = { type: "tool-called", step: 1, tool: "bash", input: { command: "make" } };
    await begun(ID, async (journal) => {
      await event(journal, started);
      await event(journal, called);
    });
    const journal = await runs.resume(ID);
    await event(journal, called);
    await event(journal, { type: "tool-ended", step: 1, tool: "bash", isError: false, ms: 10, characters: 1 });
    await event(journal, { ...called, step: 2 });
    await journal.close();
    const { stdout } = await run(["runs", "show", "last"]);
    expect(stdout).toMatch(/bash make {2}not finished\n/);
    expect(stdout).toContain(`↻ resumed by process ${process.pid}`);
    expect(stdout).toMatch(/bash make {2}ok 0\.0 s again: it was started before\n/);
    expect(stdout.match(/again: it was started before/g)).toHaveLength(1);
    expect(stdout).toContain("skillet resume 0a1b2c3d");
  });

  it("limits the length of results, and --full does not", async () => {
    const { run, begun } = written();
    const content = Array.from({ length: 50 }, (_, index) => `line ${index}`).join("\n");
    await begun(ID, (journal) => journal.end({ content }, TAIL));
    const short = (await run(["runs", "show", ID])).stdout;
    expect(short).toContain("line 19\n");
    expect(short).not.toContain("line 20\n");
    expect(short).toContain("… 50 lines in total: --full shows all");
    expect((await run(["runs", "show", ID, "--full"])).stdout).toContain("line 49\n");
  });

  it("reports a damaged line, shows the others, and exits 1", async () => {
    const { run, begun } = written();
    const file = await begun(ID, async (journal) => {
      await event(journal, started);
      await event(journal, { type: "run-warned", code: "x", message: "look here", fix: "" });
      await journal.end({ content: "the end" }, TAIL);
    });
    writeFileSync(file, readFileSync(file, "utf8").replace("a-model", "b-model"));
    const { code, stdout, stderr } = await run(["runs", "show", ID]);
    expect(code).toBe(1);
    expect(stderr).toBe("✗ line 4 of its journal is corrupt  [journal-corrupt]\n");
    expect(stdout).toContain("look here");
    expect(stdout).toContain("the end");
    expect(stdout).not.toContain("b-model");
    const json = JSON.parse((await run(["runs", "show", ID, "--json"])).stdout);
    expect(json.problems).toEqual([{ line: 4, message: "line 4 of its journal is corrupt" }]);
    expect([json.summary.id, json.lines.length]).toEqual([ID, 6]);
    writeFileSync(file, "no journal\n");
    expect(await run(["runs", "show", ID])).toMatchObject({ code: 1, stderr: expect.stringContaining("line 1 of") });
    expect((await run(["runs"])).stdout).toContain("corrupt");
  });

  it("reports an incomplete last line, and the run can still be resumed", async () => {
    const { run, begun } = written();
    const file = await begun(ID, (journal) => event(journal, started));
    appendFileSync(file, `{"type":"event","at"`);
    const { code, stdout, stderr } = await run(["runs", "show", ID]);
    expect(code).toBe(1);
    expect(stderr).toBe(
      "✗ line 5 of its journal is incomplete: the process ended while writing it  [journal-corrupt]\n",
    );
    expect(stdout).toContain("mailer with a-model");
    expect(stdout).toContain("skillet resume 0a1b2c3d");
  });

  it("escapes control sequences of a skill", async () => {
    const { run, begun } = written();
    const evil = "\u001b[2J\u202e\u0007";
    await begun(
      ID,
      async (journal) => {
        await event(journal, { ...started, model: evil }, ID, evil);
        await event(journal, { type: "tool-called", step: 1, tool: evil, input: { [evil]: evil } });
        await event(journal, { type: "run-warned", code: evil, message: evil, fix: evil });
        await journal.ask("a", { ...EFFECT, tool: evil, what: evil, skill: evil });
        await journal.answer("a", { isApproved: false, reason: evil }, EFFECT);
        await journal.end({ content: evil }, { ...TAIL, model: evil });
      },
      { skill: evil, task: evil, workspace: evil },
    );
    for (const args of [["runs"], ["runs", "show", ID], ["runs", "show", ID, "--full"], ["approve"]]) {
      const { stdout, stderr } = await run(args);
      expect(stdout + stderr).not.toMatch(/[\u001b\u202e\u0007]/);
    }
  });
});

describe("skillet runs prune", () => {
  it("shows what it would remove, and removes it", async () => {
    const { run, begun, runs, config } = written();
    for (const number of [1, 2, 3])
      await begun(`20260101-00000${number}-0000000${number}`, (journal) => journal.end({}, TAIL));
    expect((await run(["runs", "prune"])).stdout).toContain("nothing to remove");
    const trial = await run(["runs", "prune", "--keep", "1", "--dry-run"]);
    expect(trial.stdout).toContain("would remove 00000002  mailer");
    expect(trial.stdout).toContain("would remove 2 runs");
    expect(await runs.list()).toHaveLength(3);
    const { removed } = JSON.parse((await run(["runs", "prune", "--keep", "2", "--json"])).stdout);
    expect(removed).toMatchObject([{ id: "20260101-000001-00000001" }]);
    writeFileSync(config, "[runs]\nkeep = 1\n", { mode: 0o600 });
    expect((await run(["runs", "prune"])).stdout).toContain("removed 1 run:");
    expect((await run(["runs", "prune", "--older-than", "0"])).stdout).toContain("removed 1 run:");
    expect(await runs.list()).toEqual([]);
    expect((await run(["runs", "prune", "--keep", "-1"])).code).toBe(2);
  });
});
