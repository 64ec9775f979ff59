import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { SkillError } from "../errors/problem.ts";
import type { ApprovalRequest } from "../host/approval.ts";
import type { Journal, RunEnd } from "../store/journal.ts";
import { type NewRun, type RunQuery, searchRuns } from "../store/run-rules.ts";
import type { RunStore } from "../store/runs.ts";
import { type ContractCase, type ContractStorage, createContractCases, eventually } from "./contract.ts";

/** A storage of runs for one case. */
export interface RunStorage extends ContractStorage<RunStore> {
  /** Ends the lease of a run without its owner, as when the owner was killed. */
  expireLease(id: string): void | Promise<void>;
}

/** Returns the contract of a store of runs as test cases. */
export function testRunStore(create: () => RunStorage | Promise<RunStorage>): ContractCase[] {
  return createContractCases<RunStore, RunStorage>(
    {
      "is empty at first": async (open) => {
        const store = await open();
        deepEqual(await store.list(), []);
        for (const written of ["last", ID, "", "__proto__", "../x"]) {
          await rejectsWith("run-unknown", () => store.find(written));
          await rejectsWith("run-unknown", () => store.read(written));
        }
        await rejectsWith("run-unknown", () => store.resume(ID));
        await rejectsWith("run-unknown", () => store.cancel(ID));
        await rejectsWith("run-unknown", () => store.answer(ID, { isApproved: true }));
      },
      "creates a run with its head and its request": async (open) => {
        const [store, other] = [await open(), await open()];
        const caller = { userId: "ada", chatType: "private" } as const;
        const run = createNewRun(ID, { workspace: "/work", caller });
        const journal = await store.create({ ...run, messages: [{ role: "user", text: TEXT }] });
        equal(journal.id, ID);
        const { lines } = await other.read(ID);
        deepEqual(
          lines.map(({ type }) => type),
          ["run", "request", "opened"],
        );
        deepEqual({ ...lines[0], at: "" }, { ...run.head, type: "run", version: 1, at: "" });
        deepEqual(
          { ...lines[1], at: "" },
          { type: "request", at: "", request: run.request, messages: [{ role: "user", text: TEXT }] },
        );
        const { skill, task, workspace } = await other.find(ID);
        deepEqual({ skill, task, workspace }, { skill: "mailer", task: TEXT, workspace: "/work" });
        await rejectsWith("journal-unwritable", () => store.create(createNewRun()));
        await journal.close();
      },
      "reads back every text and key that was appended": async (open) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        const value = {
          text: TEXT,
          [TEXT]: [TEXT, 0.1, null, true],
          ...JSON.parse('{"__proto__":{"a":1},"constructor":1}'),
        };
        deepEqual(await journal.step("__proto__", value), value);
        deepEqual(await journal.step("empty", undefined), undefined);
        await journal.ask("ask", { ...REQUEST, input: value });
        await journal.answer("ask", { isApproved: false, reason: TEXT }, { ...REQUEST, input: value });
        deepEqual(journal.getAnswer("ask"), {
          approval: { isApproved: false, reason: TEXT },
          approvalRequest: { ...REQUEST, input: value },
        });
        await journal.close();
        const again = await other.resume(ID);
        deepEqual(again.getStep("__proto__"), { value });
        deepEqual(again.getStep("empty"), { value: undefined });
        equal(again.getStep("constructor"), undefined);
        equal(again.getStep("other"), undefined);
        deepEqual(again.getAnswer("ask"), {
          approval: { isApproved: false, reason: TEXT },
          approvalRequest: { ...REQUEST, input: value },
        });
        equal(JSON.stringify(again.getStep("__proto__")), JSON.stringify({ value }));
        await again.close();
      },
      "reads back what a step returned, not what it was given": async (open) => {
        const journal = await (await open()).create(createNewRun());
        const given = { at: new Date(0), more: undefined, list: [1] };
        deepEqual(await journal.step("a", given), { at: "1970-01-01T00:00:00.000Z", list: [1] });
        given.list.push(2);
        deepEqual(journal.getStep("a"), { value: { at: "1970-01-01T00:00:00.000Z", list: [1] } });
        await journal.close();
      },
      "keeps the order of calls that do not wait for each other": async (open) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        const names = Array.from({ length: 20 }, (_, index) => `step-${index}`);
        await Promise.all([...names.map((name) => journal.step(name, name)), journal.close()]);
        const { lines } = await other.read(ID);
        deepEqual(
          lines.flatMap((line) => (line.type === "step" ? line.name : [])),
          names,
        );
      },
      "writes nothing after it is closed": async (open) => {
        const store = await open();
        const journal = await store.create(createNewRun());
        await journal.close();
        await journal.close();
        await journal.step("late", 1);
        await journal.event({
          type: "run-warned",
          run: ID,
          skill: "mailer",
          at: NOON,
          code: "halted",
          message: "late",
          fix: "",
        });
        deepEqual(
          (await store.read(ID)).lines.map(({ type }) => type),
          ["run", "request", "opened"],
        );
      },
      "lets one owner at a time work on a run": async (open) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        const { state, owner } = await other.find(ID);
        equal(state, "running");
        ok(owner && owner.id !== "" && owner.label !== "");
        for (const one of [store, other]) await rejectsWith("run-busy", () => one.resume(ID));
        await journal.close();
        const closed = await other.find(ID);
        deepEqual([closed.state, closed.owner], ["interrupted", undefined]);
        const again = await other.resume(ID);
        ok((await store.find(ID)).owner?.id !== owner.id);
        await again.close();
      },
      "gives a run to one of several that resume it at once": async (open) => {
        const store = await open();
        await work(store, ID, () => undefined);
        const stores = [store, await open(), await open()];
        const resumed = await Promise.allSettled([...stores, ...stores].map((one) => one.resume(ID)));
        const won = resumed.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
        equal(won.length, 1);
        for (const one of resumed) if (one.status === "rejected") equal(one.reason.code, "run-busy");
        await won[0]?.close();
        equal((await store.read(ID)).lines.filter(({ type }) => type === "opened").length, 2);
      },
      "lets a run be taken over once its lease has expired": async (open, { expireLease }) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        await journal.step("first", 1);
        await expireLease(ID);
        equal((await other.find(ID)).state, "interrupted");
        const next = await other.resume(ID);
        deepEqual(next.getStep("first"), { value: 1 });
        await next.close();
      },
      "lets a former owner write nothing": async (open, { expireLease }) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        await expireLease(ID);
        const next = await other.resume(ID);
        await rejectsWith("run-busy", () => journal.step("former", 1));
        await rejectsWith("run-busy", () => journal.end({}, END));
        await next.step("next", 1);
        await journal.close();
        equal((await store.find(ID)).state, "running");
        await rejectsWith("run-busy", () => store.resume(ID));
        await next.close();
        const { lines } = await store.read(ID);
        deepEqual(
          lines.flatMap((line) => (line.type === "step" ? line.name : [])),
          ["next"],
        );
        equal(
          lines.some(({ type }) => type === "end"),
          false,
        );
      },
      "lets a former owner write nothing after the next owner has closed the run": async (open, { expireLease }) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        await expireLease(ID);
        await (await other.resume(ID)).close();
        await rejectsWith("run-busy", () => journal.step("former", 1));
        await journal.close();
        equal(
          (await other.read(ID)).lines.some(({ type }) => type === "step"),
          false,
        );
      },
      "lets the owner of a run that was removed write nothing": async (open, { expireLease }) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        await expireLease(ID);
        deepEqual(
          (await other.prune({ days: 0, most: 0 })).map(({ id }) => id),
          [ID],
        );
        await rejectsWith("run-busy", () => journal.step("former", 1));
        await journal.close();
        deepEqual(await other.list(), []);
      },
      "answers a request once": async (open) => {
        const [store, other] = [await open(), await open()];
        await work(store, ID, (journal) => journal.ask("approval:1", REQUEST));
        const waiting = await other.find(ID);
        deepEqual([waiting.state, waiting.approvalRequest], ["waiting", REQUEST]);
        await rejectsWith("no-pending-approval", () =>
          other.answer(ID, { isApproved: true }, { ...REQUEST, what: "another thing" }),
        );
        const stores = [store, other, store, other];
        const answers = await Promise.allSettled(
          stores.map((one, index) => one.answer(ID, { isApproved: index % 2 === 0, reason: `${index}` }, REQUEST)),
        );
        equal(answers.filter(({ status }) => status === "fulfilled").length, 1);
        const won = answers.findIndex(({ status }) => status === "fulfilled");
        for (const one of answers) if (one.status === "rejected") equal(one.reason.code, "no-pending-approval");
        equal((await store.find(ID)).state, "answered");
        const journal = await store.resume(ID);
        deepEqual(journal.getAnswer("approval:1"), {
          approval: { isApproved: won % 2 === 0, reason: `${won}` },
          approvalRequest: REQUEST,
        });
        await rejectsWith("no-pending-approval", () => other.answer(ID, { isApproved: true }));
        await journal.close();
      },
      "answers no run that does not wait": async (open) => {
        const store = await open();
        await work(store, ID, (journal) => journal.step("a", 1));
        await work(store, OTHER, async (journal) => {
          await journal.ask("approval:1", REQUEST);
          await journal.step("a", 1);
        });
        const journal = await store.create(createNewRun(THIRD));
        for (const id of [ID, OTHER, THIRD])
          await rejectsWith("no-pending-approval", () => store.answer(id, { isApproved: true }));
        await journal.close();
      },
      "shows an owner that asks now the answer of another process": async (open) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        await journal.ask("approval:1", REQUEST);
        const { state, approvalRequest: request, owner } = await other.find(ID);
        deepEqual([state, request, owner !== undefined], ["running", REQUEST, true]);
        await rejectsWith("no-pending-approval", () =>
          other.answer(ID, { isApproved: true }, { ...REQUEST, input: "another" }),
        );
        equal(journal.getAnswer("approval:1"), undefined);
        await other.answer(ID, { isApproved: true, scope: "once" }, REQUEST);
        await eventually(async () => {
          await journal.isCancelled();
          deepEqual(journal.getAnswer("approval:1"), {
            approval: { isApproved: true, scope: "once" },
            approvalRequest: REQUEST,
          });
        });
        await rejectsWith("no-pending-approval", () => other.answer(ID, { isApproved: false }));
        await journal.step("tool:1", 1);
        equal((await other.find(ID)).approvalRequest, undefined);
        await journal.close();
      },
      "shows an owner that its run was cancelled": async (open) => {
        const [store, other] = [await open(), await open()];
        const journal = await store.create(createNewRun());
        equal(await journal.isCancelled(), false);
        await other.cancel(ID);
        await eventually(async () => equal(await journal.isCancelled(), true));
        await journal.close();
        equal((await other.find(ID)).state, "cancelled");
        await rejectsWith("run-cancelled", () => other.resume(ID));
        await rejectsWith("run-ended", () => store.cancel(ID));
        equal((await other.read(ID)).lines.filter(({ type }) => type === "cancel").length, 1);
      },
      "neither resumes nor cancels a run that has ended": async (open) => {
        const store = await open();
        await work(store, ID, (journal) => journal.end({ content: TEXT }, { ...END, cost: 0.5 }));
        const { state, end } = await store.find(ID);
        deepEqual([state, end], ["ended", { ...END, cost: 0.5 }]);
        const result = (await store.read(ID)).lines.find(({ type }) => type === "result");
        deepEqual(result?.type === "result" && result.result, { content: TEXT });
        await rejectsWith("run-ended", () => store.resume(ID));
        await rejectsWith("run-ended", () => store.cancel(ID));
        await rejectsWith("no-pending-approval", () => store.answer(ID, { isApproved: true }));
      },
      "lists the newest first, and finds one by the start or the end of its id": async (open) => {
        const store = await open();
        for (const id of [OTHER, ID]) {
          await work(store, id, () => undefined);
          const created = Date.now();
          await eventually(async () => ok(Date.now() > created));
        }
        deepEqual(
          (await store.list()).map(({ id }) => id),
          [ID, OTHER],
        );
        equal((await store.find("20260102-030405")).id, ID);
        equal((await store.find("0a1b2c3d")).id, ID);
        equal((await store.find("99999")).id, OTHER);
        equal((await store.find("c3d")).id, ID);
        equal((await store.find(OTHER)).id, OTHER);
        equal((await store.find("last")).id, OTHER);
        await rejectsWith("run-unknown", () => store.find("20260102"));
        await rejectsWith("run-unknown", () => store.find("nothing"));
      },
      "lists the newest that fit, and counts all that do": async (open) => {
        const store = await open();
        const start = async (number: number, more: Partial<NewRun["head"]>, use: (journal: Journal) => unknown) => {
          const created = Date.now();
          await eventually(async () => ok(Date.now() > created));
          const journal = await store.create(createNewRun(`20260103-00000${number}-00000000`, more));
          await use(journal);
          return journal;
        };
        await (await start(1, {}, (journal) => journal.end({}, END))).close();
        await (await start(2, { skill: "a b" }, (journal) => journal.end({}, { ...END, isError: true }))).close();
        await (await start(3, { kind: "chat", skill: "" }, (journal) => journal.ask("approval:1", REQUEST))).close();
        await (await start(4, { caller: { userId: "ada" } }, () => store.cancel("20260103-000004-00000000"))).close();
        await (await start(5, {}, (journal) => journal.step("a", 1))).close();
        const running = await start(6, {}, (journal) => journal.step("a", 1));
        const at = (await store.list()).find(({ id }) => id.includes("-000004-"))?.at ?? "";
        const cases: [Partial<RunQuery>, number[]][] = [
          [{}, [6, 5, 4, 3, 2, 1]],
          [{ since: new Date(at) }, [6, 5, 4]],
          [{ skill: "mailer" }, [6, 5, 4, 1]],
          [{ skill: "chat" }, [3]],
          [{ skill: "a b" }, [2]],
          [{ user: "ada" }, [4]],
          [{ states: ["done"] }, [1]],
          [{ states: ["failed"] }, [2]],
          [{ states: ["ended"], since: new Date(at) }, []],
          [{ states: ["ended"] }, [2, 1]],
          [{ states: ["waiting", "running"] }, [6, 3]],
          [{ states: ["cancelled"] }, [4]],
          [{ states: ["interrupted"], skill: "mailer" }, [5]],
          [{ states: ["corrupt"] }, []],
        ];
        for (const [query, expected] of cases) {
          for (const limit of [0, 1, 100]) {
            const { runs, total } = await searchRuns(store, { ...query, limit });
            const found = runs.map(({ id }) => Number(id.slice(14, 15)));
            deepEqual([found, total], [expected.slice(0, limit), expected.length], JSON.stringify(query));
          }
        }
        await running.close();
      },
      "adds up the time of the owners before": async (open) => {
        const store = await open();
        await work(store, ID, async (journal) => {
          equal(journal.elapsedMs, 0);
          const start = Date.now();
          await eventually(async () => ok(Date.now() - start > 5));
          await journal.step("a", 1);
        });
        const second = await store.resume(ID);
        const { elapsedMs } = second;
        ok(elapsedMs > 0);
        await second.close();
        const third = await store.resume(ID);
        ok(third.elapsedMs >= elapsedMs);
        await third.close();
      },
      "prunes expired runs, but none that an owner works on": async (open) => {
        const [store, other] = [await open(), await open()];
        const ids = ["1", "2", "3"].map((day) => `2026010${day}-000000-00000000`);
        for (const id of ids) await work(store, id, (journal) => journal.end({}, END));
        await work(store, OTHER, (journal) => journal.ask("approval:1", REQUEST));
        const journal = await store.create(createNewRun());
        const keep = { days: 30, most: 0 };
        deepEqual((await other.prune(keep, { isTrial: true })).map(({ id }) => id).sort(), ids);
        equal((await store.list()).length, 5);
        deepEqual((await other.prune(keep)).map(({ id }) => id).sort(), ids);
        deepEqual((await store.list()).map(({ id }) => id).sort(), [ID, OTHER].sort());
        deepEqual(
          (await other.prune({ days: 0, most: 0 })).map(({ id }) => id),
          [OTHER],
        );
        await journal.step("still", "here");
        await journal.close();
        deepEqual(
          (await store.list()).map(({ id }) => id),
          [ID],
        );
        await rejectsWith("run-unknown", () => store.resume(OTHER));
      },
    },
    create,
  );
}

