import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";
import { type ClaudeSdk, loadClaudeSdk } from "../../src/adapters/claude/claude-sdk.ts";

const folder = join(import.meta.dirname, "..", "claude");
export const claudeSdk = (): Promise<ClaudeSdk> => loadClaudeSdk(folder);

export const CLAUDE_MODEL = "claude-sonnet-4-5";
const KEY = "test-key-of-nobody";

/** The model's turn: text, a call, several calls at once, or an error. */
export type ClaudeReply =
  | string
  | { tool: string; input: unknown }
  | readonly { tool: string; input: unknown }[]
  | { status: number; error: string }
  | { hangs: true };
export type ClaudeTurn = (request: ClaudeRequest) => ClaudeReply;

/** A request as Claude Code made it. */
export interface ClaudeRequest {
  /** The whole request, unchanged. */
  body: string;
  system: string;
  /** Names of the tools that it lists. */
  tools: readonly string[];
  /** The text of the first message: inside reminders, and outside. */
  reminders: readonly string[];
  prompt: string;
  /** The results of the calls so far, in order. */
  results: readonly { tool: string; content: string; isError: boolean }[];
  /** Other messages to the model, in order, such as the body of a skill. */
  said: readonly string[];
}

interface Block {
  type: string;
  text?: string;
  id?: string;
  name?: string;
  tool_use_id?: string;
  content?: string | Block[];
  is_error?: boolean;
}
interface Body {
  model: string;
  system?: Block[];
  tools?: { name: string; input_schema: { type?: string }; defer_loading?: boolean }[];
  messages: { role: string; content: string | Block[] }[];
  stream?: boolean;
}

/**
 * Anthropic's Messages API on the loopback interface, as Claude Code asks it: a script of turns, or one that answers whatever is asked.
 * Requests that the API would refuse get status 400 and fail the test, and so does a turn that fails or is not taken.
 */
export async function startClaudeApi(script: readonly ClaudeTurn[] | ClaudeTurn) {
  const requests: ClaudeRequest[] = [];
  const problems: string[] = [];
  let calls = 0;
  const answer = (request: IncomingMessage, body: string, response: ServerResponse) => {
    if (request.headers["x-api-key"] !== KEY) throw new Error(`the key is ${request.headers["x-api-key"]}`);
    const read = readRequest(body);
    requests.push(read);
    const turn = typeof script === "function" ? script : script[requests.length - 1];
    if (!turn) throw new Error(`the script has only ${script.length} turns`);
    const reply = turn(read);
    if (typeof reply === "object" && "hangs" in reply) return;
    if (typeof reply === "object" && "status" in reply) {
      const error = { type: "error", error: { type: reply.error, message: `It is ${reply.error}` } };
      send(response, reply.status, error);
      return;
    }
    const wanted = typeof reply === "string" ? [] : "tool" in reply ? [reply] : reply;
    const blocks = wanted.map(({ tool, input }) => ({ type: "tool_use", id: `toolu_${++calls}`, name: tool, input }));
    const said = typeof reply === "string" ? [{ type: "text", text: reply }] : blocks;
    response.writeHead(200, { "content-type": "text/event-stream" }).end(streamOf(said, requests.length));
  };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    try {
      if (request.method !== "POST" || !request.url?.startsWith("/v1/messages?")) {
        problems.push(`${request.method} ${request.url} was asked for`);
        send(response, 404, {});
      } else answer(request, body, response);
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error));
      send(response, 400, { type: "error", error: { type: "invalid_request_error", message: String(error) } });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    expect(problems).toEqual([]);
    if (typeof script !== "function") expect(requests.length).toBe(script.length);
  });
  return { requests, env: environment(`http://127.0.0.1:${(server.address() as AddressInfo).port}`) };
}

