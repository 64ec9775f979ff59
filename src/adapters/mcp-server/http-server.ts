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
import { SERVER_SCOPES } from "../../store/server-tokens.ts";
import { formatUrlHost, isWildcardHost } from "../../util/http.ts";
import { isJsonObject } from "../../util/objects.ts";
import {
  createHttpGuard,
  createRpcRefusal,
  HTTP_METHODS,
  type HttpGuard,
  readJsonBody,
  requireUsableToken,
  sendWebResponse,
  toWebRequest,
} from "./http-guard.ts";
import {
  type IdentifyRequest,
  RESOURCE_METADATA_PATH,
  resolveClientAddress,
  type ServerIdentity,
  toAuthInfo,
} from "./http-identity.ts";
import { type AccessEntry, describeCaller, describeRpcMessage, startAccessEntry } from "./http-operations.ts";
import { createHttpSessions, type HttpCaller, type HttpSessions } from "./http-sessions.ts";
import { getToolScope, SERVER_TOOLS } from "./server-tools.ts";

export interface HttpServerOptions {
  /** Defaults to the loopback interface, 127.0.0.1. */
  host?: string;
  /** Defaults to any free port. */
  port?: number;
  /**
   * The token of every request, as `Authorization: Bearer …`. `false` for none, so that every user and program on this machine may call;
   * allowed only on the loopback interface.
   */
  token: string | false;
  /** Host names of the server in addition to those of the loopback interface and the bound address. */
  allowedHosts?: readonly string[];
  /** Origins of web pages that may call it, in addition to its own: pages of other programs on this machine are untrusted. */
  allowedOrigins?: readonly string[];
  /** Maximum number of sessions, for clients of the older revisions. */
  maxSessions?: number;
  /** Idle time after which a session without stream and request ends. */
  idleSeconds?: number;
  /** Maximum size of a request in bytes. */
  maxBody?: number;
  /** Identifies callers, instead of `token` alone. `createIdentifier` creates one for tokens of people. */
  createIdentify?(guard: Pick<HttpGuard, "refuseToken">): IdentifyRequest;
  /** Returns the metadata of this server as an OAuth resource, for clients that look for its authorization server. */
  getResourceMetadata?(): Readonly<Record<string, unknown>> | undefined;
  /** The addresses of reverse proxies whose `X-Forwarded-For` counts. */
  trustedProxies?(): readonly string[];
  /** Called with each request after its response. Contract: does not throw. */
  onAccess?(entry: AccessEntry): void;
  /** Returns the part that is not ready for requests, for `/readyz`, which needs no token. Contract: answers within seconds. */
  findUnreadiness?(): Promise<"tokens" | "configuration" | "database" | undefined>;
  /** Returns the metrics, for `/metrics`. Callers need the scope `metrics`. */
  formatMetrics?(): string;
  /** Called with errors that no response reports, in one line. Contract: does not throw. */
  onNotice?(text: string): void;
}

export interface HttpMcpServer {
  readonly url: string;
  /** Notifies subscribed clients of the 2026-07-28 revision. */
  readonly notify: ServerNotifier;
  /** The number of sessions, for clients of the older revisions. */
  readonly sessions: number;
  /** The number of requests without a complete response. */
  readonly requestsInProgress: number;
  /** Ends the sessions and requests of callers whose credential no longer counts. Returns the callers, one for each credential. */
  dropRevoked(): readonly ServerIdentity[];
  /** Contract: all streams and connections are closed when it resolves, within a second. */
  close(): Promise<void>;
}

