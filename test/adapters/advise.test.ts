import { describe, expect, it } from "vitest";
import { createSkillServer } from "../../src/adapters/mcp-server/skill-server.ts";
import { type JsonHook, PROMPT_HOOKS } from "../../src/remote/clients/prompt-hook-config.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { connectTo, createClientOf, ERAS } from "../support/mcp-client.ts";

const more = 'triggers:\n  keywords: ["solana"]\n';
const serve = async (files: Record<string, string> = {}) => {
  const found = await discoverIn({
    "home/.skillet/skills/solana/SKILL.md": skillText("solana", { more, body: "Check signers." }),
    ...files,
  });
  return createSkillServer(found.catalog, found);
};
const PROMPT = "audit my solana program";
const textIn = (text: string) => JSON.parse(text).hookSpecificOutput?.additionalContext;

describe("the advise tool", () => {
  it.each(ERAS)("[A-06, A-07] answers a hook with the JSON that Claude Code and Codex read, in %s", async (era) => {
    const { call } = await connectTo(await serve(), { era });
    const first = await call("advise", { prompt: PROMPT, session_id: "a" });
    expect(JSON.parse(first.text)).toEqual({
      hookSpecificOutput: {
        hookEventName: "UserPromptSubmit",
        additionalContext: expect.stringContaining("Check signers."),
      },
    });
    expect(first.isError).toBe(false);
    expect((await call("advise", { prompt: PROMPT, session_id: "a" })).text).toBe("{}");
    expect(textIn((await call("advise", { prompt: PROMPT, session_id: "b" })).text)).toContain("Check signers.");
  });

  it("[A-06] treats an unfilled placeholder as no conversation, and bad input as no prompt", async () => {
    const { call } = await connectTo(await serve());
    expect(textIn((await call("advise", { prompt: PROMPT, session_id: "${session_id}" })).text)).toContain("signers");
    expect((await call("advise", { prompt: PROMPT })).text).toBe("{}");
    expect((await call("advise", {})).text).toBe("{}");
    expect((await call("advise", { prompt: "" })).text).toBe("{}");
  });

  it.each(ERAS)(
    "[A-06, A-07] forgets a conversation when the handler that connect writes reports a summary, in %s",
    async (era) => {
      const { call } = await connectTo(await serve(), { era, name: "claude-code" });
      const target = { server: "skillet", program: { command: "node", args: [] }, kind: "mcp_tool" } as const;
      const { summary } = PROMPT_HOOKS["claude"] as JsonHook;
      const input = { ...Object(summary?.handler(target)["input"]), session_id: "a" };
      const ask = async () => (await call("advise", { prompt: PROMPT, session_id: "a" })).text;
      expect(textIn(await ask())).toContain("Check signers.");
      expect(await ask()).toBe("{}");
      expect((await call("advise", input)).text).toBe("{}");
      expect(textIn(await ask())).toContain("Check signers.");
    },
  );

  describe.each(ERAS)("the advise tool in %s", (era) => {
    it.each([
      ["claude-code", true],
      ["codex-mcp-client", true],
      ["gemini-cli-mcp-client", false],
      ["test", false],
    ])("[A-07] is listed to %s: %s", async (name, isListed) => {
      const { tools, call } = await connectTo(await serve(), { name, era });
      expect((await tools()).includes("advise")).toBe(isListed);
      expect((await call("advise", { prompt: PROMPT })).text).toContain("Check signers.");
    });
  });

  it("[A-06] remembers a named conversation across servers that last for one request", async () => {
    const serving = await serve();
    const ask = async (input: Record<string, unknown>) =>
      (await createClientOf(await serving.open({ isStateless: true }))).call("advise", { prompt: PROMPT, ...input });
    expect((await ask({ session_id: "a" })).text).toContain("Check signers.");
    expect((await ask({ session_id: "a" })).text).toBe("{}");
    expect((await ask({ session_id: "b" })).text).toContain("Check signers.");
    expect((await ask({})).text, "of another client, perhaps").toContain("Check signers.");
    expect((await ask({})).text).toContain("Check signers.");
  });

  it("[A-06] does not repeat what the model loaded, and shows nothing untrusted", async () => {
    const { call } = await connectTo(
      await serve({ "skills/anchor/SKILL.md": skillText("anchor", { body: "Deploy." }) }),
    );
    await call("load_skill", { skill: "solana" });
    expect((await call("advise", { prompt: PROMPT })).text).toBe("{}");
    expect((await call("advise", { prompt: "/anchor please" })).text).toBe("{}");
  });
});
