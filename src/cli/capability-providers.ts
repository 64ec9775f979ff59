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
import { compareText, findNearest, quoteIfNeeded, truncateLine } from "../util/text.ts";
import type { CommandHost } from "./command-context.ts";
import { type Printer, printHanging } from "./output.ts";

/** A capability provider and its current state. */
export interface ProviderState {
  namespace: string;
  from: string;
  isReady: boolean;
  /** The reason if it is not ready; else an optional note. */
  message: string;
  steps: readonly string[];
  /** The accounts that are signed in. */
  accounts: readonly string[];
}

/** Returns the providers, or those of a namespace, sorted. Throws a SkillError if the namespace has no provider. */
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
    const message = `The provider of '${truncateLine(wanted, 60)}' is disabled`;
    throw new SkillError("not-found", { message, fix: `enable it: ${command}` });
  }
  const names = [...new Set(all.map(({ namespace }) => namespace))];
  const meant = findNearest(getCapabilityNamespace(wanted), names);
  const there = names.length === 0 ? "" : `; configured: ${names.join(", ")}`;
  const table = /^[a-z][a-z0-9_-]*$/.test(wanted)
    ? `[capabilities.providers.${wanted}]`
    : "[capabilities.providers.NAME]";
  throw new SkillError("not-found", {
    message: `No provider is configured for '${truncateLine(wanted, 60)}'`,
    fix: meant ? `did you mean ${meant}?` : `set the program: command under ${table} in config.toml${there}`,
  });
}

/** Returns the command that enables the known provider of a namespace; undefined for an unknown provider. */
export function formatEnableCommand(
  { settings }: Pick<CommandHost, "settings">,
  namespace: string,
): string | undefined {
  if (settings.providers.get(namespace)?.enabled === false)
    return `skillet config set ${quoteIfNeeded(`capabilities.providers.${namespace}.enabled`)} true`;
  const preset = getProviderPreset(namespace);
  return preset && `skillet enable ${preset.skill}`;
}

/** Formats the origin of a provider: `served by node provider.ts`. */
export function formatProviderOrigin({ from }: Pick<CapabilityProvider, "from">): string {
  return from === BUILT_IN_PROVIDER ? from : `served by ${truncateLine(from, 100)}`;
}

/** Returns the other copy that holds the values configured for this name, if there is one. */
export function findOtherOwner(skill: Skill, grants: CommandHost["grants"]): SecretOwner | undefined {
  const owner = grants.getOwner(skill.name);
  return owner && !grants.isOwner(skill, owner) ? owner : undefined;
}

/** `~/.skillet/skills/notes`; its source if it has no folder. */
export function formatOwnerCopy(
  { source, location }: SecretOwner,
  { around: environment }: Pick<CommandHost, "around">,
): string {
  return location === "" ? source : formatDisplayPath(location, environment);
}

/** The grant state of a capability for this copy of a skill. Grants to another copy with the same name do not count. */
export interface CapabilityHolding {
  isGranted: boolean;
  /** The other copy that has the grant. */
  givenTo?: string;
  /** The configuration grants it to this name, but no copy has received it yet. */
  isLeft?: true;
}

export function readHolding(id: string, skill: Skill, found: CommandHost): CapabilityHolding {
  if (!found.capabilities.isGranted(id, skill)) return { isGranted: false };
  const other = findOtherOwner(skill, found.grants);
  if (other) return { isGranted: false, givenTo: formatOwnerCopy(other, found) };
  const isLeft = found.grants.getOwner(skill.name) === undefined && needsSecretGrant(skill);
  return isLeft ? { isGranted: false, isLeft } : { isGranted: true };
}

/** Returns the command that grants the capability to this copy. */
export function formatGrantCommand(id: string, name: string, { givenTo, isLeft }: CapabilityHolding): string {
  return givenTo === undefined && !isLeft
    ? `skillet capability grant ${quoteIfNeeded(name)} ${id}`
    : `skillet trust --secrets ${quoteIfNeeded(name)}`;
}

/** Returns the state of a provider. Contract: resolves, within the time limit of a health check. */
export async function readProviderState(
  provider: CapabilityProvider,
  found: CommandHost,
  signal: AbortSignal,
): Promise<ProviderState> {
  const { capabilities } = found;
  const { namespace, from } = provider;
  const request = { user: TERMINAL_USER, signal };
  const {
    isReady,
    message = "",
    steps = [],
    accounts = [],
  } = await checkProviderHealth(provider, capabilities, request);
  const kept = (await listVaultEntries(capabilities.vault)).filter(
    (entry) => matchesAccount(entry, namespace, { user: TERMINAL_USER }) && matchesOrigin(entry, provider.origin),
  );
  const signedIn = new Set([...kept.map(({ account }) => account), ...accounts]);
  return { namespace, from, isReady, message, steps, accounts: [...signedIn].sort(compareText) };
}

