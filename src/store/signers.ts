import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { join } from "node:path";
import { SkillError } from "../errors/problem.ts";
import { isJsonObject } from "../util/objects.ts";
import { compareText } from "../util/text.ts";
import { createJsonStore } from "./json-store.ts";
import { hashSha256 } from "./lock-file.ts";

/** A trusted signer. */
export interface Signer {
  /** The name that the user gave the signer. */
  name: string;
  /** The public key: 32 bytes, in Base64. */
  key: string;
  fingerprint: string;
  at: string;
}

/** The trusted signers. Stored in the user's own folder and read only from there: no workspace can add a signer. */
export interface SignerStore {
  readonly file: string;
  list(): Signer[];
  withKey(fingerprint: string): Signer | undefined;
  /**
   * Contract: returns false if nothing changed. Throws a SkillError when the name or the key belongs to another signer,
   * or the record cannot be written.
   */
  add(name: string, key: Uint8Array): boolean;
  /** Contract: returns undefined if there is no signer of this name. */
  remove(name: string): Signer | undefined;
  /** Returns the reason why no signature counts: the record cannot be read. */
  problem(): string | undefined;
}

export function createSignerStore(skilletHome: string): SignerStore {
  const ledger = createJsonStore({
    file: join(skilletHome, "signers.json"),
    isEntry: isStoredSigner,
    unreadable: {
      code: "signers-unreadable",
      fix: "fix the file, or remove it: then no signature is trusted until you add signers again",
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
      ledger.update((entries) => {
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
      ledger.update((entries) => {
        const gone = list(entries).find((signer) => signer.name === name);
        delete entries[name];
        return gone;
      }),
    problem: () => {
      const problem = ledger.problem();
      return problem === undefined
        ? undefined
        : `${ledger.file} cannot be read, so no signature is trusted: ${problem}`;
    },
  };
}

/** Returns the fingerprint of a key: `sha256:…` of its 32 bytes. */
export function fingerprintKey(key: Uint8Array): string {
  return hashSha256(key);
}

/**
 * Parses a public key in Base64 (raw or SPKI) or PEM into its 32 bytes. Throws a SkillError that quotes nothing, since
 * the text may be a private key.
 */
export function parsePublicKey(input: string): Buffer {
  const text = input.trim();
  if (/PRIVATE KEY/.test(text)) throw createPrivateKeyError();
  if (/^(?:ssh|ecdsa|sk)-\S/.test(text))
    throw createKeyError("This is an SSH key; skills are signed with Ed25519 keys");
  if (/^-----BEGIN (?:RSA )?PUBLIC KEY-----/.test(text)) return exportKeyBytes(readKey(() => createPublicKey(text)));
  const bytes = decodeBase64(text);
  if (!bytes) throw createKeyError("This is neither a public key nor a file with one");
  if (bytes.length === KEY_BYTES) return bytes;
  if (isPrivateKey(bytes)) throw createPrivateKeyError();
  return exportKeyBytes(readKey(() => createPublicKey({ key: bytes, format: "der", type: "spki" })));
}

/** Creates the key object from its 32 bytes. */
export function createKeyObject(key: Uint8Array): KeyObject {
  return createPublicKey({ key: Buffer.concat([SPKI_PREFIX, key]), format: "der", type: "spki" });
}

/** Exports the 32 bytes of a public Ed25519 key. Throws a SkillError for another key type. */
export function exportKeyBytes(key: KeyObject): Buffer {
  const kind = key.asymmetricKeyType ?? "unknown";
  if (kind !== "ed25519") throw createKeyError(`This key is of type ${kind}, not Ed25519`);
  return key.export({ format: "der", type: "spki" }).subarray(SPKI_PREFIX.length);
}

/** Returns undefined if the text is not exactly Base64. */
export function decodeBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  return bytes.length > 0 && bytes.toString("base64") === text ? bytes : undefined;
}

const KEY_BYTES = 32;
/** The DER prefix of every Ed25519 key (RFC 8410). */
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
    throw createKeyError("This is not a public key"); // OpenSSL's message does not help, and may quote the key.
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
    fix: "use 44 characters of Base64, or a PEM file with a PUBLIC KEY; the signer gets both with",
    commands: ["skillet sign"],
  });
}

function createPrivateKeyError(): SkillError {
  return new SkillError("signer-key", {
    message: "This is a private key, which must stay with its owner. Nothing was stored",
    fix: "if others have seen this private key, replace it; its owner gets the public key with",
    commands: ["skillet sign"],
  });
}

function createNameError(): SkillError {
  return new SkillError("usage", {
    message: "Invalid signer name",
    fix: "use up to 64 letters, digits and . _ @ + -, as in alice or alice@example.org",
  });
}

function createTakenError(name: string, fingerprint: string): SkillError {
  return new SkillError("signer-taken", {
    message: `${name} already has another key, ${fingerprint}`,
    fix: "ask the signer which key is valid; if it is the new one, run",
    commands: [`skillet signers remove ${name}`],
  });
}

function createKnownKeyError(name: string): SkillError {
  return new SkillError("signer-taken", {
    message: `This key is already stored for ${name}`,
    fix: "to rename the signer, first run",
    commands: [`skillet signers remove ${name}`],
  });
}
