import { randomBytes, scryptSync } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { type Keyring, openKeyring } from "./keyring.ts";

/** Where the key of a vault is from. One beside the vault protects only copies of the vault alone. */
export const KEY_SOURCES = ["passphrase file", "keyring", "key file"] as const;
export type KeySource = (typeof KEY_SOURCES)[number];

/** What a vault says of its key. */
export interface Lock {
  /** The vault's own name, another one for each. */
  id: string;
  key: KeySource;
  /** What a passphrase is mixed with. */
  salt?: string;
}

export interface KeyOptions {
  env: Readonly<Record<string, string | undefined>>;
  passphraseFile?: string;
  /** In place of the machine's; `false` for none. */
  keyring?: Keyring | false;
}

/** Everything throws a SkillError that says what to do. */
export interface VaultKeys {
  /** What a vault that is made now is locked with. */
  preferred(): KeySource;
  /** Of a vault that there is. */
  keyOf(lock: Lock): Buffer;
  /** For a vault that is made now. */
  make(id: string): { lock: Lock; key: Buffer };
  /** Whether what is configured can be a key, also where nothing is locked with it yet. */
  check(): void;
  /** Of a vault that has another key now: one that lies beside it would open old copies of it. */
  forget(lock: Lock): void;
}

export function openVaultKeys(skilletHome: string, options: KeyOptions): VaultKeys {
  const keyFile = join(skilletHome, "vault.key");
  const passphraseFile = options.passphraseFile || options.env[PASSPHRASE_VARIABLE] || undefined;
  let found: { keyring: Keyring | undefined } | undefined;
  const keyring = () => {
    found ??= { keyring: options.keyring === false ? undefined : (options.keyring ?? openKeyring(options.env)) };
    return found.keyring;
  };
  const known = new Map<string, Buffer>();
  const remembered = (lock: Lock, work: () => Buffer) => {
    const name = [lock.id, lock.key, lock.salt].join(" ");
    const key = known.get(name) ?? work();
    known.set(name, key);
    return key;
  };
  const WAYS: Record<KeySource, (lock: Lock) => Buffer> = {
    "passphrase file": ({ salt = "" }) => {
      if (passphraseFile === undefined) throw noPassphrase();
      return scryptSync(passphraseIn(passphraseFile), Buffer.from(salt, "base64"), KEY_BYTES, SCRYPT);
    },
    keyring: ({ id }) => keyFrom(keyring()?.get(id)) ?? refuseKeyring(keyring()),
    "key file": () => keyFrom(readSecretFile(keyFile)) ?? refuseKeyFile(keyFile),
  };
  const keyOf = (lock: Lock) => remembered(lock, () => WAYS[lock.key](lock));
  return {
    preferred: () => (passphraseFile !== undefined ? "passphrase file" : keyring() ? "keyring" : "key file"),
    keyOf,
    make(id) {
      if (passphraseFile !== undefined) {
        const lock: Lock = { id, key: "passphrase file", salt: randomBytes(16).toString("base64") };
        return { lock, key: keyOf(lock) };
      }
      const written = randomBytes(KEY_BYTES).toString("hex");
      keyring()?.set(id, written);
      if (keyring()?.get(id) === written) return { lock: { id, key: "keyring" }, key: Buffer.from(written, "hex") };
      makeKeyFile(keyFile, written);
      const lock: Lock = { id, key: "key file" };
      return { lock, key: keyOf(lock) };
    },
    check: () => {
      if (passphraseFile !== undefined) passphraseIn(passphraseFile);
    },
    forget({ key }) {
      if (key !== "key file") return;
      try {
        rmSync(keyFile, { force: true });
      } catch {
        // It locks nothing any more: no sign-in fails over it.
      }
    },
  };
}

const PASSPHRASE_VARIABLE = "SKILLET_VAULT_PASSPHRASE_FILE";
const KEY_BYTES = 32;
const SHORTEST_PASSPHRASE = 8;
/** 32 MiB and some 60 ms for every passphrase that is tried. */
const SCRYPT = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

function passphraseIn(file: string): string {
  const passphrase = readSecretFile(file);
  if (passphrase.length >= SHORTEST_PASSPHRASE) return passphrase;
  throw new SkillError("vault-unreadable", {
    message: `The passphrase in ${file} is shorter than ${SHORTEST_PASSPHRASE} characters`,
    fix: `write a longer one into it: \`openssl rand -base64 24 > ${file}\``,
  });
}

/** What a file of the user's alone says, without the line break at its end. */
function readSecretFile(file: string): string {
  try {
    const text = readRegularText(file, { limit: LARGEST_SECRET, check: ({ mode }) => refuseShared(file, mode) });
    return text.replace(/\r?\n$/, "");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("vault-unreadable", {
      message: `The key of the vault is not to be had: ${file} cannot be read: ${reason(error)}`,
      fix: "put it back; without it what is in the vault is lost: then move vault.json away and sign in again",
      cause: error,
    });
  }
}

const LARGEST_SECRET = 64 * 1024;

/** Others who can read it may have done so: nobody is told that it is fine by mending it. */
export function refuseShared(file: string, mode: number): void {
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  throw new SkillError("vault-unreadable", {
    message: `${file} can be read or written by others on this machine, so it is not used`,
    fix: `run \`chmod 600 ${file}\`; if somebody may have read it, sign in anew`,
  });
}

function makeKeyFile(file: string, key: string): void {
  try {
    writeFileSync(file, `${key}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") return; // Of a vault that was there before: it is as good as a new one.
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${reason(error)}`,
      fix: "check that the folder can be written to",
      cause: error,
    });
  }
}

function keyFrom(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : undefined;
}

function noPassphrase(): SkillError {
  return new SkillError("vault-unreadable", {
    message: "The vault is locked with a passphrase, and no passphrase file is configured",
    fix: `set vault_passphrase_file under [capabilities] in the configuration, or ${PASSPHRASE_VARIABLE}`,
  });
}

function refuseKeyring(keyring: Keyring | undefined): never {
  throw new SkillError("vault-unreadable", {
    message: keyring
      ? `The key of the vault is in ${keyring.name}, which does not give it`
      : "The key of the vault is in the keyring of the system, which cannot be reached from here",
    fix: "unlock it, or try from a session that has it; if the key is gone, move vault.json away and sign in again",
  });
}

function refuseKeyFile(file: string): never {
  throw new SkillError("vault-unreadable", {
    message: `${file} is no key: it was edited, or something else wrote it`,
    fix: "put back the one that was there; if it is gone, move vault.json and vault.key away and sign in again",
  });
}
