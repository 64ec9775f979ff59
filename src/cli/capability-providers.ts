import {
  BUILT_IN_PROVIDER,
  checkProviderHealth,
  getCapabilityNamespace,
  getProviderPreset,
} from "../capabilities/configured-capabilities.ts";
import { matchesAccount, matchesOrigin } from "../capabilities/credential-filter.ts";
import { createVault, type FileVault } from "../capabilities/credential-vault.ts";
import { createVaultKeys, type VaultKeySource } from "../capabilities/vault-keys.ts";
import { SkillError } from "../errors/problem.ts";
import type { CapabilityProvider, VaultEntry } from "../host/capability-contract.ts";
import type { Skill } from "../skill/skill.ts";
import { formatDisplayPath } from "../skill/source/locations.ts";
import { needsSecretGrant, type SecretOwner } from "../store/trust.ts";
import { omitUndefined } from "../util/objects.ts";
import { quoteIfNeeded } from "../util/shell-quote.ts";
import { compareText, findNearest, truncateLine } from "../util/text.ts";
import type { CommandHost } from "./command-host.ts";
import { type Printer, printHanging } from "./output.ts";

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
export function findProviders(
  found: Pick<CommandHost, "capabilities" | "settings">,
  wanted?: string,
): CapabilityProvider[] {
  const { capabilities } = found;
  const all = [...capabilities.providers()].sort((a, b) => compareText(a.namespace, b.namespace));
  if (wanted === undefined) return all;
  const fitting = all.filter(({ namespace }) => namespace === getCapabilityNamespace(wanted));
  if (fitting.length > 0) return fitting;
  const command = formatEnableCommand(found, getCapabilityNamespace(wanted));
  if (command !== undefined) {
    const message = `Nobody serves '${truncateLine(wanted, 60)}' here yet: it is switched off`;
    throw new SkillError("not-found", { message, fix: `switch it on: ${command}` });
  }
  const names = [...new Set(all.map(({ namespace }) => namespace))];
  const meant = findNearest(getCapabilityNamespace(wanted), names);
  const there = names.length === 0 ? "" : `; there are: ${names.join(", ")}`;
  const table = /^[a-z][a-z0-9_-]*$/.test(wanted)
    ? `[capabilities.providers.${wanted}]`
    : "[capabilities.providers.NAME]";
  throw new SkillError("not-found", {
    message: `Nobody serves '${truncateLine(wanted, 60)}' here`,
    fix: meant ? `did you mean ${meant}?` : `name the program: command under ${table} in config.toml${there}`,
  });
}

/** What switches on who is known to serve a namespace, and does not yet. */
export function formatEnableCommand(
  { settings }: Pick<CommandHost, "settings">,
  namespace: string,
): string | undefined {
  if (settings.providers.get(namespace)?.enabled === false)
    return `skillet config set ${quoteIfNeeded(`capabilities.providers.${namespace}.enabled`)} true`;
  const preset = getProviderPreset(namespace);
  return preset && `skillet enable ${preset.skill}`;
}

/** `served by node provider.ts`. */
export function formatProviderOrigin({ from }: Pick<CapabilityProvider, "from">): string {
  return from === BUILT_IN_PROVIDER ? from : `served by ${truncateLine(from, 100)}`;
}

/** The copy that has what is configured for this name, where it is another one. */
export function findOtherOwner(skill: Skill, grants: CommandHost["grants"]): SecretOwner | undefined {
  const owner = grants.ownerOf(skill.name);
  return owner && !grants.isOwner(skill, owner) ? owner : undefined;
}

/** `~/.skillet/skills/notes`; of what has no place, its source. */
export function formatOwnerCopy({ source, place }: SecretOwner, { around }: Pick<CommandHost, "around">): string {
  return place === "" ? source : formatDisplayPath(place, around);
}

/** Whether this copy of a skill has a capability; what was given to another one of its name, it has not. */
export interface CapabilityHolding {
  isGranted: boolean;
  /** That other one. */
  givenTo?: string;
  /** No copy of its name has it yet, though the configuration gives it to one. */
  isLeft?: true;
}

export function readHolding(id: string, skill: Skill, found: CommandHost): CapabilityHolding {
  if (!found.capabilities.isGranted(id, skill)) return { isGranted: false };
  const other = findOtherOwner(skill, found.grants);
  if (other) return { isGranted: false, givenTo: formatOwnerCopy(other, found) };
  const isLeft = found.grants.ownerOf(skill.name) === undefined && needsSecretGrant(skill);
  return isLeft ? { isGranted: false, isLeft } : { isGranted: true };
}

