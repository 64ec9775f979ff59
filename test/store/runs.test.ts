import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { formatJournalLine } from "../../src/store/journal.ts";
import { createRunStore, type RunStore } from "../../src/store/runs.ts";
import { temporaryFolder } from "../support/folder.ts";
import { expectLinearSteps } from "../support/steps.ts";
import { waitFor } from "../support/wait-for.ts";
import { EFFECT, elsewhere, ID, newRun, TAIL } from "./run-scene.ts";

const OTHER = "20260102-030406-99999999";

const thrownBy = (work: () => unknown): Pick<SkillError, "code" | "message" | "fix"> => {
  try {
    work();
  } catch (error) {
    if (error instanceof SkillError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
};

type Journal = ReturnType<RunStore["create"]>;

function begun(runs: RunStore, id: string, work: (journal: Journal) => void = () => {}): void {
  const journal = runs.create(newRun(id));
  work(journal);
  journal.close();
}

const DAY_MS = 86_400_000;

/** A run that ended so many days ago, as it stands in its file. */
function past(runs: RunStore, id: string, days: number): void {
  const at = new Date(Date.now() - days * DAY_MS).toISOString();
  const lines = [
    formatJournalLine({ ...newRun(id).head, type: "run", version: 1, at }),
    formatJournalLine({ ...TAIL, type: "end", at }),
  ];
  writeFileSync(join(runs.folder, `${id}.jsonl`), lines.join(""), { mode: 0o600 });
}

describe("the runs", () => {
  it("are none before the first, and nothing is made for a look", () => {
    const home = temporaryFolder();
    expect(createRunStore(home).list()).toEqual([]);
    expect(thrownBy(() => createRunStore(home).find("last")).code).toBe("run-unknown");
    expect(readdirSync(home)).toEqual([]);
  });

  it("say what became of each, the newest first", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, "20260101-000000-00000001", (journal) => journal.end({ content: "" }, { ...TAIL, cost: 0.5 }));
    begun(runs, "20260101-000000-00000002", (journal) => journal.step("model:1", {}));
    begun(runs, "20260101-000000-00000003", (journal) => journal.ask("approval:1", EFFECT));
    begun(runs, "20260101-000000-00000004", (journal) => {
      journal.ask("approval:1", EFFECT);
      journal.event({ type: "text-generated", run: ID, skill: "", at: "", step: 1, text: "another call ended" });
    });
    const held = runs.create(newRun("20260101-000000-00000005"));
    runs.answer("20260101-000000-00000003", { isApproved: true });
    runs.cancel("20260101-000000-00000002");
    expect(runs.list().map(({ id, state }) => [id.at(-1), state])).toEqual([
      ["5", "running"],
      ["4", "waiting"],
      ["3", "answered"],
      ["2", "cancelled"],
      ["1", "ended"],
    ]);
    expect(runs.find("00000005").pid).toBe(process.pid);
    expect(runs.find("00000004").effect).toEqual(EFFECT);
    expect(runs.find("00000001").end).toMatchObject({ stop: "answer", cost: 0.5 });
    held.close();
    expect(runs.find("00000005").state).toBe("interrupted");
  });

  it("are found by what an id begins or ends with, when that is one alone", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID);
    begun(runs, OTHER);
    expect(runs.find("0a1b2c3d").id).toBe(ID);
    expect(runs.find("20260102-030406").id).toBe(OTHER);
    expect(runs.find("last").id).toBe(OTHER);
    expect(thrownBy(() => runs.find("20260102")).message).toBe("2 runs match 20260102");
    for (const written of ["", "nothing", "../../etc/passwd", "a/b", "\u001b[2J"])
      expect(thrownBy(() => runs.find(written)).code).toBe("run-unknown");
    expect(thrownBy(() => runs.resume("../runs/x")).code).toBe("run-unknown");
  });

  it("know the later of two that began in the same second", async () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, "20260102-030405-ffffffff");
    const first = Date.now();
    await waitFor(() => Date.now() > first);
    begun(runs, "20260102-030405-00000000");
    expect(runs.find("last").id).toBe("20260102-030405-00000000");
    expect(runs.list()[0]?.id).toBe("20260102-030405-00000000");
  });

  it("are listed in steps that grow with their number, also those that have no end", async () => {
    const homeWith = (many: number) => {
      const home = temporaryFolder();
      const runs = createRunStore(home);
      begun(runs, ID);
      const id = (day: string, number: number) => `${day}-000000-${String(number).padStart(8, "0")}`;
      for (let number = 0; number < many; number++) past(runs, id("20250101", number), 1);
      for (let number = 0; number < many / 20; number++) begun(runs, id("20250102", number));
      return home;
    };
    const homes = [200, 400, 800].map(homeWith);
    expect(homes.map((home) => createRunStore(home).list().length)).toEqual([211, 421, 841]);
    await expectLinearSteps(
      ["src/store/runs.ts"],
      ({ createRunStore }: typeof import("../../src/store/runs.ts"), home: string) => createRunStore(home).list(),
      [["runs", homes]],
    );
  });
});

