import { hash } from "node:crypto";
import { type Problem, SkillError } from "../errors/problem.ts";
import { type Approval, type ApprovalRequest, type Caller, formatPersonKey } from "../host/approval.ts";
import type {
  AuditEntry,
  Capabilities,
  CapabilityProvider,
  Credential,
  OperationDescription,
  ProviderContext,
  ProviderDescription,
  Vault,
} from "../host/capability-contract.ts";
import type { Skill } from "../skill/skill.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { stringifyCanonical } from "./audit-log.ts";
import { type BrokerAnswer, refuseRequest } from "./broker-protocol.ts";
import { createNameDeduplicator } from "./credential-filter.ts";
import { withProviderTimeout } from "./provider-contract.ts";
import type { SignInFlows } from "./sign-in-flows.ts";

/** A run as its broker knows it. No field is ever taken from a request. */
export interface BrokerRun {
  run: string;
  skill: Skill;
  /** The skill's folder or file. */
  path: string;
  caller: Caller | undefined;
  /** The time until which its tokens are valid, in `Date.now` milliseconds. It moves back while the run waits for people. */
  getDeadline(): number;
  signal: AbortSignal;
  /** Returns the reason if the skill was disabled after the run began. */
  findRevocation?(): Problem | undefined;
  /** Removes secrets from a text. */
  redact(text: string): string;
  /** Runs and records a step as `StepRunner` does: the result survives a kill of the program. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  findStep<T>(name: string): { value: T } | undefined;
  /** Runs work that leaves this process as `StepRunner` does. */
  underLease<T>(work: () => Promise<T>): Promise<T>;
  /** Requests an approval. Throws if the run must halt until it is granted. Aborting the signal withdraws the request. */
  requestApproval(name: string, request: ApprovalRequest, signal: AbortSignal, callId: string): Promise<Approval>;
  /** Returns the untrusted sources that an input's text came from. `addOrigin` records text that arrives now. */
  findOrigins(value: unknown, schema: JsonObject): readonly string[];
  addOrigin(label: string, text: string): void;
  /** Called with the outcome of each call. */
  onCalled?(called: CapabilityOutcome): void;
}

/** The outcome of a call, for observers. */
export interface CapabilityOutcome {
  capability: string;
  operation: string;
  /** `ok`, or the error code of the refusal. */
  outcome: string;
  ms: number;
}

/** The state of a broker: shared by all calls of one run, except for the call itself and its repeated requests. */
export interface BrokerContext {
  run: BrokerRun;
  capabilities: Capabilities;
  /** The tool call that the requests belong to. */
  callId: string;
  /** The number of calls made, and of sign-ins begun, in the whole run. */
  counts: { calls: number; signIns: number };
  /** The approval questions asked so far, by name. */
  questions: Set<string>;
  /** The number of identical requests within this tool call. */
  repeatCounts: Map<string, number>;
  /** Approvals by id, with the digest of the call they cover. Each is used up at once and covers nothing else. */
  usedApprovals: Map<string, string>;
  /** Answers to requests that had an idempotency key. */
  answersByKey: Map<string, { digest: string; answer: Promise<unknown> }>;
  descriptions: Map<CapabilityProvider, Promise<ProviderDescription>>;
  auth: SignInFlows;
  /** Halts the run until an approval is granted. */
  halt(): void;
  audit(entry: Pick<AuditEntry, "method" | "outcome"> & Partial<AuditEntry>): Promise<void>;
}

/** Returns the key of the caller in the vault. */
export function getUserId({ caller }: BrokerRun): string {
  return formatPersonKey(caller);
}

export function createProviderContext({ run, skill, caller }: BrokerRun): ProviderContext {
  const { chatId, chatType, userId } = caller ?? {};
  const chat = omitUndefined({ id: chatId, type: chatType });
  return { run, skill: skill.name, source: skill.origin.source, ...omitUndefined({ user: userId }), chat };
}

/** Returns what a provider serves; loaded once per run. Contract: ends with the run, or when the provider's timeout passes. */
export function loadProviderDescription(
  context: BrokerContext,
  provider: CapabilityProvider,
): Promise<ProviderDescription> {
  const known = context.descriptions.get(provider);
  if (known) return known;
  const { namespace, seconds } = provider;
  const { signal } = context.run;
  const description = withProviderTimeout(async (inner) => provider.describe({ signal: inner }), {
    namespace,
    seconds,
    signal,
  });
  context.descriptions.set(provider, description);
  description.catch(() => context.descriptions.delete(provider));
  return description;
}

export async function findProviderOperation(
  context: BrokerContext,
  provider: CapabilityProvider,
  capability: string,
  operation: string,
): Promise<{ found: OperationDescription } | { names: readonly string[] }> {
  const { capabilities } = await loadProviderDescription(context, provider);
  const operations = capabilities.find(({ id }) => id === capability)?.operations ?? [];
  const found = operations.find(({ name }) => name === operation);
  return found ? { found } : { names: operations.map(({ name }) => name) };
}

/** Returns the same digest for equal values, whatever the order of their keys. */
export function digestJson(value: unknown): string {
  return `sha256:${hash("sha256", stringifyCanonical(value))}`;
}

/** Returns a short, collision-resistant id for a value. */
export function createShortDigest(value: unknown): string {
  return digestJson(value).slice("sha256:".length, "sha256:".length + 32);
}

