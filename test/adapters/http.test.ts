import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, request as sendRequest } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { Client, type ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  type CallToolResult,
  type McpServerFactory,
  Server,
  type WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { sendWebResponse } from "../../src/adapters/mcp-server/http-guard.ts";
import { type HttpServerOptions, serveHttp } from "../../src/adapters/mcp-server/http-server.ts";
import { moduleOf } from "../support/program.ts";
import { waitFor } from "../support/wait-for.ts";

type Era = "legacy" | "modern";
const ERAS: readonly Era[] = ["legacy", "modern"];

describe("HTTP clients", () => {
  it.each(ERAS)("get answers and progress over %s", async (era) => {
    const { url } = await serve();
    const client = await connected(url, era);
    const heard: unknown[] = [];
    const onprogress = ({ progress }: { progress: number }) => void heard.push(progress);
    expect(await called(client, "count", { onprogress })).toBe("counted");
    expect(heard).toEqual([1, 2]);
  });

  it.each(ERAS)("get notices of changed lists over %s", async (era) => {
    const { url, serving, factory } = await serve();
    let heard = 0;
    const onChanged = () => void heard++;
    const client = await connected(url, era, {
      listChanged: { tools: { autoRefresh: false, onChanged, debounceMs: 0 } },
    });
    // The stream that carries it opens after the client connected.
    await waitFor(async () => {
      if (era === "modern") serving.notify.toolsChanged();
      else await called(client, "grow");
      expect(heard).toBeGreaterThan(0);
    });
    expect(serving.sessions).toBe(era === "legacy" ? 1 : 0);
    expect(factory.eras).toContain(era);
  });

  it("get a separate server per session, which keeps its state", async () => {
    const { url, serving } = await serve();
    const [one, other] = [await connected(url, "legacy"), await connected(url, "legacy")];
    await called(one, "grow");
    expect((await one.listTools()).tools.map(({ name }) => name)).toContain("grown");
    expect((await other.listTools()).tools.map(({ name }) => name)).not.toContain("grown");
    expect(await called(one, "who")).not.toBe(await called(other, "who"));
    expect(serving.sessions).toBe(2);
  });

  it("can use both revisions and many sessions at once", async () => {
    const { url, serving, factory } = await serve({ maxSessions: 50 });
    const clients = await Promise.all(Array.from({ length: 50 }, () => connected(url, "legacy")));
    const modern = await connected(url, "modern");
    const names = await Promise.all(clients.map((client) => called(client, "who")));
    expect(new Set(names).size).toBe(50);
    expect(serving.sessions).toBe(50);
    expect(await called(modern, "who")).toMatch(/^modern/);
    await serving.close();
    expect(factory.closed.filter((name) => name.startsWith("legacy"))).toHaveLength(50);
  });

  it("can cancel a call, which closes its stream", async () => {
    const { url, factory, notices } = await serve({ idleSeconds: 1.5 });
    const session = await initialized(url);
    const call = await open(url, session, callOf("wait", 7));
    await waitFor(() => expect(factory.waiting).toBe(1));
    const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } };
    expect((await ask(url, { headers: session, body: cancelled })).status).toBe(202);
    expect(await text(call)).toBe("");
    await waitFor(() => expect(factory.aborted).toBe(1));
    await waitFor(() => expect(factory.closed).toHaveLength(1));
    expect(notices).toEqual([]);
  });

  it("get the rest of a batch of which one call was canceled", async () => {
    const { url, factory } = await serve();
    const session = await initialized(url, "2025-03-26");
    const call = await open(url, session, [callOf("wait", 1), callOf("hold", 2)]);
    await waitFor(() => expect(factory.waiting).toBe(1));
    const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } };
    await ask(url, { headers: session, body: cancelled });
    await waitFor(() => expect(factory.aborted).toBe(1));
    factory.release();
    expect(await text(call)).toContain("held");
  });
});

