import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createVault } from "../../src/capabilities/credential-vault.ts";
import { findKeyring } from "../../src/capabilities/vault-keys.ts";
import type { Credential } from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "../support/folder.ts";
import { moduleOf } from "../support/program.ts";

const ada: Credential = {
  account: "ada@example.com",
  secret: { access_token: "tok-ada-0123456789", nested: { list: [1, "two"] } },
  scopes: ["mail.read"],
  expiresAt: "2030-01-01T00:00:00.000Z",
};
const env = {};
const unreadable = (message: RegExp) =>
  expect.objectContaining({ code: "vault-unreadable", message: expect.stringMatching(message) });

/** A vault with one credential in it, and a function that edits its file. */
async function vaultOfAda() {
  const home = temporaryFolder();
  const vault = createVault(home, { env });
  await vault.set("gog", "ada", ada);
  const edit = (change: (text: string) => string) => {
    const before = readFileSync(vault.file, "utf8");
    const after = change(before);
    expect(after, "the edit has an effect").not.toBe(before);
    writeFileSync(vault.file, after);
  };
  return { home, vault, edit, again: () => createVault(home, { env }) };
}

const asRun = (folder: string, work: string) => {
  const module = JSON.stringify(moduleOf("capabilities/credential-vault"));
  const program = `const { createVault } = await import(${module}); const vault = createVault(process.argv[1], { env: {} }); ${work}`;
  const args = ["--no-warnings", "--input-type=module", "-e", program, folder];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  child.stdout.on("data", (bytes) => {
    text += bytes;
  });
  return once(child, "close").then(([code]) => ({ code, text }));
};

