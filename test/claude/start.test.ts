import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ClaudeOptions, type ClaudeSdk, loadClaudeSdk } from "../../src/adapters/claude/claude-sdk.ts";
import { evaluateWithClaude } from "../../src/adapters/claude/index.ts";
import { skillRef, skillsSection } from "../../src/agent/prompts/skill-sections.ts";
import { SkillInstallationError } from "../../src/store/atomic-folder.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { mixedPrompt, promptOf, task } from "./prompts.ts";

/** Evaluates a prompt without Claude's process, and returns the options of its start. `test:long` starts it. */
async function startedWith(options: ClaudeOptions) {
  const started: { prompt: string; skills: string[]; servers: string[] }[] = [];
  const query: ClaudeSdk["query"] = ({ prompt, options }) => ({
    async *[Symbol.asyncIterator]() {
      const first = await prompt[Symbol.asyncIterator]().next();
      const skills = join(options.env.CLAUDE_CONFIG_DIR ?? join(options.env.HOME, ".claude"), "skills");
      started.push({
        prompt: first.value.message.content,
        skills: existsSync(skills) ? readdirSync(skills, { recursive: true, encoding: "utf8" }).sort() : [],
        servers: Object.keys(options.mcpServers ?? {}),
      });
      yield* [];
    },
  });
  const result = await evaluateWithClaude(mixedPrompt(), { cwd: temporaryFolder(), sdk: { query }, ...options });
  return { result, started };
}

describe("the start options of Claude", () => {
  it("[N-21, N-11] have native skills in its home, the summary of others in the prompt, and their tools on an MCP server", async () => {
    const { result, started } = await startedWith({ isolation: { parent: temporaryFolder() } });
    expect(started).toEqual([
      {
        prompt: expect.stringMatching(
          /^## Task\n\nLook at the code\.\n\n## Skills\n\n### Testing\n\n\[Skill: testing\]/,
        ),
        skills: ["architecture", "architecture/SKILL.md"],
        servers: ["skillet"],
      },
    ]);
    expect(started[0]?.prompt).not.toContain("kestrel");
    expect(result).toMatchObject({ installed: ["architecture"], warnings: [] });
  });

  it("[N-12] have summaries of all skills without isolation, and a warning only if skills were to be installed", async () => {
    const HOME = temporaryFolder();
    const warned = await startedWith({ isolation: false, env: { HOME } });
    const silent = await startedWith({ isolation: { parent: temporaryFolder(), installSkills: false } });
    for (const { started, result } of [warned, silent]) {
      expect(started).toMatchObject([{ skills: [], servers: ["skillet"] }]);
      expect(started[0]?.prompt).toContain("[Skill: architecture] System architecture principles.");
      expect(started[0]?.prompt).toContain("[Skill: testing]");
      expect(result.installed).toEqual([]);
    }
    const message = "Skills installation requires hermetic isolation";
    expect(warned.result.warnings).toEqual([expect.objectContaining({ code: "skills-not-installed", message })]);
    expect(silent.result.warnings).toEqual([]);
    expect(readdirSync(HOME)).toEqual([]);
  });
});

describe("a refused evaluation", () => {
  it("names the command to install the missing SDK, and leaves nothing", async () => {
    const [parent, cwd] = [temporaryFolder(), temporaryFolder()];
    const result = await evaluateWithClaude(mixedPrompt(), { cwd, isolation: { parent } });
    expect(result).toMatchObject({ stop: "refused", isError: true });
    expect(result.refusals).toEqual([
      {
        code: "claude-sdk-missing",
        message: "@anthropic-ai/claude-agent-sdk is not installed",
        fix: "run: npm install @anthropic-ai/claude-agent-sdk",
      },
    ]);
    expect(readdirSync(parent)).toEqual([]);
  });

  it("reports a missing working folder", async () => {
    const parent = temporaryFolder();
    const sdk = { query: () => ({ async *[Symbol.asyncIterator]() {} }) };
    const result = await evaluateWithClaude(mixedPrompt(), { cwd: join(parent, "gone"), isolation: { parent }, sdk });
    expect(result).toMatchObject({ stop: "refused", refusals: [{ code: "cwd-missing" }] });
    expect(result.content).toContain(join(parent, "gone"));
    expect(readdirSync(parent)).toEqual([]);
  });

  it("finds the SDK next to the working folder", async () => {
    const cwd = temporaryFolder({
      "node_modules/@anthropic-ai/claude-agent-sdk/package.json": '{ "type": "module", "main": "sdk.mjs" }',
      "node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs": "export const query = () => 'found';",
    });
    const sdk = await loadClaudeSdk(cwd);
    expect(sdk.query({ prompt: nothing() })).toBe("found");
  });

  it("[N-19] reports what prevented an installation", async () => {
    const [parent, root] = [temporaryFolder(), temporaryFolder({ "review/SKILL.md": skillText("review") })];
    const ref = skillRef(join(root, "review"));
    const prompt = promptOf(task, skillsSection({ skills: [ref] }));
    writeFileSync(join(root, "review", "large.bin"), "");
    const sdk = { query: () => ({ async *[Symbol.asyncIterator]() {} }) };
    // A skill whose name cannot be a folder name.
    const wrong = { ...prompt, skills: () => [{ ...ref, name: "con", validate: () => {} }] };
    const result = await evaluateWithClaude(wrong, { cwd: root, isolation: { parent }, sdk });
    expect(result.cause).toBeInstanceOf(SkillInstallationError);
    expect(result.cause).toMatchObject({ skillName: "con", source: "ref" });
    expect(result.refusals[0]?.code).toBe("installation-failed");
    expect(readdirSync(parent)).toEqual([]);
  });

  it("[N-07] reports a folder that is no longer a skill", async () => {
    const [parent, root] = [temporaryFolder(), temporaryFolder({ "review/SKILL.md": skillText("review") })];
    const prompt = promptOf(task, skillsSection({ skills: [skillRef(join(root, "review"))] }));
    writeFileSync(join(root, "review", "SKILL.md"), "nothing");
    const sdk = { query: () => ({ async *[Symbol.asyncIterator]() {} }) };
    const result = await evaluateWithClaude(prompt, { cwd: root, isolation: { parent }, sdk });
    expect(result.refusals[0]?.code).toBe("ref-invalid-frontmatter");
    expect(existsSync(parent) && readdirSync(parent)).toEqual([]);
  });
});

async function* nothing(): AsyncGenerator<never> {}
