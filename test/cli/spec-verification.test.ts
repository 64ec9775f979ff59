import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { temporaryFolder } from "../support/folder.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

/** The verification sections of two documents, with their files and commands; the program has another name. */
const FILES = {
  "project/workspace/skills/test/SKILL.md": "---\ndescription: A skill to try\n---\n\nGreet the user.\n",
  "project/workspace/skills/test-api/SKILL.md":
    '---\ndescription: Tries the injection of a key\nenv:\n  - TEST_API_KEY\nallowed_tools: [bash]\n---\n\nPrint the variable: echo "Key: $TEST_API_KEY"\n',
};

async function scene(turns: readonly Turn[]) {
  const server = await startModelServer("openai", turns);
  const config = `${modelConfig("openai", server)}\n[skills.test-api]\nTEST_API_KEY = "test-secret-123"\n`;
  const root = temporaryFolder({ ...FILES, "home/.skillet/config.toml": config });
  chmodSync(root, 0o755); // Code never runs as root: if the tests do, other users need access.
  const run = (...args: string[]) =>
    skillet(args, { cwd: join(root, "project"), env: { HOME: join(root, "home"), SKILLS_DIR: join(root, "none") } });
  return { run, server };
}

describe("the verification sections of the documents", () => {
  it("[W-26, W-29] list and use a workspace skill, with the trust step that the command itself names", async () => {
    const { run } = await scene([
      () => [{ tool: "list_skills", input: {} }],
      ({ results }) => `Skills: ${results[0]?.content}`,
      () => [{ tool: "use_skill", input: { skill: "test", message: "Greet." } }],
      () => "Hello!",
      () => "The skill said hello.",
    ]);
    expect((await run("skill", "list")).stdout).toMatch(/^test +A skill to try/m);
    expect((await run("skill", "validate", "workspace/skills/test")).code).toBe(0);
    const refused = await run("run", "test", "Greet.");
    expect(refused.code).toBe(3);
    const [, step = ""] = /skillet (trust [^\n`]*)/.exec(refused.stderr) ?? [];
    expect(step).toContain("test");
    expect((await run(...step.trim().split(" "), "--yes")).code).toBe(0);
    expect((await run("chat", "List available skills")).stdout).toContain("test");
    expect((await run("chat", "Use the test skill")).stdout).toContain("The skill said hello.");
  });

  it("[W-26] offer the trust step in a chat too: the exact command is named, and then the skill answers", async () => {
    const { run } = await scene([
      () => [{ tool: "use_skill", input: { skill: "test", message: "Greet." } }],
      () => "I cannot.",
      () => [{ tool: "use_skill", input: { skill: "test", message: "Greet." } }],
      () => "Hello!",
      ({ results }) => `The skill said: ${results[0]?.content}`,
    ]);
    const refused = await run("chat", "Use the test skill");
    expect([refused.code, refused.stdout]).toEqual([3, "I cannot.\n"]);
    const [, step = ""] = /run: skillet (trust \S+\/project\/workspace\/skills\/test)$/m.exec(refused.stderr) ?? [];
    expect((await run(...step.split(" "), "--yes")).stdout).toContain("trusted");
    expect((await run("chat", "Use the test skill")).stdout).toContain("Hello!");
  });

  it("[S-31] give a skill its key from the configuration, by the steps that the command itself names", async () => {
    const { run } = await scene([
      () => [{ tool: "bash", input: { command: 'echo "Key: $TEST_API_KEY"' } }],
      ({ results }) => `It printed: ${results[0]?.content}`,
    ]);
    const task = ["run", "test-api", "Check the key.", "--show-secrets"];
    let last = await run(...task);
    const steps: string[] = [];
    for (let tries = 0; last.code === 3 && tries < 3; tries++) {
      const [, step = ""] = /skillet (trust [^\n`]*)/.exec(last.stderr) ?? [];
      steps.push(step.trim());
      await run(...step.trim().split(" "), "--yes");
      last = await run(...task);
    }
    expect(steps[0]).toContain("test-api");
    expect(last.code).toBe(0);
    expect(last.stdout).toContain("Key: test-secret-123");
  });
});
