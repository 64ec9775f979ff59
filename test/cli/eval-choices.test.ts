import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { discover } from "../../src/config/discover.ts";
import { readEvalReports } from "../../src/eval/eval-report.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { MODEL, startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

const query = (text: string, isFor: boolean) => ({ query: text, should_trigger: isFor, split: "test" });
const QUERIES = [
  query("write an invoice for Ann", true),
  query("bill my customer", true),
  query("find the right one", true),
  query("what is an invoice?", false),
  query("book a flight", false),
];

async function scene(turns: Turn, config = "") {
  const server = await startModelServer("openai", turns);
  const home = temporaryFolder({
    ".skillet/config.toml": `${modelConfig("openai", server)}\n${config}`,
    ".skillet/skills/invoices/SKILL.md": skillText("invoices", {
      description: "Writes invoices for customers.",
      more: "triggers:\n  keywords: [invoice]\n",
      body: "SECRET INSTRUCTIONS of invoices.",
    }),
    ".skillet/skills/invoices/evals/triggers.json": JSON.stringify(QUERIES),
    ".skillet/skills/reminders/SKILL.md": skillText("reminders", { description: "Reminds customers of unpaid bills." }),
  });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  const run = (...args: string[]) =>
    skillet(["eval", "invoices", "--level", "trigger", ...args], {
      cwd: home,
      env: { HOME: home, SKILLS_DIR: "none" },
    });
  return { server, home, run };
}

/** A model that knows some queries, looks one up, and declines the others. */
const picks: Turn = ({ prompt, results }) => {
  if (prompt === "write an invoice for Ann")
    return [{ tool: "use_skill", input: { skill: "invoices", message: "Ann" } }];
  if (prompt === "bill my customer") return [{ tool: "load_skill", input: { skill: "reminders" } }];
  if (prompt === "what is an invoice?") return [{ tool: "load_skill", input: { skill: "invoices" } }];
  if (prompt !== "find the right one") return "I cannot do that.";
  if (results.length === 0) return [{ tool: "search_skills", input: { query: "invoices for customers" } }];
  expect(results[0]?.content).toContain("invoices");
  return [{ tool: "load_skill", input: { skill: "invoices" } }];
};

describe("skillet eval --level trigger", () => {
  it("reports which queries a model selects the skill for, and what it selects instead", async () => {
    const { run, home, server } = await scene(picks);
    const { code, stdout, stderr } = await run("--misses", "-k", "1");
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /plan: 5 held-out queries, each asked 1 time, \d+ skills to choose from, with openai-compatible\/test-model/,
    );
    expect(stdout).toContain("  picked          67 %  2/3  95 % 21-94 %\n  false triggers  50 %  1/2");
    expect(stdout).toContain("missed bill my customer  picked reminders");
    expect(stdout).toContain("false what is an invoice?");
    expect(stdout).toContain("! 5 of the 20 queries that a rate needs");
    expect(stdout).toContain("6 model calls, 60 input and 30 output tokens");
    expect(server.requests).toHaveLength(6);
    const [report] = readEvalReports(join(home, ".skillet"));
    expect(report).toMatchObject({
      level: "trigger",
      skills: [{ name: "invoices", rates: [{ name: "picked" }, { name: "false triggers" }] }],
    });
  });

  it("sends exactly the prompt and the tools of a conversation, without the instructions of a skill", async () => {
    const { run, server, home } = await scene(() => "no");
    await run("-k", "1");
    const asked = server.requests.length;
    for (const { instructions, context } of server.requests) expect(instructions + context).not.toContain("SECRET");
    const found = await discover({ workspace: home, env: { HOME: home, SKILLS_DIR: "none" }, index: false });
    const session = openSession(found.catalog, found);
    const conversation = createConversation(session, found);
    await conversation.send("book a flight");
    session.close();
    const [, real] = [server.requests[asked - 1], server.requests[asked]];
    const evaluated = server.requests.slice(0, asked).find(({ prompt }) => prompt === "book a flight");
    expect(evaluated?.instructions).toBe(real?.instructions);
    expect(evaluated?.context).toBe(real?.context);
    expect(evaluated?.tools).toEqual(real?.tools);
    // A skill that a conversation would show in full is only named.
    const triggered = server.requests.slice(0, asked).find(({ prompt }) => prompt === "write an invoice for Ann");
    expect(triggered?.context).toContain("- invoices: Writes invoices for customers.");
  });

  it("asks each query several times, decides by the majority, and warns if the outcomes differ", async () => {
    let count = 0;
    const changing: Turn = ({ prompt }) =>
      prompt === "bill my customer" && ++count !== 2 ? [{ tool: "load_skill", input: { skill: "invoices" } }] : "no";
    const { run } = await scene(changing);
    const { stdout } = await run("-k", "3");
    expect(stdout).toContain("picked          33 %  1/3");
    expect(stdout).toContain("! 1 query had different outcomes in different runs");
  });

  it("fails in CI below the threshold and above the share of false triggers", async () => {
    const { run } = await scene(picks);
    expect((await run("-k", "1", "--ci")).code).toBe(1);
    expect((await run("-k", "1", "--ci", "--threshold", "0.5")).code).toBe(0);
  });

  it("stops at a ceiling of limits.cost", async () => {
    const prices = `[prices."${MODEL}"]\ninput = 100000\noutput = 100000\n[limits.cost]\nday = 3\n`;
    const { run, server } = await scene(() => "no", prices);
    const { code, stderr } = await run("-k", "2", "--max-cost", "100");
    expect([code, stderr]).toEqual([4, expect.stringContaining("[cost-limit]")]);
    expect(server.requests).toHaveLength(2);
  });

  it("stops at the ceiling and counts only complete queries", async () => {
    const { run, server } = await scene(() => "no", `[prices."${MODEL}"]\ninput = 100000\noutput = 100000\n`);
    const { code, stderr } = await run("-k", "2", "--max-cost", "10");
    expect(code).toBe(4);
    expect(stderr).toContain("[eval-ceiling]");
    expect(stderr).toContain("! 3 queries were not asked 2 times and do not count");
    expect(server.requests).toHaveLength(7);
  });

  it("omits skills that cannot be used if none is named", async () => {
    const home = temporaryFolder();
    const { code, stderr } = await skillet(["eval", "--level", "trigger", "--dry-run"], {
      cwd: home,
      env: { HOME: home },
    });
    expect(stderr).toMatch(/· without [\w, -]*github[\w, -]*, which cannot be used here: see `skillet list`/);
    expect([code, stderr]).toEqual([0, expect.stringContaining("plan: ")]);
    const named = await skillet(["eval", "github", "--level", "trigger", "--dry-run"], {
      cwd: home,
      env: { HOME: home },
    });
    expect([named.code, named.stderr]).toEqual([1, expect.stringContaining("[disabled]")]);
  });
});
