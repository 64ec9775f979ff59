import { randomBytes } from "node:crypto";
import type {
  Audit,
  AuthAnswer,
  AuthBegun,
  AuthCallback,
  AuthRequest,
  CapabilityProvider,
  Credential,
  ProviderAuth,
  ProviderOptions,
  Vault,
} from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import type { Data } from "../skill/data.ts";
import { PENDING } from "./agree.ts";
import { checkedBegun, checkedCredential } from "./auth-shape.ts";
import { readCallback, refusalIn } from "./callback.ts";
import { filterCredentials, secretsOf } from "./filter.ts";
import type { AuthBeginResult, AuthResult } from "./protocol.ts";
import { asProviderError, inTime } from "./provider-error.ts";
import { nameFor } from "./scene.ts";

export interface AuthOptions {
  vault: Vault;
  /** Who serves a capability or namespace, as far as whoever asks may know of it. */
  providerOf(id: string): CapabilityProvider | undefined;
  audit?: Audit;
  /** Somebody's word on whose sign-in is kept, where code could have brought it. Throws a SkillError where there is none. */
  agree?(flow: string, namespace: string, credential: Credential): Promise<void>;
  /** The time in milliseconds, as `Date.now` gives it. */
  now?: () => number;
}

/**
 * Sign-ins: begun, completed with what the user brings back, or asked about until they are done. Each holds once, for whoever began it:
 * to everybody else it is one that there is not. Everything throws a SkillError that says what to do.
 */
export interface Auth {
  /** One that was begun for the same and is under way is gone on with. */
  begin(provider: CapabilityProvider, request: AuthRequest, user: string, asking?: Asking): Promise<AuthBeginResult>;
  complete(flow: string, pasted: string, user: string, asking?: Asking): Promise<AuthResult>;
  poll(flow: string, user: string, asking?: Asking): Promise<AuthResult>;
  /** What one that is under way is for: a capability, or all of a namespace. Contract: does not throw. */
  aimOf(flow: string, user: string): string | undefined;
}

export type Asking = Partial<Pick<ProviderOptions, "signal">>;

/** What is kept of one, in the vault. */
interface Flow {
  user: string;
  namespace: string;
  /** Of the provider that it was begun with: what is brought back goes to no other. */
  origin?: string;
  capability?: string;
  scopes?: readonly string[];
  context: AuthRequest["context"];
  begun: AuthBegun & { expiresInSeconds: number; intervalSeconds: number };
  expiresAt: number;
}

