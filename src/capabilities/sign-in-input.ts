import { SkillError } from "../errors/problem.ts";
import type { AuthCallback, AuthChallenge, Credential } from "../host/capability-contract.ts";
import { isJsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import { redactCredentialPatterns } from "./credential-filter.ts";

/**
 * What somebody pasted to end a sign-in: an address with a code in it, a code, a token. Chats put brackets, quotes and links around an
 * address, and break it into lines. Throws a SkillError when it is nothing of that.
 */
export function parseSignInCallback(pasted: string): AuthCallback {
  if (pasted.length > MAX_PASTE_LENGTH) throw createPasteError("is longer than 16,384 characters");
  const lines = pasted.replace(INVISIBLE_CHARACTERS, "").trim().split("\n");
  const text = stripWrappers(lines.map((line) => line.trim()).join("\n"));
  if (text === "") throw createPasteError("is empty");
  return parseCallbackUrl(text, MAX_URL_DEPTH) ?? parseCallbackParameters(text) ?? parseCallbackCode(text);
}

/** What the other side said when it said no, or when something else went wrong there. */
export function findCallbackError({ values }: AuthCallback): string | undefined {
  const { error, error_description: description } = values;
  if (error === undefined) return undefined;
  return sanitizeLine([error, description].filter(Boolean).join(": "), 200);
}

const MAX_PASTE_LENGTH = 16 * 1024;
const MAX_VALUES = 64;
/** Of addresses in addresses: pages that warn before they lead on. */
const MAX_URL_DEPTH = 2;
/** What is not seen and comes along when something is copied. */
const INVISIBLE_CHARACTERS = /[\u200b-\u200f\u2060\ufeff\u00ad\u202a-\u202e]/g;
const URL_START = /[a-z][a-z0-9+.-]{1,40}:\/\/?[^\s]/i;
/** What an address has that ends a sign-in. */
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

/** Without all that stands around the whole of it. */
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

/** One that was encoded as a whole. */
function parseEncodedUrl(text: string, deep: number): AuthCallback | undefined {
  const decoded = decodeValue(text);
  return deep === 0 || decoded === text ? undefined : parseCallbackUrl(decoded, deep - 1);
}

/** From where it begins to where it ends: at what closes what opened before it, or at a space that is no broken line. */
function extractUrl(text: string, start: number): string {
  const closing = PASTE_WRAPPERS.find(([open]) => open.length === 1 && text[start - 1] === open)?.[1];
  let address = text.slice(start);
  const end = closing === undefined ? -1 : address.indexOf(closing);
  if (end !== -1) address = address.slice(0, end);
  address = address.replace(/\n(?=[^\s]+(?:\n|$))/g, "").replace(/\s[\s\S]*$/, "");
  // Slack writes the address twice, with a bar in between.
  return address
    .replace(/\|[\s\S]*$/, "")
    .replaceAll("&amp;", "&")
    .replace(/[.,;:!?)\]}>"'`”’»]+$/, "");
}

