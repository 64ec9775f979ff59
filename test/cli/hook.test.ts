import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PROMPT_HOOK_CLIENTS } from "../../src/cli/commands/hook.ts";
import { HOOK_FORMATS } from "../../src/remote/clients/prompt-hook-config.ts";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";

const SKILLS = {
  ".skillet/skills/solana/SKILL.md": skillText("solana", {
    description: "Audits Solana programs with a <signer> check.",
    more: 'triggers:\n  keywords: ["solana"]\n',
    body: "Check signers.",
  }),
};
const PROMPT = "audit my solana program";

/** Calls a client's hook with this input, in a home with one skill. */
async function hook(client: string, sent: unknown, options: RunOptions = {}, args: readonly string[] = []) {
  const home = options.env?.["HOME"] ?? temporaryFolder(SKILLS);
  const stdin = typeof sent === "string" ? sent : JSON.stringify(sent);
  const { code, stdout, stderr } = await skillet(["hook", client, ...args].filter(Boolean), {
    stdin,
    ...options,
    env: { ...options.env, HOME: home },
  });
  expect(code).toBe(0);
  return { answer: JSON.parse(stdout), stderr, home };
}

/** The text that each client adds to its prompt, in its own answer format. */
const TEXTS: Record<string, (answer: Record<string, Record<string, unknown>>) => unknown> = {
  claude: ({ hookSpecificOutput: { hookEventName, additionalContext } = {} }) =>
    hookEventName === "UserPromptSubmit" && additionalContext,
  codex: ({ hookSpecificOutput: { hookEventName, additionalContext } = {} }) =>
    hookEventName === "UserPromptSubmit" && additionalContext,
  gemini: ({ hookSpecificOutput: { hookEventName, additionalContext } = {} }) =>
    hookEventName === "BeforeAgent" && additionalContext,
  opencode: ({ additionalContext }) => additionalContext,
  copilot: ({ additionalContext }) => additionalContext,
  cursor: (answer) => (answer["continue"] as unknown) === true && answer["additional_context"],
};

/** The input of each client, except for the prompt and the folder. */
const INPUTS: Record<string, (id: string, cwd: string) => object> = {
  claude: (id, cwd) => ({ session_id: id, transcript_path: "/t", cwd, hook_event_name: "UserPromptSubmit" }),
  codex: (id, cwd) => ({ session_id: id, turn_id: "1", cwd, hook_event_name: "UserPromptSubmit", model: "m" }),
  gemini: (id, cwd) => ({ session_id: id, cwd, hook_event_name: "BeforeAgent", timestamp: "2026-11-18" }),
  opencode: (id, cwd) => ({ sessionID: id, cwd }),
  copilot: (id, cwd) => ({ sessionId: id, timestamp: 1, cwd }),
  cursor: (id, cwd) => ({ conversation_id: id, generation_id: "g", workspace_roots: [cwd], attachments: [] }),
};

