import { hostname } from "node:os";
import type { RunResult } from "../../agent/run/run-result.ts";
import { toProblem } from "../../agent/run/run-result.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Database, HeldLock } from "./database.ts";
import type { Dispatcher, Leg } from "./dispatcher.ts";
import { IS_LEASED } from "./postgres-runs.ts";
import type { BegunLeg, LegOutcome, RunQueue } from "./run-queue.ts";

export interface WorkerOptions {
  /** Differs from all other workers. */
  name: string;
  version: string;
  queues: readonly string[];
  slots: number;
  /** The number of runs of a tenant at once, over all workers, which must agree. Defaults to no limit. */
  tenantSlots?: number | undefined;
  leaseSeconds: number;
  outageSeconds: number;
  drainSeconds: number;
  /** The number of times that a run may end its worker. */
  attempts: number;
  /** Checks whether this worker can do a run, before anything of it is done. Returns the reason if it cannot. */
  check(leg: BegunLeg): Promise<Problem | undefined>;
  /** Resumes a run. Contract: resolves, also when it is aborted. */
  run(id: string, leg: BegunLeg, signal: AbortSignal): PromiseLike<RunResult>;
  /** Returns the digests of the skills here, by name. */
  listSkills(): Promise<Readonly<Record<string, string>>>;
  onEvent?(event: WorkerEvent): void;
}

export type WorkerEvent = { at: string } & (
  | { type: "worker-started"; worker: string; slots: number; queues: readonly string[] }
  | { type: "run-taken"; run: string; skill: string }
  | { type: "run-left"; run: string; skill: string; outcome: LegOutcome["type"]; problem?: Problem }
  | { type: "worker-lost"; worker: string; runs: readonly string[] }
  | { type: "runs-found"; count: number }
  | { type: "worker-draining"; running: number }
  | { type: "worker-stopped"; worker: string }
);

export interface RunningWorker {
  /** Takes no more runs, and waits for those at work. After the drain time it stops them; others resume them. */
  stop(): Promise<void>;
}

interface WorkerParts {
  database: Database;
  dispatcher: Dispatcher;
  queue: RunQueue;
}

/** Starts to do queued runs in this process. Throws a SkillError if a worker with this name runs already. */
export async function startWorker(
  { database, dispatcher, queue }: WorkerParts,
  options: WorkerOptions,
): Promise<RunningWorker> {
  const { name, slots, tenantSlots, queues, leaseSeconds, drainSeconds } = options;
  const running = new Map<string, AbortController>();
  const state = { isDraining: false, skills: {} as Readonly<Record<string, string>>, advertised: "" };
  const emit = (event: WorkerEventBody) => options.onEvent?.({ at: new Date().toISOString(), ...event } as WorkerEvent);
  const lock = await database.hold({
    text: `select pg_try_advisory_lock(${WORKER_LOCK}, hashtext($1))`,
    values: [name],
  });
  const presence = createPresence(database, lock, {
    name,
    leaseSeconds,
    row: () => ({
      ...options,
      running: running.size,
      skills: JSON.stringify(state.skills),
      isDraining: state.isDraining,
    }),
  });
  const advertise = async () => {
    state.skills = await options.listSkills();
    const advertised = JSON.stringify(state.skills);
    if (advertised === state.advertised) return;
    state.advertised = advertised;
    await queue.releaseStuck(state.skills);
  };
  const work = async (leg: Leg): Promise<void> => {
    const begun = state.isDraining ? undefined : await queue.begin(leg, name, options.attempts);
    if (!begun) return;
    const { skill } = begun;
    const controller = new AbortController();
    running.set(leg.run, controller);
    emit({ type: "run-taken", run: leg.run, skill });
    const outcome = await doLeg(leg, begun, controller.signal, options);
    // Recorded before the slot is free: the sweep finds a leg that ends without a record.
    await queue.finish(leg, name, outcome);
    running.delete(leg.run);
    emit({ type: "run-left", run: leg.run, skill, ...withoutDelay(outcome) });
  };
  // Others find the runs of a worker by its row, so that the row comes first.
  state.skills = await options.listSkills();
  await presence.beat();
  const consume = await dispatcher.consume({
    ...{ worker: name, queues, slots, tenantSlots },
    work: (leg) => work(leg).finally(() => running.delete(leg.run)),
  });
  await advertise();
  emit({ type: "worker-started", worker: name, slots, queues });
  const timers = [
    startTimer(presence.beatMs, presence.beat),
    // Apart from the beat: taking the runs of a worker may wait for a lock, and this worker lives meanwhile.
    startTimer(presence.beatMs, async () => {
      for (const { worker, seenAt } of await presence.findLost()) {
        const legs = await queue.recover(worker, seenAt);
        if (legs) emit({ type: "worker-lost", worker, runs: legs.map(({ run }) => run) });
      }
    }),
    startTimer(SWEEP_MS, async () => {
      const count = await queue.sweep();
      if (count > 0) emit({ type: "runs-found", count });
    }),
    startTimer(ADVERTISE_MS, advertise),
  ];
  return {
    async stop() {
      state.isDraining = true;
      emit({ type: "worker-draining", running: running.size });
      const drain = setTimeout(() => {
        for (const controller of running.values()) controller.abort();
      }, drainSeconds * 1000);
      await presence.beat().catch(() => {});
      await consume.stop();
      clearTimeout(drain);
      for (const timer of timers) await timer.stop();
      await presence.leave();
      emit({ type: "worker-stopped", worker: name });
    },
  };
}

