import { BUILT_IN, namespaceOf } from "../capability/open.ts";
import { presetOf } from "../capability/presets.ts";
import { healthOf } from "../capability/ready.ts";
import { isAt, isOf } from "../capability/vault-entry.ts";
import type { CapabilityProvider } from "../host/capabilities.ts";
import { needsGrant, type Owner } from "../host/grants.ts";
import { quoted } from "../policy/trust.ts";
import { SkillError } from "../shared/error.ts";
import { byText, nearest, oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { displayPath } from "../source/locations.ts";
import type { Found } from "./found.ts";
import type { Printer } from "./io.ts";
import { entriesOf, OWNER } from "./vault.ts";
import { printHanging } from "./wrap.ts";

/** One who serves capabilities, and how it is now. */
export interface ProviderState {
  namespace: string;
  from: string;
  isReady: boolean;
  /** Why it is not, or what else it says. */
  message: string;
  steps: readonly string[];
  /** Who is signed in. */
  accounts: readonly string[];
}

/** Who serves something here, or a namespace of it, in order. Throws a SkillError when nobody serves that. */
export function providersOf(found: Pick<Found, "capabilities" | "settings">, wanted?: string): CapabilityProvider[] {
  const { capabilities } = found;
  const all = [...capabilities.providers()].sort((a, b) => byText(a.namespace, b.namespace));
  if (wanted === undefined) return all;
  const fitting = all.filter(({ namespace }) => namespace === namespaceOf(wanted));
  if (fitting.length > 0) return fitting;
  const command = switchOn(found, namespaceOf(wanted));
  if (command !== undefined) {
    const message = `Nobody serves '${oneLine(wanted, 60)}' here yet: it is switched off`;
    throw new SkillError("not-found", { message, fix: `switch it on: ${command}` });
  }
  const names = [...new Set(all.map(({ namespace }) => namespace))];
  const meant = nearest(namespaceOf(wanted), names);
  const there = names.length === 0 ? "" : `; there are: ${names.join(", ")}`;
  const table = /^[a-z][a-z0-9_-]*$/.test(wanted)
    ? `[capabilities.providers.${wanted}]`
    : "[capabilities.providers.NAME]";
  throw new SkillError("not-found", {
    message: `Nobody serves '${oneLine(wanted, 60)}' here`,
    fix: meant ? `did you mean ${meant}?` : `name the program: command under ${table} in config.toml${there}`,
  });
}

/** What switches on who is known to serve a namespace, and does not yet. */
export function switchOn({ settings }: Pick<Found, "settings">, namespace: string): string | undefined {
  if (settings.providers.get(namespace)?.enabled === false)
    return `skillet config set ${quoted(`capabilities.providers.${namespace}.enabled`)} true`;
  const preset = presetOf(namespace);
  return preset && `skillet enable ${preset.skill}`;
}

/** `served by node provider.ts`. */
export function servedBy({ from }: Pick<CapabilityProvider, "from">): string {
  return from === BUILT_IN ? from : `served by ${oneLine(from, 100)}`;
}

/** The copy that has what is configured for this name, where it is another one. */
export function otherOwner(skill: Skill, grants: Found["grants"]): Owner | undefined {
  const owner = grants.ownerOf(skill.name);
  return owner && !grants.isOwner(skill, owner) ? owner : undefined;
}

/** `~/.skillet/skills/notes`; of what has no place, its source. */
export function sayCopy({ source, place }: Owner, { around }: Pick<Found, "around">): string {
  return place === "" ? source : displayPath(place, around);
}

/** Whether this copy of a skill has a capability; what was given to another one of its name, it has not. */
export interface Holding {
  isGranted: boolean;
  /** That other one. */
  givenTo?: string;
  /** No copy of its name has it yet, though the configuration gives it to one. */
  isLeft?: true;
}

export function holdingOf(id: string, skill: Skill, found: Found): Holding {
  if (!found.capabilities.isGranted(id, skill)) return { isGranted: false };
  const other = otherOwner(skill, found.grants);
  if (other) return { isGranted: false, givenTo: sayCopy(other, found) };
  const isLeft = found.grants.ownerOf(skill.name) === undefined && needsGrant(skill);
  return isLeft ? { isGranted: false, isLeft } : { isGranted: true };
}

/** What gives this copy what it has not. */
export function giveCommand(id: string, name: string, { givenTo, isLeft }: Holding): string {
  return givenTo === undefined && !isLeft
    ? `skillet capability grant ${quoted(name)} ${id}`
    : `skillet trust --secrets ${quoted(name)}`;
}

/** Contract: resolves, in the time that a check of health has. */
export async function stateOf(provider: CapabilityProvider, found: Found, signal: AbortSignal): Promise<ProviderState> {
  const { capabilities } = found;
  const { namespace, from } = provider;
  const asked = { user: OWNER, signal };
  const { isReady, message = "", steps = [], accounts = [] } = await healthOf(provider, capabilities, asked);
  const kept = entriesOf(capabilities.vault).filter(
    (entry) => isOf(entry, namespace, { user: OWNER }) && isAt(entry, provider.origin),
  );
  const signedIn = new Set([...kept.map(({ account }) => account), ...accounts]);
  return { namespace, from, isReady, message, steps, accounts: [...signedIn].sort(byText) };
}

/** `✓ notes  node provider.ts`, and below it what to do where it is not ready. */
export function printState(out: Printer, state: ProviderState, indent = ""): void {
  const { namespace, from, isReady, message, steps, accounts } = state;
  const room = Math.max(20, Math.min(100, out.width - indent.length - namespace.length - 4));
  out.line`${indent}${isReady ? out.green("✓") : out.yellow("!")} ${out.bold(namespace)}  ${out.dim(oneLine(from, room))}`;
  const say = (before: string, text: string) =>
    printHanging(out, indent + before, [text], { indent: indent.length + before.length });
  if (!isReady) say("  ", `it cannot serve yet${message === "" ? "" : `: ${oneLine(message, 300)}`}`);
  for (const [index, step] of isReady ? [] : steps.entries())
    say(`    ${steps.length > 1 ? `${index + 1}. ` : ""}`, oneLine(step, 300));
  if (accounts.length > 0) say("  ", `signed in: ${accounts.map((one) => oneLine(one, 100)).join(", ")}`);
}
