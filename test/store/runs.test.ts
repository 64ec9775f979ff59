import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { formatJournalLine } from "../../src/store/journal.ts";
import type { RunRetention } from "../../src/store/run-rules.ts";
import { createRunStore, type RunStore } from "../../src/store/runs.ts";
import { temporaryFolder } from "../support/folder.ts";
import { IS_LONG } from "../support/sample-steps.ts";
import { expectLinearSteps } from "../support/steps.ts";
import { waitFor } from "../support/wait-for.ts";
import { createTestRun, EFFECT, ID, startOtherProcess, TAIL } from "./run-scene.ts";

const OTHER = "20260102-030406-99999999";

const thrownBy = async (work: () => unknown): Promise<Pick<SkillError, "code" | "message" | "fix">> => {
  try {
    await work();
  } catch (error) {
    if (error instanceof SkillError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
};

/** A store of runs in a home, and their folder. */
function storeIn(home = temporaryFolder(), keep?: RunRetention): RunStore & { folder: string } {
  return { ...createRunStore(home, keep), folder: join(home, "runs") };
}

type Journal = Awaited<ReturnType<RunStore["create"]>>;

async function begun(runs: RunStore, id: string, work: (journal: Journal) => unknown = () => {}): Promise<void> {
  const journal = await runs.create(createTestRun(id));
  await work(journal);
  await journal.close();
}

const DAY_MS = 86_400_000;

/** A run that ended this many days ago, as its file contains it. */
function past(runs: { folder: string }, id: string, days: number): void {
  const at = new Date(Date.now() - days * DAY_MS).toISOString();
  const lines = [
    formatJournalLine({ ...createTestRun(id).head, type: "run", version: 1, at }),
    formatJournalLine({ ...TAIL, type: "end", at }),
  ];
  writeFileSync(join(runs.folder, `${id}.jsonl`), lines.join(""), { mode: 0o600 });
}

describe("the list of runs", () => {
  it("is empty before the first one, and listing creates nothing", async () => {
    const home = temporaryFolder();
    expect(await createRunStore(home).list()).toEqual([]);
    expect((await thrownBy(() => createRunStore(home).find("last"))).code).toBe("run-unknown");
    expect(readdirSync(home)).toEqual([]);
  });

  it("has the outcome of each, the newest first", async () => {
    const runs = storeIn();
    await begun(runs, "20260101-000000-00000001", (journal) => journal.end({ content: "" }, { ...TAIL, cost: 0.5 }));
    await begun(runs, "20260101-000000-00000002", (journal) => journal.step("model:1", {}));
    await begun(runs, "20260101-000000-00000003", (journal) => journal.ask("approval:1", EFFECT));
    await begun(runs, "20260101-000000-00000004", async (journal) => {
      await journal.ask("approval:1", EFFECT);
      await journal.event({ type: "text-generated", run: ID, skill: "", at: "", step: 1, text: "another call ended" });
    });
    const held = await runs.create(createTestRun("20260101-000000-00000005"));
    await runs.answer("20260101-000000-00000003", { isApproved: true });
    await runs.cancel("20260101-000000-00000002");
    expect((await runs.list()).map(({ id, state }) => [id.at(-1), state])).toEqual([
      ["5", "running"],
      ["4", "waiting"],
      ["3", "answered"],
      ["2", "cancelled"],
      ["1", "ended"],
    ]);
    expect((await runs.find("00000005")).owner?.label).toBe(`process ${process.pid}`);
    expect((await runs.find("00000004")).approvalRequest).toEqual(EFFECT);
    expect((await runs.find("00000001")).end).toMatchObject({ stop: "answer", cost: 0.5 });
    await held.close();
    expect((await runs.find("00000005")).state).toBe("interrupted");
  });

  it("is searched by a unique prefix or suffix of an id", async () => {
    const runs = storeIn();
    await begun(runs, ID);
    await begun(runs, OTHER);
    expect((await runs.find("0a1b2c3d")).id).toBe(ID);
    expect((await runs.find("20260102-030406")).id).toBe(OTHER);
    expect((await runs.find("last")).id).toBe(OTHER);
    expect((await thrownBy(() => runs.find("20260102"))).message).toBe("2 runs match 20260102");
    for (const written of ["", "nothing", "../../etc/passwd", "a/b", "\u001b[2J"])
      expect((await thrownBy(() => runs.find(written))).code).toBe("run-unknown");
    expect((await thrownBy(() => runs.resume("../runs/x"))).code).toBe("run-unknown");
  });

  it("orders two runs of the same second", async () => {
    const runs = storeIn();
    await begun(runs, "20260102-030405-ffffffff");
    const first = Date.now();
    await waitFor(() => Date.now() > first);
    await begun(runs, "20260102-030405-00000000");
    expect((await runs.find("last")).id).toBe("20260102-030405-00000000");
    expect((await runs.list())[0]?.id).toBe("20260102-030405-00000000");
  });

  it("takes linear steps, also for runs without an end", async () => {
    const homeWith = async (many: number) => {
      const home = temporaryFolder();
      const runs = storeIn(home);
      await begun(runs, ID);
      const id = (day: string, number: number) => `${day}-000000-${String(number).padStart(8, "0")}`;
      for (let number = 0; number < many; number++) past(runs, id("20250101", number), 1);
      for (let number = 0; number < many / 20; number++) await begun(runs, id("20250102", number));
      return home;
    };
    const homes = await Promise.all([200, 400, 800].map(homeWith));
    const lists = await Promise.all(homes.map((home) => createRunStore(home).list()));
    expect(lists.map(({ length }) => length)).toEqual([211, 421, 841]);
    await expectLinearSteps(
      ["src/store/runs.ts"],
      ({ createRunStore }: typeof import("../../src/store/runs.ts"), home: string) => createRunStore(home).list(),
      [["runs", homes]],
    );
  });
});

describe("a run", () => {
  it("is taken by one of many concurrent processes", async () => {
    const home = temporaryFolder();
    const runs = storeIn(home);
    await begun(runs, ID);
    const count = IS_LONG ? 20 : 8;
    // All start when all are ready, and the winner keeps it until all others have tried.
    const racer = `
      import { readdirSync, writeFileSync } from "node:fs";
      const mark = (what) => writeFileSync(${JSON.stringify(home)} + "/" + what + "-" + process.pid, "");
      const all = async (what, number) => {
        while (readdirSync(${JSON.stringify(home)}).filter((name) => name.startsWith(what)).length < number)
          await new Promise((resolve) => setTimeout(resolve, 2));
      };
      mark("ready");
      await all("ready", ${count});
      try {
        const journal = await runs.resume(${JSON.stringify(ID)});
        await journal.step("by:" + process.pid, 1);
        mark("tried");
        await all("tried", ${count});
        say("won");
      } catch ({ code }) { mark("tried"); say(code); }`;
    const told = await Promise.all(Array.from({ length: count }, () => startOtherProcess(home, racer)));
    expect(told.filter((one) => one === "won")).toHaveLength(1);
    expect(told.filter((one) => one === "run-busy")).toHaveLength(count - 1);
    const { lines, corrupt } = await runs.read(ID);
    expect(corrupt).toEqual([]);
    expect(lines.filter(({ type }) => type === "step")).toHaveLength(1);
  });

  it("is free again when its process was killed, or the pid belongs to another process now", async () => {
    const home = temporaryFolder();
    const runs = storeIn(home);
    await begun(runs, ID);
    const owner = join(runs.folder, `${ID}.owner`);
    await startOtherProcess(
      home,
      `await runs.resume(${JSON.stringify(ID)}); process.kill(process.pid, "SIGKILL");`,
    ).catch(() => {});
    const left = JSON.parse(readFileSync(owner, "utf8"));
    expect(left.pid).not.toBe(process.pid);
    expect((await runs.find(ID)).state).toBe("interrupted");
    await (await runs.resume(ID)).close();
    const child = spawn("sleep", ["60"]);
    onTestFinished(() => void child.kill());
    const stale = [
      { ...left, pid: child.pid },
      { ...left, pid: process.pid },
      null,
      {},
      "text",
      { pid: -1, host: hostname(), start: "" },
    ];
    for (const one of stale) {
      writeFileSync(owner, JSON.stringify(one));
      expect([one, (await runs.find(ID)).state]).toEqual([one, "interrupted"]);
      await (await runs.resume(ID)).close();
    }
  });

  it("leaves nothing to resume when it could not be taken at its start", async () => {
    const runs = storeIn();
    await begun(runs, OTHER);
    mkdirSync(join(runs.folder, `${ID}.owner`));
    expect((await thrownBy(() => runs.create(createTestRun()))).code).toBe("unwritable");
    expect((await runs.list()).map(({ id }) => id)).toEqual([OTHER]);
  });

  it("of a process on another machine is not taken from it, and the message explains how to do that", async () => {
    const runs = storeIn();
    await begun(runs, ID);
    writeFileSync(join(runs.folder, `${ID}.owner`), JSON.stringify({ pid: 1, host: "elsewhere", start: "1" }));
    expect(await runs.find(ID)).toMatchObject({ state: "running", owner: { label: "process 1 on elsewhere" } });
    const { code, message, fix } = await thrownBy(() => runs.resume(ID));
    expect([code, message]).toEqual(["run-busy", `Run ${ID} is in use by process 1 on elsewhere`]);
    expect(fix).toContain(`remove ${join(runs.folder, `${ID}.owner`)}`);
  });

  it("is not taken when it ended meanwhile", async () => {
    const home = temporaryFolder();
    const runs = storeIn(home);
    await begun(runs, ID);
    const journal = await runs.resume(ID);
    expect((await thrownBy(() => runs.resume(ID))).code).toBe("run-busy");
    await journal.end({ content: "" }, TAIL);
    await journal.close();
    expect(await thrownBy(() => runs.resume(ID))).toMatchObject({
      code: "run-ended",
      fix: "run",
      commands: [`skillet runs show ${ID}`],
    });
    expect(readdirSync(runs.folder).filter((name) => name.includes("owner"))).toEqual([]);
  });

  it("accepts one answer to each question, and none without a question", async () => {
    const runs = storeIn();
    await begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    await begun(runs, OTHER, (journal) => journal.step("model:1", {}));
    expect(await thrownBy(() => runs.answer(OTHER, { isApproved: true }))).toMatchObject({
      code: "no-pending-approval",
      message: `Run ${OTHER} waits for no approval: it was interrupted`,
    });
    expect(await runs.answer(ID, { isApproved: false, reason: "ask Ann" })).toEqual(EFFECT);
    expect((await thrownBy(() => runs.answer(ID, { isApproved: true }))).message).toBe(
      `Run ${ID} already has its answer`,
    );
    expect((await thrownBy(() => runs.answer("unknown", { isApproved: true }))).code).toBe("run-unknown");
    const journal = await runs.resume(ID);
    expect(journal.getAnswer("approval:1")?.approval).toEqual({ isApproved: false, reason: "ask Ann" });
    expect((await thrownBy(() => runs.answer(ID, { isApproved: true }))).message).toContain("is running");
    await journal.ask("approval:2", { ...EFFECT, what: "send another" });
    await journal.ask("approval:3", { ...EFFECT, what: "send a third" });
    await journal.close();
    // The shown action is the approved one.
    expect((await thrownBy(() => runs.answer(ID, { isApproved: true }, EFFECT))).message).toContain(
      "now asks for a different approval",
    );
    expect((await runs.answer(ID, { isApproved: true }, { ...EFFECT, what: "send another" })).what).toBe(
      "send another",
    );
    expect(await runs.find(ID)).toMatchObject({ state: "waiting", approvalRequest: { what: "send a third" } });
    await runs.cancel(ID);
    expect((await thrownBy(() => runs.answer(ID, { isApproved: true }))).message).toBe(`Run ${ID} was cancelled`);
  });

  it("still waits when the process that resumed it was killed before an answer", async () => {
    const runs = storeIn();
    await begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    await (await runs.resume(ID)).close();
    expect((await runs.find(ID)).state).toBe("waiting");
    await runs.answer(ID, { isApproved: true });
    await (await runs.resume(ID)).close();
    expect((await runs.find(ID)).state).toBe("interrupted");
  });

  it("stays canceled, and cannot be canceled twice", async () => {
    const runs = storeIn();
    await begun(runs, ID);
    await runs.cancel(ID);
    expect((await thrownBy(() => runs.resume(ID))).code).toBe("run-cancelled");
    expect((await thrownBy(() => runs.cancel(ID))).message).toBe(`Run ${ID} is already cancelled`);
    const other = await runs.create(createTestRun(OTHER));
    await runs.cancel(OTHER);
    expect((await runs.find(OTHER)).state).toBe("running");
    expect(await other.isCancelled()).toBe(true);
    await other.end({ content: "" }, { ...TAIL, stop: "aborted", isError: true });
    await other.close();
    expect(await runs.find(OTHER)).toMatchObject({ state: "cancelled", end: { stop: "aborted" } });
  });

  it("accepts an answer also after a torn last line", async () => {
    const runs = storeIn();
    await begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    const file = join(runs.folder, `${ID}.jsonl`);
    writeFileSync(file, `{"type":"event","at":"2026-01-0`, { flag: "a" });
    await runs.answer(ID, { isApproved: true });
    expect((await runs.read(ID)).corrupt).toEqual([]);
    expect((await runs.find(ID)).state).toBe("answered");
    writeFileSync(file, `{"type":"ev`, { flag: "a" });
    await runs.cancel(ID);
    expect([(await runs.read(ID)).corrupt, (await runs.find(ID)).state]).toEqual([[], "cancelled"]);
  });
});

describe("retention of runs", () => {
  it("keeps new runs, and a limited number of finished ones", async () => {
    const runs = storeIn();
    await begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    for (let number = 1; number <= 5; number++) past(runs, `2025010${number}-000000-00000000`, 40 - number * 5);
    const gone = async (days: number, most: number) =>
      (await runs.prune({ days, most }, { isTrial: true })).map(({ id }) => id.slice(0, 8));
    expect(await gone(32, 100)).toEqual(["20250101"]);
    expect(await gone(27, 100)).toEqual(["20250102", "20250101"]);
    expect(await gone(100, 3)).toEqual(["20250103", "20250102", "20250101"]);
    expect(await gone(100, 0)).not.toContain(ID.slice(0, 8));
    expect(await runs.list()).toHaveLength(6);
    expect(await runs.prune({ days: 100, most: 3 })).toHaveLength(3);
    expect(await runs.list()).toHaveLength(3);
  });

  it("keeps active runs, however old", async () => {
    const runs = storeIn();
    const journal = await runs.create(createTestRun());
    await begun(runs, OTHER);
    expect((await runs.prune({ days: 0, most: 0 })).map(({ id }) => id)).toEqual([OTHER]);
    await journal.step("still", "here");
    await journal.close();
    expect((await runs.read(ID)).lines.at(-1)).toMatchObject({ name: "still" });
    expect(readdirSync(runs.folder).filter((name) => name.startsWith(OTHER))).toEqual([]);
  });

  it("happens once a day, when a run starts", async () => {
    const runs = storeIn(temporaryFolder(), { days: 30, most: 1000 });
    await begun(runs, ID);
    past(runs, "20250101-000000-00000000", 31);
    await begun(runs, OTHER);
    expect(await runs.list()).toHaveLength(3);
    const yesterday = new Date(Date.now() - DAY_MS - 1000);
    utimesSync(join(runs.folder, ".pruned"), yesterday, yesterday);
    await begun(runs, "20260103-000000-00000000");
    expect((await runs.list()).map(({ id }) => id)).not.toContain("20250101-000000-00000000");
  });

  it("does not follow a clock that jumped ahead for one command, until a second run has seen that time", async () => {
    const runs = storeIn(temporaryFolder(), { days: 30, most: 1000 });
    const look = (at: number) => utimesSync(join(runs.folder, ".pruned"), at / 1000, at / 1000);
    const old = ["20250101-000000-00000000", "20250102-000000-00000000"];
    await begun(runs, ID);
    rmSync(join(runs.folder, `${ID}.jsonl`));
    for (const id of old) past(runs, id, 40);
    look(Date.now() - 2 * DAY_MS);
    await begun(runs, OTHER);
    expect(await runs.list()).toHaveLength(3);
    look(Date.now() + 40 * DAY_MS);
    await begun(runs, "20260103-000000-00000000");
    expect((await runs.list()).map(({ id }) => id).sort()).toEqual([OTHER, "20260103-000000-00000000"].sort());
  });
});
