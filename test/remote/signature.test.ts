import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  checkSignature,
  createSigningKey,
  getPublicKey,
  readSigningKey,
  signSkill,
} from "../../src/remote/signature.ts";
import { digestTree, readFileTree } from "../../src/store/lock-file.ts";
import { createSignerStore, fingerprintKey } from "../../src/store/signers.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";

const privateKey = generateKeyPairSync("ed25519").privateKey;
const key = fingerprintKey(getPublicKey(privateKey));
const never = async (): Promise<string> => {
  throw new Error("no user may be asked");
};

/** A skill with three files, and a user who knows alice's key. */
function scene(by: KeyObject = privateKey) {
  const folder = temporaryFolder({ "SKILL.md": skillText("deploy"), ".env": "dot=1\n", "scripts/a.sh": "echo a\n" });
  chmodSync(join(folder, "scripts/a.sh"), 0o755);
  const signers = createSignerStore(temporaryFolder());
  signers.add("alice", getPublicKey(privateKey));
  return {
    folder,
    signers,
    file: join(folder, "SKILL.sig"),
    sign: () => signSkill({ folder, name: "deploy", privateKey: by }),
    check: (name = "deploy") => checkSignature({ folder, name, signers }),
  };
}

describe("a signature", () => {
  it("names the signer to a user who knows the key", () => {
    const { folder, sign: signed, check, signers } = scene();
    expect(check()).toEqual({ state: "none" });
    const { file, digest } = signed();
    expect(file).toBe(join(folder, "SKILL.sig"));
    expect(digest).toBe(digestTree(readFileTree(folder), "SKILL.sig"));
    expect(check()).toEqual({ state: "valid", signer: "alice", key });
    expect(checkSignature({ folder, name: "deploy", files: readFileTree(folder), signers })).toMatchObject({
      state: "valid",
    });
    signers.remove("alice");
    expect(check()).toEqual({ state: "unknown-signer", key });
  });

  it("covers the documented bytes, so that any other program can check it", () => {
    const { file, sign: signed } = scene();
    const { digest } = signed();
    const written = JSON.parse(readFileSync(file, "utf8"));
    expect(Object.keys(written)).toEqual(["version", "key", "name", "digest", "signature"]);
    expect(written).toMatchObject({ version: 1, key, name: "deploy", digest });
    const bytes = Buffer.from(`skillet-signature-v1\ndeploy\n${digest}\n`);
    expect(verify(null, bytes, createPublicKey(privateKey), Buffer.from(written.signature, "base64"))).toBe(true);
    expect(statSync(file).mode & 0o777).toBe(0o644);
  });

  it("is the same when it is created again, and follows changes", () => {
    const { folder, file, sign: signed, check } = scene();
    signed();
    const first = readFileSync(file, "utf8");
    signed();
    expect(readFileSync(file, "utf8")).toBe(first);
    writeFiles(folder, { "new.md": "new" });
    expect(check().state).toBe("broken");
    signed();
    expect(check().state).toBe("valid");
  });

  const changes: Record<string, (folder: string) => void> = {
    "a changed file": (folder) => writeFileSync(join(folder, "scripts/a.sh"), "echo b\n"),
    "a changed dot file": (folder) => writeFileSync(join(folder, ".env"), "dot=2\n"),
    "an added file": (folder) => writeFileSync(join(folder, "more"), ""),
    "an added file that only git has": (folder) => writeFiles(folder, { ".git/hooks/x": "x" }),
    "a removed file": (folder) => rmSync(join(folder, ".env")),
    "a file that can be run now": (folder) => chmodSync(join(folder, ".env"), 0o755),
    "a link": (folder) => symlinkSync("SKILL.md", join(folder, "link")),
  };
  for (const [what, change] of Object.entries(changes)) {
    it(`is broken by ${what}`, () => {
      const { folder, sign: signed, check } = scene();
      signed();
      change(folder);
      expect(check()).toEqual({
        state: "broken",
        reason: expect.stringMatching(/^SKILL\.sig does not match the files/),
      });
    });
  }

  it("of one skill is not valid for another skill with the same files", () => {
    const { sign: signed, check } = scene();
    signed();
    expect(check("other")).toMatchObject({ state: "broken", reason: expect.stringContaining("another name") });
  });

  it("that names alice's key, but was made with another, is broken", () => {
    const mallory = generateKeyPairSync("ed25519").privateKey;
    const { file, sign: signed, check } = scene(mallory);
    signed();
    expect(check()).toMatchObject({ state: "unknown-signer" });
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), key }));
    expect(check()).toEqual({ state: "broken", reason: "SKILL.sig was not created with the key that it names" });
  });

  it("over another format is not valid", () => {
    const { file, sign: signed, check } = scene();
    const { digest } = signed();
    const signature = sign(null, Buffer.from(`deploy\n${digest}\n`), privateKey).toString("base64");
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), signature }));
    expect(check().state).toBe("broken");
  });

  const good = {
    version: 1,
    key,
    name: "deploy",
    digest: `sha256:${"0".repeat(64)}`,
    signature: "A".repeat(86).concat("=="),
  };
  const hostile: Record<string, [content: string | Uint8Array, reason: string]> = {
    "an empty file": ["", "is not JSON"],
    "no JSON": ["{", "is not JSON"],
    "no UTF-8": [Buffer.from([0xff, 0xfe, 0]), "is not JSON"],
    "brackets without end": ["[".repeat(60_000), "is not JSON"],
    "a list": ["[]", "is not a signature"],
    nothing: ["null", "is not a signature"],
    "another version": [JSON.stringify({ ...good, version: 2 }), "has an unsupported version"],
    "no version": [JSON.stringify({ ...good, version: undefined }), "has an unsupported version"],
    "an invalid key": [JSON.stringify({ ...good, key: "sha256:x" }), "names no key"],
    "a key that is an object": [JSON.stringify({ ...good, key: { toString: 1 } }), "names no key"],
    "no digest": [JSON.stringify({ ...good, digest: 1 }), "does not state what is signed"],
    "a digest that is not it": [
      JSON.stringify(good),
      "does not match the files: some were changed, added or removed after signing",
    ],
    "bad Base64": [JSON.stringify({ ...good, signature: "%%%" }), "contains no signature"],
    "Base64 that is too short": [JSON.stringify({ ...good, signature: "AAAA" }), "contains no signature"],
    "a signature that is a list": [JSON.stringify({ ...good, signature: ["A"] }), "contains no signature"],
    "too much content": [`${JSON.stringify(good)}${" ".repeat(64 * 1024)}`, "is larger than 64 KiB"],
  };
  for (const [what, [content, why]] of Object.entries(hostile)) {
    it(`is broken when its file contains ${what}`, () => {
      const { file, check } = scene();
      writeFileSync(file, content);
      expect(check()).toEqual({ state: "broken", reason: `SKILL.sig ${why}` });
    });
  }

  it("is broken when its file is a link or a folder", () => {
    const { folder, file, sign: signed, check } = scene();
    signed();
    const elsewhere = temporaryFolder({ sig: readFileSync(file) });
    for (const target of [join(elsewhere, "sig"), "SKILL.md", "nothing"]) {
      rmSync(file);
      symlinkSync(target, file);
      expect(check()).toEqual({ state: "broken", reason: "SKILL.sig is a symlink" });
    }
    rmSync(file);
    mkdirSync(file);
    expect(check()).toEqual({ state: "broken", reason: "SKILL.sig is not a regular file" });
    rmSync(folder, { recursive: true });
    expect(check()).toEqual({ state: "none" });
  });
});

