import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  type LoopbackProxyOptions,
  type NetworkProxyOptions,
  openLoopbackProxy,
  openNetworkProxy,
  type ProxyRefusal,
} from "../../src/sandbox/network-proxy.ts";
import { findUpstreamProxy } from "../../src/sandbox/sandbox-network.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

const IPV4 = "127.0.0.1";

async function listening(server: Server, host = IPV4): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const hello: RequestListener = (request, response) => {
  response.setHeader("X-Request", `${request.method} ${request.url} ${JSON.stringify(request.rawHeaders)}`);
  if (request.url === "/away") response.writeHead(302, { Location: "http://169.254.169.254/latest/" });
  request.pipe(response);
  if (request.method === "GET") response.end("hello");
};

async function proxyFor(endpoints: NetworkProxyOptions["endpoints"], options: Partial<NetworkProxyOptions> = {}) {
  const refusals: ProxyRefusal[] = [];
  const proxy = await openNetworkProxy({
    endpoints,
    folder: temporaryFolder(),
    onRefused: (refusal) => refusals.push(refusal),
    ...options,
  });
  onTestFinished(() => proxy.close());
  /** Sends these bytes unchanged; returns the answer until the proxy closes. */
  const send = (bytes: string): Promise<string> =>
    new Promise((resolve, reject) => {
      let received = "";
      const client = connect(proxy.socket);
      client.on("data", (data) => {
        received += data.toString("latin1");
      });
      client.once("error", reject).once("close", () => resolve(received));
      client.write(bytes, "latin1");
    });
  return { ...proxy, refusals, send };
}

const tell = (target: string) =>
  `HTTP/1.1 403 not allowed: the operator can add "${target}" to network in config.toml\r\n`;
const get = (url: string, ...headers: string[]) =>
  `${[`GET ${url} HTTP/1.1`, "Connection: close", ...headers].join("\r\n")}\r\n\r\n`;
const connectTo = (target: string) => `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`;

