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
  /** Returns the provider of a capability or namespace, if the caller may know about it. */
  findProvider(id: string): CapabilityProvider | undefined;
  audit?: Audit;
  /** Requests approval for storing a sign-in that code could have supplied. Throws a SkillError if it is not granted. */
  approve?(flow: string, namespace: string, credential: Credential): Promise<void>;
  now?: () => number;
}

/**
 * Sign-in flows: begun, then completed with the user's input, or polled until they are done. Each can be used once, by the user who began
 * it; for all others it does not exist. Every method throws a SkillError with a fix.
 */
export interface SignInFlows {
  /** Begins a sign-in, or returns the pending one for the same request. */
  begin(
    provider: CapabilityProvider,
    request: AuthRequest,
    user: string,
    options?: SignInCallOptions,
  ): Promise<AuthBeginResult>;
  complete(flow: string, pasted: string, user: string, options?: SignInCallOptions): Promise<AuthResult>;
  poll(flow: string, user: string, options?: SignInCallOptions): Promise<AuthResult>;
  /** Returns the capability or namespace of a pending sign-in. Contract: does not throw. */
  getTarget(flow: string, user: string): Promise<string | undefined>;
}

type SignInCallOptions = Partial<Pick<ProviderOptions, "signal">>;

/** A pending sign-in, as stored in the vault. */
interface SignInFlow {
  user: string;
  namespace: string;
  /** The origin of the provider it was begun with: the user's input goes to no other. */
  origin?: string;
  capability?: string;
  scopes?: readonly string[];
  context: AuthRequest["context"];
  begun: AuthChallenge & { expiresInSeconds: number; intervalSeconds: number };
  expiresAt: number;
}

