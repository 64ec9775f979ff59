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
  type Tokens,
} from "./model-protocols.ts";
import { responses } from "./model-responses.ts";

export const PROTOCOLS = { openai, anthropic } as const;
const SERVED = { ...PROTOCOLS, responses } as const;
export const MODEL = "test-model";
export const API_KEY = "test-key";

/** The model's turn: text, tool calls, all fields, or an error. */
export type Reply = string | readonly Wanted[] | Answer | Mishap;
/** A tool call. `written` is its input on the wire if that is not JSON. */
type Wanted = { tool: string; input: unknown; written?: string };

export interface Answer {
  text?: string;
  calls?: readonly Wanted[];
  reasoning?: string;
  usage?: Tokens;
  isCut?: boolean;
}

export type Mishap =
  | { status: number; headers?: Readonly<Record<string, string>>; message?: string }
  /** The connection ends in the middle of this text. */
  | { breaksOff: string }
  /** It never answers. */
  | { hangs: true }
  /** An answer that violates the protocol. */
  | { sends: string };

export interface ServerOptions {
  /** The only model. */
  model?: string;
  /** The only accepted key; `none`: a request must not have a key. */
  apiKey?: string | "none";
}

/** One turn of the model. Throws, as `expect` does, if the request is not as expected. */
export type Turn = (request: ModelRequest) => Reply;

/** A request, independent of the protocol. */
export interface ModelRequest extends Omit<ReadRequest, "entries"> {
  /** The results of its tool calls, in order. `isError` if the protocol has it. */
  results: readonly { tool: string; content: string; isError: boolean | undefined }[];
  /** The text that skillet added after the user's last message, for this turn only. */
  context: string;
  /** All messages of both sides, in order. */
  said: readonly string[];
  /** The returned reasoning of earlier turns. */
  reasoning: readonly string[];
}

export interface ModelServer {
  /** For the provider's `baseURL`. */
  url: string;
  requests: readonly ModelRequest[];
}

/**
 * Starts a language model that follows a script, with a provider's protocol on the loopback interface. Requests that a provider would
 * refuse get status 400 and fail the test, as does a turn that fails or is not used. A single turn answers every request.
 */
