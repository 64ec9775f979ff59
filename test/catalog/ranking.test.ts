import { describe, expect, it } from "vitest";
import { createMatcher } from "../../src/catalog/search/matcher.ts";
import { defineTestSkill, type Sketch } from "../support/skills.ts";
import { countSteps, expectLinearSteps } from "../support/steps.ts";
import { evaluationMatcher, measureHits } from "./evaluation/measure.ts";
import { PASTES } from "./evaluation/pastes.ts";
import { EVALUATION_REQUESTS, type RequestKind } from "./evaluation/requests.ts";
import { EVALUATION_SKILLS } from "./evaluation/skills.ts";

const MODULES = ["src/catalog/search/matcher.ts", "test/catalog/evaluation/measure.ts"];
type Modules = { createMatcher: typeof createMatcher; evaluationMatcher: typeof evaluationMatcher };

const matcherFor = (skills: Record<string, Sketch>) =>
  createMatcher(Object.entries(skills).map(([name, parts]) => defineTestSkill(name, parts)));
const namesFor = async (skills: Record<string, Sketch>, query: string, bodies = true) =>
  (await matcherFor(skills).match(query, { bodies })).matches.map(({ skill }) => skill.name);

describe("the words of a query", () => {
  it("count as often as they occur", async () => {
    const skills = { invoices: { description: "Writes invoices." }, parcels: { description: "Sends parcels." } };
    expect((await namesFor(skills, "the parcel and the invoice: the invoice first, this invoice"))[0]).toBe("invoices");
    expect((await namesFor(skills, "the invoice and the parcel: the parcel first, this parcel"))[0]).toBe("parcels");
  });

  it("are the 48 most distinctive, however many there are", async () => {
    const words = Array.from(
      { length: 60 },
      (_, at) => `qu${"abcdefghij"[at % 10]}${"klmnop"[Math.floor(at / 10)]}xor`,
    );
    const rare = {
      all: { description: words.join(" ") },
      half: { description: words.slice(0, 30).join(" ") },
      other: {},
    };
    const { matches } = await matcherFor(rare).match(words.join(" "), { bodies: true });
    expect(matches.map(({ skill, words: count }) => `${skill.name} ${count}`)).toEqual(["all 48", "half 18"]);
  });

  it("count less in pasted text than in the request before or after it", async () => {
    const request = "please bill the customer for ten hours";
    const paste = `\`\`\`\n${"kubernetes pod restarted, deployment of the cluster failed\n".repeat(30)}\`\`\``;
    const skills = {
      billing: { description: "Bills a customer for hours." },
      clusters: { description: "Debugs a kubernetes cluster: deployment and pod." },
    };
    for (const query of [`${request}\n\n${paste}`, `${paste}\n\n${request}`])
      expect((await namesFor(skills, query))[0]).toBe("billing");
    expect((await namesFor(skills, paste))[0]).toBe("clusters");
  });

  it.each<[what: string, paste: string[]]>([
    ["a line between code", ["const pod = 1;", "", "kubernetes cluster deployment", "", "let b = {", "  c: 2,", "};"]],
    ["JSON", ["{", ...Array(9).fill('  "kubernetes": "the cluster deployment has a pod",'), "}"]],
    ["a diff", ["diff --git a/a.go b/a.go", ...Array(9).fill("+\tkubernetes cluster deployment pod"), "... 9 more"]],
    ["the head of a mail", ["From: Ann", "Subject: kubernetes cluster deployment pod", "", "Hello.", "x".repeat(300)]],
  ])("count less in %s, whatever is at the other end of the text", async (_, paste) => {
    const skills = {
      billing: { description: "Bills a customer for hours." },
      clusters: { description: "Debugs a kubernetes cluster: deployment and pod." },
    };
    const [request, text] = ["please bill the customer for ten hours", paste.join("\n").padEnd(300)];
    const read = await Promise.all(
      [`${request}\n\n${text}`, `${text}\n\n${request}`].map(async (query) => (await namesFor(skills, query))[0]),
    );
    expect(read).toEqual(["billing", "billing"]);
  });

  it("are also read at the end of a query that is too long to be read completely", async () => {
    const skills = {
      billing: { description: "Bills a customer for hours." },
      canal: { description: "History of a canal." },
    };
    const long = `${(PASTES[6] ?? "").repeat(30)}\n\nNow bill the customer for ten hours.`;
    expect(long.length).toBeGreaterThan(20_000);
    expect((await namesFor(skills, long))[0]).toBe("billing");
    expect(
      (await matcherFor({ it: { keywords: ["zeppelin"] } }).match(`${"x ".repeat(20_000)} zeppelin`)).matches,
    ).toHaveLength(1);
  });

  it("are found with a typo, if no skill has them as written", async () => {
    const skills = {
      invoices: { description: "Creates invoices." },
      kubernetes: { description: "Debugs kubernetes." },
    };
    expect(await namesFor(skills, "an invioce for Ann")).toEqual(["invoices"]);
    expect(await namesFor(skills, "my kuberntes is slow")).toEqual(["kubernetes"]);
    expect(await namesFor(skills, "my kuberntes is slow", false)).toEqual(["kubernetes"]);
    expect(await namesFor(skills, "a novice")).toEqual([]);
    expect(await namesFor({ ...skills, other: { description: "Kuberntes, misspelled." } }, "kuberntes")).toEqual([
      "other",
    ]);
  });

  it("are found as one word and as two", async () => {
    const one = { setup: { description: "Writes a devcontainer." }, other: { description: "Paints." } };
    const two = { setup: { description: "Writes a dev container." }, other: { description: "Paints." } };
    expect(await namesFor(one, "I want a dev container")).toEqual(["setup"]);
    expect(await namesFor(two, "I want a devcontainer")).toEqual(["setup"]);
  });

  it("include the names of file types", async () => {
    const skills = { sheets: { description: "Edits spreadsheets." }, slides: { description: "Makes presentations." } };
    expect(await namesFor(skills, "fix the totals in reports/q3.xlsx.")).toEqual(["sheets"]);
    expect(await namesFor(skills, "shorten deck.pptx")).toEqual(["slides"]);
    expect(await namesFor(skills, "fix src/main.py")).toEqual([]);
  });

  it("count more in Latin letters between Japanese or Chinese ones, whose endings do not count", async () => {
    const skills = {
      docker: { description: "Writes a Dockerfile." },
      japanese: { description: "日本語の文章をください。小さくしたいです。" },
    };
    expect((await namesFor(skills, "Dockerfileを小さくしたいです。見てください"))[0]).toBe("docker");
    expect(await namesFor(skills, "Dockerfile 请优化")).toEqual(["docker"]);
    expect(await namesFor(skills, "文章を直して")).toEqual(["japanese"]);
    expect(await namesFor({ one: { description: "絵" }, two: { description: "Docker" } }, "絵 Docker")).toEqual([
      "two",
      "one",
    ]);
  });

  it("do not count if they are function words of the query's language", async () => {
    const skills = { games: { description: "The player may die." }, rechnung: { description: "Rechnung, invoice." } };
    expect(await namesFor(skills, "Bitte schreibe die Rechnung für den Kunden")).toEqual(["rechnung"]);
    expect(await namesFor(skills, "why does the player die")).toEqual(["games"]);
  });
});

