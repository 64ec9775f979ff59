import { request as sendRequest } from "node:http";
import { text } from "node:stream/consumers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Server } from "@modelcontextprotocol/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { createHttpGuard, type HttpGuardOptions } from "../../src/adapters/mcp-server/http-guard.ts";
import { type HttpServerOptions, serveHttp } from "../../src/adapters/mcp-server/http-server.ts";

const TOKEN = "correct-horse-battery-staple";

describe("the token", () => {
  it.each([
    ["none", {}],
    ["a wrong one", { authorization: "Bearer wrong" }],
    ["half of it", { authorization: `Bearer ${TOKEN.slice(0, 10)}` }],
    ["more than it", { authorization: `Bearer ${TOKEN}x` }],
    ["nothing after the word", { authorization: "Bearer " }],
    ["another scheme", { authorization: `Basic ${TOKEN}` }],
    ["the token alone", { authorization: TOKEN }],
  ])("is checked first for %s", async (_, headers) => {
    const { url, made, notices } = await serve({ token: TOKEN });
    for (const path of ["/mcp", "/elsewhere"]) {
      const answer = await ask(url, headers, { path, body: "no json at all" });
      expect([answer.status, answer.headers["www-authenticate"]]).toEqual([401, "Bearer"]);
      expect(answer.body).not.toContain(TOKEN);
    }
    expect(made()).toBe(0);
    expect(notices).toEqual([
      "authorization" in headers ? "Refused a request with a wrong token" : "Refused a request without the token",
    ]);
  });

  it("is named in the answer as the header to send", async () => {
    const { url } = await serve({ token: TOKEN });
    const { body } = await ask(url, {});
    expect(body).toContain("This server needs its token, as Authorization: Bearer …");
    expect(body).toContain("skillet connect CLIENT --url ADDRESS");
  });

  it.each(["legacy", { pin: "2026-07-28" }] as const)("admits a client that has it (%o)", async (mode) => {
    const { url, made } = await serve({ token: TOKEN });
    const client = new Client({ name: "c", version: "1" }, { versionNegotiation: { mode } });
    onTestFinished(() => client.close());
    const requestInit = { headers: { authorization: `bearer ${TOKEN}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    expect((await client.listTools()).tools).toEqual([]);
    expect(made()).toBeGreaterThan(0);
  });

  it("is required for every request of a session, not only for its start", async () => {
    const { url } = await serve({ token: TOKEN });
    const authorization = `Bearer ${TOKEN}`;
    const start = await ask(url, { authorization }, { body: INITIALIZE });
    const session = { "mcp-session-id": String(start.headers["mcp-session-id"]) };
    const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
    expect((await ask(url, session, { body: ping })).status).toBe(401);
    expect((await ask(url, session, { method: "DELETE" })).status).toBe(401);
    expect((await ask(url, { ...session, authorization }, { body: ping })).status).toBe(200);
  });

  it.each(["0.0.0.0", "::", "", "192.0.2.7", "example.com", "128.0.0.1", "127.evil.com"])(
    "is required to listen on %o",
    async (host) => {
      const refused = serveHttp(newServer, { host, token: false });
      await expect(refused).rejects.toMatchObject({
        code: "usage",
        message: expect.stringContaining("no token is set"),
        fix: "remove --no-token (in code: set a token), or listen on 127.0.0.1",
      });
    },
  );

  it.each(["", "two words", "söt", "line\n"])("is refused when it cannot be sent: %j", async (token) => {
    await expect(serveHttp(newServer, { token })).rejects.toMatchObject({ code: "usage" });
    const told = await serveHttp(newServer, { token }).catch((error) => `${error.message} ${error.fix}`);
    if (token) expect(told).not.toContain(token);
  });
});

describe("the Host header", () => {
  it("must be one of the names of this machine", async () => {
    const { url, made } = await serve();
    const { port } = new URL(url);
    for (const host of ["localhost", `localhost:${port}`, `127.0.0.1:${port}`, "[::1]:9", "LOCALHOST"]) {
      expect((await ask(url, { host })).status).toBe(400);
    }
    for (const host of [
      "evil.example",
      `evil.example:${port}`,
      "localhost.evil.example",
      "127.0.0.2",
      "a b",
      "0.0.0.0",
    ]) {
      const answer = await ask(url, { host }, { body: INITIALIZE });
      expect(answer.status).toBe(403);
      expect(answer.body).not.toContain("evil");
      expect(answer.body).toContain("or allow the name: --allow-host NAME");
    }
    expect(made()).toBe(0);
  });

  it("can be an allowed name, or one that the server is bound to", async () => {
    const { url } = await serve({ host: "127.0.0.2", allowedHosts: ["Skills.Example", "other.example:8080"] });
    expect(url).toMatch(/^http:\/\/127\.0\.0\.2:\d+\/mcp$/);
    for (const host of ["127.0.0.2", "skills.example:443", "other.example"]) {
      expect((await ask(url, { host })).status).toBe(400);
    }
    expect((await ask(url, { host: "third.example" })).status).toBe(403);
  });

  it("can be any on all interfaces, where the token decides, unless names were given", () => {
    for (const host of ["0.0.0.0", "::"]) {
      expect(status({ host, token: TOKEN }, { host: "box.lan" })).toBe(200);
      expect(status({ host, token: TOKEN, allowedHosts: ["box.lan"] }, { host: "box.lan:80" })).toBe(200);
      expect(status({ host, token: TOKEN, allowedHosts: ["box.lan"] }, { host: "evil.example" })).toBe(403);
    }
    expect(status({ host: "192.0.2.7", token: TOKEN }, { host: "192.0.2.7:80" })).toBe(200);
    expect(status({ host: "192.0.2.7", token: TOKEN }, { host: "evil.example" })).toBe(403);
    expect(status({ host: "2001:db8::7", token: TOKEN }, { host: "[2001:db8::7]:80" })).toBe(200);
  });

  it("listens on IPv6 too, with and without brackets", async ({ skip }) => {
    const serving = await serveHttp(newServer, { host: "[::1]", token: false }).catch(() => undefined);
    if (!serving) return skip("this machine has no IPv6");
    onTestFinished(() => serving.close());
    expect(serving.url).toMatch(/^http:\/\/\[::1\]:\d+\/mcp$/);
    expect((await ask(serving.url, {}, { body: INITIALIZE })).status).toBe(200);
  });
});

describe("the Origin header", () => {
  it("must be the server's own, or allowed, if there is one", async () => {
    const { url, made } = await serve({ host: "127.0.0.2", allowedOrigins: ["https://app.example", "any.example"] });
    const { port } = new URL(url);
    for (const origin of [
      `http://localhost:${port}`,
      `http://127.0.0.1:${port}`,
      `http://127.0.0.2:${port}`,
      `http://[::1]:${port}`,
      "https://app.example",
      "https://any.example:8443",
      "http://any.example",
    ]) {
      const answer = await ask(url, { origin });
      expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([400, origin]);
      expect(answer.headers["vary"]).toBe("Origin");
    }
    for (const origin of [
      "null",
      "http://localhost:3000",
      "http://localhost",
      "http://127.0.0.1",
      "http://127.0.0.2",
      `http://127.0.0.3:${port}`,
      `https://localhost:${port}`,
      `http://localhost.evil.example:${port}`,
      `http://evil.example:${port}`,
      "https://evil.example",
      "http://app.example",
      "https://app.example:8443",
      "https://app.example.evil.example",
      "http://localhost.evil.example",
      "file://",
      "nonsense",
    ]) {
      const answer = await ask(url, { origin }, { body: INITIALIZE });
      expect([origin, answer.status]).toEqual([origin, 403]);
      expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
      expect(answer.headers["vary"]).toBe("Origin");
      expect(answer.body).toContain("allow it: --allow-origin NAME");
    }
    expect(made()).toBe(0);
  });

  it("is recognized as the server's own as browsers write it, without the default port", () => {
    const origins = ["http://localhost", "http://127.0.0.1", "http://localhost:80", "http://localhost:7400"];
    const isIn = (port: number) => origins.filter((origin) => isAllowed({ host: "127.0.0.1", port }, origin));
    expect(isIn(80)).toEqual(["http://localhost", "http://127.0.0.1"]);
    expect(isIn(7400)).toEqual(["http://localhost:7400"]);
    const onAll = { host: "0.0.0.0", port: 7400, token: TOKEN };
    expect(isAllowed(onAll, "http://0.0.0.0:7400")).toBe(false);
  });

  it("can be any page of this machine if the operator allows that", async () => {
    const { url } = await serve({ allowedOrigins: ["localhost"] });
    expect((await ask(url, { origin: "http://localhost:3000" }, { body: INITIALIZE })).status).toBe(200);
    expect((await ask(url, { origin: "http://127.0.0.1:3000" }, { body: INITIALIZE })).status).toBe(403);
  });

  it("is allowed in any spelling of the operator, and no wider", () => {
    const allowedOrigins = [
      "App.Example",
      "ported.example:3000",
      "https://Full.example:443/",
      "chrome-extension://abc",
    ];
    const isIn = (origin: string) => isAllowed({ host: "127.0.0.1", port: 7400, allowedOrigins }, origin);
    for (const origin of [
      "https://app.example",
      "http://app.example:8080",
      "http://ported.example:3000",
      "https://ported.example:3000",
      "https://full.example",
      "chrome-extension://abc",
    ])
      expect([origin, isIn(origin)]).toEqual([origin, true]);
    for (const origin of ["https://ported.example", "http://full.example", "https://full.example:8443", "https://abc"])
      expect([origin, isIn(origin)]).toEqual([origin, false]);
  });

  it("adds no headers for pages to an answer when it is missing", async () => {
    const { url } = await serve();
    const { status, headers } = await ask(url, {}, { body: INITIALIZE });
    expect(status).toBe(200);
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect(headers["vary"], "kept answers are for no page").toBe("Origin");
  });

  it("lets a page read its session id", async () => {
    const { url } = await serve({ allowedOrigins: ["http://localhost:6274"] });
    const { status, headers } = await ask(url, { origin: "http://localhost:6274" }, { body: INITIALIZE });
    expect(status).toBe(200);
    expect(headers["mcp-session-id"]).toBeDefined();
    expect(headers["access-control-expose-headers"]).toContain("mcp-session-id");
  });

  it("lets a page send a preflight request without the token, which it cannot send yet", async () => {
    const { url } = await serve({ token: TOKEN, allowedOrigins: ["http://localhost"] });
    const asked = {
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, mcp-param-city, x-other, mcp-param-a b",
    };
    const { status, headers, body } = await ask(url, { origin: "http://localhost", ...asked }, { method: "OPTIONS" });
    expect([status, body]).toEqual([204, ""]);
    expect(headers["access-control-allow-origin"]).toBe("http://localhost");
    expect(headers["access-control-allow-methods"]).toBe("GET, POST, DELETE, OPTIONS");
    expect(headers["access-control-allow-headers"]).toBe(
      "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id, mcp-param-city",
    );
    const refused = await ask(url, { origin: "https://evil.example", ...asked }, { method: "OPTIONS" });
    expect([refused.status, refused.headers["access-control-allow-methods"]]).toEqual([403, undefined]);
    const unauthorized = await ask(url, { origin: "http://localhost" });
    expect([unauthorized.status, unauthorized.headers["access-control-allow-origin"]]).toEqual([
      401,
      "http://localhost",
    ]);
  });
});

