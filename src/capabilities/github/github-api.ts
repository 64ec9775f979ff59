import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { createRedactor } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { createUndocumentedError } from "./github-fields.ts";

interface GithubApiOptions {
  /** Without a slash at its end. */
  base: string;
  token: string;
  signal: AbortSignal;
}

interface GithubResponse {
  body: unknown;
  headers: Headers;
}

/** GitHub's REST API, for one token. Everything throws a SkillError. */
export interface GithubApi {
  get(path: string, query?: GithubQuery): Promise<GithubResponse>;
  /** What changes something. */
  send(method: "POST" | "PATCH" | "PUT", path: string, body: JsonObject): Promise<GithubResponse>;
}

export type GithubQuery = Readonly<Record<string, string | number | undefined>>;

export function createGithubApi({ base, token, signal }: GithubApiOptions): GithubApi {
  // A header is made of it.
  if (!/^[\x21-\x7e]{1,1024}$/.test(token)) {
    throw new SkillError("auth-needed", { message: "The token of GitHub is none", fix: GITHUB_SIGN_IN_COMMAND });
  }
  const hiding = createRedactor(new Map([["GITHUB_TOKEN", token]]));
  const headers = {
    accept: "application/vnd.github+json",
    authorization: `Bearer ${token}`,
    "user-agent": "skillet",
    "x-github-api-version": "2022-11-28",
  };

  async function ask(method: GithubRequest["method"], to: URL, sent?: JsonObject): Promise<GithubResponse> {
    const request = sent
      ? { method, signal, headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(sent) }
      : { method, signal, headers };
    const asked = { what: sanitizeLine(`${method} ${to.pathname}`, 200), isChange: method !== "GET" };
    let at = to;
    let answer = await sendGithubRequest(at, request);
    for (let count = 0; REDIRECT_STATUSES.has(answer.status); count++) {
      if (asked.isChange) throw createRedirectError(answer, asked.what);
      at = resolveRedirect(answer, at, { what: asked.what, count });
      answer = await sendGithubRequest(at, request);
    }
    const { status, text } = answer;
    if (status >= 200 && status < 300) return { body: parseResponseJson(text), headers: answer.headers };
    throw createGithubError({ ...asked, status, headers: answer.headers, body: parseErrorBody(hiding.text(text)) });
  }

  return {
    get: async (path, query = {}) => ask("GET", createApiUrl(base, path, query)),
    send: async (method, path, body) => ask(method, createApiUrl(base, path, {}), body),
  };
}

/** A path with values in it, none of which can be more than one name: path`/repos/${owner}/${repo}`. */
export function encodePath(pieces: TemplateStringsArray, ...values: (string | number)[]): string {
  return pieces.reduce((before, piece, index) => `${before}${encodePathSegment(values[index - 1] ?? "")}${piece}`);
}

/** What takes several names: `docs/guide.md`. */
export function encodeNestedPath(written: string): string {
  return written.split("/").map(encodePathSegment).join("/");
}

/** Encoding leaves dots alone, and an address takes two of them for a step up. */
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

/** Contract: of the same origin, so that nobody else is sent the token. */
function resolveRedirect(
  { status, headers }: GithubRawResponse,
  from: URL,
  { what, count }: { what: string; count: number },
): URL {
  const to = URL.parse(headers.get("location") ?? "", from.href);
  if (to && to.origin === from.origin && count < MAX_REDIRECTS) return to;
  const where =
    to && to.origin !== from.origin ? `to ${sanitizeLine(to.host, 100)}, which is somewhere else` : "nowhere";
  throw new SkillError("provider-answer", {
    message: `GitHub's answer leads ${where}: it was not followed (${status}, ${what})`,
    fix: "look whether base_url is that of GitHub's REST API",
  });
}

function createRedirectError({ status }: GithubRawResponse, what: string): SkillError {
  return new SkillError("not-found", {
    message: `It has moved, and nothing was changed (${status}, ${what})`,
    fix: "ask github.repos get for its new name, and use that",
  });
}

function parseResponseJson(written: string): unknown {
  try {
    return written === "" ? undefined : JSON.parse(written);
  } catch {
    throw createUndocumentedError();
  }
}

/** Of a refusal, which need not be JSON. */
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

