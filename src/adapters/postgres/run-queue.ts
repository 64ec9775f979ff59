import { randomUUID } from "node:crypto";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { JournalLine } from "../../store/journal.ts";
import { createFirstLines, type NewRun, type RunSummary } from "../../store/run-rules.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Database, Transaction } from "./database.ts";
import { type Dispatcher, formatLegId, type Leg } from "./dispatcher.ts";
import { IS_LEASED, insertRun, lockRun, parseStoredHead } from "./postgres-runs.ts";

export const DEFAULT_QUEUE = "runs";

export interface EnqueueOptions {
  /** Defaults to `runs`. */
  queue?: string;
  /** Whose run it is: tenants take turns. */
  tenant?: string;
  /** The same key of a tenant gives the same run. */
  key?: string;
  /** 0, the default, comes first. */
  priority?: number;
  /** The first step of the run: the digest of the skill that it is bound to, and its input. */
  start: { digest: string };
}

/** The queue of runs that workers do. */
export interface RunQueue {
  /** Adds a run and its first leg. Throws a SkillError if the key was used for another request. */
  enqueue(run: NewRun, options: EnqueueOptions): Promise<{ id: string; isNew: boolean }>;
  /** Gives a run that is interrupted or stuck to the workers again. Throws a SkillError for a run of no queue. */
  requeue(id: string): Promise<void>;
  /** Lists the workers that live, by name. */
  listWorkers(): Promise<readonly WorkerSummary[]>;
  /** Begins a leg. Returns undefined if it is not to be done: the run went on, was cancelled, or ended its worker too often. */
  begin(leg: Leg, worker: string, attempts: number): Promise<BegunLeg | undefined>;
  /** Records how a leg ended, unless the run was taken from the worker. */
  finish(leg: Leg, worker: string, outcome: LegOutcome): Promise<void>;
  /** Gives new legs to runs whose leg is lost. Returns their number. */
  sweep(): Promise<number>;
  /** Takes the runs of a worker that is gone, and gives them to others. `seenAt`: the last sign of life, which must be the last still. */
  recover(worker: string, seenAt: string): Promise<readonly Leg[] | undefined>;
  /** Gives stuck runs of these skills, by name and digest, to the workers again. */
  releaseStuck(skills: Readonly<Record<string, string>>): Promise<number>;
}

/** A worker, as it showed itself last. */
export interface WorkerSummary {
  name: string;
  host: string;
  version: string;
  slots: number;
  running: number;
  queues: readonly string[];
  isDraining: boolean;
  startedAt: string;
  seenAt: string;
  /** The digests of its skills, by name. */
  skills: Readonly<Record<string, string>>;
}

export interface BegunLeg {
  skill: string;
  digest: string;
  /** Whose run it is; empty for the operator. */
  tenant: string;
  person?: string;
  /** The folder that the run works in, if any. */
  workspace?: string;
}

/** How a leg ended. `again`: the run goes on, after a pause. `returned`: not here, but perhaps at another worker. */
export type LegOutcome =
  | { type: "done" | "waiting" }
  | { type: "again"; delaySeconds: number; problem?: Problem }
  | { type: "returned" | "stuck"; problem: Problem };

/** The number of times that workers may give a run back before it is stuck. */
const MAX_RETURNS = 8;
const RETURN_DELAY_SECONDS = 1;
/** A leg is lost if it is not live so long after the last change of its run. */
const LOST_AFTER_SECONDS = 4;
const SWEEP_SIZE = 200;

