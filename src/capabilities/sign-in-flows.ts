import { randomBytes } from "node:crypto";
import { SkillError } from "../errors/problem.ts";
import type { ApprovalRequest } from "../host/approval.ts";
import type {
  Audit,
  AuthCallback,
  AuthChallenge,
  AuthCompletion,
  AuthRequest,
  CapabilityProvider,
  Credential,
  ProviderAuth,
  ProviderOptions,
  Vault,
} from "../host/capability-contract.ts";
import { type JsonObject, omitUndefined } from "../util/objects.ts";
import { sanitizeLine } from "../util/untrusted-text.ts";
import {
  APPROVAL_PENDING,
  type BrokerContext,
  createProviderContext,
  createShortDigest,
  getUserId,
  requestBrokerApproval,
} from "./broker-context.ts";
import {
  type AuthBeginResult,
  type AuthResult,
  type BrokerAnswer,
  createErrorAnswer,
  refuseRequest,
} from "./broker-protocol.ts";
import { collectCredentialSecrets, filterCredentials } from "./credential-filter.ts";
import { refuseCapability } from "./invoke-capability.ts";
import { toProviderError, withProviderTimeout } from "./provider-contract.ts";
import { findCallbackError, parseSignInCallback, validateCredential, validateSignInStart } from "./sign-in-input.ts";

