import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync, randomBytes } from "node:crypto";
import { SkillError } from "../../errors/problem.ts";

/** Encrypts the texts that a database stores, for all processes with the same key. */
export interface Sealer {
  /** Encrypts a text and authenticates `context` with it. Without a key, returns the text. */
  seal(context: string, text: string): string;
  /** Decrypts a text, and returns one that was stored without a key as it is. Throws a SkillError without the right key. */
  unseal(context: string, text: string): string;
  /** Returns a digest of a text. With a key, only its owners can compare it with a guess. */
  digest(text: string): string;
  /** True if there is a key. */
  readonly hasKey: boolean;
}

/** A shorter text is a password and not a key. */
const MIN_KEY_LENGTH = 32;

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The start of a sealed text, which no JSON text has. The name of its key follows. */
const MARK = "sealed-1 ";
const KEY_ID_LENGTH = 8;

/** True for a text that was stored with a key. */
export function isSealed(text: string): boolean {
  return text.startsWith(MARK);
}

/** Creates the sealer of a key: a text of at least 32 characters. Without one, texts stay as they are. Throws a SkillError for a short key. */
export function createSealer(key?: string): Sealer {
  if (key === undefined) {
    return {
      hasKey: false,
      seal: (_, text) => text,
      unseal: (_, text) => (isSealed(text) ? throwSealed("no seal key is configured here") : text),
      digest: (text) => createHash("sha256").update(text).digest("hex"),
    };
  }
  if (key.length < MIN_KEY_LENGTH) throwSealed(`the seal key has ${key.length} characters, and at least 32 are needed`);
  const derive = (purpose: string) => Buffer.from(hkdfSync("sha256", key, "", `skillet ${purpose}`, 32));
  const [box, digests] = [derive("seal"), derive("digest")];
  const digest = (text: string) => createHmac("sha256", digests).update(text).digest("hex");
  // Identifies the key and reveals nothing of it, so that a wrong key and an edited text give different errors.
  const id = digest("skillet seal key").slice(0, KEY_ID_LENGTH);
  return {
    hasKey: true,
    digest,
    seal(context, text) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, box, nonce).setAAD(Buffer.from(context));
      const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
      return `${MARK}${id} ${sealed.toString("base64")}`;
    },
    unseal(context, text) {
      if (!isSealed(text)) return text;
      if (!text.startsWith(`${id} `, MARK.length)) throwSealed("it was sealed with another key");
      const bytes = Buffer.from(text.slice(MARK.length + KEY_ID_LENGTH), "base64");
      if (bytes.length < NONCE_BYTES + TAG_BYTES) throwSealed("it was edited in the database");
      const decipher = createDecipheriv(CIPHER, box, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
      decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
      } catch {
        return throwSealed("it was edited in the database");
      }
    },
  };
}

function throwSealed(why: string): never {
  throw new SkillError("engine-sealed", {
    message: `Cannot read what the database stores: ${why}`,
    fix: "set engine.seal_key of config.toml to the key of the other machines",
  });
}
