import { describe, expect, it } from "vitest";
import { createMatcher, isSelectedMatch, selectShortlist } from "../../src/catalog/search/matcher.ts";
import { defineTestSkill } from "../support/skills.ts";
import { evaluationMatcher, evaluationSkills } from "./evaluation/measure.ts";
import { EVALUATION_REQUESTS } from "./evaluation/requests.ts";
import { UNRELATED_PROMPTS } from "./evaluation/unrelated.ts";

const shortlistIn = async (matcher: ReturnType<typeof createMatcher>, query: string, size: number) =>
  selectShortlist((await matcher.match(query, { bodies: true })).matches, query, size);

describe("the shortlist", () => {
  it.each([7, 60, 3000, 10_000])(
    "[A-05] is empty for at least 95 %% of 200 unrelated prompts among %i skills, and none of them selects a skill",
    async (size) => {
      expect(UNRELATED_PROMPTS.length).toBeGreaterThanOrEqual(200);
      const matcher = evaluationMatcher(size);
      const shown: string[] = [];
      for (const prompt of UNRELATED_PROMPTS) {
        const { matches } = await matcher.match(prompt, { bodies: true });
        expect(matches.filter(isSelectedMatch), prompt).toEqual([]);
        const { matches: offered, isClear } = selectShortlist(matches, prompt, size);
        if (offered.length > 0) shown.push(prompt);
        expect(isClear, prompt).toBe(false);
      }
      expect(shown.length, shown.join("\n")).toBeLessThanOrEqual(10);
    },
  );

  it.each([
    [60, 0.68, 0.83],
    [3000, 0.64, 0.76],
  ])("has the right skill for most requests among %i skills", async (size, recall, precision) => {
    const matcher = evaluationMatcher(size);
    const names = new Set(evaluationSkills(size).map(({ name }) => name));
    const asked = EVALUATION_REQUESTS.filter(({ skill }) => names.has(skill));
    const lists = await Promise.all(
      asked.map(async ({ query, skill }) => ({ skill, ...(await shortlistIn(matcher, query, size)) })),
    );
    const right = lists.filter(({ skill, matches }) => matches.some((match) => match.skill.name === skill));
    expect(right.length / asked.length).toBeGreaterThanOrEqual(recall);
    expect(right.length / lists.filter(({ matches }) => matches.length > 0).length).toBeGreaterThanOrEqual(precision);
    const clear = lists.filter(({ isClear }) => isClear);
    const wrong = clear.filter(({ skill, matches }) => matches[0]?.skill.name !== skill);
    expect(clear.length).toBeGreaterThan(asked.length / 3);
    expect(wrong.length / clear.length).toBeLessThan(0.05);
  });

  it("has at most five matches, and no more than there are skills", async () => {
    const skills = Array.from({ length: 8 }, (_, at) =>
      defineTestSkill(`invoice-${at}`, { description: "Creates customer invoices from time sheets." }),
    );
    const matcher = createMatcher([...skills, ...evaluationSkills(60)]);
    const { matches, isClear } = await shortlistIn(matcher, "create customer invoices from time sheets", 68);
    expect([matches.length, isClear]).toEqual([5, false]);
    const two = createMatcher([
      defineTestSkill("invoices", { description: "Creates customer invoices from time sheets." }),
      defineTestSkill("paint", { description: "Paints walls." }),
    ]);
    const only = await shortlistIn(two, "create customer invoices from time sheets", 2);
    expect(only.matches.map(({ skill }) => skill.name)).toEqual(["invoices"]);
    expect(only.isClear).toBe(true);
  });

  it("has a skill whose path is named, and none that a trigger selects", async () => {
    const matcher = createMatcher([
      defineTestSkill("terraform", { more: { paths: ["infra/**/*.tf"] } }),
      defineTestSkill("invoices", { keywords: ["invoice"], description: "Creates customer invoices." }),
    ]);
    expect((await shortlistIn(matcher, "look at infra/a/main.tf", 2)).matches.map(({ skill }) => skill.name)).toEqual([
      "terraform",
    ]);
    expect((await shortlistIn(matcher, "create a customer invoice", 2)).matches).toEqual([]);
    expect(await shortlistIn(matcher, "hi", 2)).toEqual({ matches: [], isClear: false });
  });
});