/** Serves MCP over Streamable HTTP at `/mcp`, for clients of all revisions: the older ones have sessions, 2026-07-28 has none. */
export async function serveHttp(factory: McpServerFactory, options: HttpServerOptions): Promise<HttpMcpServer> {
  const host = (options.host ?? "127.0.0.1").replace(/^\[(.*)\]$/, "$1");
  const { maxSessions = 1000, idleSeconds = 30 * 60, maxBody = 4 * 1024 * 1024 } = options;
  requireUsableToken({ ...options, host });
  const report = (error: unknown) => options.onNotice?.(formatErrorNotice(error));
  const server = createServer(SERVER_TIMEOUTS);
  const port = await listenOn(server, host, options.port ?? 0);
  const { createIdentify } = options;
  const guard = createHttpGuard({ ...options, host, port, ...(createIdentify ? { token: false } : {}) });
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
    identify: createIdentify?.(guard) ?? identifyByToken,
    open: new Map(),
    options,
    isClosing: false,
  };
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    const entry = startAccessEntry(request, resolveClientAddress(request, options.trustedProxies?.()));
    const start = performance.now();
    serving.open.set(response, undefined);
    response.once("close", () => {
      serving.open.delete(response);
      options.onAccess?.({ ...entry, status: response.statusCode, ms: Math.round(performance.now() - start) });
    });
    handleIncoming(serving, request, response, entry).catch((error) => {
      if (!serving.isClosing) report(error);
      return sendFailure(request, response);
    });
  };
  // `readJsonBody` answers `Expect: 100-continue`, after the guard has checked the request.
  server.on("request", listener).on("checkContinue", listener);
  let closed: Promise<void> | undefined;
  return {
    url: serving.url,
    notify: modern.notify,
    get sessions() {
      return sessions.size;
    },
    get requestsInProgress() {
      return serving.open.size;
    },
    dropRevoked() {
      const revoked = sessions.endRevoked();
      for (const [response, identity] of serving.open) {
        if (!identity || identity.isValid()) continue;
        revoked.push(identity);
        response.destroy(); // The client's request ends as if it had disconnected, which cancels its call.
      }
      return [...new Map(revoked.map((identity) => [identity.credential, identity])).values()];
    },
    close: () => {
      closed ??= closeServer(server, serving);
      return closed;
    },
  };
}

const MCP_ROUTE = "/mcp";
const KEEP_ALIVE_MS = 15_000;
/** As many messages as the SDK accepts in a batch. It parses all of them before it counts, which takes seconds. */
const MAX_BATCH_SIZE = 100;
const BATCH_TOO_LARGE = `A batch has at most ${MAX_BATCH_SIZE} messages. Send fewer at once.`;
/** Timeouts for requests. A response may take as long as it needs. */
const SERVER_TIMEOUTS = { headersTimeout: 15_000, requestTimeout: 60_000, connectionsCheckingInterval: 5000 };
/** Time for streams and servers to close. */
const CLOSE_TIMEOUT_MS = 500;

interface HttpServerState {
  url: string;
  guard: HttpGuard;
  maxBody: number;
  sessions: HttpSessions;
  modern: McpHttpHandler;
  identify: IdentifyRequest;
  /** The responses in progress, with the caller once it is known. */
  open: Map<ServerResponse, ServerIdentity | undefined>;
  options: Pick<HttpServerOptions, "findUnreadiness" | "formatMetrics" | "getResourceMetadata">;
  isClosing: boolean;
}

/** Identifies a caller by the only token, which the guard has checked. */
const identifyByToken: IdentifyRequest = async ({ headers }) => ({
  key: hash("sha256", headers.authorization ?? ""),
  scopes: new Set(SERVER_SCOPES),
  credential: "server token",
  isValid: () => true,
});

async function handleIncoming(
  serving: HttpServerState,
  incoming: IncomingMessage,
  response: ServerResponse,
  entry: AccessEntry,
) {
  for (const [name, value] of Object.entries(serving.guard.cors(incoming.headers))) response.setHeader(name, value);
  const answer = await createResponse(serving, incoming, response, entry);
  if (answer) await sendWebResponse(answer, incoming, response);
}

/** Sends an error: a client whose connection is only closed does not know why. */
async function sendFailure(incoming: IncomingMessage, response: ServerResponse) {
  if (response.headersSent) return void response.destroy();
  await sendWebResponse(createRpcRefusal(500, "Internal error.", {}, -32603), incoming, response);
}

