import { lookup as systemLookup } from "node:dns/promises";
import { createServer, type IncomingMessage, type ServerResponse, request as sendRequest } from "node:http";
import { type AddressInfo, connect, isIP, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Endpoint } from "../host/sandbox-contract.ts";
import { formatEndpoint, isPrivateAddress, parseEndpoint } from "./endpoint.ts";
import { listenOnPrivateSocket, type UnixSocketOptions } from "./sandbox-socket.ts";
import { basicAuthorization, connectThrough, type UpstreamProxies, upstreamFor } from "./upstream-proxy.ts";

export interface NetworkProxyOptions extends ProxyRules, UnixSocketOptions {}

export interface LoopbackProxyOptions extends ProxyRules {
  /** Every request needs it: other users of this machine can connect to the port too. */
  password: string;
}

interface ProxyRules {
  /** What is open: exactly these hosts, each at its port. */
  endpoints: readonly Endpoint[];
  /** Opens every other host too, if all of its addresses are public. The endpoints may have private ones then. Defaults to false. */
  opensPublic?: boolean;
  /** The user's own proxies, which connections are made through. */
  upstream?: UpstreamProxies;
  /** For the operator's eyes. Contract: does not throw. */
  onRefused?: (refusal: ProxyRefusal) => void;
  /** An operator's own resolver, in place of the system's: all the addresses of a name. */
  lookup?: (host: string) => Promise<readonly string[]>;
  /** After how long a connection on which nothing moves is closed. */
  idleSeconds?: number;
}

export interface ProxyRefusal {
  endpoint: Endpoint;
  /** Nobody opened it; or its name stands for an address that is not public; or for none. */
  reason: "closed" | "private" | "unresolved";
}

export interface NetworkProxy {
  /** The path of its unix socket. */
  socket: string;
  /** Contract: every connection is gone when it resolves, and the socket too. */
  close(): Promise<void>;
}

/**
 * The one way out of a sandbox: an HTTP proxy for one run, on a unix socket. It resolves names itself, checks every address that a
 * name stands for, and connects to the very address that it checked. It follows nothing: where an answer leads is asked for anew.
 */
export async function openNetworkProxy(options: NetworkProxyOptions): Promise<NetworkProxy> {
  const { server, end } = createProxy(options);
  const { path, close } = await listenOnPrivateSocket(server, "net", options);
  return {
    socket: path,
    async close() {
      const closed = close();
      end();
      await closed;
    },
  };
}

export interface LoopbackProxy {
  /** Its address with the password: for the environment of a program, never for a command line, which other users can read. */
  url: string;
  /** Contract: every connection is gone when it resolves, and the port too. */
  close(): Promise<void>;
}

/** The same proxy at a free port of the loopback interface, for a program outside of a sandbox. */
export async function openLoopbackProxy(options: LoopbackProxyOptions): Promise<LoopbackProxy> {
  const { server, end } = createProxy(options, options.password);
  await new Promise<void>((resolve, reject) => server.on("error", reject).listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${PROXY_USER}:${options.password}@127.0.0.1:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      end();
      await closed;
    },
  };
}

const PROXY_USER = "skillet";

function createProxy(options: ProxyRules, password?: string): { server: Server; end(): void } {
  const sockets = new Set<Duplex>();
  const run: ProxyRun = {
    options,
    open: new Set(options.endpoints.map(formatEndpoint)),
    idleMs: (options.idleSeconds ?? IDLE_SECONDS) * 1000,
    outgoing: 0,
    isClosed: false,
    keep(stream) {
      if (run.isClosed) stream.destroy();
      sockets.add(stream);
      stream.once("close", () => sockets.delete(stream));
    },
  };
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    insecureHTTPParser: false,
    requireHostHeader: false, // Whatever it says, it is replaced.
    headersTimeout: HEADER_TIMEOUT_MS,
    requestTimeout: 0, // A long upload is not idle.
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: run.idleMs,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = run.idleMs;
  server.on("connection", run.keep);
  const isAllowed = ({ headers }: IncomingMessage) =>
    password === undefined || headers["proxy-authorization"] === basicAuthorization(PROXY_USER, password);
  server.on("connect", (request, client, head) => {
    if (isAllowed(request)) void openTunnel(run, request, client as Socket, head);
    else sendSocketAnswer(client as Socket, PASSWORD_NEEDED);
  });
  server.on("request", (request, response) => {
    if (isAllowed(request)) void forwardRequest(run, request, response);
    else sendAnswer(response, PASSWORD_NEEDED);
  });
  server.on("clientError", (_, client) => {
    const isAnswering = (client as Socket).bytesWritten > 0;
    if (isAnswering || !client.writable) client.destroy();
    else sendSocketAnswer(client as Socket, MALFORMED_ANSWER);
  });
  return {
    server,
    end() {
      run.isClosed = true;
      for (const stream of sockets) stream.destroy();
    },
  };
}