describe("sessions", () => {
  it("end on DELETE, close their server once, and are unknown afterwards", async () => {
    const { url, serving, factory } = await serve();
    const session = await initialized(url);
    const stream = await open(url, session);
    expect((await ask(url, { method: "DELETE", headers: session })).status).toBe(200);
    expect(await text(stream)).toBe("");
    expect(serving.sessions).toBe(0);
    const after = await ask(url, { headers: session, body: callOf("who") });
    expect([after.status, after.json.error.code]).toEqual([404, -32001]);
    expect((await ask(url, { method: "DELETE", headers: session })).status).toBe(404);
    await serving.close();
    expect(factory.closed).toEqual(["legacy 1"]);
  });

  it("are unknown unless the server created them", async () => {
    const { url } = await serve();
    const foreign = { "mcp-session-id": "00000000-0000-4000-8000-000000000000" };
    for (const method of ["GET", "DELETE"]) {
      expect((await ask(url, { method, headers: { ...foreign, accept: BOTH } })).status).toBe(404);
    }
    expect((await ask(url, { headers: foreign, body: callOf("who") })).status).toBe(404);
    expect((await ask(url, { headers: foreign, body: INITIALIZE })).status).toBe(404);
  });

  it("are required for every request except initialize", async () => {
    const { url, factory } = await serve();
    for (const body of [
      callOf("who"),
      [callOf("who")],
      { jsonrpc: "2.0", method: "notifications/initialized" },
      7,
      null,
    ]) {
      expect((await ask(url, { body })).status).toBe(400);
    }
    expect((await ask(url, { method: "GET", headers: { accept: BOTH } })).status).toBe(400);
    expect(factory.eras).toEqual([]);
  });

  it("have no GET for a client of the newer revision", async () => {
    const { url } = await serve();
    const headers = { accept: BOTH, "mcp-protocol-version": MODERN };
    expect((await ask(url, { method: "GET", headers })).status).toBe(405);
  });

  it("keep nothing of a refused initialize", async () => {
    const { url, serving, factory } = await serve();
    expect((await ask(url, { headers: { accept: "application/json" }, body: INITIALIZE })).status).toBe(406);
    expect((await ask(url, { body: [INITIALIZE, callOf("who")] })).status).toBe(400);
    await waitFor(() => expect(factory.closed).toHaveLength(2));
    expect(serving.sessions).toBe(0);
  });

  it("end when they are idle, but never with an open stream", async () => {
    const { url, serving, factory } = await serve({ idleSeconds: 1 });
    const kept = await initialized(url);
    const stream = await open(url, kept);
    await initialized(url);
    await waitFor(() => expect(factory.closed).toEqual(["legacy 2"]));
    // A session that was idle for a shorter time than the kept one has had its stream.
    await initialized(url);
    await waitFor(() => expect(factory.closed).toEqual(["legacy 2", "legacy 3"]));
    expect(serving.sessions).toBe(1);
    expect((await ask(url, { headers: kept, body: callOf("who") })).status).toBe(200);
    stream.destroy();
    await waitFor(() => expect(factory.closed).toEqual(["legacy 2", "legacy 3", "legacy 1"]));
  });

  it("end when they are idle for the longest time and the limit is reached, or a new one is refused", async () => {
    const { url, serving, factory } = await serve({ maxSessions: 2 });
    const first = await initialized(url);
    const second = await initialized(url);
    await ask(url, { headers: first, body: callOf("who") });
    const third = await initialized(url);
    await waitFor(() => expect(factory.closed).toEqual(["legacy 2"]));
    expect((await ask(url, { headers: second, body: callOf("who") })).status).toBe(404);
    await open(url, first);
    await open(url, third);
    const refused = await ask(url, { body: INITIALIZE });
    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "10"]);
    expect(serving.sessions).toBe(2);
  });

  it("[Q-30] of another caller do not end in a flood of new ones", async () => {
    const { url, serving } = await serve({ maxSessions: 5 });
    const other = { localAddress: "127.0.0.2" };
    const quiet = await initialized(url, "2025-11-25", other);
    for (let count = 0; count < 20; count++) await initialized(url);
    expect(serving.sessions).toBe(5);
    expect((await ask(url, { ...other, headers: quiet, body: callOf("who") })).status).toBe(200);
    const another = await initialized(url, "2025-11-25", { localAddress: "127.0.0.3" });
    expect((await ask(url, { ...other, headers: quiet, body: callOf("who") })).status).toBe(200);
    expect((await ask(url, { headers: another, body: callOf("who") })).status).toBe(200);
  });

  it("count while they are being created", async () => {
    const { make, eras } = newFactory();
    let go = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const { url, serving } = await serve({ maxSessions: 1 }, (context) => gate.then(() => make(context)));
    const asked = [ask(url, { body: INITIALIZE }), ask(url, { body: INITIALIZE })];
    expect((await Promise.race(asked)).status).toBe(503);
    go();
    expect((await Promise.all(asked)).map(({ status }) => status).sort()).toEqual([200, 503]);
    expect([serving.sessions, eras]).toEqual([1, ["legacy"]]);
  });

  it("are removed when the client hung up before it received them", async () => {
    const factory = newFactory();
    const { promise, resolve: goOn } = Promise.withResolvers<void>();
    let asked: Request | undefined;
    const { url, serving } = await serve({}, async (context) => {
      asked = context.requestInfo;
      await promise;
      return factory.make(context);
    });
    const request = started(url, { body: INITIALIZE });
    await waitFor(() => expect(asked).toBeDefined());
    request.destroy();
    await waitFor(() => expect(asked?.signal.aborted).toBe(true));
    goOn();
    await waitFor(() => expect(factory.closed).toEqual(["legacy 1"]));
    expect(serving.sessions).toBe(0);
  });

  it("answer 500 when no server can be created, and report the reason to the operator only", async () => {
    const broken = () => Promise.reject(new Error("the disk is full\nof secrets"));
    const { url, notices } = await serve({}, broken);
    const legacy = await ask(url, { body: INITIALIZE });
    const modern = await ask(url, modernCall("who"));
    expect([legacy.status, modern.status]).toEqual([500, 500]);
    expect(legacy.body + modern.body).not.toContain("disk");
    expect(notices).toEqual(["the disk is full", "the disk is full"]);
  });
});