/** Directs Claude Code to this server, and removes the variables and proxies of the user that runs the tests. */
function environment(url: string): Record<string, string | undefined> {
  const inherited = Object.keys(process.env).filter((name) => /^(?:ANTHROPIC|CLAUDE)|_PROXY$|EXTRA_CA/i.test(name));
  return {
    ...Object.fromEntries(inherited.map((name) => [name, undefined])),
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: KEY,
    CLAUDE_CODE_MAX_RETRIES: "1",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
}

function readRequest(body: string): ClaudeRequest {
  const { model, system = [], tools = [], messages } = JSON.parse(body) as Body;
  if (model !== CLAUDE_MODEL) throw new Error(`there is no model "${model}"`);
  for (const { name, input_schema } of tools) {
    if (!/^[A-Za-z0-9_-]{1,128}$/.test(name)) throw new Error(`"${name}" is not a tool name`);
    if (input_schema?.type !== "object") throw new Error(`the schema of ${name} is not an object schema`);
  }
  const blocks = messages.flatMap(({ role, content }) =>
    (typeof content === "string" ? [{ type: "text", text: content }] : content).map((block) => ({ role, ...block })),
  );
  const first = messages.findIndex(({ role }) => role === "assistant");
  const opening = blocks.slice(0, first === -1 ? blocks.length : blocksBefore(messages, first));
  return {
    body,
    system: system.map((block) => block.text).join("\n"),
    tools: tools.filter((tool) => !tool.defer_loading).map(({ name }) => name),
    reminders: opening.map(({ text = "" }) => text).filter(isReminder),
    prompt: opening
      .map(({ text = "" }) => text)
      .filter((one) => !isReminder(one))
      .join(""),
    results: resultsIn(blocks),
    said: blocks.filter(({ role, type }) => role === "user" && type === "text").map(({ text = "" }) => text),
  };
}

function blocksBefore(messages: Body["messages"], index: number): number {
  return messages
    .slice(0, index)
    .reduce((sum, { content }) => sum + (typeof content === "string" ? 1 : content.length), 0);
}

function isReminder(said: string): boolean {
  return said.startsWith("<system-reminder>");
}

/** Every call has one result, and every result a call before it. */
function resultsIn(blocks: readonly Block[]): ClaudeRequest["results"] {
  const called = new Map<string, string>();
  const results: { tool: string; content: string; isError: boolean }[] = [];
  for (const { type, id = "", name = "", tool_use_id = "", content = "", is_error = false } of blocks) {
    if (type === "tool_use") called.set(id, name);
    if (type !== "tool_result") continue;
    const tool = called.get(tool_use_id);
    if (tool === undefined) throw new Error(`the result of "${tool_use_id}" has no call`);
    called.delete(tool_use_id);
    const said = typeof content === "string" ? content : content.map((block) => block.text ?? "").join("\n");
    results.push({ tool, content: said.replace(/\s*<system-reminder>[\s\S]*$/, ""), isError: is_error });
  }
  if (called.size > 0) throw new Error(`${[...called.values()].join(", ")} has no result`);
  return results;
}

type Said = { type: string; id?: string; name?: string; input?: unknown; text?: string };

function streamOf(blocks: readonly Said[], turn: number): string {
  const usage = { input_tokens: 10, output_tokens: 1, cache_read_input_tokens: 4, cache_creation_input_tokens: 0 };
  const head = { id: `msg_${turn}`, type: "message", role: "assistant", model: CLAUDE_MODEL, content: [] };
  const isCall = blocks.some(({ type }) => type === "tool_use");
  return [
    event("message_start", { message: { ...head, stop_reason: null, stop_sequence: null, usage } }),
    ...blocks.flatMap(({ input, text: said = "", ...block }, index) => [
      event("content_block_start", {
        index,
        content_block: block.type === "text" ? { ...block, text: "" } : { ...block, input: {} },
      }),
      event("content_block_delta", {
        index,
        delta:
          block.type === "text"
            ? { type: "text_delta", text: said }
            : { type: "input_json_delta", partial_json: JSON.stringify(input) },
      }),
      event("content_block_stop", { index }),
    ]),
    event("message_delta", {
      delta: { stop_reason: isCall ? "tool_use" : "end_turn", stop_sequence: null },
      usage: { output_tokens: 7 },
    }),
    event("message_stop", {}),
  ].join("");
}

function event(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
