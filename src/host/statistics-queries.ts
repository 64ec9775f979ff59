import type { DatabaseSync } from "node:sqlite";
import type { SkillStatistics, Total } from "./statistics.ts";

export type Value = string | number | null;
export type Row = Readonly<Record<string, Value>>;

/** One row a skill, by name, of what happened from then on. */
export function skillsIn(database: DatabaseSync, since: number): SkillStatistics[] {
  const rows = (query: string) => database.prepare(query).all({ since }) as Row[];
  const outcomes = Map.groupBy(rows(OUTCOMES), ({ skill }) => skill);
  const sources = Map.groupBy(rows(SOURCES), ({ skill }) => skill);
  const times = new Map(rows(TIMES).map((row) => [row["skill"], row]));
  return rows(SKILLS).map((row) => {
    const { skill, lastUse } = row;
    const { p50 = null, p95 = null } = times.get(skill ?? null) ?? {};
    return {
      skill: String(skill),
      sources: (sources.get(skill) ?? []).map(({ source }) => String(source)),
      ...totalOf(row),
      iterations: Number(row["iterations"]),
      outcomes: Object.fromEntries((outcomes.get(skill) ?? []).map(({ stop, ends }) => [stop, Number(ends)])),
      ...(typeof p50 === "number" ? { p50Ms: p50 } : {}),
      ...(typeof p95 === "number" ? { p95Ms: p95 } : {}),
      ...(typeof lastUse === "number" ? { lastUse: new Date(lastUse).toISOString() } : {}),
    };
  });
}

export function totalIn(database: DatabaseSync, since: number): Total {
  return totalOf(database.prepare(TOTAL).get({ since }) as Row);
}

function totalOf({ runs, loads, refused, inputTokens, outputTokens, cost }: Row): Total {
  return {
    runs: Number(runs),
    loads: Number(loads),
    refused: Number(refused),
    inputTokens: Number(inputTokens),
    outputTokens: Number(outputTokens),
    ...(typeof cost === "number" ? { cost } : {}),
  };
}

const COUNTS = `
  count(*) FILTER (WHERE kind = 'run') AS runs,
  count(*) FILTER (WHERE kind = 'loaded') AS loads,
  count(*) FILTER (WHERE kind = 'refused') AS refused`;

const SKILLS = `
  SELECT skill, ${COUNTS}, sum(iterations) AS iterations, sum(input_tokens) AS inputTokens,
    sum(output_tokens) AS outputTokens, sum(cost) AS cost, max(at) FILTER (WHERE kind <> 'refused') AS lastUse
  FROM uses WHERE at >= $since GROUP BY skill ORDER BY skill`;

/** A conversation is at depth 0 and not in here: the skills that it uses are at 1, like those that nobody else started. */
const IS_OUTER = "coalesce(depth, 1) <= 1";
const TOTAL = `
  SELECT ${COUNTS}, coalesce(sum(input_tokens) FILTER (WHERE ${IS_OUTER}), 0) AS inputTokens,
    coalesce(sum(output_tokens) FILTER (WHERE ${IS_OUTER}), 0) AS outputTokens,
    sum(cost) FILTER (WHERE ${IS_OUTER}) AS cost
  FROM uses WHERE at >= $since`;

const OUTCOMES = `
  SELECT skill, stop, count(*) AS ends FROM uses WHERE kind = 'run' AND at >= $since
  GROUP BY skill, stop ORDER BY skill, stop`;

const SOURCES = `
  SELECT DISTINCT skill, source FROM uses WHERE source IS NOT NULL AND at >= $since ORDER BY skill, source`;

/** The nearest rank: a time that one of them took. What waits has not ended. */
const TIMES = `
  SELECT skill,
    max(ms) FILTER (WHERE place = (ends + 1) / 2) AS p50,
    max(ms) FILTER (WHERE place = (ends * 95 + 99) / 100) AS p95
  FROM (
    SELECT skill, ms, count(*) OVER (PARTITION BY skill) AS ends,
      row_number() OVER (PARTITION BY skill ORDER BY ms, id) AS place
    FROM uses WHERE kind = 'run' AND stop <> 'waiting' AND at >= $since
  )
  GROUP BY skill`;