describe("a client that hangs up in the middle of a call", () => {
  it("has the call of the newer revision aborted at once", async () => {
    const { url, factory } = await serve();
    const call = started(url, modernCall("wait"));
    await waitFor(() => expect(factory.waiting).toBe(1));
    call.destroy();
    await waitFor(() => expect(factory.aborted).toBe(1));
  });

  it("has its call aborted when it does not return", async () => {
    const { url, factory, serving } = await serve();
    const session = await initialized(url);
    const stream = await open(url, session);
    const call = await open(url, session, callOf("wait"));
    await waitFor(() => expect(factory.waiting).toBe(1));
    call.destroy();
    stream.destroy();
    await waitFor(() => expect(factory.aborted).toBe(1));
    expect(serving.sessions).toBe(1);
    expect((await ask(url, { headers: session, body: callOf("who") })).status).toBe(200);
  });

  it("keeps its call while another of its streams is open", async () => {
    const { url, factory } = await serve();
    const session = await initialized(url);
    const stream = await open(url, session);
    const call = await open(url, session, callOf("wait"));
    await waitFor(() => expect(factory.waiting).toBe(1));
    call.destroy();
    // Another client, which hangs up later and has no other stream, is given up.
    const other = await open(url, await initialized(url), callOf("wait"));
    await waitFor(() => expect(factory.waiting).toBe(2));
    other.destroy();
    await waitFor(() => expect(factory.aborted).toBeGreaterThan(0));
    expect(factory.abortedIn).toEqual(["legacy 2"]);
    stream.destroy();
    await waitFor(() => expect(factory.abortedIn).toEqual(["legacy 2", "legacy 1"]));
  });

  it("can also be a client whose process dies", async () => {
    const { url, factory } = await serve();
    for (const era of ERAS) {
      const client = await connected(url, era);
      client.callTool({ name: "wait" }).catch(() => {});
      await waitFor(() => expect(factory.waiting).toBe(1));
      await client.close();
      await waitFor(() => expect(factory.waiting).toBe(0));
    }
    expect(factory.aborted).toBe(2);
  });
});

