import { beforeAll, describe, expect, it } from "vitest";
import type { Catalog } from "../../src/catalog/catalog.ts";
import { disclose } from "../../src/catalog/disclose.ts";
import { createMatcher } from "../../src/catalog/search/matcher.ts";
import { createCatalogOf, defineTestSkill, type Sketch } from "../support/skills.ts";
import { TASKS } from "./tasks.ts";

const PYTHON_STYLE: Sketch = { description: "House style for Python.", more: { paths: ["**/*.py"] }, body: "Be tidy." };
const KEYWORDS: Sketch = { description: "Answers anything.", keywords: ["write", "find"], verbs: ["where", "create"] };

describe("a catalog of 52 skills, two of them with broad triggers", () => {
  let catalog: Catalog;
  beforeAll(async () => {
    const skills: Record<string, Sketch> = { "python-style": PYTHON_STYLE, assistant: KEYWORDS };
    for (const { name, description, trigger } of TASKS) skills[name] = { description, keywords: [trigger] };
    catalog = await createCatalogOf(skills);
  });

  it("[T-08] gives no task the instructions of a skill for a glob or common words alone", async () => {
    expect(TASKS).toHaveLength(50);
    const reached = { glob: 0, words: 0 };
    for (const { task } of TASKS) {
      const { shown, matches } = await disclose(catalog, task);
      const weak = matches.flatMap(({ skill, level }) => (level === "weak" ? skill.name : []));
      if (weak.includes("python-style")) reached.glob++;
      if (weak.includes("assistant")) reached.words++;
      expect(
        shown.map(({ name }) => name).filter((name) => /^(?:python-style|assistant)$/.test(name)),
        task,
      ).toEqual([]);
    }
    // Both match often enough for a meaningful result.
    expect(reached.glob).toBeGreaterThanOrEqual(15);
    expect(reached.words).toBeGreaterThanOrEqual(25);
  });

  it("[T-08] gives each task the instructions of the skill with a matching specific trigger, first", async () => {
    for (const { name, task } of TASKS) {
      const { tier, shown } = await disclose(catalog, task);
      expect([tier, shown[0]?.name], task).toEqual(["full", name]);
    }
  });

  it("ranks a skill by matching words before one with a matching glob or common word, without other triggers", async () => {
    const plain = TASKS.map(({ name, description }) => defineTestSkill(name, { description }));
    const matcher = createMatcher([
      ...plain,
      defineTestSkill("python-style", PYTHON_STYLE),
      defineTestSkill("assistant", KEYWORDS),
    ]);
    let ranked = 0;
    for (const { name, task } of TASKS) {
      const names = (await matcher.match(task, { limit: 60 })).matches.map(({ skill }) => skill.name);
      if (!names.includes(name)) continue;
      ranked++;
      const before = names.slice(0, names.indexOf(name));
      expect(
        before.filter((other) => other === "python-style" || other === "assistant"),
        task,
      ).toEqual([]);
    }
    expect(ranked).toBeGreaterThanOrEqual(45);
  });

  it("suggests a skill for a file by name, and lists one with only broad triggers", async () => {
    const skills = { ferry: { keywords: ["ferry"] }, terraform: { more: { paths: ["infra/**/*.tf"] } } };
    expect(await disclose(await createCatalogOf(skills), "tidy infra/prod/main.tf")).toMatchObject({
      tier: "breadcrumb",
      reason: "no trigger that matches is selective enough",
      text: "[2 skills available]\nThese may fit. Take one, or none:\n- terraform: Skill terraform.",
    });
    expect((await disclose(await createCatalogOf(skills), "tidy it")).text).toBe("[2 skills available]");
    for (const broad of [{ keywords: ["write", "find"] }, { patterns: ["\\?$"] }, { more: { paths: ["**/*.py"] } }])
      expect(await disclose(await createCatalogOf({ ...skills, broad }), "hm")).toMatchObject({ tier: "registry" });
  });
});

