import { describe, expect, it } from "vitest";
import { createMatcher, isSelectedMatch, type Match } from "../../src/catalog/search/matcher.ts";
import { defineTestSkill, type Sketch } from "../support/skills.ts";
import { expectLinearSteps } from "../support/steps.ts";

const MODULES = ["src/catalog/search/matcher.ts", "test/support/skills.ts"];
type Modules = { createMatcher: typeof createMatcher; defineTestSkill: typeof defineTestSkill };

const matcherFor = (skills: Record<string, Sketch>) =>
  createMatcher(Object.entries(skills).map(([name, parts]) => defineTestSkill(name, parts)));
const said = ({ skill, level, reasons }: Match) =>
  `${skill.name} ${level}: ${reasons.map(({ kind, text }) => `${kind} ${text}`).join(", ")}`;
const matched = async (skills: Record<string, Sketch>, query: string, options = {}) =>
  (await matcherFor(skills).match(query, { limit: 0, ...options })).matches.map(said);

describe("keywords and verbs", () => {
  it.each([
    ["hello", "Hello there", true],
    ["hello", "hello-world", true],
    ["hello", "say hello_world", true],
    ["hello", "helloworld", false],
    ["hello", "othello", false],
    ["HELLO", "hElLo", true],
    ["c++", "my C++ code", true],
    ["c++", "C++17, please", true],
    ["c++", "is it c++?", true],
    ["c++", "c+ or c", false],
    ["c", "my c++ code", false],
    ["c", "plain c code", true],
    ["c#", "a c# class", true],
    ["c", "a c# class", false],
    ["a", "a+b", true],
    [".net", "use .NET here", true],
    ["node.js", "a Node.js server", true],
    ["node", "a node.js server", true],
    ["/deploy", "run /deploy now", true],
    ["/deploy", "look at src/deploy", false],
    ["/deploy", "//deploy", false],
    ["deploy", "look at src/deploy", true],
    ["pull request", "open a pull   request", true],
    ["pull request", "open a pull-request", true],
    ["code-review", "a code review", true],
    ["pull request", "pull the request", false],
    ["日本語", "日本語で書いて", true],
    ["日本語", "これを日本語に", true],
    ["テスト", "コンテスト", false],
    ["テスト", "テストを書く", true],
    ["react", "Reactコンポーネント", true],
    ["한국어", "한국어로 써 줘", true],
    ["행기", "비행기 표", false],
    ["ภาษาไทย", "เขียนเป็นภาษาไทยให้หน่อย", true],
    ["naïve", "a NAI\u0308VE approach", true],
    ["straße", "DIE STRASSE", true],
    ["ΟΔΟΣ", "η οδός", false],
    ["οδοσ", "Η ΟΔΟΣ ΜΟΥ", true],
    ["istanbul", "İstanbul", true],
    ["ｈｅｌｌｏ", "hello", true],
    ["🚀", "ship it 🚀", true],
    ["user", "the user's report", true],
    ["don't", "I don’t know", true],
    ["a.*(b|c)[", "find a.*(b|c)[ here", true],
    ["a.*(b|c)[", "find axxb here", false],
    ["$5", "it costs $5", true],
  ])("[T-02] the keyword %s in %j: %s", async (keyword, query, isFound) => {
    expect(await matched({ it: { keywords: [keyword] } }, query)).toHaveLength(isFound ? 1 : 0);
    expect(await matched({ it: { verbs: [keyword] } }, query)).toHaveLength(isFound ? 1 : 0);
  });

  it("[T-02] reports which of them was found", async () => {
    const skills = { hello: { keywords: ["greet", "greeting"], verbs: ["wave"], patterns: ["greet\\s+\\w+"] } };
    expect(await matched(skills, "Greet the team and wave")).toEqual([
      "hello trigger: keyword greet, verb wave, pattern greet\\s+\\w+",
    ]);
  });
});