describe("bad requests", () => {
  it.each([
    ["another path", { path: "/" }, 404],
    ["a longer path", { path: "/mcp/x" }, 404],
    ["PUT", { method: "PUT" }, 405],
    ["HEAD", { method: "HEAD" }, 405],
    ["no type", { headers: { "content-type": "" }, body: "{}" }, 415],
    ["another type", { headers: { "content-type": "text/plain" }, body: "{}" }, 415],
    ["no body", { body: "" }, 400],
    ["half of a message", { body: '{"jsonrpc": "2.0", "secret' }, 400],
    ["bytes that are not text", { body: Buffer.from([0x22, 0xff, 0xfe, 0x22]) }, 400],
    ["too deep a body", { body: "[".repeat(1_000_000) }, 400],
    ["much depth", { body: "[".repeat(200_000) + "]".repeat(200_000) }, 400],
  ] as const)("answers %s", async (_, question, status) => {
    const { url, notices } = await serve();
    const answer = await ask(url, question);
    expect(answer.status).toBe(status);
    expect(answer.body).not.toContain("secret");
    expect(notices.join()).not.toContain("secret");
    if (status === 404) expect(answer.json.error.message).toContain("/mcp");
    if (status === 405) expect(answer.headers["allow"]).toBe("GET, POST, DELETE, OPTIONS");
    expect((await ask(url, { body: INITIALIZE })).status).toBe(200);
  });

  it("lists the methods for OPTIONS, and tells a foreign page that it may not call", async () => {
    const { url } = await serve();
    const { status, headers, body } = await ask(url, { method: "OPTIONS" });
    expect([status, headers["allow"], body]).toEqual([204, "GET, POST, DELETE, OPTIONS", ""]);
    const stranger = await ask(url, { method: "OPTIONS", headers: { origin: "http://localhost:3000" } });
    expect(stranger.status).toBe(403);
    expect(stranger.json.error.message).toContain("--allow-origin");
  });

  it("closes the server of a session that breaks before it begins", async () => {
    const factory = newFactory();
    const { url, serving, notices } = await serve({}, (context) =>
      tampered(factory.make(context), (transport) => {
        transport.handleRequest = () => Promise.reject(new Error("broken"));
      }),
    );
    expect((await ask(url, { body: INITIALIZE })).status).toBe(500);
    expect([factory.closed, serving.sessions, notices]).toEqual([["legacy 1"], 0, ["broken"]]);
  });

  it("closes a server that cannot be connected", async () => {
    const factory = newFactory();
    const { url } = await serve({}, (context) =>
      tampered(factory.make(context), () => {
        throw new Error("not today");
      }),
    );
    expect((await ask(url, { body: INITIALIZE })).status).toBe(500);
    expect(factory.closed).toEqual(["legacy 1"]);
  });

  it("ends a session as idle whose stream broke", async () => {
    const factory = newFactory();
    const { url, serving } = await serve({ idleSeconds: 0.5 }, (context) =>
      tampered(factory.make(context), (transport) => {
        const handle = transport.handleRequest.bind(transport);
        transport.handleRequest = async (request, options) => {
          if (request.method !== "GET") return handle(request, options);
          return new Response(new ReadableStream({ pull: () => Promise.reject(new Error("torn")) }));
        };
      }),
    );
    const session = await initialized(url);
    await expect(ask(url, { headers: session })).rejects.toThrow();
    expect(serving.sessions).toBe(1);
    await waitFor(() => expect(factory.closed).toEqual(["legacy 1"]));
  });

  it("answers unreadable requests, and continues", async () => {
    const { url, serving } = await serve();
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const body = JSON.stringify(INITIALIZE).replace(
      '"capabilities":{}',
      `"capabilities":{"experimental":{"a":{"b":${deep}}}}`,
    );
    const answer = await ask(url, { body });
    expect([answer.status, answer.json.error.code]).toEqual([500, -32603]);
    expect(serving.sessions).toBe(0);
    expect((await ask(url, { body: INITIALIZE })).status).toBe(200);
  });

  it("does not read the messages of a batch that is too long", async () => {
    const { url } = await serve();
    const session = await initialized(url, "2025-03-26");
    const batch = (length: number) =>
      Array.from({ length }, (_, id) => ({ jsonrpc: "2.0", id: id + 1, method: "ping" }));
    expect((await ask(url, { headers: session, body: batch(100) })).status).toBe(200);
    for (const headers of [session, {}]) {
      const { status, json } = await ask(url, { headers, body: batch(101) });
      expect([status, json.error]).toEqual([400, { code: -32600, message: expect.stringContaining("at most 100") }]);
    }
  });

  it("continues when a server cannot be closed, whatever it throws", async () => {
    const failing: McpServerFactory = () => {
      const server = new Server({ name: "s", version: "1.0.0" }, { capabilities: {} });
      return Object.assign(server, { close: () => Promise.reject("no error at all") });
    };
    const { url, notices } = await serve({}, failing);
    const session = await initialized(url);
    await ask(url, { method: "DELETE", headers: session });
    await waitFor(() => expect(notices).toContain("no error at all"));
    expect((await ask(url, { body: INITIALIZE })).status).toBe(200);
  });

  it("reports malformed JSON as a parse error", async () => {
    const { url } = await serve();
    expect((await ask(url, { body: "{" })).json).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32700 } });
  });

  it("answers a batch in a session, but not in the newer revision", async () => {
    const { url } = await serve();
    const session = await initialized(url, "2025-03-26");
    const answer = await ask(url, { headers: session, body: [callOf("who", 1), callOf("count", 2)] });
    expect(answer.body.match(/"id":\d/g)?.sort()).toEqual(['"id":1', '"id":2']);
    const { body, headers } = modernCall("who");
    expect((await ask(url, { headers, body: [body] })).status).toBe(400);
  });

  it("refuses a body by its declared size before it arrives", async () => {
    const { url } = await serve({ maxBody: 1000 });
    const answer = await raw(url, "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1001\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
  });

  it.each([
    ["nobody", {}, 1000, 100],
    ["the limit", { maxBody: 999 }, 1000, 413],
    ["the token", { token: "secret" }, 1000, 401],
  ])("answers Expect: 100-continue, unless %s prevents it", async (_, options, length, status) => {
    const { url } = await serve(options);
    const socket = dial(url);
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nAccept: ${BOTH}\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
    );
    const said = heard(socket);
    await new Promise((resolve) => socket.once("data", resolve));
    if (status === 100) socket.end(JSON.stringify(INITIALIZE).padEnd(length));
    expect(await said).toMatch(
      status === 100 ? /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 / : new RegExp(`^HTTP/1\\.1 ${status} `),
    );
  });

  it.each([
    ["is too large", { maxBody: 1000 }, 413],
    ["comes from a foreign origin", { token: "secret" }, 401],
  ])("stops reading an endless body that %s, and hangs up", async (_, options, status) => {
    const { url } = await serve(options);
    const socket = dial(url);
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const pump = setInterval(() => socket.writable && socket.write(`3e8\r\n${"x".repeat(1000)}\r\n`), 10);
    onTestFinished(() => clearInterval(pump));
    expect(await heard(socket)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  });

  it("[Q-24] reads little of an endless body once its answer is due, however fast it comes", async () => {
    const { url } = await serve({ maxBody: 1000 });
    const socket = dial(url);
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const pump = () => {
      while (socket.writable && socket.write(chunk));
    };
    socket.on("drain", pump);
    const answer = heard(socket);
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    pump();
    expect(await answer).toMatch(/^HTTP\/1\.1 413 /);
    // The bytes that were read, and the content of two socket buffers.
    expect(socket.bytesWritten - socket.writableLength).toBeLessThan(24 * 1024 * 1024);
  });

  it("accepts a body of exactly the limit", async () => {
    const { url } = await serve({ maxBody: 1000 });
    const body = JSON.stringify(INITIALIZE);
    expect((await ask(url, { body: body.padEnd(1000) })).status).toBe(200);
    expect((await ask(url, { body: body.padEnd(1001) })).status).toBe(413);
  });

  it("forgets a client that hangs up in the middle of a body", async () => {
    const { url, notices, factory } = await serve();
    const socket = dial(url);
    await half(socket, url, '{"jsonrpc":');
    socket.destroy();
    expect((await ask(url, { body: INITIALIZE })).status).toBe(200);
    expect(notices).toEqual([]);
    expect(factory.eras).toEqual(["legacy"]);
  });

  it("sends a large answer completely to a slow client", async () => {
    const { url } = await serve();
    const session = await initialized(url);
    const stream = await open(url, session, callOf("large"));
    // The rest of it is held back by then.
    await waitFor(() => stream.readableLength >= stream.readableHighWaterMark);
    expect((await text(stream)).length).toBeGreaterThan(20 * 1024 * 1024);
  });

  it("buffers no more of an answer than the client reads, and frees it when the client disconnects", async () => {
    let made = 0;
    let isCancelled = false;
    const endless = new ReadableStream({
      async pull(controller) {
        await new Promise((resolve) => setImmediate(resolve));
        made++;
        controller.enqueue(new Uint8Array(1024 * 1024));
      },
      cancel() {
        isCancelled = true;
      },
    });
    const server = createServer((request, response) => void sendWebResponse(new Response(endless), request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close().closeAllConnections());
    const answer = await begun(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {});
    let [before, looks] = [0, 0];
    await waitFor(() => {
      looks = made === before ? looks + 1 : 0;
      before = made;
      return looks === 5 || made >= 50;
    });
    expect(made).toBeLessThan(50);
    answer.destroy();
    await waitFor(() => expect(isCancelled).toBe(true));
    expect(made).toBeLessThan(before + 50);
  });
});