/** Redacts the texts, numbers and keys of a JSON value. Contract: no value is lost, even if two keys become equal. */
export function redactJson(value: unknown, redact: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => redactJson(item, redact));
  if (isJsonObject(value)) {
    const freeName = createNameDeduplicator();
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [freeName(redact(key)), redactJson(item, redact)]),
    );
  }
  const shown = redact(String(value));
  return shown === String(value) ? value : shown;
}

interface BrokerQuestion {
  /** Identical for the same question, however often the run is resumed. */
  name: string;
  request: ApprovalRequest;
  /** The name shown to the user who waits for it. */
  label: string;
  /** Aborts when the client disconnects. */
  clientSignal?: AbortSignal | undefined;
}

/** Requests approval for one action, to be done now and once. Returns the refusal if it is not granted. */
export async function requestBrokerApproval(
  context: BrokerContext,
  { name, request, label, clientSignal }: BrokerQuestion,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { run } = context;
  const tooMany = await countApprovalQuestion(context, name);
  if (tooMany) return tooMany;
  const signal = AbortSignal.any([run.signal, ...(clientSignal ? [clientSignal] : [])]);
  let approval: Approval;
  try {
    approval = await run.requestApproval(name, request, signal, context.callId);
  } catch (error) {
    if (signal.aborted) return refuseWithdrawnRequest();
    if (!(error instanceof SkillError && error.code === "halted")) throw error;
    context.halt();
    return refuseRequest(
      APPROVAL_PENDING,
      `Waiting for the user's approval (${label})`,
      "end here: the run resumes after the approval",
    );
  }
  if (signal.aborted) return refuseWithdrawnRequest();
  if (approval.isApproved) return undefined;
  const why = approval.reason ? `: ${run.redact(approval.reason)}` : "";
  return refuseRequest(
    "not-approved",
    `The user did not approve it${why}`,
    "do not request the same again; find another way, or end",
  );
}

export const APPROVAL_PENDING = "approval-pending";
export const REQUEST_WITHDRAWN = "request-withdrawn";

/** An approval that arrives after the requester has gone is ignored: nothing happens that the run does not know about. */
function refuseWithdrawnRequest(): BrokerAnswer & { ok: false } {
  return refuseRequest(
    REQUEST_WITHDRAWN,
    "The request was withdrawn: nothing was done",
    "send it again, and wait for the answer",
  );
}

/** Counts a call against the run's quota, just before a provider is called. */
export function countCall(context: BrokerContext): (BrokerAnswer & { ok: false }) | undefined {
  const { calls } = context.capabilities.quota;
  if (context.counts.calls >= calls) return refuseOverQuota(`${calls} capability calls`, "calls_per_run");
  context.counts.calls++;
  return undefined;
}

/**
 * Counts an approval question against the run's quota and records it. A skill cannot get more answers by asking until the user gives in,
 * or by halting the run each time.
 */
async function countApprovalQuestion(
  context: BrokerContext,
  question: string,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { changes } = context.capabilities.quota;
  const { run, questions: asked } = context;
  if (asked.size === 0) for (const name of readAskedQuestions(context)) asked.add(name);
  if (asked.has(question)) return undefined;
  if (asked.size >= changes)
    return refuseOverQuota(`${changes} changes, including those that were not approved`, "changes_per_run");
  const step = formatQuestionStep(asked.size);
  asked.add(question);
  await run.step(step, async () => question);
  return undefined;
}

function* readAskedQuestions({ run }: BrokerContext): Generator<string> {
  for (let number = 0; ; number++) {
    const known = run.findStep<string>(formatQuestionStep(number));
    if (!known) return;
    yield known.value;
  }
}

function formatQuestionStep(number: number): string {
  return `capability-asked:${number}`;
}

function refuseOverQuota(what: string, key: string): BrokerAnswer & { ok: false } {
  return refuseRequest(
    "quota-exceeded",
    `This run has used all of its ${what}`,
    `finish with the results so far; the operator's limit is [capabilities] ${key} in config.toml`,
  );
}

/** Providers renew a credential shortly before it expires. Then one process at a time uses it, so that it is renewed once. */
const EXPIRY_MARGIN_MS = 5 * 60_000;

/** The credential to use for a call. `end`: the call is over. */
interface ReservedCredential {
  credential: Credential | undefined;
  end(): Promise<void>;
}

/** Waits for the renewal of an expiring credential by another process, or reserves it for this one. */
export async function reserveRenewal(
  vault: Vault,
  namespace: string,
  { user, credential, origin, seconds }: RenewalOptions,
): Promise<ReservedCredential> {
  const unreserved = { credential, end: async () => {} };
  if (!credential || !isExpiring(credential)) return unreserved;
  const renewal = await vault.beginRenewal?.(namespace, { user, account: credential.account, origin }, seconds);
  if (!renewal || isExpiring(renewal.credential)) return renewal ?? unreserved;
  await renewal.end();
  return { ...unreserved, credential: renewal.credential };
}

interface RenewalOptions {
  user: string;
  credential: Credential | undefined;
  origin: string | undefined;
  seconds: number;
}

function isExpiring({ expiresAt }: Credential): boolean {
  return expiresAt !== undefined && Date.parse(expiresAt) < Date.now() + EXPIRY_MARGIN_MS;
}
