import type { Credential, VaultEntry } from "../host/capability-contract.ts";
import { createJsonObject, isJsonObject, type JsonObject } from "../util/objects.ts";
import { createRedactor, type Redactor, type Secrets } from "../util/redact.ts";
import { compareText } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

interface FilterResult {
  value: unknown;
  /** The number of values removed, plus the number of texts and keys that were redacted. */
  removed: number;
}

/**
 * Removes credentials from a provider's output: those of the call in any encoding, values of keys named like one, and texts that look
 * like one. Contract: linear in its size; JSON in, JSON out. A credential split in two is not found.
 */
export function filterCredentials(value: unknown, secrets: Secrets): FilterResult {
  const redactor = secrets.size > 0 ? getCachedRedactor(secrets) : undefined;
  let removed = 0;
  let remaining = MAX_FILTERED_VALUES;

  const removeValue = () => {
    removed++;
    return REMOVED_MARK;
  };
  const cleanText = (text: string): string => {
    const clean = redactCredentialPatterns(redactor?.redact(text) ?? text, REMOVED_MARK);
    if (clean !== text) removed++;
    return clean;
  };
  const walk = (item: unknown, under: RemovalRule, depth: number): unknown => {
    if (--remaining < 0) return TOO_LARGE_MARK;
    if (typeof item === "string") return under(item) ? removeValue() : cleanText(item);
    if (typeof item === "number")
      return redactor && redactor.redact(String(item)) !== String(item) ? removeValue() : item;
    if (typeof item === "boolean" || item === null) return item;
    if (typeof item !== "object") return null;
    if (depth >= MAX_DEPTH) return TOO_DEEP_MARK;
    if (Array.isArray(item)) return item.map((one) => walk(one, under, depth + 1));
    const whole = createJsonObject();
    const freeName = createNameDeduplicator();
    const named = getHeaderName(item as JsonObject);
    for (const [key, one] of Object.entries(item)) {
      if (remaining < 0) break;
      const how =
        named !== undefined && key.toLowerCase() === "value"
          ? selectRemovalRule(named, under)
          : selectRemovalRule(key, under);
      whole[freeName(cleanText(key))] = walk(one, how, depth + 1);
    }
    return whole;
  };
  return { value: walk(value, keepText, 0), removed };
}

/** Returns the secret parts of credentials: not the account, kind, scopes or expiry, which other texts contain too. */
export function collectCredentialSecrets(...credentials: readonly (Credential | undefined)[]): Secrets {
  const found = new Map<string, string>();
  const harmless = new Set(credentials.flatMap((one) => [one?.account, ...(one?.scopes ?? [])]));
  const walk = (value: unknown, path: string, name: string, depth: number) => {
    if (typeof value === "string") {
      const nameKind = classifyFieldName(name);
      const isSecret =
        nameKind === "credential" ||
        nameKind === "token" ||
        nameKind === "pwd" ||
        (nameKind !== "metadata" && value.length >= MIN_UNNAMED_SECRET_LENGTH);
      if (isSecret && !harmless.has(value)) found.set(path, value);
    } else if ((isJsonObject(value) || Array.isArray(value)) && depth < MAX_DEPTH) {
      for (const [key, one] of Object.entries(value)) {
        walk(one, `${path}.${key}`, Array.isArray(value) ? name : key, depth + 1);
      }
    }
  };
  for (const [index, one] of credentials.entries())
    walk(one?.secret, index === 0 ? "credential" : `credential${index + 1}`, "", 0);
  return found;
}

const REMOVED_MARK = "[removed: a credential]";
const TOO_DEEP_MARK = "[left out: nested too deeply]";
const TOO_LARGE_MARK = "[left out: too many values]";
const MAX_DEPTH = 64;
const MAX_FILTERED_VALUES = 200_000;
/** In characters. A shorter text without a secret's name may be a common word, and would be redacted everywhere. */
const MIN_UNNAMED_SECRET_LENGTH = 8;

