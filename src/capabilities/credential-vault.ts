import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Credential, Vault, VaultEntry } from "../host/capability-contract.ts";
import { replaceFile, withFileLock } from "../store/locked-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../util/objects.ts";
import { stringifyCanonical } from "./audit-log.ts";
import { matchesAccount, matchesOrigin } from "./credential-filter.ts";
import {
  createVaultKeys,
  requirePrivateFile,
  VAULT_KEY_SOURCES,
  type VaultKeyOptions,
  type VaultKeySource,
  type VaultLock,
} from "./vault-keys.ts";

interface VaultOptions extends VaultKeyOptions {
  /** The time in milliseconds, as `Date.now` gives it. */
  now?: () => number;
}

/** The vault in skillet's own folder. */
export interface FileVault extends Vault {
  readonly file: string;
  /** Where its key is from; where there is none yet, where it would be from. Makes none. */
  keyFrom(): VaultKeySource;
  /** Why it cannot be used, or no sign-in can be put into it; nothing when it can. */
  problem(): string | undefined;
}

export function createVault(skilletHome: string, options: VaultOptions): FileVault {
  const file = join(skilletHome, "vault.json");
  const keys = createVaultKeys(skilletHome, options);
  const now = options.now ?? Date.now;

  /** Contract: the right one. A credential under another key beside those under this one would be lost with either. */
  const keyOf = ({ lock, check }: VaultContent): Buffer => {
    const key = keys.keyOf(lock);
    if (unsealText(key, createCheckContext(lock.id), check) === undefined) {
      throw createVaultReadError(
        file,
        `the key from the ${lock.key} is not the one that it was locked with, or it was edited`,
      );
    }
    return key;
  };
  const opened = (key: Buffer, beside: unknown, box: string, what: string): JsonObject => {
    const text = unsealText(key, beside, box);
    if (text === undefined) throw createVaultReadError(file, `what it says of ${what} was edited`);
    return JSON.parse(text);
  };
  const credentialOf = (content: VaultContent, key: Buffer, entry: SealedCredential) =>
    opened(key, createCredentialContext(content, entry), entry.box, `${entry.account} of ${entry.namespace}`);
  const keptOf = (content: VaultContent, key: Buffer, value: SealedValue) =>
    opened(key, createValueContext(content, value), value.box, "a sign-in that is under way");
  const isLive = ({ expiresAt }: SealedValue) => Date.parse(expiresAt) > now();

  const made = (): VaultContent => {
    const { lock, key } = keys.make(randomBytes(16).toString("hex"));
    return { lock, check: sealText(key, createCheckContext(lock.id), "skillet"), credentials: [], kept: [] };
  };
  /** Who configures a passphrase for a vault that has another key wants all that is in it to be under it. */
  const relocked = (content: VaultContent): VaultContent => {
    if (content.lock.key === keys.preferred() || keys.preferred() !== "passphrase file") return content;
    const old = keyOf(content);
    const next = made();
    const key = keyOf(next);
    for (const entry of content.credentials) {
      const secret = credentialOf(content, old, entry);
      next.credentials.push({
        ...entry,
        box: sealText(key, createCredentialContext(next, entry), JSON.stringify(secret)),
      });
    }
    for (const entry of content.kept.filter(isLive)) {
      const value = keptOf(content, old, entry);
      next.kept.push({ ...entry, box: sealText(key, createValueContext(next, entry), JSON.stringify(value)) });
    }
    return next;
  };
  const add = (work: (content: VaultContent, key: Buffer) => void) =>
    withFileLock(file, () => {
      const there = readVaultFile(file);
      const content = there ? relocked(there) : made();
      content.kept = content.kept.filter(isLive);
      work(content, keyOf(content));
      writeVaultFile(file, content);
      if (there && there.lock.id !== content.lock.id) keys.forget(there.lock);
    });
  /** Needs no key. */
  const takeOut = (work: (content: VaultContent) => VaultContent) =>
    withFileLock(file, () => {
      const content = readVaultFile(file);
      if (!content) return 0;
      const left = work(content);
      const gone = content.credentials.length + content.kept.length - left.credentials.length - left.kept.length;
      if (gone > 0) writeVaultFile(file, left);
      return gone;
    });

  return {
    file,
    list: () => (readVaultFile(file)?.credentials ?? []).map(({ box: _, ...entry }) => entry),
    get(namespace, { user, account, origin }) {
      const content = readVaultFile(file);
      const entry = content?.credentials
        .filter((one) => matchesAccount(one, namespace, { user, account }) && matchesOrigin(one, origin))
        .reduce<SealedCredential | undefined>((last, one) => (last && last.at > one.at ? last : one), undefined);
      if (!content || !entry) return undefined;
      const secret = credentialOf(content, keyOf(content), entry);
      return { account: entry.account, secret, scopes: entry.scopes, ...omitUndefined({ expiresAt: entry.expiresAt }) };
    },
    set: (namespace, user, { account, secret, scopes = [], expiresAt }: Credential, { origin, isRenewed } = {}) =>
      add((content, key) => {
        const isBefore = (one: VaultEntry) =>
          matchesAccount(one, namespace, { user, account }) && matchesOrigin(one, origin);
        const before = isRenewed ? content.credentials.find(isBefore) : undefined;
        const at = before?.at ?? new Date(now()).toISOString();
        const more = omitUndefined({ expiresAt, origin });
        const entry: VaultEntry = { namespace, account, user, scopes: [...scopes], at, ...more };
        content.credentials = content.credentials.filter((one) => !isBefore(one));
        content.credentials.push({
          ...entry,
          box: sealText(key, createCredentialContext(content, entry), JSON.stringify(secret)),
        });
      }),
    remove: (namespace, of = {}) =>
      takeOut((content) => ({
        ...content,
        credentials: content.credentials.filter((one) => !matchesAccount(one, namespace, of)),
      })),
    put: (id, value, seconds) =>
      add((content, key) => {
        content.kept = content.kept.filter((one) => one.id !== id);
        if (content.kept.length >= MAX_PENDING_VALUES)
          throw createVaultFullError(`${MAX_PENDING_VALUES} sign-ins are under way at once, so no other is begun`);
        const entry = { id, expiresAt: new Date(now() + seconds * 1000).toISOString() };
        content.kept.push({ ...entry, box: sealText(key, createValueContext(content, entry), JSON.stringify(value)) });
      }),
    peek(id) {
      const content = readVaultFile(file);
      const value = content?.kept.find((one) => one.id === id);
      return content && value && isLive(value) ? keptOf(content, keyOf(content), value) : undefined;
    },
    take(id) {
      let taken: JsonObject | undefined;
      takeOut((content) => {
        const value = content.kept.find((one) => one.id === id);
        if (value && isLive(value)) taken = keptOf(content, keyOf(content), value);
        return { ...content, kept: content.kept.filter((one) => one.id !== id && isLive(one)) };
      });
      return taken;
    },
    keyFrom: () => readVaultFile(file)?.lock.key ?? keys.preferred(),
    problem() {
      try {
        const content = readVaultFile(file);
        if (content) keyOf(content);
        keys.check();
        return undefined;
      } catch (error) {
        if (error instanceof SkillError) return `${error.message}: ${error.fix}`;
        throw error;
      }
    },
  };
}