describe("the proxy of a run", () => {
  it("[Q-14] opens an address that the operator wrote, also a private one, and only at its port", async () => {
    const [port, other] = [await listening(createServer(hello)), await listening(createServer(hello))];
    const { send, refusals } = await proxyFor([{ host: IPV4, port }]);
    expect(await send(get(`http://${IPV4}:${port}/a?b#c`))).toMatch(
      /^HTTP\/1\.1 200 OK\r\nX-Request: GET \/a\?b [\s\S]*hello/,
    );
    expect(await send(`${connectTo(`${IPV4}:${port}`)}${get("/inside", "Host: x")}`)).toMatch(
      / established\r\n\r\nHTTP[\s\S]*hello/,
    );
    expect(await send(connectTo(`${IPV4}:${other}`))).toMatch(tell(`${IPV4}:${other}`));
    expect(await send(get(`http://${IPV4}:${other}/`))).toContain(
      `not allowed: the operator can add "${IPV4}:${other}" to`,
    );
    expect(refusals).toEqual(Array(2).fill({ endpoint: { host: IPV4, port: other }, reason: "closed" }));
  });

  it("[Q-14] refuses every other spelling and every other host", async () => {
    const port = await listening(createServer(hello));
    const { send } = await proxyFor([{ host: IPV4, port }]);
    for (const host of [
      "127.1",
      "2130706433",
      "0x7f.1",
      "[::ffff:127.0.0.1]",
      "localhost",
      "[::1]",
      "169.254.169.254",
      `x@${IPV4}`,
      `${IPV4}\\@x`,
      "",
    ]) {
      expect(await send(connectTo(`${host}:${port}`)), host).toMatch(/^HTTP\/1\.1 40[03] not allowed: /);
      expect(await send(get(`http://${host}:${port}/`)), host).toMatch(/^HTTP\/1\.1 40[03] /);
    }
    for (const target of [
      "/",
      `https://${IPV4}:${port}/`,
      `${IPV4}:${port}`,
      `http://${IPV4}:/`,
      `//${IPV4}:${port}/`,
    ]) {
      expect(await send(get(target, `Host: ${IPV4}:${port}`)), target).toMatch(/^HTTP\/1\.1 40[03] /);
    }
  });

  it.each([
    [["127.0.0.1"]],
    [["10.1.2.3"]],
    [["93.184.215.14", "169.254.169.254"]],
    [["::ffff:127.0.0.1"]],
    [["2606:2800:21f:cb07::1", "fd00::1"]],
    [["not an address"]],
    [[]],
  ])(
    "[Q-14] refuses a name that resolves to a private range, or to nothing, with the same message: %j",
    async (addresses) => {
      const port = await listening(createServer(hello));
      const { send, refusals } = await proxyFor([{ host: "api.example.com", port }], { lookup: async () => addresses });
      const line = `not allowed: "api.example.com:${port}" cannot be looked up or has no public address; the operator can add`;
      expect(await send(connectTo(`api.example.com:${port}`))).toContain(`HTTP/1.1 403 ${line}`);
      expect(await send(get(`http://API.example.com.:${port}/`))).toMatch(
        new RegExp(`^HTTP/1.1 403 Forbidden[^]*\n${line}`),
      );
      expect(refusals.map(({ reason }) => reason)).toEqual(
        Array(2).fill(addresses.length > 0 ? "private" : "unresolved"),
      );
    },
  );

  it("[Q-14] refuses a name that the system resolves to this machine, and survives a failing resolver", async () => {
    const port = await listening(createServer(hello));
    const own = await proxyFor([{ host: "localhost", port }]);
    expect(await own.send(connectTo(`localhost:${port}`))).toContain("has no public address");
    const failing = () => {
      throw new Error("no resolver");
    };
    const none = await proxyFor([{ host: "api.example.com", port }], { lookup: failing });
    expect(await none.send(connectTo(`api.example.com:${port}`))).toContain("has no public address");
  });

  it("[Q-14] connects to the very address that it checked: a name is looked up once per request", () => {
    // In a separate network, the loopback interface can have a public address.
    const script = `
      import { createServer } from "node:http";
      import { text } from "node:stream/consumers";
      import { request } from "node:http";
      import { openNetworkProxy } from ${JSON.stringify(moduleOf("sandbox/network-proxy"))};
      const serve = (host, body) => new Promise((resolve) => { const server = createServer((_, response) => response.end(body)); server.listen(80, host, () => resolve(server)); });
      const servers = [await serve("93.184.215.14", "public"), await serve("127.0.0.1", "private")];
      const asked = [];
      const proxy = await openNetworkProxy({ endpoints: [{ host: "rebind.example", port: 80 }], folder: ${JSON.stringify(temporaryFolder())},
        lookup: async (host) => [asked.push(host) === 1 ? "93.184.215.14" : "127.0.0.1"] });
      const answers = [];
      for (const _ of [1, 2]) answers.push(await new Promise((resolve) => request({ socketPath: proxy.socket, path: "http://rebind.example/" }, async (response) => resolve(response.statusCode + (await text(response)).slice(0, 11))).end()));
      await proxy.close();
      for (const server of servers) server.close();
      console.log(JSON.stringify({ asked, answers }));`;
    const setUp =
      'ip link set lo up && ip addr add 93.184.215.14/32 dev lo && exec "$0" --no-warnings --input-type=module --eval "$1"';
    const output = execFileSync("unshare", ["--map-root-user", "--net", "sh", "-c", setUp, process.execPath, script], {
      encoding: "utf8",
    });
    expect(JSON.parse(output)).toEqual({
      asked: ["rebind.example", "rebind.example"],
      answers: ["200public", "403not allowed"],
    });
  });

  it("[Q-14] follows no redirect: it passes it on, and checks the new request", async () => {
    const port = await listening(createServer(hello));
    const { send } = await proxyFor([{ host: IPV4, port }]);
    expect(await send(get(`http://${IPV4}:${port}/away`))).toMatch(
      /^HTTP\/1\.1 302 [\s\S]*Location: http:\/\/169\.254\.169\.254\/latest\//,
    );
    expect(await send(get("http://169.254.169.254/latest/"))).toContain('add "169.254.169.254:80" to network');
  });

  it("[Q-14] tells the host its requested name, and passes on no header for the proxy", async () => {
    const port = await listening(createServer(hello));
    const { send } = await proxyFor([{ host: IPV4, port }]);
    const sent = [
      "Host: internal.example",
      "Proxy-Authorization: Basic eDp5",
      "Connection: x-mine",
      "X-Mine: 1",
      "Upgrade: websocket",
      "TE: trailers",
      "Keep-Alive: 5",
      "X-Kept: 2",
    ];
    const received = /X-Request: GET \/ (.*)\r\n/.exec(await send(get(`http://${IPV4}:${port}/`, ...sent)))?.[1];
    expect(JSON.parse(received ?? "")).toEqual(["Host", `${IPV4}:${port}`, "X-Kept", "2", "Connection", "close"]);
  });

  it("[Q-14] passes bodies on, each with its own kind of end", async () => {
    const port = await listening(createServer(hello));
    const { send } = await proxyFor([{ host: IPV4, port }]);
    const post = (headers: string, body: string) =>
      send(`POST http://${IPV4}:${port}/ HTTP/1.1\r\nConnection: close\r\n${headers}\r\n\r\n${body}`);
    expect(await post("Content-Length: 3", "abc")).toMatch(/Content-Length\\?",\\?"3[\s\S]*abc/);
    expect(await post("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n")).toMatch(
      /Transfer-Encoding","chunked[\s\S]*abc/,
    );
    expect(await post("Expect: 100-continue\r\nContent-Length: 3", "abc")).toContain("abc");
    expect(await post("X: y", "")).toContain('"Content-Length","0"');
  });

  it.each([
    "Content-Length: 3\r\nTransfer-Encoding: chunked",
    "Content-Length: 3\r\nContent-Length: 4",
    "Content-Length: 3, 4",
    "Content-Length: +3",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\x0bchunked",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\nTransfer-Encoding: chunked",
    "X: a\rb",
    "X: a\0b",
    "Host: a\r\nHost: b",
  ])("[Q-14] refuses an ambiguous request: %j", async (header) => {
    let requests = 0;
    const port = await listening(createServer(() => requests++));
    const { send } = await proxyFor([{ host: IPV4, port }]);
    const bytes = `POST http://${IPV4}:${port}/ HTTP/1.1\r\n${header}\r\n\r\n3\r\nabc\r\n0\r\n\r\n`;
    expect(await send(bytes)).toMatch(/^(?:HTTP\/1\.1 400 |$)/);
    expect(requests).toBe(0);
  });

  it("[Q-14] refuses a head of more than 32 KiB", async () => {
    const { send } = await proxyFor([]);
    expect(await send(get("http://a.example/", `X: ${"y".repeat(40_000)}`))).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("[Q-14] abandons a host that is down, uses another protocol or stays silent", async () => {
    const rude = await listening(createTcpServer((socket) => socket.end("220 mail\r\n")));
    const silent = await listening(createTcpServer((socket) => socket.on("error", () => {})));
    const sly = await listening(
      createTcpServer((socket) => socket.write("HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhi")),
    );
    const { send } = await proxyFor(
      [1, rude, silent, sly].map((port) => ({ host: IPV4, port })),
      { idleSeconds: 0.3 },
    );
    expect(await send(connectTo(`${IPV4}:1`))).toMatch(/^HTTP\/1\.1 502 /);
    for (const port of [1, rude, sly]) expect(await send(get(`http://${IPV4}:${port}/`))).toMatch(/^HTTP\/1\.1 502 /);
    expect(await send(get(`http://${IPV4}:${silent}/`))).not.toContain(" 200 ");
    expect(await send(connectTo(`${IPV4}:${silent}`))).toMatch(/ established\r\n\r\n$/);
    expect(await send("GET http://half")).not.toContain(" 200 ");
  });

  it("[Q-14] keeps 64 connections at most, also for a client that requests all at once, and closes them with the run", async () => {
    let open = 0;
    const silent = createTcpServer((socket) => {
      open++;
      socket
        .resume()
        .on("error", () => {})
        .on("close", () => open--);
    });
    const port = await listening(silent);
    const many = Array(70)
      .fill(get(`http://${IPV4}:${port}/`).replace("close", "keep-alive"))
      .join("");
    const [one, each] = [await proxyFor([{ host: IPV4, port }]), await proxyFor([{ host: IPV4, port }])];
    const sendings = [
      [one, () => [one.send(many)]],
      [each, () => Array.from({ length: 70 }, () => each.send(connectTo(`${IPV4}:${port}`)))],
    ] as const;
    for (const [proxy, send] of sendings) {
      const sent = Promise.allSettled(send());
      await expect.poll(() => open).toBe(64);
      // Later requests are answered with a refusal or a closed connection: no more were opened by then.
      await proxy.send(get("http://closed.example/")).catch(() => {});
      expect(open).toBe(64);
      await proxy.close();
      await sent;
      await expect.poll(() => open).toBe(0);
      expect(existsSync(proxy.socket)).toBe(false);
      await expect(proxy.send("")).rejects.toThrow("ENOENT");
    }
  });

  it("[Q-14] accepts no more than 64 clients, even silent ones", async () => {
    const { send, close } = await proxyFor([]);
    let closed = 0;
    const sent = Array.from({ length: 70 }, () => send("").finally(() => closed++));
    await expect.poll(() => closed).toBe(6);
    await close();
    await Promise.allSettled(sent);
  });

  it("[Q-02] has a socket that is private to its owner, and reports a path that is too long", async () => {
    const { socket } = await proxyFor([]);
    expect([statSync(socket).mode & 0o777, statSync(dirname(socket)).mode & 0o777]).toEqual([0o600, 0o700]);
    const folder = join(temporaryFolder({ [`${"x".repeat(90)}/y`]: "" }), "x".repeat(90));
    await expect(openNetworkProxy({ endpoints: [], folder })).rejects.toMatchObject({ code: "socket-path" });
  });
});

describe("the proxy on loopback", () => {
  async function loopbackProxy(options: Partial<LoopbackProxyOptions>) {
    const refusals: string[] = [];
    const proxy = await openLoopbackProxy({
      endpoints: [],
      opensPublic: true,
      password: "secret",
      onRefused: ({ endpoint, reason }) => refusals.push(`${endpoint.host} ${reason}`),
      ...options,
    });
    onTestFinished(() => proxy.close());
    const { port, username, password } = new URL(proxy.url);
    const send = (target: string, login = `${username}:${password}`): Promise<string> =>
      new Promise((resolve, reject) => {
        let received = "";
        const client = connect(Number(port), IPV4);
        client.on("data", (data) => {
          received += data.toString("latin1");
        });
        client.once("error", reject).once("close", () => resolve(received));
        const authorization = `Proxy-Authorization: Basic ${Buffer.from(login).toString("base64")}`;
        client.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${authorization}\r\n\r\n${get("/", "Host: x")}`);
      });
    return { ...proxy, send, refusals };
  }

  it("[Q-29] serves no request without its password, and none after it is closed", async () => {
    const port = await listening(createServer(hello));
    const own = await loopbackProxy({ endpoints: [{ host: IPV4, port }] });
    expect(await own.send(`${IPV4}:${port}`)).toContain("hello");
    expect(await own.send(`${IPV4}:${port}`, "skillet:other")).toMatch(/^HTTP\/1\.1 407 /);
    await own.close();
    await expect(own.send(`${IPV4}:${port}`)).rejects.toThrow("ECONNREFUSED");
  });

  it.each([
    ["10.1.2.3", []],
    ["[::1]", []],
    ["[fd00::1]", []],
    ["[64:ff9b::7f00:1]", []],
    ["any.example", ["93.184.215.14", "127.0.0.1"]],
    ["any.example", ["::1"]],
  ])("[Q-29] connects to no private address when all public hosts are allowed: %s %j", async (host, addresses) => {
    const own = await loopbackProxy({ lookup: async () => addresses });
    expect(await own.send(`${host}:443`)).toMatch(/^HTTP\/1\.1 403 not allowed: ".*" has a private address\r\n/);
    expect(own.refusals).toEqual([`${host.replace(/[[\]]/g, "")} private`]);
  });

  it("[Q-29] gives the user's own proxy the address that was checked, so that the name is not looked up again", async () => {
    const asked: string[] = [];
    const upstream = createServer().on("connect", (request, client) => {
      asked.push(`${request.url} ${request.headers["proxy-authorization"]}`);
      client.end("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nthrough");
    });
    const https = new URL(`http://me:p%40ss@${IPV4}:${await listening(upstream)}`);
    let lookups = 0;
    const own = await loopbackProxy({
      upstream: { https, noProxy: [] },
      endpoints: [{ host: "registry.corp", port: 443 }],
      lookup: async () => [lookups++ === 0 ? "93.184.215.14" : "10.1.2.3"],
    });
    expect(await own.send("any.example:443")).toContain("through");
    expect(await own.send("any.example:443")).toContain("has a private address");
    expect(await own.send("registry.corp:443"), "the user's own name is for the user's own proxy").toContain("through");
    const login = `Basic ${Buffer.from("me:p@ss").toString("base64")}`;
    expect(asked).toEqual([`93.184.215.14:443 ${login}`, `registry.corp:443 ${login}`]);
  });

  it.each([
    ["*", true],
    ["corp", true],
    [".corp:443", true],
    ["registry.corp:80", false],
    ["orp", false],
    ["", false],
  ])("[S-45] uses the user's own proxy except for hosts in NO_PROXY: %j", (entry, isDirect) => {
    const https = new URL("http://127.0.0.1:3128");
    const found = findUpstreamProxy(
      { https, noProxy: ["a.example", entry] },
      { host: "registry.corp", port: 443 },
      "https",
    );
    expect(found).toBe(isDirect ? undefined : https);
  });

  it.each([
    ["10.0.0.0/8", "10.1.2.3", true],
    ["10.1.2.3", "10.1.2.3", true],
    ["10.0.0.0/16", "10.1.2.3", false],
    ["2.3", "10.1.2.3", false],
    ["[::1]:443", "::1", true],
    ["::1", "::1", true],
  ])("[S-45] reads addresses and networks in NO_PROXY: %s for %s", (entry, host, isDirect) => {
    const https = new URL("http://127.0.0.1:3128");
    expect(findUpstreamProxy({ https, noProxy: [entry] }, { host, port: 443 }, "https")).toBe(
      isDirect ? undefined : https,
    );
  });
});
