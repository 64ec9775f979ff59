import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { toNewName } from "../errors/renamed-names.ts";
import type { Caller } from "../host/approval.ts";
import type { RunEvent, SkillEvent, StopReason } from "../host/events.ts";
import { createStatisticsError, openStatisticsDatabase } from "./statistics-database.ts";

/** Statistics of the used skills and their outcomes. Several processes may write at once. */
export interface StatisticsStore {
  /** Records an end, a refusal or a load. Contract: never throws; an event that cannot be written is lost. */
  record(event: SkillEvent): Promise<void>;
  /** Returns up to `max` skills that were used or loaded, the latest first. Empty when nothing is known. */
  recent(max: number): Promise<readonly string[]>;
  /** Returns up to `max` skills that were used or loaded most often, then by name. Empty when nothing is known. */
  mostUsed?(max: number): Promise<readonly string[]>;
  /** Records the final end of a run that waited. Contract: never throws. */
  recordOutcome(run: string, stop: StopReason): Promise<void>;
  /**
   * Returns one row for each skill, by name, of the selected events. Throws a SkillError when they cannot be read.
   */
  perSkill(filter?: StatisticsFilter): Promise<readonly SkillStatistics[]>;
  /**
   * Returns the totals of all skills: usage of a nested run is part of its parent run, and counted once. Throws like
   * `perSkill`.
   */
  total(filter?: StatisticsFilter): Promise<StatisticsTotal>;
  /** Returns one row for each day with runs, the earliest first. Throws like `perSkill`. */
  perDay?(filter?: StatisticsFilter): Promise<readonly DayStatistics[]>;
}

/** Selects events: later ones, those of one user, those of one tenant. */
export interface StatisticsFilter {
  since?: Date;
  user?: string;
  tenant?: string;
}

/** The runs of one day, in UTC. */
export interface DayStatistics {
  /** `2026-11-19` */
  day: string;
  runs: number;
  /** Runs that ended with an answer. */
  succeeded: number;
  /** The median and 95th percentile of the durations of ended runs, including nested runs. */
  p50Ms?: number;
  p95Ms?: number;
  cost?: number;
}

export type StatisticsTotal = Pick<
  SkillStatistics,
  "runs" | "loads" | "refused" | "inputTokens" | "outputTokens" | "cost"
>;

export interface SkillStatistics {
  skill: string;
  /** The sources of the used copies. */
  sources: readonly string[];
  runs: number;
  loads: number;
  refused: number;
  /** Counts of outcomes, by `stop`. */
  outcomes: Readonly<Record<string, number>>;
  /** The median and 95th percentile of the durations of ended runs, including nested runs. */
  p50Ms?: number;
  p95Ms?: number;
  iterations: number;
  /** Includes those of nested runs. */
  inputTokens: number;
  outputTokens: number;
  /** In US dollars, if prices are known. */
  cost?: number;
  /** The time of the last use or load, in ISO 8601. */
  lastUse?: string;
}

/** Creates the statistics in skillet's folder. Opens no file before the first write or read. */
export function createStatisticsStore(skilletHome: string): StatisticsStore {
  const file = join(skilletHome, "statistics.db");
  const begun = new Map<string, StartedRun>();
  let opened: OpenedDatabase | undefined;
  let restUntil = 0;
  const waiting: UseRow[] = [];
  let retry: NodeJS.Timeout | undefined;
  const open = (waitMs = MAX_WAIT_MS): OpenedDatabase => {
    opened ??= prepareStatements(openStatisticsDatabase(file, waitMs));
    return opened;
  };
  // Another process may hold the file: then this retries for some seconds in the background.
  const write = (tries = 0): void => {
    retry = undefined;
    try {
      for (let note = waiting[0]; note; note = waiting[0]) {
        open(tries === 0 ? MAX_WAIT_MS : SHORT_WAIT_MS).insert.run(note);
        waiting.shift();
      }
    } catch (error) {
      if (getSqliteCode(error) === SQLITE_BUSY && tries < MAX_TRIES) retry = setTimeout(write, RETRY_MS, tries + 1);
      else {
        waiting.length = 0;
        restUntil = performance.now() + REST_MS;
      }
    }
  };
  const read = <T>(nothing: T, work: (opened: OpenedDatabase) => T): T => {
    if (!opened && !existsSync(file)) return nothing;
    try {
      return work(open());
    } catch (error) {
      throw createStatisticsError(file, error);
    }
  };
  return {
    async record(event) {
      try {
        if (event.type === "run-started") rememberRun(begun, event);
        const note = createUseRow(event, begun);
        if (event.type === "run-ended") begun.delete(event.run);
        if (!note || performance.now() < restUntil || waiting.length >= MAX_WAITING_ROWS) return;
        waiting.push(note);
        if (!retry) write();
      } catch {
        restUntil = performance.now() + REST_MS;
      }
    },
    async recordOutcome(run, stop) {
      try {
        read(undefined, ({ database }) => {
          database.prepare("UPDATE uses SET stop = ? WHERE run = ? AND stop = 'waiting'").run(stop, run);
          return undefined;
        });
      } catch {} // It stays counted as it was.
    },
    async recent(max) {
      if (performance.now() < restUntil) return [];
      try {
        return read([], ({ last }) => takeSkillNames(last, max));
      } catch {
        return [];
      }
    },
    async mostUsed(max) {
      if (performance.now() < restUntil) return [];
      try {
        return read([], ({ database }) =>
          database
            .prepare(MOST_USED_QUERY)
            .all(max)
            .map((row) => String(row["skill"])),
        );
      } catch {
        return [];
      }
    },
    perSkill: async (filter = {}) => read([], ({ database }) => querySkillStatistics(database, toQueryFilter(filter))),
    total: async (filter = {}) => read(EMPTY_TOTAL, ({ database }) => queryTotal(database, toQueryFilter(filter))),
    perDay: async (filter = {}) => read([], ({ database }) => queryDays(database, toQueryFilter(filter))),
  };
}

