import type { ErrorCode } from "../../codes/codes.ts";
import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import { type Data, isData } from "../../skill/data.ts";

/** What GitHub refused. */
export interface Refusal {
  status: number;
  headers: Headers;
  /** What it said, without the token. */
  body: Data;
  /** For people: `GET /repos/ada/engine/issues/1`. */
  what: string;
  /** Whether it would have changed something. */
  isChange: boolean;
}

export const SIGN_IN = "skillet auth login github";

/** What a refusal means to whoever asked. */
export function failureOf(refusal: Refusal): SkillError {
  const { status, what } = refusal;
  if (isLimited(refusal)) return limited(refusal);
  const row = BY_STATUS[status] ?? (status >= 500 ? unavailable : unexpected);
  const { code, message, fix } = row(refusal);
  return new SkillError(code, { message: `${message} (${status}, ${what})`, ...(fix ? { fix } : {}) });
}

/** It did not answer at all. Nobody knows what became of a change then. */
export function unreachable(
  host: string,
  why: string,
  { what, isChange }: Pick<Refusal, "what" | "isChange">,
): SkillError {
  return new SkillError("unavailable", {
    message: `GitHub cannot be reached at ${inLine(host, 100)}: ${inLine(why, 200)} (${what})`,
    fix: isChange ? LOOK_FIRST : "look at the network, and try again later",
  });
}

interface Row {
  code: ErrorCode;
  message: string;
  fix?: string;
}

/** GitHub knows no key that would make a second try harmless. */
export const LOOK_FIRST = "it is not known whether it was done: read it again before you try once more";

const BY_STATUS: Readonly<Record<number, (refusal: Refusal) => Row>> = {
  400: invalid,
  401: () => ({
    code: "auth-needed",
    message: "GitHub does not take the token: it is wrong, has expired or was revoked",
    fix: SIGN_IN,
  }),
  403: denied,
  404: (refusal) => ({
    code: "not-found",
    message: `GitHub does not find it: ${said(refusal)}`,
    fix: "check owner, repo and number; a private repository looks like this to a token that has no access to it",
  }),
  405: conflict,
  409: conflict,
  410: (refusal) => ({
    code: "not-found",
    message: `It is no longer there: ${said(refusal)}`,
    fix: "it was deleted, or the repository has turned issues off",
  }),
  422: invalid,
  451: denied,
};

function conflict(refusal: Refusal): Row {
  return {
    code: "conflict",
    message: `GitHub cannot do that as things stand: ${said(refusal)}`,
    fix: "read it again: the branch may have moved, or checks and reviews may be missing",
  };
}

function invalid(refusal: Refusal): Row {
  return { code: "input-invalid", message: `GitHub cannot do that: ${said(refusal)}` };
}

function denied(refusal: Refusal): Row {
  const { headers } = refusal;
  const permissions = headers.get("x-accepted-github-permissions");
  const scopes = headers.get("x-accepted-oauth-scopes");
  const wants = permissions
    ? `it needs the permission ${inLine(permissions, 200)}`
    : scopes
      ? `it needs one of the scopes ${inLine(scopes, 200)}`
      : "the token, or whoever it belongs to, has no right to it";
  const fix = headers.has("x-github-sso")
    ? "authorize the token for the organization's single sign-on, in the settings of your tokens on GitHub"
    : `${wants}: change the token on GitHub, or make another one and run ${SIGN_IN}`;
  return { code: "denied", message: `GitHub does not allow it: ${said(refusal)}`, fix };
}

function unavailable({ isChange }: Refusal): Row {
  return {
    code: "unavailable",
    message: "GitHub has a problem of its own",
    fix: isChange ? LOOK_FIRST : "try again later; www.githubstatus.com says how it is",
  };
}

function unexpected(refusal: Refusal): Row {
  return { code: "provider-failed", message: `GitHub answered something unexpected: ${said(refusal)}` };
}

function isLimited(refusal: Refusal): boolean {
  const { status, headers } = refusal;
  if (status === 429) return true;
  if (status !== 403) return false;
  return headers.get("x-ratelimit-remaining") === "0" || /secondary rate limit|abuse detection/i.test(said(refusal));
}

function limited({ status, headers, what }: Refusal): SkillError {
  const seconds = wholeNumber(headers.get("retry-after"));
  const reset =
    headers.get("x-ratelimit-remaining") === "0" ? wholeNumber(headers.get("x-ratelimit-reset")) : undefined;
  const at = reset === undefined ? undefined : new Date(reset * 1000);
  const fix =
    seconds !== undefined
      ? `wait ${seconds} seconds, then try again`
      : at && !Number.isNaN(at.getTime())
        ? `wait until ${at.toISOString()}, then try again`
        : "wait at least a minute, then try again, and ask for less at once";
  return new SkillError("rate-limited", { message: `GitHub was asked too often (${status}, ${what})`, fix });
}

function wholeNumber(written: string | null): number | undefined {
  return written !== null && /^\d{1,12}$/.test(written) ? Number(written) : undefined;
}

/** GitHub's own words: a message, and what is wrong with which field. */
function said({ body }: Refusal): string {
  const message = typeof body["message"] === "string" ? body["message"] : "it says nothing more";
  const errors = Array.isArray(body["errors"]) ? body["errors"].slice(0, 10).map(sayError) : [];
  return inLine([message, ...errors.filter((error) => error !== "")].join("; "), 500);
}

const PROBLEMS: Readonly<Record<string, string>> = {
  missing: "does not exist",
  missing_field: "is missing",
  invalid: "is not valid",
  already_exists: "is taken already",
  unprocessable: "cannot be used",
};

function sayError(error: unknown): string {
  if (typeof error === "string") return error;
  if (!isData(error)) return "";
  const { resource, field, code, message } = error;
  const place = [resource, field].filter((word) => typeof word === "string").join(".");
  const problem = typeof message === "string" ? message : (PROBLEMS[String(code)] ?? String(code ?? ""));
  return place === "" ? problem : `${place}: ${problem}`;
}
