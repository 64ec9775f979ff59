import type { Skill } from "../skill/skill.ts";
import type { JsonObject } from "../util/objects.ts";
import type { Caller } from "./host-policy.ts";

/**
 * Which sensitive systems there are for skills, and who serves them. A skill never gets at them itself: it asks the broker of its run,
 * which asks a provider.
 */
export interface Capabilities {
  /** Whether somebody serves it to this skill, for whoever calls. Contract: quick, asks nobody. */
  isVisible(id: string, caller: Caller | undefined, skill?: Skill): boolean;
  /** Whether the operator gave it to this skill. */
  isGranted(id: string, skill: Skill): boolean;
  /** The one who serves it: by the skill's own table, or by its namespace. Nothing when nobody does. */
  providerOf(id: string, skill?: Skill): CapabilityProvider | undefined;
  /** Everyone who serves something here, by namespace. */
  providers(): readonly CapabilityProvider[];
  /** How many calls a run may make, and how many of them may change something. */
  readonly quota: { calls: number; changes: number };
  readonly vault: Vault;
  readonly audit: Audit;
}

/**
 * A program of the operator's, or an object of the embedder's, that has the credentials and does the work. Every one passes the same
 * suite (`checkProvider`). Contract: ends with the signal. What goes wrong is thrown as a SkillError whose code is one of
 * `PROVIDER_CODES`; anything else is taken for `provider-failed`.
 */
export interface CapabilityProvider {
  readonly namespace: string;
  /** How it is reached, for people: `gogcli bridge`, `in this program`. */
  readonly from: string;
  /** Where the system behind it is: what was kept for one is not given to another. */
  readonly origin?: string;
  /** How long an answer may take. */
  readonly seconds: number;
  describe(options: ProviderOptions): Promise<ProviderDescription>;
  invoke(call: ProviderCall, options: ProviderOptions): Promise<ProviderAnswer>;
  /** Whether it can serve now, and what is to be done when not. */
  health(options: ProviderOptions): Promise<ProviderHealth>;
  /** How somebody signs in. None where nobody has to, or where it is done elsewhere. */
  readonly auth?: ProviderAuth;
}

export interface ProviderOptions {
  signal: AbortSignal;
  /** Whether the vault has a credential for it, and for whom: what its health may depend on. */
  isSignedIn?: boolean;
}

/** Why a provider did not do it. */
export const PROVIDER_ERROR_CODES = [
  "provider-missing", // It is not there, or cannot be started.
  "provider-timeout",
  "provider-failed",
  "provider-answer", // What it answered is none.
  "auth-needed", // Somebody has to sign in first, or again.
  "denied", // The system behind it says no.
  "not-found",
  "conflict",
  "rate-limited",
  "input-invalid",
  "unavailable", // The system behind it does not answer.
] as const;

export interface ProviderDescription {
  capabilities: readonly CapabilityDescription[];
  /** Whether somebody signs in at it. Of a program this is only known when it was asked. */
  hasAuth?: boolean;
}

export interface CapabilityDescription {
  /** With its namespace: `gog.email`. */
  id: string;
  description: string;
  operations: readonly OperationDescription[];
}

export interface OperationDescription {
  /** `list`, `send`: letters, digits, `_` and `-`. */
  name: string;
  description: string;
  /** Whether it changes something: then somebody is asked each time. */
  mutating: boolean;
  inputSchema: JsonObject;
  outputSchema?: JsonObject;
  /** What a credential must be good for. */
  scopes?: readonly string[];
  /** Whether what it does can be undone; not known when left out. */
  isReversible?: boolean;
}

/** On whose behalf a provider is asked. Stated by the host, never taken from a request. */
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
  /** The same for the same call, also when it is made again: for what must not happen twice. */
  key: string;
  /** Who is signed in, where the vault has it. */
  credential?: Credential;
}

export interface ProviderAnswer {
  output: unknown;
  /** In place of the one it was given, where that was renewed. */
  credential?: Credential;
}

export interface ProviderHealth {
  isReady: boolean;
  /** In a sentence, for people. */
  message?: string;
  /** What to do so that it is ready, one step each. */
  steps?: readonly string[];
  /** Who is signed in, where the provider itself keeps that. */
  accounts?: readonly string[];
}

/** What a provider is let in with. Kept in the vault, and given to nobody else. */
export interface Credential {
  /** Whose it is there: `ada@example.com`. */
  account: string;
  /** Only for the provider: tokens and keys, as JSON. */
  secret: JsonObject;
  scopes?: readonly string[];
  /** ISO 8601. */
  expiresAt?: string;
}