/** `?code=…&state=…`, without what stands before it, or with a host alone. */
function parseCallbackParameters(text: string): AuthCallback | undefined {
  const joined = text.replaceAll("\n", "");
  if (!/^[^\s=]*\b(?:code|error|access_token|state)=[^\s]+$/.test(joined)) return undefined;
  return createCallback(joined, parseUrlValues(joined.replace(/^[^=]*[?#]/, "")));
}

/** A code or token alone. Whatever has spaces in it is for the provider to make sense of. */
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

/** Of a query and a fragment alike. */
function parseUrlValues(text: string): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  const parts = text.split(/[?#&]/).filter((part) => part.includes("="));
  if (parts.length > MAX_VALUES) throw createPasteError(`has more than ${MAX_VALUES} values`);
  for (const part of parts) {
    const [, name = "", value = ""] = /^([^=]*)=([\s\S]*)$/.exec(part) ?? [];
    const key = decodeValue(name);
    // Of two codes nobody knows which is meant.
    if (RESULT_PARAMETERS.includes(key) && values[key] !== undefined) throw createPasteError(`says \`${key}\` twice`);
    // What is in a state is the provider's own business: it comes back as it was sent.
    values[key] = key !== "state" && DOUBLE_ENCODED.test(value) ? decodeValue(decodeValue(value)) : decodeValue(value);
  }
  return values;
}

/** A percent sign that was encoded itself. */
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
    message: `What was pasted ${why}`,
    fix: "paste the whole address that the sign-in led to, or the code that it showed, and nothing else",
  });
}

/** How a sign-in began, as people are shown it. Throws a SkillError when it cannot be that. */
export function validateSignInStart(
  namespace: string,
  begun: AuthChallenge,
): AuthChallenge & { expiresInSeconds: number; intervalSeconds: number } {
  const no = (why: string) => createSignInError(namespace, why);
  if (!isJsonObject(begun)) throw no("begins a sign-in with something that is none");
  const { kind, url, userCode, message, state, expiresInSeconds, intervalSeconds } = begun as AuthChallenge;
  if (!["link", "device", "paste"].includes(kind)) throw no("begins a sign-in of a kind that there is not");
  if (url === undefined && kind !== "paste") throw no("begins a sign-in without an address to open");
  if (kind === "device" && typeof userCode !== "string") throw no("begins a sign-in without the code to type in");
  if (state !== undefined && !isJsonObject(state)) throw no("begins a sign-in with a state that is no object");
  return {
    kind,
    message: sanitizeLine(String(message ?? ""), MAX_MESSAGE_LENGTH),
    ...(url === undefined ? {} : { url: validateSignInUrl(url, no) }),
    ...(typeof userCode === "string" ? { userCode: sanitizeLine(userCode, MAX_CODE_LENGTH) } : {}),
    ...(state === undefined ? {} : { state }),
    expiresInSeconds: clampNumber(expiresInSeconds, DEFAULT_SECONDS, 1, MAX_SECONDS),
    intervalSeconds: clampNumber(intervalSeconds, DEFAULT_INTERVAL, 1, MAX_INTERVAL),
  };
}

/** Throws a SkillError when it cannot be kept. Contract: nothing of it is in the message. */
export function validateCredential(namespace: string, credential: Credential): Credential {
  const no = (why: string) => createSignInError(namespace, why);
  if (!isJsonObject(credential)) throw no("gives no credential for a sign-in");
  const { account, secret, scopes, expiresAt } = credential as Credential;
  if (
    typeof account !== "string" ||
    account === "" ||
    account.length > MAX_ACCOUNT_LENGTH ||
    sanitizeLine(account) !== account
  ) {
    throw no("gives a credential without saying whose it is");
  }
  if (!isJsonObject(secret) || JSON.stringify(secret).length > MAX_SECRET_LENGTH)
    throw no("gives a credential that is none");
  const isList = scopes === undefined || (Array.isArray(scopes) && scopes.every((scope) => typeof scope === "string"));
  if (!isList) throw no("gives a credential with scopes that are none");
  if (expiresAt !== undefined && Number.isNaN(Date.parse(expiresAt)))
    throw no("gives a credential with a time that is none");
  return { account, secret, ...(scopes ? { scopes } : {}), ...(expiresAt === undefined ? {} : { expiresAt }) };
}

const MAX_MESSAGE_LENGTH = 500;
const MAX_CODE_LENGTH = 64;
const MAX_URL_LENGTH = 4096;
const MAX_ACCOUNT_LENGTH = 300;
const MAX_SECRET_LENGTH = 64 * 1024;
const [DEFAULT_SECONDS, MAX_SECONDS] = [600, 3600];
const [DEFAULT_INTERVAL, MAX_INTERVAL] = [5, 60];

/** People open it: a page of the web, and nothing in it that lets anybody in. */
function validateSignInUrl(written: unknown, no: (why: string) => SkillError): string {
  const url = typeof written === "string" && written.length <= MAX_URL_LENGTH ? URL.parse(written) : null;
  if (url === null || !["https:", "http:"].includes(url.protocol)) throw no("gives an address that is none of the web");
  const rest = new URL(url);
  rest.searchParams.delete("state"); // Lets nobody in, and is often a JWT.
  const hasCredential =
    url.username !== "" || url.password !== "" || redactCredentialPatterns(rest.href, "") !== rest.href;
  if (hasCredential || url.href.length > MAX_URL_LENGTH) throw no("gives an address that nobody should open");
  return url.href;
}

function clampNumber(asked: unknown, usual: number, least: number, most: number): number {
  return typeof asked === "number" && Number.isFinite(asked) ? Math.min(Math.max(asked, least), most) : usual;
}

function createSignInError(namespace: string, why: string): SkillError {
  return new SkillError("provider-answer", {
    message: `The provider of ${namespace} ${why}`,
    fix: "tell whoever made it",
  });
}