// Building a redactor takes longer than filtering a small answer, and a run uses the same secrets in every call.
const redactorCache = new Map<string, Redactor>();
const MAX_CACHED_REDACTORS = 16;

function getCachedRedactor(secrets: Secrets): Redactor {
  const key = JSON.stringify([...secrets]);
  const redactor = redactorCache.get(key) ?? createRedactor(secrets);
  redactorCache.delete(key);
  redactorCache.set(key, redactor);
  for (const oldest of redactorCache.keys())
    if (redactorCache.size > MAX_CACHED_REDACTORS) redactorCache.delete(oldest);
  return redactor;
}

/** Returns true if a text must be removed because of its key. */
type RemovalRule = (text: string) => boolean;
const keepText: RemovalRule = () => false;
const removeText: RemovalRule = (text) => text !== "";
const removeUnlessPath: RemovalRule = (text) => text !== "" && !/^(?:[/~]|[A-Za-z]:\\)/.test(text);

/** Returns the rule for the value of a key. Everything below a credential's name is one too, except its metadata. */
function selectRemovalRule(name: string, above: RemovalRule): RemovalRule {
  const nameKind = classifyFieldName(name);
  if (nameKind === "credential") return removeText;
  if (nameKind === "pwd") return removeUnlessPath;
  if (nameKind === "token") return above === removeText ? removeText : looksRandom;
  return nameKind === "metadata" ? keepText : above;
}

/** Returns the name in `{ "name": "Set-Cookie", "value": … }`, a common form of headers and variables. */
function getHeaderName(item: JsonObject): string | undefined {
  const name = item["name"] ?? item["key"] ?? item["header"];
  return typeof name === "string" ? name : undefined;
}

/** Numbers repeated names: two keys may become equal after redaction. */
export function createNameDeduplicator(): (name: string) => string {
  const times = new Map<string, number>();
  return (name) => {
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    return time === 1 ? name : `${name} (${time})`;
  };
}

/** Names, with separators and any prefix removed, whose value is always a credential. */
const CREDENTIAL_ENDINGS =
  /(?:(?:access|refresh|id|auth|oauth|bearer|session|security|api|sas|xsrf|csrf|personal|private|bot)token|secret|password|passwd|passphrase|passcode|otp|mnemonic|seedphrase|apikey|privatekey|secretkey|accesskey|signingkey|encryptionkey|authorization|cookie|bearer|credential|connectionstring|devicecode|accountkey)s?$/;

/** Most names that end like this are credentials; `next_page_token` is not. */
const TOKEN_ENDINGS = /tokens?$/;
const NON_SECRET_TOKENS =
  /(?:page|sync|continuation|next|prev|previous|cursor|resume|start|change|delta|skip|watch|idempotency|input|output)tokens?$/;

/** Names of a credential's metadata, which is not secret. */
const METADATA_NAMES =
  /^(?:id|name|type|kind|scopes?|token_type|account|email|user|username|login|host|region|status|description|label|client_id|(?:.*_)?(?:at|in|on|url|uri|count|hint|expiry|expires))$/;

/**
 * Classifies a field name: its value is a credential, may be one if it looks random, or is metadata of one. `pwd` is a password or a
 * working directory.
 */
function classifyFieldName(name: string): "credential" | "token" | "pwd" | "metadata" | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const compact = name.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
  if (CREDENTIAL_ENDINGS.test(compact)) return "credential";
  if (compact.endsWith("pwd")) return "pwd";
  if (TOKEN_ENDINGS.test(compact) && !NON_SECRET_TOKENS.test(compact)) return "token";
  return METADATA_NAMES.test(toSnakeCase(name)) ? "metadata" : undefined;
}

const MAX_NAME_LENGTH = 100;

/** Converts `expiresAt` and `expires-at` to `expires_at`. */
function toSnakeCase(name: string): string {
  const apart = name.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
  return apart.replace(/[^A-Za-z0-9]+/g, "_").toLowerCase();
}