/** Returns undefined if no client waits for the response. */
async function createResponse(
  serving: HttpServerState,
  incoming: IncomingMessage,
  response: ServerResponse,
  entry: AccessEntry,
): Promise<Response | undefined> {
  const route = incoming.url?.split("?")[0];
  const health = await createHealthResponse(serving, incoming.method, route);
  if (health) return health;
  const refused = serving.guard.refuse(incoming);
  if (refused) return refused;
  const metadata = createResourceMetadataResponse(serving, incoming.method, route);
  if (metadata) return metadata;
  const identity = await serving.identify({ headers: incoming.headers, address: entry.address });
  if (identity instanceof Response) return identity;
  Object.assign(entry, describeCaller(identity));
  if (serving.open.has(response)) serving.open.set(response, identity);
  if (route === METRICS_ROUTE) return createMetricsResponse(serving, identity);
  if (route !== MCP_ROUTE) return createRpcRefusal(404, `Not found. MCP is at ${MCP_ROUTE}.`);
  if (serving.isClosing) return createRpcRefusal(503, "This server is closing.");
  if (!identity.scopes.has("list")) {
    const headers = identity.createScopeChallenge
      ? { "www-authenticate": identity.createScopeChallenge("list") }
      : undefined;
    return createRpcRefusal(403, "This token has no scope for skills.", headers);
  }
  const caller: HttpCaller = { identity, address: entry.address };
  if (incoming.method === "GET" || incoming.method === "DELETE") {
    return routeRequest(serving, toWebRequest(incoming, response, serving.url), undefined, caller);
  }
  if (incoming.method === "OPTIONS") return new Response(null, { status: 204, headers: { allow: HTTP_METHODS } });
  if (incoming.method !== "POST")
    return createRpcRefusal(405, `Method not allowed. Use ${HTTP_METHODS}.`, { allow: HTTP_METHODS });
  if (!isJsonContentType(incoming.headers["content-type"] ?? null)) {
    return createRpcRefusal(415, "The body must be JSON with the header Content-Type: application/json.");
  }
  const body = await readJsonBody(incoming, response, serving.maxBody);
  if ("isGone" in body) return undefined;
  if ("refused" in body) return body.refused;
  Object.assign(entry, describeRpcMessage(body.value));
  if (Array.isArray(body.value) && body.value.length > MAX_BATCH_SIZE)
    return createRpcRefusal(400, BATCH_TOO_LARGE, {}, -32600);
  const missing = refuseMissingScope(identity, body.value);
  if (missing) return missing;
  return routeRequest(serving, toWebRequest(incoming, response, serving.url), body.value, caller);
}

const METRICS_ROUTE = "/metrics";

/**
 * Answers load balancers. They have no token, so the response names at most a part of the server: it reveals nothing else, and is the same
 * for every Host header.
 */