export function createRunQueue(database: Database, dispatcher: Dispatcher): RunQueue {
  const addLeg = (transaction: Transaction, id: string, delaySeconds?: number) =>
    addNextLeg(transaction, dispatcher, id, delaySeconds);
  const { sealer } = database;
  const formatProblem = (run: string, problem: Problem) => sealer.seal(run, JSON.stringify(problem));
  const isCurrent = async ({ query }: Transaction, { run, leg }: Leg, worker: string) => {
    const values = [run, leg, worker];
    const text = "select 1 from skillet.runs where id = $1 and leg = $2 and worker = $3 and dispatch = 'working'";
    return (await query({ text, values })).length > 0;
  };
  return {
    enqueue(run, { queue = DEFAULT_QUEUE, tenant = "", key, priority = 0, start }) {
      const { id, skill } = run.head;
      const owner = randomUUID();
      const request = sealer.digest(JSON.stringify([skill, run.request]));
      const step: JournalLine = { type: "step", at: new Date().toISOString(), name: "skill", value: start };
      return database.transaction(async (transaction) => {
        const { query } = transaction;
        if (key !== undefined) {
          await query({ text: "select pg_advisory_xact_lock(hashtext($1), hashtext($2))", values: [tenant, key] });
          const text = "select id, request_digest from skillet.runs where tenant = $1 and key = $2";
          const [used] = await query({ text, values: [tenant, key] });
          if (used && used["request_digest"] !== request) throw createUsedKeyError(key, String(used["id"]));
          if (used) return { id: String(used["id"]), isNew: used["id"] === id };
        }
        if (!(await insertRun(transaction, [...createFirstLines(run), step], id, owner)))
          throw new SkillError("journal-unwritable", { message: `Run ${id} exists already`, fix: "use a new id" });
        await query({
          text: `update skillet.runs set queue = $2, tenant = $3, key = $4, request_digest = $5, skill = $6, skill_digest = $7,
            priority = $8 where id = $1`,
          values: [id, queue, tenant, key ?? null, request, skill, start.digest, priority],
        });
        await addLeg(transaction, id);
        return { id, isNew: true };
      });
    },
    requeue: (id) =>
      database.transaction(async (transaction) => {
        const summary = await lockRun(transaction, id);
        requireRequeueable(summary);
        const { query } = transaction;
        await query({ text: "update skillet.runs set attempts = 0, returns = 0 where id = $1", values: [id] });
        await addLeg(transaction, id);
      }),
    async listWorkers() {
      const rows = await database.query("select * from skillet.workers order by name");
      return rows.map((row) => ({
        ...{ name: String(row["name"]), host: String(row["host"]), version: String(row["version"]) },
        ...{ slots: Number(row["slots"]), running: Number(row["running"]), queues: row["queues"] as string[] },
        isDraining: row["is_draining"] === true,
        startedAt: (row["started_at"] as Date).toISOString(),
        seenAt: (row["seen_at"] as Date).toISOString(),
        skills: JSON.parse(String(row["skills"])),
      }));
    },
    async begin({ run, leg }, worker, attempts) {
      const [begun] = await database.query({
        text: `update skillet.runs r set dispatch = 'working', worker = $3, attempts = attempts + 1, changed_at = now()
          where id = $1 and leg = $2 and attempts < $4 and not is_cancelled and tail is null and not ${IS_LEASED}
            and (dispatch = 'queued' or (dispatch = 'working' and worker = $3)) returning skill, skill_digest, tenant, head`,
        values: [run, leg, worker, attempts],
      });
      if (begun) {
        const head = parseStoredHead(sealer, run, begun);
        const { workspace, caller } = head?.type === "run" ? head : ({} as Partial<RunSummary>);
        const { skill, skill_digest: digest, tenant } = begun;
        const what = { skill: String(skill), digest: String(digest), tenant: String(tenant) };
        return { ...what, ...omitUndefined({ workspace, person: caller?.userId }) };
      }
      await database.query({
        text: `update skillet.runs set dispatch = 'stuck', problem = $4, changed_at = now()
          where id = $1 and leg = $2 and attempts >= $3 and dispatch = 'queued'`,
        values: [run, leg, attempts, formatProblem(run, createPoisonProblem(attempts))],
      });
      return undefined;
    },
    async finish(leg, worker, outcome) {
      if (outcome.type === "done") {
        // Most legs end so: nothing of the run decides what becomes of it, and one statement is one round trip.
        const values = [leg.run, leg.leg, worker];
        await database.query({ name: "skillet-finish", text: FINISH, values });
        return;
      }
      await database.transaction(async (transaction) => {
        const { query } = transaction;
        const summary = await lockRun(transaction, leg.run);
        if (!(await isCurrent(transaction, leg, worker))) return;
        const set = (change: string, ...values: unknown[]) =>
          query({
            text: `update skillet.runs set ${change}, worker = null, changed_at = now() where id = $1`,
            values: [leg.run, ...values],
          });
        if (outcome.type === "returned") {
          const problem = formatProblem(leg.run, outcome.problem);
          await set(
            "attempts = 0, returns = returns + 1, problem = $2, dispatch = case when returns + 1 < $3 then 'queued' else 'stuck' end",
            ...[problem, MAX_RETURNS],
          );
          const [row] = await query({ text: "select dispatch from skillet.runs where id = $1", values: [leg.run] });
          if (row?.["dispatch"] === "queued") await addLeg(transaction, leg.run, RETURN_DELAY_SECONDS);
          return;
        }
        if (outcome.type === "stuck") {
          await set(
            "attempts = 0, returns = 0, dispatch = 'stuck', problem = $2",
            formatProblem(leg.run, outcome.problem),
          );
          return;
        }
        // The answer may have come while the leg ended.
        const isAnswered = outcome.type === "waiting" && summary.state === "answered";
        if (outcome.type === "again" || isAnswered) {
          await set("attempts = 0, returns = 0, problem = null");
          await addLeg(transaction, leg.run, outcome.type === "again" ? outcome.delaySeconds : undefined);
        } else await set("attempts = 0, returns = 0, problem = null, dispatch = 'waiting'");
      });
    },
    async sweep() {
      const rows = await database.query({
        text: `select id, leg, worker from skillet.runs r where dispatch in ('queued', 'working') and tail is null and not is_cancelled
          and changed_at < now() - make_interval(secs => $1) and not ${IS_LEASED} order by changed_at limit ${SWEEP_SIZE}`,
        values: [LOST_AFTER_SECONDS],
      });
      if (rows.length === 0) return 0;
      const workers = new Set(
        (await database.query("select name from skillet.workers")).map(({ name }) => String(name)),
      );
      const legs = rows.map(({ id, leg, worker }) => ({ run: String(id), leg: Number(leg), worker }));
      const live = await dispatcher.findLive(legs, workers);
      const isLost = (one: (typeof legs)[number]) =>
        !live.has(formatLegId(one)) || (one.worker !== null && !workers.has(String(one.worker)));
      let found = 0;
      for (const leg of legs.filter(isLost)) {
        found += await database.transaction(async (transaction) => {
          const [row] = await transaction.query({
            text: `select 1 from skillet.runs r where id = $1 and leg = $2 and dispatch in ('queued', 'working')
              and tail is null and not is_cancelled and not ${IS_LEASED} for update`,
            values: [leg.run, leg.leg],
          });
          if (row) await addLeg(transaction, leg.run);
          return row ? 1 : 0;
        });
      }
      return found;
    },
    async recover(worker, seenAt) {
      const taken = await dispatcher.listTaken(worker);
      const legs = await database.transaction(async (transaction) => {
        const { query } = transaction;
        const text = "delete from skillet.workers where name = $1 and seen_at = $2::timestamptz returning name";
        if ((await query({ text, values: [worker, seenAt] })).length === 0) return undefined;
        // The fence comes first: from now on the worker writes nothing, should it still live.
        const rows = await query({
          text: `update skillet.runs set owner = null, lease_until = null, worker = null
            where worker = $1 and dispatch = 'working' returning id, leg`,
          values: [worker],
        });
        // A leg that was brought to the worker, and not begun.
        const unbegun = await query({
          text: `select r.id, r.leg from skillet.runs r join unnest($1::text[], $2::integer[]) u(id, leg)
            on r.id = u.id and r.leg = u.leg where r.dispatch = 'queued' for update of r`,
          values: [taken.map(({ run }) => run), taken.map(({ leg }) => leg)],
        });
        const lost = [...rows, ...unbegun].map(({ id, leg }) => ({ run: String(id), leg: Number(leg) }));
        for (const { run } of lost) await addLeg(transaction, run);
        return lost;
      });
      if (legs) await dispatcher.withdraw(taken);
      return legs;
    },
    async releaseStuck(skills) {
      return database.transaction(async (transaction) => {
        const rows = await transaction.query({
          text: `select r.id from skillet.runs r join unnest($1::text[], $2::text[]) u(name, digest)
            on r.skill = u.name and r.skill_digest = u.digest
            where r.dispatch = 'stuck' and r.returns > 0 and r.tail is null and not r.is_cancelled for update of r`,
          values: [Object.keys(skills), Object.values(skills)],
        });
        for (const { id } of rows) {
          await transaction.query({ text: "update skillet.runs set returns = 0 where id = $1", values: [id] });
          await addLeg(transaction, String(id));
        }
        return rows.length;
      });
    },
  };
}

