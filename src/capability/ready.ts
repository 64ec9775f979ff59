import type { Caller } from "../host/caller.ts";
import type { Capabilities, CapabilityProvider, ProviderHealth } from "../host/capabilities.ts";
import type { Notice } from "../host/sandbox.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { inTime } from "./provider-error.ts";
import { isAt, isOf, whoElse } from "./vault-entry.ts";

/** What keeps providers of a skill's capabilities from serving it now, each with the steps that set it up. */
export async function unready(
  capabilities: Capabilities,
  skill: Skill,
  { caller, signal }: { caller: Caller | undefined; signal: AbortSignal },
): Promise<Notice[]> {
  const providers = new Set(skill.manifest.capabilities.flatMap((id) => capabilities.providerOf(id, skill) ?? []));
  const user = caller?.userId ?? "";
  const asked = [...providers].map((provider) => problemOf(provider, capabilities, { skill, user, signal }));
  return (await Promise.all(asked)).flat();
}

/** Whether one can serve now. Contract: resolves, in its time. */
export async function healthOf(
  provider: CapabilityProvider,
  { vault }: Pick<Capabilities, "vault">,
  { user, signal }: { user: string; signal: AbortSignal },
): Promise<ProviderHealth> {
  try {
    const { origin } = provider;
    const kept = vault.list().filter((entry) => isOf(entry, provider.namespace, { user }));
    const isSignedIn = kept.some((entry) => isAt(entry, origin));
    const health = await atOnce(provider, signal, (bounded) => provider.health({ signal: bounded, isSignedIn }));
    if (health.isReady || isSignedIn || health.message === undefined) return health;
    return { ...health, message: `${health.message.replace(/\.$/, "")}${whoElse(kept, origin)}` };
  } catch (error) {
    const { fix } = Object(error) as { fix?: unknown };
    return {
      isReady: false,
      message: reason(error),
      ...(typeof fix === "string" && fix !== "" ? { steps: [fix] } : {}),
    };
  }
}

/** Whether somebody can sign in at one: what only a program itself knows is asked. Nothing when it does not say. Contract: resolves, in its time. */
export async function signsIn(provider: CapabilityProvider, signal: AbortSignal): Promise<boolean | undefined> {
  if (!provider.auth) return false;
  try {
    return (await atOnce(provider, signal, (bounded) => provider.describe({ signal: bounded }))).hasAuth;
  } catch {
    return undefined; // Why it does not is told by its health.
  }
}

/** Asks a provider for what somebody waits for: before a run, or for a look. */
export function atOnce<T>(
  { namespace, seconds }: CapabilityProvider,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return inTime(work, { namespace, seconds: Math.min(seconds, LONGEST_SECONDS), signal });
}

const LONGEST_SECONDS = 10;

async function problemOf(
  provider: CapabilityProvider,
  capabilities: Capabilities,
  { skill, user, signal }: { skill: Skill; user: string; signal: AbortSignal },
): Promise<Notice[]> {
  const { isReady, message = "it is not ready", steps = [] } = await healthOf(provider, capabilities, { user, signal });
  if (isReady) return [];
  const numbered = steps.length > 1 ? steps.map((step, index) => `${index + 1}. ${step}`) : steps;
  return [
    {
      code: "capability-not-ready",
      message: `Skill '${skill.name}' needs '${provider.namespace}', which cannot serve yet: ${inLine(message, 300)}`,
      fix:
        numbered.map((step) => inLine(step, 300)).join("\n") || `see \`skillet capability list ${provider.namespace}\``,
    },
  ];
}
