import { describe, expect, it } from "vitest";
import { createPromptHook } from "../../src/adapters/claude/index.ts";
import { discover } from "../../src/config/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createCatalogOf } from "../support/skills.ts";

const PROMPT = "audit my solana program";
const SKILLS = {
  ".skillet/skills/solana/SKILL.md": skillText("solana", {
    more: 'triggers:\n  keywords: ["solana"]\n',
    body: "Check signers.",
  }),
};

describe("createPromptHook", () => {
  const ask = async (hook: ReturnType<typeof createPromptHook>, input: unknown) => hook.hooks[0]?.(input);

  it("[A-06] discovers the skills of the folder that the agent works in, and follows them", async () => {
    const home = temporaryFolder(SKILLS);
    const found = await discover({ workspace: temporaryFolder(), env: { HOME: home } });
    const hook = createPromptHook({ catalog: found.catalog, host: found });
    expect(JSON.stringify(await ask(hook, { prompt: PROMPT, session_id: "a" }))).toContain("Check signers.");
    expect(await ask(hook, { prompt: PROMPT, session_id: "a" })).toEqual({});
    const cwd = temporaryFolder();
    expect(await ask(createPromptHook(), { prompt: PROMPT, session_id: "a", cwd })).toEqual({});
  });

  it("[A-06] passes the prompt on after an error", async () => {
    const errors: unknown[] = [];
    const catalog = await createCatalogOf({ solana: { keywords: ["solana"] } });
    const reload = () => Promise.reject(new Error("the disk is gone"));
    const hook = createPromptHook({ catalog: { ...catalog, reload }, onError: (error) => errors.push(error) });
    expect(await ask(hook, { prompt: PROMPT })).toEqual({});
    expect(String(errors)).toContain("the disk is gone");
    expect(await ask(hook, "no input")).toEqual({});
  });
});
