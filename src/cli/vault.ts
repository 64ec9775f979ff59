import { type FileVault, openVault } from "../capability/vault.ts";
import { type KeySource, openVaultKeys } from "../capability/vault-key.ts";
import type { VaultEntry } from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { Found } from "./found.ts";

/** On whose behalf a terminal signs in: its owner's. */
export const OWNER = "";

type Place = Pick<Found, "home" | "env" | "settings">;

/** The vault with what only its owner is told of it. */
export function vaultOf(found: Place): FileVault {
  return openVault(found.home, keyOptionsOf(found));
}

function keyOptionsOf({ env, settings }: Place) {
  return { env, ...defined({ passphraseFile: settings.capabilities.passphraseFile }) };
}

export interface KeyFacts {
  file: string;
  key: KeySource | null;
  /** What it is locked with from the next sign-in on, where that is something else. */
  nextKey: KeySource | null;
  problem: string | null;
}

/** Where its key is from, and why it cannot be used. Contract: never throws for a vault that is broken. */
export function keyFacts(vault: FileVault, found: Place): KeyFacts {
  const { file } = vault;
  const problem = vault.problem() ?? null;
  try {
    const key = vault.keyFrom();
    // Only a passphrase takes the place of another key.
    const next = openVaultKeys(found.home, { ...keyOptionsOf(found), keyring: false }).preferred();
    return { file, key, nextKey: next === "passphrase file" && next !== key ? next : null, problem };
  } catch (error) {
    if (error instanceof SkillError) return { file, key: null, nextKey: null, problem };
    throw error;
  }
}

/** What is signed in, in order. Contract: nothing for a vault that is broken, which `keyFacts` tells. */
export function entriesOf(vault: Pick<FileVault, "list">): VaultEntry[] {
  try {
    return vault.list();
  } catch (error) {
    if (error instanceof SkillError) return [];
    throw error;
  }
}

/** What its key protects from, plainly. Empty where it is not known. */
export function sayKey({ key, nextKey }: Pick<KeyFacts, "key" | "nextKey">): string {
  const next = nextKey === null ? "" : "; from the next sign-in on with the passphrase";
  return key === null ? "" : `${KEYS[key]}${next}`;
}

const KEYS: Record<KeySource, string> = {
  "passphrase file": "locked with the passphrase in the file that vault_passphrase_file names",
  keyring: "locked with a key in the keyring of the system",
  "key file":
    "locked with vault.key, which lies beside it: that protects copies of the vault alone, not from whoever can read this folder",
};
