import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { configureProvider } from "../support/configured-provider.ts";

const TOKEN = "tok_4f1c99d2aa7be310";

/** Signs in a user who pastes a token that begins with `tok_`; it is ada's. */
const PASTE = `
if (method === "auth.begin") answer({ kind: "paste", message: "Make a token at the desk.", url: "https://desk.example/tokens" });
if (method === "auth.complete") {
  if (!params.callback.text.startsWith("tok_")) refuse({ code: "input-invalid", message: "that is no token of the desk" });
  else answer({ credential: { account: "ada", secret: { token: params.callback.text }, scopes: params.scopes ?? ["tickets"] } });
}`;

/** Succeeds after two polls. */
const DEVICE = `
if (method === "auth.begin") answer({ kind: "device", message: "Open the page.", url: "https://desk.example/device", user_code: "WDJB-MJHT",
  state: { device: "d1" }, expires_in_seconds: 300, interval_seconds: 1 });
if (method === "auth.poll") {
  const polls = fs.existsSync("polls") ? fs.readFileSync("polls", "utf8") : "";
  fs.writeFileSync("polls", polls + "p");
  answer(polls === "" || params.state.device !== "d1" ? {} : { credential: { account: "ada", secret: { token: "${TOKEN}" } } });
}`;

const LINK = `
if (method === "auth.begin") answer({ kind: "link", message: "Open it.", url: "https://desk.example/login?state=s1", state: { state: "s1" } });
if (method === "auth.complete") answer({ credential: { account: "ada@" + params.callback.code, secret: { token: "${TOKEN}" } } });
`;

