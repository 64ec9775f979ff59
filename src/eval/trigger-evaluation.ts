import { DISCLOSURE_DEFAULTS } from "../catalog/catalog.ts";
import { createMatcher, isSelectedMatch, type Matcher } from "../catalog/search/matcher.ts";
import { toTerm, visitWords } from "../catalog/search/tokenizer.ts";
import { isInvocableBy, type Skill, withOrigin } from "../skill/skill.ts";
import { isTriggerPhrase } from "../skill/triggers.ts";
import { diffLines } from "../util/diff.ts";
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

/** Keywords that make a skill easier to find, proven by the held-out queries. */
export interface TriggerImprovement {
  skill: Skill;
  keywords: readonly string[];
  /** The held-out queries that find the skill first, before and after, of so many. */
  before: number;
  after: number;
  of: number;
}

export interface ImproveOptions {
  /** All skills that compete. */
  skills: readonly Skill[];
  /** The held-out queries of all measured skills. A change is accepted only by these. */
  heldOut: readonly TriggerEvaluationSubject[];
  /** The training queries, by the name of the skill. Keywords come only from these. */
  training: ReadonlyMap<string, TriggerEvaluationSubject["queries"]>;
  maxSkills?: number | undefined;
}

const MAX_KEYWORDS = 3;
const MAX_CANDIDATES = 12;

/**
 * Finds the fewest keywords that let more held-out queries find a skill first. A keyword occurs in the training queries of the
 * skill, and in no training query that is not for it. It is accepted only if no skill is found less often and none is triggered
 * wrongly more often.
 */
export async function improveTriggers(options: ImproveOptions): Promise<TriggerImprovement[]> {
  const improvements: TriggerImprovement[] = [];
  for (const { skill, queries } of options.heldOut) {
    const candidates = listCandidates(skill, options.training);
    const start = await measureChange(options, skill, skill);
    let best = { skill, measured: start };
    const keywords: string[] = [];
    while (keywords.length < MAX_KEYWORDS) {
      let found: { keyword: string; changed: Skill; now: TriggerEvaluation } | undefined;
      for (const keyword of candidates.filter((one) => !keywords.includes(one))) {
        const changed = addKeyword(best.skill, keyword);
        const now = await measureChange(options, skill, changed);
        const isFirst = !found || getScore(now, skill.name).first > getScore(found.now, skill.name).first;
        if (isFirst && isBetter(best.measured, now, skill.name)) found = { keyword, changed, now };
      }
      if (!found) break;
      keywords.push(found.keyword);
      best = { skill: found.changed, measured: found.now };
    }
    const of = queries.filter(({ shouldTrigger }) => shouldTrigger).length;
    const [before, after] = [getScore(start, skill.name).first, getScore(best.measured, skill.name).first];
    if (keywords.length > 0) improvements.push({ skill, keywords, before, after, of });
  }
  return improvements;
}

/** Returns words and pairs of words of the training queries that only this skill's have, the most frequent first. */
function listCandidates(skill: Skill, training: ImproveOptions["training"]): string[] {
  const counts = new Map<string, number>();
  const foreign = new Set<string>();
  for (const [name, queries] of training) {
    for (const { query, shouldTrigger } of queries) {
      const isOwn = name === skill.name && shouldTrigger;
      for (const phrase of listPhrases(query)) {
        if (isOwn) counts.set(phrase, (counts.get(phrase) ?? 0) + 1);
        else foreign.add(phrase);
      }
    }
  }
  const known = new Set(skill.manifest.triggers.keywords.map((keyword) => keyword.toLowerCase()));
  return [...counts]
    .filter(([phrase]) => !foreign.has(phrase) && !known.has(phrase) && isTriggerPhrase(phrase))
    .sort((a, b) => b[1] - a[1] || a[0].length - b[0].length || compareText(a[0], b[0]))
    .slice(0, MAX_CANDIDATES)
    .map(([phrase]) => phrase);
}

function listPhrases(query: string): Set<string> {
  const words: string[] = [];
  visitWords(query, (word) => words.push(word.toLowerCase()));
  const isContent = (word: string) => word.length > 2 && toTerm(word) !== undefined;
  const pairs = words.flatMap((word, at) => {
    const next = words[at + 1];
    return next !== undefined && isContent(word) && isContent(next) ? [`${word} ${next}`] : [];
  });
  return new Set([...words.filter(isContent), ...pairs]);
}

function addKeyword(skill: Skill, keyword: string): Skill {
  const { triggers } = skill.manifest;
  const manifest = { ...skill.manifest, triggers: { ...triggers, keywords: [...triggers.keywords, keyword] } };
  return { ...withOrigin(skill, skill.origin), manifest };
}

function measureChange(
  { skills, heldOut, maxSkills }: ImproveOptions,
  original: Skill,
  changed: Skill,
): Promise<TriggerEvaluation> {
  const all = skills.map((skill) => (skill.name === original.name ? changed : skill));
  return evaluateTriggers(createMatcher(all), heldOut, { maxSkills });
}

function getScore({ skills }: TriggerEvaluation, name: string): { first: number; wrong: number } {
  const score = skills.find(({ skill }) => skill === name);
  return { first: score?.first[1] ?? 0, wrong: score?.false ?? 0 };
}

function isBetter(before: TriggerEvaluation, now: TriggerEvaluation, name: string): boolean {
  const isHarmed = before.skills.some(({ skill }) => {
    const [was, is] = [getScore(before, skill), getScore(now, skill)];
    return is.first < was.first || is.wrong > was.wrong;
  });
  return !isHarmed && getScore(now, name).first > getScore(before, name).first;
}

/** Returns the diff that adds the keywords to the text of a SKILL.md. */
export function formatImprovement(text: string, keywords: readonly string[]): readonly string[] {
  return diffLines(text, addKeywordsToText(text, keywords));
}

function addKeywordsToText(text: string, keywords: readonly string[]): string {
  const list = keywords.map((keyword) => JSON.stringify(keyword)).join(", ");
  const end = text.indexOf("\n---", 3);
  const [head, rest] = [text.slice(0, end), text.slice(end)];
  const flow = /^([ \t]*keywords:[ \t]*\[)(.*)(\][ \t]*)$/m;
  if (flow.test(head)) {
    return (
      head.replace(
        flow,
        (_, open: string, own: string, close: string) => `${open}${own.trim() === "" ? "" : `${own}, `}${list}${close}`,
      ) + rest
    );
  }
  const block = /^([ \t]*)keywords:[ \t]*$/m;
  const [line = "", indent = ""] = block.exec(head) ?? [];
  if (line !== "") {
    const items = keywords.map((keyword) => `\n${indent}  - ${JSON.stringify(keyword)}`).join("");
    return head.replace(block, () => `${line}${items}`) + rest;
  }
  const triggers = /^([ \t]*)triggers:[ \t]*$/m;
  const [opening = "", depth = ""] = triggers.exec(head) ?? [];
  if (opening !== "") return head.replace(triggers, () => `${opening}\n${depth}  keywords: [${list}]`) + rest;
  return `${head}\ntriggers:\n  keywords: [${list}]${rest}`;
}
