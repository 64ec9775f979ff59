import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { formatJournalLine, type JournalLine, parseJournal, parseJournalLine } from "../../src/store/journal.ts";
import { createRunStore, type RunStore } from "../../src/store/runs.ts";
import { findSystemProgram } from "../../src/util/system.ts";
import { temporaryFolder } from "../support/folder.ts";
import { createTestRun, EFFECT, ID, startOtherProcess, TAIL } from "./run-scene.ts";

interface Kept {
  runs: RunStore;
  home: string;
  file: string;
}

/** A run that was started, and released after these lines. */
async function kept(work: (journal: Awaited<ReturnType<RunStore["create"]>>) => unknown = () => {}): Promise<Kept> {
  const home = temporaryFolder();
  const runs = createRunStore(home);
  const journal = await runs.create(createTestRun());
  await work(journal);
  await journal.close();
  return { runs, home, file: join(home, "runs", `${ID}.jsonl`) };
}

const codeOf = async (work: () => unknown): Promise<string> => {
  try {
    await work();
  } catch (error) {
    if (error instanceof SkillError) return error.code;
    throw error;
  }
  return "no error";
};

describe("a line of a journal", () => {
  it("is read as it was written, whatever it contains", () => {
    const at = "2026-01-02T03:04:05.000Z";
    const values = [
      "",
      "a\nb\r\u2028c",
      ',"crc":"00000000"}',
      "\ud800",
      "𝄞",
      null,
      [1, { a: undefined }],
      { __proto__: 1 },
    ];
    for (const value of values) {
      const line: JournalLine = { type: "step", at, name: "x", value };
      const written = formatJournalLine(line);
      expect(written.indexOf("\n")).toBe(written.length - 1);
      expect(parseJournalLine(written.slice(0, -1))).toEqual(JSON.parse(JSON.stringify(line)));
    }
  });

  it("is read with the current names if 0.1.0 wrote others", () => {
    const at = "2026-01-02T03:04:05.000Z";
    const read = (line: object) => parseJournalLine(formatJournalLine({ at, ...line } as JournalLine).slice(0, -1));
    const stop = "max-steps";
    const now = { stop: "max-iterations" };
    expect(read({ type: "end", ...TAIL, stop })).toMatchObject(now);
    expect(read({ type: "result", result: { stop } })).toMatchObject({ result: now });
    const value = { stop, metadata: { stop } };
    expect(read({ type: "step", name: "end", value })).toMatchObject({ value: { ...now, metadata: now } });
    const event = { run: ID, skill: "x", at };
    expect(read({ type: "event", event: { ...event, type: "text-said" } })).toMatchObject({
      event: { type: "text-generated" },
    });
    const ended = { ...event, type: "run-ended", ms: 1, stop };
    expect(read({ type: "event", event: ended })).toMatchObject({ event: now });
  });

  it("is not read when any byte of it changed to anything", async () => {
    const { file } = await kept(async (journal) => {
      await journal.event({ type: "text-generated", run: ID, skill: "mailer", at: "", step: 1, text: "hä" });
      await journal.step("model:1", { text: "hi" });
      await journal.ask("approval:1", EFFECT);
      await journal.answer("approval:1", { isApproved: true }, EFFECT);
      await journal.end({ content: "done" }, TAIL);
    });
    const bytes = readFileSync(file);
    const kinds = parseJournal(bytes).lines.map(({ type }) => type);
    expect(kinds).toEqual(["run", "request", "opened", "event", "step", "ask", "answer", "result", "end"]);
    let number = 1;
    for (let at = 0; at < bytes.length; at++) {
      if (bytes[at] === 0x0a) {
        number++;
        continue;
      }
      const changed = Buffer.from(bytes);
      changed[at] = (bytes[at] ?? 0) ^ 1;
      const { corrupt, lines } = parseJournal(changed);
      // A byte that became a line end makes two lines of one.
      if (changed[at] === 0x0a) expect(corrupt).toEqual([number, number + 1]);
      else expect([at, corrupt, lines.length]).toEqual([at, [number], kinds.length - 1]);
    }
  });
});

