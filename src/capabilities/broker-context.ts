import { hash } from "node:crypto";
import { SkillError } from "../errors/problem.ts";
import type { Approval, ApprovalRequest } from "../host/approval.ts";
import type {
  AuditEntry,
  Capabilities,
  CapabilityProvider,
  OperationDescription,
  ProviderContext,
  ProviderDescription,
} from "../host/capability-contract.ts";
import type { Caller } from "../host/host-policy.ts";
import type { Skill } from "../skill/skill.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { stringifyCanonical } from "./audit-log.ts";
import { type BrokerAnswer, type BrokerProblem, refuseRequest } from "./broker-protocol.ts";
import { createNameDeduplicator } from "./credential-filter.ts";
import { withProviderTimeout } from "./provider-contract.ts";
import type { SignInFlows } from "./sign-in-flows.ts";

/** A run, as its broker knows it. Nothing of it is ever taken from a request. */
export interface BrokerRun {
  run: string;
  skill: Skill;
  /** The skill's folder or file. */
  place: string;
  caller: Caller | undefined;
  /** Until when what it is given holds, as `Date.now` counts: later by as long as people were waited for. */
  until(): number;
  signal: AbortSignal;
  /** Returns why the skill may not act any more: it was disabled since the run began. */
  revoked?(): BrokerProblem | undefined;
  /** Takes what nobody is shown out of a text. */
  hide(text: string): string;
  /** As those of a port: what was done is remembered, also when the program is killed. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  done<T>(name: string): { value: T } | undefined;
  /** Somebody's word. Throws when the run goes no further until there is one. Ends with the signal: then nobody is asked any more. */
  agree(name: string, effect: ApprovalRequest, signal: AbortSignal): Promise<Approval>;
  /** Where the words of an input come from, as far as that is from others; and what came from others now. */
  originsOf(value: unknown, schema: JsonObject): readonly string[];
  addOrigin(label: string, text: string): void;
  /** Called with what came of each call. */
  onCalled?(called: CapabilityOutcome): void;
}

/** What came of a call, for whoever looks on. */
export interface CapabilityOutcome {
  capability: string;
  operation: string;
  /** `ok`, or the code of what refused it. */
  outcome: string;
  ms: number;
}

/** What all calls of one run share. */
export interface BrokerContext {
  run: BrokerRun;
  capabilities: Capabilities;
  /** Which call of the run is being made. */
  place: string;
  /** How many were made, and how many sign-ins begun. */
  calls: number;
  signIns: number;
  /** What somebody was asked about, by the names of the questions. */
  asked: Set<string>;
  /** How often the same was asked at one place. */
  seen: Map<string, number>;
  /** Words that were given, by their id, and what for. They are used at once, and hold for nothing more. */
  words: Map<string, string>;
  /** What was asked for with a key. */
  keyed: Map<string, { digest: string; answer: Promise<unknown> }>;
  descriptions: Map<CapabilityProvider, Promise<ProviderDescription>>;
  auth: SignInFlows;
  /** Why the run goes no further for now. */
  halt(): void;
  audit(entry: Pick<AuditEntry, "method" | "outcome"> & Partial<AuditEntry>): void;
}

export function getUserId({ caller }: BrokerRun): string {
  return caller?.userId ?? "";
}

export function createProviderContext({ run, skill, caller }: BrokerRun): ProviderContext {
  const { chatId, chatType, userId } = caller ?? {};
  const chat = omitUndefined({ id: chatId, type: chatType });
  return { run, skill: skill.name, source: skill.origin.source, ...omitUndefined({ user: userId }), chat };
}

/** What a provider serves, asked once a run. Contract: ends with the run, or when the provider has had its time. */
export function loadProviderDescription(
  scene: BrokerContext,
  provider: CapabilityProvider,
): Promise<ProviderDescription> {
  const known = scene.descriptions.get(provider);
  if (known) return known;
  const { namespace, seconds } = provider;
  const { signal } = scene.run;
  const asked = withProviderTimeout(async (inner) => provider.describe({ signal: inner }), {
    namespace,
    seconds,
    signal,
  });
  scene.descriptions.set(provider, asked);
  asked.catch(() => scene.descriptions.delete(provider));
  return asked;
}

export async function findProviderOperation(
  scene: BrokerContext,
  provider: CapabilityProvider,
  capability: string,
  operation: string,
): Promise<{ found: OperationDescription } | { names: readonly string[] }> {
  const { capabilities } = await loadProviderDescription(scene, provider);
  const operations = capabilities.find(({ id }) => id === capability)?.operations ?? [];
  const found = operations.find(({ name }) => name === operation);
  return found ? { found } : { names: operations.map(({ name }) => name) };
}

