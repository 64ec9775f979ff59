import { deepEqual, equal } from "node:assert/strict";
import { type ApprovalSubject, getApprovalKey } from "../host/approval.ts";
import type { RunEvent, SkillEvent } from "../host/events.ts";
import type { ApprovalStore, ListedApprovals } from "../store/approvals.ts";
import {
  createUseRow,
  rememberRun,
  type SkillStatistics,
  type StartedRun,
  type StatisticsFilter,
  type StatisticsStore,
  type StatisticsTotal,
  type UseRow,
} from "../store/statistics.ts";
import { compareText } from "../util/text.ts";

/** One case of a contract suite. It rejects if the driver breaks the contract. */
export interface ContractCase {
  name: string;
  run(): Promise<void>;
}

/** A storage for one case, empty at first. */
export interface ContractStorage<Store> {
  /** Opens the storage, each time as another process would. */
  open(): Store | Promise<Store>;
  /** Removes the storage. */
  close?(): Promise<void>;
}

/** Creates an empty storage. */
export type CreateStorage<Store> = () => ContractStorage<Store> | Promise<ContractStorage<Store>>;

/** The checks of a suite by name. `open` opens the same storage each time. */
export type ContractChecks<Store, Storage = ContractStorage<Store>> = Readonly<
  Record<string, (open: () => Promise<Store>, storage: Storage) => Promise<void>>
>;

/** Creates the cases of a suite: each runs on its own storage. */
export function createContractCases<Store, Storage extends ContractStorage<Store> = ContractStorage<Store>>(
  checks: ContractChecks<Store, Storage>,
  create: () => Storage | Promise<Storage>,
): ContractCase[] {
  return Object.entries(checks).map(([name, check]) => ({
    name,
    async run() {
      const storage = await create();
      try {
        await check(async () => storage.open(), storage);
      } finally {
        await storage.close?.();
      }
    },
  }));
}

/** Repeats a check until it passes: what one process writes takes effect in another one within two seconds. */
export async function eventually(check: () => Promise<void>): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    try {
      return await check();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  return check();
}

const MAX_TRIES = 100;
const RETRY_MS = 20;

/** Creates an approval store that keeps everything in memory. `stored` is its storage: stores that share it are one. */
export function createMemoryApprovalStore(stored: Map<string, ListedApprovals> = new Map()): ApprovalStore {
  const getOwner = ({ skill, source, location }: ApprovalSubject) => `${skill}@${location === "" ? source : location}`;
  return {
    async isAlwaysApproved(request) {
      return !request.isOnce && stored.get(getOwner(request))?.allowed.includes(getApprovalKey(request)) === true;
    },
    async add(request) {
      if (request.isOnce) return;
      const { skill, source, location } = request;
      const { allowed } = stored.get(getOwner(request)) ?? { allowed: [] };
      const keys = [...new Set([...allowed, getApprovalKey(request)])];
      stored.set(getOwner(request), { skill, source, location, allowed: keys });
    },
    list: async () => structuredClone([...stored.values()]),
    async forget(skill, location) {
      const selected = [...stored].filter(
        ([, one]) => one.skill === skill && [undefined, one.location].includes(location),
      );
      for (const [owner] of selected) stored.delete(owner);
      return selected.length;
    },
    problem: async () => undefined,
  };
}