/** The pause before an unusable file is tried again. */
const REST_MS = 60_000;
/** Returns the SQLite result code of an error, if it has one. */
function getSqliteCode(error: unknown): number | undefined {
  const { errcode, cause } = Object(error) as { errcode?: number; cause?: { errcode?: number } };
  return errcode ?? cause?.errcode;
}

/** SQLite's result code for a locked file. */
const SQLITE_BUSY = 5;
const MAX_WAIT_MS = 2000;
const SHORT_WAIT_MS = 50;
const RETRY_MS = 250;
const MAX_TRIES = 20;
const MAX_WAITING_ROWS = 1000;
const EMPTY_TOTAL: StatisticsTotal = { runs: 0, loads: 0, refused: 0, inputTokens: 0, outputTokens: 0 };

/** Fields that only the start of a run has. */
export type StartedRun = Pick<RunStartedEvent, "source" | "model" | "depth" | "caller">;
type RunStartedEvent = Extract<RunEvent, { type: "run-started" }>;

/** Bounds the memory for runs that never end. */
const MAX_STARTED_RUNS = 1000;

/** Keeps the fields of a start until the end of the run. */
export function rememberRun(
  begun: Map<string, StartedRun>,
  { run, source, model, depth, caller }: RunStartedEvent,
): void {
  begun.set(run, { model, depth, ...(source === undefined ? {} : { source }), ...(caller ? { caller } : {}) });
  const [oldest] = begun.keys();
  if (begun.size > MAX_STARTED_RUNS && oldest !== undefined) begun.delete(oldest);
}

/** One use, load or refusal of a skill. */
export type UseRow = {
  at: number;
  kind: "run" | "loaded" | "refused";
  skill: string;
  source: string | null;
  model: string | null;
  run: string | null;
  depth: number | null;
  stop: string | null;
  iterations: number;
  ms: number;
  inputTokens: number;
  outputTokens: number;
  cost: number | null;
  user: string | null;
  tenant: string | null;
};

/**
 * Creates the row of an event, or undefined for most events. Conversations and unknown names do not count as skills.
 */
export function createUseRow(event: SkillEvent, begun: ReadonlyMap<string, StartedRun>): UseRow | undefined {
  if (event.type === "skill-loaded") {
    const { skill, source, caller } = event;
    return { ...BLANK_ROW, ...toCallerColumns(caller), at: Date.now(), kind: "loaded", skill, source };
  }
  if ((event.type !== "run-ended" && event.type !== "run-refused") || event.skill === "") return undefined;
  const { run, skill } = event;
  const started = begun.get(run);
  const { source = null, model = null, depth = null } = started ?? BLANK_ROW;
  const known = { ...BLANK_ROW, ...toCallerColumns(event.caller ?? started?.caller), source, model, depth };
  const row = { ...known, at: Date.parse(event.at) || Date.now(), skill, run };
  if (event.type === "run-refused") {
    return event.refusals.some(({ code }) => code === "not-found") ? undefined : { ...row, kind: "refused" };
  }
  const { stop, iterations, ms, usage, cost = null } = event;
  const { inputTokens, outputTokens } = usage;
  const tokens = { inputTokens: toWholeNumber(inputTokens), outputTokens: toWholeNumber(outputTokens) };
  return { ...row, kind: "run", stop, iterations: toWholeNumber(iterations), ms: toWholeNumber(ms), ...tokens, cost };
}

