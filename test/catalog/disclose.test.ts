import { describe, expect, it } from "vitest";
import { loadCatalog } from "../../src/catalog/catalog.ts";
import { type DiscloseOptions, disclose, TIERS } from "../../src/catalog/disclose.ts";
import {
  formatPromptListing,
  formatPromptSection,
  isListIntent,
  LIST_INTENT_PHRASES,
} from "../../src/catalog/listing.ts";
import { getMatcher } from "../../src/catalog/search/matcher.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { estimateTokens } from "../../src/util/text.ts";
import { temporaryFolder } from "../support/folder.ts";
import { createCatalogOf, type Sketch } from "../support/skills.ts";

const told = async (skills: Record<string, Sketch>, query: string, options: DiscloseOptions = {}) =>
  await disclose(await createCatalogOf(skills), query, options);
const triggered = {
  greet: { keywords: ["greet"], body: "Say hello." },
  plan: { keywords: ["plan"], body: "Plan it." },
};

describe("the matches of a disclosure", () => {
  const skills = {
    ...triggered,
    notes: { description: "Writes meeting notes about a plan.", body: "Keep the aardvark." },
    party: { keywords: ["plan"], more: { triggers: { keywords: ["plan"], negative: ["party"] } } },
    secret: { keywords: ["plan"] },
  };
  const options = { recent: ["plan"], isVisible: ({ name }: { name: string }) => name !== "secret" };

  it("[T-09] have reasons, also those omitted from the text, and the skills that a negative cue excludes", async () => {
    const { matches, shown, rejected, considered, hasMore } = await told(skills, "plan the party", options);
    const [first, ...others] = matches;
    expect(first).toMatchObject({ level: "trigger" });
    expect(first?.skill).toBe(shown[0]);
    expect(first?.reasons.map(({ kind, text }) => [kind, text])).toContainEqual(["keyword", "plan"]);
    expect(others.map(({ skill, level, reasons }) => [skill.name, level, reasons[0]?.text])).toEqual([
      ["notes", "words", "plan"],
    ]);
    expect(rejected.map(({ skill, cue }) => [skill.name, cue])).toEqual([["party", "party"]]);
    expect(considered.map(({ name }) => name)).toEqual(["greet", "notes", "party", "plan"]);
    expect(hasMore).toBe(false);
  });

  it("[T-09] come from one match, which searches by words only if words can matter", async () => {
    const catalog = await createCatalogOf(skills);
    const matcher = getMatcher(catalog);
    const limits: unknown[] = [];
    const { match } = matcher;
    matcher.match = (query, given) => {
      limits.push(given?.limit);
      return match(query, given);
    };
    const disclosed = [
      await disclose(catalog, "plan the party"),
      await disclose(catalog, "list skills"),
      await disclose(catalog, "plan the party", { shortlist: false }),
    ];
    expect(limits).toEqual([10, 0, 0]);
    expect(disclosed.map(({ matches }) => matches.filter(({ level }) => level === "words").length)).toEqual([1, 0, 0]);
  });
});

