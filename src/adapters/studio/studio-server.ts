import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, isIP } from "node:net";
import { hostname } from "node:os";
import { extname, join } from "node:path";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import {
  formatUrlHost,
  hashSecret,
  isLoopbackHost,
  isSameSecret,
  isWildcardHost,
  readRequestBody,
} from "../../util/http.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import type { ChangeFeed } from "./studio-changes.ts";

/** A route of the page's data. Contract: `answer` reads no path of the request; it finds things by their names. */
export interface StudioRoute {
  /** `POST` for what changes something, or starts processes. */
  method: "GET" | "POST";
  /** Parts that start with a colon are parameters: `/api/runs/:id`. */
  path: string;
  /** True if it approves, resumes or cancels: refused when the page is read-only. */
  isChange?: true;
  answer(request: StudioRequest): Promise<unknown>;
}

export interface StudioRequest {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Empty for a GET. */
  body: JsonObject;
}

export interface StudioServerOptions {
  host: string;
  port: number;
  isReadOnly: boolean;
  assets: ReadonlyMap<string, StudioAsset>;
  routes: readonly StudioRoute[];
  feed: ChangeFeed;
  /** Creates the redactor that removes secrets from a response. */
  createRedactor(): Redactor;
  /** Called with unexpected errors. Contract: does not throw. */
  onError(error: unknown): void;
}

export interface StudioServer {
  /** The address of the page, without a token. */
  url: string;
  /** Creates a link that starts one session. An earlier link that was not used no longer works. */
  createLink(): string;
  close(): Promise<void>;
}

/** Serves the page. Throws a SkillError if the address cannot be used. */
export async function serveStudio(options: StudioServerOptions): Promise<StudioServer> {
  const server = createServer((incoming, response) => {
    handleRequest(incoming, response).catch((error) => {
      sendProblem(response, error, options);
    });
  });
  const port = await listen(server, options);
  const guard = createStudioGuard({ host: options.host, port });
  const handleRequest = createRequestHandler(guard, options);
  const name = isWildcardHost(options.host) ? "127.0.0.1" : options.host;
  const url = `http://${formatUrlHost(name)}:${port}/`;
  return {
    url,
    // In the fragment: a browser sends it to no server, and writes it to no log.
    createLink: () => `${url}#token=${guard.createToken()}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, { host, port }: StudioServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => {
      const isTaken = getErrnoCode(cause) === "EADDRINUSE";
      const message = isTaken
        ? `Port ${port} of ${host} is in use`
        : `${host}:${port} cannot be used: ${getErrorMessage(cause)}`;
      reject(new SkillError("usage", { message, fix: "choose another one: --port NUMBER, or 0 for any", cause }));
    };
    server.once("error", fail).listen({ host, port }, () => {
      server.off("error", fail).on("error", () => {});
      resolve((server.address() as AddressInfo).port);
    });
  });
}

/**
 * Scripts and styles come from this server alone, nothing is loaded from another one, and text becomes markup only through the sanitizer:
 * Trusted Types refuse every other way.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types dompurify",
].join("; ");

const SECURITY_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

type RequestHandler = (incoming: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The order of the checks: name and origin, file of the page, session, route, read-only, body. */
function createRequestHandler(guard: StudioGuard, options: StudioServerOptions): RequestHandler {
  const { assets, isReadOnly } = options;
  const find = createRouter(options.routes);
  const startSession = async (incoming: IncomingMessage, response: ServerResponse) => {
    const { token } = await readJsonObject(incoming, response);
    const { cookie, key } = guard.startSession(String(token));
    response.setHeader("set-cookie", cookie);
    sendJson(response, JSON.stringify({ key }));
  };
  return async (incoming, response) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    const { method = "GET", headers } = incoming;
    guard.checkOrigin(headers);
    const url = URL.parse(incoming.url ?? "/", "http://localhost");
    if (!url) throw createNoRouteError(String(incoming.url)); // For example `//`.
    const isData = url.pathname.startsWith("/api/");
    if (!isData && (method === "GET" || method === "HEAD")) return sendAsset(response, method, findAsset(assets, url));
    if (method === "POST" && url.pathname === "/api/session") return startSession(incoming, response);
    guard.checkSession(headers);
    if (method === "GET" && url.pathname === "/api/changes") return streamChanges(response, options);
    const { route, params } = find(method, url.pathname);
    if (route.isChange && isReadOnly) throw createReadOnlyError();
    const body = route.method === "POST" ? await readJsonObject(incoming, response) : {};
    const answer = await route.answer({ params, query: url.searchParams, body });
    sendJson(response, formatRedacted(answer, options.createRedactor()));
  };
}

/** Every path that is not a file is a view of the page, which shows its own error for an unknown one. */
function findAsset(assets: StudioServerOptions["assets"], { pathname }: URL): StudioAsset {
  const asset = assets.get(pathname) ?? (pathname.startsWith("/assets/") ? undefined : assets.get("/"));
  if (!asset) throw createNoRouteError(pathname);
  return asset;
}

