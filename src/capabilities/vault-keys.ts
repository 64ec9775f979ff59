import { randomBytes, scryptSync } from "node:crypto";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { findSystemProgram, runProgramSync } from "../util/system.ts";

/** Where the key of a vault is from. One beside the vault protects only copies of the vault alone. */
export const VAULT_KEY_SOURCES = ["passphrase file", "keyring", "key file"] as const;
export type VaultKeySource = (typeof VAULT_KEY_SOURCES)[number];

/** What a vault says of its key. */
export interface VaultLock {
  /** The vault's own name, another one for each. */
  id: string;
  key: VaultKeySource;
  /** What a passphrase is mixed with. */
  salt?: string;
}

export interface VaultKeyOptions {
  env: Readonly<Record<string, string | undefined>>;
  passphraseFile?: string;
  /** In place of the machine's; `false` for none. */
  keyring?: Keyring | false;
}

/** Everything throws a SkillError that says what to do. */
interface VaultKeys {
  /** What a vault that is made now is locked with. */
  preferred(): VaultKeySource;
  /** Of a vault that there is. */
  keyOf(lock: VaultLock): Buffer;
  /** For a vault that is made now. */
  make(id: string): { lock: VaultLock; key: Buffer };
  /** Whether what is configured can be a key, also where nothing is locked with it yet. */
  check(): void;
  /** Of a vault that has another key now: one that lies beside it would open old copies of it. */
  forget(lock: VaultLock): void;
}

