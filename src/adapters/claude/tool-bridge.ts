import { setTimeout as wait } from "node:timers/promises";
import { OPEN_SECTIONS } from "../../agent/prompts/prompt-section.ts";
import type { PromptSession } from "../../agent/prompts/prompt-session.ts";
import { callWithTimeout } from "../../agent/run/tool-call.ts";
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

/** What the server is called, and so the beginning of its tools' names. */
export const BRIDGE_SERVER = "skillet";
const TOOL_PREFIX = `mcp__${BRIDGE_SERVER}__`;

export interface ToolBridgeOptions {
  run: string;
  signal: AbortSignal;
  hiding: Redactor;
  /** How long one call takes at most, and how much of what it gives a model reads. */
  limits: Pick<RunLimits, "toolSeconds" | "toolOutput">;
}

/** The tools of a prompt, as Claude reaches them: a server of MCP in this process. What is opened is listed with the next request. */
export interface ToolBridge {
  /** For `mcpServers`. */
  readonly server: { type: "sdk"; name: string; instance: { connect(transport: SdkTransport): Promise<void> } };
  /** A model calls them as the prompt does, too: `run_tests` → `mcp__skillet__run_tests`. */
  aliases(taken: readonly string[]): Record<string, string>;
}

/** What the prompt calls its tool that Claude calls `mcp__skillet__…`. Nothing for one that is not the prompt's. */
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
    /** The model is to see new tools with the result that tells of them: so that waits until they were asked for. */
    const relist = async () => {
      if (joinToolNames(session) === listed) return;
      listed = joinToolNames(session);
      const asked = new Promise<void>((resolve) => {
        onListed = resolve;
      });
      await transport.send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
      await Promise.race([asked, wait(MAX_RELIST_WAIT_MS, undefined, { ref: false })]);
    };
    const answer = async ({ id, method, params }: JsonObject) => {
      const said = await answerRequest(methods, String(method), params);
      if (options.signal.aborted) return; // With an answer it would ask the model what is next.
      if (method === "tools/call") await relist();
      await transport.send({ jsonrpc: "2.0", id, ...said });
      if (method === "tools/list") onListed();
    };
    transport.onmessage = (message) => {
      if (!isJsonObject(message) || typeof message["method"] !== "string" || message["id"] === undefined) return;
      answer(message).catch(() => {}); // Who asked is gone.
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

/** In milliseconds. A client that does not ask again sees them one request later. */
const MAX_RELIST_WAIT_MS = 1000;

type Methods = Record<string, (params: JsonObject) => JsonObject | Promise<JsonObject>>;

/** The whole protocol, as far as tools need it. */
function createMethods(session: PromptSession, names: () => WireNames, options: ToolBridgeOptions): Methods {
  const { run, signal, hiding, limits } = options;
  let calls = 0;
  /** What tools give is data; what was opened is to be followed. */
  const told = (tool: string, content: string) =>
    tool === OPEN_SECTIONS
      ? hiding.text(content)
      : wrapInTag("skill_output", { tool }, shortenMiddle(hiding.text(content), limits.toolOutput));
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
      const execute = (given: unknown, more?: CallOptions) => session.call(id, given, more);
      const given = { signal, run, key };
      const { content, isError } = await callWithTimeout({ execute } as Tool, input, given, limits.toolSeconds);
      return { content: [{ type: "text", text: told(id, content) }], ...(isError ? { isError } : {}) };
    },
  };
}

async function answerRequest(methods: Methods, method: string, params: unknown): Promise<JsonObject> {
  if (!Object.hasOwn(methods, method)) return { error: { code: -32601, message: `There is no method ${method}` } };
  try {
    return { result: await methods[method]?.(isJsonObject(params) ? params : {}) };
  } catch (error) {
    return { error: { code: -32603, message: getErrorMessage(error) } };
  }
}

function describeTool({ name, description, inputSchema }: Tool, names: WireNames): JsonObject {
  const { $schema: _, $id: _id, ...schema } = inputSchema;
  // Claude shows others by name alone until its model looks for them.
  const _meta = { "anthropic/alwaysLoad": true };
  return { name: names.toWire(name), description, inputSchema: { ...schema, type: "object" }, _meta };
}

function joinToolNames({ tools }: PromptSession): string {
  return tools.map(({ name }) => name).join("\n");
}
