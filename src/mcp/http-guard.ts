import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { localhostAllowedHostnames, validateHostHeader, validateOriginHeader } from "@modelcontextprotocol/server";
import { SkillError } from "../shared/error.ts";
import { refusal } from "./web.ts";

export interface GuardOptions {
  /** Where the server listens: a name or an address. */
  host: string;
  /** What every request has to bring, as `Authorization: Bearer …`. */
  token?: string | undefined;
  /** Names that the server has besides those of the loopback interface and that it is bound to. */
  allowedHosts?: readonly string[] | undefined;
  /** Origins of pages that may call it: `https://app.example.com` exactly, or a host name for every scheme and port. */
  allowedOrigins?: readonly string[] | undefined;
}

/** Who may come in. It looks at headers only, so that nothing is parsed for a stranger. */
export interface Guard {
  /** What is answered in place of the server, if the request may not reach it. */
  refuse(request: Seen): Response | undefined;
  /** What lets a page of an allowed origin read the answer. */
  cors(headers: IncomingHttpHeaders): Record<string, string>;
}

export interface Seen {
  method?: string | undefined;
  headers: IncomingHttpHeaders;
}

export const METHODS = "GET, POST, DELETE, OPTIONS";

/** Throws when the server would be open to others without a token. */
export function openGuard(options: GuardOptions): Guard {
  checkToken(options);
  const hosts = hostNames(options);
  const isAllowedOrigin = originsOf(options);
  const secret = options.token === undefined ? undefined : digest(options.token);
  return {
    refuse({ method, headers }) {
      if (hosts && !validateHostHeader(headers.host, hosts).ok) return refusal(403, WRONG_HOST);
      if (!isAllowedOrigin(headers.origin)) return refusal(403, WRONG_ORIGIN);
      // A browser asks whether it may send a token before it sends one.
      if (isPreflight(method, headers)) return new Response(null, { status: 204, headers: preflight(headers) });
      if (secret && !isSame(secret, bearer(headers.authorization))) return refusal(401, NO_TOKEN, CHALLENGE);
      return undefined;
    },
    cors({ origin }) {
      if (!origin || !isAllowedOrigin(origin)) return {};
      return { "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED, vary: "Origin" };
    },
  };
}

/** Whether nobody but this machine reaches it. A name that only stands for such an address does not count. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1)$/i.test(host);
}

/** Whether it stands for all interfaces of the machine. */
export function isWildcard(host: string): boolean {
  return host === "" || /^0(\.0){0,3}$/.test(host) || /^[0:]+(:0\.0\.0\.0)?$/.test(host);
}

/** A host as it stands in a URL: an IPv6 address in brackets. */
export function urlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

// None of them repeats what was sent: an answer is no place for a stranger's words, and a token is in no answer.
const WRONG_HOST = "The Host header is not a name of this server. Use the address that it prints, or allow the name.";
const WRONG_ORIGIN = "Pages of this origin may not call this server. Allow the origin, if they may.";
const NO_TOKEN = "This server wants its token: Authorization: Bearer <token>.";
const CHALLENGE = { "www-authenticate": "Bearer" };

function checkToken({ host, token }: GuardOptions) {
  if (token === undefined) {
    if (isLoopback(host)) return;
    throw new SkillError("usage", {
      message: `Others than this machine reach ${host || "all interfaces"}, and there is no token`,
      fix: "give a token, or listen on 127.0.0.1",
    });
  }
  if (/^[\x21-\x7e]+$/.test(token)) return;
  throw new SkillError("usage", {
    message: "The token cannot be sent in a header: it is empty, or has spaces or other characters than ASCII",
    fix: "give a long random one, of letters and digits",
  });
}

/**
 * The names that a Host header may have, against pages that make a name of their own stand for this machine; none when any will
 * do. On all interfaces nobody can know by which names others reach it, so there it is checked only against names that were given:
 * the token is there in any case, and such a page does not have it.
 */
function hostNames({ host, allowedHosts = [] }: GuardOptions): string[] | undefined {
  if (isWildcard(host) && allowedHosts.length === 0) return undefined;
  const own = isWildcard(host) ? [] : [host];
  return [...localhostAllowedHostnames(), ...[...own, ...allowedHosts].map(hostName)];
}

/** As `validateHostHeader` reads it: lower case, without a port. */
function hostName(host: string): string {
  const isBare = host.includes(":") && !/^\[|:\d+$/.test(host);
  for (const text of isBare ? [`[${host}]`] : [host, `[${host}]`]) {
    if (URL.canParse(`http://${text}`)) return new URL(`http://${text}`).hostname;
  }
  return host;
}

function originsOf({ allowedOrigins = [] }: GuardOptions): (origin: string | undefined) => boolean {
  const exact = new Set(allowedOrigins.flatMap(exactOrigins));
  const isName = (text: string) => exactOrigins(text).length === 0;
  const names = [...localhostAllowedHostnames(), ...allowedOrigins.filter(isName).map((name) => name.toLowerCase())];
  return (origin) => (origin !== undefined && exact.has(origin)) || validateOriginHeader(origin, names).ok;
}

/** As browsers write it: without the port that the scheme has anyway. A name with a port is meant with either scheme; one without is none. */
function exactOrigins(written: string): string[] {
  const text = written.toLowerCase().replace(/\/$/, "");
  const urls = text.includes("://") ? [text] : /:\d+$/.test(text) ? [`http://${text}`, `https://${text}`] : [];
  return urls.map((url) => (/^https?:/.test(url) && URL.canParse(url) ? new URL(url).origin : url));
}

const ACCEPTED = [
  "accept",
  "authorization",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "mcp-session-id",
];
const EXPOSED = "mcp-session-id, mcp-protocol-version, www-authenticate";

function isPreflight(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === "OPTIONS" && headers.origin !== undefined;
}

/** A tool says which of its arguments are headers too, `Mcp-Param-City`: those asked for are repeated, since `*` leaves out some. */
function preflight(headers: IncomingHttpHeaders): Record<string, string> {
  const asked = String(headers["access-control-request-headers"] ?? "").split(",");
  const parameters = asked.map((name) => name.trim().toLowerCase()).filter((name) => /^mcp-param-[\w.-]+$/.test(name));
  return {
    "access-control-allow-methods": METHODS,
    "access-control-allow-headers": [...ACCEPTED, ...parameters].join(", "),
    "access-control-max-age": "600",
  };
}

function bearer(authorization: string | undefined): string {
  return /^bearer +(\S+) *$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Hashed, so that the comparison takes as long for every token, whatever its length. */
function isSame(secret: Buffer, token: string): boolean {
  return timingSafeEqual(secret, digest(token));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
