import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { VaultEntry } from "../host/capabilities.ts";
import { replaceFile } from "../host/locked-file.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { readRegularText } from "../shared/regular-file.ts";
import { isData } from "../skill/data.ts";
import { canonical } from "./audit-chain.ts";
import { KEY_SOURCES, type Lock, refuseShared } from "./vault-key.ts";

/** What `vault.json` says. What is not secret can be read; whoever edits it makes the box beside it one that cannot be opened. */
export interface VaultContent {
  lock: Lock;
  /** A box whose content is known: a key that opens it is the right one. */
  check: string;
  credentials: SealedCredential[];
  kept: SealedValue[];
}

export interface SealedCredential extends VaultEntry {
  box: string;
}

export interface SealedValue {
  id: string;
  expiresAt: string;
  box: string;
}

/** Nothing when there is none. Throws a SkillError when it cannot be read. */
export function readVault(file: string): VaultContent | undefined {
  try {
    const text = readRegularText(file, { limit: LARGEST_VAULT, check: ({ mode }) => refuseShared(file, mode) });
    return contentFrom(JSON.parse(text));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    // What a parser says of it may quote it.
    if (error instanceof SyntaxError) throw unreadable(file, "it is no JSON");
    throw error instanceof SkillError ? error : unreadable(file, reason(error));
  }
}

/** Throws a SkillError rather than write what could not be read again. */
export function writeVault(file: string, content: VaultContent): void {
  const text = `${canonical({ version: 1, ...content })}\n`;
  if (text.length > LARGEST_VAULT) throw full(`${file} would be larger than 16 MiB`);
  replaceFile(file, text);
}

export function full(message: string): SkillError {
  const fix = "finish one of the sign-ins that are under way, or wait: each ends by itself within an hour";
  return new SkillError("vault-full", { message, fix });
}

/** Encrypted, and tied to what stands beside it. Another box each time. */
export function seal(key: Buffer, beside: unknown, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce);
  cipher.setAAD(Buffer.from(canonical(beside)));
  const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
  return sealed.toString("base64");
}

/** Nothing when the key is another one, or the box or what stands beside it was edited. */
export function unseal(key: Buffer, beside: unknown, box: string): string | undefined {
  const bytes = Buffer.from(box, "base64");
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(canonical(beside)));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}

export function unreadable(file: string, why: string): SkillError {
  return new SkillError("vault-unreadable", {
    message: `${file} cannot be read: ${why}`,
    fix: "put back a copy of it; if there is none, move it away and sign in again. Nothing in it was changed",
  });
}

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const LARGEST_VAULT = 16 * 1024 * 1024;

function contentFrom(said: unknown): VaultContent {
  if (!isData(said) || said["version"] !== 1) throw new Error("it is of another version");
  const { lock, check, credentials, kept } = said;
  const isWhole = isLock(lock) && isText(check) && isListOf(credentials, isCredential) && isListOf(kept, isValue);
  if (!isWhole) throw new Error("an entry of it is none");
  return { lock, check, credentials, kept };
}

function isLock(lock: unknown): lock is Lock {
  if (!isData(lock) || !isText(lock["id"])) return false;
  return KEY_SOURCES.some((source) => source === lock["key"]) && isTextOrNone(lock["salt"]);
}

function isCredential(entry: unknown): entry is SealedCredential {
  if (!isData(entry) || !["namespace", "account", "user", "at", "box"].every((key) => isText(entry[key]))) return false;
  return isListOf(entry["scopes"], isText) && isTextOrNone(entry["expiresAt"]) && isTextOrNone(entry["origin"]);
}

function isValue(entry: unknown): entry is SealedValue {
  return isData(entry) && ["id", "expiresAt", "box"].every((key) => isText(entry[key]));
}

function isListOf<T>(list: unknown, isItem: (item: unknown) => item is T): list is T[] {
  return Array.isArray(list) && list.every(isItem);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isTextOrNone(value: unknown): boolean {
  return value === undefined || isText(value);
}
