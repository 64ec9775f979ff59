import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findSandboxProblem } from "../../src/adapters/claude/claude-home.ts";
import { evaluateWithClaude } from "../../src/adapters/claude/index.ts";
import { markdown } from "../../src/agent/prompts/prompt-section.ts";
import { skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import type { SkillEvent } from "../../src/host/events.ts";
import { Tool } from "../../src/skill/tool.ts";
import { CLAUDE_MODEL, claudeSdk, startClaudeApi } from "../support/claude-api.ts";
import { temporaryFolder } from "../support/folder.ts";
import { architecture, mixedPrompt, promptOf, task } from "./prompts.ts";
import { evaluated, processesIn, typesOf } from "./setting.ts";

describe("the end of an evaluation", () => {
  for (const [status, error, code] of [
    [400, "invalid_request_error", "model-refused"],
    [401, "authentication_error", "model-refused"],
    [529, "overloaded_error", "model-unreachable"],
  ] as const) {
    it(`is a result when the API answers ${status}`, async () => {
      const { result, events, parent } = await evaluated(mixedPrompt(), () => ({ status, error }));
      expect(result).toMatchObject({ stop: "error", isError: true, error: { code } });
      expect(result.content).toContain(`It is ${error}`);
      expect(result.error?.fix).not.toBe("");
      expect(events.at(-1)).toMatchObject({ type: "run-ended", stop: "error" });
      expect(typesOf(events).filter((type) => type === "run-started")).toHaveLength(1);
      expect(JSON.stringify([result, events])).not.toContain("test-key-of-nobody");
      expect(readdirSync(parent)).toEqual([]);
    });
  }

  it("explains how to sign in without a key", async () => {
    const { result } = await evaluated(promptOf(task), [], { env: { ANTHROPIC_API_KEY: undefined } });
    expect(result).toMatchObject({ stop: "error", isError: true });
    expect(result.error?.fix).toContain("set ANTHROPIC_API_KEY");
  });

  it("is the partial result at the limit of model calls", async () => {
    const { result, parent } = await evaluated(
      mixedPrompt(),
      () => ({ tool: "mcp__skillet__open_sections", input: { keys: ["skills.testing"] } }),
      { maxTurns: 2 },
    );
    expect(result).toMatchObject({ stop: "max-iterations", iterations: 2 });
    expect(result.content).toContain("The limit of 2 iterations was reached");
    expect(readdirSync(parent)).toEqual([]);
  });

  it("comes in time when the model does not answer", async () => {
    const { result, events, parent } = await evaluated(mixedPrompt(), () => ({ hangs: true }), { seconds: 2 });
    expect(result).toMatchObject({ stop: "timeout", isError: true });
    expect(result.content).toContain("The limit of 2 seconds was reached");
    expect(events.at(-1)).toMatchObject({ type: "run-ended", stop: "timeout" });
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-20] comes with an abort of its process, during a call, and leaves nothing", async () => {
    const parent = temporaryFolder();
    const { env } = await startClaudeApi([() => ({ tool: "mcp__skillet__sleep", input: {} })]);
    let isEnded = false;
    const sleep = Tool.define("sleep", {
      description: "Waits",
      parameters: { type: "object", properties: {} },
      execute: async (_: unknown, { signal }) => {
        const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        run.abort();
        await ended;
        isEnded = true;
        return "never";
      },
    });
    const section = markdown({ title: "Sleep", key: "sleep", template: "Sleep.", tools: [sleep] });
    const run = evaluateWithClaude(promptOf(section, skillsSection({ skills: [architecture] })), {
      ...{ env, cwd: temporaryFolder(), model: CLAUDE_MODEL, sdk: await claudeSdk(), isolation: { parent } },
    });
    const seen: SkillEvent[] = [];
    for await (const event of run) seen.push(event);
    expect(await run).toMatchObject({ stop: "aborted", isError: true });
    expect(seen.at(-1)).toMatchObject({ type: "run-ended", stop: "aborted" });
    expect(isEnded).toBe(true);
    expect(readdirSync(parent)).toEqual([]);
    // Deleted files stay deleted: no process writes any more.
    expect(processesIn(parent)).toEqual([]);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("comes with the answer, whatever would continue after it", async () => {
    const { result, requests } = await evaluated(
      promptOf(task),
      ({ prompt, results }) => {
        if (prompt.includes("Look for auks.")) return "None.";
        if (results.length > 0) return "Done.";
        const input = { description: "auks", prompt: "Look for auks.", subagent_type: "general-purpose" };
        return { tool: "Agent", input: { ...input, run_in_background: true } };
      },
      { tools: ["Agent"], allowedTools: ["Agent"] },
    );
    expect(result).toMatchObject({ content: "Done.", iterations: 2 });
    expect(requests).toHaveLength(3);
    expect(requests.at(-1)?.results[0]?.content).toContain("None.");
    // The usage of a sub-agent counts.
    expect(result.usage).toEqual({ inputTokens: 42, outputTokens: 21, cachedTokens: 12 });
  });

  it("starts nothing after an earlier abort", async () => {
    const { result, requests, parent } = await evaluated(mixedPrompt(), [], { signal: AbortSignal.abort() });
    expect(result).toMatchObject({ stop: "aborted", isError: true });
    expect(requests).toEqual([]);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("is a result when its process cannot start, or dies", async () => {
    const folder = temporaryFolder({ "dies.sh": "#!/bin/sh\necho 'I am ill' >&2\nexit 3\n" });
    chmodSync(join(folder, "dies.sh"), 0o755);
    for (const [name, said] of [
      ["dies.sh", /exited with code 3\. stderr: I am ill$/],
      ["missing", /missing/],
    ] as const) {
      const { result, parent } = await evaluated(mixedPrompt(), [], {
        sdkOptions: { pathToClaudeCodeExecutable: join(folder, name) },
      });
      expect(result).toMatchObject({ stop: "error", isError: true, error: { code: "claude-failed" } });
      expect(result.error?.message).toMatch(said);
      expect(readdirSync(parent)).toEqual([]);
    }
  });

  it("is a result when its process is killed while it works", async () => {
    const claude = join(import.meta.dirname, "node_modules/@anthropic-ai", programPackage(), "claude");
    const folder = temporaryFolder({ "killed.sh": `#!/bin/sh\necho $$ > "$0.pid"\nexec '${claude}' "$@"\n` });
    chmodSync(join(folder, "killed.sh"), 0o755);
    const kill = Tool.define("kill", {
      description: "Kills it, and never ends",
      parameters: { type: "object", properties: {} },
      execute: () => {
        process.kill(Number(readFileSync(join(folder, "killed.sh.pid"), "utf8")), "SIGKILL");
        return new Promise<string>(() => {});
      },
    });
    const section = markdown({ title: "Kill", key: "kill", template: "Kill.", tools: [kill] });
    const { result, events, parent } = await evaluated(
      promptOf(section),
      () => ({ tool: "mcp__skillet__kill", input: {} }),
      { sdkOptions: { pathToClaudeCodeExecutable: join(folder, "killed.sh") } },
    );
    expect(result).toMatchObject({ stop: "error", isError: true, error: { code: "claude-failed" } });
    // Every started call has an end event.
    const told = ["run-started", "tool-called", "tool-ended", "step-ended", "run-ended"];
    expect(typesOf(events)).toEqual(told);
    expect(events[2]).toMatchObject({ tool: "kill", isError: true });
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-28] starts no commands on a machine without a sandbox for them", async () => {
    // Neither bubblewrap nor any other sandbox is installed.
    const { result, requests } = await evaluated(mixedPrompt(), [], {
      ...{ tools: ["Bash"], allowedTools: ["Bash"], env: { PATH: temporaryFolder() } },
    });
    expect(requests).toEqual([]);
    expect(result).toMatchObject({ stop: findSandboxProblem() ? "refused" : "error", isError: true });
    expect(result.content).toMatch(/sandbox/i);
    const reading = await evaluated(mixedPrompt(), [() => "Done."], { env: { PATH: temporaryFolder() } });
    expect(reading.result.content).toBe("Done.");
  });
});

/** The package with the program for this system. */
function programPackage(): string {
  const names = readdirSync(join(import.meta.dirname, "node_modules/@anthropic-ai"));
  return names.find((name) => name.startsWith("claude-agent-sdk-")) ?? "";
}