const MAX_CONNECTIONS = 64;
const MAX_HEADER_BYTES = 32 * 1024;
const HEADER_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 10_000;
/** For one of several addresses. */
const ADDRESS_TIMEOUT_MS = 4000;
const IDLE_SECONDS = 120;

interface ProxyRun {
  options: ProxyRules;
  open: ReadonlySet<string>;
  idleMs: number;
  /** Connections to the outside, also those that are being made. One client can ask for several at once. */
  outgoing: number;
  isClosed: boolean;
  keep(stream: Duplex): void;
}

interface ProxyAnswer {
  status: number;
  line: string;
}

const MALFORMED_ANSWER: ProxyAnswer = { status: 400, line: "not opened: the request is not well-formed HTTP" };
const UNREADABLE_ANSWER: ProxyAnswer = {
  status: 403,
  line: "not opened: ask for CONNECT host:port or http://host:port/ in full",
};
const PASSWORD_NEEDED: ProxyAnswer = { status: 407, line: "not opened: this proxy is for another program" };
const BUSY_ANSWER: ProxyAnswer = { status: 503, line: `not opened: there are ${MAX_CONNECTIONS} connections already` };
const UNREACHABLE_ANSWER: ProxyAnswer = { status: 502, line: "the host did not answer, or not in HTTP" };

async function openTunnel(run: ProxyRun, request: IncomingMessage, client: Socket, head: Buffer): Promise<void> {
  client.on("error", () => client.destroy());
  client.setTimeout(run.idleMs, () => client.destroy());
  const target = parseEndpoint(request.url ?? "");
  const upstream = target ? await connectEndpoint(run, target, "https") : UNREADABLE_ANSWER;
  if ("line" in upstream) return sendSocketAnswer(client, upstream);
  upstream.once("close", () => client.destroySoon());
  client.once("close", () => upstream.destroySoon());
  if (client.destroyed) return void upstream.destroy();
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  upstream.write(head);
  upstream.pipe(client).pipe(upstream);
}

async function forwardRequest(run: ProxyRun, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const target = parseTarget(request.url ?? "");
  if (!target) return sendAnswer(response, UNREADABLE_ANSWER);
  const framing = createFramingHeaders(request);
  if (!framing) return sendAnswer(response, MALFORMED_ANSWER);
  const upstream = await connectEndpoint(run, target.endpoint, "http");
  if ("line" in upstream) return sendAnswer(response, upstream);
  response.once("close", () => upstream.destroy());
  if (request.socket.destroyed) return void upstream.destroy();
  try {
    const host = formatEndpoint(target.endpoint).replace(/:80$/, "");
    const sent = sendRequest({
      createConnection: () => upstream,
      method: request.method ?? "GET",
      path: target.path,
      headers: ["Host", host, ...selectEndToEndHeaders(request), ...framing],
      maxHeaderSize: MAX_HEADER_BYTES,
    });
    sent.on("response", (received) => relayResponse(received, response));
    // Nobody asked for it: no such header is passed on.
    sent.on("upgrade", () => sendAnswer(response, UNREACHABLE_ANSWER));
    sent.on("error", () => sendAnswer(response, UNREACHABLE_ANSWER));
    request.pipe(sent);
  } catch {
    upstream.destroy();
    sendAnswer(response, MALFORMED_ANSWER);
  }
}

function relayResponse(received: IncomingMessage, response: ServerResponse): void {
  const length = received.headers["transfer-encoding"] === undefined ? received.headers["content-length"] : undefined;
  try {
    response.sendDate = false;
    response.writeHead(received.statusCode ?? 502, received.statusMessage ?? "", [
      ...selectEndToEndHeaders(received),
      ...(length === undefined ? [] : ["Content-Length", length]),
    ]);
    pipeline(received, response, () => {});
  } catch {
    received.destroy();
    sendAnswer(response, UNREACHABLE_ANSWER);
  }
}

/** A connection to an address that was checked, or what to say instead. */
async function connectEndpoint(
  run: ProxyRun,
  endpoint: Endpoint,
  scheme: "http" | "https",
): Promise<Socket | ProxyAnswer> {
  const { opensPublic = false, upstream: proxies } = run.options;
  const isNamed = run.open.has(formatEndpoint(endpoint));
  if (!isNamed && !opensPublic) return refuseEndpoint(run, endpoint, "closed");
  if (run.outgoing >= MAX_CONNECTIONS) return BUSY_ANSWER;
  const deadline = performance.now() + CONNECT_TIMEOUT_MS;
  const upstream = proxies && upstreamFor(proxies, endpoint, scheme);
  let socket: Socket | undefined;
  run.outgoing++;
  try {
    // The upstream proxy looks up what the user named: often it alone can.
    const isTrusted = upstream !== undefined && isNamed;
    const addresses = isTrusted ? [endpoint.host] : await resolveAddresses(run.options, endpoint.host);
    if (addresses.length === 0) return refuseEndpoint(run, endpoint, "unresolved");
    // One that is private is enough: a public one beside it may be there to get the name past this.
    const mayBePrivate = isNamed && (opensPublic || isIP(endpoint.host) !== 0);
    if (!mayBePrivate && addresses.some(isPrivateAddress)) return refuseEndpoint(run, endpoint, "private");
    for (const host of addresses) {
      if (socket || performance.now() >= deadline) break;
      const address = { host, port: endpoint.port };
      socket = await (upstream
        ? connectThrough(upstream, address, { keep: run.keep, timeoutMs: CONNECT_TIMEOUT_MS, idleMs: run.idleMs })
        : connectAddress(run, address));
    }
    socket?.once("close", () => run.outgoing--);
    return socket ?? (upstream ? upstreamFailed(upstream) : UNREACHABLE_ANSWER);
  } finally {
    if (!socket) run.outgoing--;
  }
}