describe("patterns", () => {
  it.each([
    ["greet\\s+\\w+", "Greet  Bob", true],
    ["greet\\s+\\w+", "greet", false],
    ["(?-i)API", "the api", false],
    ["(?-i)API", "the API", true],
    ["^deploy\\b", "deploy it", true],
    ["^deploy\\b", "please deploy it", false],
    ["v\\d+\\.\\d+", "release v1.20 today", true],
    ["(fix|mend)(es|ed)?\\s+#\\d+", "Fixes #12", true],
    ["(fix|mend)(es|ed)?\\s+#\\d+", "fixed #12", true],
    ["日本.", "日本語", true],
    ["ſtraße|STRASSE", "strasse", true],
    ["\\d{4}-\\d{2}", "in 2026-11", true],
  ])("[T-02] %s in %j: %s", async (pattern, query, isFound) => {
    expect(await matched({ it: { patterns: [pattern] } }, query)).toHaveLength(isFound ? 1 : 0);
  });

  it("[Q-11] takes linear steps, also for a pattern that would hang other engines", async () => {
    const patterns = ["(a+)+$", "(a|aa)+$", "(.*a){20}"];
    const matcher = matcherFor({ evil: { patterns }, plain: { patterns: ["ab+c"] } });
    expect((await matcher.match(`${"a".repeat(5000)}!`, { limit: 0 })).matches).toHaveLength(1);
    await expectLinearSteps(
      MODULES,
      async ({ createMatcher, defineTestSkill }: Modules, [pattern, length]) => {
        await createMatcher([defineTestSkill("evil", { patterns: [pattern] })]).match(`${"a".repeat(length)}!`, {
          limit: 0,
        });
      },
      patterns.map((pattern) => [pattern, [1000, 2000, 4000].map((length) => [pattern, length] as const)] as const),
    );
  });
});

describe("a pattern in a negated clause", () => {
  const skills = { shop: { patterns: ["deploy(ing)?\\s+the\\s+shop"] } };
  it.each([
    "do not deploy the shop",
    "Please don't deploy the shop, just test it",
    "never deploy the shop",
    "You must not deploy the shop.",
    "no uses deploy the shop",
    "n'utilise pas deploy the shop",
  ])("does not select the skill: %j", async (query) => expect(await matched(skills, query)).toEqual([]));

  it.each([
    "deploy the shop",
    "it does not deploy the shop",
    "do not deploy the shop by hand; deploy the shop with the script",
    "do not wait, deploy the shop",
    "İ do not know: deploy the shop",
  ])("selects it in other clauses: %j", async (query) => expect(await matched(skills, query)).toHaveLength(1));
});

describe("paths", () => {
  const skills = (paths: string[]) => ({ it: { more: { paths } } });
  it.each([
    [["**/*.tsx"], "why does src/app/Button.tsx fail?", true],
    [["**/*.tsx"], "why does Button.tsx fail?", true],
    [["**/*.tsx"], "why does Button.ts fail?", false],
    [["src/*.ts"], "see ./src/a.ts.", true],
    [["src/*.ts"], "see src/b/a.ts", false],
    [["src/**"], "see `src/b/a.ts:12`", true],
    [["Dockerfile"], "mend the Dockerfile", true],
    [["**/*.js"], "help me with node.js performance", false],
    [["**/*.js"], "help me with server.js performance", true],
    [["*.{yml,yaml}"], "in ci.yaml", true],
    [["*.{yml,yaml}"], "in ci.json", false],
    [["*.{yml"], "in ci.yml", false],
    [["a?.md", "[!b]x.md"], "ax.md", true],
  ])("[X-07] %j in %j: %s", async (paths, query, isFound) => {
    expect(await matched(skills(paths), query)).toHaveLength(isFound ? 1 : 0);
  });

  it("[X-07] also match the files of the conversation", async () => {
    expect(await matched(skills(["docs/**/*.md"]), "tidy this", { files: ["docs/a/b.md"] })).toEqual([
      "it weak: path docs/**/*.md",
    ]);
  });
});

