import type { ErrorCode } from "../errors/error-codes.ts";
import type { Problem } from "../errors/problem.ts";
import type { JsonObject } from "../util/objects.ts";
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