describe("the weight of a trigger", () => {
  const others = (count: number, description: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`other-${index}`, { description }]));
  const reason = async (skills: Record<string, Sketch>, query: string) => {
    const list = Object.entries(skills).map(([name, parts]) => defineTestSkill(name, parts));
    const { matches } = await createMatcher(list).match(query, { limit: 0 });
    const match = matches.find(({ skill }) => skill.name === "it");
    return { level: match?.level, ...match?.reasons[0] };
  };

  it.each([
    ["write", 0.2],
    ["writing", 0.2],
    ["files", 0.2],
    ["code", 0.2],
    ["c", 0.2],
    ["where", 0],
    ["hello", 0],
    ["how to", 0],
    ["find the", 0.2],
    ["the code", 0.2],
  ])("[T-08] %s is a common word, alone or among function words", async (keyword, weight) => {
    const query = `please ${keyword} now`;
    expect(await reason({ it: { keywords: [keyword] } }, query)).toMatchObject({
      level: "weak",
      weight,
      weak: "common-word",
    });
    expect(await reason({ it: { verbs: [keyword] } }, query)).toMatchObject({ level: "weak", weight });
  });

  it.each([
    ["invoice", "trigger"],
    ["c++", "trigger"],
    ["/test", "trigger"],
    ["日本語", "trigger"],
    ["🚀", "trigger"],
    ["write tests", "phrase"],
    ["my inbox", "phrase"],
    ["on the web", "phrase"],
  ])("[T-08] %s is specific", async (keyword, level) => {
    expect(await reason({ it: { keywords: [keyword] } }, `please ${keyword} now`)).toMatchObject({ level, weight: 1 });
  });

  it("[T-08] of common words does not add up, even with a glob", async () => {
    const it = { keywords: ["write", "find", "code", "file"], more: { paths: ["src/**"] } };
    expect((await reason({ it }, "write code to find a file in src/a/b.py")).level).toBe("weak");
    expect(
      (await reason({ it: { ...it, keywords: ["write", "quaternion"] } }, "write a quaternion in src/b.py")).level,
    ).toBe("trigger");
  });

  it("[T-08] decreases with the number of skills with the word: up to the square root of all select one", async () => {
    const catalog = (number: number) => ({
      it: { keywords: ["docker"] },
      ...others(number - 1, "Works with docker."),
      ...Object.fromEntries(Array.from({ length: 64 - number }, (_, index) => [`far-${index}`, {}])),
    });
    expect(await reason(catalog(1), "docker")).toMatchObject({ level: "trigger", weight: 1, skills: 1, of: 64 });
    expect(await reason(catalog(4), "docker")).toMatchObject({ level: "trigger", weight: 0.67, skills: 4 });
    expect(await reason(catalog(8), "docker")).toMatchObject({ level: "trigger", weight: 0.5, skills: 8 });
    expect(await reason(catalog(9), "docker")).toEqual({
      ...{ level: "weak", kind: "keyword", text: "docker" },
      ...{ weight: 0.47, weak: "many-skills", skills: 9, of: 64 },
    });
    expect(await reason(catalog(64), "docker")).toMatchObject({ level: "weak", weight: 0 });
  });

  it("[T-08] counts all forms of a word, and a phrase as a whole, also with hyphens", async () => {
    const skills = {
      it: { keywords: ["deployment", "docker compose", "議事録"] },
      ...others(30, "Deployments with docker, and how to compose a song. 会議の議事録。"),
      more: { description: "Starts docker-compose." },
    };
    expect(await reason(skills, "a deployment")).toMatchObject({ weak: "many-skills", skills: 31, of: 32 });
    expect(await reason(skills, "the docker compose file")).toMatchObject({ level: "phrase", skills: 2, of: 32 });
    expect(await reason(skills, "議事録を書く")).toMatchObject({ weak: "many-skills", skills: 31 });
  });

  it("[T-08] of a word that five skills of a small catalog share still selects", async () => {
    const five = Object.fromEntries(["it", "b", "c", "d", "e"].map((name) => [name, { keywords: ["ferry"] }]));
    expect(await reason(five, "ferry")).toMatchObject({ level: "trigger", weight: 0.5, skills: 5, of: 5 });
    expect(await reason({ ...five, f: five["it"] ?? {} }, "ferry")).toMatchObject({
      weak: "many-skills",
      skills: 6,
      of: 6,
    });
  });

  it.each([
    ["\\bfind\\b", "find it", "common-word"],
    ["(invoice|write)", "an invoice", "common-word"],
    ["\\?$", "is it?", "common-word"],
    ["\\w+ \\w+", "two words", "common-word"],
    ["[a-z]+ing\\b", "painting", "many-skills"],
    ["invoices?", "an invoice", undefined],
    ["write.*tests", "write some tests", undefined],
    ["issue #\\d+", "issue #12", undefined],
    ["\\d{4}-\\d{2}", "in 2026-11", undefined],
    ["how (is|are) (the|our) (server|machine)", "how is the server", undefined],
  ])("[T-08] of a pattern depends on the words that it needs: %s", async (pattern, query, weak) => {
    const skills = { it: { patterns: [pattern] }, ...others(30, "Nothing but painting.") };
    const found = await reason(skills, query);
    expect([found.level, found.weak]).toEqual([weak ? "weak" : "trigger", weak]);
  });

  it.each([
    ["**/*.py", 0.2],
    ["*.md", 0.2],
    ["src/**/*.{ts,tsx}", 0.2],
    ["**/*.tf", 0.4],
    ["docs/**", 0.4],
    ["Dockerfile", 0.4],
  ])("[T-08] of the glob %s never selects", async (glob, weight) => {
    const files = ["src/a.py", "src/a.md", "src/a.tsx", "src/a.tf", "docs/a", "Dockerfile"];
    const matcher = createMatcher([defineTestSkill("it", { more: { paths: [glob] } })]);
    expect((await matcher.match("tidy up", { files, limit: 0 })).matches).toMatchObject([
      { level: "weak", weight, reasons: [{ kind: "path", text: glob, weak: "glob" }] },
    ]);
  });
});