function auditOf(home: string): Record<string, unknown>[] {
  return readFileSync(join(home, ".skillet/audit.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

describe("signing in", () => {
  it("[Q-22] takes a token from a pipe, stores it encrypted, and never shows it", async () => {
    const { home, run } = configureProvider({ program: PASTE });
    const { code, stdout, stderr } = await run(["auth", "login", "desk"], { stdin: `${TOKEN}\n` });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "✓ signed in to desk as ada\n" });
    expect(stderr).toMatch(
      /^To sign in to desk {2}Make a token at the desk\.\n {2}open {2}https:\/\/desk\.example\/tokens\n/,
    );
    const list = await run(["auth", "list", "--json"]);
    expect(JSON.parse(list.stdout)).toMatchObject({
      signedIn: [{ namespace: "desk", account: "ada", user: "", scopes: ["tickets"] }],
      vault: { key: "key file", problem: null },
    });
    const files = readdirSync(join(home, ".skillet"), { recursive: true, encoding: "utf8" })
      .map((name) => join(home, ".skillet", name))
      .filter((path) => statSync(path).isFile());
    expect(files).toContain(join(home, ".skillet/vault.json"));
    for (const text of [stdout, stderr, list.stdout, ...files.map((path) => readFileSync(path, "latin1"))]) {
      expect(text).not.toContain(TOKEN);
      expect(text).not.toContain(Buffer.from(TOKEN).toString("base64"));
    }
  });

  it("is recorded in the audit log, also when it failed", async () => {
    const { home, run } = configureProvider({ program: PASTE });
    const failed = await run(["auth", "login", "desk"], { stdin: "nonsense" });
    expect(failed).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("✗ that is no token of the desk"),
    });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    await run(["auth", "revoke", "desk", "--yes"]);
    expect(auditOf(home)).toMatchObject([
      { run: "", skill: "", method: "auth.login", capability: "desk", outcome: "input-invalid" },
      { run: "", skill: "", method: "auth.login", capability: "desk", outcome: "ok" },
      { run: "", skill: "", method: "auth.revoke", capability: "desk", outcome: "ok" },
    ]);
  });

  it("asks for the token at a terminal, with the requested scopes", async () => {
    const { run } = configureProvider({ program: PASTE });
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return TOKEN;
    };
    expect((await run(["auth", "login", "desk", "--scope", "read", "write"], { ask })).code).toBe(0);
    expect(questions).toEqual(["Paste it here (visible): "]);
    expect(JSON.parse((await run(["auth", "list", "--json"])).stdout).signedIn[0].scopes).toEqual(["read", "write"]);
  });

  it("explains the steps when nothing is pasted and no user can be asked", async () => {
    const { run } = configureProvider({ program: PASTE });
    const { code, stderr } = await run(["auth", "login", "desk"]);
    expect(code).toBe(1);
    expect(stderr).toContain(
      "✗ Nothing was pasted: not signed in  [auth-unfinished]\n  run it again at a terminal, or pipe it in: < FILE\n",
    );
  });

  it("shows a code, and polls until it was entered", async () => {
    const { run, file } = configureProvider({ program: DEVICE });
    const { code, stdout, stderr } = await run(["auth", "login", "desk", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ status: "signed-in", namespace: "desk", account: "ada" });
    expect(stderr).toContain("  open  https://desk.example/device\n  type  WDJB-MJHT\n");
    expect(file(".skillet/polls")).toBe("pp");
  });

  it("[S-21] signs in with the program in a skill's own table, and not with a preset", async () => {
    const { home, run } = configureProvider({ program: PASTE });
    const command = JSON.stringify([process.execPath, join(home, "desk.cjs")]);
    const config = `[skills.gog]\nenabled = true\n[skills.gog.capability_provider]\ncommand = ${command}\n`;
    writeFileSync(join(home, ".skillet/config.toml"), config);
    expect((await run(["auth", "login", "gog"], { stdin: TOKEN })).stdout).toBe("✓ signed in to gog as ada\n");
  });

  it("stops waiting at Ctrl-C, and continues with the same code afterwards", async () => {
    const { home, run } = configureProvider({ program: DEVICE });
    const stop = new AbortController();
    const onStderr = (text: string) => {
      if (text.includes("WDJB-MJHT")) stop.abort();
    };
    const { code, stdout, stderr } = await run(["auth", "login", "desk"], { signal: stop.signal, onStderr });
    expect({ code, stdout }).toEqual({ code: 130, stdout: "" });
    expect(stderr).toMatch(
      /✗ not signed in: interrupted {2}\[interrupted\]\n {2}try again: skillet auth login desk\n$/,
    );
    expect(auditOf(home)).toMatchObject([{ method: "auth.login", outcome: "aborted" }]);
    expect((await run(["auth", "list"])).stderr).toContain("no account is signed in");
    writeFileSync(join(home, ".skillet/polls"), "p");
    expect((await run(["auth", "login", "desk"])).stdout).toBe("✓ signed in to desk as ada\n");
  });

  it("accepts the redirect address that a page led to, and none of another sign-in", async () => {
    const { run } = configureProvider({ program: LINK });
    const ask = (state: string) => async () => `https://127.0.0.1/done?code=c7&state=${state}`;
    const other = await run(["auth", "login", "desk"], { ask: ask("s2") });
    expect(other).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("belongs to another sign-in") });
    expect((await run(["auth", "login", "desk"], { ask: ask("s1") })).stdout).toBe("✓ signed in to desk as ada@c7\n");
  });

  it("works step by step for scripts, each flow once", async () => {
    const { run } = configureProvider({ program: PASTE });
    const { flow, kind } = JSON.parse((await run(["auth", "begin", "desk", "--json"])).stdout);
    expect(kind).toBe("paste");
    expect(await run(["auth", "complete", flow], { stdin: TOKEN })).toMatchObject({
      code: 0,
      stdout: "✓ signed in as ada\n",
    });
    expect(await run(["auth", "complete", flow], { stdin: TOKEN })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("This sign-in has ended"),
    });
    const { run: slow } = configureProvider({ program: DEVICE });
    const begun = JSON.parse((await slow(["auth", "begin", "desk", "--json"])).stdout);
    expect(await slow(["auth", "poll", begun.flow])).toMatchObject({
      code: 5,
      stdout: "? pending: poll again in 1 s\n",
    });
  });

  it("suggests the existing namespaces", async () => {
    const { run } = configureProvider({ program: PASTE });
    expect(await run(["auth", "login", "dsk"])).toMatchObject({
      code: 1,
      stderr: "✗ No provider is configured for 'dsk'  [not-found]\n  did you mean desk?\n",
    });
    expect((await run(["auth", "login", "mail"])).stderr).toContain(
      "[capabilities.providers.mail] in config.toml; configured: desk",
    );
  });
});

