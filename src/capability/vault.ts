import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Credential, Vault, VaultEntry } from "../host/capabilities.ts";
import { whileLocked } from "../host/locked-file.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { Data } from "../skill/data.ts";
import { isAt, isOf } from "./vault-entry.ts";
import {
  full,
  readVault,
  type SealedCredential,
  type SealedValue,
  seal,
  unreadable,
  unseal,
  type VaultContent,
  writeVault,
} from "./vault-file.ts";
import { type KeyOptions, type KeySource, openVaultKeys } from "./vault-key.ts";

export interface VaultOptions extends KeyOptions {
  /** The time in milliseconds, as `Date.now` gives it. */
  now?: () => number;
}

/** The vault in skillet's own folder. */
export interface FileVault extends Vault {
  readonly file: string;
  /** Where its key is from; where there is none yet, where it would be from. Makes none. */
  keyFrom(): KeySource;
  /** Why it cannot be used, or no sign-in can be put into it; nothing when it can. */
  problem(): string | undefined;
}

export function openVault(skilletHome: string, options: VaultOptions): FileVault {
  const file = join(skilletHome, "vault.json");
  const keys = openVaultKeys(skilletHome, options);
  const now = options.now ?? Date.now;

  /** Contract: the right one. A credential under another key beside those under this one would be lost with either. */
  const keyOf = ({ lock, check }: VaultContent): Buffer => {
    const key = keys.keyOf(lock);
    if (unseal(key, asideCheck(lock.id), check) === undefined) {
      throw unreadable(file, `the key from the ${lock.key} is not the one that it was locked with, or it was edited`);
    }
    return key;
  };
  const opened = (key: Buffer, beside: unknown, box: string, what: string): Data => {
    const text = unseal(key, beside, box);
    if (text === undefined) throw unreadable(file, `what it says of ${what} was edited`);
    return JSON.parse(text);
  };
  const credentialOf = (content: VaultContent, key: Buffer, entry: SealedCredential) =>
    opened(key, asideCredential(content, entry), entry.box, `${entry.account} of ${entry.namespace}`);
  const keptOf = (content: VaultContent, key: Buffer, value: SealedValue) =>
    opened(key, asideValue(content, value), value.box, "a sign-in that is under way");
  const isLive = ({ expiresAt }: SealedValue) => Date.parse(expiresAt) > now();

  const made = (): VaultContent => {
    const { lock, key } = keys.make(randomBytes(16).toString("hex"));
    return { lock, check: seal(key, asideCheck(lock.id), "skillet"), credentials: [], kept: [] };
  };
  /** Who configures a passphrase for a vault that has another key wants all that is in it to be under it. */
  const relocked = (content: VaultContent): VaultContent => {
    if (content.lock.key === keys.preferred() || keys.preferred() !== "passphrase file") return content;
    const old = keyOf(content);
    const next = made();
    const key = keyOf(next);
    for (const entry of content.credentials) {
      const secret = credentialOf(content, old, entry);
      next.credentials.push({ ...entry, box: seal(key, asideCredential(next, entry), JSON.stringify(secret)) });
    }
    for (const entry of content.kept.filter(isLive)) {
      const value = keptOf(content, old, entry);
      next.kept.push({ ...entry, box: seal(key, asideValue(next, entry), JSON.stringify(value)) });
    }
    return next;
  };
  const add = (work: (content: VaultContent, key: Buffer) => void) =>
    whileLocked(file, () => {
      const there = readVault(file);
      const content = there ? relocked(there) : made();
      content.kept = content.kept.filter(isLive);
      work(content, keyOf(content));
      writeVault(file, content);
      if (there && there.lock.id !== content.lock.id) keys.forget(there.lock);
    });
  /** Needs no key. */
  const takeOut = (work: (content: VaultContent) => VaultContent) =>
    whileLocked(file, () => {
      const content = readVault(file);
      if (!content) return 0;
      const left = work(content);
      const gone = content.credentials.length + content.kept.length - left.credentials.length - left.kept.length;
      if (gone > 0) writeVault(file, left);
      return gone;
    });

  return {
    file,
    list: () => (readVault(file)?.credentials ?? []).map(({ box: _, ...entry }) => entry),
    get(namespace, { user, account, origin }) {
      const content = readVault(file);
      const entry = content?.credentials
        .filter((one) => isOf(one, namespace, { user, account }) && isAt(one, origin))
        .reduce<SealedCredential | undefined>((last, one) => (last && last.at > one.at ? last : one), undefined);
      if (!content || !entry) return undefined;
      const secret = credentialOf(content, keyOf(content), entry);
      return { account: entry.account, secret, scopes: entry.scopes, ...defined({ expiresAt: entry.expiresAt }) };
    },
    set: (namespace, user, { account, secret, scopes = [], expiresAt }: Credential, { origin, isRenewed } = {}) =>
      add((content, key) => {
        const isBefore = (one: VaultEntry) => isOf(one, namespace, { user, account }) && isAt(one, origin);
        const before = isRenewed ? content.credentials.find(isBefore) : undefined;
        const at = before?.at ?? new Date(now()).toISOString();
        const more = defined({ expiresAt, origin });
        const entry: VaultEntry = { namespace, account, user, scopes: [...scopes], at, ...more };
        content.credentials = content.credentials.filter((one) => !isBefore(one));
        content.credentials.push({ ...entry, box: seal(key, asideCredential(content, entry), JSON.stringify(secret)) });
      }),
    remove: (namespace, of = {}) =>
      takeOut((content) => ({
        ...content,
        credentials: content.credentials.filter((one) => !isOf(one, namespace, of)),
      })),
    put: (id, value, seconds) =>
      add((content, key) => {
        content.kept = content.kept.filter((one) => one.id !== id);
        if (content.kept.length >= MOST_KEPT)
          throw full(`${MOST_KEPT} sign-ins are under way at once, so no other is begun`);
        const entry = { id, expiresAt: new Date(now() + seconds * 1000).toISOString() };
        content.kept.push({ ...entry, box: seal(key, asideValue(content, entry), JSON.stringify(value)) });
      }),
    peek(id) {
      const content = readVault(file);
      const value = content?.kept.find((one) => one.id === id);
      return content && value && isLive(value) ? keptOf(content, keyOf(content), value) : undefined;
    },
    take(id) {
      let taken: Data | undefined;
      takeOut((content) => {
        const value = content.kept.find((one) => one.id === id);
        if (value && isLive(value)) taken = keptOf(content, keyOf(content), value);
        return { ...content, kept: content.kept.filter((one) => one.id !== id && isLive(one)) };
      });
      return taken;
    },
    keyFrom: () => readVault(file)?.lock.key ?? keys.preferred(),
    problem() {
      try {
        const content = readVault(file);
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
const MOST_KEPT = 500;

// What a box is tied to: the vault it is in, what kind of thing it is, and all that is said of it in clear.
function asideCheck(vault: string): Data {
  return { vault, kind: "check" };
}

function asideCredential({ lock }: VaultContent, entry: VaultEntry): Data {
  const { namespace, account, user, scopes, at, expiresAt, origin } = entry;
  return { vault: lock.id, kind: "credential", namespace, account, user, scopes, at, expiresAt, origin };
}

function asideValue({ lock }: VaultContent, { id, expiresAt }: Omit<SealedValue, "box">): Data {
  return { vault: lock.id, kind: "kept", id, expiresAt };
}
