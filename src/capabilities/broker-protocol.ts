import type { ErrorCode } from "../errors/error-codes.ts";
import type { Problem } from "../errors/problem.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/**
 * The protocol between code in a sandbox and the broker of its run: one line of JSON each way on a unix socket, one request per
 * connection. The socket identifies the run; the token must match it.
 */
export const BROKER_PROTOCOL_VERSION = 1;

/** The path of the socket inside a sandbox. Where the sandbox maps no paths, the environment variable has the real one. */
export const CAPABILITY_SOCKET = "/run/skillet/capability.sock";
export const SOCKET_VARIABLE = "SKILLET_CAPABILITY_SOCKET";
export const TOKEN_VARIABLE = "SKILLET_CAPABILITY_TOKEN";

/** In bytes, including the newline. A larger request is refused before it is read completely. */
export const MAX_BROKER_REQUEST_BYTES = 1024 * 1024;

export const BROKER_METHODS = ["list", "invoke", "auth.begin", "auth.complete", "auth.poll"] as const;
export type BrokerMethod = (typeof BROKER_METHODS)[number];

/** A request. Unknown keys are refused: a request cannot claim an identity. */
export interface BrokerRequest {
  v: typeof BROKER_PROTOCOL_VERSION;
  token: string;
  /** Unique per request; up to 64 characters. */
  nonce: string;
  method: BrokerMethod;
  /** For `invoke`: `capability`, `operation`, `input`, optional `account`, `key`, `approval`; for `auth.begin`: `capability`, `scopes`; for later auth methods: `flow`, `callback`. */
  params: JsonObject;
}

/** A reply. */
export type BrokerReply = { v: typeof BROKER_PROTOCOL_VERSION; id: string } & (
  | { ok: true; result: JsonObject }
  | { ok: false; error: Problem<string> }
);

/** The result of `list`: only capabilities that the skill declares. */
export interface CapabilityList {
  capabilities: {
    id: string;
    description: string;
    is_ready: boolean;
    /** The reason it is not ready, and the fix. */
    problem?: string;
    operations: { name: string; description: string; mutating: boolean; input: JsonObject }[];
  }[];
}

export interface InvokeResult {
  capability: string;
  operation: string;
  /** All output is untrusted text. */
  label: "untrusted";
  output: unknown;
  /** The approval it was done with. It cannot be used again. */
  approval?: string;
  /** The call was made before, with the same key or before the run was resumed; this is its recorded result. */
  is_repeated?: true;
  /** The number of values removed because they looked like credentials. */
  removed?: number;
}

export interface AuthBeginResult {
  flow: string;
  kind: "link" | "device" | "paste";
  message: string;
  url?: string;
  user_code?: string;
  expires_in_seconds: number;
  interval_seconds?: number;
}

export interface AuthResult {
  status: "signed-in" | "pending";
  account?: string;
  interval_seconds?: number;
}

/** The answer to a request. A refusal is an answer too, never an exception. */
export type BrokerAnswer = { ok: true; result: JsonObject } | { ok: false; error: Problem };

export function refuseRequest(
  code: ErrorCode,
  message: string,
  fix = "",
  commands?: readonly string[],
): BrokerAnswer & { ok: false } {
  const problem = { code, message: sanitizeLine(message, 600), fix: sanitizeLine(fix, 600) };
  return { ok: false, error: { ...problem, ...(commands ? { commands } : {}) } };
}

/** Marks a recorded answer: the call was not made again. */
export function markAsRepeated(answer: BrokerAnswer): BrokerAnswer {
  return answer.ok ? { ok: true, result: { ...answer.result, is_repeated: true } } : answer;
}

export function formatReply(id: string, answer: BrokerAnswer): string {
  const reply: BrokerReply = { v: BROKER_PROTOCOL_VERSION, id, ...answer };
  return `${JSON.stringify(reply)}\n`;
}

/** Converts an error of a provider to an answer, in the provider's own words after redaction. */
export function createErrorAnswer(
  error: unknown,
  redact: (text: string) => string,
  defaultCode: ErrorCode = "provider-failed",
): BrokerAnswer & { ok: false } {
  const { code, message, fix } = Object(error) as { code?: unknown; message?: unknown; fix?: unknown };
  const isOurs = typeof code === "string" && /^[a-z]+(?:-[a-z]+)*$/.test(code);
  const clean = (text: unknown) => redact(String(text ?? ""));
  return refuseRequest(
    isOurs ? (code as ErrorCode) : defaultCode,
    clean(message),
    fix === undefined ? undefined : clean(fix),
  );
}

