import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import { Ajv } from "ajv";
import { expect, onTestFinished } from "vitest";
import {
  anthropic,
  type Call,
  type Entry,
  openai,
  type Protocol,
  type ReadRequest,
  type Said,
} from "./model-protocols.ts";

export const PROTOCOLS = { openai, anthropic } as const;
export const MODEL = "test-model";
export const API_KEY = "test-key";

/** What the model says: text, or tools to call. */
export type Reply = string | readonly { tool: string; input: unknown }[];
/** One turn of the model. Throws, as `expect` does, when it is not asked what it should be. */
export type Turn = (request: ModelRequest) => Reply;

/** A request as the model understands it, whichever protocol it came by. */
export interface ModelRequest extends Omit<ReadRequest, "entries"> {
  /** What came of the tools that it called, in order. `isError` where the protocol can say it. */
  results: readonly { tool: string; content: string; isError: boolean | undefined }[];
}

export interface ModelServer {
  /** For the provider's `baseURL`. */
  url: string;
  requests: readonly ModelRequest[];
}

/**
 * A language model that follows a script, behind a provider's protocol on the loopback interface. What a provider would refuse
 * is answered with 400 and fails the test, and so does a turn that fails or is not taken.
 */
export async function modelServer(name: keyof typeof PROTOCOLS, script: readonly Turn[]): Promise<ModelServer> {
  const protocol: Protocol = PROTOCOLS[name];
  const requests: ModelRequest[] = [];
  const problems: string[] = [];
  const called = new Map<string, Call>();

  function reply(request: IncomingMessage, body: string): { isStream: boolean; said: Said } {
    checkHead(request, protocol);
    const { entries, ...read } = protocol.read(JSON.parse(body));
    if (read.model !== MODEL) throw new Error(`there is no model "${read.model}"`);
    checkTools(read.tools);
    const understood = { ...read, results: resultsIn(entries, called) };
    requests.push(understood);
    const turn = script[requests.length - 1];
    if (!turn) throw new Error(`the script has only ${script.length} turns`);
    const said = turn(understood);
    if (typeof said === "string") return { isStream: read.isStream, said: { text: said, calls: [] } };
    const calls = said.map(({ tool, input }, index) => ({ id: `call_${called.size + index + 1}`, name: tool, input }));
    for (const call of calls) called.set(call.id, call);
    return { isStream: read.isStream, said: { text: "", calls } };
  }

  const server = createServer(async (request, response) => {
    try {
      const { isStream, said } = reply(request, await text(request));
      if (isStream) sendStream(response, protocol.stream(said));
      else send(response, 200, protocol.answer(said));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      problems.push(message);
      send(response, 400, protocol.refusal(message));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
    expect(problems, "what the model server refused").toEqual([]);
    expect(requests.length, "turns of the script that were taken").toBe(script.length);
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests };
}

function checkHead({ method, url, headers }: IncomingMessage, protocol: Protocol): void {
  if (method !== "POST" || url !== `/v1${protocol.path}`) throw new Error(`${method} ${url} is not served`);
  if (!headers["content-type"]?.startsWith("application/json")) throw new Error("the content type is not JSON");
  for (const [name, value] of Object.entries(protocol.headers(API_KEY))) {
    if (headers[name] !== value) throw new Error(`the header ${name} is "${headers[name]}", not "${value}"`);
  }
}

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

function checkTools(tools: ReadRequest["tools"]): void {
  for (const [name, { description, schema }] of Object.entries(tools)) {
    if (!TOOL_NAME.test(name)) throw new Error(`the tool name "${name}" is not allowed`);
    if (description === "") throw new Error(`the tool ${name} has no description`);
    if (schema["type"] !== "object") throw new Error(`the schema of ${name} is no object's`);
    new Ajv({ strict: true }).compile(schema);
  }
}

/** What came of the calls. Throws when calls and results are not those of this conversation, in pairs and in order. */
function resultsIn(entries: readonly Entry[], called: ReadonlyMap<string, Call>): ModelRequest["results"] {
  const open = new Map<string, Call>();
  const results: { tool: string; content: string; isError: boolean | undefined }[] = [];
  for (const entry of entries) {
    if ("result" in entry) {
      const { id, content, isError } = entry.result;
      const call = open.get(id);
      if (!call) throw new Error(`the tool result "${id}" answers no call before it`);
      open.delete(id);
      results.push({ tool: call.name, content, isError });
    } else if ("call" in entry) {
      const { call } = entry;
      if (!isDeepStrictEqual(called.get(call.id), call))
        throw new Error(`the tool call ${JSON.stringify(call)} is not one that was made`);
      open.set(call.id, call);
    } else if (open.size > 0) throw new Error(`a message of the ${entry.role} comes before the tool results`);
  }
  if (open.size > 0) throw new Error(`the tool calls ${[...open.keys()].join(", ")} have no result`);
  return results;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function sendStream(response: ServerResponse, lines: readonly string[]): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const line of lines) response.write(`${line}\n\n`);
  response.end();
}
