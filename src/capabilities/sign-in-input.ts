import { SkillError } from "../errors/problem.ts";
import type { AuthCallback, AuthChallenge, Credential } from "../host/capability-contract.ts";
import { isJsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { redactCredentialPatterns } from "./credential-filter.ts";

/**
 * Parses what the user pasted to complete a sign-in: a URL with a code, a code, or a token. Chats wrap URLs in brackets, quotes and links,
 * and break them into lines. Throws a SkillError otherwise.
 */
export function parseSignInCallback(pasted: string): AuthCallback {
  if (pasted.length > MAX_PASTE_LENGTH) throw createPasteError("is longer than 16,384 characters");
  const lines = pasted.replace(INVISIBLE_CHARACTERS, "").trim().split("\n");
  const text = stripWrappers(lines.map((line) => line.trim()).join("\n"));
  if (text === "") throw createPasteError("is empty");
  return parseCallbackUrl(text, MAX_URL_DEPTH) ?? parseCallbackParameters(text) ?? parseCallbackCode(text);
}

/** Returns the error that the authorization server reported, if any. */
export function findCallbackError({ values }: AuthCallback): string | undefined {
  const { error, error_description: description } = values;
  if (error === undefined) return undefined;
  return sanitizeLine([error, description].filter(Boolean).join(": "), 200);
}

const MAX_PASTE_LENGTH = 16 * 1024;
const MAX_VALUES = 64;
/** URLs within URLs: pages that warn before they redirect. */
const MAX_URL_DEPTH = 2;
/** Invisible characters that are copied along with a text. */
const INVISIBLE_CHARACTERS = /[\u200b-\u200f\u2060\ufeff\u00ad\u202a-\u202e]/g;
const URL_START = /[a-z][a-z0-9+.-]{1,40}:\/\/?[^\s]/i;
/** Parameters of a URL that completes a sign-in. */
const RESULT_PARAMETERS = ["code", "error", "access_token", "id_token", "token", "oauth_verifier"];

const PASTE_WRAPPERS: readonly (readonly [string, string])[] = [
  ["```", "```"],
  ["`", "`"],
  ["<", ">"],
  ['"', '"'],
  ["'", "'"],
  ["“", "”"],
  ["‘", "’"],
  ["«", "»"],
  ["(", ")"],
  ["[", "]"],
];

/** Removes quotes, brackets and links around the whole text. */
function stripWrappers(text: string): string {
  const link = /^\[[^\]]*\]\(([\s\S]*)\)[.,;!?]?$/.exec(text)?.[1];
  if (link !== undefined) return stripWrappers(link.trim());
  for (const [open, close] of PASTE_WRAPPERS) {
    const end = text.replace(/[.,;!?]$/, "");
    if (end.length > open.length + close.length && end.startsWith(open) && end.endsWith(close)) {
      return stripWrappers(end.slice(open.length, -close.length).trim());
    }
  }
  return text;
}