describe("a skill", () => {
  it("ranks first when the query has more of its name, and when its neighboring words match", async () => {
    const body = "Sorts names, lists, values.";
    const names = { "release-notes": { description: "Text.", body }, "meeting-notes": { description: "Text.", body } };
    expect((await namesFor(names, "notes for the release"))[0]).toBe("release-notes");
    const covered = { "fix-tests": { description: "Text.", body }, other: { description: "Tests, fix, slow.", body } };
    const others = Array.from({ length: 8 }, (_, at) => [`x${at}`, { description: at < 2 ? "Slow." : "Text.", body }]);
    expect((await namesFor({ ...covered, ...Object.fromEntries(others) }, "fix the slow tests"))[0]).toBe("fix-tests");
    const pairs = {
      apart: { description: "Tool.", body: "Check the access of users. Then the token. Refresh all." },
      beside: { description: "Tool.", body: "Check users. Then the access token. Refresh it all." },
    };
    expect((await namesFor(pairs, "the access token"))[0]).toBe("beside");
  });
});

describe("the cost of a query", () => {
  it("[Q-11] is limited by the most distinctive words: other words add no steps per document", async () => {
    const words = (count: number) =>
      EVALUATION_SKILLS.flatMap(({ body }) => body.split(/\W+/))
        .slice(0, count)
        .join(" ");
    const [none = 0, few = 0, many = 0] = await countSteps(
      MODULES,
      async ({ evaluationMatcher }: Modules, query: string) => {
        const matcher = evaluationMatcher(400);
        await matcher.match("warm", { bodies: true });
        await matcher.match(query, { bodies: true });
      },
      ["warm", words(400), words(1600)],
    );
    // Reading four times as many words, and no more of the index.
    expect(many - none).toBeLessThan(4.5 * (few - none));
  });

  it("[Q-11] is linear in the length of the query, also without a known word", async () => {
    await expectLinearSteps(
      MODULES,
      async ({ evaluationMatcher }: Modules, count: number) => {
        const unknown = Array.from({ length: count }, (_, at) => `qz${String.fromCharCode(97 + (at % 26))}xvkwq${at}`);
        await evaluationMatcher(64).match(unknown.join(" "), { bodies: true });
      },
      [["unknown words", [250, 500, 1000, 2000]]],
    );
  });
});

describe("the evaluation set", () => {
  it("has at least 60 skills and 300 requests, about half of them held out", () => {
    expect(EVALUATION_SKILLS.length).toBeGreaterThanOrEqual(60);
    expect(EVALUATION_REQUESTS.length).toBeGreaterThanOrEqual(300);
    const heldOut = EVALUATION_REQUESTS.filter(({ isHeldOut }) => isHeldOut).length;
    expect(heldOut / EVALUATION_REQUESTS.length).toBeGreaterThan(0.4);
    expect(heldOut / EVALUATION_REQUESTS.length).toBeLessThan(0.6);
    const names = new Set(EVALUATION_SKILLS.map(({ name }) => name));
    expect(EVALUATION_REQUESTS.filter(({ skill }) => !names.has(skill))).toEqual([]);
  });

  // Slightly below the measured values in docs/disclosure.md.
  it.each<[kinds: RequestKind[], first: number, five: number]>([
    [["short", "long"], 0.6, 0.72],
    [["paste"], 0.58, 0.78],
    [["typos"], 0.5, 0.75],
    [["german", "spanish", "japanese", "chinese"], 0.9, 0.97],
  ])("finds the skill among 3,000 for %j", async (kinds, first, five) => {
    const { at } = await measureHits(
      matcherOf3000(),
      EVALUATION_REQUESTS.filter(({ kind }) => kinds.includes(kind)),
    );
    expect(at[0]).toBeGreaterThanOrEqual(first);
    expect(at[2]).toBeGreaterThanOrEqual(five);
  });
});

let kept: ReturnType<typeof evaluationMatcher> | undefined;
function matcherOf3000() {
  kept ??= evaluationMatcher(3000);
  return kept;
}
