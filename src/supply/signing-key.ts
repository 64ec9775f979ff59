import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bytesOf } from "../host/signers.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";

/** Where the user's own key is. */
export function signingKeyFile(skilletHome: string): string {
  return join(skilletHome, "signing-key.pem");
}

/** Makes a key, for the user alone. Throws a SkillError when there is one: what it signed would be of nobody known. */
export async function makeSigningKey(file: string, passphrase: () => Promise<string | undefined>): Promise<KeyObject> {
  if (lstatSync(file, { throwIfNoEntry: false })) throw isThere(file);
  const { privateKey } = generateKeyPairSync("ed25519");
  const given = await passphrase();
  const locked = given === undefined ? {} : { cipher: "aes-256-cbc", passphrase: given };
  const pem = privateKey.export({ format: "pem", type: "pkcs8", ...locked });
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, pem, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw isThere(file);
    throw new SkillError("unwritable", {
      message: `${file} cannot be written: ${reason(error)}`,
      fix: "check that the folder can be written to",
      cause: error,
    });
  }
  return privateKey;
}

function isThere(file: string): SkillError {
  return new SkillError("signing-key", {
    message: `${file} is there already, and is not replaced`,
    fix: "`skillet sign` shows its public key; to start anew, move it away first, and give others the new one",
  });
}

/** Reads a private key, and asks for its passphrase when it has one. Throws a SkillError that repeats nothing of it. */
export async function readSigningKey(file: string, passphrase: () => Promise<string>): Promise<KeyObject> {
  const pem = readSecret(file);
  if (/-----BEGIN OPENSSH PRIVATE KEY-----/.test(pem))
    throw unusable(file, "is a key of SSH, which signs nothing here");
  if (!/-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----/.test(pem)) throw unusable(file, "is no private key in PEM");
  const isLocked = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem);
  const given = isLocked ? await passphrase() : undefined;
  let key: KeyObject;
  try {
    key = createPrivateKey({ key: pem, ...(given === undefined ? {} : { passphrase: given }) });
  } catch {
    // What OpenSSL says of it helps nobody.
    if (isLocked) throw unusable(file, "does not open with this passphrase", "try again");
    throw unusable(file, "is no private key that can be read");
  }
  const kind = key.asymmetricKeyType ?? "unknown";
  if (kind !== "ed25519") throw unusable(file, `is a key of the kind ${kind}, not Ed25519`);
  return key;
}

/** The 32 bytes of the public key that belongs to a private one. */
export function publicKeyIn(privateKey: KeyObject): Buffer {
  return bytesOf(createPublicKey(privateKey));
}

const LARGEST = 64 * 1024;

function readSecret(file: string): string {
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)); // A pipe in its place would never end.
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw unusable(file, "is not a regular file");
    if (stats.size > LARGEST) throw unusable(file, "is larger than 64 KiB, and no key");
    if (process.platform !== "win32" && (stats.mode & 0o077) !== 0)
      throw unusable(
        file,
        "can be read or written by others on this machine",
        `run \`chmod 600 ${file}\`; if somebody may have read it, make another`,
      );
    return readFileSync(fd, "utf8");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    if (codeOf(error) === "ENOENT")
      throw new SkillError("signing-key", {
        message: `There is no key to sign with: ${file} is not there`,
        fix: "make one: skillet sign --new-key",
      });
    throw unusable(file, `cannot be read: ${reason(error)}`, "check that it is a file of yours");
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function unusable(file: string, why: string, fix = "make one for this: skillet sign --new-key"): SkillError {
  return new SkillError("signing-key", { message: `${file} ${why}, so nothing was signed`, fix });
}