describe("mentions", () => {
  const skills = {
    deploy: {},
    "code-review": {},
    path: {},
    test: {},
    writing: {},
    docs: {},
    all: {},
    "deploy-app": {},
  };
  it.each([
    ["/deploy to prod", "deploy"],
    ["please run $deploy", "deploy"],
    ["(/deploy)", "deploy"],
    ["/Deploy.", "deploy"],
    ["use the deploy skill", "deploy"],
    ["Use the test skill", "test"],
    ["use the code review skill", "code-review"],
    ["use the `code-review` skill on this", "code-review"],
    ["do it with your deploy skill, please", "deploy"],
    ["/deploy app", "deploy"],
    ["/deploy-app now", "deploy-app"],
    ["could you please invoke the writing skill?", "writing"],
    ["Use the new deploy skill", "deploy"],
    ["can you utilize the deploy skill", "deploy"],
    ["it is not hard; use the deploy skill", "deploy"],
    ["run the skill deploy", "deploy"],
    ["use skill: deploy", "deploy"],
    ['load the skill called "code-review"', "code-review"],
    ["I test a lot; now use the test skill", "test"],
  ])("[T-03] %j mentions %s", async (query, name) => {
    expect((await matched(skills, query)).filter((line) => line.includes("explicit"))).toEqual([
      expect.stringMatching(new RegExp(`^${name} explicit: mention`)),
    ]);
  });

  it.each([
    "see /deploy/prod.yaml",
    "run ./deploy",
    "~/deploy",
    "/deploy.sh",
    "/deploy-all",
    "echo $PATH",
    "I want to test skill levels",
    "deploy it",
    "a skill to deploy",
    "deployskill",
    "improve my writing skills",
    "the skill test I took was hard",
    "use all skills",
    "what does the deploy skill do?",
    "look in /docs for it",
    "the endpoint /deploy is slow",
    "cd /deploy && ls",
    "my writing skill is poor",
  ])("%j mentions none", async (query) => {
    expect((await matched(skills, query)).filter((line) => line.includes("explicit"))).toEqual([]);
  });
});

describe("several mentions, and refusals", () => {
  const skills = { deploy: { keywords: ["ship"] }, review: {}, test: {} };
  it("takes every skill of a list", async () => {
    for (const query of [
      "use the deploy and review skills",
      "Use deploy, test and review skills",
      "run the deploy skill and the review skill",
    ]) {
      const names = (await matched(skills, query)).filter((line) => line.includes("explicit"));
      expect(names, query).toHaveLength(query.includes("test") ? 3 : 2);
    }
  });

  it.each([
    "don't use the deploy skill, just ship it",
    "Don’t use the deploy skill to ship",
    "ship it without the deploy skill",
    "never use the deploy skill to ship",
    "please don't ever use the deploy skill to ship",
    "stop using the deploy skill, ship it",
  ])("omits a skill that the query refuses: %j", async (query) => {
    const { matches, rejected: against } = await matcherFor(skills).match(query);
    expect(matches.filter(({ level }) => level !== "words")).toEqual([]);
    expect(against).toMatchObject([{ skill: { name: "deploy" }, cue: "not the deploy skill" }]);
  });
});

describe("refused calls", () => {
  it.each(["do not use /deploy", "don't /deploy yet", "not $deploy"])("%j", async (query) => {
    expect(await matched({ deploy: {} }, query)).toEqual([]);
  });
  it.each([
    "why not use the deploy skill?",
    "do not forget to use the deploy skill",
    "if you're not sure, use /deploy",
  ])("but not %j", async (query) => expect(await matched({ deploy: {} }, query)).toHaveLength(1));
});

describe("the order of matches", () => {
  it("[T-03] is explicit mention, then exact phrase, then trigger", async () => {
    const skills = {
      alpha: { keywords: ["report"] },
      beta: { keywords: ["weekly report"] },
      gamma: {},
      delta: { patterns: ["week\\w+"] },
    };
    expect(await matched(skills, "use the gamma skill for the weekly report")).toEqual([
      "gamma explicit: mention the gamma skill",
      "beta phrase: phrase weekly report",
      "alpha trigger: keyword report",
      "delta trigger: pattern week\\w+",
    ]);
  });

  it("[T-03, T-08] gives the level exact phrase to a name of several distinctive words or a whole example, not to its words", async () => {
    const skills = { "code-review": {}, "how-to": {}, other: { examples: ["How do I review code?"] } };
    expect(await matched(skills, "the code-review we had")).toEqual(["code-review phrase: name code-review"]);
    expect(await matched(skills, "do a code review")).toEqual(["code-review weak: name code-review"]);
    expect(await matched(skills, "how to do it")).toEqual([]);
    expect(await matched(skills, "how do i review CODE")).toEqual(["other phrase: example how do i review CODE"]);
    expect(await matched({ emoji: { examples: ["🚀"] } }, "👍")).toEqual([]);
    expect(await matched({ emoji: { examples: ["🚀"] } }, "")).toEqual([]);
  });

  it("[T-03] is recent use within a level, then common words, then the name", async () => {
    const skills = {
      alpha: { keywords: ["report"] },
      beta: { keywords: ["report"] },
      gamma: { keywords: ["report"], description: "Monthly sales." },
    };
    const names = async (query: string, recent: string[] = []) =>
      (await matched(skills, query, { recent })).map((line) => line.split(" ")[0]);
    expect(await names("report")).toEqual(["alpha", "beta", "gamma"]);
    expect(await names("report", ["gamma", "beta"])).toEqual(["gamma", "beta", "alpha"]);
    expect(await names("monthly sales report")).toEqual(["gamma", "alpha", "beta"]);
    expect(await names("monthly sales report", ["beta"])).toEqual(["beta", "gamma", "alpha"]);
    const talkative = { ...skills, beta: { keywords: ["report"], body: "monthly sales report" } };
    const order = async (bodies: boolean) => await matched(talkative, "monthly sales report", { bodies });
    expect(await order(true)).toEqual(await order(false));
  });
});

