import { isDeepStrictEqual } from "node:util";
import { TOKEN_FILE } from "../../host/server-token.ts";
import { quoted } from "../../policy/trust.ts";
import type { Client, Entry } from "./clients.ts";

/** Whether the server of an entry is one of skillet's: started by it, on this machine at its path, or the one that is meant. */
export function isOurs(there: Entry, meant: Entry): boolean {
  if (serveWords(there)) return true;
  const url = urlOf(there);
  return url !== undefined && ((isHere(url) && url.pathname === PATH) || url.href === urlOf(meant)?.href);
}

/** Where a server has MCP. */
export const PATH = "/mcp";

/** Whether an address is one of this machine. */
export function isHere({ hostname }: URL): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

/** What was there with what is meant over it, and without what the client does not want beside it. */
export function merged(there: Entry, meant: Entry, only: Client["only"]): Entry {
  const unwanted = unwantedBeside(meant, only);
  const kept = Object.entries(there).filter(([key]) => Object.hasOwn(meant, key) || !unwanted.includes(key));
  const after: Record<string, unknown> = Object.fromEntries(kept);
  for (const [key, value] of Object.entries(meant)) {
    after[key] = isTable(value) && isTable(after[key]) ? { ...after[key], ...value } : value;
  }
  return after;
}

/** The keys that somebody added to an entry, and that would be lost, or be sent to a host that they were not meant for. */
export function keysAtStake(there: Entry, meant: Entry, client: Client): string[] {
  const { only } = client;
  const [from, to] = [urlOf(there), urlOf(meant)];
  const isSentElsewhere = from && to && from.href !== to.href && !isHere(to);
  const leaving = [...unwantedBeside(meant, only), ...(isSentElsewhere ? only.called : [])];
  const usual = [client.entry({ command: "", args: [] }), client.entry({ url: "", hasToken: true })];
  return Object.entries(there)
    .filter(([key, value]) => leaving.includes(key) && !SERVER_KEYS.has(key) && !isEmpty(value))
    .filter(([, value]) => !JSON.stringify(value).includes(TOKEN_FILE)) // Written by skillet.
    .filter(([key, value]) => !usual.some((entry) => isDeepStrictEqual(entry[key], value)))
    .map(([key]) => key);
}

/** An entry in a few words. What may be a secret is left out: variables, headers, a token, a password, what follows the path. */
export function describeEntry(entry: Entry): string {
  if (addressOf(entry) !== undefined) {
    const url = urlOf(entry);
    return url ? `${url.protocol}//${url.host}${url.pathname}${url.search && "?…"}` : "another address";
  }
  const words = serveWords(entry) ?? [];
  const shown = words.map((word, at) => {
    if (words[at - 1] === "--token") return "…";
    return word.startsWith("--token=") ? "--token=…" : quoted(word);
  });
  return shown.join(" ");
}

/** Whether an entry calls a server, and does not start one. */
export function isCalling(entry: Entry): boolean {
  return addressOf(entry) !== undefined;
}

export function isTable(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Date);
}

/** Returns the command that an entry starts, and its arguments. */
export function serverWords(entry: Entry): string[] {
  return [entry["command"] ?? [], entry["args"] ?? []].flat().map(String);
}

/** `serve` and what follows it, when an entry starts that. */
function serveWords(entry: Entry): string[] | undefined {
  const words = serverWords(entry);
  const at = words.findIndex((word, index) => PROGRAM.test(word) && words[index + 1] === "serve");
  return at === -1 ? undefined : words.slice(at + 1);
}

const PROGRAM = /(?:^|[\\/])skillet(?:\.cjs|\.cmd)?$/;
const SERVER_KEYS = new Set(["command", "args", "url", "httpUrl"]);

function unwantedBeside(meant: Entry, only: Client["only"]): readonly string[] {
  return isCalling(meant) ? only.started : only.called;
}

function addressOf(entry: Entry): unknown {
  return entry["url"] ?? entry["httpUrl"];
}

/** Returns the address of an entry's server, if it has one that can be parsed. */
export function urlOf(entry: Entry): URL | undefined {
  const address = addressOf(entry);
  return typeof address === "string" && URL.canParse(address) ? new URL(address) : undefined;
}

function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === "object" && Object.keys(value).length === 0);
}
