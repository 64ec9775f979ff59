import { generateKeyPairSync } from "node:crypto";
import { cpSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkSignature } from "../../src/remote/signature.ts";
import { createSignerStore } from "../../src/store/signers.ts";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { openTerminal } from "../support/terminal.ts";

/** A home, and a workspace with two skills. */
function place() {
  const root = temporaryFolder({
    "home/.skillet/note": "",
    "project/skills/deploy/SKILL.md": skillText("deploy"),
    "project/skills/deploy/scripts/a.sh": "echo a\n",
    "project/skills/notes/SKILL.md": skillText("notes"),
    "project/skills/plain.md": skillText("plain"),
    "shipped/own/SKILL.md": skillText("own"),
  });
  const home = join(root, "home");
  const cwd = join(root, "project");
  const env = { HOME: home, SKILLS_DIR: join(root, "shipped") };
  return {
    home,
    cwd,
    keyFile: join(home, ".skillet/signing-key.pem"),
    run: (args: readonly string[], options: RunOptions = {}) =>
      skillet(args, { cwd, ...options, env: { ...env, ...options.env } }),
    check: (name: string) =>
      checkSignature({ folder: join(cwd, "skills", name), name, signers: createSignerStore(join(home, ".skillet")) }),
  };
}

const publicKeyIn = (stdout: string) => /signers add NAME (\S{44})\n/.exec(stdout)?.[1] ?? "";

