import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { localhostAllowedHostnames, validateHostHeader, validateOriginHeader } from "@modelcontextprotocol/server";
import { SkillError } from "../../errors/problem.ts";
import { truncateLine } from "../../util/text.ts";

export interface HttpGuardOptions {
  /** Where the server listens: a name or an address. */
  host: string;
  port: number;
  /** What every request has to bring, as `Authorization: Bearer …`. `false`: nothing, which only the loopback interface allows. */
  token: string | false;
  /** Names that the server has besides those of the loopback interface and that it is bound to. */
  allowedHosts?: readonly string[] | undefined;
  /** Origins of pages that may call it besides its own: `https://app.example.com` exactly, or a host name for every scheme and port. */
  allowedOrigins?: readonly string[] | undefined;
  /** Hears of who was refused, at most once a minute for each reason. Contract: does not throw. */
  onNotice?(text: string): void;
  /** Milliseconds of a clock that only goes forward. */
  now?(): number;
}

/** Who may come in. It looks at headers only, so that nothing is parsed for a stranger. */
export interface HttpGuard {
  /** What is answered in place of the server, if the request may not reach it. */
  refuse(request: GuardedRequest): Response | undefined;
  /** What lets a page of an allowed origin read the answer, and keeps the answer to one page from another. */
  cors(headers: IncomingHttpHeaders): Record<string, string>;
}

interface GuardedRequest {
  method?: string | undefined;
  headers: IncomingHttpHeaders;
}

export const HTTP_METHODS = "GET, POST, DELETE, OPTIONS";

/** Contract: `checkToken` has looked at the same options. */
export function createHttpGuard(options: HttpGuardOptions): HttpGuard {
  const hosts = listHostNames(options);
  const isAllowedOrigin = createOriginCheck(options);
  const secret = options.token === false ? undefined : hashSecret(options.token);
  const refuse = createRefuser(options);
  return {
    refuse({ method, headers }) {
      if (hosts && !validateHostHeader(headers.host, hosts).ok) return refuse("host", headers);
      if (!isAllowedOrigin(headers.origin)) return refuse("origin", headers);
      // A browser asks whether it may send a token before it sends one.
      if (isPreflight(method, headers))
        return new Response(null, { status: 204, headers: createPreflightHeaders(headers) });
      if (secret && !isSameSecret(secret, parseBearerToken(headers.authorization))) return refuse("token", headers);
      return undefined;
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

/** Throws when the server would be open to others without a token, or nobody could send the token. */
export function requireUsableToken({ host, token }: Pick<HttpGuardOptions, "host" | "token">): void {
  if (token === false) {
    if (isLoopbackHost(host)) return;
    throw new SkillError("usage", {
      message: `Others than this machine reach ${host || "all interfaces"}, and there is no token`,
      fix: "leave out --no-token (in code: give a token), or listen on 127.0.0.1",
    });
  }
  if (typeof token !== "string") {
    throw new SkillError("usage", {
      message: "There is no token",
      fix: "give one of 16 or more random characters, or false to let every program of this machine call",
    });
  }
  if (/^[\x21-\x7e]+$/.test(token)) return;
  throw new SkillError("usage", {
    message: "The token cannot be sent in a header: it is empty, or has spaces or other characters than ASCII",
    fix: "give a long random one, of letters and digits",
  });
}

/** Whether nobody but this machine reaches it. A name that only stands for such an address does not count. */
export function isLoopbackHost(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host);
}

/** Whether it stands for all interfaces of the machine. */
export function isWildcardHost(host: string): boolean {
  return host === "" || /^0(\.0){0,3}$/.test(host) || /^[0:]+(:0\.0\.0\.0)?$/.test(host);
}

/** A host as it stands in a URL: an IPv6 address in brackets. */
export function formatUrlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

interface GuardReason {
  status: number;
  /** For the client. It does not repeat what was sent: an answer is no place for a stranger's words. */
  message: string;
  headers?: Record<string, string>;
  /** For the operator: what was refused. The token is in none of it. */
  what(headers: IncomingHttpHeaders): string;
}

const GUARD_REASONS = {
  host: {
    status: 403,
    message:
      "The Host header is no name of this server; use the address that it prints, or allow the name: --allow-host NAME.",
    what: ({ host }) =>
      `for the Host ${formatHeaderValue(host)}; if it is a name of this server, allow it: --allow-host NAME`,
  },
  origin: {
    status: 403,
    message: "Pages of this origin may not call this server; if they are to, allow it: --allow-origin NAME.",
    what: ({ origin }) =>
      `of a page of ${formatHeaderValue(origin)}; if such pages may call, allow it: --allow-origin NAME`,
  },
  token: {
    status: 401,
    message:
      "This server needs its token, as Authorization: Bearer … To update a client's entry, run: skillet connect CLIENT --url ADDRESS",
    headers: { "www-authenticate": "Bearer" },
    what: ({ authorization }) => (authorization ? "with a wrong token" : "without the token"),
  },
} satisfies Record<string, GuardReason>;

/** Often enough to be seen, and too seldom for a stranger to fill a log. */
const NOTICE_INTERVAL_MS = 60_000;

function createRefuser({ onNotice, now = () => performance.now() }: HttpGuardOptions) {
  const told = new Map<string, number>();
  return (reason: keyof typeof GUARD_REASONS, seen: IncomingHttpHeaders): Response => {
    const { status, message, headers, what }: GuardReason = GUARD_REASONS[reason];
    const at = now();
    if (at - (told.get(reason) ?? -NOTICE_INTERVAL_MS) >= NOTICE_INTERVAL_MS) {
      told.set(reason, at);
      onNotice?.(`Refused a request ${what(seen)}`);
    }
    return createRpcRefusal(status, message, headers);
  };
}

/** A stranger's words: one line of plain characters. */
function formatHeaderValue(value = ""): string {
  return `"${truncateLine(value.replace(/[^\x21-\x7e]/g, "?"), 100)}"`;
}

/**
 * The names that a Host header may have, against pages that make a name of their own stand for this machine; none when any will
 * do. On all interfaces nobody can know by which names others reach it, so there it is checked only against names that were given:
 * the token is there in any case, and such a page does not have it.
 */
function listHostNames({ host, allowedHosts = [] }: HttpGuardOptions): string[] | undefined {
  if (isWildcardHost(host) && allowedHosts.length === 0) return undefined;
  const own = isWildcardHost(host) ? [] : [host];
  return [...localhostAllowedHostnames(), ...[...own, ...allowedHosts].map(normalizeHostName)];
}

/** As `validateHostHeader` reads it: lower case, without a port. */
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
  // Other pages of this machine are no less strange: any program may serve one, and anybody may have written it.
  const own = [...localhostAllowedHostnames(), ...(isWildcardHost(host) ? [] : [normalizeHostName(host)])];
  const exact = new Set([...own.map((name) => `http://${name}:${port}`), ...allowedOrigins].flatMap(parseOrigins));
  const isName = (text: string) => parseOrigins(text).length === 0;
  const names = allowedOrigins.filter(isName).map((name) => name.toLowerCase());
  return (origin) => (origin !== undefined && exact.has(origin)) || validateOriginHeader(origin, names).ok;
}

/** As browsers write it: without the port that the scheme has anyway. A name with a port is meant with either scheme; one without is none. */
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

/** A tool says which of its arguments are headers too, `Mcp-Param-City`: those asked for are repeated, since `*` leaves out some. */
function createPreflightHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const asked = String(headers["access-control-request-headers"] ?? "").split(",");
  const parameters = asked.map((name) => name.trim().toLowerCase()).filter((name) => /^mcp-param-[\w.-]+$/.test(name));
  return {
    "access-control-allow-methods": HTTP_METHODS,
    "access-control-allow-headers": [...ACCEPTED_HEADERS, ...parameters].join(", "),
    "access-control-max-age": "600",
  };
}

