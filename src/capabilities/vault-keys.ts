import { randomBytes, scryptSync } from "node:crypto";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";
import { omitUndefined } from "../util/objects.ts";
import { findSystemProgram, runProgramSync } from "../util/system.ts";

/** The sources of a vault's key. A key file next to the vault only protects copies of the vault alone. */
export const VAULT_KEY_SOURCES = ["passphrase file", "keyring", "key file"] as const;
export type VaultKeySource = (typeof VAULT_KEY_SOURCES)[number];

/** The key information in a vault. */
export interface VaultLock {
  /** The unique id of the vault. */
  id: string;
  key: VaultKeySource;
  /** The salt of the passphrase. */
  salt?: string;
}

export interface VaultKeyOptions {
  env: Readonly<Record<string, string | undefined>>;
  passphraseFile?: string;
  /** Replaces the system keyring; `false` for none. */
  keyring?: Keyring | false;
}

/** Every method throws a SkillError with a fix. */
interface VaultKeys {
  /** Returns the key source of a new vault. */
  getPreferredSource(): VaultKeySource;
  /** Returns the key of an existing vault. */
  getKey(lock: VaultLock): Buffer;
  /** Creates the key of a new vault. */
  createKey(id: string): { lock: VaultLock; key: Buffer };
  /** Checks that the configured passphrase is usable, even if nothing is locked with it yet. */
  check(): void;
  /** Deletes the key file of a vault that has a new key: it would open old copies. */
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
  const withCache = (lock: VaultLock, work: () => Buffer) => {
    const name = [lock.id, lock.key, lock.salt].join(" ");
    const key = known.get(name) ?? work();
    known.set(name, key);
    return key;
  };
  const KEY_LOADERS: Record<VaultKeySource, (lock: VaultLock) => Buffer> = {
    "passphrase file": ({ salt = "" }) => {
      if (passphraseFile === undefined) throw createPassphraseError();
      return scryptSync(readPassphrase(passphraseFile), Buffer.from(salt, "base64"), KEY_BYTES, SCRYPT_OPTIONS);
    },
    keyring: ({ id }) => parseKey(keyring()?.get(id)) ?? throwKeyringError(keyring()),
    "key file": () => parseKey(readSecretFile(keyFile)) ?? throwKeyFileError(keyFile),
  };
  const loadKey = (lock: VaultLock) => withCache(lock, () => KEY_LOADERS[lock.key](lock));
  return {
    getPreferredSource: () => (passphraseFile !== undefined ? "passphrase file" : keyring() ? "keyring" : "key file"),
    getKey: loadKey,
    createKey(id) {
      if (passphraseFile !== undefined) {
        const lock: VaultLock = { id, key: "passphrase file", salt: randomBytes(16).toString("base64") };
        return { lock, key: loadKey(lock) };
      }
      const written = randomBytes(KEY_BYTES).toString("hex");
      keyring()?.set(id, written);
      if (keyring()?.get(id) === written) return { lock: { id, key: "keyring" }, key: Buffer.from(written, "hex") };
      createKeyFile(keyFile, written);
      const lock: VaultLock = { id, key: "key file" };
      return { lock, key: loadKey(lock) };
    },
    check: () => {
      if (passphraseFile !== undefined) readPassphrase(passphraseFile);
    },
    forget({ key }) {
      if (key !== "key file") return;
      try {
        rmSync(keyFile, { force: true });
      } catch {
        // It locks nothing any more, so this must not fail a sign-in.
      }
    },
  };
}

const PASSPHRASE_VARIABLE = "SKILLET_VAULT_PASSPHRASE_FILE";
const KEY_BYTES = 32;
const MIN_PASSPHRASE_LENGTH = 8;
/** Takes 32 MiB and about 60 ms per passphrase. */
const SCRYPT_OPTIONS = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 };

function readPassphrase(file: string): string {
  const passphrase = readSecretFile(file);
  if (passphrase.length >= MIN_PASSPHRASE_LENGTH) return passphrase;
  throw new SkillError("vault-unreadable", {
    message: `The passphrase in ${file} is shorter than ${MIN_PASSPHRASE_LENGTH} characters`,
    fix: `write a longer one: \`openssl rand -base64 24 > ${file}\``,
  });
}

/** Reads a file that only the user can access, without its final newline. */
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
      message: `Cannot read the vault key ${file}: ${getErrorMessage(error)}`,
      fix: "restore the file; without it the vault cannot be opened: move vault.json away and sign in again",
      cause: error,
    });
  }
}

const MAX_SECRET_BYTES = 64 * 1024;

/** Refuses a file that other users may have read. It does not fix the mode, because that would hide the leak. */
export function requirePrivateFile(file: string, mode: number): void {
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  throw new SkillError("vault-unreadable", {
    message: `${file} is accessible to other users of this machine, so it is not used`,
    fix: `run \`chmod 600 ${file}\`; if another user may have read it, sign in again`,
  });
}

function createKeyFile(file: string, key: string): void {
  try {
    writeFileSync(file, `${key}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (getErrnoCode(error) === "EEXIST") return; // The key of an earlier vault is as good as a new one.
    throw new SkillError("unwritable", {
      message: `Cannot write ${file}: ${getErrorMessage(error)}`,
      fix: "check that the folder is writable",
      cause: error,
    });
  }
}

function parseKey(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, "hex") : undefined;
}

function createPassphraseError(): SkillError {
  return new SkillError("vault-unreadable", {
    message: "The vault is locked with a passphrase, but no passphrase file is configured",
    fix: `set vault_passphrase_file under [capabilities] in the configuration, or ${PASSPHRASE_VARIABLE}`,
  });
}

function throwKeyringError(keyring: Keyring | undefined): never {
  throw new SkillError("vault-unreadable", {
    message: keyring
      ? `Cannot read the vault key from ${keyring.name}`
      : "The vault key is in the system keyring, which is not available here",
    fix: "unlock the keyring, or run this in a session that has it; if the key is lost, move vault.json away and sign in again",
  });
}

function throwKeyFileError(file: string): never {
  throw new SkillError("vault-unreadable", {
    message: `${file} is not a vault key: it was edited or overwritten`,
    fix: "restore the original file; if it is lost, move vault.json and vault.key away and sign in again",
  });
}

/** The system's storage for users' secrets. */
interface Keyring {
  /** The display name. */
  readonly name: string;
  /** Returns undefined if it has no secret of this name, is locked, or does not answer. */
  get(id: string): string | undefined;
  /** Contract: call `get` afterwards to check that it was stored. */
  set(id: string, secret: string): void;
}

type KeyringEnv = Readonly<Record<string, string | undefined>>;
type FindProgram = (name: string) => string | undefined;

/** Returns the keyring of this machine; undefined without a keyring or a user session. */
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
    // As commands on stdin: as an argument, every user of the machine could see the key while it runs. Any program of this user can still
    // ask `security` for it afterwards.
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
