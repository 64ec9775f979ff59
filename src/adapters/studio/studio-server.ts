import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { getErrnoCode, getErrorMessage, type Problem, SkillError } from "../../errors/problem.ts";
import { formatUrlHost, isWildcardHost, readRequestBody } from "../../util/http.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import type { StudioAsset } from "./studio-assets.ts";
import type { ChangeFeed } from "./studio-changes.ts";
import { createStudioGuard, type StudioGuard } from "./studio-guard.ts";

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
  const { assets, feed, isReadOnly } = options;
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
    const url = new URL(incoming.url ?? "/", "http://localhost");
    const isData = url.pathname.startsWith("/api/");
    if (!isData && (method === "GET" || method === "HEAD")) return sendAsset(response, method, findAsset(assets, url));
    if (method === "POST" && url.pathname === "/api/session") return startSession(incoming, response);
    guard.checkSession(headers);
    if (method === "GET" && url.pathname === "/api/changes") return streamChanges(response, feed);
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
    const given = path.split("/");
    for (const { route, parts } of rows) {
      if (route.method !== method || parts.length !== given.length) continue;
      if (!parts.every((part, at) => part.startsWith(":") || part === given[at])) continue;
      const named = parts.flatMap((part, at) =>
        part.startsWith(":") ? [[part.slice(1), decodePart(given[at] ?? "")] as const] : [],
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

/** Formats a value as JSON without secrets. Only texts are changed, so that the result is JSON whatever the secrets are. */
function formatRedacted(value: unknown, { redact }: Redactor): string {
  const text = JSON.stringify(value);
  if (redact(text) === text) return text;
  return JSON.stringify(value, (_, part) => (typeof part === "string" ? redact(part) : part));
}

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
function streamChanges(response: ServerResponse, feed: ChangeFeed): void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  response.write(": open\n\n");
  const end = feed.subscribe((change) => {
    // A page that does not read loses its stream, and reads everything again when it reconnects.
    if (response.writableLength > MAX_UNREAD_BYTES) return void response.destroy();
    response.write(`data: ${JSON.stringify(change)}\n\n`);
  });
  const alive = setInterval(() => response.write(": alive\n\n"), ALIVE_INTERVAL_MS).unref();
  response.once("close", () => {
    end();
    clearInterval(alive);
  });
}

const MAX_UNREAD_BYTES = 1024 * 1024;
const ALIVE_INTERVAL_MS = 20_000;