/** Reads and writes one part of a message. */
export interface WireSchema<Value> {
  /** Throws a `WireSchemaError`. */
  read(value: unknown, path: string): Value;
  write(value: Value): unknown;
  readonly isOptional?: true;
}

/** Names the invalid part. Contract: quotes nothing of the value, which may contain secrets. */
export class WireSchemaError extends Error {
  constructor(path: string, what: string) {
    super(`\`${path}\` ${what}`);
  }
}

export const wireAny: WireSchema<unknown> = { read: (value) => value, write: (value) => value };
export const wireBoolean: WireSchema<boolean> = createWireSchema(
  "is neither true nor false",
  (value) => typeof value === "boolean",
);
export const wireData: WireSchema<JsonObject> = createWireSchema("is not an object", isJsonObject);

export function wireText(limit: number, min = 1): WireSchema<string> {
  return createWireSchema(
    `is not a string of ${min} to ${limit} characters`,
    (value): value is string => typeof value === "string" && value.length >= min && value.length <= limit,
  );
}

/** A text for people and models: one sanitized line, truncated if it is too long. */
export function wireLine(limit: number): WireSchema<string> {
  return {
    read(value, path) {
      if (typeof value !== "string") throw new WireSchemaError(path, "is not a string");
      return sanitizeLine(value, limit);
    },
    write: (value) => value,
  };
}

export function wireNumber(min: number, max: number): WireSchema<number> {
  return createWireSchema(
    `is not a number from ${min} to ${max}`,
    (value): value is number => typeof value === "number" && value >= min && value <= max,
  );
}

export function wireEnum<Name extends string>(...names: readonly Name[]): WireSchema<Name> {
  return createWireSchema(`is not one of ${names.join(", ")}`, (value): value is Name => names.includes(value as Name));
}

export function wireList<Item>(item: WireSchema<Item>, max: number): WireSchema<readonly Item[]> {
  return {
    read(value, path) {
      if (!Array.isArray(value)) throw new WireSchemaError(path, "is not a list");
      if (value.length > max) throw new WireSchemaError(path, `has more than ${max} items`);
      return value.map((entry, index) => item.read(entry, `${path}[${index}]`));
    },
    write: (value) => value.map((entry) => item.write(entry)),
  };
}

/** An object with arbitrary keys and text values. */
export function wireTextMap(limit: number, max: number): WireSchema<Readonly<Record<string, string>>> {
  return {
    read(value, path) {
      if (!isJsonObject(value)) throw new WireSchemaError(path, "is not an object");
      const entries = Object.entries(value);
      if (entries.length > max) throw new WireSchemaError(path, `has more than ${max} entries`);
      const isText = entries.every(([, entry]) => typeof entry === "string" && entry.length <= limit);
      if (!isText) throw new WireSchemaError(path, `has a value that is not a string of up to ${limit} characters`);
      return value as Record<string, string>;
    },
    write: (value) => value,
  };
}

export function wireOptional<Value>(part: WireSchema<Value>): WireSchema<Value> {
  return { ...part, isOptional: true };
}

type WireFields<Value> = { [Key in keyof Value]-?: WireSchema<Exclude<Value[Key], undefined>> };

/** An object, strict both ways: unknown keys are refused. `expiresAt` here is `expires_at` on the wire. */
export function wireObject<Value extends object>(fields: WireFields<Value>): WireSchema<Value> {
  const rows = Object.entries<WireSchema<unknown>>(fields as never).map(([key, part]) => ({
    key,
    name: toWireKey(key),
    part,
  }));
  const known = new Set(rows.map(({ name }) => name));
  return {
    read(value, path) {
      if (!isJsonObject(value)) throw new WireSchemaError(path, "is not an object");
      if (Object.keys(value).some((name) => !known.has(name))) {
        throw new WireSchemaError(path, `has an unknown key; known keys: ${[...known].join(", ") || "none"}`);
      }
      const read: JsonObject = {};
      for (const { key, name, part } of rows) {
        if (Object.hasOwn(value, name)) read[key] = part.read(value[name], `${path}.${name}`);
        else if (!part.isOptional) throw new WireSchemaError(`${path}.${name}`, "is missing");
      }
      return read as Value;
    },
    write(value) {
      const present = rows.filter(({ key }) => (value as JsonObject)[key] !== undefined);
      return Object.fromEntries(present.map(({ key, name, part }) => [name, part.write((value as JsonObject)[key])]));
    },
  };
}

function createWireSchema<Value>(what: string, isValid: (value: unknown) => value is Value): WireSchema<Value> {
  return {
    read(value, path) {
      if (!isValid(value)) throw new WireSchemaError(path, what);
      return value;
    },
    write: (value) => value,
  };
}

function toWireKey(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