function toCallerColumns(caller: Caller | undefined): Pick<UseRow, "user" | "tenant"> {
  return { user: caller?.userId ?? null, tenant: caller?.tenant ?? null };
}

/** Normalizes a number of a model: it may be any value, and an invalid one must not lose the rest of the row. */
function toWholeNumber(number: number): number {
  return Number.isFinite(number) ? Math.min(Math.max(0, Math.round(number)), Number.MAX_SAFE_INTEGER) : 0;
}

const BLANK_ROW = {
  source: null,
  model: null,
  run: null,
  depth: null,
  stop: null,
  iterations: 0,
  ms: 0,
  inputTokens: 0,
  outputTokens: 0,
  cost: null,
  user: null,
  tenant: null,
};

interface OpenedDatabase {
  database: DatabaseSync;
  insert: StatementSync;
  last: StatementSync;
}

function prepareStatements(database: DatabaseSync): OpenedDatabase {
  return { database, insert: database.prepare(INSERT_QUERY), last: database.prepare(RECENT_QUERY) };
}

// A run that waited and was resumed reports two ends, and its start may be forgotten by then.
const INSERT_QUERY = `
  INSERT INTO uses (at, kind, skill, source, model, run, depth, stop, iterations, ms, input_tokens, output_tokens, cost,
    user, tenant)
  VALUES ($at, $kind, $skill, $source, $model, $run, $depth, $stop, $iterations, $ms, $inputTokens, $outputTokens, $cost,
    $user, $tenant)
  ON CONFLICT (run) DO UPDATE SET
    at = excluded.at, kind = excluded.kind, source = coalesce(excluded.source, source),
    model = coalesce(excluded.model, model), depth = coalesce(excluded.depth, depth), stop = excluded.stop,
    iterations = excluded.iterations, ms = excluded.ms, input_tokens = excluded.input_tokens,
    output_tokens = excluded.output_tokens, cost = excluded.cost, user = coalesce(excluded.user, user),
    tenant = coalesce(excluded.tenant, tenant)
  WHERE excluded.kind = 'run'`;

/** The number of rows in which recent skills are searched. */
const MAX_RECENT_ROWS = 2000;
const RECENT_QUERY = `SELECT skill FROM uses WHERE kind <> 'refused' ORDER BY at DESC, id DESC LIMIT ${MAX_RECENT_ROWS}`;
const MOST_USED_QUERY = `SELECT skill FROM (${RECENT_QUERY}) GROUP BY skill ORDER BY count(*) DESC, skill LIMIT ?`;

function takeSkillNames(last: StatementSync, max: number): string[] {
  const names = new Set<string>();
  for (const { skill } of last.iterate() as Iterable<SqlRow>) {
    if (names.size >= max) break;
    names.add(String(skill));
  }
  return [...names];
}

type SqlValue = string | number | null;
type SqlRow = Readonly<Record<string, SqlValue>>;

type QueryFilter = { since: number; user: string | null; tenant: string | null };

function toQueryFilter({ since, user, tenant }: StatisticsFilter): QueryFilter {
  return { since: since?.getTime() ?? 0, user: user ?? null, tenant: tenant ?? null };
}

/** The condition of all queries. */
const IS_SELECTED = "at >= $since AND ($user IS NULL OR user = $user) AND ($tenant IS NULL OR tenant = $tenant)";

/** Returns one row for each skill, by name, of the selected events. */
function querySkillStatistics(database: DatabaseSync, filter: QueryFilter): SkillStatistics[] {
  const rows = (query: string) => database.prepare(query).all(filter) as SqlRow[];
  const outcomes = Map.groupBy(rows(OUTCOMES_QUERY), ({ skill }) => skill);
  const sources = Map.groupBy(rows(SOURCES_QUERY), ({ skill }) => skill);
  const times = new Map(rows(TIMES_QUERY).map((row) => [row["skill"], row]));
  return rows(SKILLS_QUERY).map((row) => {
    const { skill, lastUse } = row;
    const { p50 = null, p95 = null } = times.get(skill ?? null) ?? {};
    return {
      skill: String(skill),
      sources: (sources.get(skill) ?? []).map(({ source }) => String(source)),
      ...parseTotal(row),
      iterations: Number(row["iterations"]),
      outcomes: countOutcomes(outcomes.get(skill) ?? []),
      ...(typeof p50 === "number" ? { p50Ms: p50 } : {}),
      ...(typeof p95 === "number" ? { p95Ms: p95 } : {}),
      ...(typeof lastUse === "number" ? { lastUse: new Date(lastUse).toISOString() } : {}),
    };
  });
}

