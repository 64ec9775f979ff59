import { describe, expect, it } from "vitest";
import { findOverlaps } from "../../src/catalog/overlap.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { createCompetingSkills } from "../support/competing-skills.ts";

const skill = (name: string, description: string, frontmatter = {}) =>
  defineSkill({ name, description, instructions: "Do it.", frontmatter });

describe("findOverlaps", () => {
  it.each([1, 2, 3])(
    "finds planted near-duplicates among 1,000 skills, with few false alarms (set %i)",
    async (seed) => {
      const { skills, planted } = createCompetingSkills(1000, 20, seed);
      const found = (await findOverlaps(skills)).map(({ narrow, other }) => [narrow.name, other.name].sort().join(" "));
      expect(skills).toHaveLength(1000);
      expect(planted.size).toBe(20);
      expect(new Set(found).size, "each pair once").toBe(found.length);
      expect(found.filter((pair) => planted.has(pair)).length).toBeGreaterThanOrEqual(18);
      expect(found.filter((pair) => !planted.has(pair)).length).toBeLessThanOrEqual(5);
    },
  );

  it("names the colliding words, and which of the two to narrow", async () => {
    const general = skill("documents", "Writes invoices and letters for customers in PDF.");
    const special = skill("invoices", "Writes invoices for customers in PDF.");
    const [overlap, ...others] = await findOverlaps([
      ...[general, special, skill("poems", "Writes poems about spring.")],
      skill("flights", "Books flights to other cities."),
    ]);
    expect(others).toEqual([]);
    expect([overlap?.narrow.name, overlap?.other.name]).toEqual(["documents", "invoices"]);
    expect(overlap?.words).toEqual(expect.arrayContaining(["invoices", "customers", "pdf"]));
    expect(overlap?.own).toEqual(expect.arrayContaining(["letters"]));
    expect(overlap?.taken.of).toBe(1);
  });

  it("takes the examples of a skill as its queries", async () => {
    const examples = ["invoices for customers", "a PDF for customers", "the yearly statement of taxes"];
    const one = skill("invoices", "Writes invoices for customers in PDF.", { triggers: { examples } });
    const two = skill("documents", "Writes invoices and letters for customers in PDF.");
    const [overlap] = await findOverlaps([one, two]);
    expect(overlap).toMatchObject({ narrow: { name: "documents" }, other: { name: "invoices" }, taken: { of: 3 } });
    expect(overlap?.taken.queries).toBeLessThan(3);
  });

  it("compares only skills that a model may invoke", async () => {
    const text = "Writes invoices for customers.";
    expect(await findOverlaps([skill("a", text), skill("b", text)])).toHaveLength(1);
    expect(await findOverlaps([skill("a", text), skill("b", text, { "disable-model-invocation": true })])).toEqual([]);
    expect(await findOverlaps([])).toEqual([]);
  });
});