/** Returns the contract of an approval store as test cases. */
export function testApprovalStore(create: CreateStorage<ApprovalStore>): ContractCase[] {
  return createContractCases<ApprovalStore>(
    {
      "approves nothing at first": async (open) => {
        const store = await open();
        equal(await store.isAlwaysApproved(SEND), false);
        deepEqual(await store.list(), []);
        equal(await store.problem(), undefined);
      },
      "approves what was added, for that tool and that copy of the skill only": async (open) => {
        const store = await open();
        await store.add(SEND);
        equal(await store.isAlwaysApproved(SEND), true);
        equal(await store.isAlwaysApproved({ ...SEND, tool: "delete" }), false);
        equal(await store.isAlwaysApproved(createCopy("/other/mail")), false);
        equal(await store.isAlwaysApproved({ ...SEND, skill: "post" }), false);
      },
      "tells skills in code apart by their source": async (open) => {
        const store = await open();
        const { digest: _, ...inCode } = { ...SEND, location: "" };
        await store.add({ ...inCode, source: "program" });
        equal(await store.isAlwaysApproved({ ...inCode, source: "program" }), true);
        equal(await store.isAlwaysApproved({ ...inCode, source: "other" }), false);
      },
      "approves all changes of one workspace at once": async (open) => {
        const store = await open();
        const change = { ...SEND, on: "workspace", where: "/work" } as const;
        await store.add(change);
        equal(await store.isAlwaysApproved({ ...change, tool: "write_file" }), true);
        equal(await store.isAlwaysApproved({ ...change, where: "/elsewhere" }), false);
      },
      "never stores or applies an approval for one call": async (open) => {
        const store = await open();
        await store.add({ ...SEND, isOnce: true });
        deepEqual(await store.list(), []);
        await store.add(SEND);
        equal(await store.isAlwaysApproved({ ...SEND, isOnce: true }), false);
      },
      "lists each copy once, with each approval once": async (open) => {
        const store = await open();
        for (const tool of ["send", "send", "delete"]) await store.add({ ...SEND, tool });
        deepEqual(await store.list(), [
          { skill: "mail", source: "user", location: "/skills/mail", allowed: ["tool:send", "tool:delete"] },
        ]);
      },
      "forgets all copies of a name, or the one at a path, and returns their number": async (open) => {
        const store = await open();
        for (const location of ["/a", "/b", "/c"]) await store.add(createCopy(location));
        await store.add({ ...SEND, skill: "post" });
        equal(await store.forget("mail", "/a"), 1);
        equal(await store.isAlwaysApproved(createCopy("/a")), false);
        equal(await store.isAlwaysApproved(createCopy("/b")), true);
        equal(await store.forget("mail"), 2);
        equal(await store.forget("mail"), 0);
        equal(await store.isAlwaysApproved({ ...SEND, skill: "post" }), true);
      },
      "keeps a skill with the name of a built-in property": async (open) => {
        const store = await open();
        const { digest: _, ...inCode } = { ...SEND, location: "" };
        equal(await store.isAlwaysApproved({ ...inCode, skill: "constructor", source: "" }), false);
        await store.add({ ...SEND, skill: "__proto__" });
        equal(await store.isAlwaysApproved({ ...SEND, skill: "__proto__" }), true);
      },
      "keeps everything that is added at once": async (open) => {
        const stores = [await open(), await open()];
        const tools = Array.from({ length: 20 }, (_, index) => `tool-${index}`);
        await Promise.all(tools.map((tool, index) => stores[index % 2]?.add({ ...SEND, tool })));
        const [copy] = await (await open()).list();
        deepEqual([...(copy?.allowed ?? [])].sort(), tools.map((tool) => `tool:${tool}`).sort());
      },
      "shows another process what was added and revoked": async (open) => {
        const [here, elsewhere] = [await open(), await open()];
        equal(await elsewhere.isAlwaysApproved(SEND), false);
        await here.add(SEND);
        await eventually(async () => equal(await elsewhere.isAlwaysApproved(SEND), true));
        await here.forget("mail");
        await eventually(async () => equal(await elsewhere.isAlwaysApproved(SEND), false));
      },
    },
    create,
  );
}

/** A request of the copy at a path. Each copy has its own digest. */
function createCopy(location: string): ApprovalSubject & { digest: string } {
  return { skill: "mail", source: "user", location, digest: `sha256:${location}`, tool: "send", on: "outside" };
}

const SEND = createCopy("/skills/mail");