describe("a name in a query", () => {
  const skills = ["code-review", "canvas-design", "deploy", "deploy-app", "summarize", "fix", "report"];
  const matcher = createMatcher(skills.map((name) => defineTestSkill(name, {})));
  const read = async (query: string) => {
    const { matches, rejected: against } = await matcher.match(query, { limit: 0 });
    return [
      ...matches.map(({ skill, level }) => `${skill.name} ${level}`),
      ...against.map(({ skill }) => `not ${skill.name}`),
    ];
  };

  it.each([
    "canvas design is my hobby",
    "I wrote about canvas design and code",
    "see src/canvas-design/index.ts",
    "edit canvas-design.md",
    "my-canvas-design is here",
    "https://example.com/canvas-design",
    "run node --canvas-design",
    "import canvas_design",
    "There is no canvas design yet",
  ])("[T-08] in passing selects nothing: %j", async (query) =>
    expect(await read(query)).toEqual(["canvas-design weak"]),
  );

  it.each(["deploy it", "there is no report", "without report", "fix: a typo", "report the bug"])(
    "[T-08] of one word is a normal word: %j",
    async (query) => expect(await read(query)).toEqual([]),
  );

  it.each([
    "use the code-review skill",
    "use the code review skill",
    "/code-review",
    "$code-review",
    "run code-review on this diff",
    "please run `code-review`",
    "code-review: what do you think of this?",
    "do not forget to run code-review",
    "usa code-review",
    "utilise code-review",
    "pourquoi ne pas utiliser code-review ?",
    "why don't you run code-review?",
    "can't we use code-review here?",
    "do not commit; run code-review",
    "do not commit but run code-review",
    "If not sure, run code-review",
    "Do not run code-review now. Commit, then run code-review.",
    "do not just run code-review, also read it",
    "nutze code-review",
    "warum nicht code-review verwenden? Starte code-review",
  ])("[T-03] that is requested is an explicit mention: %j", async (query) => {
    expect(await read(query)).toEqual(["code-review explicit"]);
  });

  it("[T-03] of one word is a request as a heading, but not as a commit prefix", async () => {
    expect(await read("summarize: this long text")).toEqual(["summarize explicit"]);
    expect(await read("fix: this long text")).toEqual([]);
  });

  it.each(["the code-review was long", "Don't skip code-review", "CODE-REVIEW, please", '"code-review"'])(
    "[T-08] written exactly selects it: %j",
    async (query) => expect(await read(query)).toEqual(["code-review phrase"]),
  );

  it.each([
    "do not run code-review",
    "do not run code review",
    "Don't use code-review",
    "Don’t ever use the code-review skill",
    "dont run code-review",
    "without using code-review",
    "skip code-review",
    "please skip the code-review skill",
    "avoid `code-review`",
    "never run code-review here",
    "no need to run code-review",
    "I don't want you to use code-review",
    "I would not use code-review for this",
    "use a linter instead of code-review",
    "use anything but code-review",
    "don't run the tests and code-review",
    "don't do a code review",
    "code-review is not needed",
    "the code-review skill isn't required",
    "code-review should not be used",
    "bitte nicht code-review benutzen",
    "nutze code-review nicht",
    "führe code-review nicht aus",
    "ohne code-review bitte",
    "kein code-review",
    "verwende auf keinen Fall code-review",
    "no uses code-review",
    "por favor, no uses la habilidad code-review",
    "no ejecutes code-review todavía",
    "nunca uses code-review",
    "evita usar code-review",
    "hazlo sin code-review",
    "code-review no es necesario",
    "n'utilise pas code-review",
    "N’utilisez pas le skill code-review",
    "ne lance jamais code-review",
    "ne pas utiliser code-review",
    "fais-le sans code-review",
    "code-review n'est pas nécessaire",
  ])("[T-08] that is refused in the same clause excludes the skill: %j", async (query) => {
    expect(await read(query)).toEqual(["not code-review"]);
  });

  it('[T-08] refuses each name of a list, and a single-word name after "do not"', async () => {
    expect(await read("don't run deploy-app or code-review")).toEqual(["not deploy-app", "not code-review"]);
    for (const query of ["don't deploy yet", "do not deploy", "don't use deploy", "skip deploy", "never deploy it"])
      expect(await read(query), query).toEqual(["not deploy"]);
    expect(await read("do not deploy but run code-review")).toEqual(["code-review explicit", "not deploy"]);
  });

  it("[T-08] that is refused disables the skill's triggers too", async () => {
    const catalog = await createCatalogOf({
      "code-review": { keywords: ["code review", "diff"] },
      ferry: { keywords: ["ferry"] },
    });
    expect((await disclose(catalog, "run code-review on the diff")).tier).toBe("full");
    expect(await disclose(catalog, "explain the diff, but do not run code-review")).toMatchObject({
      tier: "breadcrumb",
      shown: [],
      rejected: [{ skill: { name: "code-review" }, cue: "not code-review" }],
    });
  });

  it("[T-08] is not needed to forbid a trigger's action, while a report of a failure is not a refusal", async () => {
    const catalog = await createCatalogOf({ shop: { keywords: ["deploy the shop"], verbs: ["deploy"] }, ferry: {} });
    const shown = async (query: string) => (await disclose(catalog, query)).shown.length;
    for (const query of [
      "do not deploy the shop",
      "Please don't deploy the shop yet",
      "never deploy the shop on a Friday",
      "we should not deploy the shop today",
      "look at it, but don't deploy the shop",
    ])
      expect(await shown(query), query).toBe(0);
    for (const query of [
      "it does not deploy the shop",
      "I can't deploy the shop",
      "The button doesn't deploy the shop any more",
      "don't wait, deploy the shop",
      "don't forget to deploy the shop",
      "don't deploy the shop to staging, deploy the shop to production",
      "why don't you deploy the shop?",
    ])
      expect(await shown(query), query).toBe(1);
  });

  it("[T-08] in common German words selects nothing either", async () => {
    const catalog = await createCatalogOf({ greedy: { keywords: ["schreib", "bitte", "suche", "mach"] }, ferry: {} });
    expect((await disclose(catalog, "schreib bitte einen Text und suche Bilder")).shown).toEqual([]);
  });
});