export function createSignInFlows({ vault, findProvider, audit, approve, now = Date.now }: SignInOptions): SignInFlows {
  const beginning = new Map<string, Promise<AuthBeginResult>>();

  async function requireFlow(
    id: string,
    user: string,
  ): Promise<{ flow: SignInFlow; provider: CapabilityProvider; auth: ProviderAuth }> {
    const flow = FLOW_ID_PATTERN.test(id) ? ((await vault.peek(id)) as unknown as SignInFlow | undefined) : undefined;
    const provider = flow && findProvider(flow.capability ?? flow.namespace);
    if (flow?.user === user && provider?.auth && provider.namespace === flow.namespace) {
      if (flow.origin !== provider.origin) throw createOriginError(provider);
      return { flow, provider, auth: provider.auth };
    }
    if (!flow && FLOW_ID_PATTERN.test(id) && (await vault.peek(formatUsedKey(id)))?.["user"] === user)
      throw createUsedFlowError();
    throw createUnknownFlowError();
  }
  /** Ends a flow: its id is worthless from now on. */
  async function takeFlow(id: string, flow: SignInFlow): Promise<void> {
    if ((await vault.take(id)) === undefined) throw createUsedFlowError();
    await vault.take(formatPendingKey(flow, flow, flow.user));
    await vault.put(formatUsedKey(id), { user: flow.user }, MAX_FLOW_SECONDS);
  }
  /** Restores a flow after a transient failure, so that it can be tried again. */
  async function restoreFlow(id: string, flow: SignInFlow): Promise<void> {
    await vault.take(formatUsedKey(id));
    await storeFlow(id, flow);
  }
  async function storeFlow(id: string, flow: SignInFlow): Promise<void> {
    const seconds = (flow.expiresAt - now()) / 1000;
    if (seconds <= 0) return;
    await vault.put(id, flow as unknown as JsonObject, seconds);
    await vault.put(formatPendingKey(flow, flow, flow.user), { id }, seconds);
  }
  async function storeCredential(id: string, flow: SignInFlow, credential: Credential): Promise<AuthResult> {
    const { namespace, user, origin } = flow;
    const checked = validateCredential(namespace, credential);
    try {
      await approve?.(id, namespace, checked);
    } catch (error) {
      if (error instanceof SkillError && error.code === APPROVAL_PENDING) {
        await restoreFlow(id, flow);
        await vault.put(formatCredentialKey(id), checked as unknown as JsonObject, (flow.expiresAt - now()) / 1000);
      }
      throw error;
    }
    await vault.set(namespace, user, checked, { origin });
    return { status: "signed-in", account: checked.account };
  }

  async function begin(provider: CapabilityProvider, request: AuthRequest, user: string, options: SignInCallOptions) {
    const { namespace, origin, auth } = provider;
    if (!auth) throw createUnsupportedError(namespace);
    const pending = (await vault.peek(formatPendingKey(provider, request, user)))?.["id"];
    const existing =
      typeof pending === "string" ? ((await vault.peek(pending)) as unknown as SignInFlow | undefined) : undefined;
    if (typeof pending === "string" && existing?.user === user) return createBeginResult(pending, existing, now());
    const begun = validateSignInStart(
      namespace,
      await callSignInProvider(provider, options, (call) => auth.begin(request, call)),
    );
    const id = `flow_${randomBytes(16).toString("hex")}`;
    const { capability, scopes, context } = request;
    const flow: SignInFlow = {
      ...{ user, namespace, context, begun, expiresAt: now() + begun.expiresInSeconds * 1000 },
      ...omitUndefined({ capability, scopes, origin }),
    };
    await storeFlow(id, flow);
    return createBeginResult(id, flow, now());
  }

  async function complete(id: string, pasted: string, user: string, options: SignInCallOptions): Promise<AuthResult> {
    const callback = parseSignInCallback(pasted);
    const { flow, provider, auth } = await requireFlow(id, user);
    // A device flow has no callback: it is only polled.
    if (flow.begun.kind === "device" && auth.poll) return poll(id, user, options);
    requireMatchingState(flow, callback);
    await takeFlow(id, flow);
    const refusal = findCallbackError(callback);
    if (refusal !== undefined) throw createDeniedError(flow.namespace, refusal);
    let credential = await takeApprovedCredential(id);
    try {
      credential ??= await callSignInProvider(provider, options, (call) =>
        auth.complete({ ...createAuthAnswer(flow), callback }, call),
      );
    } catch (error) {
      if (isTransientError(error)) await restoreFlow(id, flow);
      throw redactFlowError(error, flow, callback);
    }
    return storeCredential(id, flow, credential);
  }

  /** Returns the credential that waited for an approval. It is not requested again: a code can be used once. */
  async function takeApprovedCredential(id: string): Promise<Credential | undefined> {
    return (await vault.take(formatCredentialKey(id))) as Credential | undefined;
  }

  async function poll(id: string, user: string, options: SignInCallOptions): Promise<AuthResult> {
    const { flow, provider, auth } = await requireFlow(id, user);
    const pollProvider = auth.poll?.bind(auth);
    // Only device flows are polled: for other kinds, the program's answer could end the flow.
    if (!pollProvider || flow.begun.kind !== "device") throw createNotPollableError();
    const pending: AuthResult = { status: "pending", interval_seconds: flow.begun.intervalSeconds };
    // Stored next to the flow, not in it: writing the flow would restore one that was taken meanwhile.
    if (!(await vault.putIfAbsent(formatPolledKey(id), {}, flow.begun.intervalSeconds))) return pending;
    let credential = await takeApprovedCredential(id);
    try {
      credential ??= await callSignInProvider(provider, options, (call) => pollProvider(createAuthAnswer(flow), call));
    } catch (error) {
      if (!isTransientError(error)) await takeFlow(id, flow);
      throw redactFlowError(error, flow);
    }
    if (!credential) return pending;
    await takeFlow(id, flow);
    return storeCredential(id, flow, credential);
  }

  async function getTarget(id: string, user: string): Promise<string | undefined> {
    try {
      const { flow } = await requireFlow(id, user);
      return flow.capability ?? flow.namespace;
    } catch {
      return undefined; // The next step reports the reason.
    }
  }

  const withAudit = async <T>(method: string, at: AuditedSignIn, work: () => Promise<T>): Promise<T> => {
    const record = async (outcome: string) => {
      const { run = "", skill = "", source = "" } = at.context ?? {};
      const optional = omitUndefined({ user: at.user || undefined, capability: at.capability });
      await audit?.add({ run, skill, source, method, outcome, ...optional });
    };
    const result = await work().catch(async (error: unknown) => {
      await record(error instanceof SkillError ? error.code : "error");
      throw error;
    });
    await record("ok");
    return result;
  };
  return {
    begin: (provider, request, user, options = {}) =>
      withAudit("auth.begin", { user, ...request }, () => {
        const key = formatPendingKey(provider, request, user);
        const pending = beginning.get(key) ?? begin(provider, request, user, options);
        beginning.set(key, pending);
        return pending.finally(() => beginning.delete(key));
      }),
    complete: async (id, pasted, user, options = {}) =>
      withAudit("auth.complete", { user, ...omitUndefined({ capability: await getTarget(id, user) }) }, () =>
        complete(id, pasted, user, options),
      ),
    poll: async (id, user, options = {}) =>
      withAudit("auth.poll", { user, ...omitUndefined({ capability: await getTarget(id, user) }) }, () =>
        poll(id, user, options),
      ),
    getTarget,
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
  // Hashed: ids are cleartext in the vault, and a skill's code chooses the names of scopes.
  return `pending ${createShortDigest([namespace, origin ?? null, capability ?? null, [...scopes].sort(), user])}`;
}

function createAuthAnswer({ capability, scopes, context, begun }: SignInFlow): AuthCompletion {
  return { context, ...omitUndefined({ capability, scopes, state: begun.state }) };
}

/** Returns the public part of a flow, without the provider's state. */
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

/** Returns true if a retry may succeed: the input was wrong, or the provider did not answer. */
function isTransientError(error: unknown): boolean {
  const transient = ["input-invalid", "rate-limited", "unavailable", "provider-timeout", "provider-missing"];
  return error instanceof SkillError && transient.includes(error.code);
}

/** Redacts an error: a provider may quote its input. */
function redactFlowError(error: unknown, { begun }: SignInFlow, callback?: AuthCallback): unknown {
  if (!(error instanceof SkillError)) return error;
  const secret = { ...begun.state, ...callback?.values, token: callback?.code ?? callback?.text };
  const { message, fix } = error;
  const redacted = filterCredentials({ message, fix }, collectCredentialSecrets({ account: "", secret }))
    .value as JsonObject;
  return new SkillError(error.code, {
    message: String(redacted["message"]),
    ...(fix ? { fix: String(redacted["fix"]) } : {}),
  });
}

/** Refuses a URL of another sign-in: the user may have been lured into it (login CSRF). */
function requireMatchingState({ begun }: SignInFlow, { state }: AuthCallback): void {
  const ours = begun.state?.["state"] ?? URL.parse(begun.url ?? "")?.searchParams.get("state");
  if (state === undefined || typeof ours !== "string" || state === ours) return;
  throw new SkillError("state-mismatch", {
    message: "The pasted text belongs to another sign-in",
    fix: "open the URL of this sign-in, and paste the URL it redirects to",
  });
}

// The same error for an unknown, an expired and another user's flow, so that it reveals nothing.
function createUnknownFlowError(): SkillError {
  return new SkillError("flow-unknown", {
    message: "No such sign-in is pending",
    fix: "begin it again; it expires after a few minutes, and only its user can complete it",
  });
}

function createOriginError({ namespace }: CapabilityProvider): SkillError {
  return new SkillError("flow-unknown", {
    message: `The provider of ${namespace} has changed since this sign-in was begun, so it cannot be completed`,
    fix: "begin it again",
  });
}

function createUsedFlowError(): SkillError {
  return new SkillError("flow-used", {
    message: "This sign-in has ended: it was completed or refused",
    fix: "continue if it was completed, otherwise begin it again",
  });
}

function createDeniedError(namespace: string, reason: string): SkillError {
  return new SkillError("denied", {
    message: `${namespace} refused the sign-in: ${sanitizeLine(reason, 200)}`,
    fix: "begin it again if that was a mistake",
  });
}

function createUnsupportedError(namespace: string): SkillError {
  return new SkillError("auth-unsupported", {
    message: `${namespace} has no sign-in`,
    fix: "to see what its provider needs",
    commands: ["skillet doctor"],
  });
}

function createNotPollableError(): SkillError {
  return new SkillError("auth-unsupported", {
    message: "This sign-in cannot be polled",
    fix: "complete it with the URL or code from the user",
  });
}

/** Performs a sign-in step for a run. Contract: resolves. */
export async function handleSignIn(
  context: BrokerContext,
  step: "begin" | "complete" | "poll",
  params: JsonObject,
): Promise<BrokerAnswer> {
  const { capability: named, flow } = params;
  // Looked up first: a flow that has ended is unknown.
  const target = typeof named === "string" ? named : await context.auth.getTarget(String(flow), getUserId(context.run));
  const answer = await performSignInStep(context, step, params).catch((error) =>
    createErrorAnswer(error, context.run.redact),
  );
  const outcome = answer.ok ? "ok" : answer.error.code;
  await context.audit({
    method: `auth.${step}`,
    outcome,
    ...(target === undefined ? {} : { capability: context.run.redact(target) }),
  });
  return answer;
}

async function performSignInStep(
  context: BrokerContext,
  step: "begin" | "complete" | "poll",
  params: JsonObject,
): Promise<BrokerAnswer> {
  const { run, capabilities } = context;
  const { signal, skill } = run;
  const user = getUserId(run);
  const { auth } = context;
  const flow = String(params["flow"]);
  if (step === "complete")
    return createSuccessAnswer(await auth.complete(flow, String(params["callback"]), user, { signal }));
  if (step === "poll") return createSuccessAnswer(await auth.poll(flow, user, { signal }));
  const capability = String(params["capability"]);
  const refusal = refuseCapability(context, capability);
  const provider = capabilities.findProvider(capability, skill);
  if (refusal || !provider) return refusal ?? createErrorAnswer(undefined, run.redact);
  if (++context.counts.signIns > MAX_SIGN_INS) {
    return refuseRequest(
      "quota-exceeded",
      `This run has begun ${MAX_SIGN_INS} sign-ins`,
      "continue one of them, or end",
    );
  }
  const scopes = params["scopes"] as readonly string[] | undefined;
  const request = { capability, context: createProviderContext(run), ...omitUndefined({ scopes }) };
  return createSuccessAnswer(await auth.begin(provider, request, user, { signal }));
}

/** Each flow takes space in the vault: one skill must not use all of it. */
const MAX_SIGN_INS = 10;

/**
 * Requests approval for storing a sign-in. A skill's code must not choose the account: from then on every skill with the capability acts as
 * that account, and writes where its owner reads. Throws a SkillError if it is not approved.
 */
export async function approveSignIn(
  context: BrokerContext,
  flow: string,
  { namespace, credential }: { namespace: string; credential: Credential },
): Promise<void> {
  const { run } = context;
  const { account, scopes = [] } = credential;
  const clean = (text: string) => sanitizeLine(run.redact(text), 300);
  const request: ApprovalRequest = {
    ...{ run: run.run, skill: run.skill.name, source: run.skill.origin.source, location: run.path },
    tool: `${namespace}.sign-in`,
    input: { account: clean(account), ...(scopes.length > 0 ? { scopes: scopes.map(clean) } : {}) },
    on: "outside",
    what: `Stores this sign-in: from now on all skills that were granted ${namespace} act as ${clean(account)}.`,
    where: `${namespace}, as ${clean(account)}`,
    isReversible: true,
    reason: "it changes something outside of the workspace",
    isOnce: true,
  };
  const refusal = await requestBrokerApproval(context, {
    name: `approval:auth.${flow}`,
    request,
    label: request.tool,
  });
  if (refusal) throw new SkillError(refusal.error.code, refusal.error);
}

function createSuccessAnswer(result: object): BrokerAnswer {
  return { ok: true, result: { ...result } };
}