/** Creates statistics that are kept in memory. `rows` is the storage: stores that share it are one. */
export function createMemoryStatisticsStore(rows: UseRow[] = []): StatisticsStore {
  const started = new Map<string, StartedRun>();
  const usedNames = () =>
    rows
      .map((row, index) => ({ row, index }))
      .filter(({ row }) => row.kind !== "refused")
      .sort((a, b) => b.row.at - a.row.at || b.index - a.index)
      .map(({ row }) => row.skill);
  const select = ({ since, user, tenant }: StatisticsFilter) =>
    rows.filter(
      (row) =>
        row.at >= (since?.getTime() ?? 0) &&
        [undefined, row.user].includes(user) &&
        [undefined, row.tenant].includes(tenant),
    );
  return {
    async record(event) {
      if (event.type === "run-started") rememberRun(started, event);
      const row = createUseRow(event, started);
      if (event.type === "run-ended") started.delete(event.run);
      if (!row) return;
      const index = rows.findIndex(({ run }) => run !== null && run === row.run);
      const before = rows[index];
      if (!before) rows.push(row);
      // A run that waited and was resumed reports two ends, and its start may be forgotten by then.
      else if (row.kind === "run")
        rows[index] = { ...row, source: row.source ?? before.source, model: row.model ?? before.model };
    },
    async recordOutcome(run, stop) {
      for (const row of rows) if (row.run === run && row.stop === "waiting") row.stop = stop;
    },
    recent: async (max) => [...new Set(usedNames())].slice(0, max),
    async mostUsed(max) {
      const counts = Map.groupBy(usedNames(), (name) => name);
      return [...counts]
        .sort(([a, one], [b, other]) => other.length - one.length || compareText(a, b))
        .map(([name]) => name)
        .slice(0, max);
    },
    async perSkill(filter = {}) {
      const bySkill = Map.groupBy(select(filter), ({ skill }) => skill);
      return [...bySkill].sort(([a], [b]) => compareText(a, b)).map(([skill, own]) => summarizeSkill(skill, own));
    },
    async total(filter = {}) {
      const all = select(filter);
      // The usage of a nested run is part of its parent run. A conversation has depth 0 and no row.
      return { ...countKinds(all), ...sumUsage(all.filter(({ depth }) => (depth ?? 1) <= 1)) };
    },
  };
}

function summarizeSkill(skill: string, rows: readonly UseRow[]): SkillStatistics {
  const runs = rows.filter(({ kind }) => kind === "run");
  const times = runs.filter(({ stop }) => stop !== "waiting").map(({ ms }) => ms);
  times.sort((a, b) => a - b);
  const used = rows.filter(({ kind }) => kind !== "refused").map(({ at }) => at);
  const stops = Map.groupBy(runs, ({ stop }) => String(stop));
  const p50Ms = times[Math.ceil(times.length / 2) - 1];
  const p95Ms = times[Math.ceil(times.length * 0.95) - 1];
  return {
    skill,
    sources: [...new Set(rows.flatMap(({ source }) => source ?? []))].sort(compareText),
    ...countKinds(rows),
    ...sumUsage(rows),
    iterations: rows.reduce((sum, { iterations }) => sum + iterations, 0),
    outcomes: Object.fromEntries([...stops].map(([stop, ends]) => [stop, ends.length])),
    ...(p50Ms === undefined ? {} : { p50Ms }),
    ...(p95Ms === undefined ? {} : { p95Ms }),
    ...(used.length === 0 ? {} : { lastUse: new Date(Math.max(...used)).toISOString() }),
  };
}

function countKinds(rows: readonly UseRow[]): Pick<StatisticsTotal, "runs" | "loads" | "refused"> {
  const count = (wanted: UseRow["kind"]) => rows.filter(({ kind }) => kind === wanted).length;
  return { runs: count("run"), loads: count("loaded"), refused: count("refused") };
}

