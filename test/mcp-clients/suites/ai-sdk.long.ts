import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { describe, expect, it, onTestFinished } from "vitest";
import { textOf } from "../support/open.ts";
import { home, skilletServe, skilletServeHttp } from "../support/served.ts";

type Config = Parameters<typeof createMCPClient>[0];

const stdio = async (): Promise<Config> => ({ transport: new StdioTransport(skilletServe(home())) });
const http = async (): Promise<Config> => ({ transport: { type: "http", url: await skilletServeHttp(home()) } });

interface Way {
  config: () => Promise<Config>;
  /** The negotiated protocol version. */
  revision: string;
  /** True when the server remembers loaded skills. */
  remembers: boolean;
}

const WAYS: Record<string, Way> = {
  stdio: { config: stdio, revision: "2026-07-28", remembers: true },
  "http, in the older way": {
    config: async () => ({ ...(await http()), protocolVersionDiscovery: false }),
    revision: "2025-11-25",
    remembers: true,
  },
  "http, in the newer way": { config: http, revision: "2026-07-28", remembers: false },
};

/** Connects again if the client gave up on the newer revision: it waits only briefly, which a busy machine may need to start a server. */
async function connect(config: Way["config"], revision: string) {
  for (let tries = 0; ; tries++) {
    const client = await createMCPClient(await config());
    if (client.initializeResult.protocolVersion === revision || tries >= 10) return client;
    await client.close();
  }
}

describe.each(Object.entries(WAYS))("@ai-sdk/mcp over %s", (_, { config, revision, remembers }) => {
  it("[P-18] calls the tools of a loaded skill, although it does not read the list again", async () => {
    const client = await connect(config, revision);
    onTestFinished(() => client.close());
    expect(client.initializeResult.protocolVersion).toBe(revision);
    const tools = await client.tools();
    const call = async (name: string, input: Record<string, unknown>) => {
      const { execute } = tools[name] ?? {};
      return textOf(await execute?.(input as never, { toolCallId: "1", messages: [], context: {} } as never));
    };

    expect(Object.keys(tools)).not.toContain("my-skill__my-tool");
    expect(await call("load_skill", { skill: "my-skill" })).toContain("call_skill_tool");
    const called = await call("call_skill_tool", { tool: "my-skill__my-tool", input: { input: "hello" } });
    expect(called).toContain("Processed: hello");
    expect(Object.keys(await client.tools()).includes("my-skill__my-tool")).toBe(remembers);
  });
});
