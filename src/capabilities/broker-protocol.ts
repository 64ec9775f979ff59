import type { ErrorCode } from "../errors/error-codes.ts";
import type { JsonObject } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";

/**
 * What code in a sandbox and the broker of its run say to each other: one line of JSON each way on a unix socket, one request a
 * connection. Who asks is known by the socket; the token must say the same.
 */
export const BROKER_PROTOCOL_VERSION = 1;

/** Where the socket is for the code in a sandbox; where a sandbox maps no paths, the variable says another place. */
export const CAPABILITY_SOCKET = "/run/skillet/capability.sock";
export const SOCKET_VARIABLE = "SKILLET_CAPABILITY_SOCKET";
export const TOKEN_VARIABLE = "SKILLET_CAPABILITY_TOKEN";

/** In bytes, with the line's end. A larger request is refused before it is read to its end. */
export const MAX_BROKER_REQUEST_BYTES = 1024 * 1024;

export const BROKER_METHODS = ["list", "invoke", "auth.begin", "auth.complete", "auth.poll"] as const;
export type BrokerMethod = (typeof BROKER_METHODS)[number];

/** A request. What else stands in it is refused: nobody says in it who they are. */
export interface BrokerRequest {
  v: typeof BROKER_PROTOCOL_VERSION;
  token: string;
  /** Another one each time; up to 64 characters. */
  nonce: string;
  method: BrokerMethod;
  /** Of `invoke`: `capability`, `operation`, `input`, and where wanted `account`, `key`, `approval`; of `auth.begin`: `capability`, `scopes`; of what follows it: `flow`, `callback`. */
  params: JsonObject;
}

/** An answer. */
export type BrokerReply = { v: typeof BROKER_PROTOCOL_VERSION; id: string } & (
  | { ok: true; result: JsonObject }
  | { ok: false; error: { code: string; message: string; fix?: string } }
);

/** What `list` gives, of what the skill declares and no more. */
export interface CapabilityList {
  capabilities: {
    id: string;
    description: string;
    is_ready: boolean;
    /** Why it is not, and what to do. */
    problem?: string;
    operations: { name: string; description: string; mutating: boolean; input: JsonObject }[];
  }[];
}

export interface InvokeResult {
  capability: string;
  operation: string;
  /** Whatever it says is data of others. */
  label: "untrusted";
  output: unknown;
  /** The word that it was done with; it holds for no second time. */
  approval?: string;
  /** It was done before, with the same key or before the run was gone on with: this is what came of it then. */
  is_repeated?: true;
  /** How many values were taken out, since they looked like credentials. */
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

/** What a request came to. A refusal is such an answer, never an exception. */
export type BrokerAnswer = { ok: true; result: JsonObject } | { ok: false; error: BrokerProblem };

export interface BrokerProblem {
  code: ErrorCode;
  message: string;
  fix?: string;
}

export function refuseRequest(code: ErrorCode, message: string, fix?: string): BrokerAnswer & { ok: false } {
  return {
    ok: false,
    error: { code, message: sanitizeLine(message, 600), ...(fix ? { fix: sanitizeLine(fix, 600) } : {}) },
  };
}

/** What came of it when it was done: it was not done again. */
export function markAsRepeated(answer: BrokerAnswer): BrokerAnswer {
  return answer.ok ? { ok: true, result: { ...answer.result, is_repeated: true } } : answer;
}

export function formatReply(id: string, answer: BrokerAnswer): string {
  const reply: BrokerReply = { v: BROKER_PROTOCOL_VERSION, id, ...answer };
  return `${JSON.stringify(reply)}\n`;
}

/** What a provider did not do, in its own words as far as they are fit to be told. */
export function createErrorAnswer(
  error: unknown,
  hide: (text: string) => string,
  usual: ErrorCode = "provider-failed",
): BrokerAnswer & { ok: false } {
  const { code, message, fix } = Object(error) as { code?: unknown; message?: unknown; fix?: unknown };
  const isOurs = typeof code === "string" && /^[a-z]+(?:-[a-z]+)*$/.test(code);
  const say = (text: unknown) => hide(String(text ?? ""));
  return refuseRequest(isOurs ? (code as ErrorCode) : usual, say(message), fix === undefined ? undefined : say(fix));
}