function sendAsset(response: ServerResponse, method: string, { type, body, isHashed }: StudioAsset): void {
  if (isHashed) response.setHeader("cache-control", "public, max-age=31536000, immutable");
  response.writeHead(200, { "content-type": type, "content-length": body.length });
  response.end(method === "HEAD" ? undefined : body);
}

function createRouter(routes: readonly StudioRoute[]) {
  const rows = routes.map((route) => ({ route, parts: route.path.split("/") }));
  return (method: string, path: string) => {
    const values = path.split("/");
    for (const { route, parts } of rows) {
      if (route.method !== method || parts.length !== values.length) continue;
      if (!parts.every((part, at) => part.startsWith(":") || part === values[at])) continue;
      const named = parts.flatMap((part, at) =>
        part.startsWith(":") ? [[part.slice(1), decodePart(values[at] ?? "")] as const] : [],
      );
      return { route, params: Object.fromEntries(named) };
    }
    throw createNoRouteError(path);
  };
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw createNoRouteError(text);
  }
}

const MAX_BODY_BYTES = 64 * 1024;

async function readJsonObject(incoming: IncomingMessage, response: ServerResponse): Promise<JsonObject> {
  const refuse = (message: string) => new SkillError("usage", { message, fix: "reload the page" });
  // A form of another page cannot send this type.
  if (!/^application\/json\b/i.test(incoming.headers["content-type"] ?? "")) throw refuse("The request is not JSON");
  const body = await readRequestBody(incoming, response, MAX_BODY_BYTES);
  if (typeof body === "string") throw refuse("The request is too large, or was interrupted");
  try {
    const value: unknown = JSON.parse(body.toString());
    if (isJsonObject(value)) return value;
  } catch {} // Reported below.
  throw refuse("The request is not a JSON object");
}

/**
 * Formats a value as JSON without secrets. Only texts, and keys that are data, such as names of skills, are changed: the result is JSON with
 * the same fields whatever the secrets are.
 */
function formatRedacted(value: unknown, { redact }: Redactor): string {
  const text = JSON.stringify(value);
  if (redact(text) === text) return text;
  const redactKey = (key: string) => (FIELD_NAME.test(key) ? key : redact(key));
  return JSON.stringify(value, (_, part) => {
    if (typeof part === "string") return redact(part);
    if (!isJsonObject(part)) return part;
    return Object.fromEntries(Object.entries(part).map(([key, one]) => [redactKey(key), one]));
  });
}

const FIELD_NAME = /^[A-Za-z]+$/;

function sendJson(response: ServerResponse, text: string, status = 200): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8" });
  response.end(text);
}

/** The status of an error code. Other errors are conflicts: what was asked for does not fit the present state. */
const STATUS_BY_CODE: Readonly<Record<string, number>> = {
  usage: 400,
  "studio-session": 401,
  "studio-origin": 403,
  "studio-read-only": 403,
  "not-found": 404,
  "run-unknown": 404,
  "internal-error": 500,
};

function sendProblem(response: ServerResponse, error: unknown, { createRedactor, onError }: StudioServerOptions): void {
  if (response.headersSent) return void response.destroy();
  const isExpected = error instanceof SkillError;
  if (!isExpected) onError(error);
  const problem: Problem = isExpected
    ? error.problem
    : { code: "internal-error", message: getErrorMessage(error), fix: "this is a bug in skillet: report it" };
  response.setHeader("connection", "close"); // The body may be unread.
  sendJson(response, formatRedacted({ error: problem }, createRedactor()), STATUS_BY_CODE[problem.code] ?? 409);
}

function createNoRouteError(path: string): SkillError {
  return new SkillError("not-found", { message: `There is nothing at ${path}`, fix: "reload the page" });
}

function createReadOnlyError(): SkillError {
  return new SkillError("studio-read-only", {
    message: "This page is read-only",
    fix: "start it without --read-only",
    commands: ["skillet studio"],
  });
}

/** The names of changes, as server-sent events. The page reads what changed through the same routes as at first. */
function streamChanges(response: ServerResponse, { feed, createRedactor }: StudioServerOptions): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  response.write(": open\n\n");
  const end = feed.subscribe((change) => {
    // A page that does not read loses its stream, and reads everything again when it reconnects.
    if (response.writableLength > MAX_UNREAD_BYTES) return void response.destroy();
    response.write(`data: ${formatRedacted(change, createRedactor())}\n\n`);
  });
  const alive = setInterval(() => response.write(": alive\n\n"), ALIVE_INTERVAL_MS).unref();
  response.once("close", () => {
    end();
    clearInterval(alive);
  });
}

const MAX_UNREAD_BYTES = 1024 * 1024;
const ALIVE_INTERVAL_MS = 20_000;

/** A file of the page, in memory: no path of a request ever reaches the disk. */
interface StudioAsset {
  type: string;
  body: Buffer;
  /** True if its name has a hash of its content, so that it never changes. */
  isHashed: boolean;
}

