import { Client, type ClientOptions } from "@modelcontextprotocol/client";
import { InMemoryTransport, type McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { onTestFinished } from "vitest";
import {
  createSkillServer,
  type SkillServer,
  type SkillServerOptions,
} from "../../src/adapters/mcp-server/skill-server.ts";
import type { Host } from "../../src/config/host.ts";
import type { Scene } from "./discover.ts";

/** The revisions of the protocol that a client can insist on. */
export const ERAS = ["2025-11-25", "2026-07-28"] as const;
export type Era = (typeof ERAS)[number];

export interface Called {
  text: string;
  isError: boolean;
  structured: Record<string, unknown> | undefined;
  meta: Record<string, unknown>;
}

export interface McpClient {
  client: Client;
  /** The names of the tools that are listed now. */
  tools(): Promise<string[]>;
  call(name: string, input?: Record<string, unknown>): Promise<Called>;
  /** Number of notifications that the list of tools changed. */
  changes(): number;
  close(): Promise<void>;
}

export interface ClientParts extends ClientOptions {
  era?: Era;
  /** The name that the client gives itself. */
  name?: string;
}

export function negotiation(era: Era): Pick<ClientOptions, "versionNegotiation"> {
  return { versionNegotiation: { mode: era === "2025-11-25" ? "legacy" : { pin: era } } };
}

/** Connects a client to the server, over an in-memory transport that is one connection, like stdio. */
export async function connectTo(
  serving: SkillServer,
  { era = "2025-11-25", name = "test", ...options }: ClientParts = {},
): Promise<McpClient> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const handle = serveStdio(() => serving.open(), { transport: theirs });
  let changes = 0;
  const onChanged = () => {
    changes++;
  };
  const listChanged = { tools: { onChanged, autoRefresh: false, debounceMs: 0 } };
  const client = new Client({ name, version: "1.0.0" }, { ...negotiation(era), listChanged, ...options });
  await client.connect(ours);
  const close = async () => {
    await client.close();
    await handle.close();
  };
  onTestFinished(close);
  return { ...connectClient(client), changes: () => changes, close };
}

/** Creates a client of a server that has no connection yet. */
export async function createClientOf(mcp: McpServer): Promise<ReturnType<typeof connectClient>> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  await mcp.connect(theirs);
  const client = new Client({ name: "test", version: "1.0.0" }, negotiation("2025-11-25"));
  await client.connect(ours);
  onTestFinished(() => client.close());
  return connectClient(client);
}

export function connectClient(client: Client): Pick<McpClient, "client" | "tools" | "call"> {
  return {
    client,
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, input = {}) => called(await client.callTool({ name, arguments: input })),
  };
}

function called(result: Awaited<ReturnType<Client["callTool"]>>): Called {
  const { content, isError = false, structuredContent, _meta = {} } = result;
  const texts = content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`));
  return {
    text: texts.join("\n"),
    isError,
    structured: structuredContent as Record<string, unknown> | undefined,
    meta: _meta,
  };
}

/** Serves a scene, as `skillet serve` does. */
export function servingOf(scene: Scene, options: SkillServerOptions = {}, host: Partial<Host> = {}): SkillServer {
  return createSkillServer(
    scene.catalog,
    { ...scene, caller: { chatType: "private", chatId: "terminal" }, ...host },
    options,
  );
}