export async function startModelServer(
  name: keyof typeof SERVED,
  script: readonly Turn[] | Turn,
  { model = MODEL, apiKey = API_KEY }: ServerOptions = {},
): Promise<ModelServer> {
  const protocol: Protocol = SERVED[name];
  const requests: ModelRequest[] = [];
  const problems: string[] = [];
  const called = new Map<string, Call>();

  function reply(request: IncomingMessage, body: string): { read: ReadRequest; reply: Said | Mishap } {
    checkHead(request, protocol, apiKey);
    const read = protocol.read(JSON.parse(body));
    if (read.model !== model) throw new Error(`there is no model "${read.model}"`);
    checkTools(read.tools);
    const { entries, ...rest } = read;
    const reasoning = entries.flatMap((entry) => ("reasoning" in entry ? entry.reasoning : []));
    const said = entries.flatMap((entry) => ("role" in entry && entry.text ? splitContext(entry.text).prompt : []));
    const understood = { ...rest, ...splitContext(rest.prompt), results: resultsIn(entries, called), said, reasoning };
    requests.push(understood);
    const turn = typeof script === "function" ? script : script[requests.length - 1];
    if (!turn) throw new Error(`the script has only ${script.length} turns`);
    const answer = asAnswer(turn(understood));
    if (isMishap(answer)) return { read, reply: answer };
    const { text = "", calls: wanted = [], ...more } = answer;
    const calls = wanted.map(({ tool, ...call }, index) => ({
      id: `call_${called.size + index + 1}`,
      name: tool,
      ...call,
    }));
    for (const { id, name: tool, input } of calls) called.set(id, { id, name: tool, input });
    return { read, reply: { text, calls, ...more } };
  }

  const server = createServer(async (request, response) => {
    try {
      if (request.method === "GET" && request.url === "/v1/models") {
        send(response, 200, { object: "list", data: [{ id: model, object: "model" }] });
        return;
      }
      const { read, reply: said } = reply(request, await text(request));
      if (isMishap(said)) mishap(response, said, { protocol, read });
      else if (read.isStream) sendStream(response, protocol.stream(said, read)).end();
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
    expect(problems, "the refusals of the model server").toEqual([]);
    if (typeof script !== "function") expect(requests.length, "the used turns of the script").toBe(script.length);
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, requests };
}

function asAnswer(reply: Reply): Answer | Mishap {
  if (typeof reply === "string") return { text: reply };
  return Array.isArray(reply) ? { calls: reply } : (reply as Answer | Mishap);
}

function isMishap(reply: object): reply is Mishap {
  return "status" in reply || "breaksOff" in reply || "hangs" in reply || "sends" in reply;
}

function mishap(
  response: ServerResponse,
  what: Mishap,
  { protocol, read }: { protocol: Protocol; read: ReadRequest },
): void {
  if ("status" in what) send(response, what.status, protocol.refusal(what.message ?? "not now"), what.headers);
  else if ("sends" in what) response.writeHead(200, { "content-type": "text/event-stream" }).end(what.sends);
  else if ("breaksOff" in what) {
    const lines = protocol.stream({ text: what.breaksOff, calls: [] }, read);
    const half = lines.findLastIndex((line) => line.includes(what.breaksOff.slice(-3)));
    sendStream(response, lines.slice(0, half + 1));
    // What was written goes out before the connection is cut.
    setTimeout(() => response.destroy(), 20);
  }
}

function checkHead({ method, url, headers }: IncomingMessage, protocol: Protocol, apiKey: string): void {
  if (method !== "POST" || url !== `/v1${protocol.path}`) throw new Error(`${method} ${url} is not served`);
  if (!headers["content-type"]?.startsWith("application/json")) throw new Error("the content type is not JSON");
  for (const [name, value] of Object.entries(protocol.headers(apiKey))) {
    const wanted = apiKey === "none" ? undefined : value;
    if (headers[name] !== wanted) throw new Error(`the header ${name} is "${headers[name]}", not "${wanted}"`);
  }
}

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

function checkTools(tools: ReadRequest["tools"]): void {
  for (const [name, { description, schema }] of Object.entries(tools)) {
    if (!TOOL_NAME.test(name)) throw new Error(`the tool name "${name}" is not allowed`);
    if (description === "") throw new Error(`the tool ${name} has no description`);
    if (schema["type"] !== "object") throw new Error(`the schema of ${name} is not an object schema`);
    checkSchema(schema);
  }
}

/** Most requests repeat the tools of the previous one, and compiling a schema is the slowest part of an answer. */
const checked = new Set<string>();

function checkSchema(schema: object): void {
  const text = JSON.stringify(schema);
  if (checked.has(text)) return;
  new Ajv({ strict: true }).compile(schema);
  checked.add(text);
}

/** Returns the results of the calls. Throws if calls and results are not paired and in order. */
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
      if (!TOOL_NAME.test(call.name)) throw new Error(`the tool name "${call.name}" of a call is not allowed`);
      const made = called.get(call.id);
      // A name that is not allowed cannot come back as it was made.
      const same = made && !TOOL_NAME.test(made.name) ? { ...made, name: call.name } : made;
      if (!isDeepStrictEqual(same, call))
        throw new Error(`the tool call ${JSON.stringify(call)} is not one that was made`);
      open.set(call.id, call);
    } else if ("role" in entry && open.size > 0)
      throw new Error(`a message of the ${entry.role} comes before the tool results`);
  }
  if (open.size > 0) throw new Error(`the tool calls ${[...open.keys()].join(", ")} have no result`);
  return results;
}

function send(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function sendStream(response: ServerResponse, lines: readonly string[]): ServerResponse {
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const line of lines) response.write(`${line}\n\n`);
  return response;
}

const CONTEXT = "\n\n[Skills for this message; the user did not write the text below]\n";

function splitContext(text: string): { prompt: string; context: string } {
  const at = text.indexOf(CONTEXT);
  return at === -1
    ? { prompt: text, context: "" }
    : { prompt: text.slice(0, at), context: text.slice(at + CONTEXT.length) };
}
