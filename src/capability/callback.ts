import type { AuthCallback } from "../host/capabilities.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";

/**
 * What somebody pasted to end a sign-in: an address with a code in it, a code, a token. Chats put brackets, quotes and links around an
 * address, and break it into lines. Throws a SkillError when it is nothing of that.
 */
export function readCallback(pasted: string): AuthCallback {
  if (pasted.length > LONGEST_PASTE) throw unusable("is longer than 16,384 characters");
  const lines = pasted.replace(UNSEEN, "").trim().split("\n");
  const text = unwrapped(lines.map((line) => line.trim()).join("\n"));
  if (text === "") throw unusable("is empty");
  return fromAddress(text, DEEPEST) ?? fromParameters(text) ?? fromCode(text);
}

/** What the other side said when it said no, or when something else went wrong there. */
export function refusalIn({ values }: AuthCallback): string | undefined {
  const { error, error_description: description } = values;
  if (error === undefined) return undefined;
  return inLine([error, description].filter(Boolean).join(": "), 200);
}

const LONGEST_PASTE = 16 * 1024;
const MOST_VALUES = 64;
/** Of addresses in addresses: pages that warn before they lead on. */
const DEEPEST = 2;
/** What is not seen and comes along when something is copied. */
const UNSEEN = /[\u200b-\u200f\u2060\ufeff\u00ad\u202a-\u202e]/g;
const ADDRESS = /[a-z][a-z0-9+.-]{1,40}:\/\/?[^\s]/i;
/** What an address has that ends a sign-in. */
const TELLING = ["code", "error", "access_token", "id_token", "token", "oauth_verifier"];

const WRAPPERS: readonly (readonly [string, string])[] = [
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
function unwrapped(text: string): string {
  const link = /^\[[^\]]*\]\(([\s\S]*)\)[.,;!?]?$/.exec(text)?.[1];
  if (link !== undefined) return unwrapped(link.trim());
  for (const [open, close] of WRAPPERS) {
    const end = text.replace(/[.,;!?]$/, "");
    if (end.length > open.length + close.length && end.startsWith(open) && end.endsWith(close)) {
      return unwrapped(end.slice(open.length, -close.length).trim());
    }
  }
  return text;
}

function fromAddress(text: string, deep: number): AuthCallback | undefined {
  const start = text.search(ADDRESS);
  if (start === -1) return /^[a-z][a-z0-9+.-]{1,40}%3A%2F/i.test(text) ? again(text, deep) : undefined;
  const address = addressIn(text, start);
  const values = valuesOf(address.replace(/^[^?#]*/, ""));
  if (TELLING.some((name) => values[name] !== undefined)) return callback(address, values);
  const inner = Object.values(values).find((value) => ADDRESS.test(value));
  const led = inner === undefined || deep === 0 ? undefined : fromAddress(inner, deep - 1);
  if (led && TELLING.some((name) => led.values[name] !== undefined)) return led;
  const decoded = /%3D/i.test(address) ? again(address, deep) : undefined;
  if (decoded && TELLING.some((name) => decoded.values[name] !== undefined)) return decoded;
  return callback(address, values);
}

/** One that was encoded as a whole. */
function again(text: string, deep: number): AuthCallback | undefined {
  const decoded = decode(text);
  return deep === 0 || decoded === text ? undefined : fromAddress(decoded, deep - 1);
}

/** From where it begins to where it ends: at what closes what opened before it, or at a space that is no broken line. */
function addressIn(text: string, start: number): string {
  const closing = WRAPPERS.find(([open]) => open.length === 1 && text[start - 1] === open)?.[1];
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
function fromParameters(text: string): AuthCallback | undefined {
  const joined = text.replaceAll("\n", "");
  if (!/^[^\s=]*\b(?:code|error|access_token|state)=[^\s]+$/.test(joined)) return undefined;
  return callback(joined, valuesOf(joined.replace(/^[^=]*[?#]/, "")));
}

/** A code or token alone. Whatever has spaces in it is for the provider to make sense of. */
function fromCode(text: string): AuthCallback {
  const code = text.replace(/^(?:the |my )?(?:code|token)(?: is)?[ \t]*:?[ \t]+/i, "").replaceAll("\n", "");
  if (/\s/.test(code) || code.startsWith("{")) return { text, values: {} };
  const [, first, state] = /^([^#]+)#([^#]+)$/.exec(code) ?? [];
  if (first !== undefined && state !== undefined) return { text: code, values: {}, code: first, state };
  return { text: code, values: {}, code };
}

function callback(text: string, values: Record<string, string>): AuthCallback {
  const { code, state } = values;
  return { text, values, ...(code === undefined ? {} : { code }), ...(state === undefined ? {} : { state }) };
}

/** Of a query and a fragment alike. */
function valuesOf(text: string): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  const parts = text.split(/[?#&]/).filter((part) => part.includes("="));
  if (parts.length > MOST_VALUES) throw unusable(`has more than ${MOST_VALUES} values`);
  for (const part of parts) {
    const [, name = "", value = ""] = /^([^=]*)=([\s\S]*)$/.exec(part) ?? [];
    const key = decode(name);
    // Of two codes nobody knows which is meant.
    if (TELLING.includes(key) && values[key] !== undefined) throw unusable(`says \`${key}\` twice`);
    // What is in a state is the provider's own business: it comes back as it was sent.
    values[key] = key !== "state" && TWICE.test(value) ? decode(decode(value)) : decode(value);
  }
  return values;
}

/** A percent sign that was encoded itself. */
const TWICE = /%25[0-9a-f]{2}/i;

function decode(text: string): string {
  const spaced = text.replaceAll("+", " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

function unusable(why: string): SkillError {
  return new SkillError("callback-invalid", {
    message: `What was pasted ${why}`,
    fix: "paste the whole address that the sign-in led to, or the code that it showed, and nothing else",
  });
}