describe("closing the server", () => {
  it("does not wait for calls and streams, and leaves nothing running", async () => {
    const program = `
      import { Server } from ${JSON.stringify(import.meta.resolve("@modelcontextprotocol/server"))};
      import { Client, StreamableHTTPClientTransport } from ${JSON.stringify(import.meta.resolve("@modelcontextprotocol/client"))};
      import { serveHttp } from ${JSON.stringify(moduleOf("adapters/mcp-server/http-server"))};
      let waiting = 0;
      const serving = await serveHttp(() => {
        const server = new Server({ name: "t", version: "1" }, { capabilities: { tools: { listChanged: true } } });
        server.setRequestHandler("tools/list", () => ({ tools: [] }));
        server.setRequestHandler("tools/call", () => { waiting++; return new Promise(() => {}); });
        return server;
      }, { token: false });
      const listChanged = { tools: { autoRefresh: false, onChanged() {} } };
      const ended = [];
      for (const mode of ["legacy", { pin: "2026-07-28" }]) {
        const client = new Client({ name: "c", version: "1" }, { versionNegotiation: { mode }, listChanged });
        const reconnectionOptions = { maxRetries: 0, initialReconnectionDelay: 1, maxReconnectionDelay: 1, reconnectionDelayGrowFactor: 1 };
        await client.connect(new StreamableHTTPClientTransport(new URL(serving.url), { reconnectionOptions }));
        const cut = new AbortController();
        ended.push([client, cut]);
        client.callTool({ name: "x" }, { signal: cut.signal }).catch(() => {});
      }
      while (waiting < 2) await new Promise((resolve) => setImmediate(resolve));
      await Promise.all([serving.close(), serving.close()]);
      process.stdout.write("closed with " + waiting + " calls under way");
      // What a client waits for is its own.
      for (const [client, cut] of ended) { cut.abort(); await client.close().catch(() => {}); }
    `;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
    onTestFinished(() => void child.kill("SIGKILL"));
    const [printed, failure] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(failure).toBe("");
    expect(printed).toBe("closed with 2 calls under way");
  });

  it("does not wait for a server that does not close, and closes each once", async () => {
    const { url, serving, factory } = await serve({ idleSeconds: 600 });
    const session = await initialized(url);
    const stream = await open(url, session);
    await half(dial(url), url, "{");
    factory.isStuck = true;
    await serving.close();
    expect(await text(stream)).toBe("");
    expect(factory.closed).toEqual(["legacy 1"]);
    await expect(ask(url, { body: INITIALIZE })).rejects.toThrow("ECONNREFUSED");
  });

  it("reports a port in use", async () => {
    const { url } = await serve();
    const port = Number(new URL(url).port);
    const refused = serveHttp(() => new Server({ name: "t", version: "1" }), { port, token: false });
    await expect(refused).rejects.toMatchObject({
      code: "usage",
      message: `127.0.0.1:${port} is already in use`,
      fix: `choose another port: --http 127.0.0.1:${port === 65_535 ? port - 1 : port + 1}`,
    });
  });

  it.each([
    ["192.0.2.7", "192.0.2.7 is not an address of this machine"],
    ["2001:db8::7", "[2001:db8::7] is not an address of this machine"],
    ["nowhere.invalid", "Cannot resolve nowhere.invalid"],
  ])("explains in words why it cannot listen on %s", async (host, message) => {
    const refused = serveHttp(() => new Server({ name: "t", version: "1" }), { host, token: "secret" });
    await expect(refused).rejects.toMatchObject({
      code: "usage",
      message,
      fix: "choose another address: --http 127.0.0.1:7400",
    });
  });

  it("explains in words that the user may not use a port", async ({ skip }) => {
    const module = JSON.stringify(moduleOf("adapters/mcp-server/http-server"));
    const program = `
      const { serveHttp } = await import(${module});
      if (process.getuid?.() === 0) process.setuid(65534);
      const serving = await serveHttp(() => {}, { port: 1, token: false }).catch(({ message, fix }) => {
        process.stdout.write(message + "; " + fix);
      });
      await serving?.close();
    `;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
    const [printed, failure] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(failure).toBe("");
    if (printed === "") return skip("every user may listen on every port here");
    expect(printed).toBe("This user may not listen on 127.0.0.1:1; choose a port above 1023: --http 127.0.0.1:7400");
  });
});

