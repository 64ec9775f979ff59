import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { SIGNATURE_FILE } from "../skill/skill.ts";
import { digestTree, type LockedFiles, readFileTree } from "../store/lock-file.ts";
import { replaceFile } from "../store/locked-file.ts";
import { createKeyObject, decodeBase64, exportKeyBytes, fingerprintKey, type SignerStore } from "../store/signers.ts";
import { createFolder } from "../util/file-access.ts";
import { isJsonObject } from "../util/objects.ts";
import { readFileInside } from "../util/safe-path.ts";
import type { SkillWrite } from "./skills-dir.ts";

/** The state of a skill's signature. `key` is a fingerprint. */
export type SignatureState =
  | { state: "none" }
  | { state: "valid"; signer: string; key: string }
  | { state: "unknown-signer"; key: string }
  | { state: "broken"; reason: string };

export interface SignedSkill {
  file: string;
  /** The fingerprint of the key. */
  key: string;
  digest: string;
}

/**
 * Signs a skill: its name and all files of its folder. Throws a SkillError if it cannot be signed, or the signature
 * would not be valid once the skill is added.
 */
export function signSkill(request: { folder: string; name: string; privateKey: KeyObject }): SignedSkill {
  const { folder, name, privateKey } = request;
  const key = fingerprintKey(getPublicKey(privateKey));
  const digest = digestTree(selectSignableFiles(name, readSignedFiles(folder)), SIGNATURE_FILE);
  const signature = sign(null, createStatement(name, digest), privateKey).toString("base64");
  const file = join(folder, SIGNATURE_FILE);
  replaceFile(
    file,
    `${JSON.stringify({ version: SIGNATURE_VERSION, key, name, digest, signature }, null, 2)}\n`,
    0o644,
  );
  return { file, key, digest };
}

/**
 * Checks whether a skill is signed, by whom, and unchanged since. `files`: the content of its folder, if known. Never
 * throws.
 */
export function checkSignature(request: {
  folder: string;
  name: string;
  files?: LockedFiles;
  signers: Pick<SignerStore, "withKey">;
}): SignatureState {
  const { folder, name, signers } = request;
  try {
    const stats = lstatSync(join(folder, SIGNATURE_FILE), { throwIfNoEntry: false });
    if (!stats) return { state: "none" };
    if (stats.isSymbolicLink()) return createBrokenState("is a symlink");
    const read = readFileInside(realpathSync(folder), SIGNATURE_FILE, MAX_SIGNATURE_BYTES);
    if ("code" in read) return createBrokenState(UNREADABLE_REASONS[read.code] ?? "cannot be read");
    const written = parseSignature(read.bytes.toString("utf8"));
    if (typeof written === "string") return createBrokenState(written);
    if (written.name !== name || name.includes("\n")) return createBrokenState("belongs to a skill of another name");
    const digest = digestTree(request.files ?? readFileTree(folder), SIGNATURE_FILE);
    if (written.digest !== digest)
      return createBrokenState("does not match the files: some were changed, added or removed after signing");
    const signer = signers.withKey(written.key);
    if (!signer) return { state: "unknown-signer", key: written.key };
    const key = createKeyObject(Buffer.from(signer.key, "base64"));
    if (!verify(null, createStatement(name, digest), key, written.signature))
      return createBrokenState("was not created with the key that it names");
    return { state: "valid", signer: signer.name, key: signer.fingerprint };
  } catch (error) {
    return createBrokenState(`cannot be checked: ${getErrorMessage(error)}`);
  }
}

const SIGNATURE_VERSION = 1;
const MAX_SIGNATURE_BYTES = 64 * 1024;
const SIGNATURE_BYTES = 64;
const DIGEST_PATTERN = /^sha256:[0-9a-f]{64}$/;
const UNREADABLE_REASONS: Readonly<Record<string, string>> = {
  "too-large": "is larger than 64 KiB",
  "not-a-file": "is not a regular file",
};

