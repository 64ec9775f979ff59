import { createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  createKeyObject,
  createSignerStore,
  exportKeyBytes,
  fingerprintKey,
  parsePublicKey,
} from "../../src/store/signers.ts";
import { temporaryFolder } from "../support/folder.ts";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const alice = exportKeyBytes(publicKey);
const bob = exportKeyBytes(generateKeyPairSync("ed25519").publicKey);
const pem = (key: KeyObject) => String(key.export({ format: "pem", type: key.type === "private" ? "pkcs8" : "spki" }));
const der = (key: KeyObject) =>
  key.export({ format: "der", type: key.type === "private" ? "pkcs8" : "spki" }).toString("base64");

describe("signers", () => {
  it("are stored for the user alone, and read again", () => {
    const home = temporaryFolder();
    expect(createSignerStore(home).add("alice", alice)).toBe(true);
    expect(createSignerStore(home).list()).toEqual([
      { name: "alice", key: alice.toString("base64"), fingerprint: fingerprintKey(alice), at: expect.any(String) },
    ]);
    expect(createSignerStore(home).withKey(fingerprintKey(alice))?.name).toBe("alice");
    expect(createSignerStore(home).withKey(fingerprintKey(bob))).toBeUndefined();
    expect(statSync(join(home, "signers.json")).mode & 0o777).toBe(0o600);
  });

  it("have one key each, and a key has one name", () => {
    const signers = createSignerStore(temporaryFolder());
    signers.add("alice", alice);
    expect(signers.add("alice", alice)).toBe(false);
    expect(() => signers.add("alice", bob)).toThrow(/alice already has another key/);
    expect(() => signers.add("eve", alice)).toThrow(/already stored for alice/);
    expect(signers.list()).toHaveLength(1);
    expect(signers.remove("alice")?.name).toBe("alice");
    expect(signers.remove("alice")).toBeUndefined();
    expect(signers.add("eve", alice)).toBe(true);
  });

  it("have names that can be typed and are not confusable", () => {
    const signers = createSignerStore(temporaryFolder());
    for (const name of ["", "__proto__", "a b", "a\nb", "\u202ealice", "a".repeat(65), "-x", "../x"]) {
      expect(() => signers.add(name, alice)).toThrow(/Invalid signer name/);
    }
    expect(signers.add("alice+work@example.org", alice)).toBe(true);
  });

  it("are ignored when the record is unreadable or edited", () => {
    const home = temporaryFolder();
    createSignerStore(home).add("alice", alice);
    const file = join(home, "signers.json");
    const text = readFileSync(file, "utf8");
    for (const edited of [
      "{",
      text.replace(alice.toString("base64"), bob.toString("base64")),
      text.replace("1", "2"),
    ]) {
      writeFileSync(file, edited);
      const signers = createSignerStore(home);
      expect(signers.list()).toEqual([]);
      expect(signers.problem()).toMatch(/no signature is trusted/);
      expect(() => signers.add("bob", bob)).toThrow(/cannot be read/);
      expect(readFileSync(file, "utf8")).toBe(edited);
    }
  });
});

describe("publicKeyFrom", () => {
  it("reads a public key, as SPKI and as PEM", () => {
    for (const given of [alice.toString("base64"), ` ${alice.toString("base64")}\n`, der(publicKey), pem(publicKey)]) {
      expect(parsePublicKey(given)).toEqual(alice);
    }
    expect(exportKeyBytes(createKeyObject(alice))).toEqual(alice);
  });

  it("refuses a private key in any form, and repeats nothing of it", () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const locked = privateKey.export({ format: "pem", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "x" });
    for (const given of [
      pem(privateKey),
      pem(privateKey).replaceAll("\n", " "),
      der(privateKey),
      pem(rsa),
      der(rsa),
      String(locked),
    ]) {
      const error = thrown(() => parsePublicKey(given));
      expect(error).toMatchObject({ code: "signer-key", message: expect.stringMatching(/^This is a private key/) });
      const secret = given.match(/[\w+/]{40,}/)?.[0] ?? given;
      expect(`${error.message} ${error.fix} ${error.cause}`).not.toContain(secret);
    }
  });

  it("refuses other kinds of keys, and invalid ones", () => {
    const rsa = createPublicKey(generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey);
    const x25519 = generateKeyPairSync("x25519").publicKey;
    const odd: [string, RegExp][] = [
      [pem(rsa), /type rsa, not Ed25519/],
      [String(rsa.export({ format: "pem", type: "pkcs1" })), /type rsa, not Ed25519/],
      [pem(x25519), /type x25519, not Ed25519/],
      [der(x25519), /type x25519, not Ed25519/],
      ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI alice", /SSH key/],
      ["", /neither a public key/],
      ["AAAA", /not a public key/],
      [alice.toString("hex"), /not a public key/],
      [alice.toString("base64").slice(0, -1), /neither a public key/],
      ["-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", /not a public key/],
    ];
    for (const [given, message] of odd) {
      expect(thrown(() => parsePublicKey(given))).toMatchObject({
        code: "signer-key",
        message: expect.stringMatching(message),
      });
    }
  });
});

function thrown(work: () => unknown) {
  try {
    work();
  } catch (error) {
    return error as Error & { fix?: string };
  }
  throw new Error("nothing was thrown");
}