async function work(store: RunStore, id: string, use: (journal: Journal) => unknown): Promise<void> {
  const journal = await store.create(createNewRun(id));
  await use(journal);
  await journal.close();
}

async function rejectsWith(code: string, call: () => Promise<unknown>): Promise<void> {
  await rejects(call, (error) => error instanceof SkillError && error.code === code);
}

const ID = "20260102-030405-0a1b2c3d";
const OTHER = "20260102-030406-99999999";
const THIRD = "20260102-030407-77777777";
const NOON = "2026-01-02T12:00:00.000Z";
/** Characters that a storage may lose. The lone surrogate is read back as it was. */
const TEXT = "a\u0000b \ud800 \u2028 \r\n \ufeff ä € 😀 ' \" \\ %s $1";

function createNewRun(id = ID, more: Partial<NewRun["head"]> = {}): NewRun {
  return {
    head: { id, kind: "use", skill: "mailer", task: TEXT, ...more },
    request: { skill: "mailer", message: TEXT },
  };
}

const REQUEST: ApprovalRequest = {
  ...{ run: ID, skill: "mailer", source: "user", location: "/skills/mailer", tool: "mailer.send" },
  ...{ input: { to: "ann@example.com" }, on: "outside", what: "send a mail", reason: "it changes something outside" },
};

const END: Omit<RunEnd, "type"> = {
  ...({ stop: "answer", isError: false, iterations: 2, ms: 1200 } as const),
  usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 0 },
};
