import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { localhostAllowedHostnames, validateHostHeader, validateOriginHeader } from "@modelcontextprotocol/server";
import { SkillError } from "../shared/error.ts";
import { oneLine } from "../shared/text.ts";
import { refusal } from "./web.ts";

export interface GuardOptions {
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
export interface Guard {
  /** What is answered in place of the server, if the request may not reach it. */
  refuse(request: Seen): Response | undefined;
  /** What lets a page of an allowed origin read the answer, and keeps the answer to one page from another. */
  cors(headers: IncomingHttpHeaders): Record<string, string>;
}

export interface Seen {
  method?: string | undefined;
  headers: IncomingHttpHeaders;
}

export const METHODS = "GET, POST, DELETE, OPTIONS";

/** Contract: `checkToken` has looked at the same options. */
export function openGuard(options: GuardOptions): Guard {
  const hosts = hostNames(options);
  const isAllowedOrigin = originsOf(options);
  const secret = options.token === false ? undefined : digest(options.token);
  const refuse = openRefusing(options);
  return {
    refuse({ method, headers }) {
      if (hosts && !validateHostHeader(headers.host, hosts).ok) return refuse("host", headers);
      if (!isAllowedOrigin(headers.origin)) return refuse("origin", headers);
      // A browser asks whether it may send a token before it sends one.
      if (isPreflight(method, headers)) return new Response(null, { status: 204, headers: preflight(headers) });
      if (secret && !isSame(secret, bearer(headers.authorization))) return refuse("token", headers);
      return undefined;
    },
    cors({ origin }) {
      if (!origin || !isAllowedOrigin(origin)) return VARY;
      return { ...VARY, "access-control-allow-origin": origin, "access-control-expose-headers": EXPOSED };
    },
  };
}

/** Throws when the server would be open to others without a token, or nobody could send the token. */
export function checkToken({ host, token }: Pick<GuardOptions, "host" | "token">): void {
  if (token === false) {
    if (isLoopback(host)) return;
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

interface Reason {
  status: number;
  /** For the client. It does not repeat what was sent: an answer is no place for a stranger's words. */
  message: string;
  headers?: Record<string, string>;
  /** For the operator: what was refused. The token is in none of it. */
  what(headers: IncomingHttpHeaders): string;
}

const REASONS = {
  host: {
    status: 403,
    message:
      "The Host header is no name of this server; use the address that it prints, or allow the name: --allow-host NAME.",
    what: ({ host }) => `for the Host ${shown(host)}; if it is a name of this server, allow it: --allow-host NAME`,
  },
  origin: {
    status: 403,
    message: "Pages of this origin may not call this server; if they are to, allow it: --allow-origin NAME.",
    what: ({ origin }) => `of a page of ${shown(origin)}; if such pages may call, allow it: --allow-origin NAME`,
  },
  token: {
    status: 401,
    message:
      "This server needs its token, as Authorization: Bearer … To update a client's entry, run: skillet connect CLIENT --url ADDRESS",
    headers: { "www-authenticate": "Bearer" },
    what: ({ authorization }) => (authorization ? "with a wrong token" : "without the token"),
  },
} satisfies Record<string, Reason>;

/** Often enough to be seen, and too seldom for a stranger to fill a log. */
const TELL_MS = 60_000;

function openRefusing({ onNotice, now = () => performance.now() }: GuardOptions) {
  const told = new Map<string, number>();
  return (reason: keyof typeof REASONS, seen: IncomingHttpHeaders): Response => {
    const { status, message, headers, what }: Reason = REASONS[reason];
    const at = now();
    if (at - (told.get(reason) ?? -TELL_MS) >= TELL_MS) {
      told.set(reason, at);
      onNotice?.(`Refused a request ${what(seen)}`);
    }
    return refusal(status, message, headers);
  };
}

/** A stranger's words: one line of plain characters. */
function shown(value = ""): string {
  return `"${oneLine(value.replace(/[^\x21-\x7e]/g, "?"), 100)}"`;
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

function originsOf({ host, port, allowedOrigins = [] }: GuardOptions): (origin: string | undefined) => boolean {
  // Other pages of this machine are no less strange: any program may serve one, and anybody may have written it.
  const own = [...localhostAllowedHostnames(), ...(isWildcard(host) ? [] : [hostName(host)])];
  const exact = new Set([...own.map((name) => `http://${name}:${port}`), ...allowedOrigins].flatMap(exactOrigins));
  const isName = (text: string) => exactOrigins(text).length === 0;
  const names = allowedOrigins.filter(isName).map((name) => name.toLowerCase());
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
const VARY = { vary: "Origin" };

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