/** Prints `✓ notes  node provider.ts`, followed by the steps to take if it is not ready. */
export function printProviderState(out: Printer, state: ProviderState, indent = ""): void {
  const { namespace, from, isReady, message, steps, accounts } = state;
  const room = Math.max(20, Math.min(100, out.width - indent.length - namespace.length - 4));
  out.line`${indent}${isReady ? out.green("✓") : out.yellow("!")} ${out.bold(namespace)}  ${out.dim(truncateLine(from, room))}`;
  const print = (before: string, text: string) =>
    printHanging(out, indent + before, [text], { indent: indent.length + before.length });
  if (!isReady) print("  ", `not ready${message === "" ? "" : `: ${truncateLine(message, 300)}`}`);
  for (const [index, step] of isReady ? [] : steps.entries())
    print(`    ${steps.length > 1 ? `${index + 1}. ` : ""}`, truncateLine(step, 300));
  if (accounts.length > 0) print("  ", `signed in: ${accounts.map((one) => truncateLine(one, 100)).join(", ")}`);
}

/** The user on whose behalf a terminal signs in: its owner. */
export const TERMINAL_USER = "";

type VaultContext = Pick<CommandHost, "home" | "env" | "settings" | "vault">;

/** A vault with the details that only its owner may see. One in a database has the seal key of the engine. */
type CommandVault = Pick<FileVault, "list" | "file" | "findProblem"> & Partial<Pick<FileVault, "getKeySource">>;

/** Opens the vault of the engine if one is configured, otherwise that of this machine. */
export function openCommandVault(found: VaultContext): CommandVault {
  const { vault, settings } = found;
  if (!vault) return createVault(found.home, getVaultKeyOptions(found));
  return {
    file: "skillet.credentials of the database",
    list: () => vault.list(),
    findProblem: async () =>
      settings.engine.sealKey === undefined ? "it needs a key for all machines: set engine.seal_key" : undefined,
  };
}

function getVaultKeyOptions({ env, settings }: VaultContext) {
  return { env, ...omitUndefined({ passphraseFile: settings.capabilities.passphraseFile }) };
}

export interface VaultKeyFacts {
  file: string;
  key: VaultKeySource | null;
  /** The key used from the next sign-in on, if it differs. */
  nextKey: VaultKeySource | null;
  problem: string | null;
}

/** Returns the source of the vault's key, and the problem if it cannot be used. Contract: never throws for a broken vault. */
export async function readVaultKeyFacts(vault: CommandVault, found: VaultContext): Promise<VaultKeyFacts> {
  const { file } = vault;
  const problem = (await vault.findProblem()) ?? null;
  if (!vault.getKeySource) return { file, key: null, nextKey: null, problem };
  try {
    const key = await vault.getKeySource();
    // Only a passphrase replaces another key.
    const next = createVaultKeys(found.home, { ...getVaultKeyOptions(found), keyring: false }).getPreferredSource();
    return { file, key, nextKey: next === "passphrase file" && next !== key ? next : null, problem };
  } catch (error) {
    if (error instanceof SkillError) return { file, key: null, nextKey: null, problem };
    throw error;
  }
}

/** Lists the vault's entries, sorted. Contract: empty for a broken vault, which `readVaultKeyFacts` reports. */
export async function listVaultEntries(vault: Pick<FileVault, "list">): Promise<VaultEntry[]> {
  try {
    return await vault.list();
  } catch (error) {
    if (error instanceof SkillError) return [];
    throw error;
  }
}

/** Describes the key of the vault and its limits. Empty if it is unknown. */
export function formatVaultKey({ key, nextKey }: Pick<VaultKeyFacts, "key" | "nextKey">): string {
  const next = nextKey === null ? "" : "; the next sign-in switches it to the passphrase";
  return key === null ? "" : `${VAULT_KEY_LABELS[key]}${next}`;
}

const VAULT_KEY_LABELS: Record<VaultKeySource, string> = {
  "passphrase file": "encrypted with the passphrase in vault_passphrase_file",
  keyring: "encrypted with a key in the system keyring",
  "key file":
    "encrypted with vault.key in the same folder: this protects copies of the vault, but not against users who can read this folder",
};
