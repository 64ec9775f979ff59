import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  createMcpHandler,
  isJsonContentType,
  isLegacyRequest,
  type McpHttpHandler,
  type McpServerFactory,
  type ServerNotifier,
  SUPPORTED_PROTOCOL_VERSIONS,
} from "@modelcontextprotocol/server";
import { SkillError } from "../../errors/problem.ts";
import {
  createHttpGuard,
  createRpcRefusal,
  formatUrlHost,
  HTTP_METHODS,
  type HttpGuard,
  isWildcardHost,
  readJsonBody,
  requireUsableToken,
  sendWebResponse,
  toWebRequest,
} from "./http-guard.ts";
import { createHttpSessions, type HttpSessions } from "./http-sessions.ts";

export interface HttpServerOptions {
  /** The loopback interface, 127.0.0.1, when left out. */
  host?: string;
  /** Any free one when left out. */
  port?: number;
  /**
   * What every request has to bring, as `Authorization: Bearer …`. `false`: nothing, so that every user and program of this machine may call; only
   * on the loopback interface.
   */
  token: string | false;
  /** Names that the server has besides those of the loopback interface and that it is bound to. */
  allowedHosts?: readonly string[];
  /** Origins of pages that may call it besides its own: a page of another program on this machine is a stranger's. */
  allowedOrigins?: readonly string[];
  /** How many clients of the older revisions may have a session. */
  maxSessions?: number;
  /** After how long a session ends that has no stream and no request. */
  idleSeconds?: number;
  /** The most bytes of a request. */
  maxBody?: number;
  /** Hears of what went wrong where no answer tells it, in one line. Contract: does not throw. */
  onNotice?(text: string): void;
}

export interface HttpMcpServer {
  readonly url: string;
  /** Tells clients of the 2026-07-28 revision that subscribed. */
  readonly notify: ServerNotifier;
  /** How many clients of the older revisions have a session. */
  readonly sessions: number;
  /** Contract: no stream and no connection is left when it resolves, which takes no longer than a second. */
  close(): Promise<void>;
}

/** Serves MCP by Streamable HTTP at `/mcp`, to clients of all revisions: the older ones have sessions, 2026-07-28 has none. */
export async function serveHttp(factory: McpServerFactory, options: HttpServerOptions): Promise<HttpMcpServer> {
  const host = (options.host ?? "127.0.0.1").replace(/^\[(.*)\]$/, "$1");
  const { maxSessions = 1000, idleSeconds = 30 * 60, maxBody = 4 * 1024 * 1024 } = options;
  requireUsableToken({ ...options, host });
  const report = (error: unknown) => options.onNotice?.(formatErrorNotice(error));
  const server = createServer(SERVER_TIMEOUTS);
  const port = await listenOn(server, host, options.port ?? 0);
  const guard = createHttpGuard({ ...options, host, port });
  const sessions = createHttpSessions(factory, {
    maxSessions,
    idleMs: idleSeconds * 1000,
    keepAliveMs: KEEP_ALIVE_MS,
    report,
  });
  const modern = createMcpHandler(factory, {
    legacy: "reject",
    onerror: report,
    keepAliveMs: KEEP_ALIVE_MS,
    maxSubscriptions: maxSessions,
  });
  const serving: HttpServerState = {
    url: formatServerUrl(host, port),
    guard,
    maxBody,
    sessions,
    modern,
    isClosing: false,
  };
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    handleIncoming(serving, request, response).catch((error) => {
      if (!serving.isClosing) report(error);
      return sendFailure(request, response);
    });
  };
  // Who asks before sending a body is told to go on by `readJson`, and not before it was looked at who asks.
  server.on("request", listener).on("checkContinue", listener);
  let closed: Promise<void> | undefined;
  return {
    url: serving.url,
    notify: modern.notify,
    get sessions() {
      return sessions.size;
    },
    close: () => {
      closed ??= closeServer(server, serving);
      return closed;
    },
  };
}

const MCP_ROUTE = "/mcp";
const KEEP_ALIVE_MS = 15_000;
/** As many messages as the SDK takes in a batch. It looks at all of them before it counts, which takes seconds. */
const MAX_BATCH_SIZE = 100;
const BATCH_TOO_LARGE = `A batch has at most ${MAX_BATCH_SIZE} messages. Send less at once.`;
/** For what a client sends. An answer may take as long as it wants. */
const SERVER_TIMEOUTS = { headersTimeout: 15_000, requestTimeout: 60_000, connectionsCheckingInterval: 5000 };
/** How long streams may take to say that they end, and servers to close. */
const CLOSE_TIMEOUT_MS = 500;

interface HttpServerState {
  url: string;
  guard: HttpGuard;
  maxBody: number;
  sessions: HttpSessions;
  modern: McpHttpHandler;
  isClosing: boolean;
}

async function handleIncoming(serving: HttpServerState, incoming: IncomingMessage, response: ServerResponse) {
  for (const [name, value] of Object.entries(serving.guard.cors(incoming.headers))) response.setHeader(name, value);
  const answer = await createResponse(serving, incoming, response);
  if (answer) await sendWebResponse(answer, incoming, response);
}

/** A client that is only hung up on does not know what to do about it. */
async function sendFailure(incoming: IncomingMessage, response: ServerResponse) {
  if (response.headersSent) return void response.destroy();
  await sendWebResponse(createRpcRefusal(500, "The request could not be answered.", {}, -32603), incoming, response);
}