describe("a refused request", () => {
  it("is reported to the operator, occasionally per reason, in one plain line and without the token", async () => {
    const { url, notices } = await serve({ token: TOKEN });
    const long = `evil.example${"x".repeat(5000)}`;
    for (let times = 0; times < 3; times++) {
      await ask(url, { host: `${long}\x9b31m` });
      await ask(url, { origin: "http://localhost:3000", authorization: `Bearer ${TOKEN}` });
      await ask(url, { authorization: `Bearer ${TOKEN}x` });
    }
    expect(notices).toEqual([
      `Refused a request with the Host "${long.slice(0, 99)}…"; if it is a name of this server, allow it: --allow-host NAME`,
      'Refused a request from a page of "http://localhost:3000"; to allow such pages: --allow-origin NAME',
      "Refused a request with a wrong token",
    ]);
  });

  it("is reported without control characters", async () => {
    const { url, notices } = await serve();
    await ask(url, { origin: "http://a\x9b31m\tb" });
    expect(notices.join()).toContain('"http://a?31m?b"');
  });

  it("is reported again after a minute, and not before", () => {
    const notices: string[] = [];
    let now = 0;
    const guard = createHttpGuard({
      host: "127.0.0.1",
      port: 1,
      token: false,
      onNotice: (text) => void notices.push(text),
      now: () => now,
    });
    const told = [0, 59_999, 60_000, 60_001, 119_999, 120_000].map((at) => {
      now = at;
      guard.refuse({ method: "POST", headers: { host: `evil${at}.example` } });
      return notices.length;
    });
    expect(told).toEqual([1, 1, 2, 2, 2, 3]);
  });

  it("does not fail without a listener", async () => {
    const serving = await serveHttp(newServer, { token: false });
    onTestFinished(() => serving.close());
    expect((await ask(serving.url, { host: "evil.example" })).status).toBe(403);
  });
});