/** One request and its whole answer, wherever that leads. Throws a SkillError when there is none, or too much of it. */
export async function sendGithubRequest(address: URL, request: GithubRequest): Promise<GithubRawResponse> {
  const { method, signal } = request;
  const asked = { what: sanitizeLine(`${method} ${address.pathname}`, 200), isChange: method !== "GET" };
  const pieces: Uint8Array[] = [];
  let size = 0;
  let response: Response;
  try {
    response = await fetch(address, { ...request, redirect: "manual" });
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      size += piece.length;
      if (size > MAX_RESPONSE_BYTES) break;
    }
  } catch (error) {
    throw signal.aborted
      ? createStoppedError(signal, asked)
      : createUnreachableError(address.host, describeNetworkError(error), asked);
  }
  if (size > MAX_RESPONSE_BYTES) {
    throw new SkillError("provider-answer", {
      message: `GitHub's answer is larger than ${MAX_RESPONSE_BYTES / 1024 / 1024} MiB (${asked.what})`,
      fix: asked.isChange
        ? "read what became of it, in parts"
        : "ask for less: a smaller limit, or one thing at a time",
    });
  }
  return { status: response.status, headers: response.headers, text: Buffer.concat(pieces).toString() };
}

function createStoppedError(
  { reason }: AbortSignal,
  { what, isChange }: { what: string; isChange: boolean },
): SkillError {
  const isLate = reason instanceof Error && reason.name === "TimeoutError";
  const message = `${isLate ? "GitHub did not answer in time" : "It was stopped before GitHub answered"} (${what})`;
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message,
    ...(isChange ? { fix: CHECK_BEFORE_RETRY } : {}),
  });
}

/** Only what the machine says of it: an address could hold more than people should see. */
function describeNetworkError(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : "the connection broke";
}

/** What GitHub refused. */
interface GithubRefusal {
  status: number;
  headers: Headers;
  /** What it said, without the token. */
  body: JsonObject;
  /** For people: `GET /repos/ada/engine/issues/1`. */
  what: string;
  /** Whether it would have changed something. */
  isChange: boolean;
}

export const GITHUB_SIGN_IN_COMMAND = "skillet auth login github";

/** What a refusal means to whoever asked. */
function createGithubError(refusal: GithubRefusal): SkillError {
  const { status, what } = refusal;
  if (isRateLimited(refusal)) return createRateLimitError(refusal);
  const row = STATUS_PROBLEMS[status] ?? (status >= 500 ? describeUnavailability : describeUnexpectedStatus);
  const { code, message, fix } = row(refusal);
  return new SkillError(code, { message: `${message} (${status}, ${what})`, ...(fix ? { fix } : {}) });
}

/** It did not answer at all. Nobody knows what became of a change then. */
function createUnreachableError(
  host: string,
  why: string,
  { what, isChange }: Pick<GithubRefusal, "what" | "isChange">,
): SkillError {
  return new SkillError("unavailable", {
    message: `GitHub cannot be reached at ${sanitizeLine(host, 100)}: ${sanitizeLine(why, 200)} (${what})`,
    fix: isChange ? CHECK_BEFORE_RETRY : "look at the network, and try again later",
  });
}

interface GithubProblem {
  code: ErrorCode;
  message: string;
  fix?: string;
}

/** GitHub knows no key that would make a second try harmless. */
const CHECK_BEFORE_RETRY = "it is not known whether it was done: read it again before you try once more";

const FIELD_PROBLEMS: Readonly<Record<string, string>> = {
  missing: "does not exist",
  missing_field: "is missing",
  invalid: "is not valid",
  already_exists: "is taken already",
  unprocessable: "cannot be used",
};

const STATUS_PROBLEMS: Readonly<Record<number, (refusal: GithubRefusal) => GithubProblem>> = {
  400: describeInvalidRequest,
  401: () => ({
    code: "auth-needed",
    message: "GitHub does not take the token: it is wrong, has expired or was revoked",
    fix: GITHUB_SIGN_IN_COMMAND,
  }),
  403: describeDenial,
  404: (refusal) => ({
    code: "not-found",
    message: `GitHub does not find it: ${formatGithubMessage(refusal)}`,
    fix: "check owner, repo and number; a private repository looks like this to a token that has no access to it",
  }),
  405: describeConflict,
  409: describeConflict,
  410: (refusal) => ({
    code: "not-found",
    message: `It is no longer there: ${formatGithubMessage(refusal)}`,
    fix: "it was deleted, or the repository has turned issues off",
  }),
  422: describeInvalidRequest,
  451: describeDenial,
};

function describeConflict(refusal: GithubRefusal): GithubProblem {
  return {
    code: "conflict",
    message: `GitHub cannot do that as things stand: ${formatGithubMessage(refusal)}`,
    fix: "read it again: the branch may have moved, or checks and reviews may be missing",
  };
}

function describeInvalidRequest(refusal: GithubRefusal): GithubProblem {
  return { code: "input-invalid", message: `GitHub cannot do that: ${formatGithubMessage(refusal)}` };
}