async function createHealthResponse(
  { isClosing, options }: HttpServerState,
  method: string | undefined,
  route: string | undefined,
): Promise<Response | undefined> {
  if ((method !== "GET" && method !== "HEAD") || (route !== "/healthz" && route !== "/readyz")) return undefined;
  const reason = route === "/healthz" ? undefined : isClosing ? "stopping" : await options.findUnreadiness?.();
  const headers = { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" };
  const body = method === "HEAD" ? null : reason === undefined ? "ok\n" : `unavailable: ${reason}\n`;
  return new Response(body, { status: reason === undefined ? 200 : 503, headers });
}

/** Answers clients that look for the authorization server: at the path of the origin, and at the one for `/mcp`. */
function createResourceMetadataResponse(
  { options }: HttpServerState,
  method: string | undefined,
  route: string | undefined,
): Response | undefined {
  if (method !== "GET" || (route !== RESOURCE_METADATA_PATH && route !== `${RESOURCE_METADATA_PATH}${MCP_ROUTE}`))
    return undefined;
  const metadata = options.getResourceMetadata?.();
  return metadata && Response.json(metadata, { headers: { "cache-control": "max-age=3600" } });
}

/** Refuses a call for which the client can get a token with more scopes by itself. */
function refuseMissingScope({ scopes, createScopeChallenge }: ServerIdentity, body: unknown): Response | undefined {
  if (!createScopeChallenge || !isJsonObject(body) || body["method"] !== "tools/call") return undefined;
  const name = isJsonObject(body["params"]) ? String(body["params"]["name"]) : "";
  const scope = getToolScope(name);
  if (!Object.hasOwn(SERVER_TOOLS, name) || scopes.has(scope)) return undefined;
  const headers = { "www-authenticate": createScopeChallenge(scope) };
  return createRpcRefusal(403, `The access token does not have the scope ${scope}.`, headers);
}

function createMetricsResponse({ options }: HttpServerState, { scopes }: ServerIdentity): Response {
  if (!scopes.has("metrics")) return createRpcRefusal(403, "This token does not have the scope metrics.");
  if (!options.formatMetrics) return createRpcRefusal(404, "This server has no metrics.");
  return new Response(options.formatMetrics(), {
    headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8", "cache-control": "no-store" },
  });
}

async function routeRequest(
  serving: HttpServerState,
  request: Request,
  body: unknown,
  caller: HttpCaller,
): Promise<Response> {
  const { sessions, modern } = serving;
  const isLegacy = body === undefined ? !isStatelessRequest(request) : await isLegacyRequest(request, body);
  if (isLegacy) return sessions.serve(request, body, caller);
  const authInfo = toAuthInfo(caller.identity);
  return modern.fetch(request, body === undefined ? { authInfo } : { authInfo, parsedBody: body });
}

/** Returns true for the newer revision. A request without a body is identified by its headers. That revision rejects GET and DELETE. */
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
      // A connection that cannot be accepted is an error too. The server continues.
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

const OTHER_ADDRESS_FIX = "choose another address: --http 127.0.0.1:7400";

const formatForeignAddress: ListenProblemFormatter = ({ host }) => ({
  message: `${host} is not an address of this machine`,
  fix: OTHER_ADDRESS_FIX,
});
const formatUnknownHost: ListenProblemFormatter = ({ host }) => ({
  message: `Cannot resolve ${host}`,
  fix: OTHER_ADDRESS_FIX,
});
const formatListenError: ListenProblemFormatter = ({ host, port, code }) => ({
  message: `Cannot listen on ${host}:${port} (${code})`,
  fix: OTHER_ADDRESS_FIX,
});

const LISTEN_PROBLEMS: Record<string, ListenProblemFormatter> = {
  EADDRINUSE: ({ host, port }) => ({
    message: `${host}:${port} is already in use`,
    fix: `choose another port: --http ${host}:${port < 65_535 ? port + 1 : port - 1}`,
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

/** Formats the URL to call. For all interfaces it uses the loopback address. */
function formatServerUrl(host: string, port: number): string {
  const own = host.includes(":") ? "::1" : "127.0.0.1";
  return `http://${formatUrlHost(isWildcardHost(host) ? own : host)}:${port}${MCP_ROUTE}`;
}

async function closeServer(server: Server, serving: HttpServerState) {
  serving.isClosing = true;
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const ended = Promise.all([serving.sessions.close(), serving.modern.close(), closed]);
  // Close idle connections repeatedly: one that had a stream stays open for the client's next request.
  const idle = setInterval(() => server.closeIdleConnections(), 10);
  const late = new AbortController();
  await Promise.race([ended, sleep(CLOSE_TIMEOUT_MS, undefined, { signal: late.signal }).catch(() => {})]);
  late.abort();
  clearInterval(idle);
  server.closeAllConnections();
  await closed;
}

/** Formats one line without request data: messages of libraries often end with the data that they reject. */
function formatErrorNotice(error: unknown): string {
  const { message, name } = error instanceof Error ? error : new Error(String(error));
  const [line = ""] = message.split(/[\r\n{[]/);
  return (line.trim().replace(/[\p{Cc}\p{Cf}]/gu, " ") || name).slice(0, 200);
}
