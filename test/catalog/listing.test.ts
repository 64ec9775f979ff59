import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { type DiscloseOptions, disclose } from "../../src/catalog/disclose.ts";
import { defineSkill } from "../../src/skill/define-skill.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { createCatalogOf, defineTestSkill } from "../support/skills.ts";
import { type CuedSkill, cuedSkills } from "./cued-skills.ts";

const catalogWith = (skills: readonly CuedSkill[]) =>
  createCatalogOf(
    skills.map(({ name, description, whenToUse }) =>
      defineSkill({
        name,
        description,
        instructions: `Work on ${name}.`,
        frontmatter: whenToUse === undefined ? {} : { when_to_use: whenToUse },
      }),
    ),
  );
const ALL = cuedSkills();
const tellOf = async (skills: readonly CuedSkill[], query: string, options: DiscloseOptions = {}) =>
  await disclose(await catalogWith(skills), query, { search: "search_skills", ...options });

/** True when a text has the skill's line, including its cue. */
function isListed(text: string, { name }: CuedSkill): boolean {
  return new RegExp(`^- ${name}(?::|$)|[\\] ,]${name}(?:,|$)`, "m").test(text);
}
function hasItsCue(text: string, { name, marker, topic }: CuedSkill): boolean {
  const line = text.split("\n").find((candidate) => candidate.startsWith(`- ${name}: `)) ?? "";
  const at = line.search(marker);
  return at !== -1 && line.slice(at).includes(topic);
}

describe("the list of skills", () => {
  it("has 600 different descriptions to list", () => {
    expect(new Set(ALL.map(({ name }) => name)).size).toBe(600);
    expect(new Set(ALL.map(({ description }) => description)).size).toBe(600);
  });

  it.each(Array.from({ length: 10 }, (_, index) => index))(
    "[A-02] keeps at least 95 %% of the cues of 60 skills in 2,000 tokens (set %i of 600 descriptions)",
    async (index) => {
      const skills = ALL.slice(index * 60, index * 60 + 60);
      const { prefix, listed } = await tellOf(skills, "hello there", { listingBudget: 2000 });
      expect(prefix.length).toBeLessThanOrEqual(8000);
      expect(listed).toMatchObject({ named: 0, left: 0 });
      expect(skills.filter((skill) => hasItsCue(prefix, skill)).length).toBeGreaterThanOrEqual(57);
    },
  );

  it.each([0, 1])("[A-02] has all names of 300 skills, and the cues that fit (set %i)", async (half) => {
    const skills = ALL.slice(half * 300, half * 300 + 300);
    for (const wanted of skills.filter((_, index) => index % 30 === 0)) {
      const { prefix, suffix, shortlist, listed } = await tellOf(skills, wanted.request, { listingBudget: 2000 });
      expect(prefix.length).toBeLessThanOrEqual(8000);
      for (const skill of skills) expect(isListed(prefix, skill), skill.name).toBe(true);
      expect(listed?.left).toBe(0);
      expect(shortlist.length).toBeGreaterThan(0);
      expect(shortlist.length).toBeLessThanOrEqual(5);
      expect(shortlist.map(({ name }) => name)).toContain(wanted.name);
      for (const { name, description } of shortlist) {
        expect(suffix).toContain(`- ${name}: ${description}`);
        expect(hasItsCue(suffix, skills.find((skill) => skill.name === name) as CuedSkill), name).toBe(true);
      }
    }
  });

  it("[A-03] has whole descriptions while they fit, then shortened ones, then names, and states how many", async () => {
    const seen: string[] = [];
    for (const size of [10, 20, 60, 120, 300, 600]) {
      const { prefix, listed, omitted: cut } = await tellOf(ALL.slice(0, size), "hello there");
      expect(prefix.length, `${size}`).toBeLessThanOrEqual(8000);
      const { whole = 0, shortened = 0, named = 0, left = 0 } = listed ?? {};
      expect(whole + shortened + named + left).toBe(size);
      expect(cut).toMatchObject({ descriptions: shortened + named + left, names: left });
      const note = prefix.split("\n").at(-1);
      if (left > 0) expect(note).toMatch(new RegExp(`, and ${left} more: search_skills$`));
      else if (shortened + named > 0) {
        expect(note).toContain(`${shortened} descriptions of ${size} shortened`);
        if (named > 0) expect(note).toContain(`${named} left out`);
      } else expect(note).toMatch(/^- /);
      seen.push(left > 0 ? "most used names" : named > 0 ? "some names" : shortened > 0 ? "shortened" : "whole");
    }
    expect(seen).toEqual(["whole", "whole", "shortened", "shortened", "some names", "most used names"]);
  });

  it("[A-03] limits the prefix by its own budget, and full texts by theirs", async () => {
    const skills = ALL.slice(0, 60);
    const query = `use the ${skills[7]?.name} skill`;
    const told = await tellOf(skills, query, { listingBudget: 500, budget: 600 });
    expect(told).toMatchObject({ tier: "full", shown: [{ name: skills[7]?.name }] });
    expect(told.prefix.length).toBeLessThanOrEqual(2000);
    expect(told.suffix).toContain(`<skill_content name="${skills[7]?.name}">`);
    expect((await tellOf(skills, "hm", { listingBudget: 9000, budget: 100 })).text.length).toBeLessThanOrEqual(400);
  });
});