describe("skillet sign", () => {
  it("creates a key, signs with it, and explains how others trust its signatures", async () => {
    const { run, check, keyFile } = place();
    const made = await run(["sign", "--new-key"]);
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toContain("✓ created ~/.skillet/signing-key.pem\n");
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    const signed = await run(["sign", "deploy", "skills/notes/SKILL.md"]);
    expect(signed).toMatchObject({ code: 0, stderr: "" });
    expect(signed.stdout).toContain("✓ signed deploy  skills/deploy/SKILL.sig\n");
    expect(signed.stdout).toContain("✓ signed notes  skills/notes/SKILL.sig\n");
    expect(check("deploy").state).toBe("unknown-signer");
    expect((await run(["signers", "add", "alice", publicKeyIn(signed.stdout)])).code).toBe(0);
    expect(check("deploy")).toMatchObject({ state: "valid", signer: "alice" });
    expect(check("notes")).toMatchObject({ state: "valid", signer: "alice" });
  });

  it("shows only the public key, in text and as JSON, and never the private one", async () => {
    const { run, keyFile } = place();
    const made = await run(["sign", "--new-key", "--json"]);
    const { key } = JSON.parse(made.stdout);
    expect(key).toMatchObject({ file: keyFile, isNew: true });
    const shown = await run(["sign"]);
    expect(publicKeyIn(shown.stdout)).toBe(key.publicKey);
    expect(shown.stdout).toContain(`  ${key.fingerprint}\n`);
    const secret = readFileSync(keyFile, "utf8").split("\n")[1] ?? "";
    expect(secret).toHaveLength(64);
    expect(made.stdout + shown.stdout).not.toContain(secret);
    for (const line of shown.stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("never replaces a key, and explains how to create the first", async () => {
    const { run, keyFile } = place();
    const none = await run(["sign", "deploy"]);
    expect(none).toMatchObject({ code: 1, stdout: "" });
    expect(none.stderr).toContain("create one: skillet sign --new-key");
    await run(["sign", "--new-key"]);
    const before = readFileSync(keyFile, "utf8");
    const again = await run(["sign", "--new-key"]);
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(readFileSync(keyFile, "utf8")).toBe(before);
  });

  it("signs nothing when one of several skills is missing, broken, not a folder, or remote", async () => {
    const { run, cwd } = place();
    await run(["sign", "--new-key"]);
    const refused: [string, RegExp][] = [
      ["deplyo", /did you mean deploy\?/],
      ["skills", /'skills' is neither a skill nor a skill folder/],
      ["plain", /"plain" cannot be signed: it is a single file/],
      ["own", /"own" cannot be signed: it is a remote skill/],
    ];
    for (const [given, message] of refused) {
      const { code, stderr } = await run(["sign", "deploy", given]);
      expect(code).toBe(1);
      expect(stderr).toMatch(message);
      expect(existsSync(join(cwd, "skills/deploy/SKILL.sig"))).toBe(false);
    }
    symlinkSync("SKILL.md", join(cwd, "skills/deploy/link"));
    expect((await run(["sign", "deploy"])).stderr).toContain('"link" is a symlink');
  });

  it("keeps the trust of a trusted skill, and gives none to an untrusted one", async () => {
    const { run } = place();
    await run(["sign", "--new-key"]);
    await run(["trust", "deploy", "--yes"]);
    await run(["sign", "deploy", "notes"]);
    const [trusted, ...others] = JSON.parse((await run(["trust", "--list", "--json"])).stdout).trusted;
    expect(trusted).toMatchObject({ name: "deploy", state: "unchanged" });
    expect(others).toEqual([]);
  });

  it("[Q-04] gives no trust to a skill that changed after the trust decision", async () => {
    const { run, cwd } = place();
    await run(["sign", "--new-key"]);
    await run(["trust", "deploy", "--yes"]);
    writeFileSync(join(cwd, "skills/deploy/scripts/a.sh"), "echo b\n");
    expect((await run(["sign", "deploy"])).code).toBe(0);
    const { trusted } = JSON.parse((await run(["trust", "--list", "--json"])).stdout);
    expect(trusted).toMatchObject([{ name: "deploy", state: "changed" }]);
  });

  it("takes a passphrase from the variable, and reports that no user can be asked", async () => {
    const { run, keyFile } = place();
    const env = { SKILLET_SIGNING_PASSPHRASE: "open sesame" };
    await run(["sign", "--new-key"], { env });
    expect(readFileSync(keyFile, "utf8")).toContain("ENCRYPTED");
    expect((await run(["sign", "deploy"], { env })).code).toBe(0);
    const { code, stderr } = await run(["sign", "deploy"]);
    expect(code).toBe(1);
    expect(stderr).toContain("set SKILLET_SIGNING_PASSPHRASE");
    expect((await run(["sign"], { env: { SKILLET_SIGNING_PASSPHRASE: "x" } })).stderr).toContain("cannot be decrypted");
  });

  it("asks for a passphrase at a terminal, and does not show it", async () => {
    const { home, cwd, keyFile } = place();
    const making = openTerminal(["sign", "--new-key"], { home, cwd });
    await making.sees("(empty for none): ");
    making.type("open sesame\r");
    await making.sees("Repeat the passphrase: ");
    making.type("open sesame\r");
    expect(await making.ended).toBe(0);
    expect(readFileSync(keyFile, "utf8")).toContain("ENCRYPTED");
    const signing = openTerminal(["sign", "deploy"], { home, cwd });
    await signing.sees("Passphrase of ");
    signing.type("open sesame\r");
    expect(await signing.ended).toBe(0);
    expect(signing.written()).toContain("signed");
    expect(making.written() + signing.written()).not.toContain("sesame");
  });

  it("takes another key from a file, and repeats none from the command line", async () => {
    const { run, cwd } = place();
    expect((await run(["sign", "--new-key", "--key", "../team.pem", "deploy"])).stdout).toContain("✓ signed deploy");
    const pem = readFileSync(join(cwd, "../team.pem"), "utf8");
    const { code, stdout, stderr } = await run(["sign", "deploy", "--key", pem]);
    expect(code).toBe(2);
    expect(stdout + stderr).not.toContain(pem.split("\n")[1]);
  });
});

describe("skillet signers", () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const key = publicKey.export({ format: "der", type: "spki" }).toString("base64");

  it("adds, lists and removes, and explains how to undo it", async () => {
    const { run } = place();
    expect((await run(["signers"])).stderr).toContain("no signers are trusted yet");
    const added = await run(["signers", "add", "alice", key]);
    expect(added.stdout).toContain("skillet signers remove alice");
    expect((await run(["signers", "add", "alice", key])).stdout).toContain("were already trusted as alice");
    const { signers } = JSON.parse((await run(["signers", "--json"])).stdout);
    expect(signers).toMatchObject([{ name: "alice", fingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) }]);
    expect((await run(["signers"])).stdout).toContain(`  ${signers[0].fingerprint}\n`);
    expect((await run(["signers", "remove", "alic"])).stderr).toContain("did you mean alice?");
    const removed = await run(["signers", "remove", "alice"]);
    expect(removed.stdout).toContain(`skillet signers add alice ${signers[0].publicKey}`);
    expect(JSON.parse((await run(["signers", "--json"])).stdout)).toEqual({ signers: [] });
  });

  it("reads a key from a file", async () => {
    const { run } = place();
    const folder = temporaryFolder({
      "alice.pem": String(publicKey.export({ format: "pem", type: "spki" })),
      raw: `${key}\n`,
    });
    expect((await run(["signers", "add", "alice", join(folder, "alice.pem")])).code).toBe(0);
    expect((await run(["signers", "add", "alice", join(folder, "raw")])).stdout).toContain("already");
  });

  it("never repeats a pasted private key in any form", async () => {
    const { run } = place();
    const pem = String(privateKey.export({ format: "pem", type: "pkcs8" }));
    const secret = pem.split("\n")[1] ?? "";
    const file = join(temporaryFolder({ "key.pem": pem }), "key.pem");
    for (const given of [
      ["alice", pem],
      ["alice", ...pem.trim().split(/\s+/)],
      ["alice", secret],
      ["alice", file],
      [secret, "alice"],
      [secret, key],
    ]) {
      const { code, stdout, stderr } = await run(["signers", "add", ...given]);
      expect(code).toBeGreaterThan(0);
      expect(stdout + stderr).not.toContain(secret.slice(20));
    }
    expect(JSON.parse((await run(["signers", "--json"])).stdout)).toEqual({ signers: [] });
  });

  it("[Q-04] ignores signers that a workspace names", async () => {
    const { run, cwd, home } = place();
    await run(["sign", "--new-key", "deploy"]);
    const mine = await run(["sign"]);
    const elsewhere = place();
    await elsewhere.run(["signers", "add", "alice", publicKeyIn(mine.stdout)]);
    cpSync(join(elsewhere.home, ".skillet"), join(cwd, ".skillet"), { recursive: true });
    expect(JSON.parse((await run(["signers", "--json"])).stdout)).toEqual({ signers: [] });
    expect(existsSync(join(home, ".skillet/signers.json"))).toBe(false);
  });

  it("trusts no signer when the record cannot be read, and reports that", async () => {
    const { run, home } = place();
    await run(["signers", "add", "alice", key]);
    writeFileSync(join(home, ".skillet/signers.json"), "{");
    const { code, stderr } = await run(["signers"]);
    expect(code).toBe(1);
    expect(stderr).toContain("no signature is trusted");
  });
});

describe("skillet show of a signed skill", () => {
  it("names the signer, an unknown key, and an invalid signature", async () => {
    const { run, cwd } = place();
    const key = publicKeyIn((await run(["sign", "--new-key"])).stdout);
    await run(["sign", "notes"]);
    const signed = async () => /^ +signed +(.*(?:\n {12}.*)*)/m.exec((await run(["show", "notes"])).stdout)?.[1];
    expect(await signed()).toMatch(/^it is signed by an unknown signer \(sha256:/);
    await run(["signers", "add", "Ada", key]);
    expect(await signed()).toMatch(/^by Ada \(sha256:/);
    expect(JSON.parse((await run(["show", "notes", "--json"])).stdout).signature).toMatchObject({ signer: "Ada" });
    writeFileSync(join(cwd, "skills/notes/more.md"), "more");
    expect(await signed()).toMatch(/^it has an invalid signature/);
    expect((await run(["show", "deploy"])).stdout).not.toContain("signed");
  });
});
