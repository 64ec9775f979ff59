import { createMatcher } from "../catalog/search/matcher.ts";
import { toTerm, visitWords } from "../catalog/search/tokenizer.ts";
import { type Skill, withOrigin } from "../skill/skill.ts";
import { isTriggerPhrase } from "../skill/triggers.ts";
import { diffLines } from "../util/diff.ts";
import { compareText } from "../util/text.ts";
import { evaluateTriggers, type TriggerEvaluation, type TriggerEvaluationSubject } from "./trigger-evaluation.ts";

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