/** The same for the same value, whatever the order of its keys. */
export function digestJson(value: unknown): string {
  return `sha256:${hash("sha256", stringifyCanonical(value))}`;
}

/** A short name for a value, which nobody can give to another one. */
export function createShortDigest(value: unknown): string {
  return digestJson(value).slice("sha256:".length, "sha256:".length + 32);
}

/** JSON without what nobody is shown, be it a text, a number or a name. Contract: no value is lost, also where two names become one. */
export function redactJson(value: unknown, hide: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => redactJson(item, hide));
  if (isJsonObject(value)) {
    const freeName = createNameDeduplicator();
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [freeName(hide(key)), redactJson(item, hide)]),
    );
  }
  const shown = hide(String(value));
  return shown === String(value) ? value : shown;
}

interface BrokerQuestion {
  /** The same for the same question, however often the run is gone on with. */
  name: string;
  effect: ApprovalRequest;
  /** What it is known by, for whoever waits. */
  about: string;
  /** Ends when whoever asked is gone. */
  gone?: AbortSignal | undefined;
}

/** Asks whether something may be done, now and once. Gives why it is not. */
export async function requestBrokerApproval(
  scene: BrokerContext,
  { name, effect, about, gone }: BrokerQuestion,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { run } = scene;
  const tooMany = await countApprovalQuestion(scene, name);
  if (tooMany) return tooMany;
  const signal = AbortSignal.any([run.signal, ...(gone ? [gone] : [])]);
  let word: Approval;
  try {
    word = await run.agree(name, effect, signal);
  } catch (error) {
    if (signal.aborted) return refuseWithdrawnRequest();
    if (!(error instanceof SkillError && error.code === "halted")) throw error;
    scene.halt();
    return refuseRequest(
      APPROVAL_PENDING,
      `It waits for the user to agree (${about})`,
      "end here: the run goes on when there is a word",
    );
  }
  if (signal.aborted) return refuseWithdrawnRequest();
  if (word.isApproved) return undefined;
  const why = word.reason ? `: ${run.hide(word.reason)}` : "";
  return refuseRequest(
    "not-approved",
    `The user did not agree${why}`,
    "do not ask for the same again; find another way, or end",
  );
}

export const APPROVAL_PENDING = "approval-pending";
export const REQUEST_WITHDRAWN = "request-withdrawn";

/** A word for whoever is not there any more is none: nothing is done behind a run's back. */
function refuseWithdrawnRequest(): BrokerAnswer & { ok: false } {
  return refuseRequest(
    REQUEST_WITHDRAWN,
    "Nobody waits for it any more: it was not done",
    "ask again, and wait for the answer",
  );
}

/** How much a run may ask of providers. Counted when one is about to be asked. */
export function countCall(scene: BrokerContext): (BrokerAnswer & { ok: false }) | undefined {
  const { calls } = scene.capabilities.quota;
  if (scene.calls >= calls) return refuseOverQuota(`${calls} calls of capabilities`, "calls_per_run");
  scene.calls++;
  return undefined;
}

/**
 * How often its user is asked about a change. Counted with the question, and written down: who asks until somebody is tired, or lets the run
 * wait each time, gets no more answers than others.
 */
async function countApprovalQuestion(
  scene: BrokerContext,
  question: string,
): Promise<(BrokerAnswer & { ok: false }) | undefined> {
  const { changes } = scene.capabilities.quota;
  const { run, asked } = scene;
  if (asked.size === 0) for (const name of readAskedQuestions(scene)) asked.add(name);
  if (asked.has(question)) return undefined;
  if (asked.size >= changes)
    return refuseOverQuota(`${changes} changes, with those that were not agreed to`, "changes_per_run");
  const step = formatQuestionStep(asked.size);
  asked.add(question);
  await run.step(step, async () => question);
  return undefined;
}

function* readAskedQuestions({ run }: BrokerContext): Generator<string> {
  for (let number = 0; ; number++) {
    const known = run.done<string>(formatQuestionStep(number));
    if (!known) return;
    yield known.value;
  }
}

function formatQuestionStep(number: number): string {
  return `capability-asked:${number}`;
}

function refuseOverQuota(what: string, key: string): BrokerAnswer & { ok: false } {
  return refuseRequest(
    "quota-reached",
    `This run has made all of its ${what}`,
    `finish with what there is; the operator's limit is [capabilities] ${key} in config.toml`,
  );
}
