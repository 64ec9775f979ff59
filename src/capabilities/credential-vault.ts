import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { join } from "node:path";
import { formatProblem, getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
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
  now?: () => number;
}

/** The vault in skillet's home folder. */
export interface FileVault extends Vault {
  readonly file: string;
  /** Returns the source of its key, or the source a new key would have. Creates no key. */
  getKeySource(): Promise<VaultKeySource>;
  /** Returns why the vault cannot be used or accepts no sign-in; undefined if it can. */
  findProblem(): Promise<string | undefined>;
}

export function createVault(skilletHome: string, options: VaultOptions): FileVault {
  const file = join(skilletHome, "vault.json");
  const keys = createVaultKeys(skilletHome, options);
  const now = options.now ?? Date.now;

  /** Contract: returns the right key. Entries sealed with a second key would be lost with either one. */
  const requireKey = ({ lock, check }: VaultContent): Buffer => {
    const key = keys.getKey(lock);
    if (unsealText(key, createCheckContext(lock.id), check) === undefined) {
      throw createVaultReadError(file, `the key from the ${lock.key} does not match, or the file was edited`);
    }
    return key;
  };
  const unsealJson = (key: Buffer, context: unknown, box: string, what: string): JsonObject => {
    const text = unsealText(key, context, box);
    if (text === undefined) throw createVaultReadError(file, `the entry of ${what} was edited`);
    return JSON.parse(text);
  };
  const unsealCredential = (content: VaultContent, key: Buffer, entry: SealedCredential) =>
    unsealJson(key, createCredentialContext(content, entry), entry.box, `${entry.account} of ${entry.namespace}`);
  const unsealPending = (content: VaultContent, key: Buffer, value: SealedValue) =>
    unsealJson(key, createValueContext(content, value), value.box, "a pending sign-in");
  const isLive = ({ expiresAt }: SealedValue) => Date.parse(expiresAt) > now();

  const createContent = (): VaultContent => {
    const { lock, key } = keys.createKey(randomBytes(16).toString("hex"));
    return { lock, check: sealText(key, createCheckContext(lock.id), "skillet"), credentials: [], kept: [] };
  };
  /** Seals everything again with the passphrase, if one was configured for a vault that has another key. */
  const resealIfNeeded = (content: VaultContent): VaultContent => {
    if (content.lock.key === keys.getPreferredSource() || keys.getPreferredSource() !== "passphrase file")
      return content;
    const old = requireKey(content);
    const next = createContent();
    const key = requireKey(next);
    for (const entry of content.credentials) {
      const secret = unsealCredential(content, old, entry);
      next.credentials.push({
        ...entry,
        box: sealText(key, createCredentialContext(next, entry), JSON.stringify(secret)),
      });
    }
    for (const entry of content.kept.filter(isLive)) {
      const value = unsealPending(content, old, entry);
      next.kept.push({ ...entry, box: sealText(key, createValueContext(next, entry), JSON.stringify(value)) });
    }
    return next;
  };
  const add = (work: (content: VaultContent, key: Buffer) => void) =>
    withFileLock(file, () => {
      const existing = readVaultFile(file);
      const content = existing ? resealIfNeeded(existing) : createContent();
      content.kept = content.kept.filter(isLive);
      work(content, requireKey(content));
      writeVaultFile(file, content);
      if (existing && existing.lock.id !== content.lock.id) keys.forget(existing.lock);
    });
  /** Stores a value with a lifetime, unless `isKept` keeps the value that is stored already. */
  const putValue = (
    id: string,
    value: JsonObject,
    seconds: number,
    isKept: (before: SealedValue | undefined) => boolean,
  ): boolean => {
    let isStored = false;
    add((content, key) => {
      if (isKept(content.kept.find((one) => one.id === id))) return;
      content.kept = content.kept.filter((one) => one.id !== id);
      if (content.kept.length >= MAX_PENDING_VALUES)
        throw createVaultFullError(`${MAX_PENDING_VALUES} sign-ins are pending, so no other can begin`);
      const entry = { id, expiresAt: new Date(now() + seconds * 1000).toISOString() };
      content.kept.push({ ...entry, box: sealText(key, createValueContext(content, entry), JSON.stringify(value)) });
      isStored = true;
    });
    return isStored;
  };
  /** Removes entries; needs no key. */
  const removeEntries = (work: (content: VaultContent) => VaultContent) =>
    withFileLock(file, () => {
      const content = readVaultFile(file);
      if (!content) return 0;
      const remaining = work(content);
      const removed =
        content.credentials.length + content.kept.length - remaining.credentials.length - remaining.kept.length;
      if (removed > 0) writeVaultFile(file, remaining);
      return removed;
    });

  return {
    file,
    list: async () => (readVaultFile(file)?.credentials ?? []).map(({ box: _, ...entry }) => entry),
    async get(namespace, { user, account, origin }) {
      const content = readVaultFile(file);
      const entry = content?.credentials
        .filter((one) => matchesAccount(one, namespace, { user, account }) && matchesOrigin(one, origin))
        .reduce<SealedCredential | undefined>((last, one) => (last && last.at > one.at ? last : one), undefined);
      if (!content || !entry) return undefined;
      const secret = unsealCredential(content, requireKey(content), entry);
      return { account: entry.account, secret, scopes: entry.scopes, ...omitUndefined({ expiresAt: entry.expiresAt }) };
    },
    set: async (namespace, user, { account, secret, scopes = [], expiresAt }: Credential, { origin, isRenewed } = {}) =>
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
    remove: async (namespace, of = {}) =>
      removeEntries((content) => ({
        ...content,
        credentials: content.credentials.filter((one) => !matchesAccount(one, namespace, of)),
      })),
    put: async (id, value, seconds) => void putValue(id, value, seconds, () => false),
    putIfAbsent: async (id, value, seconds) => putValue(id, value, seconds, (before) => before !== undefined),
    async peek(id) {
      const content = readVaultFile(file);
      const value = content?.kept.find((one) => one.id === id);
      return content && value && isLive(value) ? unsealPending(content, requireKey(content), value) : undefined;
    },
    async take(id) {
      let taken: JsonObject | undefined;
      removeEntries((content) => {
        const value = content.kept.find((one) => one.id === id);
        if (value && isLive(value)) taken = unsealPending(content, requireKey(content), value);
        return { ...content, kept: content.kept.filter((one) => one.id !== id && isLive(one)) };
      });
      return taken;
    },
    getKeySource: async () => readVaultFile(file)?.lock.key ?? keys.getPreferredSource(),
    async findProblem() {
      try {
        const content = readVaultFile(file);
        if (content) requireKey(content);
        keys.check();
        return undefined;
      } catch (error) {
        if (error instanceof SkillError) return formatProblem(error);
        throw error;
      }
    },
  };
}

