// A hand-written MCP server that does what no library would let it: `node runs-server.ts KIND`.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [kind = ""] = process.argv.slice(2);
const { MCP_LOG: log, TOKEN: token = "" } = process.env;
if (log) appendFileSync(log, `${process.pid}\n`);
if (kind === "stays") {
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  setInterval(() => {}, 1000);
}

interface Asked {
  id: number;
  method: string;
  params: { protocolVersion?: string; _meta?: { progressToken?: unknown } };
}

const write = (text: string | Uint8Array) => process.stdout.write(text);
const send = (message: object) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const said = (id: number, text: unknown) => send({ id, result: { content: [{ type: "text", text }] } });
const schema = { type: "object" };
const echo = { name: "echo", description: "Echoes.", inputSchema: schema, annotations: { readOnlyHint: true } };
const deep = `{"type":"object","x":${"[".repeat(8000)}${"]".repeat(8000)}}`;

const LISTS: Record<string, (id: number) => void> = {
  pages: (id) => send({ id, result: { tools: [], nextCursor: "again" } }),
  nothings: (id) =>
    send({
      id,
      result: { tools: [null, 5, { name: {} }, { name: "a", inputSchema: [] }, { ...echo, name: "__proto__" }, echo] },
    }),
  deep: (id) =>
    write(
      `{"jsonrpc":"2.0","id":${id},"result":{"tools":[${JSON.stringify(echo)},{"name":"deep","inputSchema":${deep}}]}}\n`,
    ),
  tells: (id) => {
    const words = { description: `It is ${token}.`, title: token };
    const inputSchema = { type: "object", properties: { [token]: { type: "string", enum: [token], ...words } } };
    send({
      id,
      result: {
        tools: [
          { ...echo, ...words, inputSchema },
          { ...echo, name: `echo-${token}` },
        ],
      },
    });
  },
};

const CALLS: Record<string, (asked: Asked) => void> = {
  other: ({ id }) => said(id + 1000, "for somebody else"),
  bytes: ({ id }) =>
    write(
      Buffer.concat([
        Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"a`),
        Buffer.from([0xff, 0xc0, 0x80]),
        Buffer.from('b"}]}}\n'),
      ]),
    ),
  nothings: ({ id }) => send({ id, result: { content: [null, 5, { type: "text" }, { type: "nope" }] } }),
  talks: ({ id, params: { _meta } }) => {
    const progress = (number: number) => ({ progressToken: _meta?.progressToken, progress: number, message: "on" });
    for (let number = 0; number < 20_000; number++)
      send({ method: "notifications/progress", params: progress(number) });
    said(id, "done");
    for (let number = 0; number < 10; number++) send({ method: "notifications/progress", params: progress(number) });
  },
  asks: ({ id }) => {
    send({ id: 77, method: "sampling/createMessage", params: { messages: [], maxTokens: 5 } });
    send({ id: 78, method: "roots/list" });
    send({ id: 79, method: "elicitation/create", params: { message: "password?", requestedSchema: schema } });
    answered = (answers) => answers.length === 3 && said(id, JSON.stringify(answers));
  },
};

const answers: unknown[] = [];
let answered: (answers: unknown[]) => unknown = () => {};

createInterface({ input: process.stdin }).on("line", (line) => {
  const asked: Asked & { result?: unknown } = JSON.parse(line);
  const { id, method, params } = asked;
  if (method === "initialize") {
    const serverInfo = { name: "odd", version: "1" };
    send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") (LISTS[kind] ?? (() => send({ id, result: { tools: [echo] } })))(id);
  else if (method === "tools/call") (CALLS[kind] ?? (() => said(id, `echo ${token}`)))(asked);
  else if (method === undefined) {
    answers.push("result" in asked ? "a result" : "an error");
    answered(answers);
  }
});