describe("a journal", () => {
  it("returns finished steps as they are read, not as they were passed", async () => {
    const { runs } = await kept(async (journal) => {
      expect(await journal.step("model:1", { text: "hi", more: undefined, at: new Date(0) })).toEqual({
        text: "hi",
        at: "1970-01-01T00:00:00.000Z",
      });
      expect(await journal.step("empty", undefined)).toBe(undefined);
      await journal.answer("approval:1", { isApproved: false, reason: "no" }, EFFECT);
      const word = { isApproved: false, reason: "no" };
      expect(journal.getAnswer("approval:1")).toEqual({ approval: word, approvalRequest: EFFECT });
    });
    const again = await runs.resume(ID);
    expect(again.getStep("model:1")).toEqual({ value: { text: "hi", at: "1970-01-01T00:00:00.000Z" } });
    expect(again.getStep("empty")).toEqual({ value: undefined });
    expect(again.getStep("model:2")).toBe(undefined);
    expect(again.getAnswer("approval:1")?.approval).toEqual({ isApproved: false, reason: "no" });
    expect([again.head.skill, again.id]).toEqual(["mailer", ID]);
    await again.close();
    await again.close();
  });

  it("can be resumed after a torn last line, and loses no earlier line", async () => {
    const { runs, file } = await kept((journal) => journal.step("first", 1));
    const before = readFileSync(file);
    const journal = await runs.resume(ID);
    await journal.step("second", "ä".repeat(20));
    await journal.close();
    const whole = readFileSync(file);
    const start = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
    for (let end = start; end < whole.length; end++) {
      writeFileSync(file, whole.subarray(0, end));
      // All except its line break: nothing of it is missing.
      const isThere = end === whole.length - 1;
      expect((await runs.find(ID)).state).toBe("interrupted");
      const again = await runs.resume(ID);
      expect([end, again.getStep("first"), again.getStep("second")]).toEqual([
        end,
        { value: 1 },
        isThere ? { value: "ä".repeat(20) } : undefined,
      ]);
      await again.step("third", 3);
      await again.close();
      const { corrupt, lines } = await runs.read(ID);
      expect([corrupt, lines.at(-1)]).toEqual([[], expect.objectContaining({ name: "third" })]);
      expect(readFileSync(file).subarray(0, before.length)).toEqual(before);
    }
  });

  it("that lacks only the last line end is complete", async () => {
    const { runs, file } = await kept((journal) => journal.end({ content: "done" }, TAIL));
    truncateSync(file, statSync(file).size - 1);
    expect(await runs.find(ID)).toMatchObject({ state: "ended", end: { stop: "answer", iterations: 2 } });
    expect(await codeOf(() => runs.resume(ID))).toBe("run-ended");
  });

  it("that was manipulated is not resumed, and its readable lines are still listed", async () => {
    const { runs, file } = await kept(async (journal) => {
      await journal.step("first", "one");
      await journal.step("second", "two");
    });
    writeFileSync(file, readFileSync(file, "utf8").replace('"one"', '"0ne"'));
    expect((await runs.find(ID)).state).toBe("corrupt");
    expect(await codeOf(() => runs.resume(ID))).toBe("journal-corrupt");
    expect(await codeOf(() => runs.cancel(ID))).toBe("journal-corrupt");
    const { lines, corrupt } = await runs.read(ID);
    expect(corrupt).toEqual([4]);
    expect(lines.at(-1)).toMatchObject({ name: "second", value: "two" });
    expect(existsSync(file.replace(".jsonl", ".owner"))).toBe(false);
  });

  it("with a broken first line is listed, so that the user sees it", async () => {
    const { runs, file } = await kept();
    writeFileSync(file, readFileSync(file, "utf8").replace('"mailer"', '"nailer"'));
    expect(await runs.list()).toMatchObject([{ id: ID, state: "corrupt", skill: "" }]);
    expect((await runs.read(ID)).corrupt).toEqual([1]);
    writeFileSync(file, "");
    expect(await runs.list()).toMatchObject([{ id: ID, state: "corrupt", bytes: 0 }]);
  });

  it("with another file name is not the run of that name", async () => {
    const { runs, file } = await kept();
    const other = ID.replace("0a1b", "ffff");
    writeFileSync(file.replace(ID, other), readFileSync(file));
    expect((await runs.find(other)).state).toBe("corrupt");
    expect(await codeOf(() => runs.resume(other))).toBe("journal-corrupt");
  });

  it("counts the active time of programs, and not the time of waiting", async () => {
    const { runs, file } = await kept((journal) => journal.ask("approval:1", EFFECT));
    await runs.answer(ID, { isApproved: true });
    // It was asked after 700 ms, and answered an hour later.
    const times: Record<string, number> = { ask: 700, answer: 3_600_000 };
    const at = (type: string) => new Date(Date.UTC(2026, 0, 2, 3, 4, 5) + (times[type] ?? 0)).toISOString();
    const lines = (await runs.read(ID)).lines.map((line) => formatJournalLine({ ...line, at: at(line.type) }));
    writeFileSync(file, lines.join(""));
    const again = await runs.resume(ID);
    expect(again.elapsedMs).toBe(700);
    await again.close();
  });

  it("notices a cancellation by another process, also between two of its own lines", async () => {
    const { runs, home } = await kept();
    const journal = await runs.resume(ID);
    expect(await journal.isCancelled()).toBe(false);
    const called = startOtherProcess(home, `await runs.cancel(${JSON.stringify(ID)}); say("done");`);
    const isOver = called.then(
      () => true,
      () => true,
    );
    let steps = 0;
    for (let done = false; !done; ) {
      await journal.event({
        type: "text-generated",
        run: ID,
        skill: "",
        at: "",
        step: ++steps,
        text: "x".repeat(2000),
      });
      done = await Promise.race([isOver, new Promise<false>((resolve) => setImmediate(resolve, false))]);
    }
    expect(await called).toBe("done");
    expect(steps).toBeGreaterThan(10);
    expect(await journal.isCancelled()).toBe(true);
    await journal.close();
    const { lines, corrupt } = await runs.read(ID);
    expect(corrupt).toEqual([]);
    expect(lines.filter(({ type }) => type === "cancel")).toHaveLength(1);
    expect((await runs.find(ID)).state).toBe("cancelled");
  });

  it("is readable for the user alone", async () => {
    const { home, file } = await kept();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "runs")).mode & 0o777).toBe(0o700);
  });

  it("is never a link, a folder or a pipe", async () => {
    const { runs, file, home } = await kept();
    writeFileSync(join(home, "elsewhere"), readFileSync(file));
    const [linked, folder, piped] = [
      "20260102-030405-ffffffff",
      "20260102-030405-eeeeeeee",
      "20260102-030405-dddddddd",
    ];
    symlinkSync(join(home, "elsewhere"), file.replace(ID, linked));
    mkdirSync(file.replace(ID, folder));
    execFileSync("mkfifo", [file.replace(ID, piped)]);
    const before = readFileSync(join(home, "elsewhere"));
    expect(await codeOf(() => runs.create(createTestRun(linked)))).toBe("journal-unwritable");
    for (const id of [linked, folder, piped]) {
      expect((await runs.find(id)).state).toBe("corrupt");
      expect(await codeOf(() => runs.resume(id))).toBe("journal-corrupt");
      expect(await codeOf(() => runs.cancel(id))).toBe("journal-unwritable");
      expect(await codeOf(() => runs.read(id))).toBe("runs-unreadable");
    }
    expect(readFileSync(join(home, "elsewhere"))).toEqual(before);
  });

  it("reports that its folder cannot be written to", async () => {
    const home = temporaryFolder({ runs: "a file" });
    expect(await codeOf(() => createRunStore(home).create(createTestRun()))).toBe("journal-unwritable");
    expect(await codeOf(() => createRunStore(home).list())).toBe("runs-unreadable");
  });

  it("on a full disk reports that, keeps finished steps, and can be resumed once there is space", async () => {
    const home = temporaryFolder({ "disk/.keep": "" });
    const disk = join(home, "disk");
    const small = [findSystemProgram("bwrap") ?? "", "--dev-bind", "/", "/", "--size", "65536", "--tmpfs", disk, "--"];
    const told = await startOtherProcess(
      disk,
      `
      import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
      const id = ${JSON.stringify(ID)};
      const journal = await runs.create({ head: { id, kind: "use", skill: "x", task: "" }, request: {} });
      writeFileSync(${JSON.stringify(join(disk, "ballast"))}, "x".repeat(8192));
      let done = 0, error;
      try { for (;;) { await journal.step("s" + done, "y".repeat(3000)); done++; } } catch (thrown) { error = thrown; }
      const again = await (async () => { try { await journal.step("more", "z".repeat(6000)); } catch ({ code }) { return code; } })();
      const { lines, corrupt, whole } = await runs.read(id);
      const steps = lines.filter(({ type }) => type === "step").length;
      await journal.close();
      const state = (await runs.find(id)).state;
      const refused = await (async () => { try { await runs.create({ head: { id: "other", kind: "use", skill: "x", task: "" }, request: { y: "y".repeat(9000) } }); } catch ({ code }) { return code; } })();
      const ids = (await runs.list()).map(({ id }) => id);
      rmSync(${JSON.stringify(join(disk, "ballast"))});
      const open = await runs.resume(id);
      await open.step("after", 1);
      const had = open.getStep("s" + (done - 1)).value.length;
      await open.close();
      say({ done, code: error.code, message: error.message, fix: error.fix, commands: error.commands, again, corrupt, steps, state, refused, ids, had,
        isWhole: (await runs.read(id)).corrupt.length === 0 });`,
      small,
    );
    expect(told).toMatchObject({
      code: "journal-unwritable",
      again: "journal-unwritable",
      message: expect.stringContaining("no space left on device"),
      commands: [expect.stringContaining("skillet resume")],
      corrupt: [],
      state: "interrupted",
      refused: "journal-unwritable",
      ids: [ID],
      had: 3000,
      isWhole: true,
    });
    const { done, steps } = told as { done: number; steps: number };
    expect(done).toBeGreaterThan(5);
    expect(steps).toBe(done);
  });
});