describe("the vault", () => {
  it("[S-24] encrypts credentials in every file, for the user alone", async () => {
    const { home, vault, again } = await vaultOfAda();
    expect(await again().get("gog", { user: "ada" })).toEqual(ada);
    for (const name of readdirSync(home)) {
      expect(statSync(join(home, name)).mode & 0o777, name).toBe(0o600);
      expect(readFileSync(join(home, name), "utf8")).not.toMatch(/tok-ada|dG9rLWFkYS|746f6b2d616461/);
    }
    expect(readFileSync(vault.file, "utf8")).toContain('"account":"ada@example.com"');
    expect(await vault.list()).toEqual([
      {
        ...{ namespace: "gog", account: ada.account, user: "ada", scopes: ["mail.read"], expiresAt: ada.expiresAt },
        at: expect.stringMatching(/^\d{4}-/),
      },
    ]);
  });

  it("returns no credential of another user, namespace or account", async () => {
    const { vault } = await vaultOfAda();
    for (const user of ["", "bob", "Ada", "__proto__"]) expect(await vault.get("gog", { user })).toBeUndefined();
    expect(await vault.get("gogx", { user: "ada" })).toBeUndefined();
    expect(await vault.get("__proto__", { user: "ada" })).toBeUndefined();
    expect(await vault.get("gog", { user: "ada", account: "other@example.com" })).toBeUndefined();
  });

  it("returns the requested account, or the last one", async () => {
    let time = 0;
    const vault = createVault(temporaryFolder(), { env, now: () => (time += 1000) });
    await vault.set("gog", "", { account: "one", secret: { n: 1 } });
    await vault.set("gog", "", { account: "two", secret: { n: 2 } });
    expect((await vault.get("gog", { user: "" }))?.account).toBe("two");
    expect((await vault.get("gog", { user: "", account: "one" }))?.secret).toEqual({ n: 1 });
    await vault.set("gog", "", { account: "one", secret: { n: 3 } });
    expect(await vault.get("gog", { user: "" })).toEqual({ account: "one", secret: { n: 3 }, scopes: [] });
    await vault.set("gog", "", { account: "two", secret: { n: 4 } }, { isRenewed: true });
    expect((await vault.get("gog", { user: "" }))?.account, "using a sign-in does not make it the last").toBe("one");
    expect((await vault.get("gog", { user: "", account: "two" }))?.secret).toEqual({ n: 4 });
    expect(await vault.list()).toHaveLength(2);
  });

  it("[Q-20] returns no credential of another origin, and keeps it for its return", async () => {
    const vault = createVault(temporaryFolder(), { env });
    const [here, there] = ["https://one.example", "https://two.example"];
    await vault.set("hub", "ada", ada, { origin: here });
    expect(await vault.list()).toMatchObject([{ account: ada.account, origin: here }]);
    for (const origin of [there, undefined]) expect(await vault.get("hub", { user: "ada", origin })).toBeUndefined();
    await vault.set("hub", "ada", { ...ada, secret: { n: 2 } }, { origin: there });
    expect((await vault.get("hub", { user: "ada", origin: there }))?.secret).toEqual({ n: 2 });
    expect(await vault.get("hub", { user: "ada", origin: here })).toEqual(ada);
    await vault.set("hub", "ada", { ...ada, secret: { n: 3 } }, { origin: here });
    expect(await vault.list()).toHaveLength(2);
    expect(await vault.remove("hub")).toBe(2);
    await vault.set("gog", "ada", ada);
    expect(await vault.get("gog", { user: "ada", origin: here }), "of one without an origin").toBeUndefined();
    expect(await vault.get("gog", { user: "ada" })).toEqual(ada);
  });

  it("[Q-20] refuses a credential whose origin was edited or removed", async () => {
    const evil = "https://evil.example";
    for (const [edited, origin] of [
      [`"origin":"${evil}"`, evil],
      ['"x":"y"', undefined],
    ] as const) {
      const vault = createVault(temporaryFolder(), { env });
      await vault.set("hub", "ada", ada, { origin: "https://one.example" });
      const text = readFileSync(vault.file, "utf8");
      writeFileSync(vault.file, text.replace('"origin":"https://one.example"', edited));
      const get = () => vault.get("hub", { user: "ada", origin });
      await expect(get).rejects.toThrow(unreadable(/was edited/));
    }
  });

  it("removes without a key, and reports how many", async () => {
    const { home, vault, again } = await vaultOfAda();
    await vault.set("gog", "bob", { account: "b", secret: {} });
    await vault.set("github", "ada", { account: "a", secret: {} });
    rmSync(join(home, "vault.key"));
    expect(await again().remove("gog", { user: "ada", account: "none" })).toBe(0);
    expect(await again().remove("gog", { user: "bob" })).toBe(1);
    expect(await again().remove("gog")).toBe(1);
    expect((await vault.list()).map(({ namespace }) => namespace)).toEqual(["github"]);
    expect(await createVault(temporaryFolder(), { env }).remove("gog")).toBe(0);
  });

  it.each([
    ["user", '"user":"ada"', '"user":"bob"', "bob"],
    ["scopes", '["mail.read"]', '["mail.send"]', "ada"],
    ["namespace", '"namespace":"gog"', '"namespace":"hub"', "ada"],
    ["time", "2030-01-01", "2040-01-01", "ada"],
  ])("[Q-20] refuses a credential whose %s was edited", async (_, from, to, user) => {
    const { again, edit, vault } = await vaultOfAda();
    edit((text) => text.replace(from, to));
    const { namespace = "" } = (await vault.list())[0] ?? {};
    await expect(async () => await again().get(namespace, { user })).rejects.toThrow(
      unreadable(/the entry of ada@example.com .* was edited/),
    );
  });

  it("refuses an entry that was swapped for another of the same vault, or of another vault with the same key", async () => {
    const { home, vault, again, edit } = await vaultOfAda();
    await vault.set("gog", "bob", { ...ada, account: "bob@example.com" });
    const boxes = [...readFileSync(vault.file, "utf8").matchAll(/"box":"([^"]+)"/g)].map(([, box = ""]) => box);
    edit((text) =>
      text
        .replace(boxes[0] ?? "", "X")
        .replace(boxes[1] ?? "", boxes[0] ?? "")
        .replace("X", boxes[1] ?? ""),
    );
    await expect(async () => await again().get("gog", { user: "bob" })).rejects.toThrow(unreadable(/edited/));
    const other = temporaryFolder({ "vault.key": readFileSync(join(home, "vault.key")) });
    chmodSync(join(other, "vault.key"), 0o600);
    const twin = createVault(other, { env });
    await twin.set("gog", "ada", ada);
    const [box = ""] = [...readFileSync(twin.file, "utf8").matchAll(/"box":"([^"]+)"/g)].map(([, text = ""]) => text);
    edit((text) => text.replace(boxes[0] ?? "", box).replace(boxes[1] ?? "", box));
    await expect(async () => await again().get("gog", { user: "ada" })).rejects.toThrow(unreadable(/edited/));
  });

  it.each<[string, string, RegExp]>([
    ["is not JSON", "{", /it is not JSON/],
    ["is empty", "", /it is not JSON/],
    ["is of another version", '{"version":2}', /version is not supported/],
    [
      "has an invalid entry",
      '{"version":1,"lock":{"id":"x","key":"key file"},"check":"","credentials":[{}],"kept":[]}',
      /an entry/,
    ],
  ])("reports when it %s, and does not change it", async (_, text, message) => {
    const { vault, again } = await vaultOfAda();
    writeFileSync(vault.file, text);
    for (const use of [
      () => again().list(),
      () => again().get("gog", { user: "ada" }),
      () => again().set("gog", "ada", ada),
      () => again().remove("gog"),
      () => again().put("x", {}, 1),
    ]) {
      await expect(use).rejects.toThrow(unreadable(message));
    }
    expect(readFileSync(vault.file, "utf8")).toBe(text);
    expect(await again().findProblem()).toMatch(message);
  });

  it("never creates a new key for a vault whose own is missing or different", async () => {
    const { home, vault, again } = await vaultOfAda();
    const before = readFileSync(vault.file, "utf8");
    rmSync(join(home, "vault.key"));
    await expect(async () => await again().set("gog", "bob", ada)).rejects.toThrow(
      unreadable(/Cannot read the vault key .*vault\.key/),
    );
    expect(existsSync(join(home, "vault.key"))).toBe(false);
    writeFileSync(join(home, "vault.key"), "ab".repeat(32), { mode: 0o600 });
    await expect(async () => await again().get("gog", { user: "ada" })).rejects.toThrow(
      unreadable(/does not match, or the file was edited/),
    );
    await expect(async () => await again().set("gog", "bob", ada)).rejects.toThrow(unreadable(/does not match/));
    writeFileSync(join(home, "vault.key"), "nothing");
    await expect(async () => await again().get("gog", { user: "ada" })).rejects.toThrow(
      unreadable(/is not a vault key/),
    );
    expect(readFileSync(vault.file, "utf8")).toBe(before);
  });

  it.each(["vault.json", "vault.key"])(
    "does not use a %s that others can read, and names the command to run",
    async (name) => {
      const { home, again } = await vaultOfAda();
      chmodSync(join(home, name), 0o640);
      await expect(async () => await again().get("gog", { user: "ada" })).rejects.toThrow(
        expect.objectContaining({
          code: "vault-unreadable",
          fix: expect.stringContaining(`chmod 600 ${join(home, name)}`),
        }),
      );
    },
  );

  it("keeps the writes of several concurrent processes", async () => {
    const home = temporaryFolder();
    const work = (name: string) =>
      `for (let n = 0; n < 10; n++) await vault.set("gog", "${name}", { account: String(n), secret: { n } });`;
    const done = await Promise.all(["a", "b", "c"].map((name) => asRun(home, work(name))));
    expect(done.map(({ code }) => code)).toEqual([0, 0, 0]);
    const vault = createVault(home, { env });
    expect(await vault.list()).toHaveLength(30);
    expect((await vault.get("gog", { user: "b", account: "7" }))?.secret).toEqual({ n: 7 });
  });
});