describe("signSkill", () => {
  it("refuses files that change when they are added: links, and files that everyone can write to", () => {
    const { folder, file, sign: signed } = scene();
    symlinkSync("/etc/hostname", join(folder, "link"));
    expect(signed).toThrow(/"link" is a symlink/);
    rmSync(join(folder, "link"));
    const elsewhere = join(temporaryFolder({ sig: "mine" }), "sig");
    symlinkSync(elsewhere, file);
    expect(signed).toThrow(/"SKILL.sig" is a symlink/);
    expect(readFileSync(elsewhere, "utf8")).toBe("mine");
    rmSync(file);
    chmodSync(join(folder, ".env"), 0o666);
    expect(signed).toThrow(/is world-writable/);
  });

  it("omits version control, which is not added with a skill", () => {
    const { folder, sign: signed, check } = scene();
    writeFiles(folder, { ".git/HEAD": "ref", ".gitignore": "x" });
    signed();
    rmSync(join(folder, ".git"), { recursive: true });
    expect(check().state).toBe("valid");
    rmSync(join(folder, ".gitignore"));
    expect(check().state).toBe("broken");
  });
});

describe("a signing key", () => {
  it("is created for the user alone, and never replaces another", async () => {
    const file = join(temporaryFolder(), "deep/signing-key.pem");
    const made = await createSigningKey(file, async () => undefined);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(getPublicKey(await readSigningKey(file, never))).toEqual(getPublicKey(made));
    const before = readFileSync(file, "utf8");
    await expect(createSigningKey(file, never)).rejects.toMatchObject({ code: "signing-key" });
    expect(readFileSync(file, "utf8")).toBe(before);
  });

  it("with a passphrase opens with that, and no other", async () => {
    const file = join(temporaryFolder(), "key.pem");
    const made = await createSigningKey(file, async () => "open sesame");
    expect(readFileSync(file, "utf8")).toContain("ENCRYPTED");
    expect(getPublicKey(await readSigningKey(file, async () => "open sesame"))).toEqual(getPublicKey(made));
    await expect(readSigningKey(file, async () => "sesame")).rejects.toThrow(
      /cannot be decrypted with this passphrase/,
    );
  });

  it("that others can read is refused", async () => {
    const file = join(temporaryFolder(), "key.pem");
    await createSigningKey(file, async () => undefined);
    for (const mode of [0o640, 0o604, 0o620]) {
      chmodSync(file, mode);
      await expect(readSigningKey(file, never)).rejects.toThrow(/can be read or written by other users/);
    }
  });

  it("of another type is refused, and nothing of it is repeated", async () => {
    const pem = (one: KeyObject) => String(one.export({ format: "pem", type: "pkcs8" }));
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const odd: Record<string, [string, RegExp]> = {
      rsa: [pem(rsa), /type rsa, not Ed25519/],
      x25519: [pem(generateKeyPairSync("x25519").privateKey), /type x25519, not Ed25519/],
      ssh: ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n", /an SSH key/],
      public: [String(createPublicKey(rsa).export({ format: "pem", type: "spki" })), /not a private key in PEM/],
      torn: ["-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", /not a readable private key/],
      text: ["c2VjcmV0", /not a private key in PEM/],
    };
    for (const [content, message] of Object.values(odd)) {
      const file = join(temporaryFolder({ key: content }), "key");
      chmodSync(file, 0o600);
      const error = await readSigningKey(file, never).catch((thrown) => thrown);
      expect(error).toMatchObject({ code: "signing-key", message: expect.stringMatching(message) });
      const secret = content.split("\n").find((line) => /^[\w+/=]{8,}$/.test(line)) ?? content;
      expect(`${error.message} ${error.fix} ${error.cause}`).not.toContain(secret);
    }
    expect(createPrivateKey(pem(rsa)).asymmetricKeyType).toBe("rsa");
  });
});
