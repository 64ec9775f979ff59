import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

/** The manifest that the progressive-disclosure document gives as its example. */
const HELLO = `---
name: hello-extended
description: Extended greeting capabilities
version: 1.0.0
toolsets:
  - "toolsets/index:HelloToolset"     # path:Class format
triggers:
  keywords: ["hello", "greet", "greeting"]
  verbs: ["say", "wave"]
  patterns: ["greet\\\\s+\\\\w+"]
default_enabled: true
---

# Hello Extended Skill

Instructions for using this skill...
`;
const files = {
  "skills/hello-extended/SKILL.md": HELLO,
  "skills/party/SKILL.md": skillText("party", {
    description: "Plans events for a team.",
    more: "triggers:\n  keywords: [party]\n  negative: [no cake]\n",
  }),
  "skills/own/SKILL.md": skillText("own", { more: "disable-model-invocation: true\ntriggers:\n  keywords: [x]\n" }),
  "none/x": "",
};
const explain = (args: string[], more: Record<string, string> = {}) => {
  const cwd = temporaryFolder({ ...files, ...more });
  return skillet(["explain", ...args], { cwd, env: { SKILLS_DIR: "none" } });
};

describe("skillet explain", () => {
  it("[T-05] prints the text of a requested tier, whichever applies", async () => {
    expect((await explain(["greet the new team", "--tier", "none", "--text"])).stdout).toBe("");
    const counted = JSON.parse((await explain(["greet the new team", "--tier", "breadcrumb", "--json"])).stdout);
    expect(counted).toMatchObject({ tier: "breadcrumb", text: expect.stringMatching(/^\[\d+ skills available\]/) });
    const listed = await explain(["greet the new team", "--tier", "registry"]);
    expect(listed.stdout).toContain("this tier was requested");
    expect(listed.stdout).toContain("- party: Plans events for a team.");
    expect((await explain(["fix my bug", "--tier", "full"])).stdout).toContain("no instructions, because no skill is");
    expect(await explain(["x", "--tier", "some"])).toMatchObject({ code: 2 });
  });

  it("[T-08] reports the tier and the reason: the instructions of the triggered skill", async () => {
    const { code, stdout } = await explain(["greet the new team"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^full {2}the instructions of hello-extended: a skill is mentioned or triggered ~\d+ tokens$/m,
    );
    expect(stdout).toMatch(/^✓ {2}1 {2}hello-extended +trigger +keyword "greet", pattern "greet\\s\+\\w\+", words/m);
    expect(stdout).toMatch(/^· {2}2 {2}party +words +words .*team in its description/m);
    expect(stdout).toContain('│ <skill_content name="hello-extended">\n  │ # Hello Extended Skill');
    expect(stdout).toContain("own  only users can call it by name (disable-model-invocation)");
  });

  it("[T-01] takes a plain list of triggers as keywords, and check has nothing to report", async () => {
    const more = "triggers: [release notes, changelog]\n";
    const cwd = temporaryFolder({ "skills/notes/SKILL.md": skillText("notes", { more }) });
    const { stdout } = await skillet(["explain", "write the release notes", "--json"], {
      cwd,
      env: { SKILLS_DIR: "none" },
    });
    const { tier, shown, matches } = JSON.parse(stdout);
    expect([tier, shown]).toEqual(["full", ["notes"]]);
    const trigger = { kind: "phrase", text: "release notes", weight: 1, skills: 1, of: 1 };
    expect(matches[0].reasons).toContainEqual(trigger);
    const checked = await skillet(["check", "skills", "--json"], { cwd });
    expect([checked.code, JSON.parse(checked.stdout).files[0].diagnostics]).toEqual([0, []]);
  });

  it("[T-07] gives the list for a query that asks for all skills", async () => {
    const { stdout } = await explain(["list skills", "--text"]);
    expect(stdout).toBe(
      "[2 skills available]\n- hello-extended: Extended greeting capabilities\n- party: Plans events for a team.\n",
    );
  });

  it("[T-06] gives the breadcrumb for a query without a match", async () => {
    expect((await explain(["fix my bug", "--text"])).stdout).toBe("[2 skills available]\n");
    expect((await explain(["fix my bug"])).stdout).toMatch(
      /^breadcrumb {2}the number of skills, 2: nothing is triggered/,
    );
  });

  it("[T-05] gives nothing without skills", async () => {
    const { stdout } = await skillet(["explain", "hello", "--text"], {
      cwd: temporaryFolder({}),
      env: { SKILLS_DIR: "none" },
    });
    expect(stdout).toBe("");
  });

  const broad = {
    "skills/style/SKILL.md": skillText("style", { more: 'paths: ["**/*.py"]\n' }),
    "skills/any/SKILL.md": skillText("any", {
      more: 'triggers:\n  keywords: [write, docker]\n  patterns: ["\\\\?$"]\n',
    }),
    "skills/canvas-design/SKILL.md": skillText("canvas-design"),
    ...Object.fromEntries(
      Array.from({ length: 9 }, (_, index) => [
        `skills/d${index}/SKILL.md`,
        skillText(`d${index}`, { description: "Does something with docker. Use when asked." }),
      ]),
    ),
  };

  it("[T-08] explains why a trigger did not include the instructions, with its weight", async () => {
    const query = "write a docker file for src/a.py and a canvas design, will you?";
    const { stdout } = await explain([query], broad);
    const text = stdout.replace(/\s+/g, " ");
    expect(text).toMatch(/^registry .*: no trigger that matches is selective enough, and \d+ skills have no triggers/);
    expect(text).toContain("Not selective enough: ranked, never included in full");
    expect(text).toContain('keyword "write" (weight 0.20, too common: a common word)');
    expect(text).toMatch(/keyword "docker" \(weight 0\.2\d, too common: in 10 of \d\d skills\)/);
    expect(text).toContain('pattern "\\?$" (weight 0.20, too common: no specific word)');
    expect(text).toContain('path "**/*.py" (weight 0.20, a glob alone)');
    expect(text).toContain('name "canvas-design" (weight 0.20, a name mentioned in passing)');
    expect((await explain([query, "--skill", "style"], broad)).stdout).toMatch(
      /^style {2}weak, rank \d+\n {2}path "\*\*\/\*\.py" \(weight 0\.20, a glob alone\)/,
    );
  });

  it("[T-08] explains that in JSON too", async () => {
    const { stdout } = await explain(["write a docker file for src/a.py", "--json"], broad);
    const { matches } = JSON.parse(stdout);
    const reasonsOf = (skill: string) => matches.find(({ name }: { name: string }) => name === skill);
    expect(reasonsOf("style")).toMatchObject({
      level: "weak",
      weight: 0.2,
      isShown: false,
      reasons: [{ kind: "path", text: "**/*.py", weight: 0.2, weak: "glob" }],
    });
    expect(reasonsOf("any").reasons).toEqual([
      { kind: "keyword", text: "write", weight: 0.2, weak: "common-word" },
      { kind: "keyword", text: "docker", weight: expect.any(Number), weak: "many-skills", skills: 10, of: 15 },
    ]);
  });

  it("reports that more skills match than it shows", async () => {
    const names = Array.from({ length: 110 }, (_, index) => `tool${index + 100}`);
    const many = names.map((name): [string, string] => [
      `skills/${name}-x/SKILL.md`,
      skillText(`${name}-x`, { more: `triggers:\n  keywords: [${name}]\n` }),
    ]);
    const { stdout } = await explain([names.join(" ")], Object.fromEntries(many));
    expect(stdout).toContain("! more skills match; only the best 100 are shown");
    expect(stdout).toContain("tool199-x");
    expect(stdout).not.toContain("tool200-x");
    expect(stdout).toContain("tool112-x, and at least 87 more]");
    const one = await explain([names.join(" "), "--skill", "tool205-x"], Object.fromEntries(many));
    expect(one.stdout).toContain("it does not match, or 100 other skills match better");
  });

  it("prints everything as JSON", async () => {
    const { stdout } = await explain(["party with no cake, say hello and greet them", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      query: "party with no cake, say hello and greet them",
      isCut: false,
      hasMore: false,
      tier: "full",
      shown: ["hello-extended"],
      matches: [
        {
          name: "hello-extended",
          level: "trigger",
          rank: 1,
          isShown: true,
          weight: 1,
          reasons: [
            { kind: "keyword", text: "greet", weight: 1, skills: 1, of: 3 },
            { kind: "pattern", text: "greet\\s+\\w+", weight: 1 },
            { kind: "verb", text: "say", weight: 0.2, weak: "common-word" },
            { kind: "keyword", text: "hello", weight: 0, weak: "common-word" },
          ],
        },
      ],
      notConsidered: [
        { name: "party", reason: '"no cake" in the query excludes it' },
        { name: "own", reason: expect.any(String) },
      ],
      text: expect.stringContaining("Instructions for using this skill"),
    });
  });

  it("explains one skill, also one that did not match", async () => {
    expect((await explain(["greet them", "--skill", "hello-extended"])).stdout).toMatch(
      /^hello-extended {2}trigger, rank 1, included in full\n {2}keyword "greet"/,
    );
    const { stdout } = await explain(["fix my bug", "--skill", "party"]);
    expect(stdout).toMatch(/^party {2}not matched\n/);
    expect(stdout).toMatch(/keywords +party/);
    expect((await explain(["x", "--skill", "own"])).stdout).toContain("own  not considered");
    const broken = { "skills/broken/SKILL.md": "---\nname: broken\n---\n\nNo description.\n" };
    expect((await explain(["x"], broken)).stdout).toContain("skills/broken/SKILL.md  did not load: has no description");
    expect((await explain(["x", "--skill", "broken"], broken)).stderr).toContain("Skill 'broken' did not load");
    const missing = await explain(["x", "--skill", "prty"]);
    expect([missing.code, missing.stderr]).toEqual([
      1,
      "✗ Skill 'prty' not found  [not-found]\n  did you mean \"party\"?\n",
    ]);
  });

  it("accepts a budget, a number of skills, files and the short list", async () => {
    const many = Object.fromEntries(
      Array.from({ length: 200 }, (_, index) => [`skills/s-${index}/SKILL.md`, skillText(`s-${index}`)]),
    );
    const { stdout } = await explain(["list skills", "--budget", "1500", "--json"], many);
    const { tokens, text, cut } = JSON.parse(stdout);
    expect(tokens).toBeLessThanOrEqual(1500);
    for (let index = 0; index < 200; index++) expect(text).toMatch(new RegExp(`\\bs-${index}\\b`));
    expect(cut.names).toBe(0);
    expect((await explain(["list skills", "--budget", "900"], many)).stdout).toMatch(
      /^! to fit: \d+ descriptions shortened, \d+ descriptions omitted$/m,
    );
    expect((await explain(["greet everybody at the party", "--max-skills", "1"])).stdout).toContain(
      "[Also matching, not shown: party]",
    );
    expect((await explain(["an event for a team", "--shortlist", "--text"])).stdout).toContain("- party: Plans events");
    const globbed = { "skills/g/SKILL.md": skillText("g", { more: 'paths: ["*.go"]\n' }) };
    expect((await explain(["tidy up", "--file", "cmd/main.go"], globbed)).stdout).toContain('path "*.go"');
  });

  it("[A-03] prints the part for every query and the part for this one, with their tokens, and what was shortened", async () => {
    const plain = Object.fromEntries(
      Array.from({ length: 20 }, (_, index) => [
        `skills/s-${index}/SKILL.md`,
        skillText(`s-${index}`, {
          description: `Sorts shelf ${index} in the library (by author, title, or color) for readers. Use when shelf ${index} is untidy.`,
        }),
      ]),
    );
    const zebra = {
      "skills/zebra/SKILL.md": skillText("zebra", { description: "Counts stripes. Use when stripes matter." }),
    };
    const args = ["how many stripes", "--listing-budget", "400"];
    const { stdout } = await explain(args, { ...plain, ...zebra });
    expect(stdout).toMatch(/^! to fit: \d+ descriptions shortened$/m);
    expect(stdout).toMatch(/^The same for every query ~\d+ tokens$/m);
    expect(stdout).toMatch(
      /^For this query ~\d+ tokens\n {2}│ These may fit\. Take one, or none:\n {2}│ - zebra: Counts stripes\. Use/m,
    );
    expect(stdout).toMatch(/^\+ +1 +zebra +words/m);
    const { prefix, suffix, text, listed, shortlist } = JSON.parse(
      (await explain([...args, "--json"], { ...plain, ...zebra })).stdout,
    );
    expect(prefix.text + suffix.text).toBe(text);
    expect(prefix.tokens).toBeLessThanOrEqual(400);
    expect(prefix.text.match(/Use when shelf \d+ is untidy/g)).toHaveLength(20);
    expect(listed.shortened).toBeGreaterThan(10);
    expect(shortlist).toEqual(["zebra"]);
    expect((await explain([...args, "--text"], { ...plain, ...zebra })).stdout).toBe(`${text}\n`);
  });

  it("reports that a long query was cut, and refuses an invalid number", async () => {
    expect((await explain([`hello ${"x ".repeat(20_000)}`])).stdout).toContain(
      "! only the first 16,000 and the last 4,000 characters of the query were used",
    );
    const { code, stderr } = await explain(["x", "--budget", "lots"]);
    expect([code, stderr]).toEqual([
      2,
      '✗ --budget takes a whole number, not "lots"  [usage]\n  for example --budget 3\n',
    ]);
  });

  it("prints no control sequence of a query or a skill", async () => {
    const { stdout } = await explain(["hello \x1b[31m\u202e party"], {
      "skills/e/SKILL.md": skillText("e", { body: "\x1b]0;title\x07 hi", more: "triggers:\n  keywords: [hello]\n" }),
    });
    expect(stdout).not.toMatch(/[\x1b\x07\u202e]/);
  });
});

describe("skillet list --prompt", () => {
  it("[S-14] prints the section of a system prompt", async () => {
    const { stdout } = await skillet(["list", "--prompt"], {
      cwd: temporaryFolder(files),
      env: { SKILLS_DIR: "none" },
    });
    expect(stdout).toBe(`## Skills

Before replying, check if any available skill matches the user's request.
If one clearly applies, invoke it with \`use_skill\`. If none apply, respond directly.

- **hello-extended**: Extended greeting capabilities
- **party**: Plans events for a team.
`);
  });
});
