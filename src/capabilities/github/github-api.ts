import { type Problem, SkillError } from "../../errors/problem.ts";
import { fetchUnderLease } from "../../util/async.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { createRedactor } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { formatUrlWithoutSecrets, GITHUB_API_URL } from "../credential-filter.ts";
import { createUndocumentedError } from "./github-fields.ts";

interface GithubApiOptions {
  /** Without a trailing slash. */
  base: string;
  token: string;
  signal: AbortSignal;
}

interface GithubResponse {
  body: unknown;
  headers: Headers;
}

/** GitHub's REST API, for one token. Every method throws a SkillError on failure. */
export interface GithubApi {
  get(path: string, query?: GithubQuery): Promise<GithubResponse>;
  /** Sends a request that changes something. */
  send(method: "POST" | "PATCH" | "PUT", path: string, body: JsonObject): Promise<GithubResponse>;
}

export type GithubQuery = Readonly<Record<string, string | number | undefined>>;

export function createGithubApi({ base, token, signal }: GithubApiOptions): GithubApi {
  // The token becomes part of a header.
  if (!/^[\x21-\x7e]{1,1024}$/.test(token)) {
    throw new SkillError("auth-needed", {
      message: "The GitHub token is invalid",
      fix: "sign in",
      commands: [GITHUB_SIGN_IN_COMMAND],
    });
  }
  const redactor = createRedactor(new Map([["GITHUB_TOKEN", token]]));
  const headers = {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${token}`,
    "user-agent": "skillet",
    "x-github-api-version": "2022-11-28",
  };

  async function call(method: GithubRequest["method"], to: URL, content?: JsonObject): Promise<GithubResponse> {
    const request = content
      ? { method, signal, headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(content) }
      : { method, signal, headers };
    const target = { what: sanitizeLine(`${method} ${to.pathname}`, 200), isChange: method !== "GET" };
    let at = to;
    let answer = await sendGithubRequest(at, request);
    for (let count = 0; REDIRECT_STATUSES.has(answer.status); count++) {
      if (target.isChange) throw createRedirectError(answer, target.what);
      at = resolveRedirect(answer, at, { what: target.what, count });
      answer = await sendGithubRequest(at, request);
    }
    const { status, text } = answer;
    if (status >= 200 && status < 300) return { body: parseResponseJson(text), headers: answer.headers };
    throw createGithubError({
      ...target,
      status,
      headers: answer.headers,
      body: parseErrorBody(redactor.redact(text)),
    });
  }

  return {
    get: async (path, query = {}) => call("GET", createApiUrl(base, path, query)),
    send: async (method, path, body) => call(method, createApiUrl(base, path, {}), body),
  };
}

/** Builds a path; each value is encoded as a single segment: path`/repos/${owner}/${repo}`. */
export function encodePath(pieces: TemplateStringsArray, ...values: (string | number)[]): string {
  return pieces.reduce((before, piece, index) => `${before}${encodePathSegment(values[index - 1] ?? "")}${piece}`);
}

/** Encodes a path of several segments: `docs/guide.md`. */
export function encodeNestedPath(path: string): string {
  return path.split("/").map(encodePathSegment).join("/");
}

/** Rejects dot segments: encoding keeps them, and a URL resolves `..` to the parent. */
function encodePathSegment(value: string | number): string {
  const name = String(value);
  if (name !== "" && name !== "." && name !== ".." && name.isWellFormed()) return encodeURIComponent(name);
  throw new SkillError("input-invalid", {
    message: `"${sanitizeLine(name, 100)}" cannot be part of a path`,
    fix: "write plain names, without . and ..",
  });
}

function createApiUrl(base: string, below: string, query: GithubQuery): URL {
  const address = new URL(`${base}${below}`);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) address.searchParams.set(name, String(value));
  }
  return address;
}

const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308]);
const MAX_REDIRECTS = 3;

/** Contract: same origin only, so the token is sent to no other host. */
function resolveRedirect(
  { status, headers }: GithubRawResponse,
  from: URL,
  { what, count }: { what: string; count: number },
): URL {
  const to = URL.parse(headers.get("location") ?? "", from.href);
  if (to && to.origin === from.origin && count < MAX_REDIRECTS) return to;
  const where = to && to.origin !== from.origin ? `to ${sanitizeLine(to.host, 100)}, another host` : "nowhere";
  throw new SkillError("provider-answer-invalid", {
    message: `GitHub redirected ${where}; the redirect was not followed (${status}, ${what})`,
    fix: "check that base_url is the URL of GitHub's REST API",
  });
}

function createRedirectError({ status }: GithubRawResponse, what: string): SkillError {
  return new SkillError("not-found", {
    message: `The resource has moved; nothing was changed (${status}, ${what})`,
    fix: "call github.repos get for the new name, and use that",
  });
}

function parseResponseJson(written: string): unknown {
  try {
    return written === "" ? undefined : JSON.parse(written);
  } catch {
    throw createUndocumentedError();
  }
}

/** Parses the body of a refusal, which may not be JSON. */
function parseErrorBody(written: string): JsonObject {
  try {
    const body: unknown = JSON.parse(written);
    return isJsonObject(body) ? body : {};
  } catch {
    return {};
  }
}

interface GithubRequest {
  method: "GET" | "POST" | "PATCH" | "PUT";
  headers: Record<string, string>;
  body?: string | URLSearchParams;
  signal: AbortSignal;
}

interface GithubRawResponse {
  status: number;
  headers: Headers;
  text: string;
}

const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;

/** Sends one request and reads the whole response; follows no redirect. Throws a SkillError if it fails or is too large. */
export async function sendGithubRequest(address: URL, request: GithubRequest): Promise<GithubRawResponse> {
  const { method, signal } = request;
  const target = { what: sanitizeLine(`${method} ${address.pathname}`, 200), isChange: method !== "GET" };
  const pieces: Uint8Array[] = [];
  let size = 0;
  let response: Response;
  try {
    response = await fetchUnderLease(address, { ...request, redirect: "manual" });
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      size += piece.length;
      if (size > MAX_RESPONSE_BYTES) break;
    }
  } catch (error) {
    throw signal.aborted
      ? createStoppedError(signal, target)
      : createUnreachableError(address.host, describeNetworkError(error), target);
  }
  if (size > MAX_RESPONSE_BYTES) {
    throw new SkillError("provider-answer-invalid", {
      message: `GitHub's answer is larger than ${MAX_RESPONSE_BYTES / 1024 / 1024} MiB (${target.what})`,
      fix: target.isChange ? "read the result in parts" : "request less: a smaller limit, or one item at a time",
    });
  }
  return { status: response.status, headers: response.headers, text: Buffer.concat(pieces).toString() };
}

