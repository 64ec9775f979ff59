import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const lines = (...entries: object[]) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
const user = (content: unknown, more = {}) => ({ type: "user", message: { role: "user", content }, ...more });
const calls = (name: string, input: object) => ({
  type: "assistant",
  message: { role: "assistant", content: [{ type: "tool_use", id: "a", name, input }] },
});
const listing = (content: string) => ({ type: "attachment", attachment: { type: "skill_listing", content } });
const said = (role: string, text: string) => ({
  type: "response_item",
  payload: { type: "message", role, content: [{ type: "input_text", text }] },
});

const claude = lines(
  { type: "summary", summary: "x" },
  listing("- invoices: Writes invoices.\n- other:deploy\n- unknown: Is not here."),
  user("write an invoice for Ann with password=hunter22"),
  calls("Bash", { command: "ls" }),
  user([{ type: "tool_result", content: "x" }]),
  user("write an invoice for Bob"),
  calls("Skill", { skill: "invoices" }),
  user("<command-name>/deploy</command-name>"),
  user("what time is it?"),
  user("an invoice in a sub-agent", { isSidechain: true }),
);
const codex = lines(
  { type: "session_meta", payload: { id: "1" } },
  said(
    "developer",
    "<skills_instructions>\n## Skills\n- invoices: Writes invoices. (file: /x/invoices/SKILL.md)\n- deploy: (file: /x/deploy/SKILL.md)\n",
  ),
  said("user", "<environment_context>cwd</environment_context>"),
  said("user", "write an invoice for Cid"),
  {
    type: "response_item",
    payload: {
      type: "function_call",
      name: "exec_command",
      arguments: '{"cmd":"cat ~/.codex/skills/invoices/SKILL.md"}',
    },
  },
  said("user", "invoice number 7"),
);

function place(more: Record<string, string> = {}) {
  const home = temporaryFolder({
    ".skillet/skills/invoices/SKILL.md": skillText("invoices", { more: "triggers:\n  keywords: [invoice]\n" }),
    ".skillet/skills/deploy/SKILL.md": skillText("deploy", { more: "triggers:\n  keywords: [deployment]\n" }),
    ".claude/projects/p/one.jsonl": `${claude}{broken\n`,
    ".codex/sessions/2026/11/rollout-1.jsonl": codex,
    ".codex/sessions/2026/11/other.jsonl": "{}",
    ...more,
  });
  return {
    home,
    run: (args: string[], ask?: (question: string) => Promise<string>) =>
      skillet(["mine", ...args], { cwd: home, env: { HOME: home }, ...(ask ? { ask } : {}) }),
  };
}

describe("skillet mine", () => {
  it("reports how often a skill was listed, used and missed, in the transcripts of both clients", async () => {
    const { run } = place();
    const { code, stdout, stderr } = await run(["invoices", "deploy"]);
    expect(code).toBe(0);
    expect(stderr).toBe("2 sessions with 6 prompts\n! 1 line could not be read\n");
    expect(stdout).toBe(
      [
        "skill     listed  name only  used  missed",
        "deploy         0          2     1       0",
        "invoices       2          0     2       2",
        "    missed write an invoice for Ann with password=[secret]",
        "    missed invoice number 7",
        "",
      ].join("\n"),
    );
  });

  it("reads what Claude Code and Codex wrote: one session uses the skill, one misses it, one does not need it", async () => {
    const folder = join(import.meta.dirname, "../fixtures/clients/transcripts");
    const read = (client: string, to: string) =>
      [1, 2, 3].map(
        (at) => [`${to}-${at}.jsonl`, readFileSync(join(folder, `${client}-${at}.jsonl`), "utf8")] as const,
      );
    const home = temporaryFolder({
      ".skillet/skills/sums/SKILL.md": skillText("sums", { more: "triggers:\n  keywords: [ledger]\n" }),
      ".skillet/skills/letters/SKILL.md": skillText("letters", { description: "Writes letters to customers." }),
      ...Object.fromEntries([
        ...read("claude", ".claude/projects/-home-user-work/session"),
        ...read("codex", ".codex/sessions/2026/11/19/rollout"),
      ]),
    });
    for (const client of ["claude", "codex"]) {
      const args = ["mine", "sums", "letters", "--client", client, "--json"];
      const { stdout } = await skillet(args, { cwd: home, env: { HOME: home } });
      expect(JSON.parse(stdout)).toEqual({
        ...{ sessions: 3, prompts: 3, unreadable: 0 },
        skills: [
          { skill: "letters", listed: 3, listedByName: 0, used: 0, missed: [] },
          {
            skill: "sums",
            listed: 3,
            listedByName: 0,
            used: 1,
            missed: ["Guess what the ledger of March adds up to."],
          },
        ],
      });
    }
  });

  it("reads one client, or recent transcripts only, and prints JSON", async () => {
    const { run } = place();
    const mined = JSON.parse((await run(["invoices", "--client", "codex", "--json"])).stdout);
    expect(mined).toMatchObject({ sessions: 1, prompts: 2, unreadable: 0 });
    expect(mined.skills).toEqual([
      { skill: "invoices", listed: 1, listedByName: 0, used: 1, missed: ["invoice number 7"] },
    ]);
    const future = await run(["--since", "2999-01-01"]);
    expect(future.stdout).toBe("none of these skills occurs in the transcripts\n");
  });

  it("adds a missed prompt to the queries of the skill only after the user confirms it", async () => {
    const { home, run } = place({
      ".skillet/skills/invoices/evals/triggers.json": '[{"query": "old", "should_trigger": true}]',
    });
    const asked: string[] = [];
    const { stderr } = await run(["invoices", "--add"], async (question) => {
      asked.push(question);
      return question.includes("number 7") ? "y" : "n";
    });
    expect(asked).toHaveLength(2);
    expect(stderr).toContain("✓ 1 query added to ");
    const entries = JSON.parse(readFileSync(join(home, ".skillet/skills/invoices/evals/triggers.json"), "utf8"));
    expect(entries).toEqual([
      { query: "old", should_trigger: true },
      { query: "invoice number 7", should_trigger: true },
    ]);
    expect((await run(["--add"])).code).toBe(2);
  });
});
