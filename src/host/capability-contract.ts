import type { Skill } from "../skill/skill.ts";
import type { JsonObject } from "../util/objects.ts";
import type { Caller } from "./approval.ts";

/**
 * The capabilities that are available to skills, and their providers. A skill never accesses a system directly: it sends a request to
 * the broker of its run, which calls a provider.
 */
export interface Capabilities {
  /** Returns true if a provider serves the capability to this skill and caller. Contract: fast, and does not call the provider. */
  isVisible(id: string, caller: Caller | undefined, skill?: Skill): boolean;
  /** Returns true if the operator granted the capability to this skill. */
  isGranted(id: string, skill: Skill): boolean;
  /** Returns the provider from the skill's own table or for the namespace, or undefined if no provider serves it. */
  findProvider(id: string, skill?: Skill): CapabilityProvider | undefined;
  /** Returns all providers, sorted by namespace. */
  providers(): readonly CapabilityProvider[];
  /** The maximum calls of a run, and how many of them may be mutating. */
  readonly quota: { calls: number; changes: number };
  readonly vault: Vault;
  readonly audit: Audit;
}

/**
 * A program of the operator, or an object of the embedding program, that holds the credentials and performs operations. Every provider
 * passes the same suite (`checkProvider`). Contract: stops when the signal aborts. Failures are thrown as a SkillError with a code of
 * `PROVIDER_ERROR_CODES`; any other error counts as `provider-failed`.
 */
export interface CapabilityProvider {
  readonly namespace: string;
  /** A label for users: `gogcli bridge`, `in this program`. */
  readonly from: string;
  /** The address of its backend. A credential for one origin is never passed to another. */
  readonly origin?: string;
  /** The timeout of an answer. */
  readonly seconds: number;
  describe(options: ProviderOptions): Promise<ProviderDescription>;
  invoke(call: ProviderCall, options: ProviderOptions): Promise<ProviderAnswer>;
  /** Returns whether it is ready, and the steps to take if not. */
  health(options: ProviderOptions): Promise<ProviderHealth>;
  /** The sign-in flow. Undefined if no sign-in is needed, or if it happens outside skillet. */
  readonly auth?: ProviderAuth;
}

export interface ProviderOptions {
  signal: AbortSignal;
  /** True if the vault has a credential for it, which its health may depend on. */
  isSignedIn?: boolean;
}

/** The codes with which a provider can fail. */
export const PROVIDER_ERROR_CODES = [
  "provider-missing", // The program is missing or cannot be started.
  "provider-timeout",
  "provider-failed",
  "provider-answer-invalid", // The answer is invalid.
  "auth-needed", // The user has to sign in first, or again.
  "denied", // The backend denies the request.
  "not-found",
  "conflict",
  "rate-limited",
  "input-invalid",
  "unavailable", // The backend does not respond.
] as const;

export interface ProviderDescription {
  capabilities: readonly CapabilityDescription[];
  /** True if it has a sign-in. For a program this is only known after `describe`. */
  hasAuth?: boolean;
}

export interface CapabilityDescription {
  /** The id with its namespace: `gog.email`. */
  id: string;
  description: string;
  operations: readonly OperationDescription[];
}

export interface OperationDescription {
  /** For example `list` or `send`: letters, digits, `_` and `-`. */
  name: string;
  description: string;
  /** True if it has side effects: each call then needs approval. */
  mutating: boolean;
  inputSchema: JsonObject;
  outputSchema?: JsonObject;
  /** The scopes that a credential must have. */
  scopes?: readonly string[];
  /** True if its effect can be undone. Undefined means unknown. */
  isReversible?: boolean;
}

/** The run, skill and user on whose behalf a provider is called. Set by the host, never taken from a request. */
export interface ProviderContext {
  run: string;
  skill: string;
  source: string;
  user?: string;
  chat?: { id?: string; type?: string };
}

export interface ProviderCall {
  capability: string;
  operation: string;
  input: unknown;
  context: ProviderContext;
  /** The idempotency key: the same when the same call is retried. */
  key: string;
  /** The credential from the vault, if there is one. */
  credential?: Credential;
}

export interface ProviderAnswer {
  output: unknown;
  /** The refreshed credential, if it was renewed. */
  credential?: Credential;
}

export interface ProviderHealth {
  isReady: boolean;
  /** One sentence for users. */
  message?: string;
  /** The steps that make it ready. */
  steps?: readonly string[];
  /** The signed-in accounts, if the provider itself stores them. */
  accounts?: readonly string[];
}

/** A credential of a provider. Stored in the vault, and passed to that provider only. */
export interface Credential {
  /** The account name: `ada@example.com`. */
  account: string;
  /** Tokens and keys as JSON, for the provider only. */
  secret: JsonObject;
  scopes?: readonly string[];
  /** ISO 8601. */
  expiresAt?: string;
}

export interface ProviderAuth {
  begin(request: AuthRequest, options: ProviderOptions): Promise<AuthChallenge>;
  /** Completes the sign-in with the user's input: an address that contains a code, a code or a token. */
  complete(request: AuthCompletion, options: ProviderOptions): Promise<Credential>;
  /** Polls a flow that ends on another device. Returns undefined while it is not finished. */
  poll?(request: AuthCompletion, options: ProviderOptions): Promise<Credential | undefined>;
}