/** Counts the ends by stop reason. Rows of 0.1.0 have former names. */
function countOutcomes(rows: readonly SqlRow[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { stop, ends } of rows) {
    const name = toNewName("stop", String(stop));
    counts[name] = (counts[name] ?? 0) + Number(ends);
  }
  return counts;
}

function queryTotal(database: DatabaseSync, filter: QueryFilter): StatisticsTotal {
  return parseTotal(database.prepare(TOTAL_QUERY).get(filter) as SqlRow);
}

function queryDays(database: DatabaseSync, filter: QueryFilter): DayStatistics[] {
  const rows = database.prepare(DAYS_QUERY).all(filter) as SqlRow[];
  return rows.map(({ day, runs, succeeded, p50, p95, cost }) => ({
    ...{ day: String(day), runs: Number(runs), succeeded: Number(succeeded) },
    ...(typeof p50 === "number" ? { p50Ms: p50 } : {}),
    ...(typeof p95 === "number" ? { p95Ms: p95 } : {}),
    ...(typeof cost === "number" ? { cost } : {}),
  }));
}

function parseTotal({ runs, loads, refused, inputTokens, outputTokens, cost }: SqlRow): StatisticsTotal {
  return {
    runs: Number(runs),
    loads: Number(loads),
    refused: Number(refused),
    inputTokens: Number(inputTokens),
    outputTokens: Number(outputTokens),
    ...(typeof cost === "number" ? { cost } : {}),
  };
}

const COUNT_COLUMNS = `
  count(*) FILTER (WHERE kind = 'run') AS runs,
  count(*) FILTER (WHERE kind = 'loaded') AS loads,
  count(*) FILTER (WHERE kind = 'refused') AS refused`;

const SKILLS_QUERY = `
  SELECT skill, ${COUNT_COLUMNS}, sum(iterations) AS iterations, sum(input_tokens) AS inputTokens,
    sum(output_tokens) AS outputTokens, sum(cost) AS cost, max(at) FILTER (WHERE kind <> 'refused') AS lastUse
  FROM uses WHERE ${IS_SELECTED} GROUP BY skill ORDER BY skill`;

/** A conversation has depth 0 and no row: the skills it uses have depth 1, like skills without a parent run. */
const IS_OUTER = "coalesce(depth, 1) <= 1";
const TOTAL_QUERY = `
  SELECT ${COUNT_COLUMNS}, coalesce(sum(input_tokens) FILTER (WHERE ${IS_OUTER}), 0) AS inputTokens,
    coalesce(sum(output_tokens) FILTER (WHERE ${IS_OUTER}), 0) AS outputTokens,
    sum(cost) FILTER (WHERE ${IS_OUTER}) AS cost
  FROM uses WHERE ${IS_SELECTED}`;

const OUTCOMES_QUERY = `
  SELECT skill, stop, count(*) AS ends FROM uses WHERE kind = 'run' AND ${IS_SELECTED}
  GROUP BY skill, stop ORDER BY skill, stop`;

const SOURCES_QUERY = `
  SELECT DISTINCT skill, source FROM uses WHERE source IS NOT NULL AND ${IS_SELECTED} ORDER BY skill, source`;

/** The nearest rank: a duration that one of the runs had. Waiting runs have not ended. */
const TIMES_QUERY = `
  SELECT skill,
    max(ms) FILTER (WHERE place = (ends + 1) / 2) AS p50,
    max(ms) FILTER (WHERE place = (ends * 95 + 99) / 100) AS p95
  FROM (
    SELECT skill, ms, count(*) OVER (PARTITION BY skill) AS ends,
      row_number() OVER (PARTITION BY skill ORDER BY ms, id) AS place
    FROM uses WHERE kind = 'run' AND stop <> 'waiting' AND ${IS_SELECTED}
  )
  GROUP BY skill`;

/** Successful stops. `complete` is a runbook's. */
const SUCCEEDED = "stop IN ('answer', 'complete')";
const DAYS_QUERY = `
  SELECT day, count(*) AS runs, count(*) FILTER (WHERE ${SUCCEEDED}) AS succeeded,
    max(ms) FILTER (WHERE stop <> 'waiting' AND place = (ends + 1) / 2) AS p50,
    max(ms) FILTER (WHERE stop <> 'waiting' AND place = (ends * 95 + 99) / 100) AS p95,
    sum(cost) FILTER (WHERE ${IS_OUTER}) AS cost
  FROM (
    SELECT *, count(*) FILTER (WHERE stop <> 'waiting') OVER (PARTITION BY day) AS ends,
      row_number() OVER (PARTITION BY day, stop = 'waiting' ORDER BY ms, id) AS place
    FROM (SELECT *, date(at / 1000, 'unixepoch') AS day FROM uses WHERE kind = 'run' AND ${IS_SELECTED})
  )
  GROUP BY day ORDER BY day`;
