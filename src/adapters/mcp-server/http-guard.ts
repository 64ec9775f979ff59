import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { localhostAllowedHostnames, validateHostHeader, validateOriginHeader } from "@modelcontextprotocol/server";
import { SkillError } from "../../errors/problem.ts";
import { hashSecret, isLoopbackHost, isSameSecret, isWildcardHost, readRequestBody } from "../../util/http.ts";
import { truncateLine } from "../../util/text.ts";

export interface HttpGuardOptions {
  /** The host name or address to listen on. */
  host: string;
  port: number;
  /** The token of every request, as `Authorization: Bearer …`. `false` for none, which only the loopback interface allows. */
  token: string | false;
  /** Host names of the server in addition to those of the loopback interface and the bound address. */
  allowedHosts?: readonly string[] | undefined;
  /** Origins of web pages that may call it, in addition to its own: `https://app.example.com` exactly, or a host name for every scheme and port. */
  allowedOrigins?: readonly string[] | undefined;
  /** Called with refused requests, at most once a minute for each reason. Contract: does not throw. */
  onNotice?(text: string): void;
  /** A monotonic clock in milliseconds. */
  now?(): number;
}

/** Decides which requests are accepted. Reads only headers, so that no untrusted body is parsed. */
export interface HttpGuard {
  /** Returns the response to a request that must not reach the server. */
  refuse(request: GuardedRequest): Response | undefined;
  /** Refuses a request whose token is missing or wrong. `challenge`: how to get one, for clients. */
  refuseToken(headers: IncomingHttpHeaders, challenge?: string): Response;
  /** Returns the headers that allow a page of an allowed origin to read the response, and keep shared caches correct. */
  cors(headers: IncomingHttpHeaders): Record<string, string>;
}

interface GuardedRequest {
  method?: string | undefined;
  headers: IncomingHttpHeaders;
}

export const HTTP_METHODS = "GET, POST, DELETE, OPTIONS";

/** Creates the guard. Contract: `requireUsableToken` has checked the same options. */
export function createHttpGuard(options: HttpGuardOptions): HttpGuard {
  const hosts = listHostNames(options);
  const isAllowedOrigin = createOriginCheck(options);
  const secret = options.token === false ? undefined : hashSecret(options.token);
  const refuse = createRefuser(options);
  return {
    refuse({ method, headers }) {
      if (hosts && !validateHostHeader(headers.host, hosts).ok) return refuse("host", headers);
      if (!isAllowedOrigin(headers.origin)) return refuse("origin", headers);
      // A browser sends a preflight request before it sends a token.
      if (isPreflight(method, headers))
        return new Response(null, { status: 204, headers: createPreflightHeaders(headers) });
      if (secret && !isSameSecret(secret, parseBearerToken(headers.authorization))) return refuse("token", headers);
      return undefined;
    },
    refuseToken(headers, challenge) {
      const response = refuse("token", headers);
      if (challenge !== undefined) response.headers.set("www-authenticate", challenge);
      return response;
    },
    cors({ origin }) {
      if (!origin || !isAllowedOrigin(origin)) return VARY_HEADER;
      return {
        ...VARY_HEADER,
        "access-control-allow-origin": origin,
        "access-control-expose-headers": EXPOSED_HEADERS,
      };
    },
  };
}

/** Throws if the server would be open to other machines without a token, or if the token cannot be sent. */
export function requireUsableToken({ host, token }: Pick<HttpGuardOptions, "host" | "token">): void {
  if (token === false) {
    if (isLoopbackHost(host)) return;
    throw new SkillError("usage", {
      message: `Other machines can reach ${host || "all interfaces"}, and no token is set`,
      fix: "remove --no-token (in code: set a token), or listen on 127.0.0.1",
    });
  }
  if (typeof token !== "string") {
    throw new SkillError("usage", {
      message: "No token is set",
      fix: "set one with 16 or more random characters, or false to allow every program on this machine",
    });
  }
  if (/^[\x21-\x7e]+$/.test(token)) return;
  throw new SkillError("usage", {
    message: "The token cannot be sent in a header: it is empty, or contains spaces or non-ASCII characters",
    fix: "set a long random token of letters and digits",
  });
}

