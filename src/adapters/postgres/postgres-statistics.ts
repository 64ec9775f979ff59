import {
  createUseRow,
  type DayStatistics,
  rememberRun,
  type SkillStatistics,
  type StartedRun,
  type StatisticsFilter,
  type StatisticsStore,
  type StatisticsTotal,
  type UseRow,
} from "../../store/statistics.ts";
import type { Database, DatabaseRow } from "./database.ts";

/** Creates the statistics in Postgres. Several machines share them: a run has one row, whichever of them ends it. */
export function createPostgresStatisticsStore(database: Database): StatisticsStore {
  const started = new Map<string, StartedRun>();
  const query = async (text: string, { since, user, tenant }: StatisticsFilter) =>
    database.query({ text, values: [since?.getTime() ?? 0, user ?? null, tenant ?? null] });
  const listSkills = async (text: string, max: number) => {
    try {
      return (await database.query({ text, values: [max] })).map(({ skill }) => String(skill));
    } catch {
      return []; // Nothing is known.
    }
  };
  return {
    async record(event) {
      try {
        if (event.type === "run-started") rememberRun(started, event);
        const row = createUseRow(event, started);
        if (event.type === "run-ended") started.delete(event.run);
        if (row) await database.query({ name: "skillet-use", text: INSERT, values: listValues(row) });
      } catch {} // The event is lost, and the run goes on.
    },
    async recordOutcome(run, stop) {
      try {
        const text = "update skillet.uses set stop = $2 where run = $1 and stop = 'waiting'";
        await database.query({ text, values: [run, stop] });
      } catch {} // It stays counted as it was.
    },
    recent: (max) => listSkills(RECENT, max),
    mostUsed: (max) => listSkills(MOST_USED, max),
    perSkill: async (filter = {}) => (await query(SKILLS, filter)).map(parseSkill),
    total: async (filter = {}) => parseTotal((await query(TOTAL, filter))[0] ?? {}),
    perDay: async (filter = {}) => (await query(DAYS, filter)).map(parseDay),
  };
}

const COLUMNS = [
  ...(["at", "kind", "skill", "source", "model", "run", "depth", "stop", "iterations", "ms"] as const),
  ...(["inputTokens", "outputTokens", "cost", "user", "tenant"] as const),
] satisfies (keyof UseRow)[];

/** NUL is no text in Postgres. */
function listValues(row: UseRow): unknown[] {
  return COLUMNS.map((column) => {
    const value = row[column];
    return typeof value === "string" ? value.replaceAll("\0", "") : value;
  });
}

// A run that waited or moved reports several ends, and its start may be unknown to the last process.
const INSERT = `
insert into skillet.uses as u (at, kind, skill, source, model, run, depth, stop, iterations, ms, input_tokens, output_tokens, cost,
  person, tenant)
values (${COLUMNS.map((_, index) => `$${index + 1}`).join(", ")})
on conflict (run) do update set
  at = excluded.at, kind = excluded.kind, source = coalesce(excluded.source, u.source), model = coalesce(excluded.model, u.model),
  depth = coalesce(excluded.depth, u.depth), stop = excluded.stop, iterations = excluded.iterations, ms = excluded.ms,
  input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cost = excluded.cost,
  person = coalesce(excluded.person, u.person), tenant = coalesce(excluded.tenant, u.tenant)
where excluded.kind = 'run'`;

/** The number of rows in which recent skills are searched. */
const MAX_RECENT_ROWS = 2000;
const LAST_USES = `select skill, at, id from skillet.uses where kind <> 'refused' order by at desc, id desc limit ${MAX_RECENT_ROWS}`;
const RECENT = `select skill from (${LAST_USES}) last group by skill order by max(at) desc, max(id) desc limit $1`;
const MOST_USED = `select skill from (${LAST_USES}) last group by skill order by count(*) desc, skill collate "C" limit $1`;

