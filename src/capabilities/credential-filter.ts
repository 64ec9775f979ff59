import type { Credential, VaultEntry } from "../host/capability-contract.ts";
import { createJsonObject, isJsonObject, type JsonObject } from "../util/objects.ts";
import { createRedactor, type Redactor, type Secrets } from "../util/redact.ts";
import { compareText } from "../util/text.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

interface FilterResult {
  value: unknown;
  /** How many values were taken out, or out of how many texts and names. */
  removed: number;
}

/**
 * What a provider gave, without credentials: not those that it was let in with, in whatever encoding, not what stands under a name for
 * one, and not what looks like one. Contract: linear in its size; JSON in, JSON out. A credential in two halves is not found.
 */
export function filterCredentials(value: unknown, secrets: Secrets): FilterResult {
  const hiding = secrets.size > 0 ? getCachedRedactor(secrets) : undefined;
  let removed = 0;
  let left = MAX_FILTERED_VALUES;

  const taken = () => {
    removed++;
    return REMOVED_MARK;
  };
  const cleaned = (text: string): string => {
    const clean = redactCredentialPatterns(hiding?.text(text) ?? text, REMOVED_MARK);
    if (clean !== text) removed++;
    return clean;
  };
  const walk = (item: unknown, under: RemovalRule, depth: number): unknown => {
    if (--left < 0) return TOO_LARGE_MARK;
    if (typeof item === "string") return under(item) ? taken() : cleaned(item);
    if (typeof item === "number") return hiding && hiding.text(String(item)) !== String(item) ? taken() : item;
    if (typeof item === "boolean" || item === null) return item;
    if (typeof item !== "object") return null;
    if (depth >= MAX_DEPTH) return TOO_DEEP_MARK;
    if (Array.isArray(item)) return item.map((one) => walk(one, under, depth + 1));
    const whole = createJsonObject();
    const freeName = createNameDeduplicator();
    const named = getHeaderName(item as JsonObject);
    for (const [key, one] of Object.entries(item)) {
      if (left < 0) break;
      const how =
        named !== undefined && key.toLowerCase() === "value"
          ? selectRemovalRule(named, under)
          : selectRemovalRule(key, under);
      whole[freeName(cleaned(key))] = walk(one, how, depth + 1);
    }
    return whole;
  };
  return { value: walk(value, keepText, 0), removed };
}