describe("a run", () => {
  it("is taken by one of twenty processes that want it at once", async () => {
    const home = temporaryFolder();
    const runs = createRunStore(home);
    begun(runs, ID);
    // All begin when all are there, and the winner keeps it until all others have tried.
    const racer = `
      import { readdirSync, writeFileSync } from "node:fs";
      const mark = (what) => writeFileSync(${JSON.stringify(home)} + "/" + what + "-" + process.pid, "");
      const all = async (what, number) => {
        while (readdirSync(${JSON.stringify(home)}).filter((name) => name.startsWith(what)).length < number)
          await new Promise((resolve) => setTimeout(resolve, 2));
      };
      mark("ready");
      await all("ready", 20);
      try {
        const journal = runs.resume(${JSON.stringify(ID)});
        journal.step("by:" + process.pid, 1);
        mark("tried");
        await all("tried", 20);
        say("won");
      } catch ({ code }) { mark("tried"); say(code); }`;
    const told = await Promise.all(Array.from({ length: 20 }, () => elsewhere(home, racer)));
    expect(told.filter((one) => one === "won")).toHaveLength(1);
    expect(told.filter((one) => one === "run-busy")).toHaveLength(19);
    const { lines, corrupt } = runs.read(ID);
    expect(corrupt).toEqual([]);
    expect(lines.filter(({ type }) => type === "step")).toHaveLength(1);
  });

  it("is free again when the process that had it was killed, or its number is another's now", async () => {
    const home = temporaryFolder();
    const runs = createRunStore(home);
    begun(runs, ID);
    const owner = join(runs.folder, `${ID}.owner`);
    await elsewhere(home, `runs.resume(${JSON.stringify(ID)}); process.kill(process.pid, "SIGKILL");`).catch(() => {});
    const left = JSON.parse(readFileSync(owner, "utf8"));
    expect(left.pid).not.toBe(process.pid);
    expect(runs.find(ID).state).toBe("interrupted");
    runs.resume(ID).close();
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
      expect([one, runs.find(ID).state]).toEqual([one, "interrupted"]);
      runs.resume(ID).close();
    }
  });

  it("that nobody could take when it was begun leaves nothing to go on with", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, OTHER);
    mkdirSync(join(runs.folder, `${ID}.owner`));
    expect(thrownBy(() => runs.create(newRun())).code).toBe("unwritable");
    expect(runs.list().map(({ id }) => id)).toEqual([OTHER]);
  });

  it("of a process on another machine is not taken from it, and says how it can be", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID);
    writeFileSync(join(runs.folder, `${ID}.owner`), JSON.stringify({ pid: 1, host: "elsewhere", start: "1" }));
    expect(runs.find(ID)).toMatchObject({ state: "running", pid: 1 });
    const { code, message, fix } = thrownBy(() => runs.resume(ID));
    expect([code, message]).toEqual(["run-busy", `Run ${ID} is in use by process 1 on elsewhere`]);
    expect(fix).toContain(`remove ${join(runs.folder, `${ID}.owner`)}`);
  });

  it("that ended while somebody was about to take it is not taken", async () => {
    const home = temporaryFolder();
    const runs = createRunStore(home);
    begun(runs, ID);
    const journal = runs.resume(ID);
    expect(thrownBy(() => runs.resume(ID)).code).toBe("run-busy");
    journal.end({ content: "" }, TAIL);
    journal.close();
    expect(thrownBy(() => runs.resume(ID))).toMatchObject({
      code: "run-ended",
      fix: `run: skillet runs show ${ID}`,
    });
    expect(readdirSync(runs.folder).filter((name) => name.includes("owner"))).toEqual([]);
  });

  it("gets one answer to each question, and none that it did not ask for", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    begun(runs, OTHER, (journal) => journal.step("model:1", {}));
    expect(thrownBy(() => runs.answer(OTHER, { isApproved: true }))).toMatchObject({
      code: "no-pending-approval",
      message: `Run ${OTHER} waits for no approval: it was interrupted`,
    });
    expect(runs.answer(ID, { isApproved: false, reason: "ask Ann" })).toEqual(EFFECT);
    expect(thrownBy(() => runs.answer(ID, { isApproved: true })).message).toBe(`Run ${ID} already has its answer`);
    expect(thrownBy(() => runs.answer("unknown", { isApproved: true })).code).toBe("run-unknown");
    const journal = runs.resume(ID);
    expect(journal.getAnswer("approval:1")?.approval).toEqual({ isApproved: false, reason: "ask Ann" });
    expect(thrownBy(() => runs.answer(ID, { isApproved: true })).message).toContain("is running");
    journal.ask("approval:2", { ...EFFECT, what: "send another" });
    journal.ask("approval:3", { ...EFFECT, what: "send a third" });
    journal.close();
    // What was looked at is what is agreed to.
    expect(thrownBy(() => runs.answer(ID, { isApproved: true }, EFFECT)).message).toContain(
      "now asks for a different approval",
    );
    expect(runs.answer(ID, { isApproved: true }, { ...EFFECT, what: "send another" }).what).toBe("send another");
    expect(runs.find(ID)).toMatchObject({ state: "waiting", effect: { what: "send a third" } });
    runs.cancel(ID);
    expect(thrownBy(() => runs.answer(ID, { isApproved: true })).message).toBe(`Run ${ID} was cancelled`);
  });

  it("still waits when whoever took it up was killed before there was a word", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    runs.resume(ID).close();
    expect(runs.find(ID).state).toBe("waiting");
    runs.answer(ID, { isApproved: true });
    runs.resume(ID).close();
    expect(runs.find(ID).state).toBe("interrupted");
  });

  it("that was called off stays so, and cannot be called off twice", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID);
    runs.cancel(ID);
    expect(thrownBy(() => runs.resume(ID)).code).toBe("run-cancelled");
    expect(thrownBy(() => runs.cancel(ID)).message).toBe(`Run ${ID} is already cancelled`);
    const other = runs.create(newRun(OTHER));
    runs.cancel(OTHER);
    expect(runs.find(OTHER).state).toBe("running");
    expect(other.isCancelled()).toBe(true);
    other.end({ content: "" }, { ...TAIL, stop: "aborted", isError: true });
    other.close();
    expect(runs.find(OTHER)).toMatchObject({ state: "cancelled", end: { stop: "aborted" } });
  });

  it("takes a word also when its last line was torn", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    const file = join(runs.folder, `${ID}.jsonl`);
    writeFileSync(file, `{"type":"event","at":"2026-01-0`, { flag: "a" });
    runs.answer(ID, { isApproved: true });
    expect(runs.read(ID).corrupt).toEqual([]);
    expect(runs.find(ID).state).toBe("answered");
    writeFileSync(file, `{"type":"ev`, { flag: "a" });
    runs.cancel(ID);
    expect([runs.read(ID).corrupt, runs.find(ID).state]).toEqual([[], "cancelled"]);
  });
});