export interface AuthRequest {
  capability?: string;
  scopes?: readonly string[];
  context: Partial<ProviderContext>;
}

/** The steps of the user in a sign-in. */
export interface AuthChallenge {
  /** `link`: open it and paste the address that it redirects to. `device`: open it, type the code, then poll. `paste`: paste a token. */
  kind: "link" | "device" | "paste";
  url?: string;
  /** The code to type at `url`. */
  userCode?: string;
  /** One sentence for users. */
  message: string;
  /** Private state of the provider. Stored by the host, and never shown. */
  state?: JsonObject;
  /** The lifetime of the challenge and the poll interval. */
  expiresInSeconds?: number;
  intervalSeconds?: number;
}

export interface AuthCompletion extends AuthRequest {
  state?: JsonObject;
  /** The pasted text, parsed by the host. Omitted when the flow is polled. */
  callback?: AuthCallback;
}

export interface AuthCallback {
  /** The pasted text, without the decoration that a chat adds. */
  text: string;
  /** The query and fragment parameters, if it is an address. */
  values: Readonly<Record<string, string>>;
  code?: string;
  state?: string;
}

/** The metadata of a credential, without its secret. */
export interface VaultEntry {
  namespace: string;
  account: string;
  /** The user on whose behalf it is used. Empty for the owner of this machine. */
  user: string;
  /** Empty if the scopes are unknown. */
  scopes: readonly string[];
  at: string;
  expiresAt?: string;
  /** The `origin` of the provider of the sign-in: the credential is passed to no other. */
  origin?: string;
}

/** The encrypted credentials of providers in the user's home. Every method throws a SkillError if the vault cannot be read or written. */
export interface Vault {
  /** Needs no key: metadata is not encrypted. */
  list(): Promise<VaultEntry[]>;
  /** Returns the credential of this account, or of the only or last one. Credentials for another origin are ignored. */
  get(
    namespace: string,
    of: { user: string; account?: string | undefined; origin?: string | undefined },
  ): Promise<Credential | undefined>;
  /** `isRenewed`: replaces the existing credential and keeps its creation time. */
  set(
    namespace: string,
    user: string,
    credential: Credential,
    of?: { origin?: string | undefined; isRenewed?: boolean },
  ): Promise<void>;
  /** Returns the number of removed credentials. */
  remove(namespace: string, of?: { user?: string; account?: string | undefined }): Promise<number>;
  /**
   * Waits until no other process renews this credential, and reserves its renewal for this one, for at most this long. Resolves with the
   * credential as it is then, or with undefined without one. Absent if one process at a time uses the vault.
   */
  beginRenewal?(
    namespace: string,
    of: { user: string; account?: string | undefined; origin?: string | undefined },
    seconds: number,
  ): Promise<{ credential: Credential; end(): Promise<void> } | undefined>;
  /** Stores the secret state of a flow between two steps. */
  put(id: string, value: JsonObject, seconds: number): Promise<void>;
  /** Like `put`, unless a value is stored already: then it stores nothing and resolves with false. Of several at once, one stores. */
  putIfAbsent(id: string, value: JsonObject, seconds: number): Promise<boolean>;
  /** Returns the stored state, or undefined if it has expired or was taken. */
  peek(id: string): Promise<JsonObject | undefined>;
  /** Returns the stored state and removes it, so that it can be used only once. */
  take(id: string): Promise<JsonObject | undefined>;
}

/** One request to a broker and its outcome. Contains no secret and no input. */
export interface AuditEntry {
  run: string;
  skill: string;
  source: string;
  user?: string;
  tenant?: string;
  chat?: string;
  /** The method: `invoke`, `list`, `auth.begin`, … */
  method: string;
  capability?: string;
  operation?: string;
  /** The requested account, if the request names one. */
  account?: string;
  /** `ok`; `begun` before a change; `repeated` for a retry that was not executed again; or the code of the check that refused it. */
  outcome: string;
  /** `sha256:…` of the input, which identifies the approved call. */
  input?: string;
  approval?: string;
  /** The number of secret values that were redacted from the answer. */
  removed?: number;
  ms?: number;
  /** The number of refusals, if one entry summarizes several. */
  count?: number;
}

/** A line of the audit log, with the hash that chains it to the previous line. */
export interface AuditLine extends AuditEntry {
  seq: number;
  at: string;
  /** The hash of the previous line. */
  prev: string;
  hash: string;
  /** The proof that an owner of the seal key wrote the line. Only in logs with a key. */
  seal?: string;
}

export type AuditVerdict =
  /** `torn`: incomplete lines of a writer that was stopped. They do not break the chain. */
  | { isWhole: true; lines: number; head: string; torn?: readonly number[] }
  | { isWhole: false; lines: number; line: number; message: string };

/** The append-only audit log of brokers. Each line is chained to the previous one. */
export interface Audit {
  /** Contract: the line is stored when it resolves. Throws a SkillError if it cannot be written. */
  add(entry: AuditEntry): Promise<AuditLine>;
  /** Yields the lines, oldest first. Invalid lines are omitted. */
  read(): AsyncIterable<AuditLine>;
  verify(): Promise<AuditVerdict>;
}