/** Returns true for text that looks generated: long, without spaces, with letters and digits. */
function looksRandom(text: string): boolean {
  return (
    text.length >= 16 && text.length < 16384 && /^[\x21-\x7e]+$/.test(text) && /\d/.test(text) && /[A-Za-z]/.test(text)
  );
}

interface CredentialPattern {
  pattern: RegExp;
  /** Needed where the pattern alone would match ordinary words. */
  isOne?: (text: string) => boolean;
}

// Each pattern matches to the end of its token or fails after a few characters, so a text is scanned once.
const CREDENTIAL_PATTERNS: readonly CredentialPattern[] = [
  {
    pattern:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  },
  { pattern: /(?<![A-Za-z0-9])(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,})/g },
  // The prefixes are listed: `global-` and `glass-`, as in many URLs, also start with `gl`.
  { pattern: /(?<![A-Za-z0-9])gl(?:pat|dt|rtr?|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt)-[\w-]{20,}/g },
  { pattern: /(?<![A-Za-z0-9])(?:xox[a-z]|xapp)-[A-Za-z0-9-]{10,}/g },
  { pattern: /(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])/g },
  { pattern: /(?<![A-Za-z0-9])(?:ya29\.[\w-]{20,}|1\/\/0[\w-]{20,}|AIza[\w-]{35}|GOCSPX-[\w-]{20,})/g },
  {
    pattern: /(?<![A-Za-z0-9])sk-[\w-]{20,}/g,
    isOne: (text) => /\d/.test(text) && (/[A-Z]/.test(text) || /[0-9a-f]{32}/.test(text)),
  },
  {
    pattern:
      /(?<![A-Za-z0-9])(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|AGE-SECRET-KEY-1[A-Z0-9]{50,})/g,
  },
  // SendGrid, DigitalOcean, Telegram, Discord (bots and webhooks), Slack webhooks, Shopify, Twilio, Mailgun, Square, Linear, Notion, Databricks, Doppler.
  { pattern: /(?<![A-Za-z0-9])SG\.[\w-]{16,}\.[\w-]{16,}/g },
  { pattern: /(?<![A-Za-z0-9])do[opr]_v1_[0-9a-f]{40,}/g },
  { pattern: /(?<![A-Za-z0-9])\d{8,10}:AA[\w-]{30,}/g },
  { pattern: /(?<![\w-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,}(?![\w-])/g },
  { pattern: /(?<=discord(?:app)?\.com\/api\/webhooks\/\d{5,25}\/)[\w-]{40,}/g },
  { pattern: /(?<=hooks\.slack\.com\/(?:services|workflows)\/)[\w/-]{20,}/g },
  {
    pattern:
      /(?<![A-Za-z0-9])(?:shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|SK[0-9a-f]{32}|key-[0-9a-f]{32}|sq0(?:atp|csp)-[\w-]{22,}|lin_api_[A-Za-z0-9]{32,}|(?:secret|ntn)_[A-Za-z0-9]{40,}|dapi[0-9a-f]{32}|dp\.[a-z]{2,4}\.[A-Za-z0-9]{40,})/g,
  },
  { pattern: /(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?/g },
  { pattern: /\bBearer[ \t]{1,4}[\w.~+/=-]{6,}/gi, isOne: (text) => text.length > 40 || /\d/.test(text) },
  { pattern: /\bBasic[ \t]{1,4}[A-Za-z0-9+/]{6,}={0,2}/g, isOne: isBasicLogin },
  {
    pattern: /\bAuthorization\\{0,4}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,4}["']?[A-Za-z]{1,20}[ \t]{1,4}[^\s"'\\,;]{6,}/gi,
    // Prose contains this word too: "Authorization: please confirm".
    isOne: (text) => /\d|\b(?:basic|bearer|token|digest|negotiate|apikey)[ \t]/i.test(text),
  },
  {
    pattern:
      /\b(?:access_?token|refresh_?token|id_?token|session_?token|client_?secret|api_?key|private_?key|account_?key)\\{0,4}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,4}["']?[^\s"'\\&,;<>(){}[\]]{8,}/gi,
    isOne: (text) => !CODE_REFERENCE.test(text) && (/\d/.test(text) || text.length > 40),
  },
  // A password in JSON, YAML, a query or a shell line inside a text.
  {
    pattern:
      /\b[a-z_-]{0,20}(?:password|passwd|pwd|passphrase)\\{0,4}["']?[ \t]{0,4}[:=][ \t]{0,4}(?:\\{0,4}["'][^"'\\]{1,200}|[^\s"'\\&,;<>(){}[\]]{6,})/gi,
    isOne: (text) => !CODE_REFERENCE.test(text) && (/["'][^"']*$/.test(text.replace(/^[^:=]*/, "")) || /\d/.test(text)),
  },
  { pattern: /(?<=:\/\/)[^\s/:@?#]{0,100}:[^\s/@?#]{1,256}(?=@)/g },
];

/** `Basic dXNlcjpwYXNz`: a user and a password in base64, and not "Basic Information". */
function isBasicLogin(text: string): boolean {
  const login = Buffer.from(text.replace(/^Basic[ \t]+/, ""), "base64").toString("latin1");
  return /^[\x20-\x7e]*:[\x20-\x7e]*$/.test(login);
}

/** `accessToken: process.env.ACCESS_TOKEN` refers to a token but does not contain it. */
const CODE_REFERENCE = /[:=][ \t]*(?:[A-Za-z_$]+\d{0,2}\??\.)+[A-Za-z_$]+\d{0,2}$/;

/** Replaces everything that looks like a credential with `mark`. */
export function redactCredentialPatterns(text: string, mark: string): string {
  if (text.length < MIN_TEXT_LENGTH) return text;
  return CREDENTIAL_PATTERNS.reduce(
    (result, { pattern, isOne }) =>
      result.replace(pattern, (found) => (isOne === undefined || isOne(found) ? mark : found)),
    text,
  );
}

/** The shortest text that a pattern can match. */
const MIN_TEXT_LENGTH = 4;

/** Returns true if an entry belongs to this namespace and, if specified, to this user and account. */
export function matchesAccount(
  entry: VaultEntry,
  namespace: string,
  { user, account }: { user?: string; account?: string | undefined },
): boolean {
  if (entry.namespace !== namespace) return false;
  return [entry.user, undefined].includes(user) && [entry.account, undefined].includes(account);
}

/** Returns true if a provider of this origin may use an entry. A provider without an origin uses entries without one. */
export function matchesOrigin(entry: VaultEntry, origin: string | undefined): boolean {
  return entry.origin === origin;
}

/** Lists the signed-in accounts, or those of the previous origin, which another provider never gets. */
export function formatOtherAccounts(entries: readonly VaultEntry[], origin: string | undefined): string {
  const here = entries.filter((entry) => matchesOrigin(entry, origin));
  const names = (listed: readonly VaultEntry[]) =>
    [...new Set(listed.map((entry) => sanitizeLine(entry.account, 60)))]
      .sort(compareText)
      .slice(0, MAX_NAMED_ACCOUNTS)
      .join(", ");
  if (here.length > 0) return `; signed-in accounts: ${names(here)}`;
  const [other] = entries;
  const before = redactCredentialPatterns(other?.origin ?? "another origin", "…");
  return other ? ` at its current address; ${names(entries)} signed in at ${sanitizeLine(before, 150)}` : "";
}

const MAX_NAMED_ACCOUNTS = 10;

export const GITHUB_API_URL = "https://api.github.com";

export function formatUrlWithoutSecrets({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** Returns the origin for which a sign-in is valid. Contract: does not throw; contains no password. */
export function getGithubOrigin({
  baseUrl = GITHUB_API_URL,
  clientId,
}: {
  baseUrl?: string;
  clientId?: string;
}): string {
  const address = URL.parse(baseUrl);
  const url = address ? formatUrlWithoutSecrets(address).replace(/\/+$/, "") : "an invalid URL";
  return clientId === undefined ? url : `${url} (client_id ${clientId})`;
}