function createStoppedError(
  { reason }: AbortSignal,
  { what, isChange }: { what: string; isChange: boolean },
): SkillError {
  const isLate = reason instanceof Error && reason.name === "TimeoutError";
  const message = `${isLate ? "GitHub did not answer in time" : "The request was canceled before GitHub answered"} (${what})`;
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message,
    ...(isChange ? { fix: CHECK_BEFORE_RETRY } : {}),
  });
}

/** Returns only the system's error code: a URL could contain secrets. */
function describeNetworkError(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : "the connection was lost";
}

/** A request that GitHub refused. */
interface GithubRefusal {
  status: number;
  headers: Headers;
  /** The response body, without the token. */
  body: JsonObject;
  /** For display: `GET /repos/ada/engine/issues/1`. */
  what: string;
  /** True if the request would have changed something. */
  isChange: boolean;
}

export const GITHUB_SIGN_IN_COMMAND = "skillet auth login github";

/** Converts a refusal to an error with a fix. */
function createGithubError(refusal: GithubRefusal): SkillError {
  const { status, what } = refusal;
  if (isRateLimited(refusal)) return createRateLimitError(refusal);
  const row = STATUS_PROBLEMS[status] ?? (status >= 500 ? describeUnavailability : describeUnexpectedStatus);
  const problem = row(refusal);
  return new SkillError(problem.code, { ...problem, message: `${problem.message} (${status}, ${what})` });
}

/** GitHub did not answer. The outcome of a change is unknown. */
function createUnreachableError(
  host: string,
  why: string,
  { what, isChange }: Pick<GithubRefusal, "what" | "isChange">,
): SkillError {
  return new SkillError("unavailable", {
    message: `Cannot reach GitHub at ${sanitizeLine(host, 100)}: ${sanitizeLine(why, 200)} (${what})`,
    fix: isChange ? CHECK_BEFORE_RETRY : "check the network, and try again later",
  });
}

/** GitHub has no idempotency keys, so a retry is not safe. */
const CHECK_BEFORE_RETRY = "the change may have been made: read the item again before you retry";

const FIELD_PROBLEMS: Readonly<Record<string, string>> = {
  missing: "does not exist",
  missing_field: "is missing",
  invalid: "is not valid",
  already_exists: "already exists",
  unprocessable: "cannot be used",
};

const STATUS_PROBLEMS: Readonly<Record<number, (refusal: GithubRefusal) => Problem>> = {
  400: describeInvalidRequest,
  401: () => ({
    code: "auth-needed",
    message: "GitHub rejected the token: it is wrong, expired or revoked",
    fix: "sign in",
    commands: [GITHUB_SIGN_IN_COMMAND],
  }),
  403: describeDenial,
  404: (refusal) => ({
    code: "not-found",
    message: `GitHub did not find it: ${formatGithubMessage(refusal)}`,
    fix: "check owner, repo and number; a private repository is not found if the token has no access to it",
  }),
  405: describeConflict,
  409: describeConflict,
  410: (refusal) => ({
    code: "not-found",
    message: `It no longer exists: ${formatGithubMessage(refusal)}`,
    fix: "it was deleted, or issues are disabled in the repository",
  }),
  422: describeInvalidRequest,
  451: describeDenial,
};

function describeConflict(refusal: GithubRefusal): Problem {
  return {
    code: "conflict",
    message: `GitHub reports a conflict: ${formatGithubMessage(refusal)}`,
    fix: "read the item again: the branch may have moved, or checks and reviews may be missing",
  };
}