const MODERN = "2026-07-28";
const BOTH = "application/json, text/event-stream";
const IDENTITY = { name: "client", version: "1.0.0" };
const INITIALIZE = {
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: IDENTITY },
};

async function serve(options: Partial<HttpServerOptions> = {}, make?: McpServerFactory) {
  const factory = newFactory();
  const notices: string[] = [];
  const onNotice = (notice: string) => void notices.push(notice);
  const serving = await serveHttp(make ?? factory.make, { onNotice, token: false, ...options });
  onTestFinished(() => serving.close());
  return { serving, url: serving.url, factory, notices };
}

/** Creates servers with a few tools, and records their events. */
function newFactory() {
  const factory = {
    eras: [] as Era[],
    /** The names of closed servers, once per close. */
    closed: [] as string[],
    waiting: 0,
    aborted: 0,
    /** The names of the servers whose calls were aborted. */
    abortedIn: [] as string[],
    isStuck: false,
    /** Lets the calls of `hold` end. */
    release: () => {},
    make({ era }: { era: Era }) {
      factory.eras.push(era);
      const name = `${era} ${factory.eras.length}`;
      const tools = ["count", "grow", "hold", "large", "wait", "who"];
      const server = new Server({ name, version: "1.0.0" }, { capabilities: { tools: { listChanged: true } } });
      server.setRequestHandler("tools/list", () => ({
        tools: tools.map((tool) => ({ name: tool, inputSchema: { type: "object" as const } })),
      }));
      server.setRequestHandler("tools/call", async ({ params }, { mcpReq }): Promise<CallToolResult> => {
        const progressToken = mcpReq._meta?.["progressToken"] as string | undefined;
        const said = (text: string) => ({ content: [{ type: "text" as const, text }] });
        if (params.name === "who") return said(name);
        if (params.name === "large") return said("z".repeat(20 * 1024 * 1024));
        if (params.name === "hold") {
          await new Promise<void>((resolve) => {
            factory.release = resolve;
          });
          return said("held");
        }
        if (params.name === "wait") {
          factory.waiting++;
          return new Promise(() =>
            mcpReq.signal.addEventListener("abort", () => {
              factory.waiting--;
              factory.aborted++;
              factory.abortedIn.push(name);
            }),
          );
        }
        if (params.name === "grow") {
          tools.push("grown");
          await server.sendToolListChanged();
          return said("grew");
        }
        for (const progress of progressToken === undefined ? [] : [1, 2]) {
          await mcpReq.notify({
            method: "notifications/progress",
            params: { progressToken, progress, total: 2 } as never,
          });
        }
        return said("counted");
      });
      const close = server.close.bind(server);
      server.close = async () => {
        factory.closed.push(name);
        await close();
        if (factory.isStuck) await new Promise(() => {});
      };
      return server;
    },
  };
  return factory;
}