/** What of a credential nobody is shown: not who it is for, of what kind it is and for how long it holds, which other texts say too. */
export function collectCredentialSecrets(...credentials: readonly (Credential | undefined)[]): Secrets {
  const found = new Map<string, string>();
  const harmless = new Set(credentials.flatMap((one) => [one?.account, ...(one?.scopes ?? [])]));
  const walk = (value: unknown, path: string, name: string, depth: number) => {
    if (typeof value === "string") {
      const says = classifyFieldName(name);
      const isSecret =
        says === "credential" ||
        says === "token" ||
        says === "pwd" ||
        (says !== "around" && value.length >= MIN_UNNAMED_SECRET_LENGTH);
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
/** In characters. A shorter text that no name calls a secret is a word: hiding it would take it out of every answer. */
const MIN_UNNAMED_SECRET_LENGTH = 8;

// What secrets look like takes longer to work out than a small answer to be walked through, and a run has the same ones in every call.
const redactorCache = new Map<string, Redactor>();
const MAX_CACHED_REDACTORS = 16;

function getCachedRedactor(secrets: Secrets): Redactor {
  const key = JSON.stringify([...secrets]);
  const hiding = redactorCache.get(key) ?? createRedactor(secrets);
  redactorCache.delete(key);
  redactorCache.set(key, hiding);
  for (const oldest of redactorCache.keys())
    if (redactorCache.size > MAX_CACHED_REDACTORS) redactorCache.delete(oldest);
  return hiding;
}

/** Whether a text at a place is taken out for where it stands. */
type RemovalRule = (text: string) => boolean;
const keepText: RemovalRule = () => false;
const removeText: RemovalRule = (text) => text !== "";
const removeUnlessPath: RemovalRule = (text) => text !== "" && !/^(?:[/~]|[A-Za-z]:\\)/.test(text);

/** What stands below a name for a credential is one too, but for what says something about it. */
function selectRemovalRule(name: string, above: RemovalRule): RemovalRule {
  const says = classifyFieldName(name);
  if (says === "credential") return removeText;
  if (says === "pwd") return removeUnlessPath;
  if (says === "token") return above === removeText ? removeText : looksRandom;
  return says === "around" ? keepText : above;
}

/** Of `{ "name": "Set-Cookie", "value": … }`, as many systems give headers and variables. */
function getHeaderName(item: JsonObject): string | undefined {
  const name = item["name"] ?? item["key"] ?? item["header"];
  return typeof name === "string" ? name : undefined;
}

/** Two names may be the same when a credential is taken out of each. */
export function createNameDeduplicator(): (name: string) => string {
  const times = new Map<string, number>();
  return (name) => {
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    return time === 1 ? name : `${name} (${time})`;
  };
}

/** Names whose value is a credential whatever it looks like, without what stands between their words; what stands before them does not matter. */
const CREDENTIAL_ENDINGS =
  /(?:(?:access|refresh|id|auth|oauth|bearer|session|security|api|sas|xsrf|csrf|personal|private|bot)token|secret|password|passwd|passphrase|passcode|otp|mnemonic|seedphrase|apikey|privatekey|secretkey|accesskey|signingkey|encryptionkey|authorization|cookie|bearer|credential|connectionstring|devicecode|accountkey)s?$/;

/** `next_page_token` is none, and most others that end so are. */
const TOKEN_ENDINGS = /tokens?$/;
const NON_SECRET_TOKENS =
  /(?:page|sync|continuation|next|prev|previous|cursor|resume|start|change|delta|skip|watch|idempotency|input|output)tokens?$/;

/** Names that say of a credential what is no secret. */
const METADATA_NAMES =
  /^(?:id|name|type|kind|scopes?|token_type|account|email|user|username|login|host|region|status|description|label|client_id|(?:.*_)?(?:at|in|on|url|uri|count|hint|expiry|expires))$/;

/**
 * What a name says of its value: that it is a credential, that it may be one if it looks like it, or something about one. `pwd` is a password or
 * a working directory.
 */
function classifyFieldName(name: string): "credential" | "token" | "pwd" | "around" | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined;
  const words = name.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
  if (CREDENTIAL_ENDINGS.test(words)) return "credential";
  if (words.endsWith("pwd")) return "pwd";
  if (TOKEN_ENDINGS.test(words) && !NON_SECRET_TOKENS.test(words)) return "token";
  return METADATA_NAMES.test(toSnakeCase(name)) ? "around" : undefined;
}

const MAX_NAME_LENGTH = 100;

/** `expiresAt` and `expires-at` as `expires_at`. */
function toSnakeCase(name: string): string {
  const apart = name.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
  return apart.replace(/[^A-Za-z0-9]+/g, "_").toLowerCase();
}

/** Whether nobody would have written it by hand: long, without spaces, letters and digits. */
function looksRandom(text: string): boolean {
  return (
    text.length >= 16 && text.length < 16384 && /^[\x21-\x7e]+$/.test(text) && /\d/.test(text) && /[A-Za-z]/.test(text)
  );
}

interface CredentialPattern {
  pattern: RegExp;
  /** Where the pattern alone would take ordinary words too. */
  isOne?: (text: string) => boolean;
}

// Each takes what it finds to its end or gives up after a few characters, so that a text is walked through once.
const CREDENTIAL_PATTERNS: readonly CredentialPattern[] = [
  {
    pattern:
      /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  },
  { pattern: /(?<![A-Za-z0-9])(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,})/g },
  // By name: `global-` and `glass-` begin so too, and many addresses with them.
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
    // People write of authorizations too: "Authorization: please confirm".
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

/** `accessToken: process.env.ACCESS_TOKEN`: says where one is, not which. */
const CODE_REFERENCE = /[:=][ \t]*(?:[A-Za-z_$]+\d{0,2}\??\.)+[A-Za-z_$]+\d{0,2}$/;

/** The text with `mark` in place of all that looks like a credential. */
export function redactCredentialPatterns(text: string, mark: string): string {
  if (text.length < MIN_TEXT_LENGTH) return text;
  return CREDENTIAL_PATTERNS.reduce(
    (left, { pattern, isOne }) =>
      left.replace(pattern, (found) => (isOne === undefined || isOne(found) ? mark : found)),
    text,
  );
}

/** Of all that can be told by its looks. */
const MIN_TEXT_LENGTH = 4;

/** Whether it is of this namespace, user and account, as far as they are said. */
export function matchesAccount(
  entry: VaultEntry,
  namespace: string,
  { user, account }: { user?: string; account?: string | undefined },
): boolean {
  if (entry.namespace !== namespace) return false;
  return [entry.user, undefined].includes(user) && [entry.account, undefined].includes(account);
}

/** Whether a provider of this origin may have it; one that says none has what was signed in with such a one. */
export function matchesOrigin(entry: VaultEntry, origin: string | undefined): boolean {
  return entry.origin === origin;
}

/** Who is signed in there, or who was where it was before: that is given to nobody else. */
export function formatOtherAccounts(kept: readonly VaultEntry[], origin: string | undefined): string {
  const here = kept.filter((entry) => matchesOrigin(entry, origin));
  const names = (entries: readonly VaultEntry[]) =>
    [...new Set(entries.map((entry) => sanitizeLine(entry.account, 60)))]
      .sort(compareText)
      .slice(0, MAX_NAMED_ACCOUNTS)
      .join(", ");
  if (here.length > 0) return `; there is: ${names(here)}`;
  const [other] = kept;
  const before = redactCredentialPatterns(other?.origin ?? "another place", "…");
  return other ? ` where it is now; ${names(kept)} did so at ${sanitizeLine(before, 150)}` : "";
}

const MAX_NAMED_ACCOUNTS = 10;
