import { setTimeout as wait } from "node:timers/promises";
import { OPEN_SECTIONS } from "../../agent/prompts/prompt-section.ts";
import type { PromptSession } from "../../agent/prompts/prompt-session.ts";
import { callTool } from "../../agent/run/call-tool.ts";
import { shortenMiddle } from "../../agent/tools/tool-output.ts";
import type { RunLimits } from "../../config/limits.ts";
import { getErrorMessage } from "../../errors/problem.ts";
import { packageVersion } from "../../package.ts";
import type { CallOptions, Tool } from "../../skill/tool.ts";
import { createWireNames, type WireNames } from "../../skill/tool-names.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { wrapInTag } from "../../util/untrusted-text.ts";
import type { SdkTransport } from "./claude-sdk.ts";

/** The name of the MCP server, and the prefix of its tools' names. */
export const BRIDGE_SERVER = "skillet";
const TOOL_PREFIX = `mcp__${BRIDGE_SERVER}__`;

export interface ToolBridgeOptions {
  run: string;
  signal: AbortSignal;
  redactor: Redactor;
  /** Time limit of one call, and maximum length of a result. */
  limits: Pick<RunLimits, "toolSeconds" | "toolOutput">;
}

/** The tools of a prompt for Claude: an MCP server in this process. Tools of opened sections are listed with the next request. */
export interface ToolBridge {
  /** For `mcpServers`. */
  readonly server: { type: "sdk"; name: string; instance: { connect(transport: SdkTransport): Promise<void> } };
  /** Maps the prompt's tool names, which a model may use too: `run_tests` → `mcp__skillet__run_tests`. */
  aliases(taken: readonly string[]): Record<string, string>;
}

/** Returns the prompt's name of the tool that Claude calls `mcp__skillet__…`. Undefined for other tools. */
export function resolveBridgedName(tool: string, tools: readonly Tool[]): string | undefined {
  if (!tool.startsWith(TOOL_PREFIX)) return undefined;
  const wire = tool.slice(TOOL_PREFIX.length);
  return createWireNames(tools.map(({ name }) => name)).toId(wire) ?? wire;
}

export function createToolBridge(session: PromptSession, options: ToolBridgeOptions): ToolBridge {
  const names = () => createWireNames(session.tools.map(({ name }) => name));
  const methods = createMethods(session, names, options);
  const connect = async (transport: SdkTransport) => {
    let listed = joinToolNames(session);
    let onListed = () => {};
    /** Waits until the client has requested the new list: the model must see new tools together with the result. */
    const relist = async () => {
      if (joinToolNames(session) === listed) return;
      listed = joinToolNames(session);
      const listRequested = new Promise<void>((resolve) => {
        onListed = resolve;
      });
      await transport.send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
      await Promise.race([listRequested, wait(MAX_RELIST_WAIT_MS, undefined, { ref: false })]);
    };
    const answer = async ({ id, method, params }: JsonObject) => {
      const response = await answerRequest(methods, String(method), params);
      if (options.signal.aborted) return; // A response would start another model turn.
      if (method === "tools/call") await relist();
      await transport.send({ jsonrpc: "2.0", id, ...response });
      if (method === "tools/list") onListed();
    };
    transport.onmessage = (message) => {
      if (!isJsonObject(message) || typeof message["method"] !== "string" || message["id"] === undefined) return;
      answer(message).catch(() => {}); // The client has disconnected.
    };
    await transport.start?.();
  };
  return {
    server: { type: "sdk", name: BRIDGE_SERVER, instance: { connect } },
    aliases(taken) {
      const { tools, sections } = session.render();
      const all = new Set([...tools, ...sections.flatMap((section) => section.tools)].map(({ name }) => name));
      const wire = createWireNames([...all]);
      const own = [...all].filter((name) => !taken.includes(name));
      return Object.fromEntries(own.map((name) => [name, `${TOOL_PREFIX}${wire.toWire(name)}`]));
    },
  };
}

/** In milliseconds. A client that does not request the list sees the tools one request later. */
const MAX_RELIST_WAIT_MS = 1000;

type Methods = Record<string, (params: JsonObject) => JsonObject | Promise<JsonObject>>;

/** Creates the methods of the protocol that tools need. */
function createMethods(session: PromptSession, names: () => WireNames, options: ToolBridgeOptions): Methods {
  const { run, signal, redactor, limits } = options;
  let calls = 0;
  /** Tool results are data; the text of opened sections is to be followed. */
  const formatContent = (tool: string, content: string) =>
    tool === OPEN_SECTIONS ? content : wrapInTag("skill_output", { tool }, shortenMiddle(content, limits.toolOutput));
  return {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: BRIDGE_SERVER, version: packageVersion() },
    }),
    ping: () => ({}),
    "tools/list": () => ({ tools: session.tools.map((tool) => describeTool(tool, names())) }),
    async "tools/call"({ name, arguments: input = {} }) {
      const id = names().toId(String(name)) ?? String(name);
      const key = `${run}:${++calls}`;
      const execute = (value: unknown, more?: CallOptions) => session.call(id, value, more);
      // Claude has asked for the permission of this call before: `ToolPermissions` decides it.
      const { text, isError } = await callTool({ name: id, execute } as Tool, input, {
        createOptions: () => ({ signal, run, key }),
        seconds: limits.toolSeconds,
        redactor,
      });
      return { content: [{ type: "text", text: formatContent(id, text) }], ...(isError ? { isError } : {}) };
    },
  };
}

async function answerRequest(methods: Methods, method: string, params: unknown): Promise<JsonObject> {
  if (!Object.hasOwn(methods, method)) return { error: { code: -32601, message: `Unknown method ${method}` } };
  try {
    return { result: await methods[method]?.(isJsonObject(params) ? params : {}) };
  } catch (error) {
    return { error: { code: -32603, message: getErrorMessage(error) } };
  }
}

function describeTool({ name, description, inputSchema }: Tool, names: WireNames): JsonObject {
  const { $schema: _, $id: _id, ...schema } = inputSchema;
  // Claude shows other tools by name only, until its model searches for them.
  const _meta = { "anthropic/alwaysLoad": true };
  return { name: names.toWire(name), description, inputSchema: { ...schema, type: "object" }, _meta };
}

function joinToolNames({ tools }: PromptSession): string {
  return tools.map(({ name }) => name).join("\n");
}