function sumUsage(rows: readonly UseRow[]): Pick<StatisticsTotal, "inputTokens" | "outputTokens" | "cost"> {
  const costs = rows.flatMap(({ cost }) => cost ?? []);
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  return {
    inputTokens: sum(rows.map(({ inputTokens }) => inputTokens)),
    outputTokens: sum(rows.map(({ outputTokens }) => outputTokens)),
    ...(costs.length === 0 ? {} : { cost: sum(costs) }),
  };
}

/** Returns the contract of statistics as test cases. */
export function testStatisticsStore(create: CreateStorage<StatisticsStore>): ContractCase[] {
  return createContractCases<StatisticsStore>(
    {
      "is empty at first": async (open) => {
        const store = await open();
        deepEqual(await store.perSkill(), []);
        deepEqual(await store.total(), { runs: 0, loads: 0, refused: 0, inputTokens: 0, outputTokens: 0 });
        deepEqual(await store.recent(10), []);
        deepEqual((await store.mostUsed?.(10)) ?? [], []);
      },
      "counts uses, loads and refusals of each skill": async (open) => {
        const store = await open();
        for (const event of [...createRun("a"), ...createRun("a"), createLoad("b"), createRefusal("b")])
          await store.record(event);
        const [a, b, ...others] = await store.perSkill();
        deepEqual([a?.skill, a?.runs, a?.loads, a?.refused, a?.sources], ["a", 2, 0, 0, ["user"]]);
        deepEqual([b?.skill, b?.runs, b?.loads, b?.refused, b?.sources], ["b", 0, 1, 1, ["user"]]);
        deepEqual(others, []);
        const { runs, loads, refused } = await store.total();
        deepEqual({ runs, loads, refused }, { runs: 2, loads: 1, refused: 1 });
      },
      "counts neither unknown names nor conversations": async (open) => {
        const store = await open();
        await store.record({
          ...createRefusal("typo"),
          refusals: [{ code: "not-found", message: "No such skill", fix: "" }],
        } as RunEvent);
        for (const event of createRun("")) await store.record(event);
        deepEqual(await store.perSkill(), []);
      },
      "adds up outcomes, iterations, tokens and cost": async (open) => {
        const store = await open();
        for (const event of [...createRun("a", { cost: 0.5 }), ...createRun("a", { stop: "aborted", iterations: 3 })])
          await store.record(event);
        const [a] = await store.perSkill();
        deepEqual(a?.outcomes, { answer: 1, aborted: 1 });
        deepEqual([a?.iterations, a?.inputTokens, a?.outputTokens, a?.cost], [4, 20, 10, 0.5]);
      },
      "counts for each user and tenant": async (open) => {
        const store = await open();
        const [ada, bob] = [
          { userId: "ada", tenant: "red" },
          { userId: "bob", tenant: "red" },
        ];
        for (const caller of [ada, ada, bob])
          for (const event of createRun("a")) await store.record({ ...event, caller } as RunEvent);
        await store.record({ ...createLoad("b"), caller: bob } as SkillEvent);
        deepEqual((await store.total({ user: "ada" })).runs, 2);
        deepEqual(
          (await store.perSkill({ user: "bob" })).map(({ skill, runs, loads }) => [skill, runs, loads]),
          [
            ["a", 1, 0],
            ["b", 0, 1],
          ],
        );
        deepEqual((await store.total({ tenant: "red" })).runs, 3);
        deepEqual((await store.total({ tenant: "blue" })).runs, 0);
      },
      "takes the median and the 95th percentile from durations that occurred": async (open) => {
        const store = await open();
        for (const ms of [40, 10, 30, 20]) for (const event of createRun("a", { ms })) await store.record(event);
        const [a] = await store.perSkill();
        deepEqual([a?.p50Ms, a?.p95Ms], [20, 40]);
      },
      "counts the usage of a nested run once in the total": async (open) => {
        const store = await open();
        for (const event of [...createRun("outer"), ...createRun("inner", {}, 2)]) await store.record(event);
        const { runs, inputTokens } = await store.total();
        deepEqual({ runs, inputTokens }, { runs: 2, inputTokens: 10 });
      },
      "keeps the last of two ends of a run": async (open) => {
        const store = await open();
        const [start, end] = createRun("a", { stop: "waiting", ms: 5 });
        await store.record(start);
        await store.record(end);
        deepEqual((await store.perSkill())[0]?.outcomes, { waiting: 1 });
        await (await open()).record({ ...end, stop: "answer", ms: 50 });
        const [a] = await (await open()).perSkill();
        deepEqual([a?.runs, a?.outcomes, a?.sources, a?.p50Ms], [1, { answer: 1 }, ["user"], 50]);
      },
      "corrects the outcome of a run that waited, and of no other run": async (open) => {
        const store = await open();
        const waiting = createRun("a", { stop: "waiting" });
        const ended = createRun("a");
        for (const event of [...waiting, ...ended]) await store.record(event);
        for (const [{ run }] of [waiting, ended]) await store.recordOutcome(run, "aborted");
        deepEqual((await store.perSkill())[0]?.outcomes, { aborted: 1, answer: 1 });
      },
      "lists recent skills by last use, and the most used by number of uses": async (open) => {
        const store = await open();
        for (const [minute, name] of ["a", "b", "a", "c"].entries())
          for (const event of createRun(name, { at: new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString() }))
            await store.record(event);
        deepEqual(await store.recent(10), ["c", "a", "b"]);
        deepEqual(await store.recent(2), ["c", "a"]);
        if (store.mostUsed) deepEqual(await store.mostUsed(2), ["a", "b"]);
      },
      "leaves out what was before a time": async (open) => {
        const store = await open();
        for (const day of [1, 10])
          for (const event of createRun("a", { at: new Date(Date.UTC(2026, 0, day)).toISOString() }))
            await store.record(event);
        const since = new Date(Date.UTC(2026, 0, 5));
        deepEqual((await store.perSkill({ since }))[0]?.runs, 1);
        equal((await store.total({ since })).runs, 1);
        equal((await store.perSkill())[0]?.lastUse, "2026-01-10T00:00:00.000Z");
      },
      "accepts numbers that no model should report": async (open) => {
        const store = await open();
        const usage = { inputTokens: Number.NaN, outputTokens: -1, cachedTokens: 0 };
        for (const event of createRun("a", { usage, ms: Number.POSITIVE_INFINITY })) await store.record(event);
        deepEqual((await store.perSkill())[0]?.runs, 1);
        equal((await store.total()).outputTokens, 0);
      },
      "keeps what several processes record at once": async (open) => {
        const stores = [await open(), await open(), await open()];
        const runs = Array.from({ length: 30 }, () => createRun("a"));
        await Promise.all(
          runs.map(async (events, index) => {
            for (const event of events) await stores[index % 3]?.record(event);
          }),
        );
        await eventually(async () => equal((await (await open()).total()).runs, 30));
      },
    },
    create,
  );
}

type EndEvent = Extract<RunEvent, { type: "run-ended" }>;
type StartEvent = Extract<RunEvent, { type: "run-started" }>;

/** Creates the start and the end of a run. */
function createRun(skill: string, more: Partial<EndEvent> = {}, depth = 1): [StartEvent, EndEvent] {
  const run = crypto.randomUUID();
  const at = more.at ?? new Date().toISOString();
  const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
  const limits = { iterations: 10, seconds: 60 };
  return [
    { type: "run-started", run, skill, at, source: "user", model: "m", tools: [], depth, limits },
    { type: "run-ended", run, skill, at, stop: "answer", isError: false, iterations: 1, ms: 100, usage, ...more },
  ];
}

function createLoad(skill: string): SkillEvent {
  return { type: "skill-loaded", skill, source: "user" };
}

function createRefusal(skill: string): RunEvent {
  const at = new Date().toISOString();
  const refusals = [{ code: "disabled" as const, message: "It is disabled", fix: "enable it" }];
  return { type: "run-refused", run: crypto.randomUUID(), skill, at, refusals };
}
