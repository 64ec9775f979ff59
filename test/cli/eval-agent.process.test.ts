import { chmodSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readAgentOutput, splitCommand } from "../../src/eval/agent-arm.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

/** A program that behaves like an agent: it succeeds only if the skill is in its folder, and prints JSON like `claude -p`. */
const AGENT = `#!/bin/sh
{ echo "$HOME|$SECRET|$ANTHROPIC_API_KEY|$*"; ls "$HOME/.claude/skills/sums" 2>&1; } >> "$(dirname "$0")/seen"
if [ -f "$HOME/.claude/skills/sums/SKILL.md" ]; then printf 3 > total.txt; fi
echo '{"type":"result","result":"done","total_cost_usd":0.5,"usage":{"input_tokens":7,"cache_read_input_tokens":3,"output_tokens":2}}'
`;

async function scene(agent = AGENT) {
  const home = temporaryFolder();
  const cwd = temporaryFolder({
    "bin/claude": agent,
    "skills/sums/SKILL.md": skillText("sums"),
    "skills/sums/evals/tasks.yaml":
      "version: 1\ntrials: 6\ncases:\n  - { name: total, prompt: Write the sum., graders: [{ file: { path: total.txt, equals: '3' } }] }\n",
  });
  chmodSync(join(cwd, "bin/claude"), 0o755);
  const env = { HOME: home, PATH: `${join(cwd, "bin")}:/usr/bin:/bin`, SECRET: "hidden", ANTHROPIC_API_KEY: "key-1" };
  const run = (...args: string[]) =>
    skillet(["eval", "skills/sums", "--level", "task", "--trust", ...args], { cwd, env });
  return { run, home, cwd, seen: () => readFileSync(join(cwd, "bin/seen"), "utf8").trim().split("\n") };
}

describe("skillet eval --level task --agent", () => {
  it("lets another agent do the tasks in its own home, with and without the skill", async () => {
    const { run, home, seen } = await scene();
    const { code, stdout, stderr } = await run(
      "--agent",
      "claude -p {prompt} --output-format json",
      "--max-cost",
      "50",
    );
    expect(stderr).toContain("12 trials, with claude -p {prompt} --output-format json");
    expect(stdout).toMatch(/helps {2}\+100 points/);
    expect(stdout).toContain("12 model calls, 120 input and 24 output tokens, $6.0000");
    expect(code).toBe(0);
    expect(seen().some((line) => line === "SKILL.md")).toBe(true);
    const started = seen().filter((line) => line.includes("|"));
    for (const line of started) {
      const [itsHome, secret, key, args] = line.split("|");
      expect(itsHome).not.toBe(home);
      expect([secret, key, args]).toEqual(["", "key-1", "-p Write the sum. --output-format json"]);
    }
    expect(new Set(started.map((line) => line.split("|")[0])).size).toBe(started.length);
  });

  it("puts the skill into the folder of the agent, and says if it reports no cost", async () => {
    const { cwd, run } = await scene(
      `#!/bin/sh\nls "$HOME/.codex/skills/sums/SKILL.md" && printf 3 > total.txt; exit 0\n`,
    );
    renameSync(join(cwd, "bin/claude"), join(cwd, "bin/codex"));
    const { code, stdout, stderr } = await run("--agent", "codex exec", "-k", "2");
    expect(stdout).toContain("skill    100 %  2/2");
    expect(stdout).toContain("none       0 %  0/2");
    expect(stderr).toContain("! codex reports no cost, so no ceiling in dollars holds");
    expect(code).toBe(0);
  });

  it("starts no trial once the cost that the agent reports has reached the ceiling", async () => {
    const { run, seen } = await scene();
    const { code, stderr } = await run("--agent", "claude -p", "--max-cost", "2");
    expect([code, stderr]).toEqual([4, expect.stringContaining("[eval-ceiling]")]);
    expect(seen().filter((line) => line.includes("|"))).toHaveLength(4);
  });

  it("reports an agent that cannot be started or gives no answer, before more is spent", async () => {
    const { run } = await scene("#!/bin/sh\necho 'no key' >&2; exit 3\n");
    const failed = await run("--agent", "claude -p");
    expect([failed.code, failed.stderr]).toEqual([
      4,
      expect.stringContaining("claude ended with 3: no key  [agent-failed]"),
    ]);
    const missing = await run("--agent", "no-such-agent -p");
    expect([missing.code, missing.stderr]).toEqual([
      1,
      expect.stringContaining('The program "no-such-agent" of --agent was not found'),
    ]);
  });

  it("reads the output of agents as JSON or text, and splits command lines without a shell", () => {
    expect(readAgentOutput("plain\n")).toEqual({
      answer: "plain",
      usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
    });
    expect(readAgentOutput('[{"type":"system"},{"type":"result","result":"x"}]').answer).toBe("x");
    const codex = [
      '{"type":"thread.started","thread_id":"1"}',
      '{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"cat SKILL.md"}}',
      '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"It is 3."}}',
      '{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":4,"output_tokens":10}}',
    ];
    expect(readAgentOutput(codex.join("\n"))).toEqual({
      answer: "It is 3.",
      usage: { inputTokens: 20, outputTokens: 10, cachedTokens: 4 },
    });
    const gemini = {
      response: "It is 3.",
      stats: {
        models: { "gemini-2.5-flash": { tokens: { prompt: 10, candidates: 5, cached: 2, thoughts: 1, total: 16 } } },
      },
    };
    expect(readAgentOutput(JSON.stringify(gemini, null, 2))).toEqual({
      answer: "It is 3.",
      usage: { inputTokens: 10, outputTokens: 6, cachedTokens: 2 },
    });
    expect(splitCommand(`codex exec "a b" 'c "d"' $HOME;ls`)).toEqual(["codex", "exec", "a b", 'c "d"', "$HOME;ls"]);
  });
});
