/** Names whose value is a credential whatever it looks like, without what stands between their words; what stands before them does not matter. */
const ENDINGS =
  /(?:(?:access|refresh|id|auth|oauth|bearer|session|security|api|sas|xsrf|csrf|personal|private|bot)token|secret|password|passwd|passphrase|passcode|otp|mnemonic|seedphrase|apikey|privatekey|secretkey|accesskey|signingkey|encryptionkey|authorization|cookie|bearer|credential|connectionstring|devicecode|accountkey)s?$/;

/** `next_page_token` is none, and most others that end so are. */
const TOKENS = /tokens?$/;
const NO_TOKENS =
  /(?:page|sync|continuation|next|prev|previous|cursor|resume|start|change|delta|skip|watch|idempotency|input|output)tokens?$/;

/** Names that say of a credential what is no secret. */
const AROUND =
  /^(?:id|name|type|kind|scopes?|token_type|account|email|user|username|login|host|region|status|description|label|client_id|(?:.*_)?(?:at|in|on|url|uri|count|hint|expiry|expires))$/;

/**
 * What a name says of its value: that it is a credential, that it may be one if it looks like it, or something about one. `pwd` is a password or
 * a working directory.
 */
export function nameSays(name: string): "credential" | "token" | "pwd" | "around" | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const words = name.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
  if (ENDINGS.test(words)) return "credential";
  if (words.endsWith("pwd")) return "pwd";
  if (TOKENS.test(words) && !NO_TOKENS.test(words)) return "token";
  return AROUND.test(snake(name)) ? "around" : undefined;
}

const LONGEST_NAME = 100;

/** `expiresAt` and `expires-at` as `expires_at`. */
function snake(name: string): string {
  const apart = name.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
  return apart.replace(/[^A-Za-z0-9]+/g, "_").toLowerCase();
}

/** Whether nobody would have written it by hand: long, without spaces, letters and digits. */
export function looksDrawn(text: string): boolean {
  return (
    text.length >= 16 && text.length < 16384 && /^[\x21-\x7e]+$/.test(text) && /\d/.test(text) && /[A-Za-z]/.test(text)
  );
}

interface Look {
  pattern: RegExp;
  /** Where the pattern alone would take ordinary words too. */
  isOne?: (text: string) => boolean;
}

// Each takes what it finds to its end or gives up after a few characters, so that a text is walked through once.
const LOOKS: readonly Look[] = [
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
    isOne: (text) => !IN_CODE.test(text) && (/\d/.test(text) || text.length > 40),
  },
  // A password in JSON, YAML, a query or a shell line inside a text.
  {
    pattern:
      /\b[a-z_-]{0,20}(?:password|passwd|pwd|passphrase)\\{0,4}["']?[ \t]{0,4}[:=][ \t]{0,4}(?:\\{0,4}["'][^"'\\]{1,200}|[^\s"'\\&,;<>(){}[\]]{6,})/gi,
    isOne: (text) => !IN_CODE.test(text) && (/["'][^"']*$/.test(text.replace(/^[^:=]*/, "")) || /\d/.test(text)),
  },
  { pattern: /(?<=:\/\/)[^\s/:@?#]{0,100}:[^\s/@?#]{1,256}(?=@)/g },
];

/** `Basic dXNlcjpwYXNz`: a user and a password in base64, and not "Basic Information". */
function isBasicLogin(text: string): boolean {
  const login = Buffer.from(text.replace(/^Basic[ \t]+/, ""), "base64").toString("latin1");
  return /^[\x20-\x7e]*:[\x20-\x7e]*$/.test(login);
}

/** `accessToken: process.env.ACCESS_TOKEN`: says where one is, not which. */
const IN_CODE = /[:=][ \t]*(?:[A-Za-z_$]+\d{0,2}\??\.)+[A-Za-z_$]+\d{0,2}$/;

/** The text with `mark` in place of all that looks like a credential. */
export function withoutCredentials(text: string, mark: string): string {
  if (text.length < SHORTEST) return text;
  return LOOKS.reduce(
    (left, { pattern, isOne }) =>
      left.replace(pattern, (found) => (isOne === undefined || isOne(found) ? mark : found)),
    text,
  );
}

/** Of all that can be told by its looks. */
const SHORTEST = 4;