describe("the key of the vault", () => {
  it("comes from the passphrase file if there is one, which then encrypts everything", async () => {
    const { home, vault } = await vaultOfAda();
    expect(await vault.getKeySource()).toBe("key file");
    const passphraseFile = join(home, "phrase");
    writeFileSync(passphraseFile, "correct horse battery\n", { mode: 0o600 });
    const locked = createVault(home, { env, passphraseFile });
    expect(await locked.getKeySource(), "until the first entry").toBe("key file");
    await locked.set("gog", "bob", { ...ada, account: "bob@example.com" });
    expect(await locked.getKeySource()).toBe("passphrase file");
    expect(readdirSync(home).sort(), "the old key would open old copies").toEqual(["phrase", "vault.json"]);
    const again = createVault(home, { env: { SKILLET_VAULT_PASSPHRASE_FILE: passphraseFile } });
    expect(await again.get("gog", { user: "ada" })).toEqual(ada);
    expect((await again.get("gog", { user: "bob" }))?.account).toBe("bob@example.com");
    await expect(async () => await createVault(home, { env }).get("gog", { user: "ada" })).rejects.toThrow(
      expect.objectContaining({ fix: expect.stringMatching(/vault_passphrase_file/) }),
    );
    writeFileSync(passphraseFile, "another horse battery");
    await expect(
      async () => await createVault(home, { env, passphraseFile }).get("gog", { user: "ada" }),
    ).rejects.toThrow(unreadable(/does not match/));
  });

  it.each([
    ["others can read", 0o644, "long enough it is", /chmod 600/],
    ["is too short", 0o600, "short", /openssl rand/],
  ])("is refused from a passphrase file that %s", async (_, mode, text, fix) => {
    const home = temporaryFolder({ phrase: text });
    chmodSync(join(home, "phrase"), mode);
    const vault = createVault(home, { env, passphraseFile: join(home, "phrase") });
    await expect(async () => await vault.set("gog", "ada", ada)).rejects.toThrow(
      expect.objectContaining({ code: "vault-unreadable", fix: expect.stringMatching(fix) }),
    );
    expect(existsSync(vault.file)).toBe(false);
    expect(await vault.findProblem(), "before anything is overwritten").toMatch(fix);
    await createVault(home, { env }).set("gog", "ada", ada);
    expect(await vault.findProblem(), "even if another key still encrypts it").toMatch(fix);
    expect(await vault.get("gog", { user: "ada" })).toEqual(ada);
  });

  // The real programs need a session; these use the same protocol.
  const PROGRAMS = {
    linux: `case "$1" in
      store) cat > "$XDG_RUNTIME_DIR/kept-$4" ;;
      lookup) cat "$XDG_RUNTIME_DIR/kept-$3" ;;
    esac; printf '%s\\n' "$*" >> "$XDG_RUNTIME_DIR/seen"; env >> "$XDG_RUNTIME_DIR/seen"`,
    darwin: `if [ "$1" = -i ]; then read -r _ _ _ _ _ id _ secret; echo "$secret" > "$XDG_RUNTIME_DIR/kept-$id"
      else cat "$XDG_RUNTIME_DIR/kept-$5"; fi; printf '%s\\n' "$*" >> "$XDG_RUNTIME_DIR/seen"; env >> "$XDG_RUNTIME_DIR/seen"`,
  };
  const ring = (platform: keyof typeof PROGRAMS, text = PROGRAMS[platform]) => {
    const folder = temporaryFolder({ "bin/keep": `#!/bin/sh\n${text}\n`, bus: "", seen: "" });
    chmodSync(join(folder, "bin/keep"), 0o755);
    const found = findKeyring({ XDG_RUNTIME_DIR: folder, SECRET: "of-the-host" }, platform, () =>
      join(folder, "bin/keep"),
    );
    if (!found) throw new Error("there is no keyring");
    return { folder, keyring: found };
  };

  it.each(["linux", "darwin"] as const)(
    "is kept in the keyring of %s, and never on a command line",
    async (platform) => {
      const { folder, keyring } = ring(platform);
      const home = temporaryFolder();
      const vault = createVault(home, { env, keyring });
      await vault.set("gog", "ada", ada);
      expect(await vault.getKeySource()).toBe("keyring");
      expect(readdirSync(home)).toEqual(["vault.json"]);
      expect(await createVault(home, { env, keyring }).get("gog", { user: "ada" })).toEqual(ada);
      const [kept = ""] = readdirSync(folder).filter((name) => name.startsWith("kept-"));
      const key = readFileSync(join(folder, kept), "utf8").trim();
      expect(key).toMatch(/^[0-9a-f]{64}$/);
      const seen = readFileSync(join(folder, "seen"), "utf8");
      expect(seen).not.toContain(key);
      expect(seen).not.toContain("of-the-host");
      rmSync(join(folder, kept));
      await expect(async () => await createVault(home, { env, keyring }).get("gog", { user: "ada" })).rejects.toThrow(
        unreadable(/Cannot read the vault key from/),
      );
      await expect(
        async () => await createVault(home, { env, keyring: false }).get("gog", { user: "ada" }),
      ).rejects.toThrow(unreadable(/is not available here/));
    },
  );

  it("is in a file next to the vault when the keyring fails", async () => {
    const home = temporaryFolder();
    const vault = createVault(home, { env, keyring: ring("linux", "exit 1").keyring });
    await vault.set("gog", "ada", ada);
    expect(await vault.getKeySource()).toBe("key file");
    expect(await createVault(home, { env }).get("gog", { user: "ada" })).toEqual(ada);
  });

  it("is not searched in a keyring without a session", () => {
    expect(findKeyring({}, "linux", () => "/bin/true")).toBeUndefined();
    expect(findKeyring({ DBUS_SESSION_BUS_ADDRESS: "unix:path=/x" }, "win32", () => "/bin/true")).toBeUndefined();
  });
});