type WorkerEventBody = WorkerEvent extends infer E ? (E extends unknown ? Omit<E, "at"> : never) : never;

function withoutDelay(outcome: LegOutcome): { outcome: LegOutcome["type"]; problem?: Problem } {
  const problem = "problem" in outcome ? outcome.problem : undefined;
  return { outcome: outcome.type, ...(problem ? { problem } : {}) };
}

/** The first key of the lock of a worker; the second one is its name. */
const WORKER_LOCK = 730221;
const SWEEP_MS = 2000;
const ADVERTISE_MS = 5000;

async function doLeg(leg: Leg, begun: BegunLeg, signal: AbortSignal, options: WorkerOptions): Promise<LegOutcome> {
  try {
    const problem = await options.check(begun);
    if (problem) return { type: "returned", problem };
    return judgeResult(await options.run(leg.run, begun, signal), signal.aborted);
  } catch (error) {
    return { type: "stuck", problem: toProblem(error) };
  }
}

/** Refusals of a run that is over or at another process: there is nothing to do. */
const OVER_CODES: ReadonlySet<string> = new Set(["run-ended", "run-cancelled", "run-busy", "run-unknown"]);
/** Errors that pass: the run is done again after a pause. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  ...["model-unreachable", "model-timeout", "engine-unavailable", "journal-unwritable"],
]);
const RETRY_SECONDS = 5;

/** Decides what becomes of a run after a leg. */
function judgeResult({ stop, refusals, error }: RunResult, isDraining: boolean): LegOutcome {
  const [refusal] = refusals;
  if (refusal) return OVER_CODES.has(refusal.code) ? { type: "done" } : { type: "returned", problem: refusal };
  if (stop === "waiting") return { type: "waiting" };
  if (stop === "aborted" && isDraining) return { type: "again", delaySeconds: 0 };
  if (stop !== "error" || !error || OVER_CODES.has(error.code)) return { type: "done" };
  if (TRANSIENT_CODES.has(error.code)) return { type: "again", delaySeconds: RETRY_SECONDS, problem: error };
  return { type: "stuck", problem: error };
}

interface PresenceOptions {
  name: string;
  leaseSeconds: number;
  row(): {
    version: string;
    slots: number;
    running: number;
    queues: readonly string[];
    skills: string;
    isDraining: boolean;
  };
}

interface LostWorker {
  worker: string;
  seenAt: string;
}

/**
 * Shows other workers that this one lives, and finds those that do not: a killed process loses its lock at once; a frozen one, and one whose
 * connection was cut, keeps it, and its last sign of life grows old.
 */