describe("a signed-in account", () => {
  it("is listed with the source of the vault's key, and what that protects against", async () => {
    const { run } = configureProvider({ program: PASTE });
    expect(await run(["auth", "list"])).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("skillet auth login desk"),
    });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    const { stdout, stderr } = await run(["auth", "list"]);
    expect(stdout).toMatch(/^desk {2}ada {2}tickets · since \d{4}-\d\d-\d\d\n$/);
    expect(stderr).toContain(
      "stored in ~/.skillet/vault.json, encrypted with vault.key in the same folder: this protects copies of the vault, ",
    );
  });

  it("is the reported default when two exist and none is named", async () => {
    const { run } = configureProvider({
      program: PASTE.replace('account: "ada"', "account: params.callback.text.slice(4, 7)"),
    });
    for (const token of ["tok_bob", "tok_ada", "tok_cyd", "tok_bob"])
      expect((await run(["auth", "login", "desk"], { stdin: token })).code).toBe(0);
    expect((await run(["auth", "list"])).stdout.replace(/\d{4}-\d\d-\d\d/g, "TODAY")).toBe(
      [
        "desk  ada  tickets · since TODAY",
        "desk  bob  tickets · since TODAY · used unless --account names another",
        "desk  cyd  tickets · since TODAY",
        "",
      ].join("\n"),
    );
    await run(["auth", "revoke", "desk", "bob", "--yes"]);
    expect((await run(["auth", "list"])).stdout).toMatch(/^.*ada.*\d\n.*cyd.* used unless --account names another\n$/);
    await run(["auth", "revoke", "desk", "cyd", "--yes"]);
    expect((await run(["auth", "list"])).stdout).not.toContain("used unless");
  });

  it("[Q-22] of another provider is reported, and not used", async () => {
    const { home, run, file } = configureProvider({ program: PASTE });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    const config = file(".skillet/config.toml");
    writeFileSync(join(home, "other.cjs"), file("desk.cjs").replace('account: "ada"', 'account: "bob"'));
    writeFileSync(join(home, ".skillet/config.toml"), config.replace("desk.cjs", "other.cjs"));
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    const { stdout } = await run(["auth", "list"]);
    expect(stdout).toMatch(
      /^desk {2}ada .*\n {2}signed in at .*desk\.cjs, not at the provider's current address\ndesk {2}bob {2}.*\n$/,
    );
    expect(stdout).not.toContain("used unless");
    expect(JSON.parse((await run(["auth", "list", "--json"])).stdout).signedIn).toMatchObject([
      { account: "ada", isReached: false, isTaken: false },
      { account: "bob", isReached: true },
    ]);
  });

  it("is listed with a warning when a configured passphrase protects nothing yet", async () => {
    const { home, run, file } = configureProvider({ program: PASTE });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    writeFileSync(join(home, "phrase"), "correct horse battery\n", { mode: 0o600 });
    const env = { SKILLET_VAULT_PASSPHRASE_FILE: join(home, "phrase") };
    const next =
      "encrypted with vault.key in the same folder: this protects copies of the vault, but not against users who can read this folder; the next sign-in switches it to the passphrase\n";
    expect((await run(["auth", "list"], { env })).stderr).toContain(next);
    expect((await run(["doctor"], { env })).stdout).toContain(next);
    expect((await run(["auth", "list"])).stderr).not.toContain("next sign-in");
    await run(["auth", "login", "desk"], { env, stdin: TOKEN });
    expect((await run(["auth", "list"], { env })).stderr).toMatch(
      /encrypted with the passphrase in vault_passphrase_file\n$/,
    );
    expect(JSON.parse(file(".skillet/vault.json")).lock.key).toBe("passphrase file");
  });

  it("is possible only for listed providers that have a sign-in", async () => {
    const { run } = configureProvider({
      program: `if (method === "describe") answer({ capabilities: [{ id: "desk.tickets", description: "Tickets.", operations: [
        { name: "list", description: "lists", mutating: false, input_schema: { type: "object" } }] }] });`,
    });
    expect((await run(["auth", "list"])).stderr).toBe(
      "no account is signed in\n  none is needed: the configured providers have no sign-in\n",
    );
  });

  it("needs a long address, which is printed once, so that it can be copied", async () => {
    const { run } = configureProvider({
      program: PASTE.replace("at the desk.", "at https://desk.example/tokens, and paste it."),
    });
    const { stderr } = await run(["auth", "login", "desk"], { stdin: TOKEN });
    expect(stderr).toContain(
      "To sign in to desk  Make a token at the page below, and paste it.\n  open  https://desk.example/tokens\n",
    );
  });

  it("is missing when the vault cannot be used, which is reported", async () => {
    const { home, run } = configureProvider({ program: PASTE });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    writeFileSync(join(home, ".skillet/vault.key"), "edited");
    const { code, stdout, stderr } = await run(["auth", "list"]);
    expect(code).toBe(1);
    expect(stdout).toContain("desk  ada");
    expect(stderr).toMatch(/✗ .*vault\.key is not a vault key/);
    const narrow = await run(["auth", "list"], { isTTY: true, columns: 80, env: { NO_COLOR: "1" } });
    const [head = "", ...below] = narrow.stderr.trimEnd().split("\n");
    expect(below.length).toBeGreaterThan(0);
    for (const line of below) expect(line).toMatch(/^ {2}\S/);
    expect([head, ...below.map((line) => line.trim())].join(" ")).toBe(stderr.trimEnd());
  });

  it("is removed after approval, and the user reads which access remains", async () => {
    const { run } = configureProvider({ program: PASTE });
    await run(["auth", "login", "desk"], { stdin: TOKEN });
    expect(await run(["auth", "revoke", "desk"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("add --yes"),
    });
    expect(await run(["auth", "revoke", "desk"], { ask: async () => "n" })).toMatchObject({ code: 3 });
    expect(await run(["auth", "revoke", "desk", "bob", "--yes"])).toMatchObject({
      code: 1,
      stderr: "✗ 'bob' is not signed in to 'desk'  [not-found]\n  signed in: desk ada\n",
    });
    const { code, stdout } = await run(["auth", "revoke", "desk", "ada"], { ask: async () => "y" });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ signed out of desk: ada .*\n.*stays valid at desk until you revoke it there/);
    expect(JSON.parse((await run(["auth", "list", "--json"])).stdout).signedIn).toEqual([]);
    expect(await run(["auth", "revoke", "desk", "--yes"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("No account is signed in to 'desk'"),
    });
  });
});