export interface ProviderAuth {
  begin(request: AuthRequest, options: ProviderOptions): Promise<AuthChallenge>;
  /** What the user brought back: an address with a code in it, a code, a token. */
  complete(request: AuthCompletion, options: ProviderOptions): Promise<Credential>;
  /** For a flow that ends elsewhere. Nothing while it has not. */
  poll?(request: AuthCompletion, options: ProviderOptions): Promise<Credential | undefined>;
}

export interface AuthRequest {
  capability?: string;
  scopes?: readonly string[];
  context: Partial<ProviderContext>;
}

/** What the user has to do. */
export interface AuthChallenge {
  /** `link`: open it, and bring back where it led. `device`: open it and type the code, then poll. `paste`: bring back a token. */
  kind: "link" | "device" | "paste";
  url?: string;
  /** What is typed in there. */
  userCode?: string;
  /** In a sentence, for people. */
  message: string;
  /** For the provider alone, to know it by: kept by the host, told to nobody. */
  state?: JsonObject;
  /** How long it holds, and how often it may be polled. */
  expiresInSeconds?: number;
  intervalSeconds?: number;
}

export interface AuthCompletion extends AuthRequest {
  state?: JsonObject;
  /** What was pasted, taken apart by the host. Left out when it is polled. */
  callback?: AuthCallback;
}

export interface AuthCallback {
  /** As it was pasted, without what a chat puts around it. */
  text: string;
  /** Of an address: what its query and fragment say. */
  values: Readonly<Record<string, string>>;
  code?: string;
  state?: string;
}

/** One credential, without it. */
export interface VaultEntry {
  namespace: string;
  account: string;
  /** On whose behalf it is used; empty for whoever owns this machine. */
  user: string;
  /** None where it is not known what it is good for. */
  scopes: readonly string[];
  at: string;
  expiresAt?: string;
  /** The `origin` of the provider that it was signed in with: it is given to no other. */
  origin?: string;
}

/** Credentials of providers, encrypted, in the user's home. Everything throws a SkillError when it cannot be read or written. */
export interface Vault {
  /** Needs no key: what is not secret is not encrypted. */
  list(): VaultEntry[];
  /** Of this account, or of the only or last one; and none that was signed in with a provider of another origin. */
  get(
    namespace: string,
    of: { user: string; account?: string | undefined; origin?: string | undefined },
  ): Credential | undefined;
  /** `isRenewed`: in place of the one that there is, which stays as old as it was. */
  set(
    namespace: string,
    user: string,
    credential: Credential,
    of?: { origin?: string | undefined; isRenewed?: boolean },
  ): void;
  /** Contract: how many were removed. */
  remove(namespace: string, of?: { user?: string; account?: string | undefined }): number;
  /** Something small and secret that a flow keeps in between. Nothing when it has expired, or was taken. */
  put(id: string, value: JsonObject, seconds: number): void;
  peek(id: string): JsonObject | undefined;
  /** As peek, and it is gone: nobody gets it twice. */
  take(id: string): JsonObject | undefined;
}

/** One thing that a broker was asked, and what came of it. No secret and no input is in it. */
export interface AuditEntry {
  run: string;
  skill: string;
  source: string;
  user?: string;
  chat?: string;
  /** What was asked: `invoke`, `list`, `auth.begin`, … */
  method: string;
  capability?: string;
  operation?: string;
  /** Who of those that are signed in was asked for, where that was said. */
  account?: string;
  /** `ok`; `begun` before a change; `repeated` for what was done before, and not again; or the code of the check that refused it. */
  outcome: string;
  /** `sha256:…` of the input, so that it can be told what was agreed to. */
  input?: string;
  approval?: string;
  /** How many values were taken out of the answer. */
  removed?: number;
  ms?: number;
  /** For many refusals in one: how many. */
  count?: number;
}

/** A line of the log: what happened, and what ties it to the line before. */
export interface AuditLine extends AuditEntry {
  seq: number;
  at: string;
  /** The hash of the line before. */
  prev: string;
  hash: string;
}

export type AuditVerdict =
  /** `torn`: lines whose writer was stopped. They are no lines, and none is missing for it. */
  | { isWhole: true; lines: number; head: string; torn?: readonly number[] }
  | { isWhole: false; lines: number; line: number; message: string };

/** What was asked of brokers: only ever added to, and each line tied to the one before. */
export interface Audit {
  readonly file: string;
  /** Contract: on the disk when it returns. Throws a SkillError when it cannot be written. */
  add(entry: AuditEntry): AuditLine;
  /** Oldest first. Lines that are none are left out. */
  read(): Iterable<AuditLine>;
  verify(): AuditVerdict;
}