/** A server that acts on its transport as soon as it has one. */
function tampered(server: Server, tamper: (transport: WebStandardStreamableHTTPServerTransport) => void): Server {
  const connect = server.connect.bind(server);
  server.connect = async (transport) => {
    await connect(transport);
    tamper(transport as WebStandardStreamableHTTPServerTransport);
  };
  return server;
}

async function connected(url: string, era: Era, options: ClientOptions = {}) {
  const mode = era === "legacy" ? "legacy" : { pin: MODERN };
  const client = new Client(IDENTITY, { versionNegotiation: { mode }, ...options });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  onTestFinished(() => client.close());
  return client;
}

async function called(client: Client, name: string, options = {}) {
  const { content } = await client.callTool({ name }, options);
  return (content as { text: string }[])[0]?.text;
}

function callOf(name: string, id = 1) {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {} } };
}

function modernCall(name: string) {
  const call = callOf(name);
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": IDENTITY,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  return {
    headers: { "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": name },
    body: { ...call, params: { ...call.params, _meta } },
  };
}

/** Starts a session by hand, and returns its headers. */
async function initialized(url: string, protocolVersion = "2025-11-25", from: Pick<Question, "localAddress"> = {}) {
  const body = { ...INITIALIZE, params: { ...INITIALIZE.params, protocolVersion } };
  const answer = await ask(url, { ...from, body });
  const headers = {
    "mcp-session-id": String(answer.headers["mcp-session-id"]),
    "mcp-protocol-version": protocolVersion,
  };
  await ask(url, { ...from, headers, body: { jsonrpc: "2.0", method: "notifications/initialized" } });
  return headers;
}