/** Sign-ins that are under way at once: no skill fills the vault by beginning more and more. */
const MAX_PENDING_VALUES = 500;

// What a box is tied to: the vault it is in, what kind of thing it is, and all that is said of it in clear.
function createCheckContext(vault: string): JsonObject {
  return { vault, kind: "check" };
}

function createCredentialContext({ lock }: VaultContent, entry: VaultEntry): JsonObject {
  const { namespace, account, user, scopes, at, expiresAt, origin } = entry;
  return { vault: lock.id, kind: "credential", namespace, account, user, scopes, at, expiresAt, origin };
}

function createValueContext({ lock }: VaultContent, { id, expiresAt }: Omit<SealedValue, "box">): JsonObject {
  return { vault: lock.id, kind: "kept", id, expiresAt };
}

/** What `vault.json` says. What is not secret can be read; whoever edits it makes the box beside it one that cannot be opened. */
interface VaultContent {
  lock: VaultLock;
  /** A box whose content is known: a key that opens it is the right one. */
  check: string;
  credentials: SealedCredential[];
  kept: SealedValue[];
}

interface SealedCredential extends VaultEntry {
  box: string;
}

interface SealedValue {
  id: string;
  expiresAt: string;
  box: string;
}

/** Nothing when there is none. Throws a SkillError when it cannot be read. */
function readVaultFile(file: string): VaultContent | undefined {
  try {
    const text = readRegularText(file, { limit: MAX_VAULT_BYTES, check: ({ mode }) => requirePrivateFile(file, mode) });
    return parseVaultContent(JSON.parse(text));
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return undefined;
    // What a parser says of it may quote it.
    if (error instanceof SyntaxError) throw createVaultReadError(file, "it is no JSON");
    throw error instanceof SkillError ? error : createVaultReadError(file, getErrorMessage(error));
  }
}

