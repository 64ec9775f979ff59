import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createClaudeEnvironment } from "../../src/adapters/claude/claude-home.ts";
import { createHermeticHome } from "../../src/remote/clients/hermetic-home.ts";
import { temporaryFolder } from "../support/folder.ts";

function homeHere() {
  const home = createHermeticHome({ parent: temporaryFolder() });
  onTestFinished(() => home.remove());
  return home;
}

describe("the environment of an isolated process", () => {
  it("[N-20, N-29] contains only the user's variables that programs and billing need", () => {
    const outer = { PATH: "/bin", ANTHROPIC_API_KEY: "k", AWS_SECRET_ACCESS_KEY: "s", CLAUDE_CODE_USE_BEDROCK: "1" };
    const env = createClaudeEnvironment(homeHere(), outer);
    expect(env).toMatchObject({ PATH: "/bin", ANTHROPIC_API_KEY: "k" });
    expect(env).not.toHaveProperty("AWS_SECRET_ACCESS_KEY");
    expect(env).not.toHaveProperty("CLAUDE_CODE_USE_BEDROCK");
  });

  it("[N-20, N-29] points to its home, even if all of the user's variables are passed", () => {
    const home = homeHere();
    const outer = {
      PATH: "/bin",
      HOME: "/home/ada",
      CLAUDE_CONFIG_DIR: "/home/ada/.claude",
      TMPDIR: "/tmp",
      EXTRA: "1",
    };
    const env = createClaudeEnvironment(home, outer, { ...outer, PATH: undefined });
    expect(env).toMatchObject({ ...home.env, TMPDIR: join(home.path, "tmp"), EXTRA: "1", PATH: undefined });
  });
});
