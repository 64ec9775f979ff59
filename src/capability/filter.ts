import type { Credential } from "../host/capabilities.ts";
import { type Hiding, openHiding, type Secrets } from "../shared/redact.ts";
import { type Data, emptyData, isData } from "../skill/data.ts";
import { looksDrawn, nameSays, withoutCredentials } from "./credential-names.ts";

export interface Filtered {
  value: unknown;
  /** How many values were taken out, or out of how many texts and names. */
  removed: number;
}

/**
 * What a provider gave, without credentials: not those that it was let in with, in whatever encoding, not what stands under a name for
 * one, and not what looks like one. Contract: linear in its size; JSON in, JSON out. A credential in two halves is not found.
 */
export function filterCredentials(value: unknown, secrets: Secrets): Filtered {
  const hiding = secrets.size > 0 ? hidingOf(secrets) : undefined;
  let removed = 0;
  let left = MOST_VALUES;

  const taken = () => {
    removed++;
    return REMOVED;
  };
  const cleaned = (text: string): string => {
    const clean = withoutCredentials(hiding?.text(text) ?? text, REMOVED);
    if (clean !== text) removed++;
    return clean;
  };
  const walk = (item: unknown, under: Under, depth: number): unknown => {
    if (--left < 0) return TOO_LARGE;
    if (typeof item === "string") return under(item) ? taken() : cleaned(item);
    if (typeof item === "number") return hiding && hiding.text(String(item)) !== String(item) ? taken() : item;
    if (typeof item === "boolean" || item === null) return item;
    if (typeof item !== "object") return null;
    if (depth >= DEEPEST) return TOO_DEEP;
    if (Array.isArray(item)) return item.map((one) => walk(one, under, depth + 1));
    const whole = emptyData();
    const freeName = openNames();
    const named = headerName(item as Data);
    for (const [key, one] of Object.entries(item)) {
      if (left < 0) break;
      const how =
        named !== undefined && key.toLowerCase() === "value" ? underName(named, under) : underName(key, under);
      whole[freeName(cleaned(key))] = walk(one, how, depth + 1);
    }
    return whole;
  };
  return { value: walk(value, never, 0), removed };
}

/** What of a credential nobody is shown: not who it is for, of what kind it is and for how long it holds, which other texts say too. */
export function secretsOf(...credentials: readonly (Credential | undefined)[]): Secrets {
  const found = new Map<string, string>();
  const harmless = new Set(credentials.flatMap((one) => [one?.account, ...(one?.scopes ?? [])]));
  const walk = (value: unknown, path: string, name: string, depth: number) => {
    if (typeof value === "string") {
      const says = nameSays(name);
      const isSecret =
        says === "credential" ||
        says === "token" ||
        says === "pwd" ||
        (says !== "around" && value.length >= SHORTEST_UNNAMED);
      if (isSecret && !harmless.has(value)) found.set(path, value);
    } else if ((isData(value) || Array.isArray(value)) && depth < DEEPEST) {
      for (const [key, one] of Object.entries(value)) {
        walk(one, `${path}.${key}`, Array.isArray(value) ? name : key, depth + 1);
      }
    }
  };
  for (const [index, one] of credentials.entries())
    walk(one?.secret, index === 0 ? "credential" : `credential${index + 1}`, "", 0);
  return found;
}

const REMOVED = "[removed: a credential]";
const TOO_DEEP = "[left out: nested too deeply]";
const TOO_LARGE = "[left out: too many values]";
const DEEPEST = 64;
const MOST_VALUES = 200_000;
/** In characters. A shorter text that no name calls a secret is a word: hiding it would take it out of every answer. */
const SHORTEST_UNNAMED = 8;

// What secrets look like takes longer to work out than a small answer to be walked through, and a run has the same ones in every call.
const known = new Map<string, Hiding>();
const MOST_KNOWN = 16;

function hidingOf(secrets: Secrets): Hiding {
  const key = JSON.stringify([...secrets]);
  const hiding = known.get(key) ?? openHiding(secrets);
  known.delete(key);
  known.set(key, hiding);
  for (const oldest of known.keys()) if (known.size > MOST_KNOWN) known.delete(oldest);
  return hiding;
}

/** Whether a text at a place is taken out for where it stands. */
type Under = (text: string) => boolean;
const never: Under = () => false;
const always: Under = (text) => text !== "";
const notPath: Under = (text) => text !== "" && !/^(?:[/~]|[A-Za-z]:\\)/.test(text);

/** What stands below a name for a credential is one too, but for what says something about it. */
function underName(name: string, above: Under): Under {
  const says = nameSays(name);
  if (says === "credential") return always;
  if (says === "pwd") return notPath;
  if (says === "token") return above === always ? always : looksDrawn;
  return says === "around" ? never : above;
}

/** Of `{ "name": "Set-Cookie", "value": … }`, as many systems give headers and variables. */
function headerName(item: Data): string | undefined {
  const name = item["name"] ?? item["key"] ?? item["header"];
  return typeof name === "string" ? name : undefined;
}

/** Two names may be the same when a credential is taken out of each. */
export function openNames(): (name: string) => string {
  const times = new Map<string, number>();
  return (name) => {
    const time = (times.get(name) ?? 0) + 1;
    times.set(name, time);
    return time === 1 ? name : `${name} (${time})`;
  };
}
