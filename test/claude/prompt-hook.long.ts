import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { SdkMessage } from "../../src/adapters/claude/claude-sdk.ts";
import { createPromptHook } from "../../src/adapters/claude/index.ts";
import type { Advice } from "../../src/agent/session/advise.ts";
import { CLAUDE_MODEL, claudeSdk, startClaudeApi } from "../support/claude-api.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { PROGRAM, RUN } from "../support/program.ts";
import { createCatalogOf } from "../support/skills.ts";

const PROMPT = "audit my solana program";
const SKILLS = {
  ".skillet/skills/solana/SKILL.md": skillText("solana", {
    more: 'triggers:\n  keywords: ["solana"]\n',
    body: "Check signers.",
  }),
};
const GIVEN = '<skill_content name="solana">\nCheck signers.\n</skill_content>';

/** Sends prompts to one conversation of the SDK's own `query()`, in its own home, one after the other. */
async function converse(prompts: readonly string[], options: object, home = temporaryFolder()) {
  const { requests, env } = await startClaudeApi(() => "<summary>They want an audit.</summary>");
  const { query } = await claudeSdk();
  const answered = prompts.map(() => Promise.withResolvers<void>());
  async function* messages() {
    for (const [at, content] of prompts.entries()) {
      await answered[at - 1]?.promise;
      yield { type: "user" as const, message: { role: "user" as const, content }, parent_tool_use_id: null };
    }
    await answered.at(-1)?.promise;
  }
  let results = 0;
  const seen: SdkMessage[] = [];
  const conversation = query({
    prompt: messages(),
    options: {
      model: CLAUDE_MODEL,
      cwd: temporaryFolder(),
      env: { PATH: process.env["PATH"], ...env, HOME: home, CLAUDE_CONFIG_DIR: join(home, ".claude") },
      tools: [],
      persistSession: false,
      settingSources: [],
      ...options,
    },
  });
  for await (const message of conversation) {
    seen.push(message);
    if (message.type === "result") answered[results++]?.resolve();
  }
  return { requests, seen };
}

/** Counts the skill's text in the request to the model. */
const timesIn = (body = "") => body.split(JSON.stringify(GIVEN).slice(1, -1)).length - 1;

describe("a prompt hook in Claude's own process", () => {
  it("[A-06, A-07] adds the matching skill to a prompt of the SDK's query(), once per conversation", async () => {
    const advised: Advice["kind"][] = [];
    const catalog = await createCatalogOf({ solana: { keywords: ["solana"], body: "Check signers." } });
    const hook = createPromptHook({ catalog, onAdvice: ({ kind }) => advised.push(kind) });
    const { requests } = await converse(["thanks", PROMPT, PROMPT], { hooks: { UserPromptSubmit: [hook] } });
    expect(requests.map(({ body }) => timesIn(body))).toEqual([0, 1, 1]);
    expect(advised).toEqual(["none", "instructions", "none"]);
  });

  it("[A-06] gives the text again after Claude has summarized the conversation", async () => {
    const catalog = await createCatalogOf({ solana: { keywords: ["solana"], body: "Check signers." } });
    const hook = createPromptHook({ catalog });
    const { requests } = await converse([PROMPT, "/compact", PROMPT], {
      hooks: { UserPromptSubmit: [hook], PreCompact: [hook] },
    });
    expect(requests.map(({ body }) => timesIn(body))).toEqual([1, 1, 1]);
    expect(requests.map(({ body }) => body.includes("continued from a previous conversation"))).toEqual([
      false,
      false,
      true,
    ]);
  });

  it("[A-07] adds the answer of `skillet hook claude`, as a command", async () => {
    const { home, program } = withProgram();
    const command = `${process.execPath} --no-warnings ${program} hook claude`;
    const settings = { hooks: { UserPromptSubmit: [{ hooks: [{ type: "command", command, timeout: 30 }] }] } };
    const { requests } = await converse([PROMPT, PROMPT], { settings }, home);
    expect(requests.map(({ body }) => timesIn(body))).toEqual([1, 1]);
  });

  it("[A-07] adds the answer of the server's advise tool, without a new process", async () => {
    const { home, program } = withProgram();
    const server = { type: "stdio", command: process.execPath, args: ["--no-warnings", program, "serve"] };
    const input = { prompt: "${prompt}", session_id: "${session_id}" };
    const hook = { type: "mcp_tool", server: "skillet", tool: "advise", input };
    const settings = { hooks: { UserPromptSubmit: [{ hooks: [hook] }] } };
    const { requests } = await converse([PROMPT, PROMPT], { mcpServers: { skillet: server }, settings }, home);
    expect(requests.map(({ body }) => timesIn(body))).toEqual([1, 1]);
  });
});

/** A home with one skill, and the command as a file that Node starts. */
function withProgram() {
  const home = temporaryFolder({
    ...SKILLS,
    "skillet.mjs": `import { run } from ${JSON.stringify(PROGRAM)};\n${RUN}\n`,
  });
  return { home, program: join(home, "skillet.mjs") };
}