describe("the prefix and the suffix", () => {
  const QUERIES = ["hello", "Review my Terraform modules", "use the regex-test skill", "list skills", "ferry", ""];

  it("[A-04] are the text, and the query changes only the suffix", async () => {
    for (const size of [1, 60, 300, 600]) {
      const catalog = await catalogWith(ALL.slice(0, size));
      const prefixes = await Promise.all(
        QUERIES.map(async (query) => {
          const { prefix, suffix, text } = await disclose(catalog, query, { search: "search_skills" });
          expect(text).toBe(prefix + suffix);
          return prefix;
        }),
      );
      expect(new Set(prefixes).size).toBe(1);
      expect(prefixes[0]).not.toBe("");
    }
  });

  it("[A-04] have no prefix if every skill has triggers: the text depends on the query", async () => {
    const catalog = await createCatalogOf({ a: { keywords: ["ferry"] }, b: { keywords: ["lighthouse"] } });
    for (const query of ["hello", "ferry", "list skills"]) {
      const { prefix, suffix, text } = await disclose(catalog, query);
      expect([prefix, suffix]).toEqual(["", text]);
    }
  });

  it("[A-04] have the skills of another package in the suffix, once one of its files is named", async () => {
    const [ship, plain] = [
      defineTestSkill("ship", { description: "Ships it. Use when the app is shipped." }),
      defineTestSkill("plain"),
    ];
    const nested = { ...ship, origin: { ...ship.origin, belongsTo: "packages/app" } };
    for (const [skills, tier] of [
      [[nested, plain], "registry"],
      [[nested], "none"],
    ] as const) {
      const catalog = await createCatalogOf([...skills]);
      const [far, near] = await Promise.all(
        ["Fix lib/main.ts", "Fix packages/app/main.ts"].map(async (query) => await disclose(catalog, query)),
      );
      expect(far).toMatchObject({ tier, suffix: "", prefix: near?.prefix });
      expect(near?.tier).toBe("registry");
      expect(near?.suffix.trim()).toBe(
        "Skills for the files in question:\n- ship: Ships it. Use when the app is shipped.",
      );
      expect((await disclose(catalog, "Fix it", { files: ["packages/app/x.ts"] })).suffix).toBe(near?.suffix);
    }
  });

  it("[A-04] change neither with uses meanwhile nor with the order of questions", async () => {
    const skills = ALL.slice(0, 400);
    const usage = ["regex-test", "sql-review"];
    const first = await disclose(await catalogWith(skills), "hello", { usage, recent: ["regex-test"] });
    const catalog = await catalogWith(skills);
    for (const query of QUERIES) await disclose(catalog, query, { usage, recent: ["sql-create"] });
    expect((await disclose(catalog, "hello", { usage, recent: ["oauth-debug"] })).prefix).toBe(first.prefix);
    expect((await disclose(catalog, "hello", { usage: ["seo-test"] })).prefix).not.toBe(first.prefix);
  });

  it("[A-04] are the same bytes in every process, language and version of Node", { timeout: 60_000 }, () => {
    const url = (path: string) => JSON.stringify(pathToFileURL(path).href);
    const program = `
      import { createHash } from "node:crypto";
      import { disclose } from ${url(moduleOf("catalog/disclose"))};
      import { loadCatalog } from ${url(moduleOf("catalog/catalog"))};
      import { defineSkill } from ${url(moduleOf("skill/define-skill"))};
      import { createInlineSource } from ${url(moduleOf("skill/skill"))};
      import { cuedSkills } from ${url(join(import.meta.dirname, "cued-skills.ts"))};
      const skills = cuedSkills(300).map(({ name, description, whenToUse }) =>
        defineSkill({ name, description, instructions: "Do it.", frontmatter: whenToUse ? { when_to_use: whenToUse } : {} }));
      const hash = createHash("sha256");
      for (const size of [60, 300]) {
        const catalog = await loadCatalog([createInlineSource(skills.slice(0, size))]);
        for (const query of ${JSON.stringify(QUERIES)}) {
          const { prefix, suffix, text } = await disclose(catalog, query);
          if (!text.includes(skills[0].name)) throw new Error("the first skill is not in the text");
          hash.update(JSON.stringify([prefix, suffix, text]));
        }
      }
      console.log(hash.digest("hex"));`;
    const cwd = temporaryFolder({ "program.mjs": program });
    const others = (process.env["SKILLET_OTHER_NODES"] ?? "")
      .split(":")
      .filter((path) => path !== "" && existsSync(path));
    const languages = ["C", "en_US.UTF-8", "tr_TR.UTF-8", "ja_JP.UTF-8", "de_DE.UTF-8"];
    const digests = [
      ...sampleRows(languages, 3).map((LANG) => [process.execPath, LANG] as const),
      ...others.map((node) => [node, "C"] as const),
    ].map(([node, LANG]) => {
      const env = { PATH: process.env["PATH"] ?? "", LANG, LC_ALL: LANG, TZ: "Asia/Tokyo" };
      const { stdout, stderr } = spawnSync(node, ["--no-warnings", "program.mjs"], { cwd, env, encoding: "utf8" });
      expect(stdout, stderr).toMatch(/^[0-9a-f]{64}\n$/);
      return stdout;
    });
    expect(new Set(digests).size).toBe(1);
  });
});