function upstreamFailed({ host }: URL): ProxyAnswer {
  return { status: 502, line: `your proxy ${host} made no connection to the host` };
}

/** An address that the operator wrote stands for itself. */
async function resolveAddresses({ lookup = lookUpAddresses }: ProxyRules, host: string): Promise<readonly string[]> {
  if (isIP(host) !== 0) return [host];
  const found = Promise.resolve(host)
    .then(lookup)
    .catch(() => []);
  return Promise.race([found, sleep(CONNECT_TIMEOUT_MS, [], { ref: false })]);
}

async function lookUpAddresses(host: string): Promise<string[]> {
  return (await systemLookup(host, { all: true })).map(({ address }) => address);
}

function connectAddress(run: ProxyRun, { host, port }: Endpoint): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, allowHalfOpen: true });
    run.keep(socket);
    socket.setTimeout(ADDRESS_TIMEOUT_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.once("close", () => resolve(undefined));
    socket.once("connect", () => {
      socket.setTimeout(run.idleMs);
      resolve(socket);
    });
  });
}

function refuseEndpoint(run: ProxyRun, endpoint: Endpoint, reason: ProxyRefusal["reason"]): ProxyAnswer {
  run.options.onRefused?.({ endpoint, reason });
  const name = `"${formatEndpoint(endpoint)}"`;
  if (run.options.opensPublic) return { status: 403, line: `not opened: ${name} ${PUBLIC_ONLY[reason]}` };
  // Whether a name stands for a private address or for none is not the code's to learn.
  const line =
    reason === "closed"
      ? `not opened: the operator can add ${name} to network in config.toml`
      : `not opened: ${name} cannot be looked up or has no public address; the operator can add a private one by its number to network in config.toml`;
  return { status: 403, line };
}

const PUBLIC_ONLY: Readonly<Record<ProxyRefusal["reason"], string>> = {
  closed: "is not open",
  private: "has a private address",
  unresolved: "cannot be looked up",
};

function parseTarget(url: string): { endpoint: Endpoint; path: string } | undefined {
  const [, authority = "", rest = ""] = /^http:\/\/([^/?#]*)([^#]*)/i.exec(url) ?? [];
  const endpoint = parseEndpoint(/^(?:\[[^\]]*\]|[^:]*)$/.test(authority) ? `${authority}:80` : authority);
  return endpoint && { endpoint, path: rest.startsWith("/") ? rest : `/${rest}` };
}

/** How the body's end is told, said anew; undefined where two readers could see two ends, or two hosts. */
function createFramingHeaders({ method = "", headersDistinct }: IncomingMessage): string[] | undefined {
  const { host = [], "content-length": lengths = [], "transfer-encoding": codings = [] } = headersDistinct;
  if (host.length > 1 || lengths.length > 1 || codings.length > 1) return undefined;
  const [[length], [coding]] = [lengths, codings];
  if (coding !== undefined)
    return length === undefined && /^chunked$/i.test(coding) ? ["Transfer-Encoding", "chunked"] : undefined;
  if (length !== undefined) return ["Content-Length", length];
  return /^(?:POST|PUT|PATCH)$/.test(method) ? ["Content-Length", "0"] : [];
}

const HOP_BY_HOP_HEADERS =
  /^(?:connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings|expect|host|content-length)$/i;

function selectEndToEndHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = new Set((headers.connection ?? "").toLowerCase().split(/[\s,]+/));
  return rawHeaders.filter((_, index) => {
    const name = rawHeaders[index - (index % 2)] ?? "";
    return !HOP_BY_HOP_HEADERS.test(name) && !named.has(name.toLowerCase());
  });
}

function sendAnswer(response: ServerResponse, { status, line }: ProxyAnswer): void {
  if (response.headersSent) return void response.destroy();
  response
    .writeHead(status, { "Content-Type": "text/plain", "Content-Length": line.length + 1, Connection: "close" })
    .end(`${line}\n`);
}

/** The line is also the reason, which is all that most clients show of a tunnel that is refused. */
function sendSocketAnswer(client: Socket, { status, line }: ProxyAnswer): void {
  const head = `Content-Type: text/plain\r\nContent-Length: ${line.length + 1}\r\nConnection: close\r\n`;
  client.write(`HTTP/1.1 ${status} ${line}\r\n${head}\r\n${line}\n`);
  client.destroySoon();
}
