import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { PromptfooProvider } from "../../src/eval/promptfoo-provider.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { startModelServer } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

describe("the provider for promptfoo", () => {
  it("runs a skill with the prompt, and reports its answer, tokens and errors", async () => {
    const server = await startModelServer("openai", [
      ({ prompt, instructions }) => {
        expect(instructions).toContain("Say hello.");
        return `Hello, ${prompt}!`;
      },
    ]);
    const home = temporaryFolder({
      ".skillet/config.toml": modelConfig("openai", server),
      ".skillet/skills/greet/SKILL.md": skillText("greet", { body: "Say hello." }),
    });
    chmodSync(join(home, ".skillet/config.toml"), 0o600);
    vi.stubEnv("HOME", home);
    const provider = new PromptfooProvider({ config: { skill: "greet", workspace: home } });
    expect(provider.id()).toBe("skillet:greet");
    expect(await provider.callApi("Ada")).toMatchObject({
      output: "Hello, Ada!",
      tokenUsage: { total: 15, prompt: 10, completion: 5, cached: 0 },
      metadata: { stop: "answer" },
    });
    const missing = new PromptfooProvider({ config: { skill: "great", workspace: home } });
    expect(await missing.callApi("Ada")).toMatchObject({ error: expect.stringContaining("Skill 'great' not found") });
    expect(await new PromptfooProvider().callApi("Ada")).toEqual({
      error: "The provider needs config.skill: the name of a skill",
    });
  });
});
