import { lookup as systemLookup } from "node:dns/promises";
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
  request as sendRequest,
} from "node:http";
import { type AddressInfo, connect, isIP, type Server, type Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Endpoint } from "../host/sandbox-contract.ts";
import {
  findUpstreamProxy,
  formatEndpoint,
  isPrivateAddress,
  listenOnPrivateSocket,
  parseEndpoint,
  type UnixSocketOptions,
  type UpstreamProxies,
} from "./sandbox-network.ts";

export interface NetworkProxyOptions extends ProxyRules, UnixSocketOptions {}

export interface LoopbackProxyOptions extends ProxyRules {
  /** Required for every request: other users of this machine can connect to the port too. */
  password: string;
}

interface ProxyRules {
  /** The allowed endpoints: exactly these hosts, each with its port. */
  endpoints: readonly Endpoint[];
  /**
   * Also allows every other host whose addresses are all public. The endpoints may then have private ones. Defaults to
   * false.
   */
  opensPublic?: boolean;
  /** The user's own proxies, through which connections are made. */
  upstream?: UpstreamProxies;
  /** Reports refusals to the operator. Contract: does not throw. */
  onRefused?: (refusal: ProxyRefusal) => void;
  /** Resolves a host name to all its addresses. Defaults to the system's resolver. */
  lookup?: (host: string) => Promise<readonly string[]>;
  /** Seconds after which an idle connection is closed. */
  idleSeconds?: number;
}

export interface ProxyRefusal {
  endpoint: Endpoint;
  /**
   * `closed`: not on the allowlist; `private`: the name resolves to a private address; `unresolved`: it resolves to
   * none.
   */
  reason: "closed" | "private" | "unresolved";
}

export interface NetworkProxy {
  /** The path of the unix socket. */
  socket: string;
  /** Contract: all connections and the socket are gone when it resolves. */
  close(): Promise<void>;
}

/**
 * Opens the only way out of a sandbox: an HTTP proxy for one run, on a unix socket. It resolves names itself, checks
 * every address of a name, and connects to exactly the address that it checked. It follows no redirects: the client
 * must request the target again.
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
  /**
   * The address with the password: for the environment of a program, never for a command line, which other users can
   * read.
   */
  url: string;
  /** Contract: all connections and the port are gone when it resolves. */
  close(): Promise<void>;
}

/** Opens the same proxy on a free port of the loopback interface, for a program outside a sandbox. */
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
    requireHostHeader: false, // The header is replaced in any case.
    headersTimeout: HEADER_TIMEOUT_MS,
    requestTimeout: 0, // A long upload is not idle.
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: run.idleMs,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = run.idleMs;
  server.on("connection", run.keep);
  const isAllowed = ({ headers }: IncomingMessage) =>
    password === undefined || headers["proxy-authorization"] === formatBasicAuthorization(PROXY_USER, password);
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
/** The timeout for one of several addresses. */
const ADDRESS_TIMEOUT_MS = 4000;
const IDLE_SECONDS = 120;

interface ProxyRun {
  options: ProxyRules;
  open: ReadonlySet<string>;
  idleMs: number;
  /** Outgoing connections, including those being made. One client can request several at once. */
  outgoing: number;
  isClosed: boolean;
  keep(stream: Duplex): void;
}

interface ProxyAnswer {
  status: number;
  line: string;
}

const MALFORMED_ANSWER: ProxyAnswer = { status: 400, line: "not allowed: the request is not well-formed HTTP" };
const UNREADABLE_ANSWER: ProxyAnswer = {
  status: 403,
  line: "not allowed: use CONNECT host:port or a full http://host:port/ address",
};
const PASSWORD_NEEDED: ProxyAnswer = { status: 407, line: "not allowed: this proxy is for another program" };
const BUSY_ANSWER: ProxyAnswer = { status: 503, line: `not allowed: there are already ${MAX_CONNECTIONS} connections` };
const UNREACHABLE_ANSWER: ProxyAnswer = { status: 502, line: "the host did not answer in HTTP" };

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
    // Not requested: upgrade headers are not passed on.
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

