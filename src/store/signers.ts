import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { isJsonObject } from "../util/objects.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";
import { hashSha256 } from "./lock-file.ts";

/** Somebody whose signatures count. */
export interface Signer {
  /** What the user calls them. */
  name: string;
  /** Their public key: 32 bytes, in Base64. */
  key: string;
  fingerprint: string;
  at: string;
}

/** Whose signatures count. Kept in the user's own folder, and read from nowhere else: no workspace names a signer. */
export interface SignerStore {
  readonly file: string;
  list(): Signer[];
  withKey(fingerprint: string): Signer | undefined;
  /** Contract: false when nothing changed. Throws a SkillError when the name or the key is another's already, or it cannot be written down. */
  add(name: string, key: Uint8Array): boolean;
  /** Contract: nothing when there is none of this name. */
  remove(name: string): Signer | undefined;
  /** Why nobody's signature counts: the record cannot be read. */
  problem(): string | undefined;
}

export function createSignerStore(skilletHome: string): SignerStore {
  const ledger = createJsonStore({
    file: join(skilletHome, "signers.json"),
    isEntry: isStoredSigner,
    unreadable: {
      code: "signers-unreadable",
      fix: "mend it, or remove it to start anew: then nobody's signature counts",
    },
  });
  const list = (entries: Readonly<Record<string, StoredSigner>> = ledger.entries()): Signer[] =>
    Object.entries(entries)
      .map(([name, { key, fingerprint, at }]) => ({ name, key, fingerprint, at }))
      .sort((a, b) => compareText(a.name, b.name));
  return {
    file: ledger.file,
    list: () => list(),
    withKey: (fingerprint) => list().find((signer) => signer.fingerprint === fingerprint),
    add: (name, key) =>
      ledger.change((entries) => {
        const fingerprint = fingerprintKey(key);
        if (!SIGNER_NAME.test(name)) throw createNameError();
        if (entries[name]?.fingerprint === fingerprint) return false;
        if (entries[name]) throw createTakenError(name, entries[name].fingerprint);
        const other = list(entries).find((signer) => signer.fingerprint === fingerprint);
        if (other) throw createKnownKeyError(other.name);
        entries[name] = { key: Buffer.from(key).toString("base64"), fingerprint, at: new Date().toISOString() };
        return true;
      }),
    remove: (name) =>
      ledger.change((entries) => {
        const gone = list(entries).find((signer) => signer.name === name);
        delete entries[name];
        return gone;
      }),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined
        ? undefined
        : `${ledger.file} cannot be read, so nobody's signature counts: ${problem}`;
    },
  };
}

/** What a key is told apart by: `sha256:…` of its 32 bytes. */
export function fingerprintKey(key: Uint8Array): string {
  return hashSha256(key);
}

/**
 * The 32 bytes of a public key as it was given: in Base64, alone or as SPKI, or as PEM. Throws a SkillError that repeats nothing of it, since
 * it may be a private one.
 */
export function parsePublicKey(given: string): Buffer {
  const text = given.trim();
  if (/PRIVATE KEY/.test(text)) throw createPrivateKeyError();
  if (/^(?:ssh|ecdsa|sk)-\S/.test(text)) throw createKeyError("This is a key of SSH, which signs nothing here");
  if (/^-----BEGIN (?:RSA )?PUBLIC KEY-----/.test(text)) return exportKeyBytes(readKey(() => createPublicKey(text)));
  const bytes = decodeBase64(text);
  if (!bytes) throw createKeyError("This is no public key, and no file that holds one");
  if (bytes.length === KEY_BYTES) return bytes;
  if (isPrivateKey(bytes)) throw createPrivateKeyError();
  return exportKeyBytes(readKey(() => createPublicKey({ key: bytes, format: "der", type: "spki" })));
}

/** The key itself, from its 32 bytes. */
export function createKeyObject(key: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, key]), format: "der", type: "spki" });
}

/** The 32 bytes of a public Ed25519 key. Throws a SkillError for one of another kind. */
export function exportKeyBytes(key: KeyObject): Buffer {
  const kind = key.asymmetricKeyType ?? "unknown";
  if (kind !== "ed25519") throw createKeyError(`This is a key of the kind ${kind}, not Ed25519`);
  return key.export({ format: "der", type: "spki" }).subarray(SPKI_PREFIX.length);
}

/** Nothing when it is none, to the last character. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.length > 0 && bytes.toString("base64") === text ? bytes : undefined;
}

const KEY_BYTES = 32;
/** What stands before the bytes of every Ed25519 key in DER (RFC 8410). */
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const SIGNER_NAME = /^[A-Za-z0-9][\w.@+-]{0,63}$/;

type StoredSigner = Omit<Signer, "name">;

function isStoredSigner(entry: unknown): entry is StoredSigner {
  if (!isJsonObject(entry) || typeof entry["key"] !== "string" || typeof entry["at"] !== "string") return false;
  const key = decodeBase64(entry["key"]);
  return key?.length === KEY_BYTES && entry["fingerprint"] === fingerprintKey(key);
}

function readKey(read: () => KeyObject): KeyObject {
  try {
    return read();
  } catch {
    throw createKeyError("This is no public key"); // What OpenSSL says of it helps nobody, and may repeat it.
  }
}

function isPrivateKey(bytes: Buffer): boolean {
  return (["pkcs8", "pkcs1", "sec1"] as const).some((type) => {
    try {
      return createPrivateKey({ key: bytes, format: "der", type }).type === "private";
    } catch {
      return false;
    }
  });
}

function createKeyError(message: string): SkillError {
  return new SkillError("signer-key", {
    message,
    fix: "give the key that `skillet sign` shows to whoever signs: 44 characters of Base64, or a PEM file with a PUBLIC KEY",
  });
}

function createPrivateKeyError(): SkillError {
  return new SkillError("signer-key", {
    message: "This is a private key: whoever has it can sign in its owner's name. Nothing was written down",
    fix: "give the public one, which `skillet sign` shows to its owner; if others have seen this one, it is of no use any more",
  });
}

function createNameError(): SkillError {
  return new SkillError("usage", {
    message: "This cannot be what a signer is called",
    fix: "use up to 64 letters, digits and . _ @ + -, as in alice or alice@example.org",
  });
}

function createTakenError(name: string, fingerprint: string): SkillError {
  return new SkillError("signer-taken", {
    message: `${name} is known with another key, ${fingerprint}`,
    fix: `ask them which one holds; if it is the new one: skillet signers remove ${name}`,
  });
}

function createKnownKeyError(name: string): SkillError {
  return new SkillError("signer-taken", {
    message: `This key is known already, as that of ${name}`,
    fix: `to call them otherwise, first: skillet signers remove ${name}`,
  });
}