describe("temporary entries of the vault", () => {
  it("are returned once, and are encrypted", async () => {
    const vault = createVault(temporaryFolder(), { env });
    await vault.put("flow_1", { verifier: "very-secret" }, 60);
    expect(await vault.peek("flow_1")).toEqual({ verifier: "very-secret" });
    expect(readFileSync(vault.file, "utf8")).not.toContain("very-secret");
    expect(await vault.take("flow_1")).toEqual({ verifier: "very-secret" });
    expect(await vault.take("flow_1")).toBeUndefined();
    expect(await vault.peek("flow_1")).toBeUndefined();
    expect(await vault.list()).toEqual([]);
  });

  it("are gone after their expiry, also from the file", async () => {
    let time = Date.now();
    const vault = createVault(temporaryFolder(), { env, now: () => time });
    await vault.put("flow_1", { n: 1 }, 60);
    time += 60_000;
    expect(await vault.peek("flow_1")).toBeUndefined();
    expect(await vault.take("flow_1")).toBeUndefined();
    await vault.put("flow_2", { n: 2 }, 60);
    expect(readFileSync(vault.file, "utf8")).not.toContain("flow_1");
  });

  it("are refused when their expiry was extended", async () => {
    const vault = createVault(temporaryFolder(), { env });
    await vault.put("flow_1", { n: 1 }, 60);
    const later = `"expiresAt":"${new Date(Date.now() + 1e9).toISOString()}"`;
    writeFileSync(vault.file, readFileSync(vault.file, "utf8").replace(/"expiresAt":"[^"]+"/, later));
    await expect(async () => await vault.peek("flow_1")).rejects.toThrow(
      unreadable(/the entry of a pending sign-in was edited/),
    );
    await expect(async () => await vault.take("flow_1")).rejects.toThrow(unreadable(/was edited/));
  });

  it("go to one of several concurrent processes", async () => {
    const home = temporaryFolder();
    await createVault(home, { env }).put("flow_1", { n: 1 }, 60);
    const done = await Promise.all(
      [1, 2, 3, 4].map(() => asRun(home, `console.log((await vault.take("flow_1"))?.n ?? "none");`)),
    );
    expect(done.map(({ text }) => text.trim()).sort()).toEqual(["1", "none", "none", "none"]);
  });

  it("are limited", async () => {
    const vault = createVault(temporaryFolder(), { env });
    await vault.put("flow_0", {}, 60);
    const content = JSON.parse(readFileSync(vault.file, "utf8"));
    const [first] = content.kept;
    content.kept = Array.from({ length: 500 }, (_, number) => ({ ...first, id: `flow_${number}` }));
    writeFileSync(vault.file, JSON.stringify(content));
    await expect(async () => await vault.put("flow_500", {}, 60)).rejects.toThrow(
      expect.objectContaining({ code: "vault-full" }),
    );
    await vault.put("flow_0", { again: true }, 60);
    expect(await vault.peek("flow_0")).toEqual({ again: true });
  });

  it("[Q-24] are never written beyond the readable size", async () => {
    const { vault } = await vaultOfAda();
    const put = async () => {
      for (let number = 0; number < 10; number++)
        await vault.put(`flow_${number}`, { scopes: "x".repeat(2_000_000) }, 60);
    };
    await expect(put).rejects.toThrow(
      expect.objectContaining({ code: "vault-full", message: expect.stringContaining("16 MiB") }),
    );
    expect(await vault.get("gog", { user: "ada" })).toEqual(ada);
    expect(await vault.findProblem()).toBeUndefined();
  });
});