/** Throws a SkillError rather than write what could not be read again. */
function writeVaultFile(file: string, content: VaultContent): void {
  const text = `${stringifyCanonical({ version: 1, ...content })}\n`;
  if (text.length > MAX_VAULT_BYTES) throw createVaultFullError(`${file} would be larger than 16 MiB`);
  replaceFile(file, text);
}

function createVaultFullError(message: string): SkillError {
  const fix = "finish one of the sign-ins that are under way, or wait: each ends by itself within an hour";
  return new SkillError("vault-full", { message, fix });
}

/** Encrypted, and tied to what stands beside it. Another box each time. */
function sealText(key: Buffer, beside: unknown, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  cipher.setAAD(Buffer.from(stringifyCanonical(beside)));
  const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  return sealed.toString("base64");
}

/** Nothing when the key is another one, or the box or what stands beside it was edited. */
function unsealText(key: Buffer, beside: unknown, box: string): string | undefined {
  const bytes = Buffer.from(box, "base64");
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(stringifyCanonical(beside)));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

function createVaultReadError(file: string, why: string): SkillError {
  return new SkillError("vault-unreadable", {
    message: `${file} cannot be read: ${why}`,
    fix: "put back a copy of it; if there is none, move it away and sign in again. Nothing in it was changed",
  });
}

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAX_VAULT_BYTES = 16 * 1024 * 1024;

function parseVaultContent(said: unknown): VaultContent {
  if (!isJsonObject(said) || said["version"] !== 1) throw new Error("it is of another version");
  const { lock, check, credentials, kept } = said;
  const isWhole =
    isVaultLock(lock) && isText(check) && isListOf(credentials, isSealedCredential) && isListOf(kept, isSealedValue);
  if (!isWhole) throw new Error("an entry of it is none");
  return { lock, check, credentials, kept };
}

function isVaultLock(lock: unknown): lock is VaultLock {
  if (!isJsonObject(lock) || !isText(lock["id"])) return false;
  return VAULT_KEY_SOURCES.some((source) => source === lock["key"]) && isOptionalText(lock["salt"]);
}

function isSealedCredential(entry: unknown): entry is SealedCredential {
  if (!isJsonObject(entry) || !["namespace", "account", "user", "at", "box"].every((key) => isText(entry[key])))
    return false;
  return isListOf(entry["scopes"], isText) && isOptionalText(entry["expiresAt"]) && isOptionalText(entry["origin"]);
}

function isSealedValue(entry: unknown): entry is SealedValue {
  return isJsonObject(entry) && ["id", "expiresAt", "box"].every((key) => isText(entry[key]));
}

function isListOf<T>(list: unknown, isItem: (item: unknown) => item is T): list is T[] {
  return Array.isArray(list) && list.every(isItem);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || isText(value);
}