describe("negative cues", () => {
  const skills = { pdf: { keywords: ["pdf"], negative: ["merge", "no pdf"] } };
  it("exclude a skill, and are reported", async () => {
    const { matches, rejected: against } = await matcherFor(skills).match("merge this pdf");
    expect(matches).toEqual([]);
    expect(against).toMatchObject([{ skill: { name: "pdf" }, cue: "merge" }]);
    expect(await matched(skills, "sign this pdf")).toHaveLength(1);
  });

  it("do not exclude a skill that is mentioned", async () => {
    expect(await matched(skills, "merge it with the pdf skill")).toEqual(["pdf explicit: mention the pdf skill"]);
  });
});

describe("ranking by words", () => {
  const skills = {
    invoices: { description: "Creates invoices for customers." },
    "flight-search": {
      description: "Finds cheap flights.",
      more: { when_to_use: "When somebody travels to an airport." },
    },
    recipes: { description: "Suggests dishes.", examples: ["what can I cook with leeks?"] },
    notes: { description: "Keeps notes.", body: "Talk to the kubernetes cluster." },
  };
  const first = async (query: string, options = {}) => (await matcherFor(skills).match(query, options)).matches[0];

  it("matches other forms of a word, and considers its field", async () => {
    expect(await first("invoicing a customer")).toMatchObject({
      skill: { name: "invoices" },
      level: "words",
      words: 2,
    });
    expect((await first("invoicing a customer"))?.reasons).toEqual([{ kind: "words", text: "invoicing, customer" }]);
    expect((await first("cooking leek soup"))?.skill.name).toBe("recipes");
    expect(
      await matcherFor(skills).wordsIn(defineTestSkill("x", { description: "Finds flights." }), "a flight", {}),
    ).toEqual([{ field: "description", words: ["flight"] }]);
  });

  it("[X-07] includes when_to_use", async () => {
    expect((await first("I must be at the airport"))?.skill.name).toBe("flight-search");
  });

  it("searches the instructions on request", async () => {
    expect(await first("restart the k8s cluster")).toBeUndefined();
    expect((await first("restart the k8s cluster", { bodies: true }))?.skill.name).toBe("notes");
  });

  it("finds nothing for a query of function words", async () => {
    expect((await matcherFor(skills).match("can you please help me with this")).matches).toEqual([]);
    expect((await matcherFor(skills).match("")).matches).toEqual([]);
    expect((await createMatcher([]).match("anything")).matches).toEqual([]);
  });

  it("finds words of scripts without spaces", async () => {
    const japanese = { a: { description: "議事録を要約する" }, b: { description: "画像を編集する" } };
    expect((await matcherFor(japanese).match("会議の議事録をまとめて")).matches[0]?.skill.name).toBe("a");
  });
});

describe("a long query", () => {
  it("[Q-11] takes linear steps, and is cut at a limit that is reported", async () => {
    await expectLinearSteps(
      MODULES,
      async ({ createMatcher, defineTestSkill }: Modules, words: number) => {
        const skills = Array.from({ length: 300 }, (_, index) =>
          defineTestSkill(`s${index}`, {
            keywords: [`word${index} word${index}`, "word1 word2 word3"],
            patterns: [`word${index}\\s+x`],
          }),
        );
        await createMatcher(skills).match(Array.from({ length: words }, (_, index) => `word${index % 300}`).join(" "));
      },
      [["words", [200, 400, 800, 1600]]],
    );
    const matcher = matcherFor({ a: { keywords: ["word1"] } });
    expect((await matcher.match("word1 ".repeat(170_000))).isCut).toBe(true);
    expect((await matcher.match("short")).isCut).toBe(false);
  });
});