function createPresence(database: Database, lock: HeldLock, { name, leaseSeconds, row }: PresenceOptions) {
  const beatMs = Math.min(1000, leaseSeconds * 100);
  const state = { lastBeat: 0, since: 0 };
  /** The sign of life of workers without a lock, and how often it was the same. */
  const looks = new Map<string, { seenAt: string; count: number }>();
  return {
    beatMs,
    async beat(): Promise<void> {
      const { version, slots, running, queues, skills, isDraining } = row();
      await database.query({
        name: "skillet-beat",
        text: `insert into skillet.workers (name, host, pid, version, slots, running, queues, skills, is_draining)
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (name) do update set
          running = excluded.running, skills = excluded.skills, is_draining = excluded.is_draining, seen_at = now()`,
        values: [name, hostname(), process.pid, version, slots, running, queues, skills, isDraining],
      });
      const now = performance.now();
      if (now - state.lastBeat > MAX_GAP_BEATS * beatMs) state.since = now;
      state.lastBeat = now;
    },
    async findLost(): Promise<LostWorker[]> {
      const rows = await database.query({ text: OTHER_WORKERS, values: [name, leaseSeconds] });
      const lockSince = lock.since() ?? Number.POSITIVE_INFINITY;
      const now = performance.now();
      // This process was away itself: its knowledge of the others is old.
      if (now - state.lastBeat > MAX_GAP_BEATS * beatMs) return [];
      // After an outage all signs are old, and all locks are free: no worker is lost until each one had the time to return.
      const sinceMs = now - Math.max(state.since, lockSince);
      const lost: LostWorker[] = [];
      const seen = new Set<string>();
      for (const { name: worker, seen_at: seenAt, is_old: isOld, ...row } of rows) {
        const id = String(worker);
        seen.add(id);
        const before = looks.get(id);
        // A restart of the server freed the locks of living and frozen workers too: only time tells them from killed ones.
        const isLocked = row["is_locked"] === true || row["is_from_before"] === true;
        const isSame = !isLocked && before?.seenAt === seenAt;
        const count = isLocked ? 0 : isSame ? (before?.count ?? 0) + 1 : 1;
        looks.set(id, { seenAt: String(seenAt), count });
        const isOver =
          sinceMs > RETURN_MS &&
          ((isOld === true && sinceMs > leaseSeconds * 1000) ||
            (count > SAME_LOOKS && sinceMs > MAX_GAP_BEATS * beatMs));
        if (isOver) lost.push({ worker: id, seenAt: String(seenAt) });
      }
      for (const id of looks.keys()) if (!seen.has(id)) looks.delete(id);
      return lost;
    },
    async leave(): Promise<void> {
      await database.query({ text: "delete from skillet.workers where name = $1", values: [name] });
      await lock.release();
    },
  };
}

/** The beats without an answer after which this process was away itself. */
const MAX_GAP_BEATS = 5;
/** After an outage, each worker gets at least this time to return: it pauses between its attempts to connect, also under a short lease. */
const RETURN_MS = 2000;
/** The looks in a row at a worker without lock and without a new sign of life. A worker that lives gives one with each look. */
const SAME_LOOKS = 2;

const OTHER_WORKERS = `
select w.name, w.seen_at::text as seen_at,
  greatest(w.seen_at, pg_postmaster_start_time()) < now() - make_interval(secs => $2)
    and not exists (select 1 from skillet.runs r where r.worker = w.name and r.dispatch = 'working' and ${IS_LEASED}) as is_old,
  w.seen_at < pg_postmaster_start_time() as is_from_before,
  exists (select 1 from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.classid = ${WORKER_LOCK} and l.objid::bigint = (hashtext(w.name)::bigint & 4294967295)
    and l.database = (select oid from pg_database where datname = current_database())) as is_locked
from skillet.workers w where w.name <> $1`;

/** Repeats work with a pause. A failure is the next round's. */
function startTimer(pauseMs: number, work: () => Promise<void>): { stop(): Promise<void> } {
  const state = { isStopped: false, wake: () => {} };
  const repeat = async () => {
    while (!state.isStopped) {
      await new Promise<void>((resolve) => {
        state.wake = resolve;
        setTimeout(resolve, pauseMs).unref();
      });
      if (!state.isStopped) await work().catch(() => {});
    }
  };
  const done = repeat();
  return {
    async stop() {
      state.isStopped = true;
      state.wake();
      await done;
    },
  };
}