const ASSET_TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Loads the built files of the page by their URL path: `/` is index.html. Throws a SkillError if they were not built. */
export function loadStudioAssets(folder: string): ReadonlyMap<string, StudioAsset> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (cause) {
    throw new SkillError("studio-not-built", {
      message: `The files of the page are missing: ${folder}`,
      fix: "build them",
      commands: ["npm run build"],
      cause,
    });
  }
  return new Map(
    names.flatMap((name) => {
      const type = ASSET_TYPES[extname(name)];
      if (type === undefined) return [];
      const path = name === "index.html" ? "/" : `/assets/${name}`;
      return [[path, { type, body: readFileSync(join(folder, name)), isHashed: path !== "/" }]] as const;
    }),
  );
}

/** The header with the key of the session. A page of another origin cannot set it without a preflight, which is never allowed. */
export const KEY_HEADER = "x-skillet-key";

interface StudioAddress {
  /** The host name or address that the server listens on. */
  host: string;
  port: number;
}

/** Decides which requests are answered. Reads only headers. */
interface StudioGuard {
  /** Throws a SkillError for a request to another name, which DNS rebinding makes, or from a page of another origin. */
  checkOrigin(headers: IncomingHttpHeaders): void;
  /** Throws a SkillError for a request without the cookie and the key of a session. */
  checkSession(headers: IncomingHttpHeaders): void;
  /** Creates a token that starts one session. An earlier token that was not used no longer works. */
  createToken(): string;
  /** Starts a session: returns its cookie, and the key that each request repeats. Throws a SkillError for any other token. */
  startSession(token: string): { cookie: string; key: string };
}

/** Creates the guard of a page. Its sessions are in memory, and end with the process. */
export function createStudioGuard(address: StudioAddress): StudioGuard {
  const isOwnName = createNameCheck(address);
  const cookieName = `skillet-studio-${address.port}`;
  // A cookie is sent to every port of this machine, so other local servers may see it. The key is known to the page alone.
  const sessions: { cookie: Buffer; key: Buffer }[] = [];
  let link: Buffer | undefined;
  return {
    checkOrigin({ host, origin, "sec-fetch-site": site }) {
      const isForeignPage = origin !== undefined && origin !== `http://${host}`;
      // `none`: the user entered the address.
      const isForeignSite = site !== undefined && site !== "same-origin" && site !== "none";
      if (!isOwnName(host) || isForeignPage || isForeignSite) throw createOriginError();
    },
    checkSession(headers) {
      const cookie = readCookie(headers.cookie, cookieName);
      const key = String(headers[KEY_HEADER] ?? "");
      if (!sessions.some((one) => isSameSecret(one.cookie, cookie) && isSameSecret(one.key, key)))
        throw createSessionError();
    },
    createToken() {
      const token = createSecret();
      link = hashSecret(token);
      return token;
    },
    startSession(token) {
      if (!link || !isSameSecret(link, token)) throw createSessionError();
      link = undefined;
      const [cookie, key] = [createSecret(), createSecret()];
      sessions.push({ cookie: hashSecret(cookie), key: hashSecret(key) });
      return { cookie: `${cookieName}=${cookie}; Path=/; HttpOnly; SameSite=Strict`, key };
    },
  };
}

function createSecret(): string {
  return randomBytes(32).toString("base64url");
}

/**
 * Returns a check of the Host header. On all interfaces the server does not know its names: there, an address counts, which no DNS server
 * can point elsewhere, and the name of this machine.
 */
function createNameCheck({ host, port }: StudioAddress): (header: string | undefined) => boolean {
  const isWildcard = isWildcardHost(host);
  const names = new Set(["localhost", "127.0.0.1", "::1", ...(isWildcard ? [hostname().toLowerCase()] : [host])]);
  return (header) => {
    const [, name = "", value = "80"] = /^(\[[\da-f:.]+\]|[a-z\d.-]+)(?::(\d{1,5}))?$/i.exec(header ?? "") ?? [];
    if (Number(value) !== port) return false;
    const bare = name.replace(/^\[|\]$/g, "").toLowerCase();
    return names.has(bare) || isLoopbackHost(bare) || (isWildcard && isIP(bare) !== 0);
  };
}

function readCookie(header: string | undefined, name: string): string {
  for (const part of (header ?? "").split(";")) {
    const at = part.indexOf("=");
    if (part.slice(0, at).trim() === name) return part.slice(at + 1).trim();
  }
  return "";
}

function createSessionError(): SkillError {
  return new SkillError("studio-session", {
    message: "This page has no session",
    fix: "press Enter in the terminal of studio for a new link, or start it again",
    commands: ["skillet studio"],
  });
}

function createOriginError(): SkillError {
  return new SkillError("studio-origin", {
    message: "This request is not from the page of skillet studio",
    fix: "use the address that it prints",
    commands: ["skillet studio"],
  });
}