describe("the four tiers", () => {
  it("[T-05] are empty when no skill is visible", async () => {
    expect(await told({}, "list skills")).toMatchObject({ tier: "none", text: "", tokens: 0 });
    expect(await told(triggered, "greet", { isVisible: () => false })).toMatchObject({ tier: "none", text: "" });
    expect(await told({ a: { more: { "disable-model-invocation": true } } }, "hm")).toMatchObject({ tier: "none" });
  });

  it("[T-06] give only the number of skills when skills have triggers and none matches", async () => {
    expect(await told(triggered, "fix my bug")).toMatchObject({
      tier: "breadcrumb",
      text: "[2 skills available]",
      shown: [],
    });
  });

  it("[T-07] list names and descriptions when the user asks for all skills", async () => {
    for (const query of ["list skills", "What can you do?", "Which skills are available?", "スキル一覧"]) {
      expect(await told(triggered, query), query).toMatchObject({
        tier: "registry",
        text: "[2 skills available]\n- greet: Skill greet.\n- plan: Skill plan.",
      });
    }
  });

  it("[T-07] list them when nothing matches and a visible skill has no triggers", async () => {
    const skills = { ...triggered, plain: { description: "First sentence. Second one." } };
    expect(await told(skills, "fix my bug")).toMatchObject({
      tier: "registry",
      reason: "nothing is triggered, and 1 skill has no triggers",
      text: "[3 skills available]\n- greet: Skill greet.\n- plain: First sentence. Second one.\n- plan: Skill plan.",
    });
    const hidden = { isVisible: ({ name }: { name: string }) => name !== "plain" };
    expect(await told(skills, "fix my bug", hidden)).toMatchObject({
      tier: "breadcrumb",
      text: "[2 skills available]",
    });
  });

  it("[T-08] give the full instructions of the skills that match", async () => {
    expect(await told(triggered, "greet the new team")).toMatchObject({
      tier: "full",
      text: '<skill_content name="greet">\nSay hello.\n</skill_content>',
      shown: [{ name: "greet" }],
    });
    const both = await told(triggered, "plan how to greet them");
    expect(both.shown.map(({ name }) => name)).toEqual(["greet", "plan"]);
    expect(both.text).toMatch(/Say hello\.[\s\S]*Plan it\./);
  });

  it("[T-08] answer a question for all skills before a trigger, but not before a mention", async () => {
    const skills = { maker: { keywords: ["skills"], body: "Make skills." } };
    expect(await told(skills, "list skills")).toMatchObject({ tier: "registry" });
    expect(await told(skills, "new skills")).toMatchObject({ tier: "full" });
    expect(await told({ skills: { keywords: ["x"] } }, "/skills")).toMatchObject({ tier: "full" });
  });

  it("[T-04] inject the top max_skills, 3 by default, and name the others", async () => {
    const skills = Object.fromEntries(["a", "b", "c", "d", "e"].map((name) => [name, { keywords: ["ferry"] }]));
    const three = await told(skills, "ferry");
    expect(three.shown.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(three.text).toContain("[Also matching, not shown: d, e]");
    expect((await told(skills, "ferry", { maxSkills: 1, recent: ["d"] })).shown.map(({ name }) => name)).toEqual(["d"]);
    expect(await told(skills, "ferry", { maxSkills: 0 })).toMatchObject({ tier: "breadcrumb" });
  });

  it("[T-05] give their own text when a tier is requested, and the same text for the one that applies", async () => {
    const plain = { description: "First sentence. Second one." };
    for (const skills of [triggered, { ...triggered, plain }])
      for (const query of ["fix my bug", "greet the team", "list skills", "/plan it"]) {
        const applied = await told(skills, query);
        const { tier, prefix, suffix, tokens } = applied;
        expect(await told(skills, query, { tier }), query).toMatchObject({ tier, prefix, suffix, tokens });
        const texts = await Promise.all(TIERS.map(async (tier) => (await told(skills, query, { tier })).text));
        expect(texts[0], query).toBe("");
        expect(texts[1], query).toMatch(/^\[\d skills available\]/);
        expect(texts[2], query).toContain("- greet: Skill greet.");
        expect(texts[3]?.includes("<skill_content"), query).toBe(query.includes("greet") || query.includes("plan"));
      }
  });

  it("are these four", () => {
    expect(TIERS).toEqual(["none", "breadcrumb", "registry", "full"]);
  });

  it("never give instructions for words alone, but may name matching skills", async () => {
    const skills = { invoices: { keywords: ["xyz"], description: "Creates invoices." }, other: { keywords: ["abc"] } };
    expect(await told(skills, "an invoice please")).toMatchObject({ tier: "breadcrumb", text: "[2 skills available]" });
    expect((await told(skills, "create the invoices please", { shortlist: true })).text).toBe(
      "[2 skills available]\nThese may fit. Take one, or none:\n- invoices: Creates invoices.",
    );
    expect((await told(skills, "something else", { shortlist: true })).text).toBe("[2 skills available]");
    expect((await told(skills, "create the invoices please", { shortlist: true, budget: 8 })).text).toBe(
      "[2 skills available]",
    );
  });

  describe("with one skill that clearly matches by its words", () => {
    const words = ["bread", "clocks", "gardens", "letters", "maps", "music", "poems", "recipes", "shoes", "taxes"];
    const others = Object.fromEntries(
      words.map((name) => [
        name,
        { description: `Looks after ${name}. Use when ${name} are at issue.`, keywords: [`k-${name}`] },
      ]),
    );
    const lighthouse = {
      description: "Plans lighthouse inspections along the coast. Use when a lighthouse inspection is due.",
      body: "Inspect the lighthouse lamp.",
    };
    const query = "plan the next lighthouse inspection along the coast";
    const skills = { ...others, "lighthouse-inspection": { ...lighthouse, keywords: ["zzz"] } };
    const entry = `These may fit. Take one, or none:\n- lighthouse-inspection: ${lighthouse.description}`;

    it("[A-03] name it after the breadcrumb, with its whole description and never its instructions", async () => {
      const { tier, text, shortlist } = await told(skills, query);
      expect([tier, text]).toEqual(["breadcrumb", `[11 skills available]\n${entry}`]);
      expect(shortlist.map(({ name }) => name)).toEqual(["lighthouse-inspection"]);
      expect((await told(skills, query, { shortlist: false })).text).toBe("[11 skills available]");
    });

    it("[A-03] name it after a list", async () => {
      const { tier, suffix } = await told({ ...skills, plain: {} }, query);
      expect([tier, suffix]).toEqual(["registry", `\n\n${entry}`]);
    });

    it("[A-03] name it before the full text of another that is triggered", async () => {
      const { tier, text } = await told(skills, `${query}, then k-maps`);
      expect(tier).toBe("full");
      expect(text).toBe(`${entry}\n\n<skill_content name="maps">\nDo maps.\n</skill_content>`);
      expect(text).not.toContain("Inspect the lighthouse lamp");
    });

    it("[A-03] do not repeat it next to its instructions", async () => {
      const { text, shortlist } = await told(skills, `/lighthouse-inspection ${query}`);
      expect(shortlist).toEqual([]);
      expect(text).toMatch(/^<skill_content name="lighthouse-inspection">/);
    });
  });

  it("[A-05] add neither a full text nor a shortlist to an unrelated prompt", async () => {
    const plain = { pdf: { description: "Fills PDF forms. Use when a form is due." }, ...triggered };
    for (const skills of [plain, triggered]) {
      for (const query of ["thanks!", "good morning", "what time is it in Tokyo?", "2+2", "tell me a joke", "ok", ""]) {
        const {
          shown,
          mentioned: noted,
          shortlist,
          suffix,
          prefix,
        } = await told(skills, query, { countInPrefix: true });
        expect([shown, noted, shortlist, suffix], query).toEqual([[], [], [], ""]);
        expect(prefix).toMatch(/^\[\d skills available\]/);
      }
    }
  });

  it("report that a skill is loaded instead of repeating it", async () => {
    const { text, tier } = await told(triggered, "greet", { isLoaded: ({ name }) => name === "greet" });
    expect([tier, text]).toEqual(["full", "[Skill greet is already loaded in this conversation]"]);
    const both = await told(triggered, "plan how to greet", { isLoaded: ({ name }) => name === "greet", maxSkills: 1 });
    expect([both.shown, both.mentioned].map((list) => list.map(({ name }) => name))).toEqual([["plan"], ["greet"]]);
    expect((await told(triggered, "/greet Ann", { isLoaded: ({ name }) => name === "greet" })).text).toContain(
      "Say hello.\n\nARGUMENTS: Ann",
    );
  });
});

describe("skills that need more than text", () => {
  const skills = { alone: { keywords: ["whales"], body: "Look alone.", more: { context: "fork", effort: "high" } } };
  it("[X-03] are named if they can run on their own, and otherwise included with their unsupported fields", async () => {
    expect((await told(skills, "whales", { canFork: true })).text).toBe(
      "[Skill alone runs on its own: load_skill runs it]",
    );
    const { text } = await told(skills, "whales");
    expect(text).toContain("Look alone.");
    expect(text).toContain("[Not in force for loaded instructions: effort (high)]");
    expect(text).toContain("asks to run on its own (context: fork)");
  });
});

describe("unusable triggers", () => {
  it("[T-07] count as none: the skill is listed as one without", async () => {
    const root = temporaryFolder({
      "a/SKILL.md":
        '---\ndescription: Audits.\ntriggers:\n  patterns: ["(?=audit)", ".*"]\n  keywords: ["-"]\n---\nAudit.\n',
    });
    const catalog = await loadCatalog([createDirectorySource({ path: root })]);
    expect(await disclose(catalog, "licences")).toMatchObject({
      tier: "registry",
      text: "[1 skills available]\n- a: Audits.",
    });
  });
});

describe("restricted invocation", () => {
  const skills = {
    secret: { keywords: ["ship"], body: "Ship $ARGUMENTS.", more: { "disable-model-invocation": true } },
    auto: { keywords: ["auto"], more: { "user-invocable": false } },
  };
  it("[X-01] hides from the model what only a user can invoke, who still can by name", async () => {
    expect(await told(skills, "ship it")).toMatchObject({ tier: "breadcrumb", text: "[1 skills available]" });
    expect((await told(skills, "list skills")).text).not.toContain("secret");
    expect((await told(skills, "/secret prod now")).text).toContain("Ship prod now.");
    expect((await told(skills, "use the secret skill")).tier).toBe("full");
    const named = { "data-chart": { body: "Draw $ARGUMENTS." } };
    expect((await told(named, "/data_chart a b")).text).toContain("Draw a b.");
    expect((await told(named, "/data-chart: a b")).text).toContain("Draw a b.");
  });

  it("[X-01] does not let a user call what only models may, though its triggers work", async () => {
    expect((await told(skills, "use the auto-pilot")).tier).toBe("full");
    const { matches } = await told(skills, "/auto");
    expect(matches.map(({ level }) => level)).toEqual(["trigger"]);
    expect(await told({ auto: { ...skills.auto, keywords: ["ferry"] } }, "/auto")).toMatchObject({
      tier: "breadcrumb",
    });
  });
});

describe("a question for all skills", () => {
  it.each([
    "Please list all your skills",
    "can you list your skills please?",
    "LIST AVAILABLE SKILLS",
    "show me the skills",
  ])("is %j", (query) => expect(isListIntent(query)).toBe(true));
  it.each(["list skills needed for a nurse", "what would you do?", "what can I do", "help", "", "?", "list"])(
    "is not %j",
    (query) => expect(isListIntent(query)).toBe(false),
  );
  it("is every phrase of the table, and those a user adds", async () => {
    for (const phrase of LIST_INTENT_PHRASES) expect(isListIntent(phrase), phrase).toBe(true);
    expect(isListIntent("Zeig mal her!", ["zeig mal her"])).toBe(true);
    expect((await told(triggered, "zeig mal", { listIntents: ["Zeig mal"] })).tier).toBe("registry");
  });
});

describe("the disclosure budget", () => {
  const many = (number: number, description = "Does one thing well and says so here.") =>
    Object.fromEntries(
      Array.from({ length: number }, (_, index) => [`skill-number-${index}`, { description, keywords: [`k${index}`] }]),
    );

  it("[T-09] is met: about 10 tokens for tier 1, about 15 per skill for tier 2", async () => {
    expect((await told(many(200), "hm")).tokens).toBeLessThanOrEqual(10);
    const registry = await told(many(200), "list skills", { listingBudget: 3200 });
    expect(registry.tokens / 200).toBeLessThanOrEqual(15.5);
    expect(registry.omitted).toEqual({ descriptions: 0, names: 0, instructions: [] });
  });

  it("[T-09] includes at most 4 tokens per skill above the names and descriptions themselves", async () => {
    const { text } = await told(many(100), "list skills", { listingBudget: 3000 });
    const own = (await createCatalogOf(many(100))).skills.reduce(
      (sum, { name, manifest }) => sum + name.length + manifest.briefDescription.length,
      0,
    );
    expect(estimateTokens(text) - own / 4).toBeLessThanOrEqual(400);
  });

  it("keeps every name of 200 skills under 1,500 tokens, and reports what was cut", async () => {
    const {
      text,
      tokens,
      omitted: cut,
    } = await told(many(200, "A description that is rather long, so it must give way. Use it."), "list skills", {
      budget: 1500,
      search: "search_skills",
    });
    expect(tokens).toBeLessThanOrEqual(1500);
    for (let index = 0; index < 200; index++) expect(text).toMatch(new RegExp(`skill-number-${index}\\b`));
    expect(cut).toMatchObject({ names: 0 });
    expect(cut.descriptions).toBeGreaterThan(0);
  });

  it("[A-03] shortens descriptions evenly, and gives those that match the query whole after the list", async () => {
    const skills = {
      ...many(40, "A description of ninety characters or so, which is far too long for a line of such a list."),
    };
    const {
      prefix,
      suffix,
      text,
      omitted: cut,
      listed,
    } = await told(
      { ...skills, zebra: { description: "Counts the stripes of animals at the zoo." } },
      "count the stripes of the zoo animals",
      { listingBudget: 640 },
    );
    expect(suffix).toBe("\n\nThese may fit. Take one, or none:\n- zebra: Counts the stripes of animals at the zoo.");
    expect(prefix).toMatch(/^- skill-number-7: A description of ninety characters or so\.$/m);
    expect(prefix.split("\n").at(-1)).toBe("(40 descriptions of 41 shortened to fit)");
    expect(prefix.length).toBeLessThanOrEqual(2560);
    expect(text).toBe(prefix + suffix);
    expect(cut.descriptions).toBe(40);
    expect(listed).toEqual({ whole: 1, shortened: 40, named: 0, left: 0 });
  });

  it("[A-03] gives descriptions to some if there is too little for each, the most used first", async () => {
    const { prefix, tokens, listed } = await told(
      { ...many(200, "A description that is rather long, so it must give way."), plain: {} },
      "what now",
      { listingBudget: 1500, usage: ["skill-number-77", "gone", "skill-number-9"] },
    );
    expect(tokens).toBeGreaterThan(1300);
    expect(tokens).toBeLessThanOrEqual(1500);
    for (const number of [77, 9]) expect(prefix).toMatch(new RegExp(`^- skill-number-${number}: A description`, "m"));
    expect(listed?.shortened).toBeGreaterThan(20);
    expect(prefix).toContain(`(${listed?.shortened} descriptions of 201 shortened, ${listed?.named} left out to fit)`);
  });

  it("[A-03] lists the most used names if not all fit, in the order of names", async () => {
    const options = { listingBudget: 40, search: "search_skills", usage: ["skill-number-77", "skill-number-9"] };
    const { text, omitted: cut } = await told(many(200), "list skills", options);
    expect(text).toMatch(/^\[200 skills available\] (?:skill-number-\d+, )+and \d+ more: search_skills$/);
    expect(text).toMatch(/skill-number-77, skill-number-9, and/);
    expect(cut.names).toBe(200 - (text.match(/skill-number/g)?.length ?? 0));
  });

  it("reports that it gives names only", async () => {
    const { text, omitted: cut } = await told(many(200), "list skills", { budget: 920, search: "search_skills" });
    expect(text).toMatch(
      /^\[200 skills available\] skill-number-0, .*\n\(names only, to fit; search_skills tells more\)$/,
    );
    expect(cut).toMatchObject({ descriptions: 200, names: 0 });
  });

  it.each([0, 1, 5, 20, 60, 150, 400, 1000, 3000])("is met at %i tokens", async (budget) => {
    const skills = many(200, "A description that is rather long, so it must give way.");
    const { text, omitted: cut } = await told(skills, "list skills", { budget, search: "search_skills" });
    const line = "[200 skills available]";
    expect(text.length).toBeLessThanOrEqual(Math.max(line.length, budget * 4));
    expect(text.startsWith(line)).toBe(true);
    const named = text.match(/skill-number-\d+/g)?.length ?? 0;
    expect(named).toBe(200 - cut.names);
    if (cut.names > 0 && named > 0) expect(text).toContain(`, and ${cut.names} more: search_skills`);
  });

  it("keeps the order of names whatever is cut, so that prompt caches work", async () => {
    for (const budget of [400, 1000, 9000]) {
      const { text } = await told(many(60), "list skills", { budget });
      const names = text.match(/skill-number-\d+/g) ?? [];
      expect(names).toEqual([...names].sort());
    }
  });

  it("omits instructions that do not fit, and names them", async () => {
    const skills = {
      long: { keywords: ["ferry"], body: "x".repeat(9000) },
      short: { keywords: ["ferry"], body: "Short." },
    };
    const some = await told(skills, "ferry", { budget: 200 });
    expect(some).toMatchObject({ tier: "full", shown: [{ name: "short" }], omitted: { instructions: ["long"] } });
    expect(some.text).toContain("[Also matching, not shown: long]");
    const none = await told({ long: skills.long }, "ferry", { budget: 200 });
    expect(none).toMatchObject({
      tier: "breadcrumb",
      text: "[1 skills available]\n[Also matching, not shown: long]",
      omitted: { instructions: ["long"] },
    });
    expect((await told({ long: skills.long }, "ferry", { budget: 10 })).text).toBe("[1 skills available]");
  });
});

describe("the static listing", () => {
  it("[S-14] is the section word for word, with the mount path if there is one", async () => {
    const { skills } = await createCatalogOf({
      research: { description: "Research topics using Perplexity AI" },
      "code-review": {
        description: "Review code for issues and improvements",
        more: { when_to_use: "Before a merge." },
      },
    });
    const heading = `## Skills

Before replying, check if any available skill matches the user's request.
If one clearly applies, invoke it with \`use_skill\`. If none apply, respond directly.
`;
    expect(formatPromptSection(skills)).toBe(`${heading}
- **code-review**: Review code for issues and improvements Before a merge.
- **research**: Research topics using Perplexity AI`);
    expect(
      formatPromptSection(skills, { pathOf: ({ name }) => (name === "research" ? "/skill/research" : undefined) }),
    ).toContain("- **research**: Research topics using Perplexity AI (/skill/research)");
    expect(formatPromptSection([])).toBe("");
  });

  it("[X-07] includes when to use a skill in addition to its purpose", async () => {
    const { skills } = await createCatalogOf({
      a: { description: "Does a.", more: { when_to_use: "When a is due." } },
    });
    expect(formatPromptListing(skills)).toBe("- a: Does a. When a is due.");
  });
});

describe("a custom source", () => {
  it("can fail in its own way: the skill is named as not shown", async () => {
    const [skill] = (await createCatalogOf({ odd: { keywords: ["ferry"] } })).skills;
    if (!skill) throw new Error("there is one");
    const broken = {
      ...skill,
      body: () => {
        throw new TypeError("no");
      },
    };
    const catalog = await createCatalogOf([broken]);
    expect((await disclose(catalog, "ferry")).omitted.instructions).toEqual(["odd"]);
  });
});

describe("a skill that has become unreadable", () => {
  it("is named as not shown, and the others are included", async () => {
    const root = temporaryFolder({
      "a/SKILL.md": "---\ndescription: A.\ntriggers:\n  keywords: [ferry]\n---\nAlpha.\n",
      "b/SKILL.md": "---\ndescription: B.\ntriggers:\n  keywords: [ferry]\n---\nBeta.\n",
    });
    const catalog = await loadCatalog([createDirectorySource({ path: root })]);
    expect((await disclose(catalog, "ferry")).text).toContain("Alpha.");
    const { rmSync } = await import("node:fs");
    rmSync(`${root}/a/SKILL.md`);
    expect(await disclose(catalog, "ferry")).toMatchObject({
      shown: [{ name: "b" }],
      omitted: { instructions: ["a"] },
    });
  });
});
