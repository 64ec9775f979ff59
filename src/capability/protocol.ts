import type { Data } from "../skill/data.ts";

/**
 * What code in a sandbox and the broker of its run say to each other: one line of JSON each way on a unix socket, one request a
 * connection. Who asks is known by the socket; the token must say the same.
 */
export const PROTOCOL = 1;

/** Where the socket is for the code in a sandbox; where a sandbox maps no paths, the variable says another place. */
export const CAPABILITY_SOCKET = "/run/skillet/capability.sock";
export const SOCKET_VARIABLE = "SKILLET_CAPABILITY_SOCKET";
export const TOKEN_VARIABLE = "SKILLET_CAPABILITY_TOKEN";

/** In bytes, with the line's end. A larger request is refused before it is read to its end. */
export const LARGEST_FRAME = 1024 * 1024;

export const METHODS = ["list", "invoke", "auth.begin", "auth.complete", "auth.poll"] as const;
export type Method = (typeof METHODS)[number];

/** A request. What else stands in it is refused: nobody says in it who they are. */
export interface Frame {
  v: typeof PROTOCOL;
  token: string;
  /** Another one each time; up to 64 characters. */
  nonce: string;
  method: Method;
  /** Of `invoke`: `capability`, `operation`, `input`, and where wanted `account`, `key`, `approval`; of `auth.begin`: `capability`, `scopes`; of what follows it: `flow`, `callback`. */
  params: Data;
}

/** An answer. */
export type Reply = { v: typeof PROTOCOL; id: string } & (
  | { ok: true; result: Data }
  | { ok: false; error: { code: string; message: string; fix?: string } }
);

/** What `list` gives, of what the skill declares and no more. */
export interface ListResult {
  capabilities: {
    id: string;
    description: string;
    is_ready: boolean;
    /** Why it is not, and what to do. */
    problem?: string;
    operations: { name: string; description: string; mutating: boolean; input: Data }[];
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