/** What gives this copy what it has not. */
export function formatGrantCommand(id: string, name: string, { givenTo, isLeft }: CapabilityHolding): string {
  return givenTo === undefined && !isLeft
    ? `skillet capability grant ${quoteIfNeeded(name)} ${id}`
    : `skillet trust --secrets ${quoteIfNeeded(name)}`;
}

/** Contract: resolves, in the time that a check of health has. */
export async function readProviderState(
  provider: CapabilityProvider,
  found: CommandHost,
  signal: AbortSignal,
): Promise<ProviderState> {
  const { capabilities } = found;
  const { namespace, from } = provider;
  const asked = { user: TERMINAL_USER, signal };
  const { isReady, message = "", steps = [], accounts = [] } = await checkProviderHealth(provider, capabilities, asked);
  const kept = listVaultEntries(capabilities.vault).filter(
    (entry) => matchesAccount(entry, namespace, { user: TERMINAL_USER }) && matchesOrigin(entry, provider.origin),
  );
  const signedIn = new Set([...kept.map(({ account }) => account), ...accounts]);
  return { namespace, from, isReady, message, steps, accounts: [...signedIn].sort(compareText) };
}

/** `✓ notes  node provider.ts`, and below it what to do where it is not ready. */
export function printProviderState(out: Printer, state: ProviderState, indent = ""): void {
  const { namespace, from, isReady, message, steps, accounts } = state;
  const room = Math.max(20, Math.min(100, out.width - indent.length - namespace.length - 4));
  out.line`${indent}${isReady ? out.green("✓") : out.yellow("!")} ${out.bold(namespace)}  ${out.dim(truncateLine(from, room))}`;
  const say = (before: string, text: string) =>
    printHanging(out, indent + before, [text], { indent: indent.length + before.length });
  if (!isReady) say("  ", `it cannot serve yet${message === "" ? "" : `: ${truncateLine(message, 300)}`}`);
  for (const [index, step] of isReady ? [] : steps.entries())
    say(`    ${steps.length > 1 ? `${index + 1}. ` : ""}`, truncateLine(step, 300));
  if (accounts.length > 0) say("  ", `signed in: ${accounts.map((one) => truncateLine(one, 100)).join(", ")}`);
}

/** On whose behalf a terminal signs in: its owner's. */
export const TERMINAL_USER = "";

type VaultContext = Pick<CommandHost, "home" | "env" | "settings">;

/** The vault with what only its owner is told of it. */
export function openCommandVault(found: VaultContext): FileVault {
  return createVault(found.home, getVaultKeyOptions(found));
}

function getVaultKeyOptions({ env, settings }: VaultContext) {
  return { env, ...omitUndefined({ passphraseFile: settings.capabilities.passphraseFile }) };
}

export interface VaultKeyFacts {
  file: string;
  key: VaultKeySource | null;
  /** What it is locked with from the next sign-in on, where that is something else. */
  nextKey: VaultKeySource | null;
  problem: string | null;
}

/** Where its key is from, and why it cannot be used. Contract: never throws for a vault that is broken. */
export function readVaultKeyFacts(vault: FileVault, found: VaultContext): VaultKeyFacts {
  const { file } = vault;
  const problem = vault.problem() ?? null;
  try {
    const key = vault.keyFrom();
    // Only a passphrase takes the place of another key.
    const next = createVaultKeys(found.home, { ...getVaultKeyOptions(found), keyring: false }).preferred();
    return { file, key, nextKey: next === "passphrase file" && next !== key ? next : null, problem };
  } catch (error) {
    if (error instanceof SkillError) return { file, key: null, nextKey: null, problem };
    throw error;
  }
}

/** What is signed in, in order. Contract: nothing for a vault that is broken, which `keyFacts` tells. */
export function listVaultEntries(vault: Pick<FileVault, "list">): VaultEntry[] {
  try {
    return vault.list();
  } catch (error) {
    if (error instanceof SkillError) return [];
    throw error;
  }
}

/** What its key protects from, plainly. Empty where it is not known. */
export function formatVaultKey({ key, nextKey }: Pick<VaultKeyFacts, "key" | "nextKey">): string {
  const next = nextKey === null ? "" : "; from the next sign-in on with the passphrase";
  return key === null ? "" : `${VAULT_KEY_LABELS[key]}${next}`;
}

const VAULT_KEY_LABELS: Record<VaultKeySource, string> = {
  "passphrase file": "locked with the passphrase in the file that vault_passphrase_file names",
  keyring: "locked with a key in the keyring of the system",
  "key file":
    "locked with vault.key, which lies beside it: that protects copies of the vault alone, not from whoever can read this folder",
};