function parseBearerToken(authorization: string | undefined): string {
  return /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Hashed, so that the comparison takes as long for every token, whatever its length. */
function isSameSecret(secret: Buffer, token: string): boolean {
  return timingSafeEqual(secret, hashSecret(token));
}

function hashSecret(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** What a client did wrong, in the words of JSON-RPC, which its clients can read. */
export function createRpcRefusal(
  status: number,
  message: string,
  headers: Record<string, string> = {},
  code = -32000,
): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}

/** A request of Node as one of the web, without its body. Its signal aborts when the client hangs up before it was answered. */
export function toWebRequest(incoming: IncomingMessage, response: ServerResponse, base: string): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const hungUp = new AbortController();
  const stop = () => {
    if (!response.writableFinished) hungUp.abort(new Error("The client hung up"));
  };
  if (response.closed) stop();
  else response.once("close", stop);
  return new Request(base, { method: incoming.method ?? "GET", headers, signal: hungUp.signal });
}

type JsonBody = { value: unknown } | { refused: Response } | { isGone: true };

/** A body of JSON, of which no more than the limit is ever held. */
export async function readJsonBody(
  incoming: IncomingMessage,
  response: ServerResponse,
  most: number,
): Promise<JsonBody> {
  const tooLarge = () => ({ refused: createRpcRefusal(413, `The body has more than ${most} bytes. Send less.`) });
  if (Number(incoming.headers["content-length"]) > most) return tooLarge();
  if (incoming.headers.expect !== undefined && incoming.httpVersion !== "1.0") response.writeContinue();
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // Leaving the loop must not destroy the socket: the answer goes over it.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
      size += chunk.length;
      if (size > most) return tooLarge();
      chunks.push(chunk);
    }
  } catch {
    return { isGone: true };
  }
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks))) };
  } catch {
    return { refused: createRpcRefusal(400, "The body is not JSON.", {}, PARSE_ERROR) };
  }
}

/** Sends an answer as fast as the client reads it. Resolves when it was sent, or when nobody is there any more. */
export async function sendWebResponse(answer: Response, incoming: IncomingMessage, response: ServerResponse) {
  if (response.closed) return void (await answer.body?.cancel().catch(() => {}));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!incoming.complete) discardBody(incoming);
  if (answer.body === null) return void response.end();
  // A stream may have nothing to say for long, and the client waits for its headers.
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
 * An answer to a request whose body nobody wants: a little of what still comes is thrown away for a moment, since a socket that is closed
 * under a client that writes loses the answer too. Then nothing more is read, and the client is hung up on.
 */
function discardBody(incoming: IncomingMessage) {
  let left = LINGER_BYTES;
  incoming.on("error", () => {});
  incoming.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) incoming.pause();
  });
  incoming.resume();
  setTimeout(() => incoming.complete || incoming.socket.destroy(), LINGER_MS).unref();
}

/** Waits until the client read on. One that does not holds everything in memory that it is sent, so it is not waited for long. */
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