/** The condition of all queries. */
const IS_SELECTED = "at >= $1 and ($2::text is null or person = $2) and ($3::text is null or tenant = $3)";
/** A conversation has depth 0 and no row: the skills it uses have depth 1, like skills without a parent run. */
const IS_OUTER = "coalesce(depth, 1) <= 1";
const HAS_ENDED = "kind = 'run' and stop <> 'waiting'";

const COUNTS = `count(*) filter (where kind = 'run') as runs, count(*) filter (where kind = 'loaded') as loads,
  count(*) filter (where kind = 'refused') as refused`;

/** The nearest rank: a duration that one of the runs had. Waiting runs have not ended. */
const TIMES = `percentile_disc(0.5) within group (order by ms) filter (where ${HAS_ENDED}) as p50,
  percentile_disc(0.95) within group (order by ms) filter (where ${HAS_ENDED}) as p95`;

const SKILLS = `
select s.*, coalesce((
    select json_object_agg(stop, ends) from (
      select stop, count(*) as ends from skillet.uses where kind = 'run' and skill = s.skill and ${IS_SELECTED} group by stop order by stop
    ) o), '{}') as outcomes
from (
  select skill, ${COUNTS}, ${TIMES}, sum(iterations) as iterations, sum(input_tokens) as "inputTokens", sum(output_tokens) as "outputTokens",
    sum(cost) as cost, max(at) filter (where kind <> 'refused') as "lastUse",
    array_agg(distinct source collate "C") filter (where source is not null) as sources
  from skillet.uses where ${IS_SELECTED} group by skill
) s order by s.skill collate "C"`;

const TOTAL = `
select ${COUNTS}, coalesce(sum(input_tokens) filter (where ${IS_OUTER}), 0) as "inputTokens",
  coalesce(sum(output_tokens) filter (where ${IS_OUTER}), 0) as "outputTokens", sum(cost) filter (where ${IS_OUTER}) as cost
from skillet.uses where ${IS_SELECTED}`;

/** `complete` is the successful stop of a runbook. */
const DAYS = `
select to_char(to_timestamp(at / 1000.0) at time zone 'UTC', 'YYYY-MM-DD') as day, count(*) as runs,
  count(*) filter (where stop in ('answer', 'complete')) as succeeded, ${TIMES}, sum(cost) filter (where ${IS_OUTER}) as cost
from skillet.uses where kind = 'run' and ${IS_SELECTED} group by day order by day`;

function parseSkill(row: DatabaseRow): SkillStatistics {
  const { skill, sources, iterations, outcomes, lastUse } = row;
  return {
    skill: String(skill),
    sources: (sources as string[] | null) ?? [],
    ...parseTotal(row),
    iterations: Number(iterations),
    outcomes: outcomes as Record<string, number>,
    ...parseTimes(row),
    ...(lastUse === null ? {} : { lastUse: new Date(Number(lastUse)).toISOString() }),
  };
}

function parseTotal({ runs, loads, refused, inputTokens, outputTokens, cost }: DatabaseRow): StatisticsTotal {
  return {
    ...{ runs: Number(runs), loads: Number(loads), refused: Number(refused) },
    ...{ inputTokens: Number(inputTokens), outputTokens: Number(outputTokens) },
    ...(cost === null ? {} : { cost: Number(cost) }),
  };
}

function parseDay(row: DatabaseRow): DayStatistics {
  const { day, runs, succeeded, cost } = row;
  return {
    ...{ day: String(day), runs: Number(runs), succeeded: Number(succeeded), ...parseTimes(row) },
    ...(cost === null ? {} : { cost: Number(cost) }),
  };
}

/** Numbers of 64 bits come as text. */
function parseTimes({ p50, p95 }: DatabaseRow): { p50Ms?: number; p95Ms?: number } {
  return { ...(p50 === null ? {} : { p50Ms: Number(p50) }), ...(p95 === null ? {} : { p95Ms: Number(p95) }) };
}