interface Question {
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  /** The source address, on the loopback interface. */
  localAddress?: string;
  body?: unknown;
}

/** Sends a request without waiting for anything. */
function started(url: string, { method, path = "/mcp", headers = {}, localAddress, body }: Question) {
  const bytes = body === undefined || typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const request = sendRequest(new URL(path, url), {
    method: method ?? (bytes === undefined ? "GET" : "POST"),
    headers: { accept: BOTH, ...(bytes === undefined ? {} : { "content-type": "application/json" }), ...headers },
    agent: false,
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  request.on("error", () => {});
  onTestFinished(() => void request.destroy());
  return request.end(bytes);
}

/** Returns the answer to a request, as soon as it begins. */
function begun(url: string, question: Question): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => started(url, question).on("response", resolve).on("error", reject));
}

/** Opens a stream of a session: that of a call, or the general one. */
async function open(url: string, headers: Record<string, string>, body?: unknown) {
  const stream = await begun(url, { headers, body });
  expect(stream.headers["content-type"]).toBe("text/event-stream");
  stream.on("error", () => {});
  return stream;
}

async function ask(url: string, question: Question) {
  const answer = await begun(url, question);
  const body = await text(answer);
  const isJson = answer.headers["content-type"] === "application/json" && body !== "";
  return { status: answer.statusCode, headers: answer.headers, body, json: isJson ? JSON.parse(body) : undefined };
}

function dial(url: string): Socket {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Sends a request with the beginning of its body. Resolves when the server, which is asked for it, reads that body. */
async function half(socket: Socket, url: string, body: string): Promise<void> {
  socket.write(
    `POST /mcp HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nContent-Length: 500\r\nExpect: 100-continue\r\n\r\n`,
  );
  const [answer] = await once(socket, "data");
  expect(String(answer)).toMatch(/^HTTP\/1\.1 100 /);
  await new Promise((sent) => socket.write(body, sent));
}

/** Sends a head without a body, and returns the whole answer. */
function raw(url: string, head: string): Promise<string> {
  const socket = dial(url);
  socket.write(`${head}Host: ${new URL(url).host}\r\n\r\n`);
  return heard(socket);
}

/** Reads until the other side closes the connection in any way. */
function heard(socket: Socket): Promise<string> {
  let all = "";
  socket.on("data", (data) => {
    all += data;
  });
  return new Promise((resolve) => socket.on("close", () => resolve(all)));
}