describe("patterns on a long text", () => {
  it("match as on the whole text, also across lines and blank lines", async () => {
    const filler = Array.from({ length: 80 }, (_, at) => `line ${at} of something that was pasted here`);
    const long = (...lines: string[]) => [...filler, ...lines, ...filler].join("\n");
    const cases: [pattern: string, lines: string[], isFound: boolean][] = [
      ["ship.*today", ["ship it today"], true],
      ["ship.*today", ["ship it", "today"], false],
      ["(?s)ship.*today", ["ship it", "today"], true],
      ["ship\\s+it\\s+today", ["ship", "", "  ", "it", "today"], true],
      ["(ship\\s+)+today", ["ship", "ship", "ship", "ship", "ship", "today"], true],
      ["ship[^x]+today", ["ship", "a", "b", "c", "d", "e", "today"], true],
      ["ship[\\s\\S]*today", ["ship", "a", "b", "c", "d", "e", "today"], true],
      ["^ship", ["ship"], false],
      ["(?m)^ship$", ["ship"], true],
      ["ship\\b", ["shipping"], false],
      ["SHIP\\d+", ["Ship42"], true],
    ];
    for (const [pattern, lines, isFound] of cases)
      expect(await matched({ it: { patterns: [pattern] } }, long(...lines)), `${pattern} ${lines}`).toHaveLength(
        isFound ? 1 : 0,
      );
  });
});

describe("a query that matches hundreds of skills", () => {
  const numbered = Array.from({ length: 150 }, (_, index) => String(index).padStart(3, "0"));
  const query = numbered.map((number) => `tool${number}`).join(" ");

  it("returns the best 100 that it selects, and reports that there are more", async () => {
    const skills = Object.fromEntries(numbered.map((number) => [`s${number}`, { keywords: [`tool${number}`] }]));
    const { matches, hasMore } = await matcherFor(skills).match(query, { limit: 0 });
    expect(matches.map(({ skill }) => skill.name)).toEqual(numbered.slice(0, 100).map((number) => `s${number}`));
    expect(hasMore).toBe(true);
    expect(await matcherFor(skills).match("tool000 tool001", { limit: 0 })).toMatchObject({ hasMore: false });
  });

  it("returns the best 100 at the level weak, in addition to those it selects", async () => {
    const common = Object.fromEntries(numbered.map((number) => [`s${number}`, { keywords: ["write"] }]));
    const { matches, hasMore } = await matcherFor({ ...common, only: { keywords: ["tool000"] } }).match(
      `write ${query}`,
    );
    expect(matches[0]?.skill.name).toBe("only");
    expect(matches.filter(({ level }) => level === "weak")).toHaveLength(100);
    expect(hasMore).toBe(true);
  });

  it("ranks a skill whose pattern does not match by its other triggers, or by words, or omits it", async () => {
    const skills = Object.fromEntries(numbered.map((number) => [`s${number}`, { keywords: [`tool${number}`] }]));
    const all = {
      ...skills,
      // Each needs texts that the query has, in their order, and does not match it.
      "a-first": { keywords: ["gadget"], patterns: ["tool000 +tool001 +tool003"] },
      "b-weak": { keywords: ["write"], patterns: ["tool001 +tool002 +tool004"] },
      "c-words": { description: "Handles zebra stripes", patterns: ["tool002 +tool003 +tool005"] },
      "d-nothing": { patterns: ["tool003 +tool004 +tool006"] },
    };
    const { matches } = await matcherFor(all).match(`write about zebra stripes and a gadget: ${query}`);
    const found = Object.fromEntries(matches.map((match) => [match.skill.name, said(match)]));
    expect(found["a-first"]).toBe("a-first trigger: keyword gadget");
    expect(found["b-weak"]).toBe("b-weak weak: keyword write");
    expect(found["c-words"]).toMatch(/^c-words words: words /);
    expect(found["d-nothing"]).toBeUndefined();
    expect(matches.filter(isSelectedMatch)).toHaveLength(100);
  });

  it("finds a weak skill after the 100 selected ones, even if its pattern comes close to a match", async () => {
    const skills = Object.fromEntries(numbered.map((number) => [`s${number}`, { keywords: [`tool${number}`] }]));
    const all = { ...skills, zoo: { keywords: ["write"], patterns: ["tool000 +tool001 +tool003"] } };
    const { matches } = await matcherFor(all).match(`write about ${query}`);
    expect(matches.filter(({ level }) => level === "weak").map(said)).toEqual(["zoo weak: keyword write"]);
  });
});
