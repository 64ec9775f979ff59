import { DISCLOSURE_DEFAULTS } from "../catalog/catalog.ts";
import { createMatcher, isSelectedMatch, type Matcher } from "../catalog/search/matcher.ts";
import { toTerm, visitWords } from "../catalog/search/tokenizer.ts";
import { parseMarkdownDocument } from "../skill/document.ts";
import { writeYaml } from "../skill/frontmatter.ts";
import { isInvocableBy, type Skill, withOrigin } from "../skill/skill.ts";
import { isTriggerPhrase } from "../skill/triggers.ts";
import { compareText } from "../util/text.ts";
import { findInvisible } from "../util/untrusted-text.ts";

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
    const index = matches.findIndex((match) => match.skill.name === skill.name);
    const match = matches[index];
    const isTold = match !== undefined && index < maxSkills && isSelectedMatch(match);
    if (!shouldTrigger) {
      score.others++;
      if (isTold) falseTriggers.push(query);
      continue;
    }
    score.queries++;
    if (isTold) score.told++;
    for (const limit of RECALL_RANKS) if (index !== -1 && index < limit) score.first[limit]++;
    if (index === 0) continue;
    const taker = matches[0]?.skill.name;
    if (taker !== undefined) takers.set(taker, (takers.get(taker) ?? 0) + 1);
    misses.push({
      query,
      ...(index === -1 ? {} : { rank: index + 1 }),
      ...(taker === undefined ? {} : { takenBy: taker }),
    });
  }
  const takenBy = [...takers].map(([name, times]) => ({ skill: name, times }));
  takenBy.sort((a, b) => b.times - a.times || compareText(a.skill, b.skill));
  return { skill: skill.name, ...score, false: falseTriggers.length, misses, falseTriggers, takenBy };
}

/** Changes that make skills easier to find, proven by the held-out queries. */
export interface TriggerImprovement {
  skill: Skill;
  /** Keywords to add. */
  keywords: readonly string[];
  /** The new description, if it changes. */
  description?: string;
  /** The held-out queries that find the skill first, before and after, of so many. */
  before: number;
  after: number;
  of: number;
  /** The held-out queries of other skills that find theirs first, in addition. */
  others: number;
}

export interface ImproveOptions {
  /** All skills that compete. */
  skills: readonly Skill[];
  /** The held-out queries of all measured skills. A change is accepted only by these. */
  heldOut: readonly TriggerEvaluationSubject[];
  /** The training queries, by the name of the skill. Terms come only from these. */
  training: ReadonlyMap<string, TriggerEvaluationSubject["queries"]>;
  maxSkills?: number | undefined;
  /** Writes other descriptions of a skill. Defaults to none: only terms are added and dropped. */
  rewrite?: (skill: Skill) => Promise<readonly string[]>;
}

const MAX_CHANGES = 3;
const MAX_CANDIDATES = 12;

/**
 * Finds the smallest changes that let more held-out queries find their skill first: a keyword, a term that is added to the
 * description, an item that is dropped from its lists because queries for others have it, or a rewritten description. A change is
 * accepted only if no skill is found less often and none is triggered wrongly more often.
 */
export async function improveTriggers(options: ImproveOptions): Promise<TriggerImprovement[]> {
  const improvements: TriggerImprovement[] = [];
  for (const { skill, queries } of options.heldOut) {
    const rewritten = (await options.rewrite?.(skill)) ?? [];
    const start = await measureChange(options, skill, skill);
    let best = { changed: skill, measured: start };
    for (let change = 0; change < MAX_CHANGES; change++) {
      let found: typeof best | undefined;
      for (const changed of listChanges(best.changed, options.training, change === 0 ? rewritten : [])) {
        const measured = await measureChange(options, skill, changed);
        const most = found?.measured ?? best.measured;
        const isOwn = getScore(measured, skill.name).first > getScore(best.measured, skill.name).first;
        // Only a narrower description is for the good of other skills.
        const isWanted = isOwn || changed.description.length < best.changed.description.length;
        if (isWanted && countFirst(measured) > countFirst(most) && !isHarmed(best.measured, measured))
          found = { changed, measured };
      }
      if (!found) break;
      best = found;
    }
    if (best.changed === skill) continue;
    const [before, after] = [getScore(start, skill.name).first, getScore(best.measured, skill.name).first];
    const { description, manifest } = best.changed;
    const known = skill.manifest.triggers.keywords.length;
    improvements.push({
      ...{ skill, before, after, keywords: manifest.triggers.keywords.slice(known) },
      ...(description === skill.description ? {} : { description }),
      of: queries.filter(({ shouldTrigger }) => shouldTrigger).length,
      others: countFirst(best.measured) - countFirst(start) - (after - before),
    });
  }
  return improvements;
}