const FINISH = `
update skillet.runs set dispatch = 'done', attempts = 0, returns = 0, problem = null, worker = null, changed_at = now()
where id = $1 and leg = $2 and worker = $3 and dispatch = 'working'`;

/** Adds the next leg of a queued run. Does nothing for a run of no queue, and for one that has ended. */
export async function addNextLeg(
  transaction: Transaction,
  dispatcher: Dispatcher | undefined,
  id: string,
  delaySeconds?: number,
): Promise<void> {
  const [row] = await transaction.query({
    text: `update skillet.runs set leg = leg + 1, dispatch = 'queued', worker = null, changed_at = now()
      where id = $1 and queue is not null and tail is null and not is_cancelled returning queue, tenant, priority, leg`,
    values: [id],
  });
  if (!row) return;
  const { queue, tenant, priority, leg } = row;
  // Without a dispatcher in this process, a worker notices the run within seconds.
  await dispatcher?.enqueue(transaction, {
    ...{ run: id, leg: Number(leg), queue: String(queue), tenant: String(tenant), priority: Number(priority) },
    ...(delaySeconds === undefined ? {} : { delaySeconds }),
  });
}

function requireRequeueable({ id, state, queue }: RunSummary): void {
  if (queue !== undefined && (state === "interrupted" || state === "stuck" || state === "answered")) return;
  throw new SkillError("run-busy", {
    message: `Run ${id} cannot be given to a worker: it is ${queue === undefined ? "not a queued run" : state}`,
    fix: "to see it",
    commands: [`skillet runs show ${id}`],
  });
}

function createPoisonProblem(attempts: number): Problem {
  return {
    code: "run-poisonous",
    message: `It ended its worker ${attempts} times`,
    fix: "find out what it does; to try again, resume it",
  };
}

function createUsedKeyError(key: string, id: string): SkillError {
  return new SkillError("queue-key-reused", {
    message: `The key ${key} was used for a different request`,
    fix: "use another key",
    commands: [`skillet runs show ${id}`],
  });
}