export function openAuth({ vault, providerOf, audit, agree, now = Date.now }: AuthOptions): Auth {
  const beginning = new Map<string, Promise<AuthBeginResult>>();

  function knownFlow(id: string, user: string): { flow: Flow; provider: CapabilityProvider; auth: ProviderAuth } {
    const flow = FLOW.test(id) ? (vault.peek(id) as unknown as Flow | undefined) : undefined;
    const provider = flow && providerOf(flow.capability ?? flow.namespace);
    if (flow?.user === user && provider?.auth && provider.namespace === flow.namespace) {
      if (flow.origin !== provider.origin) throw elsewhere(provider);
      return { flow, provider, auth: provider.auth };
    }
    if (!flow && FLOW.test(id) && vault.peek(usedOf(id))?.["user"] === user) throw used();
    throw unknown();
  }
  /** It is over: whoever has its id now has nothing. */
  function takeFlow(id: string, flow: Flow): void {
    if (vault.take(id) === undefined) throw used();
    vault.take(pendingOf(flow, flow, flow.user));
    vault.put(usedOf(id), { user: flow.user }, MOST_SECONDS);
  }
  /** What was not its fault can be tried again. */
  function giveBack(id: string, flow: Flow): void {
    vault.take(usedOf(id));
    keep(id, flow);
  }
  function keep(id: string, flow: Flow): void {
    const seconds = (flow.expiresAt - now()) / 1000;
    if (seconds <= 0) return;
    vault.put(id, flow as unknown as Data, seconds);
    vault.put(pendingOf(flow, flow, flow.user), { id }, seconds);
  }
  async function signedIn(id: string, flow: Flow, credential: Credential): Promise<AuthResult> {
    const { namespace, user, origin } = flow;
    const checked = checkedCredential(namespace, credential);
    try {
      await agree?.(id, namespace, checked);
    } catch (error) {
      if (error instanceof SkillError && error.code === PENDING) {
        giveBack(id, flow);
        vault.put(wonOf(id), checked as unknown as Data, (flow.expiresAt - now()) / 1000);
      }
      throw error;
    }
    vault.set(namespace, user, checked, { origin });
    return { status: "signed-in", account: checked.account };
  }

  async function begin(provider: CapabilityProvider, request: AuthRequest, user: string, asking: Asking) {
    const { namespace, origin, auth } = provider;
    if (!auth) throw unsupported(namespace);
    const pending = vault.peek(pendingOf(provider, request, user))?.["id"];
    const there = typeof pending === "string" ? (vault.peek(pending) as unknown as Flow | undefined) : undefined;
    if (typeof pending === "string" && there?.user === user) return shown(pending, there, now());
    const begun = checkedBegun(namespace, await ask(provider, asking, (options) => auth.begin(request, options)));
    const id = `flow_${randomBytes(16).toString("hex")}`;
    const { capability, scopes, context } = request;
    const flow: Flow = {
      ...{ user, namespace, context, begun, expiresAt: now() + begun.expiresInSeconds * 1000 },
      ...defined({ capability, scopes, origin }),
    };
    keep(id, flow);
    return shown(id, flow, now());
  }

  async function complete(id: string, pasted: string, user: string, asking: Asking): Promise<AuthResult> {
    const callback = readCallback(pasted);
    const { flow, provider, auth } = knownFlow(id, user);
    // Nothing is brought back from there but that it is done.
    if (flow.begun.kind === "device" && auth.poll) return poll(id, user, asking);
    checkState(flow, callback);
    takeFlow(id, flow);
    const refusal = refusalIn(callback);
    if (refusal !== undefined) throw denied(flow.namespace, refusal);
    let credential = wonBefore(id);
    try {
      credential ??= await ask(provider, asking, (options) => auth.complete({ ...answerOf(flow), callback }, options));
    } catch (error) {
      if (isPassing(error)) giveBack(id, flow);
      throw withoutSecrets(error, flow, callback);
    }
    return signedIn(id, flow, credential);
  }

  /** What waits for somebody's word is not asked for again: a code holds once. */
  function wonBefore(id: string): Credential | undefined {
    return vault.take(wonOf(id)) as Credential | undefined;
  }

  async function poll(id: string, user: string, asking: Asking): Promise<AuthResult> {
    const { flow, provider, auth } = knownFlow(id, user);
    const asked = auth.poll?.bind(auth);
    // Whether a program can be asked is not known before: what it says of a sign-in that does not end elsewhere would end it.
    if (!asked || flow.begun.kind !== "device") throw notPolled();
    const pending: AuthResult = { status: "pending", interval_seconds: flow.begun.intervalSeconds };
    const next = Number(vault.peek(polledOf(id))?.["next"] ?? 0);
    if (now() < next) return pending;
    // Beside the flow, not in it: whoever took the flow meanwhile would find it put back.
    const interval = flow.begun.intervalSeconds;
    vault.put(polledOf(id), { next: now() + interval * 1000 }, interval);
    let credential = wonBefore(id);
    try {
      credential ??= await ask(provider, asking, (options) => asked(answerOf(flow), options));
    } catch (error) {
      if (!isPassing(error)) takeFlow(id, flow);
      throw withoutSecrets(error, flow);
    }
    if (!credential) return pending;
    takeFlow(id, flow);
    return signedIn(id, flow, credential);
  }

  function aimOf(id: string, user: string): string | undefined {
    try {
      const { flow } = knownFlow(id, user);
      return flow.capability ?? flow.namespace;
    } catch {
      return undefined; // Whoever goes on with it is told why.
    }
  }

  const noted = async <T>(method: string, at: Noted, work: () => Promise<T>): Promise<T> => {
    const note = (outcome: string) => {
      const { run = "", skill = "", source = "" } = at.context ?? {};
      const said = defined({ user: at.user || undefined, capability: at.capability });
      audit?.add({ run, skill, source, method, outcome, ...said });
    };
    const result = await work().catch((error: unknown) => {
      note(error instanceof SkillError ? error.code : "error");
      throw error;
    });
    note("ok");
    return result;
  };
  return {
    begin: (provider, request, user, asking = {}) =>
      noted("auth.begin", { user, ...request }, () => {
        const key = pendingOf(provider, request, user);
        const under = beginning.get(key) ?? begin(provider, request, user, asking);
        beginning.set(key, under);
        return under.finally(() => beginning.delete(key));
      }),
    complete: (id, pasted, user, asking = {}) =>
      noted("auth.complete", { user, ...defined({ capability: aimOf(id, user) }) }, () =>
        complete(id, pasted, user, asking),
      ),
    poll: (id, user, asking = {}) =>
      noted("auth.poll", { user, ...defined({ capability: aimOf(id, user) }) }, () => poll(id, user, asking)),
    aimOf,
  };
}