/** Nothing, where nobody waits for it. */
async function createResponse(
  serving: HttpServerState,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<Response | undefined> {
  const refused = serving.guard.refuse(incoming);
  if (refused) return refused;
  if (incoming.url?.split("?")[0] !== MCP_ROUTE)
    return createRpcRefusal(404, `There is nothing here. MCP is at ${MCP_ROUTE}.`);
  if (serving.isClosing) return createRpcRefusal(503, "This server is closing.");
  if (incoming.method === "GET" || incoming.method === "DELETE") {
    return routeRequest(serving, toWebRequest(incoming, response, serving.url), undefined, identifyCaller(incoming));
  }
  if (incoming.method === "OPTIONS") return new Response(null, { status: 204, headers: { allow: HTTP_METHODS } });
  if (incoming.method !== "POST") return createRpcRefusal(405, `Only ${HTTP_METHODS}.`, { allow: HTTP_METHODS });
  if (!isJsonContentType(incoming.headers["content-type"] ?? null)) {
    return createRpcRefusal(415, "The body must be JSON, and the Content-Type header say so: application/json.");
  }
  const body = await readJsonBody(incoming, response, serving.maxBody);
  if ("isGone" in body) return undefined;
  if ("refused" in body) return body.refused;
  if (Array.isArray(body.value) && body.value.length > MAX_BATCH_SIZE)
    return createRpcRefusal(400, BATCH_TOO_LARGE, {}, -32600);
  return routeRequest(serving, toWebRequest(incoming, response, serving.url), body.value, identifyCaller(incoming));
}

/** Who calls, as far as it is known: the token, which the guard has checked, and the address. */
function identifyCaller({ headers, socket }: IncomingMessage): string {
  return hash("sha256", `${headers.authorization ?? ""} ${socket.remoteAddress ?? ""}`);
}

async function routeRequest(
  serving: HttpServerState,
  request: Request,
  body: unknown,
  identity: string,
): Promise<Response> {
  const { sessions, modern } = serving;
  const isLegacy = body === undefined ? !isStatelessRequest(request) : await isLegacyRequest(request, body);
  if (isLegacy) return sessions.serve(request, body, identity);
  return modern.fetch(request, body === undefined ? {} : { parsedBody: body });
}

/** Without a body there is nothing else to tell the revisions apart by. The newer one knows neither GET nor DELETE, and says so. */
function isStatelessRequest({ headers }: Request): boolean {
  const version = headers.get("mcp-protocol-version");
  return version !== null && !headers.has("mcp-session-id") && !SUPPORTED_PROTOCOL_VERSIONS.includes(version);
}

function listenOn(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: NodeJS.ErrnoException) => {
      const code = cause.code ?? cause.message;
      const why = LISTEN_PROBLEMS[code] ?? formatListenError;
      reject(new SkillError("usage", { ...why({ host: formatUrlHost(host), port, code }), cause }));
    };
    server.once("error", fail).listen({ host, port }, () => {
      // A connection that cannot be accepted is an error too, and the server goes on.
      server.off("error", fail).on("error", () => {});
      resolve((server.address() as AddressInfo).port);
    });
  });
}

interface ListenAddress {
  host: string;
  port: number;
  code: string;
}

type ListenProblemFormatter = (address: ListenAddress) => { message: string; fix: string };

const OTHER_ADDRESS_FIX = "choose another: --http 127.0.0.1:7400";

const formatForeignAddress: ListenProblemFormatter = ({ host }) => ({
  message: `${host} is no address of this machine`,
  fix: OTHER_ADDRESS_FIX,
});
const formatUnknownHost: ListenProblemFormatter = ({ host }) => ({
  message: `No address is known for ${host}`,
  fix: OTHER_ADDRESS_FIX,
});
const formatListenError: ListenProblemFormatter = ({ host, port, code }) => ({
  message: `Cannot listen on ${host}:${port} (${code})`,
  fix: OTHER_ADDRESS_FIX,
});

const LISTEN_PROBLEMS: Record<string, ListenProblemFormatter> = {
  EADDRINUSE: ({ host, port }) => ({
    message: `${host}:${port} is in use already`,
    fix: `choose another: --http ${host}:${port < 65_535 ? port + 1 : port - 1}`,
  }),
  EACCES: ({ host, port }) => ({
    message: `This user may not listen on ${host}:${port}`,
    fix: `choose a port above 1023: --http ${host}:7400`,
  }),
  EADDRNOTAVAIL: formatForeignAddress,
  EAFNOSUPPORT: formatForeignAddress,
  ENOTFOUND: formatUnknownHost,
  EAI_AGAIN: formatUnknownHost,
};

/** All interfaces are no address to call, but one of them is this machine's own. */
function formatServerUrl(host: string, port: number): string {
  const own = host.includes(":") ? "::1" : "127.0.0.1";
  return `http://${formatUrlHost(isWildcardHost(host) ? own : host)}:${port}${MCP_ROUTE}`;
}

async function closeServer(server: Server, serving: HttpServerState) {
  serving.isClosing = true;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const ended = Promise.all([serving.sessions.close(), serving.modern.close(), closed]);
  // A connection that a stream was on stays for the client's next request, unless it is closed once more.
  const idle = setInterval(() => server.closeIdleConnections(), 10);
  const late = new AbortController();
  await Promise.race([ended, sleep(CLOSE_TIMEOUT_MS, undefined, { signal: late.signal }).catch(() => {})]);
  late.abort();
  clearInterval(idle);
  server.closeAllConnections();
  await closed;
}

/** One line, and nothing that was sent: messages of others end in the data that they complain of. */
function formatErrorNotice(error: unknown): string {
  const { message, name } = error instanceof Error ? error : new Error(String(error));
  const [line = ""] = message.split(/[\r\n{[]/);
  return (line.trim().replace(/[\p{Cc}\p{Cf}]/gu, " ") || name).slice(0, 200);
}