function describeInvalidRequest(refusal: GithubRefusal): Problem {
  return { code: "input-invalid", message: `GitHub rejected the request: ${formatGithubMessage(refusal)}`, fix: "" };
}

function describeDenial(refusal: GithubRefusal): Problem {
  const { headers } = refusal;
  const permissions = headers.get("x-accepted-github-permissions");
  const scopes = headers.get("x-accepted-oauth-scopes");
  const wants = permissions
    ? `it needs the permission ${sanitizeLine(permissions, 200)}`
    : scopes
      ? `it needs one of the scopes ${sanitizeLine(scopes, 200)}`
      : "the token or its owner has no permission";
  const fix = headers.has("x-github-sso")
    ? "authorize the token for the organization's single sign-on, in your token settings on GitHub"
    : `${wants}: change the token on GitHub, or create another one and run ${GITHUB_SIGN_IN_COMMAND}`;
  return { code: "denied", message: `GitHub does not allow it: ${formatGithubMessage(refusal)}`, fix };
}

function describeUnavailability({ isChange }: GithubRefusal): Problem {
  return {
    code: "unavailable",
    message: "GitHub has an internal error",
    fix: isChange ? CHECK_BEFORE_RETRY : "try again later; see www.githubstatus.com",
  };
}

function describeUnexpectedStatus(refusal: GithubRefusal): Problem {
  return {
    code: "provider-failed",
    message: `GitHub answered with an unexpected status: ${formatGithubMessage(refusal)}`,
    fix: "",
  };
}

function isRateLimited(refusal: GithubRefusal): boolean {
  const { status, headers } = refusal;
  if (status === 429) return true;
  if (status !== 403) return false;
  return (
    headers.get("x-ratelimit-remaining") === "0" ||
    /secondary rate limit|abuse detection/i.test(formatGithubMessage(refusal))
  );
}

function createRateLimitError({ status, headers, what }: GithubRefusal): SkillError {
  const seconds = parseWholeNumber(headers.get("retry-after"));
  const reset =
    headers.get("x-ratelimit-remaining") === "0" ? parseWholeNumber(headers.get("x-ratelimit-reset")) : undefined;
  const at = reset === undefined ? undefined : new Date(reset * 1000);
  const fix =
    seconds !== undefined
      ? `wait ${seconds} seconds, then try again`
      : at && !Number.isNaN(at.getTime())
        ? `wait until ${at.toISOString()}, then try again`
        : "wait at least a minute, then try again, and request less at once";
  return new SkillError("rate-limited", { message: `GitHub's rate limit was reached (${status}, ${what})`, fix });
}

function parseWholeNumber(written: string | null): number | undefined {
  return written !== null && /^\d{1,12}$/.test(written) ? Number(written) : undefined;
}

/** Returns GitHub's own message, with the problem of each field. */
function formatGithubMessage({ body }: GithubRefusal): string {
  const message = typeof body["message"] === "string" ? body["message"] : "no details";
  const errors = Array.isArray(body["errors"]) ? body["errors"].slice(0, 10).map(formatFieldError) : [];
  return sanitizeLine([message, ...errors.filter((error) => error !== "")].join("; "), 500);
}

function formatFieldError(error: unknown): string {
  if (typeof error === "string") return error;
  if (!isJsonObject(error)) return "";
  const { resource, field, code, message } = error;
  const path = [resource, field].filter((word) => typeof word === "string").join(".");
  const problem = typeof message === "string" ? message : (FIELD_PROBLEMS[String(code)] ?? String(code ?? ""));
  return path === "" ? problem : `${path}: ${problem}`;
}

/** The addresses of a GitHub instance: its API and its web pages. */
export interface GithubBase {
  /** Without a trailing slash. */
  api: string;
  web: string;
}

/** Parses `base_url`. Throws a SkillError if a token must not be sent to it. */
export function parseGithubBase(written: string): GithubBase {
  const address = URL.parse(written);
  const isSafe =
    address?.protocol === "https:" || (address?.protocol === "http:" && LOOPBACK_HOST.test(address.hostname));
  const isPlain = address !== null && `${address.username}${address.password}${address.search}${address.hash}` === "";
  if (!isSafe || !isPlain) {
    throw new SkillError("provider-missing", {
      message: `base_url of github, ${formatGithubBase(written)}, is not a URL that a token can be sent to`,
      fix: `write ${GITHUB_API_URL}, or https://HOST/api/v3 for a GitHub Enterprise Server`,
    });
  }
  const api = address.href.replace(/\/+$/, "");
  return { api, web: api === GITHUB_API_URL ? "https://github.com" : getWebUrl(address) };
}

/** Formats a base URL for display, without passwords or query. */
export function formatGithubBase(written: string): string {
  const address = URL.parse(written);
  return sanitizeLine(address ? formatUrlWithoutSecrets(address) : JSON.stringify(written), 200);
}

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** With data residency, the API has its own host, api.SUBDOMAIN.ghe.com; otherwise it is a path on the web host. */
function getWebUrl({ origin, hostname }: URL): string {
  return /^api\.[\w-]+\.ghe\.com$/.test(hostname) ? `https://${hostname.slice("api.".length)}` : origin;
}