describe("what is kept", () => {
  it("is what is new, and of what is over no more than so many", () => {
    const runs = createRunStore(temporaryFolder());
    begun(runs, ID, (journal) => journal.ask("approval:1", EFFECT));
    for (let number = 1; number <= 5; number++) past(runs, `2025010${number}-000000-00000000`, 40 - number * 5);
    const gone = (days: number, most: number) =>
      runs.prune({ days, most }, { isTrial: true }).map(({ id }) => id.slice(0, 8));
    expect(gone(32, 100)).toEqual(["20250101"]);
    expect(gone(27, 100)).toEqual(["20250102", "20250101"]);
    expect(gone(100, 3)).toEqual(["20250103", "20250102", "20250101"]);
    expect(gone(100, 0)).not.toContain(ID.slice(0, 8));
    expect(runs.list()).toHaveLength(6);
    expect(runs.prune({ days: 100, most: 3 })).toHaveLength(3);
    expect(runs.list()).toHaveLength(3);
  });

  it("is what a process is at, however old", () => {
    const runs = createRunStore(temporaryFolder());
    const journal = runs.create(newRun());
    begun(runs, OTHER);
    expect(runs.prune({ days: 0, most: 0 }).map(({ id }) => id)).toEqual([OTHER]);
    journal.step("still", "here");
    journal.close();
    expect(runs.read(ID).lines.at(-1)).toMatchObject({ name: "still" });
    expect(readdirSync(runs.folder).filter((name) => name.startsWith(OTHER))).toEqual([]);
  });

  it("is looked through once a day, when a run begins", () => {
    const runs = createRunStore(temporaryFolder(), { days: 30, most: 1000 });
    begun(runs, ID);
    past(runs, "20250101-000000-00000000", 31);
    begun(runs, OTHER);
    expect(runs.list()).toHaveLength(3);
    const yesterday = new Date(Date.now() - DAY_MS - 1000);
    utimesSync(join(runs.folder, ".pruned"), yesterday, yesterday);
    begun(runs, "20260103-000000-00000000");
    expect(runs.list().map(({ id }) => id)).not.toContain("20250101-000000-00000000");
  });

  it("is not deleted because the clock jumped ahead for one command, but once a second run has seen that time", () => {
    const runs = createRunStore(temporaryFolder(), { days: 30, most: 1000 });
    const look = (at: number) => utimesSync(join(runs.folder, ".pruned"), at / 1000, at / 1000);
    const old = ["20250101-000000-00000000", "20250102-000000-00000000"];
    begun(runs, ID);
    rmSync(join(runs.folder, `${ID}.jsonl`));
    for (const id of old) past(runs, id, 40);
    look(Date.now() - 2 * DAY_MS);
    begun(runs, OTHER);
    expect(runs.list()).toHaveLength(3);
    look(Date.now() + 40 * DAY_MS);
    begun(runs, "20260103-000000-00000000");
    expect(
      runs
        .list()
        .map(({ id }) => id)
        .sort(),
    ).toEqual([OTHER, "20260103-000000-00000000"].sort());
  });
});