interface GuardReason {
  status: number;
  /** For the client. It does not repeat the request: a response must not contain untrusted text. */
  message: string;
  headers?: Record<string, string>;
  /** For the operator: the refused request. It never contains the token. */
  what(headers: IncomingHttpHeaders): string;
}

const GUARD_REASONS = {
  host: {
    status: 403,
    message:
      "The Host header is not a name of this server. Use the address that it prints, or allow the name: --allow-host NAME.",
    what: ({ host }) =>
      `with the Host ${formatHeaderValue(host)}; if it is a name of this server, allow it: --allow-host NAME`,
  },
  origin: {
    status: 403,
    message: "Pages of this origin may not call this server. To allow it: --allow-origin NAME.",
    what: ({ origin }) => `from a page of ${formatHeaderValue(origin)}; to allow such pages: --allow-origin NAME`,
  },
  token: {
    status: 401,
    message:
      "This server needs its token, as Authorization: Bearer … To update a client's entry, run: skillet connect CLIENT --url ADDRESS",
    headers: { "www-authenticate": "Bearer" },
    what: ({ authorization }) => (authorization ? "with a wrong token" : "without the token"),
  },
} satisfies Record<string, GuardReason>;

/** Often enough to be noticed, and too rare to fill a log. */
const NOTICE_INTERVAL_MS = 60_000;

function createRefuser({ onNotice, now = () => performance.now() }: HttpGuardOptions) {
  const noticed = new Map<string, number>();
  return (reason: keyof typeof GUARD_REASONS, seen: IncomingHttpHeaders): Response => {
    const { status, message, headers, what }: GuardReason = GUARD_REASONS[reason];
    const at = now();
    if (at - (noticed.get(reason) ?? -NOTICE_INTERVAL_MS) >= NOTICE_INTERVAL_MS) {
      noticed.set(reason, at);
      onNotice?.(`Refused a request ${what(seen)}`);
    }
    return createRpcRefusal(status, message, headers);
  };
}

/** Formats an untrusted header value: one line of printable ASCII. */
function formatHeaderValue(value = ""): string {
  return `"${truncateLine(value.replace(/[^\x21-\x7e]/g, "?"), 100)}"`;
}

/**
 * Returns the accepted names of a Host header, against DNS rebinding; undefined if any name is accepted. On all interfaces the server cannot
 * know its names, so there it only checks configured names: a token is required in any case, and a malicious page does not have it.
 */
function listHostNames({ host, allowedHosts = [] }: HttpGuardOptions): string[] | undefined {
  if (isWildcardHost(host) && allowedHosts.length === 0) return undefined;
  const bound = isWildcardHost(host) ? [] : [host];
  return [...localhostAllowedHostnames(), ...[...bound, ...allowedHosts].map(normalizeHostName)];
}

/** Normalizes a host as `validateHostHeader` does: lower case, without a port. */
function normalizeHostName(host: string): string {
  const isBare = host.includes(":") && !/^\[|:\d+$/.test(host);
  for (const text of isBare ? [`[${host}]`] : [host, `[${host}]`]) {
    if (URL.canParse(`http://${text}`)) return new URL(`http://${text}`).hostname;
  }
  return host;
}

function createOriginCheck({
  host,
  port,
  allowedOrigins = [],
}: HttpGuardOptions): (origin: string | undefined) => boolean {
  // Other pages on this machine are untrusted too: any program may serve one.
  const own = [...localhostAllowedHostnames(), ...(isWildcardHost(host) ? [] : [normalizeHostName(host)])];
  const exact = new Set([...own.map((name) => `http://${name}:${port}`), ...allowedOrigins].flatMap(parseOrigins));
  const isName = (text: string) => parseOrigins(text).length === 0;
  const names = allowedOrigins.filter(isName).map((name) => name.toLowerCase());
  return (origin) => (origin !== undefined && exact.has(origin)) || validateOriginHeader(origin, names).ok;
}

/** Parses an origin as browsers write it: without the default port. A name with a port matches both schemes; one without is not an origin. */
function parseOrigins(written: string): string[] {
  const text = written.toLowerCase().replace(/\/$/, "");
  const urls = text.includes("://") ? [text] : /:\d+$/.test(text) ? [`http://${text}`, `https://${text}`] : [];
  return urls.map((url) => (/^https?:/.test(url) && URL.canParse(url) ? new URL(url).origin : url));
}

const ACCEPTED_HEADERS = [
  "accept",
  "authorization",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "mcp-session-id",
];
const EXPOSED_HEADERS = "mcp-session-id, mcp-protocol-version, www-authenticate";
const VARY_HEADER = { vary: "Origin" };

function isPreflight(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === "OPTIONS" && headers.origin !== undefined;
}

/** Allows the requested headers explicitly, since `*` excludes some. Tools define headers for arguments, such as `Mcp-Param-City`. */
function createPreflightHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const requested = String(headers["access-control-request-headers"] ?? "").split(",");
  const parameters = requested
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^mcp-param-[\w.-]+$/.test(name));
  return {
    "access-control-allow-methods": HTTP_METHODS,
    "access-control-allow-headers": [...ACCEPTED_HEADERS, ...parameters].join(", "),
    "access-control-max-age": "600",
  };
}

