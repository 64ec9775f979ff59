import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { onTestFinished } from "vitest";
import type { Program } from "./served.ts";

export interface Opened {
  client: Client;
  /** The number of notifications about changed tools. */
  changes(): number;
  tools(): Promise<string[]>;
  /** The text of a tool's result. */
  call(name: string, input?: Record<string, unknown>): Promise<string>;
}

/** The first SDK's client, connected; it ends with the test. */
export async function openFirst(to: Program | string): Promise<Opened> {
  const client = new Client({ name: "first", version: "1.0.0" });
  let changes = 0;
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++);
  const transport =
    typeof to === "string"
      ? new StreamableHTTPClientTransport(new URL(to))
      : new StdioClientTransport({ ...to, stderr: "ignore" });
  await client.connect(transport as Transport);
  onTestFinished(() => client.close());
  return {
    client,
    changes: () => changes,
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, input = {}) => textOf(await client.callTool({ name, arguments: input })),
  };
}

/** The second SDK's client over HTTP, which uses the older revisions by default; it ends with the test. */
export async function openSecond(url: string): Promise<Client2> {
  const client = new Client2({ name: "second", version: "1.0.0" });
  await client.connect(new Http2(new URL(url)));
  onTestFinished(() => client.close());
  return client;
}

/** All text of a tool's result. */
export function textOf(result: unknown): string {
  const { content } = result as { content: { type: string; text?: string }[] };
  return content.map(({ text = "" }) => text).join("\n");
}