describe("skillet hook", () => {
  it("has the same clients in its help as in the table", () => {
    expect(PROMPT_HOOK_CLIENTS).toEqual(Object.keys(HOOK_FORMATS));
  });

  it.each(Object.keys(HOOK_FORMATS))(
    "[A-06, A-07] answers %s in its own format, once per conversation",
    async (client) => {
      const textIn = TEXTS[client] ?? (() => undefined);
      const home = temporaryFolder(SKILLS);
      const ask = (id: string, prompt = PROMPT) =>
        hook(client, { ...INPUTS[client]?.(id, home), prompt }, { env: { HOME: home } });
      const { answer, stderr } = await ask("one");
      const text = String(textIn(answer));
      if (client === "gemini") {
        expect(text).toContain("- solana: Audits Solana programs with a ‹signer> check.");
        expect(text).toContain("call the load_skill tool with its name");
        expect(text).not.toMatch(/[<&]/);
      } else expect(text).toContain('<skill_content name="solana">\nCheck signers.\n</skill_content>');
      expect(stderr).toBe("");
      const neutral = client === "cursor" ? { continue: true } : {};
      expect((await ask("one")).answer).toEqual(neutral);
      expect(textIn((await ask("two")).answer)).toBe(text);
      expect((await ask("three", "thanks")).answer).toEqual(neutral);
    },
  );

  it("[A-06] finds skills in the folder that the client works in, and gives none of it without trust", async () => {
    const cwd = temporaryFolder({ "skills/anchor/SKILL.md": skillText("anchor", { body: "Deploy." }) });
    const home = temporaryFolder(SKILLS);
    const ask = (id: string) =>
      hook("claude", { session_id: id, cwd, prompt: "/anchor please" }, { env: { HOME: home } }, ["--debug"]);
    const before = await ask("one");
    expect(before.answer).toEqual({});
    expect(before.stderr).toContain("1 skill not offered until approved: skillet trust --text .");
    expect(before.stderr).toContain("none");
    expect(before.stderr).not.toContain("anchor");
    await skillet(["trust", "anchor", "--yes"], { cwd, env: { HOME: home } });
    const after = JSON.stringify((await ask("one")).answer);
    expect(after).toContain("Deploy.");
    expect(after).toContain("The skill anchor (from this workspace) matches this request.");
  });

  it.each([
    ["claude", "PreCompact"],
    ["gemini", "PreCompress"],
  ])("[A-06] gives the text again after %s has summarized the conversation: %s", async (client, event) => {
    const home = temporaryFolder(SKILLS);
    const ask = (sent: object) => hook(client, { session_id: "a", ...sent }, { env: { HOME: home } });
    const { answer } = await ask({ prompt: PROMPT });
    expect((await ask({ prompt: PROMPT })).answer).toEqual({});
    expect(await ask({ hook_event_name: event, trigger: "auto" })).toMatchObject({ answer: {}, stderr: "" });
    expect((await ask({ prompt: PROMPT })).answer).toEqual(answer);
  });

  it("[A-06] reads a prompt of OpenCode without the quotation marks around it", async () => {
    const { answer } = await hook("opencode", { prompt: '"/solana my program"' }, {}, []);
    expect(answer.additionalContext).toContain("Check signers.\n\nARGUMENTS: my program\n");
  });

  it("[A-06, Q-07] adds nothing to a prompt that no person wrote", async () => {
    const { answer, stderr } = await hook("claude", { prompt: PROMPT, source: "system" });
    expect([answer, stderr]).toEqual([{}, ""]);
    expect((await hook("claude", { prompt: PROMPT, source: "user" })).answer).not.toEqual({});
  });

  it("[A-06] prints the decision and its reasons with --debug, to stderr alone", async () => {
    const { stderr } = await hook("claude", { prompt: PROMPT }, {}, ["--debug"]);
    expect(stderr).toMatch(/^· instructions: solana \(\d+ characters\)\n {2}solana: keyword "solana"\n$/);
  });

  it.each([
    ["no JSON", "claude", "audit my solana program", "The input is not JSON"],
    ["nothing", "claude", "", "The input is not JSON"],
    ["no prompt", "claude", { session_id: "a" }, "The input has no prompt"],
    ["a prompt that is not text", "gemini", { prompt: { text: PROMPT } }, "The input has no prompt"],
    ["a list", "cursor", [PROMPT], "The input has no prompt"],
    ["too much input", "copilot", { prompt: "x".repeat(1_100_000) }, "The input is longer than 1048576 characters"],
    ["an unknown client", "emacs", { prompt: PROMPT }, 'Unknown client "emacs"'],
    ["a property of every object", "constructor", { prompt: PROMPT }, 'Unknown client "constructor"'],
    ["no client", "", { prompt: PROMPT }, "No client is named"],
  ])("[A-07] adds nothing and exits with 0 for %s", async (_, client, sent, why) => {
    const { answer, stderr } = await hook(client, sent);
    expect(answer).toEqual(client === "cursor" ? { continue: true } : {});
    expect(stderr).toContain(why);
  });

  it.each([
    ["an unknown option", ["--loud"]],
    ["too many arguments", ["extra"]],
    ["a workspace that does not exist", ["-C", "/no/such/folder"]],
  ])("[A-07] adds nothing and exits with 0 for %s", async (_, args) => {
    const { answer, stderr } = await hook("claude", { prompt: PROMPT }, {}, args);
    expect(answer).toEqual({});
    expect(stderr).toMatch(/^✗/);
  });

  it("[A-06] adds nothing while the configuration cannot be read: it may disable the skill", async () => {
    const home = temporaryFolder(SKILLS);
    writeFileSync(join(home, ".skillet", "config.toml"), "[skills.solana\nenabled = false\n", { mode: 0o600 });
    const { answer, stderr } = await hook("claude", { prompt: PROMPT }, { env: { HOME: home } });
    expect(answer).toEqual({});
    expect(stderr).toContain("config.toml");
  });

  it("answers even if it cannot remember", async () => {
    const home = temporaryFolder(SKILLS);
    mkdirSync(join(home, ".skillet", "cache"), { recursive: true });
    writeFileSync(join(home, ".skillet", "cache", "advice"), "a file in its place");
    const ask = () => hook("claude", { prompt: PROMPT, session_id: "a" }, { env: { HOME: home } });
    expect(JSON.stringify((await ask()).answer)).toContain("Check signers.");
    expect(JSON.stringify((await ask()).answer)).toContain("Check signers.");
  });
});
