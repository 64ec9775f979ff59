import { createMatcher, type Matcher } from "../../../src/catalog/search/matcher.ts";
import type { Skill } from "../../../src/skill/skill.ts";
import { defineTestSkill } from "../../support/skills.ts";
import { makeDistractors } from "./distractors.ts";
import type { EvaluationRequest } from "./requests.ts";
import { EVALUATION_SKILLS } from "./skills.ts";

/** The evaluation skills among others: `size` in all, or only the first few of them, from every domain. */
export function evaluationSkills(size: number): Skill[] {
  const step = Math.max(1, Math.floor(EVALUATION_SKILLS.length / size));
  const own = EVALUATION_SKILLS.filter((_, number) => number % step === 0).slice(0, size);
  const others = makeDistractors(size - own.length);
  return [...own, ...others].map(({ name, description, body }) => defineTestSkill(name, { description, body }));
}

export function evaluationMatcher(size: number): Matcher {
  return createMatcher(evaluationSkills(size));
}

export interface Hits {
  requests: number;
  /** Shares of requests whose skill is first, among the first three, among the first five. */
  at: [first: number, three: number, five: number];
}

export async function measureHits(matcher: Matcher, requests: readonly EvaluationRequest[]): Promise<Hits> {
  const at: Hits["at"] = [0, 0, 0];
  for (const { query, skill } of requests) {
    const place = (await matcher.match(query, { bodies: true })).matches.findIndex(
      (match) => match.skill.name === skill,
    );
    for (const [index, most] of [1, 3, 5].entries())
      if (place !== -1 && place < most) at[index as 0] += 1 / requests.length;
  }
  return { requests: requests.length, at };
}
