import { setTimeout as wait } from "node:timers/promises";
import type { RunLimits } from "../host/limits.ts";
import { packageVersion } from "../package.ts";
import { OPEN_SECTIONS } from "../prompt/section.ts";
import type { PromptSession } from "../prompt/session.ts";
import { callInTime } from "../run/in-time.ts";
import { shortened } from "../run/printed.ts";
import { reason } from "../shared/inside.ts";
import { inTag } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { type Data, isData } from "../skill/data.ts";
import type { CallOptions, Tool } from "../skill/tool.ts";
import { type WireNames, wireNames } from "../skill/wire-name.ts";
import type { SdkTransport } from "./sdk.ts";

/** What the server is called, and so the beginning of its tools' names. */
export const SERVER = "skillet";
const PREFIX = `mcp__${SERVER}__`;

export interface BridgeOptions {
  run: string;
  signal: AbortSignal;
  hiding: Hiding;
  /** How long one call takes at most, and how much of what it gives a model reads. */
  limits: Pick<RunLimits, "toolSeconds" | "toolOutput">;
}

/** The tools of a prompt, as Claude reaches them: a server of MCP in this process. What is opened is listed with the next request. */
export interface Bridge {
  /** For `mcpServers`. */
  readonly server: { type: "sdk"; name: string; instance: { connect(transport: SdkTransport): Promise<void> } };
  /** A model calls them as the prompt does, too: `run_tests` → `mcp__skillet__run_tests`. */
  aliases(taken: readonly string[]): Record<string, string>;
}

/** What the prompt calls its tool that Claude calls `mcp__skillet__…`. Nothing for one that is not the prompt's. */
export function bridgedName(tool: string, tools: readonly Tool[]): string | undefined {
  if (!tool.startsWith(PREFIX)) return undefined;
  const wire = tool.slice(PREFIX.length);
  return wireNames(tools.map(({ name }) => name)).toId(wire) ?? wire;
}

export function openBridge(session: PromptSession, options: BridgeOptions): Bridge {
  const names = () => wireNames(session.tools.map(({ name }) => name));
  const methods = methodsOf(session, names, options);
  const connect = async (transport: SdkTransport) => {
    let listed = namesOf(session);
    let onListed = () => {};
    /** The model is to see new tools with the result that tells of them: so that waits until they were asked for. */
    const relist = async () => {
      if (namesOf(session) === listed) return;
      listed = namesOf(session);
      const asked = new Promise<void>((resolve) => {
        onListed = resolve;
      });
      await transport.send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
      await Promise.race([asked, wait(LONGEST_WAIT, undefined, { ref: false })]);
    };
    const answer = async ({ id, method, params }: Data) => {
      const said = await answerTo(methods, String(method), params);
      if (options.signal.aborted) return; // With an answer it would ask the model what is next.
      if (method === "tools/call") await relist();
      await transport.send({ jsonrpc: "2.0", id, ...said });
      if (method === "tools/list") onListed();
    };
    transport.onmessage = (message) => {
      if (!isData(message) || typeof message["method"] !== "string" || message["id"] === undefined) return;
      answer(message).catch(() => {}); // Who asked is gone.
    };
    await transport.start?.();
  };
  return {
    server: { type: "sdk", name: SERVER, instance: { connect } },
    aliases(taken) {
      const { tools, sections } = session.render();
      const all = new Set([...tools, ...sections.flatMap((section) => section.tools)].map(({ name }) => name));
      const wire = wireNames([...all]);
      const own = [...all].filter((name) => !taken.includes(name));
      return Object.fromEntries(own.map((name) => [name, `${PREFIX}${wire.toWire(name)}`]));
    },
  };
}

/** In milliseconds. A client that does not ask again sees them one request later. */
const LONGEST_WAIT = 1000;

type Methods = Record<string, (params: Data) => Data | Promise<Data>>;

/** The whole protocol, as far as tools need it. */
function methodsOf(session: PromptSession, names: () => WireNames, options: BridgeOptions): Methods {
  const { run, signal, hiding, limits } = options;
  let calls = 0;
  /** What tools give is data; what was opened is to be followed. */
  const told = (tool: string, content: string) =>
    tool === OPEN_SECTIONS
      ? hiding.text(content)
      : inTag("skill_output", { tool }, shortened(hiding.text(content), limits.toolOutput));
  return {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: SERVER, version: packageVersion() },
    }),
    ping: () => ({}),
    "tools/list": () => ({ tools: session.tools.map((tool) => listed(tool, names())) }),
    async "tools/call"({ name, arguments: input = {} }) {
      const id = names().toId(String(name)) ?? String(name);
      const key = `${run}:${++calls}`;
      const execute = (given: unknown, more?: CallOptions) => session.call(id, given, more);
      const given = { signal, run, key };
      const { content, isError } = await callInTime({ execute } as Tool, input, given, limits.toolSeconds);
      return { content: [{ type: "text", text: told(id, content) }], ...(isError ? { isError } : {}) };
    },
  };
}

async function answerTo(methods: Methods, method: string, params: unknown): Promise<Data> {
  if (!Object.hasOwn(methods, method)) return { error: { code: -32601, message: `There is no method ${method}` } };
  try {
    return { result: await methods[method]?.(isData(params) ? params : {}) };
  } catch (error) {
    return { error: { code: -32603, message: reason(error) } };
  }
}

function listed({ name, description, inputSchema }: Tool, names: WireNames): Data {
  const { $schema: _, $id: _id, ...schema } = inputSchema;
  // Claude shows others by name alone until its model looks for them.
  const _meta = { "anthropic/alwaysLoad": true };
  return { name: names.toWire(name), description, inputSchema: { ...schema, type: "object" }, _meta };
}

function namesOf({ tools }: PromptSession): string {
  return tools.map(({ name }) => name).join("\n");
}