/** Creates the signed bytes. Neither a name nor a digest contains a line break, so the result is unambiguous. */
function createStatement(name: string, digest: string): Buffer {
  return Buffer.from(`skillet-signature-v1\n${name}\n${digest}\n`);
}

interface SignatureRecord {
  key: string;
  name: string;
  digest: string;
  signature: Buffer;
}

/** Parses a signature, or returns the reason why it is invalid. */
function parseSignature(text: string): SignatureRecord | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "is not JSON";
  }
  if (!isJsonObject(value)) return "is not a signature";
  const { version, key, name, digest, signature } = value;
  if (version !== SIGNATURE_VERSION) return "has an unsupported version";
  if (typeof key !== "string" || !DIGEST_PATTERN.test(key)) return "names no key";
  if (typeof digest !== "string" || !DIGEST_PATTERN.test(digest) || typeof name !== "string")
    return "does not state what is signed";
  const bytes = typeof signature === "string" ? decodeBase64(signature) : undefined;
  return bytes?.length === SIGNATURE_BYTES ? { key, name, digest, signature: bytes } : "contains no signature";
}

function createBrokenState(reason: string): SignatureState {
  return { state: "broken", reason: `${SIGNATURE_FILE} ${reason}` };
}

function readSignedFiles(folder: string): LockedFiles {
  try {
    return readFileTree(folder);
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${folder} cannot be read: ${getErrorMessage(error)}`,
      fix: "give yourself read permission for all files in it",
      cause: error,
    });
  }
}

/** Folders of version control are not added with a skill. */
const VERSION_CONTROL_PATH = /(?:^|\/)\.(?:git|hg|svn)(?:\/|$)/;

/** Selects the files that a user who adds the skill gets. Files that would differ there cannot be signed. */
function selectSignableFiles(name: string, all: LockedFiles): LockedFiles {
  if (name.includes("\n")) throw createUnsignableFileError(name, "its name contains a line break", "rename it");
  const files = Object.entries(all).filter(([path]) => !VERSION_CONTROL_PATH.test(path));
  for (const [path, { mode }] of files) {
    if (mode === "link")
      throw createUnsignableFileError(
        name,
        `"${path}" is a symlink, and symlinks are never added with a skill`,
        "replace it with the file itself",
      );
    if (mode === "other") throw createUnsignableFileError(name, `"${path}" is not a regular file`, "remove it");
    if (mode !== "644" && mode !== "755")
      throw createUnsignableFileError(
        name,
        `"${path}" is world-writable, or has a setuid or setgid bit`,
        "run: chmod o-w,u-s,g-s",
      );
  }
  return Object.fromEntries(files);
}

function createUnsignableFileError(name: string, why: string, fix: string): SkillError {
  return new SkillError("unsignable", { message: `"${name}" cannot be signed: ${why}`, fix });
}

/** Describes the signature of a skill, to follow its name. */
export function formatSignature(state: SignatureState | undefined): string {
  switch (state?.state) {
    case "valid":
      return `is signed by ${state.signer}`;
    case "unknown-signer":
      return `is signed by an unknown signer (${state.key}), so its signature cannot be checked`;
    case "broken":
      return `has an invalid signature: ${state.reason}`;
    default:
      return "is not signed";
  }
}

/** Creates the error for a skill that must be signed by a known signer and is not. */
export function createNotSignedError(name: string, state: SignatureState | undefined): SkillError {
  return new SkillError("not-signed", {
    message: `Skill "${name}" ${formatSignature(state)}, and nothing was added`,
    fix: "ask its author for a signature, and add their key",
    commands: ["skillet signers add NAME KEY"],
  });
}

/**
 * Throws if a skill must be signed and is not: all of them with `all`, otherwise those whose lock entry requires it.
 * Returns them with the requirement in their lock entry, so that no later update can drop it.
 */
export function requireSignatures<Coming extends { name: string; put: SkillWrite }>(
  coming: readonly Coming[],
  { signers, all = false }: { signers: Pick<SignerStore, "withKey">; all?: boolean },
): Coming[] {
  return coming.map((one) => {
    const { name, put } = one;
    if (!all && !put.entry.requireSignature) return one;
    const state = checkSignature({ folder: put.folder, name, files: put.entry.files, signers });
    if (state.state !== "valid") throw createNotSignedError(name, state);
    return { ...one, put: { ...put, entry: { ...put.entry, requireSignature: true } } };
  });
}

/** Returns the path of the user's own signing key. */
export function getSigningKeyFile(skilletHome: string): string {
  return join(skilletHome, "signing-key.pem");
}

/**
 * Creates a key that only the user can read. Throws a SkillError if one exists: its signatures would have an unknown
 * signer.
 */
export async function createSigningKey(
  file: string,
  passphrase: () => Promise<string | undefined>,
): Promise<KeyObject> {
  if (lstatSync(file, { throwIfNoEntry: false })) throw createKeyExistsError(file);
  const { privateKey } = generateKeyPairSync("ed25519");
  const entered = await passphrase();
  const locked = entered === undefined ? {} : { cipher: "aes-256-cbc", passphrase: entered };
  const pem = privateKey.export({ format: "pem", type: "pkcs8", ...locked });
  try {
    createFolder(dirname(file));
    writeFileSync(file, pem, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (getErrnoCode(error) === "EEXIST") throw createKeyExistsError(file);
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${getErrorMessage(error)}`,
      fix: "check that the folder is writable",
      cause: error,
    });
  }
  return privateKey;
}