export function createVaultKeys(skilletHome: string, options: VaultKeyOptions): VaultKeys {
  const keyFile = join(skilletHome, "vault.key");
  const passphraseFile = options.passphraseFile || options.env[PASSPHRASE_VARIABLE] || undefined;
  let found: { keyring: Keyring | undefined } | undefined;
  const keyring = () => {
    found ??= { keyring: options.keyring === false ? undefined : (options.keyring ?? findKeyring(options.env)) };
    return found.keyring;
  };
  const known = new Map<string, Buffer>();
  const remembered = (lock: VaultLock, work: () => Buffer) => {
    const name = [lock.id, lock.key, lock.salt].join(" ");
    const key = known.get(name) ?? work();
    known.set(name, key);
    return key;
  };
  const WAYS: Record<VaultKeySource, (lock: VaultLock) => Buffer> = {
    "passphrase file": ({ salt = "" }) => {
      if (passphraseFile === undefined) throw createPassphraseError();
      return scryptSync(readPassphrase(passphraseFile), Buffer.from(salt, "base64"), KEY_BYTES, SCRYPT_OPTIONS);
    },
    keyring: ({ id }) => parseKey(keyring()?.get(id)) ?? throwKeyringError(keyring()),
    "key file": () => parseKey(readSecretFile(keyFile)) ?? throwKeyFileError(keyFile),
  };
  const keyOf = (lock: VaultLock) => remembered(lock, () => WAYS[lock.key](lock));
  return {
    preferred: () => (passphraseFile !== undefined ? "passphrase file" : keyring() ? "keyring" : "key file"),
    keyOf,
    make(id) {
      if (passphraseFile !== undefined) {
        const lock: VaultLock = { id, key: "passphrase file", salt: randomBytes(16).toString("base64") };
        return { lock, key: keyOf(lock) };
      }
      const written = randomBytes(KEY_BYTES).toString("hex");
      keyring()?.set(id, written);
      if (keyring()?.get(id) === written) return { lock: { id, key: "keyring" }, key: Buffer.from(written, "hex") };
      createKeyFile(keyFile, written);
      const lock: VaultLock = { id, key: "key file" };
      return { lock, key: keyOf(lock) };
    },
    check: () => {
      if (passphraseFile !== undefined) readPassphrase(passphraseFile);
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
const MIN_PASSPHRASE_LENGTH = 8;
/** 32 MiB and some 60 ms for every passphrase that is tried. */
const SCRYPT_OPTIONS = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

function readPassphrase(file: string): string {
  const passphrase = readSecretFile(file);
  if (passphrase.length >= MIN_PASSPHRASE_LENGTH) return passphrase;
  throw new SkillError("vault-unreadable", {
    message: `The passphrase in ${file} is shorter than ${MIN_PASSPHRASE_LENGTH} characters`,
    fix: `write a longer one into it: \`openssl rand -base64 24 > ${file}\``,
  });
}

/** What a file of the user's alone says, without the line break at its end. */
function readSecretFile(file: string): string {
  try {
    const text = readRegularText(file, {
      limit: MAX_SECRET_BYTES,
      check: ({ mode }) => requirePrivateFile(file, mode),
    });
    return text.replace(/\r?\n$/, "");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    throw new SkillError("vault-unreadable", {
      message: `The key of the vault is not to be had: ${file} cannot be read: ${getErrorMessage(error)}`,
      fix: "put it back; without it what is in the vault is lost: then move vault.json away and sign in again",
      cause: error,
    });
  }
}

const MAX_SECRET_BYTES = 64 * 1024;

/** Others who can read it may have done so: nobody is told that it is fine by mending it. */
export function requirePrivateFile(file: string, mode: number): void {
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  throw new SkillError("vault-unreadable", {
    message: `${file} can be read or written by others on this machine, so it is not used`,
    fix: `run \`chmod 600 ${file}\`; if somebody may have read it, sign in anew`,
  });
}

function createKeyFile(file: string, key: string): void {
  try {
    writeFileSync(file, `${key}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (getErrnoCode(error) === "EEXIST") return; // Of a vault that was there before: it is as good as a new one.
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${getErrorMessage(error)}`,
      fix: "check that the folder can be written to",
      cause: error,
    });
  }
}

function parseKey(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : undefined;
}

function createPassphraseError(): SkillError {
  return new SkillError("vault-unreadable", {
    message: "The vault is locked with a passphrase, and no passphrase file is configured",
    fix: `set vault_passphrase_file under [capabilities] in the configuration, or ${PASSPHRASE_VARIABLE}`,
  });
}

function throwKeyringError(keyring: Keyring | undefined): never {
  throw new SkillError("vault-unreadable", {
    message: keyring
      ? `The key of the vault is in ${keyring.name}, which does not give it`
      : "The key of the vault is in the keyring of the system, which cannot be reached from here",
    fix: "unlock it, or try from a session that has it; if the key is gone, move vault.json away and sign in again",
  });
}

function throwKeyFileError(file: string): never {
  throw new SkillError("vault-unreadable", {
    message: `${file} is no key: it was edited, or something else wrote it`,
    fix: "put back the one that was there; if it is gone, move vault.json and vault.key away and sign in again",
  });
}

/** Where the system keeps secrets of its users. */
interface Keyring {
  /** What it is called, for people. */
  readonly name: string;
  /** Nothing when it has none of this name, is locked, or does not answer. */
  get(id: string): string | undefined;
  /** Contract: whether it has it is known by asking again. */
  set(id: string, secret: string): void;
}

type KeyringEnv = Readonly<Record<string, string | undefined>>;
type FindProgram = (name: string) => string | undefined;

/** The one of this machine. Nothing where there is none, or nobody's session that it belongs to. */
export function findKeyring(
  env: KeyringEnv,
  platform: NodeJS.Platform = process.platform,
  find: FindProgram = findSystemProgram,
): Keyring | undefined {
  const { program, isUsable, ways } = KEYRINGS[platform] ?? {};
  const file = program !== undefined && isUsable?.(env) ? find(program) : undefined;
  return file === undefined || ways === undefined ? undefined : ways(file, selectKeyringEnv(env));
}

interface KeyringKind {
  program: string;
  isUsable(env: KeyringEnv): boolean;
  ways(file: string, env: Record<string, string>): Keyring;
}

const KEYRINGS: { [Platform in NodeJS.Platform]?: KeyringKind } = {
  linux: {
    program: "secret-tool",
    // Without a bus it would try to start one, and wait.
    isUsable: (env) =>
      Boolean(env["DBUS_SESSION_BUS_ADDRESS"]) || existsSync(join(env["XDG_RUNTIME_DIR"] || "/nonexistent", "bus")),
    ways: (file, env) => ({
      name: "the keyring (secret-tool)",
      get: (id) => trimSecret(runProgramSync({ file, env, args: ["lookup", "skillet-vault", id] })),
      set: (id, secret) => {
        const args = ["store", "--label=skillet vault", "skillet-vault", id];
        runProgramSync({ file, env, args, input: secret });
      },
    }),
  },
  darwin: {
    program: "security",
    isUsable: () => true,
    // As commands on its stdin: given as an argument, everybody on the machine could see the key while it runs. Any program of the user's
    // can ask the same `security` for it afterwards.
    ways: (file, env) => ({
      name: "the login keychain (security)",
      get: (id) =>
        trimSecret(
          runProgramSync({ file, env, args: ["find-generic-password", "-s", "skillet-vault", "-a", id, "-w"] }),
        ),
      set: (id, secret) => {
        const command = `add-generic-password -U -s skillet-vault -a ${id} -w ${secret}\n`;
        runProgramSync({ file, env, args: ["-i"], input: command });
      },
    }),
  },
};

const FORWARDED_VARIABLES = ["HOME", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"];

function selectKeyringEnv(env: KeyringEnv): Record<string, string> {
  return omitUndefined(Object.fromEntries(FORWARDED_VARIABLES.map((name) => [name, env[name]]))) as Record<
    string,
    string
  >;
}

function trimSecret(text: string | undefined): string | undefined {
  return text?.trim() || undefined;
}