/** Connects to a checked address, or returns the answer to send instead. */
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
  const upstream = proxies && findUpstreamProxy(proxies, endpoint, scheme);
  let socket: Socket | undefined;
  run.outgoing++;
  try {
    // The upstream proxy resolves the hosts that the user named: often only the proxy can.
    const isTrusted = upstream !== undefined && isNamed;
    const addresses = isTrusted ? [endpoint.host] : await resolveAddresses(run.options, endpoint.host);
    if (addresses.length === 0) return refuseEndpoint(run, endpoint, "unresolved");
    // One private address is enough to refuse: a public one next to it may be there to pass this check.
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
    return socket ?? (upstream ? createUpstreamFailure(upstream) : UNREACHABLE_ANSWER);
  } finally {
    if (!socket) run.outgoing--;
  }
}

function createUpstreamFailure({ host }: URL): ProxyAnswer {
  return { status: 502, line: `your proxy ${host} could not connect to the host` };
}

/** Resolves a host. A numeric address that the operator wrote needs no lookup. */
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
  if (run.options.opensPublic) return { status: 403, line: `not allowed: ${name} ${PUBLIC_ONLY[reason]}` };
  // The code must not learn whether a name has a private address or none.
  const line =
    reason === "closed"
      ? `not allowed: the operator can add ${name} to network in config.toml`
      : `not allowed: ${name} cannot be looked up or has no public address; the operator can add a private numeric address to network in config.toml`;
  return { status: 403, line };
}

const PUBLIC_ONLY: Readonly<Record<ProxyRefusal["reason"], string>> = {
  closed: "is not on the allowlist",
  private: "has a private address",
  unresolved: "cannot be looked up",
};

function parseTarget(url: string): { endpoint: Endpoint; path: string } | undefined {
  const [, authority = "", rest = ""] = /^http:\/\/([^/?#]*)([^#]*)/i.exec(url) ?? [];
  const endpoint = parseEndpoint(/^(?:\[[^\]]*\]|[^:]*)$/.test(authority) ? `${authority}:80` : authority);
  return endpoint && { endpoint, path: rest.startsWith("/") ? rest : `/${rest}` };
}

/** Creates new headers that frame the body. Returns undefined if two readers could see two different ends or hosts. */
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

/** Sends the answer line also as the HTTP reason phrase, which is all that most clients show of a refused tunnel. */
function sendSocketAnswer(client: Socket, { status, line }: ProxyAnswer): void {
  const head = `Content-Type: text/plain\r\nContent-Length: ${line.length + 1}\r\nConnection: close\r\n`;
  client.write(`HTTP/1.1 ${status} ${line}\r\n${head}\r\n${line}\n`);
  client.destroySoon();
}

interface ConnectOptions {
  /** Registers a connection so that it can be closed later. */
  keep(stream: Duplex): void;
  timeoutMs: number;
  /** Milliseconds after which an idle tunnel is closed. */
  idleMs: number;
}

/** Opens a tunnel through a proxy. Resolves with undefined if the proxy does not answer or refuses. */
async function connectThrough(
  proxy: URL,
  target: Endpoint,
  { keep, timeoutMs, idleMs }: ConnectOptions,
): Promise<Socket | undefined> {
  const { protocol, hostname, port, username, password } = proxy;
  const isTls = protocol === "https:";
  const path = formatEndpoint(target);
  const login =
    username === ""
      ? {}
      : {
          "Proxy-Authorization": formatBasicAuthorization(decodeURIComponent(username), decodeURIComponent(password)),
        };
  // Rarely needed.
  const send = isTls ? (await import("node:https")).request : httpRequest;
  return new Promise((resolve) => {
    const request = send({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: port || (isTls ? 443 : 80),
      method: "CONNECT",
      path,
      headers: { Host: path, ...login },
      agent: false,
      timeout: timeoutMs,
    });
    request.once("socket", keep);
    request.once("timeout", () => request.destroy());
    request.once("close", () => resolve(undefined));
    request.on("error", () => resolve(undefined));
    request.once("connect", ({ statusCode }, socket: Socket, head) => {
      socket.on("error", () => socket.destroy());
      if (statusCode !== 200) {
        socket.destroy();
        return resolve(undefined);
      }
      socket.unshift(head);
      socket.setTimeout(idleMs, () => socket.destroy());
      resolve(socket);
    });
    request.end();
  });
}

function formatBasicAuthorization(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
}