function createKeyExistsError(file: string): SkillError {
  return new SkillError("signing-key", {
    message: `${file} already exists, and is not replaced`,
    fix: "for a new key, move the old one away and publish the new one; to see its public key",
    commands: ["skillet sign"],
  });
}

/**
 * Reads a private key, and prompts for its passphrase if it has one. Throws a SkillError that contains nothing of the
 * key.
 */
export async function readSigningKey(file: string, passphrase: () => Promise<string>): Promise<KeyObject> {
  const pem = readKeyText(file);
  if (/-----BEGIN OPENSSH PRIVATE KEY-----/.test(pem))
    throw createKeyError(file, "is an SSH key, which is not supported");
  if (!/-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----/.test(pem))
    throw createKeyError(file, "is not a private key in PEM format");
  const isLocked = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem);
  const entered = isLocked ? await passphrase() : undefined;
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: pem, ...(entered === undefined ? {} : { passphrase: entered }) });
  } catch {
    // OpenSSL's own message does not help.
    if (isLocked) throw createKeyError(file, "cannot be decrypted with this passphrase", "try again");
    throw createKeyError(file, "is not a readable private key");
  }
  const kind = key.asymmetricKeyType ?? "unknown";
  if (kind !== "ed25519") throw createKeyError(file, `is a key of type ${kind}, not Ed25519`);
  return key;
}

/** Returns the 32 bytes of the public key for a private key. */
export function getPublicKey(privateKey: KeyObject): Buffer {
  return exportKeyBytes(createPublicKey(privateKey));
}

const MAX_KEY_BYTES = 64 * 1024;

function readKeyText(file: string): string {
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)); // A named pipe at this path would block forever.
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw createKeyError(file, "is not a regular file");
    if (stats.size > MAX_KEY_BYTES) throw createKeyError(file, "is larger than 64 KiB, and so not a key");
    if (process.platform !== "win32" && (stats.mode & 0o077) !== 0)
      throw createKeyError(
        file,
        "can be read or written by other users of this machine",
        `run \`chmod 600 ${file}\`; if another user may have read it, create a new one`,
      );
    return readFileSync(fd, "utf8");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    if (getErrnoCode(error) === "ENOENT")
      throw new SkillError("signing-key", {
        message: `No signing key found at ${file}`,
        fix: "create one",
        commands: ["skillet sign --new-key"],
      });
    throw createKeyError(file, `cannot be read: ${getErrorMessage(error)}`, "check that it is your file");
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function createKeyError(file: string, why: string, fix = "create a key: skillet sign --new-key"): SkillError {
  return new SkillError("signing-key", { message: `${file} ${why}, so nothing was signed`, fix });
}