const INITIALIZE = JSON.stringify({
  jsonrpc: "2.0",
  id: 0,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
});

async function serve(options: Partial<HttpServerOptions> = {}) {
  let made = 0;
  const notices: string[] = [];
  const onNotice = (notice: string) => void notices.push(notice);
  const serving = await serveHttp(
    () => {
      made++;
      return newServer();
    },
    { onNotice, token: false, ...options },
  );
  onTestFinished(() => serving.close());
  return { url: serving.url, made: () => made, notices };
}

function newServer() {
  const server = new Server({ name: "t", version: "1" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: [] }));
  return server;
}

/** Returns the guard's status for a request with the token; 200 when it accepts. */
function status(
  options: Omit<Partial<HttpGuardOptions>, "port"> & { host: string },
  headers: { host: string; origin?: string },
  port = 7400,
): number {
  const all = { authorization: `Bearer ${TOKEN}`, ...headers };
  return createHttpGuard({ token: false, ...options, port }).refuse({ method: "POST", headers: all })?.status ?? 200;
}

function isAllowed(
  { port, ...options }: Omit<HttpGuardOptions, "token"> & { token?: string },
  origin: string,
): boolean {
  return status(options, { host: "localhost", origin }, port) === 200;
}

interface Question {
  method?: string;
  path?: string;
  body?: string;
}

/** Also sends headers that `fetch` does not allow. */
async function ask(url: string, headers: Record<string, string>, { method, path = "/mcp", body }: Question = {}) {
  const answer = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
    sendRequest(new URL(path, url), {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers: { accept: "application/json, text/event-stream", "content-type": "application/json", ...headers },
      agent: false,
    })
      .on("response", resolve)
      .on("error", reject)
      .end(body);
  });
  return { status: answer.statusCode, headers: answer.headers, body: await text(answer) };
}