function parseCallbackUrl(text: string, deep: number): AuthCallback | undefined {
  const start = text.search(URL_START);
  if (start === -1) return /^[a-z][a-z0-9+.-]{1,40}%3A%2F/i.test(text) ? parseEncodedUrl(text, deep) : undefined;
  const address = extractUrl(text, start);
  const values = parseUrlValues(address.replace(/^[^?#]*/, ""));
  if (RESULT_PARAMETERS.some((name) => values[name] !== undefined)) return createCallback(address, values);
  const inner = Object.values(values).find((value) => URL_START.test(value));
  const led = inner === undefined || deep === 0 ? undefined : parseCallbackUrl(inner, deep - 1);
  if (led && RESULT_PARAMETERS.some((name) => led.values[name] !== undefined)) return led;
  const decoded = /%3D/i.test(address) ? parseEncodedUrl(address, deep) : undefined;
  if (decoded && RESULT_PARAMETERS.some((name) => decoded.values[name] !== undefined)) return decoded;
  return createCallback(address, values);
}

/** Parses a URL that was percent-encoded as a whole. */
function parseEncodedUrl(text: string, deep: number): AuthCallback | undefined {
  const decoded = decodeValue(text);
  return deep === 0 || decoded === text ? undefined : parseCallbackUrl(decoded, deep - 1);
}

/** Extracts a URL up to the closing bracket or quote, or up to a space that is not a broken line. */
function extractUrl(text: string, start: number): string {
  const closing = PASTE_WRAPPERS.find(([open]) => open.length === 1 && text[start - 1] === open)?.[1];
  let address = text.slice(start);
  const end = closing === undefined ? -1 : address.indexOf(closing);
  if (end !== -1) address = address.slice(0, end);
  address = address.replace(/\n(?=[^\s]+(?:\n|$))/g, "").replace(/\s[\s\S]*$/, "");
  // Slack writes the URL twice, with a bar in between.
  return address
    .replace(/\|[\s\S]*$/, "")
    .replaceAll("&amp;", "&")
    .replace(/[.,;:!?)\]}>"'`”’»]+$/, "");
}

/** Parses `?code=…&state=…`, with or without a host. */
function parseCallbackParameters(text: string): AuthCallback | undefined {
  const joined = text.replaceAll("\n", "");
  if (!/^[^\s=]*\b(?:code|error|access_token|state)=[^\s]+$/.test(joined)) return undefined;
  return createCallback(joined, parseUrlValues(joined.replace(/^[^=]*[?#]/, "")));
}

/** Parses a code or token alone. Text with spaces is left to the provider. */
function parseCallbackCode(text: string): AuthCallback {
  const code = text.replace(/^(?:the |my )?(?:code|token)(?: is)?[ \t]*:?[ \t]+/i, "").replaceAll("\n", "");
  if (/\s/.test(code) || code.startsWith("{")) return { text, values: {} };
  const [, first, state] = /^([^#]+)#([^#]+)$/.exec(code) ?? [];
  if (first !== undefined && state !== undefined) return { text: code, values: {}, code: first, state };
  return { text: code, values: {}, code };
}

function createCallback(text: string, values: Record<string, string>): AuthCallback {
  const { code, state } = values;
  return { text, values, ...(code === undefined ? {} : { code }), ...(state === undefined ? {} : { state }) };
}

/** Parses the values of a query and a fragment. */
function parseUrlValues(text: string): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  const parts = text.split(/[?#&]/).filter((part) => part.includes("="));
  if (parts.length > MAX_VALUES) throw createPasteError(`has more than ${MAX_VALUES} values`);
  for (const part of parts) {
    const [, name = "", value = ""] = /^([^=]*)=([\s\S]*)$/.exec(part) ?? [];
    const key = decodeValue(name);
    // With two codes, it is unclear which is meant.
    if (RESULT_PARAMETERS.includes(key) && values[key] !== undefined)
      throw createPasteError(`contains \`${key}\` twice`);
    // The state belongs to the provider: it is returned exactly as it was sent.
    values[key] = key !== "state" && DOUBLE_ENCODED.test(value) ? decodeValue(decodeValue(value)) : decodeValue(value);
  }
  return values;
}

/** A percent sign that was itself encoded. */
const DOUBLE_ENCODED = /%25[0-9a-f]{2}/i;

function decodeValue(text: string): string {
  const spaced = text.replaceAll("+", " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

function createPasteError(why: string): SkillError {
  return new SkillError("callback-invalid", {
    message: `The pasted text ${why}`,
    fix: "paste only the whole URL that the sign-in redirected to, or the code that it showed",
  });
}

/** Validates a provider's challenge for display. Throws a SkillError if it is invalid. */
export function validateSignInStart(
  namespace: string,
  begun: AuthChallenge,
): AuthChallenge & { expiresInSeconds: number; intervalSeconds: number } {
  const fail = (why: string) => createSignInError(namespace, why);
  if (!isJsonObject(begun)) throw fail("returned a sign-in that is not an object");
  const { kind, url, userCode, message, state, expiresInSeconds, intervalSeconds } = begun as AuthChallenge;
  if (!["link", "device", "paste"].includes(kind)) throw fail("returned a sign-in of an unknown kind");
  if (url === undefined && kind !== "paste") throw fail("returned a sign-in without a URL to open");
  if (kind === "device" && typeof userCode !== "string") throw fail("returned a sign-in without the code to enter");
  if (state !== undefined && !isJsonObject(state)) throw fail("returned a sign-in with a state that is not an object");
  return {
    kind,
    message: sanitizeLine(String(message ?? ""), MAX_MESSAGE_LENGTH),
    ...(url === undefined ? {} : { url: validateSignInUrl(url, fail) }),
    ...(typeof userCode === "string" ? { userCode: sanitizeLine(userCode, MAX_CODE_LENGTH) } : {}),
    ...(state === undefined ? {} : { state }),
    expiresInSeconds: clampNumber(expiresInSeconds, DEFAULT_SECONDS, 1, MAX_SECONDS),
    intervalSeconds: clampNumber(intervalSeconds, DEFAULT_INTERVAL, 1, MAX_INTERVAL),
  };
}

/** Validates a credential. Throws a SkillError. Contract: the message quotes nothing of it. */
export function validateCredential(namespace: string, credential: Credential): Credential {
  const fail = (why: string) => createSignInError(namespace, why);
  if (!isJsonObject(credential)) throw fail("returned no credential for a sign-in");
  const { account, secret, scopes, expiresAt } = credential as Credential;
  if (
    typeof account !== "string" ||
    account === "" ||
    account.length > MAX_ACCOUNT_LENGTH ||
    sanitizeLine(account) !== account
  ) {
    throw fail("returned a credential without a valid account");
  }
  if (!isJsonObject(secret) || JSON.stringify(secret).length > MAX_SECRET_LENGTH)
    throw fail("returned a credential with an invalid secret");
  const isList = scopes === undefined || (Array.isArray(scopes) && scopes.every((scope) => typeof scope === "string"));
  if (!isList) throw fail("returned a credential with invalid scopes");
  if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
    throw fail("returned a credential with an invalid expiry time");
  return { account, secret, ...(scopes ? { scopes } : {}), ...(expiresAt === undefined ? {} : { expiresAt }) };
}

const MAX_MESSAGE_LENGTH = 500;
const MAX_CODE_LENGTH = 64;
const MAX_URL_LENGTH = 4096;
const MAX_ACCOUNT_LENGTH = 300;
const MAX_SECRET_LENGTH = 64 * 1024;
const [DEFAULT_SECONDS, MAX_SECONDS] = [600, 3600];
const [DEFAULT_INTERVAL, MAX_INTERVAL] = [5, 60];

/** Validates a URL that the user opens: http or https, without credentials in it. */
function validateSignInUrl(written: unknown, fail: (why: string) => SkillError): string {
  const url = typeof written === "string" && written.length <= MAX_URL_LENGTH ? URL.parse(written) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol))
    throw fail("returned a URL that is not http or https");
  const rest = new URL(url);
  rest.searchParams.delete("state"); // Not a credential, and often a JWT.
  const hasCredential =
    url.username !== "" || url.password !== "" || redactCredentialPatterns(rest.href, "") !== rest.href;
  if (hasCredential || url.href.length > MAX_URL_LENGTH)
    throw fail("returned a URL that contains a credential or is too long");
  return url.href;
}

function clampNumber(value: unknown, defaultValue: number, min: number, max: number): number {
  return typeof value === "number" && Number.isFinite(value) ? Math.min(Math.max(value, min), max) : defaultValue;
}

function createSignInError(namespace: string, why: string): SkillError {
  return new SkillError("provider-answer-invalid", {
    message: `The provider of ${namespace} ${why}`,
    fix: "report it to the author of the provider",
  });
}
