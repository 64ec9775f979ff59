import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { listMcpTools } from "../../src/agent/mcp-client/mcp-servers.ts";
import { redactToolResult } from "../../src/agent/run/redaction.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { wrapHostTool } from "../../src/agent/tools/tool-output.ts";
import type { Host } from "../../src/config/host.ts";
import { Tool } from "../../src/skill/tool.ts";
import { createRedactor } from "../../src/util/redact.ts";
import { closeMcpServers } from "../../src/util/system.ts";
import { skillet } from "../support/command.ts";
import { toolsetOf } from "../support/toolset.ts";
import { type UseScene, useScene } from "../support/use.ts";
import { caller, serverHost, TOKEN } from "./runs-scene.ts";

/** A secret with line breaks: it is another text once it was folded into a line. */
const LINES = "-----BEGIN KEY-----\nhunter2hunter2first\nhunter2hunter2second\n-----END KEY-----";
const PLAIN = "hunter2hunter2plain";

function secretScene(more = "", files: Record<string, string> = {}): Promise<UseScene> {
  return useScene({
    skills: { x: { more: `env: [LINES, PLAIN]\n${more}`, files } },
    config: `[skills.x]\nLINES = ${JSON.stringify(LINES)}\nPLAIN = "${PLAIN}"\n`,
    turns: () => "end",
  });
}

async function everything({ found, use }: UseScene, host: Partial<Host>): Promise<string> {
  const { result, events } = await use({ skill: "x", message: PLAIN, context: LINES, input: { [PLAIN]: LINES } }, host);
  const env = { HOME: join(found.root, "home") };
  const shown = await skillet(["runs", "show", result.run, "--json"], { env });
  const journal = readFileSync(join(found.home, "runs", `${result.run}.jsonl`), "utf8");
  return [JSON.stringify([result, events]), journal, shown.stdout, shown.stderr].join("\n");
}

describe("a configured value in stored files", () => {
  it("[Q-22] is redacted in the titles, codes, metadata, progress and ends of a skill's own tools, folded or cut", async () => {
    const bodies = {
      title: "return { output: '', title: ctx.env.LINES }",
      cut: `return { output: "", title: "a".repeat(190) + ctx.env.PLAIN }`,
      metadata: "return { output: '', metadata: { [ctx.env.PLAIN]: [ctx.env.LINES] } }",
      progress: `ctx.progress(ctx.env.LINES); ctx.progress("b".repeat(1990) + ctx.env.PLAIN); return ""`,
      ends: "setTimeout(() => { throw new Error(ctx.env.LINES + ' '.repeat(9) + ctx.env.PLAIN) }); await new Promise(() => {})",
    };
    const raw = `const raw = { name: "raw", description: "d", inputSchema: { type: "object" },
      execute: async (_: unknown, { env }: any) => ({ text: "", isError: true, code: env.PLAIN, title: env.LINES }) };`;
    const text = toolsetOf(bodies, raw).replace("export const Tools = [", "export const Tools = [raw,");
    const scene = await secretScene('toolsets: ["toolsets/index:Tools"]\n', { "toolsets/index.ts": text });
    const model = caller(...["raw", ...Object.keys(bodies)].map((tool) => ({ tool: `x.${tool}` })));
    const all = await everything(scene, { models: { default: model } });
    expect(all).toContain('"tool":"x.ends"');
    expect(all).not.toContain("hunter2");
  });

  it("[Q-22] is redacted in the preview of a change, and in the reason of a denial", async () => {
    const pay = Tool.define("pay", {
      description: "Pays.",
      parameters: { type: "object" },
      effect: () => ({ on: "outside", what: LINES, where: `${"a".repeat(490)}${PLAIN}`, amount: PLAIN }),
      execute: () => "paid",
    });
    const approve = async () => ({ isApproved: false, reason: `not with ${PLAIN}` });
    const model = caller({ tool: "pay", input: { [PLAIN]: LINES } });
    const all = await everything(await secretScene(), { tools: [pay], approve, models: { default: model } });
    expect(all).toContain("not with [PLAIN]");
    expect(all).not.toContain("hunter2");
  });

  it("[Q-22] is redacted in a denial on the command line", async () => {
    const { found, use } = await secretScene();
    const model = caller({ tool: "write_file", input: { path: "a.txt", content: "a" } });
    const { result } = await use({ skill: "x" }, { models: { default: model } });
    expect(result.stop).toBe("waiting");
    const env = { HOME: join(found.root, "home") };
    const { code } = await skillet(["approve", result.run, "--deny", `it is ${PLAIN}`], { env, cwd: found.workspace });
    const journal = readFileSync(join(found.home, "runs", `${result.run}.jsonl`), "utf8");
    expect([code, journal.includes("it is [PLAIN]"), journal.includes("hunter2")]).toEqual([0, true, false]);
  });

  it("[Q-22] is redacted in the earlier messages of a conversation", async () => {
    const { found } = await secretScene();
    const messages = [
      { role: "user", text: `It is ${PLAIN}` },
      { role: "assistant", text: LINES, calls: [] },
    ] as const;
    const asked: string[] = [];
    const model = caller();
    const heard = {
      ...model,
      respond: (request: Parameters<typeof model.respond>[0]) => {
        asked.push(JSON.stringify(request.messages));
        return Promise.resolve({ ...EMPTY, text: "yes" });
      },
    };
    const host = { ...found, models: { default: heard } };
    const { run, stop } = await createConversation(openSession(found.catalog, host), host, { messages }).send("And?");
    const journal = readFileSync(join(found.home, "runs", `${run}.jsonl`), "utf8");
    expect([stop, journal.includes("It is [PLAIN]")]).toEqual(["answer", true]);
    expect(journal + asked.join("")).not.toContain("hunter2");
  });
});

const EMPTY = {
  calls: [],
  usage: { inputTokens: 0, outputTokens: 0, cachedTokens: 0 },
  finish: "stop",
} as const;

describe("a value of a server's configuration", () => {
  afterEach(closeMcpServers);

  it("[Q-22] is redacted in the server's descriptions of its tools, and no tool is named after it", async () => {
    const { tools } = await listMcpTools(serverHost("tells"));
    expect(tools.map(({ name }) => name)).toEqual(["web.echo"]);
    expect(JSON.stringify(tools)).toContain("It is [TOKEN].");
    expect(JSON.stringify(tools)).not.toContain(TOKEN);
  });

  it("is searched in a schema of thousands of levels too, without affecting other tools", async () => {
    const { tools } = await listMcpTools(serverHost("deep"));
    expect(tools.map(({ name }) => name)).toContain("web.echo");
  });

  it("[Q-22] is redacted in the code and the title of any tool before they are cut", async () => {
    const tool = {
      ...Tool.define("one", { description: "d", parameters: { type: "object" }, execute: () => "" }),
      execute: async () => ({ text: "", isError: true, code: TOKEN, title: `${"a".repeat(190)}${TOKEN}` }),
    };
    const redactor = createRedactor(new Map([["TOKEN", TOKEN]]));
    const result = redactToolResult(await wrapHostTool(tool, 1000, redactor).execute({}), redactor);
    expect(result).toMatchObject({ code: "[TOKEN]", title: expect.stringMatching(/^a{190}\[TOKEN\]/) });
    expect(JSON.stringify(result)).not.toContain("hunter2");
  });
});