interface SignInOptions {
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
export interface SignInFlows {
  /** One that was begun for the same and is under way is gone on with. */
  begin(
    provider: CapabilityProvider,
    request: AuthRequest,
    user: string,
    asking?: SignInCallOptions,
  ): Promise<AuthBeginResult>;
  complete(flow: string, pasted: string, user: string, asking?: SignInCallOptions): Promise<AuthResult>;
  poll(flow: string, user: string, asking?: SignInCallOptions): Promise<AuthResult>;
  /** What one that is under way is for: a capability, or all of a namespace. Contract: does not throw. */
  aimOf(flow: string, user: string): string | undefined;
}

type SignInCallOptions = Partial<Pick<ProviderOptions, "signal">>;

/** What is kept of one, in the vault. */
interface SignInFlow {
  user: string;
  namespace: string;
  /** Of the provider that it was begun with: what is brought back goes to no other. */
  origin?: string;
  capability?: string;
  scopes?: readonly string[];
  context: AuthRequest["context"];
  begun: AuthChallenge & { expiresInSeconds: number; intervalSeconds: number };
  expiresAt: number;
}

export function createSignInFlows({ vault, providerOf, audit, agree, now = Date.now }: SignInOptions): SignInFlows {
  const beginning = new Map<string, Promise<AuthBeginResult>>();

  function knownFlow(id: string, user: string): { flow: SignInFlow; provider: CapabilityProvider; auth: ProviderAuth } {
    const flow = FLOW_ID_PATTERN.test(id) ? (vault.peek(id) as unknown as SignInFlow | undefined) : undefined;
    const provider = flow && providerOf(flow.capability ?? flow.namespace);
    if (flow?.user === user && provider?.auth && provider.namespace === flow.namespace) {
      if (flow.origin !== provider.origin) throw createOriginError(provider);
      return { flow, provider, auth: provider.auth };
    }
    if (!flow && FLOW_ID_PATTERN.test(id) && vault.peek(formatUsedKey(id))?.["user"] === user)
      throw createUsedFlowError();
    throw createUnknownFlowError();
  }
  /** It is over: whoever has its id now has nothing. */
  function takeFlow(id: string, flow: SignInFlow): void {
    if (vault.take(id) === undefined) throw createUsedFlowError();
    vault.take(formatPendingKey(flow, flow, flow.user));
    vault.put(formatUsedKey(id), { user: flow.user }, MAX_FLOW_SECONDS);
  }
  /** What was not its fault can be tried again. */
  function giveBack(id: string, flow: SignInFlow): void {
    vault.take(formatUsedKey(id));
    keep(id, flow);
  }
  function keep(id: string, flow: SignInFlow): void {
    const seconds = (flow.expiresAt - now()) / 1000;
    if (seconds <= 0) return;
    vault.put(id, flow as unknown as JsonObject, seconds);
    vault.put(formatPendingKey(flow, flow, flow.user), { id }, seconds);
  }
  async function signedIn(id: string, flow: SignInFlow, credential: Credential): Promise<AuthResult> {
    const { namespace, user, origin } = flow;
    const checked = validateCredential(namespace, credential);
    try {
      await agree?.(id, namespace, checked);
    } catch (error) {
      if (error instanceof SkillError && error.code === APPROVAL_PENDING) {
        giveBack(id, flow);
        vault.put(formatCredentialKey(id), checked as unknown as JsonObject, (flow.expiresAt - now()) / 1000);
      }
      throw error;
    }
    vault.set(namespace, user, checked, { origin });
    return { status: "signed-in", account: checked.account };
  }

  async function begin(provider: CapabilityProvider, request: AuthRequest, user: string, asking: SignInCallOptions) {
    const { namespace, origin, auth } = provider;
    if (!auth) throw createUnsupportedError(namespace);
    const pending = vault.peek(formatPendingKey(provider, request, user))?.["id"];
    const there = typeof pending === "string" ? (vault.peek(pending) as unknown as SignInFlow | undefined) : undefined;
    if (typeof pending === "string" && there?.user === user) return createBeginResult(pending, there, now());
    const begun = validateSignInStart(
      namespace,
      await callSignInProvider(provider, asking, (options) => auth.begin(request, options)),
    );
    const id = `flow_${randomBytes(16).toString("hex")}`;
    const { capability, scopes, context } = request;
    const flow: SignInFlow = {
      ...{ user, namespace, context, begun, expiresAt: now() + begun.expiresInSeconds * 1000 },
      ...omitUndefined({ capability, scopes, origin }),
    };
    keep(id, flow);
    return createBeginResult(id, flow, now());
  }

  async function complete(id: string, pasted: string, user: string, asking: SignInCallOptions): Promise<AuthResult> {
    const callback = parseSignInCallback(pasted);
    const { flow, provider, auth } = knownFlow(id, user);
    // Nothing is brought back from there but that it is done.
    if (flow.begun.kind === "device" && auth.poll) return poll(id, user, asking);
    requireMatchingState(flow, callback);
    takeFlow(id, flow);
    const refusal = findCallbackError(callback);
    if (refusal !== undefined) throw createDeniedError(flow.namespace, refusal);
    let credential = wonBefore(id);
    try {
      credential ??= await callSignInProvider(provider, asking, (options) =>
        auth.complete({ ...createAuthAnswer(flow), callback }, options),
      );
    } catch (error) {
      if (isTransientError(error)) giveBack(id, flow);
      throw redactFlowError(error, flow, callback);
    }
    return signedIn(id, flow, credential);
  }

  /** What waits for somebody's word is not asked for again: a code holds once. */
  function wonBefore(id: string): Credential | undefined {
    return vault.take(formatCredentialKey(id)) as Credential | undefined;
  }

  async function poll(id: string, user: string, asking: SignInCallOptions): Promise<AuthResult> {
    const { flow, provider, auth } = knownFlow(id, user);
    const asked = auth.poll?.bind(auth);
    // Whether a program can be asked is not known before: what it says of a sign-in that does not end elsewhere would end it.
    if (!asked || flow.begun.kind !== "device") throw createNotPollableError();
    const pending: AuthResult = { status: "pending", interval_seconds: flow.begun.intervalSeconds };
    const next = Number(vault.peek(formatPolledKey(id))?.["next"] ?? 0);
    if (now() < next) return pending;
    // Beside the flow, not in it: whoever took the flow meanwhile would find it put back.
    const interval = flow.begun.intervalSeconds;
    vault.put(formatPolledKey(id), { next: now() + interval * 1000 }, interval);
    let credential = wonBefore(id);
    try {
      credential ??= await callSignInProvider(provider, asking, (options) => asked(createAuthAnswer(flow), options));
    } catch (error) {
      if (!isTransientError(error)) takeFlow(id, flow);
      throw redactFlowError(error, flow);
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

  const noted = async <T>(method: string, at: AuditedSignIn, work: () => Promise<T>): Promise<T> => {
    const note = (outcome: string) => {
      const { run = "", skill = "", source = "" } = at.context ?? {};
      const said = omitUndefined({ user: at.user || undefined, capability: at.capability });
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
        const key = formatPendingKey(provider, request, user);
        const under = beginning.get(key) ?? begin(provider, request, user, asking);
        beginning.set(key, under);
        return under.finally(() => beginning.delete(key));
      }),
    complete: (id, pasted, user, asking = {}) =>
      noted("auth.complete", { user, ...omitUndefined({ capability: aimOf(id, user) }) }, () =>
        complete(id, pasted, user, asking),
      ),
    poll: (id, user, asking = {}) =>
      noted("auth.poll", { user, ...omitUndefined({ capability: aimOf(id, user) }) }, () => poll(id, user, asking)),
    aimOf,
  };
}

interface AuditedSignIn extends Partial<AuthRequest> {
  user: string;
}

const FLOW_ID_PATTERN = /^flow_[0-9a-f]{32}$/;
const MAX_FLOW_SECONDS = 3600;

const formatUsedKey = (id: string) => `${id}.used`;
const formatPolledKey = (id: string) => `${id}.polled`;
const formatCredentialKey = (id: string) => `${id}.won`;

function formatPendingKey(
  { namespace, origin }: Pick<CapabilityProvider, "namespace" | "origin">,
  { capability, scopes = [] }: Partial<AuthRequest>,
  user: string,
): string {
  // Ids can be read in the vault, and what a scope is called is for a skill's code to say.
  return `pending ${createShortDigest([namespace, origin ?? null, capability ?? null, [...scopes].sort(), user])}`;
}

function createAuthAnswer({ capability, scopes, context, begun }: SignInFlow): AuthCompletion {
  return { context, ...omitUndefined({ capability, scopes, state: begun.state }) };
}

/** Nothing of what the provider alone is to know. */
function createBeginResult(flow: string, { begun, expiresAt }: SignInFlow, now: number): AuthBeginResult {
  const { kind, message, url, userCode } = begun;
  return {
    ...{ flow, kind, message, expires_in_seconds: Math.max(0, Math.ceil((expiresAt - now) / 1000)) },
    ...omitUndefined({ url, user_code: userCode }),
    ...(kind === "device" ? { interval_seconds: begun.intervalSeconds } : {}),
  };
}

async function callSignInProvider<T>(
  provider: CapabilityProvider,
  { signal = new AbortController().signal }: SignInCallOptions,
  work: (options: ProviderOptions) => Promise<T>,
): Promise<T> {
  const { namespace, seconds } = provider;
  try {
    return await withProviderTimeout(async (inner) => work({ signal: inner }), { namespace, seconds, signal });
  } catch (error) {
    throw toProviderError(error, namespace);
  }
}

/** Whether the same may go well another time: what was pasted was wrong, or nobody answered. */
function isTransientError(error: unknown): boolean {
  const passing = ["input-invalid", "rate-limited", "unavailable", "provider-timeout", "provider-missing"];
  return error instanceof SkillError && passing.includes(error.code);
}

/** A provider may quote what it was given. */
function redactFlowError(error: unknown, { begun }: SignInFlow, callback?: AuthCallback): unknown {
  if (!(error instanceof SkillError)) return error;
  const secret = { ...begun.state, ...callback?.values, token: callback?.code ?? callback?.text };
  const { message, fix } = error;
  const said = filterCredentials({ message, fix }, collectCredentialSecrets({ account: "", secret }))
    .value as JsonObject;
  return new SkillError(error.code, { message: String(said["message"]), ...(fix ? { fix: String(said["fix"]) } : {}) });
}

/** An address that belongs to another sign-in may be one that somebody was lured into. */
function requireMatchingState({ begun }: SignInFlow, { state }: AuthCallback): void {
  const ours = begun.state?.["state"] ?? URL.parse(begun.url ?? "")?.searchParams.get("state");
  if (state === undefined || typeof ours !== "string" || state === ours) return;
  throw new SkillError("state-mismatch", {
    message: "What was pasted belongs to another sign-in than this one",
    fix: "open the address of this sign-in, and paste where it leads",
  });
}

// The same for one that never was, that has expired, and that is another's: which of them it is, is nobody's business.
function createUnknownFlowError(): SkillError {
  return new SkillError("flow-unknown", {
    message: "There is no such sign-in under way",
    fix: "begin it again; it holds for a few minutes, and only for whoever began it",
  });
}

function createOriginError({ namespace }: CapabilityProvider): SkillError {
  return new SkillError("flow-unknown", {
    message: `${namespace} is reached another way than when this sign-in was begun, so it is not gone on with`,
    fix: "begin it again, and bring back what that one gives",
  });
}

function createUsedFlowError(): SkillError {
  return new SkillError("flow-used", {
    message: "This sign-in is over: it was completed, or refused",
    fix: "go on if it was completed, else begin it again",
  });
}

function createDeniedError(namespace: string, said: string): SkillError {
  return new SkillError("denied", {
    message: `The sign-in to ${namespace} was refused there: ${sanitizeLine(said, 200)}`,
    fix: "begin it again if that was not meant",
  });
}

function createUnsupportedError(namespace: string): SkillError {
  return new SkillError("auth-unsupported", {
    message: `Nobody signs in to ${namespace} here`,
    fix: "look at what its provider needs: `skillet doctor` says it",
  });
}

function createNotPollableError(): SkillError {
  return new SkillError("auth-unsupported", {
    message: "This sign-in does not end by itself",
    fix: "complete it with what the user brings back",
  });
}

/** A step of signing in, asked for from a run. Contract: resolves. */
export async function handleSignIn(
  scene: BrokerContext,
  step: "begin" | "complete" | "poll",
  params: JsonObject,
): Promise<BrokerAnswer> {
  const { capability: named, flow } = params;
  // Before it is over: then nobody knows it any more.
  const aim = typeof named === "string" ? named : scene.auth.aimOf(String(flow), getUserId(scene.run));
  const answer = await performSignInStep(scene, step, params).catch((error) =>
    createErrorAnswer(error, scene.run.hide),
  );
  const outcome = answer.ok ? "ok" : answer.error.code;
  scene.audit({ method: `auth.${step}`, outcome, ...(aim === undefined ? {} : { capability: scene.run.hide(aim) }) });
  return answer;
}

async function performSignInStep(
  scene: BrokerContext,
  step: "begin" | "complete" | "poll",
  params: JsonObject,
): Promise<BrokerAnswer> {
  const { run, capabilities } = scene;
  const { signal, skill } = run;
  const user = getUserId(run);
  const { auth } = scene;
  const flow = String(params["flow"]);
  if (step === "complete")
    return createSuccessAnswer(await auth.complete(flow, String(params["callback"]), user, { signal }));
  if (step === "poll") return createSuccessAnswer(await auth.poll(flow, user, { signal }));
  const capability = String(params["capability"]);
  const refusal = refuseCapability(scene, capability);
  const provider = capabilities.providerOf(capability, skill);
  if (refusal || !provider) return refusal ?? createErrorAnswer(undefined, run.hide);
  if (++scene.signIns > MAX_SIGN_INS) {
    return refuseRequest(
      "quota-reached",
      `This run has begun ${MAX_SIGN_INS} sign-ins`,
      "go on with one of them, or end",
    );
  }
  const scopes = params["scopes"] as readonly string[] | undefined;
  const request = { capability, context: createProviderContext(run), ...omitUndefined({ scopes }) };
  return createSuccessAnswer(await auth.begin(provider, request, user, { signal }));
}

/** Each is kept in the vault for a while, where there is room for so many: no skill takes it from everybody else. */
const MAX_SIGN_INS = 10;

/**
 * Whose sign-in is kept is not for a skill's code to choose: from then on every skill that was given the capability acts as that account, and
 * writes where its owner reads. Throws a SkillError where nobody agrees.
 */
export async function approveSignIn(
  scene: BrokerContext,
  flow: string,
  { namespace, credential }: { namespace: string; credential: Credential },
): Promise<void> {
  const { run } = scene;
  const { account, scopes = [] } = credential;
  const say = (text: string) => sanitizeLine(run.hide(text), 300);
  const effect: ApprovalRequest = {
    ...{ run: run.run, skill: run.skill.name, source: run.skill.origin.source, place: run.place },
    tool: `${namespace}.sign-in`,
    input: { account: say(account), ...(scopes.length > 0 ? { scopes: scopes.map(say) } : {}) },
    on: "outside",
    what: `Keeps this sign-in: from now on all skills that were given ${namespace} act as ${say(account)}.`,
    where: `${namespace}, as ${say(account)}`,
    isReversible: true,
    reason: "it changes something outside of the workspace",
    isOnce: true,
  };
  const refusal = await requestBrokerApproval(scene, { name: `approval:auth.${flow}`, effect, about: effect.tool });
  if (refusal) throw new SkillError(refusal.error.code, refusal.error);
}

function createSuccessAnswer(result: object): BrokerAnswer {
  return { ok: true, result: { ...result } };
}