/** Returns the token of an `Authorization` header, or the empty string. */
export function parseBearerToken(authorization: string | undefined): string {
  return /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Creates an error response in the format of JSON-RPC, which clients can parse. */
export function createRpcRefusal(
  status: number,
  message: string,
  headers: Record<string, string> = {},
  code = -32000,
): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}

/** Converts a Node request to a web request without its body. Its signal aborts when the client disconnects before the response. */
export function toWebRequest(incoming: IncomingMessage, response: ServerResponse, base: string): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const hungUp = new AbortController();
  const stop = () => {
    if (!response.writableFinished) hungUp.abort(new Error("The client disconnected"));
  };
  if (response.closed) stop();
  else response.once("close", stop);
  return new Request(base, { method: incoming.method ?? "GET", headers, signal: hungUp.signal });
}

type JsonBody = { value: unknown } | { refused: Response } | { isGone: true };

/** Reads a JSON body. Never buffers more than the limit. */
export async function readJsonBody(
  incoming: IncomingMessage,
  response: ServerResponse,
  max: number,
): Promise<JsonBody> {
  const body = await readRequestBody(incoming, response, max);
  if (body === "too-large") return { refused: createRpcRefusal(413, `The body exceeds ${max} bytes.`) };
  if (body === "gone") return { isGone: true };
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) };
  } catch {
    return { refused: createRpcRefusal(400, "The body is not JSON.", {}, PARSE_ERROR) };
  }
}

/** Sends a response as fast as the client reads it. Resolves when it is sent, or when the client has disconnected. */
export async function sendWebResponse(answer: Response, incoming: IncomingMessage, response: ServerResponse) {
  if (response.closed) return void (await answer.body?.cancel().catch(() => {}));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!incoming.complete) discardBody(incoming);
  if (answer.body === null) return void response.end();
  // A stream may be idle for long, and the client waits for its headers.
  response.flushHeaders();
  const reader = answer.body.getReader();
  response.once("close", () => void reader.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = await reader.read();
    if (done || response.closed) break;
    if (!response.write(value)) await waitForDrain(response);
  }
  response.end();
}

const PARSE_ERROR = -32700;
const LINGER_MS = 500;
const LINGER_BYTES = 1024 * 1024;
const DRAIN_TIMEOUT_MS = 60_000;

/**
 * Discards the unread body of a request: a little of it is read for a moment, because closing a socket while the client writes would lose
 * the response too. Then reading stops, and the connection is closed.
 */
function discardBody(incoming: IncomingMessage) {
  let remaining = LINGER_BYTES;
  incoming.on("error", () => {});
  incoming.on("data", (chunk: Buffer) => {
    remaining -= chunk.length;
    if (remaining < 0) incoming.pause();
  });
  incoming.resume();
  setTimeout(() => incoming.complete || incoming.socket.destroy(), LINGER_MS).unref();
}

/** Waits until the client has read. The wait is limited, because a client that does not read keeps its data in memory. */
function waitForDrain(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const stuck = setTimeout(() => response.destroy(), DRAIN_TIMEOUT_MS).unref();
    const go = () => {
      clearTimeout(stuck);
      response.off("drain", go).off("close", go);
      resolve();
    };
    response.on("drain", go).on("close", go);
    if (response.closed) go();
  });
}
