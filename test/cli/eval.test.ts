import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readEvalReports } from "../../src/eval/eval-report.ts";
import { readTriggerQueries } from "../../src/skill/source/file-skill.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const query = (text: string, isFor: boolean, split = "test") => ({ query: text, should_trigger: isFor, split });
const files = {
  "skills/invoices/SKILL.md": skillText("invoices", {
    description: "Writes invoices for customers.",
    more: "triggers:\n  keywords: [invoice]\n",
  }),
  "skills/invoices/evals/triggers.json": JSON.stringify([
    query("write an invoice for Ann", true),
    query("bill my customer for May", true),
    query("reminders of unpaid bills to customers", true),
    query("charge them for the extra hours", true, "train"),
    query("what is an invoice?", false),
    query("book a flight", false),
  ]),
  "skills/reminders/SKILL.md": skillText("reminders", {
    description: "Keeps reminders for unpaid bills and other work.",
  }),
  "skills/plain/SKILL.md": skillText("plain"),
};
const evaluated = async (args: string[], more: Record<string, string> = {}) =>
  skillet(["eval", ...args], { cwd: temporaryFolder({ ...files, ...more }), env: { SKILLS_DIR: "none" } });

describe("skillet eval", () => {
  it("prints recall, listed tiers, false triggers, and competing skills", async () => {
    const { code, stdout, stderr } = await evaluated(["skills"]);
    expect(code).toBe(0);
    expect(stdout).toBe(
      "skill     queries     @1     @3     @5  @3 95 %      full  false  taken by\ninvoices        3   67 %  100 %  100 %  44-100 %     1/3    1/2  reminders 1x\n",
    );
    expect(stderr).toBe(
      "! invoices: fewer than 20 held-out queries, so the intervals are wide\nheld-out queries only; 1 training query serves as an example. full: its instructions were included immediately\n",
    );
  });

  it("stores the result with intervals, misses and competitors, and warns of few queries", async () => {
    const home = temporaryFolder();
    const cwd = temporaryFolder(files);
    await skillet(["eval", "skills", "--ci"], { cwd, env: { SKILLS_DIR: "none", HOME: home } });
    const [report, ...others] = readEvalReports(join(home, ".skillet"));
    expect(others).toEqual([]);
    expect(report).toMatchObject({
      version: 1,
      level: "route",
      passed: false,
      workspace: cwd,
      skills: [
        {
          name: "invoices",
          warnings: ["5 of the 20 queries that a rate needs: the intervals are wide"],
          misses: [
            { query: "reminders of unpaid bills to customers", shouldTrigger: true, rank: 2, takenBy: "reminders" },
            { query: "what is an invoice?", shouldTrigger: false },
          ],
        },
      ],
    });
    const [first] = report?.skills[0]?.rates ?? [];
    expect(first).toMatchObject({ name: "recall@1", successes: 2, total: 3 });
    expect(first?.low).toBeCloseTo(0.2077, 3);
    expect(first?.high).toBeCloseTo(0.9385, 3);
    writeFileSync(join(home, ".skillet/evals/20260101-000000-00000000.json"), "{");
    expect(readEvalReports(join(home, ".skillet"))).toHaveLength(1);
  });

  it("lists the misses", async () => {
    const { stdout } = await evaluated(["skills", "--misses"]);
    expect(stdout).toContain("    missed reminders of unpaid bills to customers  rank 2, first was reminders");
    expect(stdout).toContain("    false what is an invoice?");
  });

  it("indexes training queries as examples, but not held-out ones", async () => {
    const heldOut = await evaluated(["skills", "--json"], {
      "skills/invoices/evals/triggers.json": JSON.stringify([query("zorgle the frobnicator", true)]),
    });
    expect(JSON.parse(heldOut.stdout).all).toMatchObject({ queries: 1, recall: { 1: 0, 3: 0, 5: 0 } });
    const trained = await evaluated(["skills", "--json"], {
      "skills/invoices/evals/triggers.json": JSON.stringify([
        query("zorgle the frobnicator", true),
        query("please zorgle my frobnicators", true, "train"),
      ]),
    });
    expect(JSON.parse(trained.stdout)).toMatchObject({ training: 1, all: { queries: 1, recall: { 1: 1 } } });
  });

  it("splits queries without a set deterministically: adding one moves no other", () => {
    const plain = Array.from({ length: 40 }, (_, index) => ({ query: `query number ${index}`, should_trigger: true }));
    const heldOut = (queries: object[]) => {
      const folder = temporaryFolder({ "evals/triggers.json": `\ufeff${JSON.stringify(queries)}` });
      const read = readTriggerQueries(folder)?.queries ?? [];
      expect(read).toHaveLength(queries.length);
      return read.filter(({ isHeldOut }) => isHeldOut).map(({ query: text }) => text);
    };
    const before = heldOut(plain);
    expect(before.length).toBeGreaterThan(5);
    expect(before.length).toBeLessThan(25);
    const more = [{ query: "one more", should_trigger: false }, ...plain.toReversed()];
    expect(
      heldOut(more)
        .filter((text) => text !== "one more")
        .sort(),
    ).toEqual([...before].sort());
  });

  it("fails in CI below the threshold", async () => {
    const low = await evaluated(["skills", "--ci"]);
    expect(low.code).toBe(1);
    expect(low.stderr).toContain("✗ recall@3 100 %, false triggers 50 %; required at least 80 % and at most 20 %");
    expect((await evaluated(["skills", "--ci", "--threshold", "0.5"])).code).toBe(0);
    const fifth = await evaluated(["skills", "--ci"], {
      "skills/invoices/evals/triggers.json": JSON.stringify(
        ["what is an invoice?", "a", "b", "c", "d"].map((text) => query(text, false)),
      ),
    });
    expect(fifth.stderr).toContain("false triggers 20 %; required at least 80 % and at most 20 %");
    expect(fifth.code).toBe(0);
    expect((await evaluated(["skills", "--ci", "--threshold", "half"])).code).toBe(2);
    expect((await evaluated(["skills/plain", "--ci"])).code).toBe(1);
  });

  it("accepts one skill's folder, a name, or every skill", async () => {
    for (const args of [
      ["invoices"],
      [],
      ["skills/invoices"],
      ["skills/invoices/SKILL.md"],
      ["skills/invoices", "--all"],
      ["skills"],
    ]) {
      const { stdout } = await evaluated([...args, "--json"]);
      expect(JSON.parse(stdout), args.join(" ")).toMatchObject({
        skills: [{ name: "invoices", first: { 1: 2, 3: 3 }, takenBy: [{ skill: "reminders", times: 1 }] }],
      });
    }
    const missing = await evaluated(["invoice"]);
    expect([missing.code, missing.stderr]).toEqual([
      1,
      "✗ Skill 'invoice' not found  [not-found]\n  did you mean \"invoices\"?\n",
    ]);
  });

  it("omits disabled skills", async () => {
    const home = temporaryFolder({ ".skillet/config.toml": "[skills.reminders]\nenabled = false\n" });
    const { stdout } = await skillet(["eval", "--json"], {
      cwd: temporaryFolder(files),
      env: { SKILLS_DIR: "none", HOME: home },
    });
    expect(JSON.parse(stdout).skills).toMatchObject([{ name: "invoices", takenBy: [] }]);
  });

  it("lists nothing of a skill that a model may not invoke", async () => {
    const { stdout } = await evaluated(["skills/own", "--json"], {
      "skills/own/SKILL.md": skillText("own", {
        more: "disable-model-invocation: true\ntriggers:\n  keywords: [own]\n",
      }),
      "skills/own/evals/triggers.json": JSON.stringify([query("my own thing", true)]),
    });
    expect(JSON.parse(stdout).skills).toMatchObject([{ name: "own", queries: 1, told: 0 }]);
  });

  it("explains what to write when there is nothing to measure, and the error in a file", async () => {
    expect((await evaluated(["skills/plain"])).stderr).toContain("no skill has evals/triggers.json: write one as");
    const odd = await evaluated(["skills/plain", "--ci"], {
      "skills/plain/evals/triggers.json":
        '[{"query": "x"}, {"query": "plain thing", "should_trigger": true, "split": "test"}]',
    });
    expect(odd.stderr).toContain('! plain: evals/triggers.json has 1 of 2 entries without a "query"');
    expect(odd.stderr).toContain("; a query file is invalid");
    expect(odd.code).toBe(1);
    const broken = await evaluated(["skills/plain"], { "skills/plain/evals/triggers.json": "[" });
    expect(broken.stderr).toContain("! plain: evals/triggers.json is not valid JSON");
  });
});