interface Noted extends Partial<AuthRequest> {
  user: string;
}

const FLOW = /^flow_[0-9a-f]{32}$/;
const MOST_SECONDS = 3600;

const usedOf = (id: string) => `${id}.used`;
const polledOf = (id: string) => `${id}.polled`;
const wonOf = (id: string) => `${id}.won`;

function pendingOf(
  { namespace, origin }: Pick<CapabilityProvider, "namespace" | "origin">,
  { capability, scopes = [] }: Partial<AuthRequest>,
  user: string,
): string {
  // Ids can be read in the vault, and what a scope is called is for a skill's code to say.
  return `pending ${nameFor([namespace, origin ?? null, capability ?? null, [...scopes].sort(), user])}`;
}

function answerOf({ capability, scopes, context, begun }: Flow): AuthAnswer {
  return { context, ...defined({ capability, scopes, state: begun.state }) };
}

/** Nothing of what the provider alone is to know. */
function shown(flow: string, { begun, expiresAt }: Flow, now: number): AuthBeginResult {
  const { kind, message, url, userCode } = begun;
  return {
    ...{ flow, kind, message, expires_in_seconds: Math.max(0, Math.ceil((expiresAt - now) / 1000)) },
    ...defined({ url, user_code: userCode }),
    ...(kind === "device" ? { interval_seconds: begun.intervalSeconds } : {}),
  };
}

async function ask<T>(
  provider: CapabilityProvider,
  { signal = new AbortController().signal }: Asking,
  work: (options: ProviderOptions) => Promise<T>,
): Promise<T> {
  const { namespace, seconds } = provider;
  try {
    return await inTime(async (inner) => work({ signal: inner }), { namespace, seconds, signal });
  } catch (error) {
    throw asProviderError(error, namespace);
  }
}

/** Whether the same may go well another time: what was pasted was wrong, or nobody answered. */
function isPassing(error: unknown): boolean {
  const passing = ["input-invalid", "rate-limited", "unavailable", "provider-timeout", "provider-missing"];
  return error instanceof SkillError && passing.includes(error.code);
}

/** A provider may quote what it was given. */
function withoutSecrets(error: unknown, { begun }: Flow, callback?: AuthCallback): unknown {
  if (!(error instanceof SkillError)) return error;
  const secret = { ...begun.state, ...callback?.values, token: callback?.code ?? callback?.text };
  const { message, fix } = error;
  const said = filterCredentials({ message, fix }, secretsOf({ account: "", secret })).value as Data;
  return new SkillError(error.code, { message: String(said["message"]), ...(fix ? { fix: String(said["fix"]) } : {}) });
}

/** An address that belongs to another sign-in may be one that somebody was lured into. */
function checkState({ begun }: Flow, { state }: AuthCallback): void {
  const ours = begun.state?.["state"] ?? URL.parse(begun.url ?? "")?.searchParams.get("state");
  if (state === undefined || typeof ours !== "string" || state === ours) return;
  throw new SkillError("state-mismatch", {
    message: "What was pasted belongs to another sign-in than this one",
    fix: "open the address of this sign-in, and paste where it leads",
  });
}

// The same for one that never was, that has expired, and that is another's: which of them it is, is nobody's business.
function unknown(): SkillError {
  return new SkillError("flow-unknown", {
    message: "There is no such sign-in under way",
    fix: "begin it again; it holds for a few minutes, and only for whoever began it",
  });
}

function elsewhere({ namespace }: CapabilityProvider): SkillError {
  return new SkillError("flow-unknown", {
    message: `${namespace} is reached another way than when this sign-in was begun, so it is not gone on with`,
    fix: "begin it again, and bring back what that one gives",
  });
}

function used(): SkillError {
  return new SkillError("flow-used", {
    message: "This sign-in is over: it was completed, or refused",
    fix: "go on if it was completed, else begin it again",
  });
}

function denied(namespace: string, said: string): SkillError {
  return new SkillError("denied", {
    message: `The sign-in to ${namespace} was refused there: ${inLine(said, 200)}`,
    fix: "begin it again if that was not meant",
  });
}

function unsupported(namespace: string): SkillError {
  return new SkillError("auth-unsupported", {
    message: `Nobody signs in to ${namespace} here`,
    fix: "look at what its provider needs: `skillet doctor` says it",
  });
}

function notPolled(): SkillError {
  return new SkillError("auth-unsupported", {
    message: "This sign-in does not end by itself",
    fix: "complete it with what the user brings back",
  });
}