/** Lists changed copies of a skill, the smallest change first: of equal ones, the first is taken. */
function listChanges(skill: Skill, training: ImproveOptions["training"], rewritten: readonly string[]): Skill[] {
  const { own, foreign } = listTrainingPhrases(skill, training);
  const known = new Set(skill.manifest.triggers.keywords.map((keyword) => keyword.toLowerCase()));
  const described = listPhrases(skill.description);
  const phrases = [...own.keys()].filter((phrase) => !foreign.has(phrase));
  const keywords = phrases.filter((phrase) => !known.has(phrase) && isTriggerPhrase(phrase)).slice(0, MAX_CANDIDATES);
  // In a description, each word counts on its own.
  const isFree = (phrase: string) => phrase.split(" ").every((word) => !foreign.has(word));
  const missing = phrases.filter((phrase) => !described.has(phrase) && isFree(phrase)).slice(0, MAX_CANDIDATES);
  const descriptions = [
    ...dropFromDescription(skill.description, (phrase) => foreign.has(phrase) && !own.has(phrase)),
    ...missing.map((phrase) => addToDescription(skill.description, phrase)),
    // The user reads the change in a diff: it has nothing that a reader does not see.
    ...rewritten.filter((text) => findInvisible(text).length === 0),
  ];
  return [
    ...keywords.map((keyword) => addKeyword(skill, keyword)),
    ...descriptions.filter((text) => text.length <= MAX_DESCRIPTION).map((text) => setDescription(skill, text)),
  ];
}

const MAX_DESCRIPTION = 1024;

/** Returns words and pairs of words of the training queries: those for this skill, the most frequent first, and those of others. */
function listTrainingPhrases(skill: Skill, training: ImproveOptions["training"]) {
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
  const own = [...counts].sort((a, b) => b[1] - a[1] || a[0].length - b[0].length || compareText(a[0], b[0]));
  return { own: new Map(own), foreign };
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

/** Adds a term to the sentence that says when to use the skill. */
function addToDescription(description: string, phrase: string): string {
  const sentence = /\buse (?:this |it |this skill )?(when|whenever|if|for|to)\b[^.!?]*/i.exec(description);
  if (!sentence) return `${description.trimEnd().replace(/([^.!?])$/, "$1.")} Use when the user mentions ${phrase}.`;
  const end = sentence.index + sentence[0].trimEnd().length;
  const isCondition = /^(?:when|whenever|if)$/i.test(sentence[1] ?? "");
  return `${description.slice(0, end)}${isCondition ? " or mentions" : " or"} ${phrase}${description.slice(end)}`;
}

/** Returns the description without each item of a list that has a word of queries for other skills. */
function dropFromDescription(description: string, isColliding: (phrase: string) => boolean): string[] {
  return Array.from(description.matchAll(/,\s+(?:(?:and|or)\s+)?([^,.;:!?]+)(?=[,.;!?]|$)/g))
    .filter(([, item = ""]) => [...listPhrases(item)].some(isColliding))
    .map(({ index, 0: { length } }) => description.slice(0, index) + description.slice(index + length));
}

function addKeyword(skill: Skill, keyword: string): Skill {
  const { triggers } = skill.manifest;
  const manifest = { ...skill.manifest, triggers: { ...triggers, keywords: [...triggers.keywords, keyword] } };
  return { ...withOrigin(skill, skill.origin), manifest };
}

function setDescription(skill: Skill, description: string): Skill {
  return { ...withOrigin(skill, skill.origin), manifest: skill.manifest, description };
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

function countFirst({ skills }: TriggerEvaluation): number {
  return skills.reduce((sum, { first }) => sum + first[1], 0);
}

function isHarmed(before: TriggerEvaluation, now: TriggerEvaluation): boolean {
  return before.skills.some(({ skill }) => {
    const [was, is] = [getScore(before, skill), getScore(now, skill)];
    return is.first < was.first || is.wrong > was.wrong;
  });
}

/** Returns the text of a SKILL.md with the changes, or undefined if something else would change, too. */
export function applyImprovement(
  text: string,
  { keywords, description }: Pick<TriggerImprovement, "keywords" | "description">,
): string | undefined {
  const described = description === undefined ? text : replaceDescription(text, description);
  const changed = keywords.length === 0 ? described : addKeywordsToText(described, keywords);
  const [was, is] = [text, changed].map((one) => parseMarkdownDocument(one));
  const strip = ({ description: _, triggers: _t, ...rest }: Readonly<Record<string, unknown>>) => JSON.stringify(rest);
  const isOnlyChange =
    was?.body === is?.body &&
    strip(was?.data ?? {}) === strip(is?.data ?? {}) &&
    (description ?? was?.data["description"]) === is?.data["description"];
  return isOnlyChange ? changed : undefined;
}

/** Replaces the value of `description`, which may continue on indented lines. */
function replaceDescription(text: string, description: string): string {
  const end = text.indexOf("\n---", 3);
  const line = writeYaml({ description }).trimEnd();
  return (
    text.slice(0, end).replace(/^description:.*(?:\r?\n[ \t]+\S.*|\r?\n(?=\r?\n[ \t]))*/m, () => line) + text.slice(end)
  );
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