function describeDenial(refusal: GithubRefusal): GithubProblem {
  const { headers } = refusal;
  const permissions = headers.get("x-accepted-github-permissions");
  const scopes = headers.get("x-accepted-oauth-scopes");
  const wants = permissions
    ? `it needs the permission ${sanitizeLine(permissions, 200)}`
    : scopes
      ? `it needs one of the scopes ${sanitizeLine(scopes, 200)}`
      : "the token, or whoever it belongs to, has no right to it";
  const fix = headers.has("x-github-sso")
    ? "authorize the token for the organization's single sign-on, in the settings of your tokens on GitHub"
    : `${wants}: change the token on GitHub, or make another one and run ${GITHUB_SIGN_IN_COMMAND}`;
  return { code: "denied", message: `GitHub does not allow it: ${formatGithubMessage(refusal)}`, fix };
}

function describeUnavailability({ isChange }: GithubRefusal): GithubProblem {
  return {
    code: "unavailable",
    message: "GitHub has a problem of its own",
    fix: isChange ? CHECK_BEFORE_RETRY : "try again later; www.githubstatus.com says how it is",
  };
}

function describeUnexpectedStatus(refusal: GithubRefusal): GithubProblem {
  return { code: "provider-failed", message: `GitHub answered something unexpected: ${formatGithubMessage(refusal)}` };
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
        : "wait at least a minute, then try again, and ask for less at once";
  return new SkillError("rate-limited", { message: `GitHub was asked too often (${status}, ${what})`, fix });
}

function parseWholeNumber(written: string | null): number | undefined {
  return written !== null && /^\d{1,12}$/.test(written) ? Number(written) : undefined;
}

/** GitHub's own words: a message, and what is wrong with which field. */
function formatGithubMessage({ body }: GithubRefusal): string {
  const message = typeof body["message"] === "string" ? body["message"] : "it says nothing more";
  const errors = Array.isArray(body["errors"]) ? body["errors"].slice(0, 10).map(formatFieldError) : [];
  return sanitizeLine([message, ...errors.filter((error) => error !== "")].join("; "), 500);
}

function formatFieldError(error: unknown): string {
  if (typeof error === "string") return error;
  if (!isJsonObject(error)) return "";
  const { resource, field, code, message } = error;
  const place = [resource, field].filter((word) => typeof word === "string").join(".");
  const problem = typeof message === "string" ? message : (FIELD_PROBLEMS[String(code)] ?? String(code ?? ""));
  return place === "" ? problem : `${place}: ${problem}`;
}

/** Where GitHub is: its API, and the pages that people see. */
export interface GithubBase {
  /** Without a slash at its end. */
  api: string;
  web: string;
}

export const GITHUB_API_URL = "https://api.github.com";

/** Throws a SkillError for what a token must not be sent to. */
export function parseGithubBase(written: string): GithubBase {
  const address = URL.parse(written);
  const isSafe =
    address?.protocol === "https:" || (address?.protocol === "http:" && LOOPBACK_HOST.test(address.hostname));
  const isPlain = address !== null && `${address.username}${address.password}${address.search}${address.hash}` === "";
  if (!isSafe || !isPlain) {
    throw new SkillError("provider-missing", {
      message: `base_url of github, ${formatGithubBase(written)}, is no address that a token can be sent to`,
      fix: `write ${GITHUB_API_URL}, or https://HOST/api/v3 for a GitHub Enterprise Server`,
    });
  }
  const api = address.href.replace(/\/+$/, "");
  return { api, web: api === GITHUB_API_URL ? "https://github.com" : getWebUrl(address) };
}

/** For people: without a password or whatever else somebody put into it. */
export function formatGithubBase(written: string): string {
  const address = URL.parse(written);
  return sanitizeLine(address ? formatUrlWithoutSecrets(address) : JSON.stringify(written), 200);
}

function formatUrlWithoutSecrets({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** Where a sign-in holds. Contract: does not throw, and no password is in it. */
export function getGithubOrigin({
  baseUrl = GITHUB_API_URL,
  clientId,
}: {
  baseUrl?: string;
  clientId?: string;
}): string {
  const address = URL.parse(baseUrl);
  const place = address ? formatUrlWithoutSecrets(address).replace(/\/+$/, "") : "nowhere";
  return clientId === undefined ? place : `${place} (client_id ${clientId})`;
}

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** With data residency the API is a host of its own, api.SUBDOMAIN.ghe.com; else it is a path of the one host. */
function getWebUrl({ origin, hostname }: URL): string {
  return /^api\.[\w-]+\.ghe\.com$/.test(hostname) ? `https://${hostname.slice("api.".length)}` : origin;
}
