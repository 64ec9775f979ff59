import { hash } from "node:crypto";
import type { Approval, Effect } from "../host/approvals.ts";
import type { Caller } from "../host/caller.ts";
import type {
  AuditEntry,
  Capabilities,
  CapabilityProvider,
  OperationDescription,
  ProviderContext,
  ProviderDescription,
} from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Skill } from "../skill/skill.ts";
import type { Refusal } from "./answer.ts";
import { canonical } from "./audit-chain.ts";
import type { Auth } from "./auth.ts";
import { openNames } from "./filter.ts";
import { inTime } from "./provider-error.ts";

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
  revoked?(): Refusal | undefined;
  /** Takes what nobody is shown out of a text. */
  hide(text: string): string;
  /** As those of a port: what was done is remembered, also when the program is killed. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  done<T>(name: string): { value: T } | undefined;
  /** Somebody's word. Throws when the run goes no further until there is one. Ends with the signal: then nobody is asked any more. */
  agree(name: string, effect: Effect, signal: AbortSignal): Promise<Approval>;
  /** Where the words of an input come from, as far as that is from others; and what came from others now. */
  originsOf(value: unknown, schema: Data): readonly string[];
  addOrigin(label: string, text: string): void;
  /** Called with what came of each call. */
  onCalled?(called: Called): void;
}

/** What came of a call, for whoever looks on. */
export interface Called {
  capability: string;
  operation: string;
  /** `ok`, or the code of what refused it. */
  outcome: string;
  ms: number;
}

/** What all calls of one run share. */
export interface Scene {
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
  auth: Auth;
  /** Why the run goes no further for now. */
  halt(): void;
  audit(entry: Pick<AuditEntry, "method" | "outcome"> & Partial<AuditEntry>): void;
}

export function userOf({ caller }: BrokerRun): string {
  return caller?.userId ?? "";
}

export function contextOf({ run, skill, caller }: BrokerRun): ProviderContext {
  const { chatId, chatType, userId } = caller ?? {};
  const chat = defined({ id: chatId, type: chatType });
  return { run, skill: skill.name, source: skill.origin.source, ...defined({ user: userId }), chat };
}

/** What a provider serves, asked once a run. Contract: ends with the run, or when the provider has had its time. */
export function describe(scene: Scene, provider: CapabilityProvider): Promise<ProviderDescription> {
  const known = scene.descriptions.get(provider);
  if (known) return known;
  const { namespace, seconds } = provider;
  const { signal } = scene.run;
  const asked = inTime(async (inner) => provider.describe({ signal: inner }), { namespace, seconds, signal });
  scene.descriptions.set(provider, asked);
  asked.catch(() => scene.descriptions.delete(provider));
  return asked;
}

export async function operationOf(
  scene: Scene,
  provider: CapabilityProvider,
  capability: string,
  operation: string,
): Promise<{ found: OperationDescription } | { names: readonly string[] }> {
  const { capabilities } = await describe(scene, provider);
  const operations = capabilities.find(({ id }) => id === capability)?.operations ?? [];
  const found = operations.find(({ name }) => name === operation);
  return found ? { found } : { names: operations.map(({ name }) => name) };
}

/** The same for the same value, whatever the order of its keys. */
export function digestOf(value: unknown): string {
  return `sha256:${hash("sha256", canonical(value))}`;
}

/** A short name for a value, which nobody can give to another one. */
export function nameFor(value: unknown): string {
  return digestOf(value).slice("sha256:".length, "sha256:".length + 32);
}

/** JSON without what nobody is shown, be it a text, a number or a name. Contract: no value is lost, also where two names become one. */
export function hiddenIn(value: unknown, hide: (text: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => hiddenIn(item, hide));
  if (isData(value)) {
    const freeName = openNames();
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [freeName(hide(key)), hiddenIn(item, hide)]));
  }
  const shown = hide(String(value));
  return shown === String(value) ? value : shown;
}