/** Pending sign-ins: a skill cannot fill the vault by beginning more and more. */
const MAX_PENDING_VALUES = 500;

// The additional authenticated data of a box: its vault, its kind, and all of its cleartext fields.
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

/** The content of `vault.json`. Fields that are not secret are cleartext; editing them makes their box impossible to open. */
interface VaultContent {
  lock: VaultLock;
  /** A box with known content, which only the right key opens. */
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

/** Reads the vault; undefined if the file does not exist. Throws a SkillError if it cannot be read. */
function readVaultFile(file: string): VaultContent | undefined {
  try {
    const text = readRegularText(file, { limit: MAX_VAULT_BYTES, check: ({ mode }) => requirePrivateFile(file, mode) });
    return parseVaultContent(JSON.parse(text));
  } catch (error) {
    if (getErrnoCode(error) === "ENOENT") return undefined;
    // The parser's message may quote the content.
    if (error instanceof SyntaxError) throw createVaultReadError(file, "it is not JSON");
    throw error instanceof SkillError ? error : createVaultReadError(file, getErrorMessage(error));
  }
}

/** Throws a SkillError rather than write a file too large to read. */
function writeVaultFile(file: string, content: VaultContent): void {
  const text = `${stringifyCanonical({ version: 1, ...content })}\n`;
  if (text.length > MAX_VAULT_BYTES) throw createVaultFullError(`${file} would be larger than 16 MiB`);
  replaceFile(file, text);
}

function createVaultFullError(message: string): SkillError {
  const fix = "finish a pending sign-in, or wait: each expires within an hour";
  return new SkillError("vault-full", { message, fix });
}

/** Encrypts a text and authenticates `context` with it. Uses a new nonce each time. */
function sealText(key: Buffer, context: unknown, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  cipher.setAAD(Buffer.from(stringifyCanonical(context)));
  const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  return sealed.toString("base64");
}

/** Decrypts a box; undefined if the key differs, or the box or its context was edited. */
function unsealText(key: Buffer, context: unknown, box: string): string | undefined {
  const bytes = Buffer.from(box, "base64");
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(stringifyCanonical(context)));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

function createVaultReadError(file: string, why: string): SkillError {
  return new SkillError("vault-unreadable", {
    message: `Cannot read ${file}: ${why}`,
    fix: "restore a copy of the file; without one, move it away and sign in again. The file was not changed",
  });
}

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MAX_VAULT_BYTES = 16 * 1024 * 1024;

function parseVaultContent(value: unknown): VaultContent {
  if (!isJsonObject(value) || value["version"] !== 1) throw new Error("its version is not supported");
  const { lock, check, credentials, kept } = value;
  const isWhole =
    isVaultLock(lock) && isText(check) && isListOf(credentials, isSealedCredential) && isListOf(kept, isSealedValue);
  if (!isWhole) throw new Error("an entry is invalid");
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
