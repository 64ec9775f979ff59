import { DISCLOSURE_DEFAULTS } from "../catalog/catalog.ts";
import { isSelectedMatch, type Matcher } from "../catalog/search/matcher.ts";
import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { compareText } from "../util/text.ts";

/** Queries, each with the expected answer whether the skill applies. */
export interface TriggerEvaluationSubject {
  skill: Skill;
  queries: readonly { query: string; shouldTrigger: boolean }[];
}

export interface MissedQuery {
  query: string;
  /** The rank of the skill, from 1; undefined if it was not among the first ten. */
  rank?: number;
  /** The skill that came first instead. */
  takenBy?: string;
}

export interface TriggerScore {
  /** The number of queries that the skill is for. */
  queries: number;
  /** The number of them in which it was among the first 1, 3 and 5. */
  first: { 1: number; 3: number; 5: number };
  /** The number of them in which its instructions were included directly. */
  told: number;
  /** The number of queries that it is not for. */
  others: number;
  /** The number of those in which its instructions were included. */
  false: number;
}

export interface SkillScore extends TriggerScore {
  skill: string;
  misses: readonly MissedQuery[];
  falseTriggers: readonly string[];
  /** Skills that came first instead, with their counts, the most frequent first. */
  takenBy: readonly { skill: string; times: number }[];
}

export interface TriggerEvaluation {
  skills: readonly SkillScore[];
  all: TriggerScore;
}

export interface TriggerEvaluationOptions {
  /** The maximum number of skills for one query. */
  maxSkills?: number | undefined;
  /** Called with the number of measured skills: the evaluation is synchronous. */
  onScored?: (done: number) => void;
}

/** Measures how well queries find their skills among those of the matcher. */
export async function evaluateTriggers(
  matcher: Matcher,
  subjects: readonly TriggerEvaluationSubject[],
  { maxSkills = DISCLOSURE_DEFAULTS.maxSkills, onScored }: TriggerEvaluationOptions = {},
): Promise<TriggerEvaluation> {
  const skills: SkillScore[] = [];
  for (const subject of subjects) {
    skills.push(await scoreSkill(matcher, subject, maxSkills));
    onScored?.(skills.length);
  }
  const all = createEmptyScore();
  for (const score of skills) {
    for (const key of ["queries", "told", "others", "false"] as const) all[key] += score[key];
    for (const place of RECALL_RANKS) all.first[place] += score.first[place];
  }
  return { skills, all };
}

/** Returns the share of queries that found their skill among the first so many; undefined without queries. */
export function computeRecall({ queries, first }: TriggerScore, place: RecallRank): number | undefined {
  return queries === 0 ? undefined : first[place] / queries;
}

export const RECALL_RANKS = [1, 3, 5] as const;
export type RecallRank = (typeof RECALL_RANKS)[number];

function createEmptyScore(): TriggerScore {
  return { queries: 0, first: { 1: 0, 3: 0, 5: 0 }, told: 0, others: 0, false: 0 };
}

async function scoreSkill(
  matcher: Matcher,
  { skill, queries }: TriggerEvaluationSubject,
  maxSkills: number,
): Promise<SkillScore> {
  const score = createEmptyScore();
  const misses: MissedQuery[] = [];
  const falseTriggers: string[] = [];
  const takers = new Map<string, number>();
  for (const { query, shouldTrigger } of queries) {
    const { matches } = await matcher.match(query, {
      bodies: true,
      isVisible: (other) => isInvocableBy("model", other),
    });
    const place = matches.findIndex((match) => match.skill.name === skill.name);
    const match = matches[place];
    const isTold = match !== undefined && place < maxSkills && isSelectedMatch(match);
    if (!shouldTrigger) {
      score.others++;
      if (isTold) falseTriggers.push(query);
      continue;
    }
    score.queries++;
    if (isTold) score.told++;
    for (const limit of RECALL_RANKS) if (place !== -1 && place < limit) score.first[limit]++;
    if (place === 0) continue;
    const taker = matches[0]?.skill.name;
    if (taker !== undefined) takers.set(taker, (takers.get(taker) ?? 0) + 1);
    misses.push({
      query,
      ...(place === -1 ? {} : { rank: place + 1 }),
      ...(taker === undefined ? {} : { takenBy: taker }),
    });
  }
  const takenBy = [...takers].map(([name, times]) => ({ skill: name, times }));
  takenBy.sort((a, b) => b.times - a.times || compareText(a.skill, b.skill));
  return { skill: skill.name, ...score, false: falseTriggers.length, misses, falseTriggers, takenBy };
}
