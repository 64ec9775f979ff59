import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { configureProvider } from "../support/configured-provider.ts";
import { skillText } from "../support/folder.ts";

const FINE = { program: "" };

describe("skillet capability list", () => {
  it("[S-21] shows the provider of each namespace, and which skills declare it and are granted it", async () => {
    const { run } = configureProvider({
      ...FINE,
      config: '[skills.helper]\ncapabilities = ["desk.tickets"]',
      files: {
        ".skillet/skills/other/SKILL.md": skillText("other", { more: "capabilities: [desk.tickets, mail.box]\n" }),
      },
    });
    const { code, stdout } = await run(["capability", "list", "desk"]);
    expect(code).toBe(0);
    expect(stdout.replace(/^✓ desk {2}.*desk\.cjs$/m, "✓ desk  PROGRAM")).toBe(
      [
        "✓ desk  PROGRAM",
        "  desk.tickets  Tickets of the desk.",
        "    reads    list",
        "    changes  open (asks each time)",
        "    granted  helper",
        "    declared by other, not granted: skillet capability grant other desk.tickets",
        "",
      ].join("\n"),
    );
    const { providers, unserved } = JSON.parse((await run(["capability", "list", "--json"])).stdout);
    expect(providers).toMatchObject([
      {
        namespace: "desk",
        isReady: true,
        capabilities: [
          {
            skills: [
              { name: "helper", isGranted: true },
              { name: "other", isGranted: false },
            ],
          },
        ],
      },
    ]);
    expect(unserved).toContainEqual({ id: "mail.box", skills: ["other"] });
  });

  it("[S-23] shows the setup steps of one that is not ready, whatever it writes into them", async () => {
    const { run } = configureProvider({
      program: `if (method === "health") answer({ is_ready: false, message: "\\u001b[2Jno account", steps: ["make one\\nthen", "skillet auth login desk"] });`,
    });
    const { code, stdout } = await run(["capability", "list"]);
    expect(code).toBe(0);
    expect(stdout).not.toContain("\x1b");
    expect(stdout).toMatch(
      /^! desk .*\n {2}not ready: .*no account\n {4}1\. make one then\n {4}2\. skillet auth login desk\n/,
    );
  });

  it("[S-22] explains how to enable a shipped provider, wherever it is missing", async () => {
    const { run } = configureProvider(FINE);
    const command = "skillet enable github\n";
    expect((await run(["capability", "list"])).stdout).toMatch(
      /\nDisabled\n {2}github\.issues {2}github\n(?: {2}github.*\n)+ {4}to enable it: skillet enable github\n {2}gog\./,
    );
    expect((await run(["show", "github"])).stdout).toContain(`github.repos, provider disabled: ${command}`);
    for (const args of [
      ["auth", "login", "github"],
      ["capability", "list", "github"],
    ])
      expect(await run(args)).toMatchObject({
        code: 1,
        stderr: `✗ The provider of 'github' is disabled  [not-found]\n  enable it: ${command}`,
      });
    expect((await run(["run", "github", "x"])).stderr).toContain(command);
    expect((await run(["config", "set", "skills.github.enabled", "true"])).code).toBe(0);
    expect((await run(["show", "github"])).stdout).toContain("github.repos (built in; granted)\n");
    await run(["config", "set", "capabilities.providers.github.enabled", "false"]);
    expect((await run(["auth", "login", "github"])).stderr).toContain(
      "enable it: skillet config set capabilities.providers.github.enabled true\n",
    );
  });

  it("fits a terminal of 80 columns, as the details of a skill do", async () => {
    const many = Array.from({ length: 20 }, (_, index) => `operation_${index}`);
    const { run } = configureProvider({
      program: `
const read = (name) => ({ name, description: name, mutating: false, input_schema: { type: "object" } });
if (method === "describe") answer({ capabilities: [{ id: "desk.tickets", description: "${"Tickets of the desk. ".repeat(9)}",
  operations: ${JSON.stringify(many)}.map(read) }] });
if (method === "health") answer({ is_ready: false, message: "${"not yet ".repeat(20)}", steps: ["${"do this ".repeat(20)}", "then that"] });`,
    });
    const at80 = { isTTY: true, columns: 80, env: { NO_COLOR: "1" } };
    for (const args of [
      ["capability", "list"],
      ["show", "helper"],
      ["show", "github"],
    ]) {
      const { stdout } = await run(args, at80);
      // Paths, patterns and commands cannot be broken.
      const wide = stdout.split("\n").filter((line) => line.length > 80 && line.trim().includes(" "));
      expect(wide.filter((line) => !/skillet |\\b/.test(line))).toEqual([]);
    }
    const { stdout } = await run(["capability", "list", "desk"], at80);
    expect(stdout.replace(/\s+/g, " ")).toContain(`reads ${many.sort().join(", ")}`);
  });

  it("names the workspace in the next step if the command named it", async () => {
    const more = "capabilities: [desk.tickets]\n";
    const { run } = configureProvider({
      ...FINE,
      files: { "work/there/skills/local/SKILL.md": skillText("local", { more }) },
    });
    const grant = "skillet capability grant -C there local desk.tickets";
    for (const args of [
      ["run", "local", "x"],
      ["run", "local", "x", "--dry-run"],
      ["show", "local"],
      ["capability", "list"],
    ]) {
      const { stdout, stderr } = await run([...args, "-C", "there"]);
      expect((stdout + stderr).replace(/\s+/g, " ")).toContain(grant);
    }
    expect((await run(["run", "local", "x", "-C", "there"])).stderr).toContain("skillet trust -C there ");
    expect(await run([...grant.split(" ").slice(1), "--yes"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("to revoke it: skillet capability ungrant -C there local desk.tickets\n"),
    });
    expect((await run(["run", "helper", "x"])).stderr).toContain("skillet capability grant helper desk.tickets\n");
  });

  it("[Q-03] reports the copy with the grant, and the command that grants it to this one", async () => {
    const more = "capabilities: [desk.tickets]\n";
    const { home, run, file } = configureProvider({
      ...FINE,
      files: { "work/there/skills/helper/SKILL.md": skillText("helper", { more }) },
    });
    await run(["capability", "grant", "helper", "desk.tickets", "--yes"]);
    const give = "granted to the copy from ~/.skillet/skills/helper: skillet trust -C there --secrets helper";
    expect((await run(["show", "helper", "-C", "there"])).stdout).toContain(`desk.cjs; ${give})\n`);
    const list = await run(["capability", "list", "desk", "-C", "there"]);
    expect(list.stdout).toContain(`    declared by helper, ${give}\n`);
    const grant = await run(["capability", "grant", "helper", "desk.tickets", "-C", "there"]);
    expect(grant.stdout).toBe("");
    expect(grant.stderr).toMatch(
      /^! the values configured .*, not to this one\n {2}to grant .*: skillet trust -C there --/,
    );

    const ungrant = ["capability", "ungrant", "helper", "desk.tickets", "-C", "there"];
    const before = file(".skillet/config.toml");
    expect(await run(ungrant)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("the copy from ~/.skillet/skills/helper would lose it"),
    });
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return "n";
    };
    expect((await run(ungrant, { ask })).code).toBe(3);
    expect(questions).toEqual([
      "Revoke desk.tickets of the copy of helper from ~/.skillet/skills/helper, not of the one found here? [y/N] ",
    ]);
    expect(file(".skillet/config.toml")).toBe(before);
    expect((await run([...ungrant, "--yes"])).code).toBe(0);
    expect(readFileSync(join(home, ".skillet/config.toml"), "utf8")).not.toContain("capabilities =");
  });

  it("wraps a refusal at the edge of a terminal, but no command or path", async () => {
    const more = "capabilities: [desk.tickets]\n";
    const files = { "work/there/skills/helper/SKILL.md": skillText("helper", { more }) };
    const { run } = configureProvider({ ...FINE, files });
    await run(["capability", "grant", "helper", "desk.tickets", "--yes"]);
    for (const args of [
      ["run", "gog", "x"],
      ["run", "github", "x"],
      ["run", "helper", "x", "-C", "there"],
    ]) {
      const { stderr: whole } = await run(args);
      const { stderr: folded } = await run(args, { isTTY: true, columns: 60, env: { NO_COLOR: "1" } });
      expect(Math.max(...whole.split("\n").map(({ length }) => length))).toBeGreaterThan(60);
      expect(folded.replace(/\s+/g, " ")).toBe(whole.replace(/\s+/g, " "));
      const wide = folded.split("\n").filter((line) => line.length > 60);
      expect(wide.filter((line) => !/^ *(?:run: )?(?:skillet .*|\S+)$/.test(line))).toEqual([]);
      for (const command of whole.match(/(?<=: )skillet .*|`[^`]*`/g) ?? []) expect(folded).toContain(command);
    }
  });

  it("ends in time for a provider that never answers, and reports it", async () => {
    const { run } = configureProvider({
      program: "setInterval(() => {}, 1000); isDone = true;",
      table: "timeout_seconds = 1",
    });
    const [list, doctor] = await Promise.all([run(["capability", "list"]), run(["doctor"])]);
    expect(list).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(
        "its capabilities are unknown: The provider of desk did not answer within 1 second\n",
      ),
    });
    expect(doctor.stdout).toContain("not ready: The provider of desk did not answer within 1 second\n");
  });

  it("suggests the existing namespaces", async () => {
    const { run } = configureProvider(FINE);
    expect(await run(["capability", "list", "desc"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("did you mean desk?"),
    });
  });
});

describe("skillet capability check", () => {
  it("[S-21] tests the contract of a provider, and changes nothing", async () => {
    const { home, run } = configureProvider(FINE);
    const { code, stdout } = await run(["capability", "check", "desk"]);
    expect(stdout).toMatch(
      /✓ desk\.tickets\.list returns output that matches its schema\n(?:✓ .*\n)*\n(\d+) of \1 checks passed\n$/,
    );
    expect(code).toBe(0);
    expect(existsSync(join(home, ".skillet/opened"))).toBe(false);
    expect((await run(["audit"])).stdout).toMatch(/you {2}check desk {2}ok\n$/);
  });

  it("lists operations without an example, and how to provide one", async () => {
    const { run } = configureProvider({
      program: `
const read = (name) => ({ name, description: name, mutating: false, input_schema: { type: "object", required: ["id"] } });
if (method === "describe") answer({ capabilities: [{ id: "desk.tickets", description: "Tickets.", operations: [read("open"), read("list")] }] });`,
      files: { "work/inputs.json": '{"desk.tickets.open": {"id": 1}, "desk.tickets.list": {"id": 1}}' },
    });
    expect((await run(["capability", "check", "desk"])).stderr).toBe(
      '2 operations without an example input: only invalid input was tried; add one with --inputs FILE: {"desk.tickets.open": {…}}\n',
    );
    expect((await run(["capability", "check", "desk", "--inputs", "inputs.json"])).stderr).toBe("");
  });

  it("tests changes only on request, and lists what it did not test", async () => {
    const inputs = JSON.stringify({ "desk.tickets.open": { id: 1 }, "desk.tickets.shut": {} });
    const { run, file } = configureProvider({ ...FINE, files: { "work/inputs.json": inputs } });
    const without = await run(["capability", "check", "desk", "--inputs", "inputs.json", "--json"]);
    expect(JSON.parse(without.stdout).untried).toEqual(["desk.tickets.open", "desk.tickets.shut"]);
    const { stdout, stderr } = await run(["capability", "check", "desk", "--inputs", "inputs.json", "--changes"]);
    expect(stdout).toContain("✓ desk.tickets.open is done once per key\n");
    expect(stderr).toMatch(/^! desk\.tickets\.shut was not tried: .*\n$/);
    const keys = file(".skillet/opened").trim().split("\n");
    expect(new Set(keys).size).toBe(1);
  });

  it("[Q-22] fails with the broken rule, without credentials or text that looks like one", async () => {
    const token = "tok_4f1c99d2aa7be310";
    const other = `ghp_${"a1B2c3D4e5".repeat(4).slice(0, 36)}`;
    const { run } = configureProvider({
      program: `
if (method === "auth.begin") answer({ kind: "paste", message: "Paste." });
if (method === "auth.complete") answer({ credential: { account: "ada", secret: { token: params.callback.text } } });
if (method === "invoke" && params.operation === "list" && typeof params.input === "object")
  refuse({ code: "denied", message: "not with " + params.credential.secret.token + " or ${other}" });`,
    });
    await run(["auth", "login", "desk"], { stdin: token });
    const { code, stdout } = await run(["capability", "check", "desk"]);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /✗ desk\.tickets\.list returns output that matches its schema\n {4}it failed: denied: not with /,
    );
    for (const secret of [token, other]) expect(stdout).not.toContain(secret);
  });

  it.each([
    ["does not exist", undefined],
    ["is not JSON", "{"],
    ["is not an object", "[]"],
  ])("refuses a file of inputs that %s", async (_, text) => {
    const { home, run } = configureProvider(FINE);
    if (text !== undefined) writeFileSync(join(home, "work/inputs.json"), text);
    expect(await run(["capability", "check", "desk", "--inputs", "inputs.json"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("inputs.json cannot be used: "),
    });
  });
});

describe("skillet capability grant", () => {
  const given = (home: string) => readFileSync(join(home, ".skillet/config.toml"), "utf8");

  it("[Q-03] shows the skill, asks, and grants to the copy that was shown", async () => {
    const { home, run, file } = configureProvider(FINE);
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return "y";
    };
    const { code, stdout } = await run(["capability", "grant", "helper", "desk.tickets"], { ask });
    expect(code).toBe(0);
    expect(questions).toEqual(["Grant helper desk.tickets? [y/N] "]);
    expect(stdout).toMatch(
      /^helper {2}Does helper.*\n {2}source {6}.*skills\/helper\n {2}digest {6}sha256:[0-9a-f]{64}\n {2}to grant {4}desk\.tickets, served by .*desk\.cjs\n✓ granted/,
    );
    expect(given(home)).toContain('[skills.helper]\ncapabilities = ["desk.tickets"]\n');
    expect(JSON.parse(file(".skillet/grants.json")).skills.helper.location).toBe(join(home, ".skillet/skills/helper"));
    const shown = JSON.parse((await run(["show", "helper", "--json"])).stdout);
    expect(shown.capabilities).toEqual([
      { id: "desk.tickets", from: expect.stringContaining("desk.cjs"), isGranted: true },
    ]);
    expect((await run(["capability", "grant", "helper", "desk.tickets"])).stdout).toBe(
      "✓ helper already has desk.tickets\n",
    );
  });

  it("[Q-19] grants nothing that the skill does not declare, and nothing without approval", async () => {
    const { home, run } = configureProvider(FINE);
    const before = given(home);
    expect(await run(["capability", "grant", "helper", "desk.tickets", "desk.admin", "--yes"])).toMatchObject({
      code: 1,
      stderr: "✗ Skill 'helper' does not declare desk.admin  [capability-undeclared]\n  it declares: desk.tickets\n",
    });
    expect((await run(["capability", "grant", "helper", "desk.*", "--yes"])).code).toBe(1);
    expect(await run(["capability", "grant", "helper", "desk.tickets"])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("add --yes"),
    });
    expect((await run(["capability", "grant", "helper", "desk.tickets"], { ask: async () => "" })).code).toBe(3);
    expect((await run(["capability", "grant", "nobody", "desk.tickets", "--yes"])).code).toBe(1);
    expect(given(home)).toBe(before);
    expect((await run(["show", "helper"])).stdout).toContain(
      "not granted: skillet capability grant helper desk.tickets",
    );
  });

  it("revokes the grant, and reports one that remains through another key", async () => {
    const { home, run } = configureProvider({
      ...FINE,
      config: '[skills.helper]\ncapabilities = ["desk.*", "desk.tickets"]',
    });
    expect((await run(["capability", "ungrant", "helper", "desk.tickets"])).code).toBe(0);
    expect(given(home)).toContain('capabilities = ["desk.*"]');
    expect(await run(["capability", "ungrant", "helper", "desk.tickets"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("another key of [skills.helper] grants desk.tickets"),
    });
    expect((await run(["capability", "ungrant", "helper", "desk.*"])).code).toBe(0);
    expect(given(home)).not.toContain("capabilities =");
  });
});

describe("capabilities in skillet doctor", () => {
  it("include providers, the vault's key and the log, and fail for an edited log", async () => {
    const { home, run } = configureProvider({
      program: `
if (method === "auth.begin") answer({ kind: "paste", message: "Paste." });
if (method === "auth.complete") answer({ credential: { account: "ada", secret: { token: "t" } } });`,
    });
    await run(["auth", "login", "desk"], { stdin: "x" });
    const { code, stdout } = await run(["doctor"]);
    expect(stdout).toMatch(
      /\nCapabilities .*\n {2}✓ desk {2}.*\n {4}signed in: ada\n {2}~\/\.skillet\/vault\.json {2}1 sign-in, encrypted with vault\.key in the same folder: this protects copies of the vault.*\n {2}~\/\.skillet\/audit\.jsonl {2}1 line, intact\n/,
    );
    expect(code).toBe(0);
    const { file } = createAuditLog(join(home, ".skillet"));
    writeFileSync(file, readFileSync(file, "utf8").replace('"ok"', '"no"'));
    const edited = await run(["doctor", "--json"]);
    expect(edited.code).toBe(1);
    const { stdout: said } = await run(["doctor"]);
    expect(said).toContain("  ✗ ~/.skillet/audit.jsonl  is not intact\n");
    expect(said).toMatch(
      /\nFindings\n✗ the audit log is not intact: .*\n {4}see details: skillet audit verify\n\n1 finding, 1 error\n$/,
    );
    expect(JSON.parse(edited.stdout).capabilities).toMatchObject({
      providers: [{ namespace: "desk", isReady: true, accounts: ["ada"] }],
      vault: { key: "key file", signedIn: 1, problem: null },
      audit: { verdict: { isWhole: false, line: 1 } },
    });
  });
});
