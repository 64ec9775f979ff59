import { Agent, request } from "node:http";
import { initializing, resultOf, skillet, startServer } from "./server.mjs";

const MODERN = "2026-07-28";
const ACCEPT = "application/json, text/event-stream";

/** Starts `skillet serve` over HTTP, and resolves when it listens. */
export async function openHttp(home, options = {}) {
  const args = [skillet, "serve", "--http", "127.0.0.1:0", "--no-token", "--json"];
  const server = startServer({ args, ...home, ...options });
  const line = await server.firstLine;
  if (line === "") throw new Error("skillet serve --http did not listen");
  return { url: new URL(JSON.parse(line).url), held: server.held, stop: () => server.stop({ isSignalled: true }) };
}

/** Opens a client of an older revision, with a session and a stream for notifications of changes. */
export async function openClient(url) {
  // The server closes an idle keep-alive connection after a while, possibly while a request is in flight.
  const agent = new Agent({ keepAlive: false });
  const { headers } = await post(url, { agent, body: { id: 0, method: "initialize", params: initializing() } });
  const session = { "mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25" };
  await post(url, { agent, headers: session, body: { method: "notifications/initialized" } });
  const stream = await opened(url, { agent, headers: session });
  let count = 0;
  return {
    async ask(method, params = {}) {
      const { text } = await post(url, { agent, headers: session, body: { id: ++count, method, params } });
      return resultOf(answerIn(text, count), method);
    },
    async close() {
      stream.destroy();
      await post(url, { agent, method: "DELETE", headers: session });
      agent.destroy();
    },
  };
}

/** Sends one request of the revision without sessions. */
export async function askOnce(url, agent, method, params = {}) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const name = params.name === undefined ? {} : { "mcp-name": params.name };
  const headers = { "mcp-protocol-version": MODERN, "mcp-method": method, ...name };
  const { text } = await post(url, { agent, headers, body: { id: 1, method, params: { ...params, _meta } } });
  return resultOf(answerIn(text, 1), method);
}

/** Parses the answer: JSON, or one event of a stream. */
function answerIn(text, id) {
  const lines = text.startsWith("{")
    ? [text]
    : text.split("\n").flatMap((line) => /^data: ?(\{.*)/.exec(line)?.[1] ?? []);
  const answer = lines.map((line) => JSON.parse(line)).find((message) => message.id === id);
  if (answer === undefined) throw new Error(`there is no answer in: ${text.slice(0, 200)}`);
  return answer;
}

function post(url, { agent, method = "POST", headers = {}, body }) {
  return new Promise((resolve, reject) => {
    const all = { accept: ACCEPT, "content-type": "application/json", ...headers };
    const asked = request(url, { agent, method, headers: all }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => {
        text += part;
      });
      response.once("error", reject);
      response.once("end", () => resolve({ text, headers: response.headers }));
    });
    asked.on("error", reject);
    asked.end(body && JSON.stringify({ jsonrpc: "2.0", ...body }));
  });
}

function opened(url, { agent, headers }) {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent, headers: { accept: "text/event-stream", ...headers } }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`no stream: ${response.statusCode}`));
      response.resume();
      response.once("error", () => {}); // This end closes it.
      resolve(asked);
    });
    asked.on("error", reject);
    asked.end();
  });
}
