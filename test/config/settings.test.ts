import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials } from "../../src/agent/policy/skill-policies.ts";
import { discover, findUndeclaredSettings } from "../../src/config/discover.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { Skill } from "../../src/skill/skill.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { expectLinearSteps } from "../support/steps.ts";

async function settingsOf(files: Record<string, string>) {
  const root = temporaryFolder(files);
  if (files["home/.skillet/config.toml"] !== undefined) chmodSync(join(root, "home/.skillet/config.toml"), 0o600);
  const env = { HOME: join(root, "home"), SKILLS_DIR: join(root, "shipped") };
  const found = await discover({ workspace: join(root, "project"), env, index: false });
  return { root, found, ...found.configuration, codes: found.configuration.diagnostics.map(({ code }) => code) };
}

const isOwn = ({ origin }: Skill) => origin.scope !== "bundled";
const user = (text: string) => ({ "home/.skillet/config.toml": text });
const workspace = (text: string) => ({ "project/.skillet/config.toml": text });

describe("settings", () => {
  it("[S-41] include ~/.ash/config.toml as the lowest user configuration, only its keys for skills and providers", async () => {
    const ash = `[models.default]\nprovider = "openai"\nbase_url = "https://evil.example"\n[sandbox]\nlevel = "none"\n[skills.research]\nPERPLEXITY_API_KEY = "pplx-1"\nmodel = "haiku"\nenabled = true\nallow_chat_ids = ["12345"]\n[skills.defaults]\nallow_chat_ids = ["12345"]\n[skills.gog.capability_provider]\nenabled = true\nnamespace = "gog"\ncommand = ["gogcli", "bridge"]\ntimeout_seconds = 30\n`;
    const { settings, codes, entries, root, isBroken } = await settingsOf({
      ...user('[skills.research]\nmodel = "opus"\n'),
      "home/.ash/config.toml": ash,
    });
    expect(isBroken).toBe(false);
    expect(codes).toContain("config-ash");
    expect(settings.skills.get("research")).toMatchObject({ model: "opus", enabled: true, allowChatIds: ["12345"] });
    expect(settings.skills.get("research")?.variables.get("PERPLEXITY_API_KEY")).toBe("pplx-1");
    expect(settings.defaults.allowChatIds).toEqual(["12345"]);
    const provider = { namespace: "gog", command: ["gogcli", "bridge"], seconds: 30 };
    expect(settings.skills.get("gog")?.provider).toMatchObject(provider);
    expect(settings.models.size).toBe(0);
    expect(settings.sandbox).toEqual(DEFAULT_SETTINGS.sandbox);
    const command = entries.find(({ parts }) => parts.at(-1) === "command");
    expect(command).toMatchObject({ file: join(root, "home/.ash/config.toml"), line: 16 });
  });

  it("[S-41] report a file of ash that is not TOML or too large, and continue without it", async () => {
    const { isBroken, diagnostics } = await settingsOf({ "home/.ash/config.toml": "[skills" });
    expect(isBroken).toBe(false);
    expect(diagnostics).toMatchObject([{ code: "config-ash", message: expect.stringContaining("not valid TOML") }]);
    const large = await settingsOf({ "home/.ash/config.toml": `# ${"x".repeat(1024 * 1024)}` });
    expect(large.isBroken).toBe(false);
    expect(large.diagnostics).toMatchObject([
      { code: "config-ash", message: expect.stringContaining("at most 1 MiB") },
    ]);
  });

  it("[T-14] contain the isolation of code and its permissions, each with its default", async () => {
    const { settings, codes } = await settingsOf(
      user(
        '[sandbox]\nlevel = "partial"\nengine = "podman"\nimage = "debian"\nnetwork = ["api.example.com:443", "[::1]:80"]\nworkspace = "read"\nmemory_mib = 64\nprocesses = 8\ndisk_mib = 1\n[scripts]\ntimeout_seconds = 2\n[skills.a]\nnetwork = ["127.0.0.1:5432"]\nworkspace = "read-write"\n',
      ),
    );
    expect(codes).toEqual([]);
    expect(settings.sandbox).toEqual({
      level: "partial",
      engine: "podman",
      image: "debian",
      network: ["api.example.com:443", "[::1]:80"],
      pythonIndex: ["pypi.org:443", "files.pythonhosted.org:443"],
      workspace: "read",
      memory: 64 * 1024 * 1024,
      processes: 8,
      disk: 1024 * 1024,
    });
    expect(settings.scripts).toEqual({ seconds: 2, output: 1_048_576, arguments: 100, argumentBytes: 4096 });
    expect(settings.skills.get("a")).toMatchObject({ network: ["127.0.0.1:5432"], workspace: "read-write" });
  });

  it.each([
    'level = "weak"',
    'engine = "lxc"',
    'network = ["x"]',
    'network = "x:1"',
    "processes = 0",
    'workspace = "all"',
  ])("state what [sandbox] %s must be, and keep the default", async (line) => {
    const { settings, codes } = await settingsOf(user(`[sandbox]\n${line}\n`));
    expect(codes).toEqual(["config-type"]);
    expect(settings.sandbox).toEqual(DEFAULT_SETTINGS.sandbox);
  });

  it("[W-09][S-19] contain models by alias, their prices, the tools, and the providers of capabilities", async () => {
    const { settings, codes } = await settingsOf(
      user(`[models.fast]
provider = "openai-compatible"
model = "qwen3:4b"
base_url = "http://127.0.0.1:11434/v1"
api_key = "env:LOCAL_KEY"
timeout_seconds = 20
retries = 0
max_tokens = 900
[models.default]
provider = "anthropic"
model = "claude-x"
[prices."claude-x.5"]
input = 3
output = 15.5
cached = 0.3
[tools]
disabled = ["bash"]
dynamic_commands = true
[tools.mcp.brave_search]
command = ["npx", "-y", "brave"]
env = { BRAVE_KEY = "env:BRAVE", PLAIN = "x" }
timeout_seconds = 5
tools = ["search"]
auto_approve = ["search"]
[tools.mcp.far]
url = "https://example.com/mcp"
token = "file:token"
enabled = false
[skills.gog]
dynamic_commands = false
[skills.gog.capability_provider]
enabled = true
namespace = "gog"
command = ["gogcli", "bridge"]
timeout_seconds = 30
[capabilities.providers.mail]
command = ["/opt/mail"]
`),
    );
    expect(codes).toEqual([]);
    expect([...settings.models]).toEqual([
      [
        "fast",
        {
          provider: "openai-compatible",
          model: "qwen3:4b",
          baseUrl: "http://127.0.0.1:11434/v1",
          apiKey: "env:LOCAL_KEY",
          seconds: 20,
          retries: 0,
          maxTokens: 900,
        },
      ],
      ["default", { provider: "anthropic", model: "claude-x" }],
    ]);
    expect([...settings.prices]).toEqual([["claude-x.5", { input: 3, output: 15.5, cached: 0.3 }]]);
    expect(settings.tools).toEqual({ disabled: ["bash"], dynamicCommands: true });
    expect([...settings.mcp]).toEqual([
      [
        "brave_search",
        {
          command: ["npx", "-y", "brave"],
          env: new Map(Object.entries({ BRAVE_KEY: "env:BRAVE", PLAIN: "x" })),
          seconds: 5,
          tools: ["search"],
          autoApprove: ["search"],
        },
      ],
      ["far", { url: "https://example.com/mcp", token: "file:token", enabled: false, env: new Map() }],
    ]);
    expect(settings.skills.get("gog")).toMatchObject({
      dynamicCommands: false,
      provider: { enabled: true, namespace: "gog", command: ["gogcli", "bridge"], seconds: 30 },
    });
    expect([...settings.providers]).toEqual([["mail", { command: ["/opt/mail"], env: new Map() }]]);
  });

  it.each([
    ['[models.x]\nprovider = "acme"', '"anthropic", "openai"'],
    ['[models.x]\nbase_url = "ftp://a"', "web address"],
    ['[models.x]\nbase_url = "https://me:secret@a/v1"', "without a user name or password"],
    ["[models.x]\nretries = -1", "a whole number"],
    ['[prices.x]\ninput = "3"', "a number of dollars"],
    ["[prices.x]\ninput = inf", "a number of dollars"],
    ['[prices.x]\ndate = "19.11.2026"', 'a day in quotes, "2026-11-19"'],
    ["[limits]\nnesting = 0", "a whole number above 0"],
    ["[capabilities.providers.x]\ncommand = []", "a program and its arguments"],
    ["[tools.mcp.x]\ncommand = []", "a program and its arguments"],
    ['[tools.mcp."my server"]\ncommand = ["x"]', 'letters, digits, "-" and "_"'],
    ['[tools.mcp."a.b".env]\nKEY = "secret"', 'letters, digits, "-" and "_"'],
  ])("[S-19] state what %s must be, without its value", async (text, must) => {
    const { diagnostics, settings } = await settingsOf(user(`${text}\n`));
    expect(diagnostics).toMatchObject([{ code: "config-type", line: 2, message: expect.stringContaining(must) }]);
    expect(diagnostics[0]?.message).not.toContain("secret");
    expect(settings).toEqual(DEFAULT_SETTINGS);
  });

  it("are empty without a file", async () => {
    const { settings, diagnostics, files, isBroken } = await settingsOf({});
    expect(settings.skills.size).toBe(0);
    expect({ diagnostics, isBroken }).toEqual({ diagnostics: [], isBroken: false });
    expect(files.map(({ exists }) => exists)).toEqual([false, false]);
  });

  it("contain the settings of each skill, variables with their exact names", async () => {
    const { settings, codes } = await settingsOf(
      user(
        '[skills.research]\nPERPLEXITY_API_KEY = "pplx-1"\nmodel = "haiku"\nenabled = true\nallow_chat_ids = ["12345"]\n\n[skills.defaults]\nallow_chat_ids = ["1"]\n',
      ),
    );
    expect(codes).toEqual([]);
    const research = settings.skills.get("research");
    expect(research).toMatchObject({ model: "haiku", enabled: true, allowChatIds: ["12345"] });
    expect([...(research?.variables ?? [])]).toEqual([["PERPLEXITY_API_KEY", "pplx-1"]]);
    expect(settings.defaults.allowChatIds).toEqual(["1"]);
  });

  it("[S-38] reserve the name defaults: no skill can have it", async () => {
    const { settings, found } = await settingsOf({
      ...user("[skills.defaults]\nallow_chat_ids = []\n"),
      "project/skills/defaults/SKILL.md": skillText("defaults"),
      "project/skills/other/SKILL.md": skillText("defaults"),
    });
    expect(settings.skills.has("defaults")).toBe(false);
    expect(found.catalog.has("defaults")).toBe(false);
    expect(found.catalog.get("other").description).toContain("defaults");
    expect(found.catalog.diagnostics.map(({ code }) => code)).toEqual([
      "name-reserved",
      "no-valid-name",
      "name-reserved",
    ]);
  });

  it("[S-38] accept only chats in the defaults", async () => {
    const { settings, diagnostics } = await settingsOf(user("[skills.defaults]\nenabled = false\n"));
    expect(diagnostics).toMatchObject([{ code: "config-unknown", line: 2 }]);
    expect(settings).toEqual(DEFAULT_SETTINGS);
  });

  it("[S-38] report unknown skills in them, once each, with the nearest", async () => {
    const { found } = await settingsOf({
      ...user('[skills.reserch]\nKEY = "a"\nenabled = true\n'),
      "project/skills/research/SKILL.md": skillText("research"),
    });
    expect(findUndeclaredSettings(found)).toMatchObject([
      { code: "config-skill", severity: "info", line: 2, meant: "research" },
    ]);
  });

  it("[S-38] report variables that a skill does not declare", async () => {
    const { found } = await settingsOf({
      ...user('[skills.research]\nKEY = "a"\nOTHER = "b"\n'),
      "project/skills/research/SKILL.md": skillText("research", { more: "env: [KEY]\n" }),
    });
    expect(findUndeclaredSettings(found)).toMatchObject([
      { code: "config-undeclared", message: expect.stringContaining("sets OTHER") },
    ]);
  });

  it("add folders of skills", async () => {
    const { found } = await settingsOf({
      ...user('[sources.team]\npath = "~/team"\n\n[sources.flat]\npath = "../shallow"\nrecursive = false\n'),
      "home/team/a/SKILL.md": skillText("a"),
      "home/shallow/b/SKILL.md": skillText("b"),
      "home/shallow/deep/c/SKILL.md": skillText("c"),
    });
    expect(found.catalog.get("a@team").origin.scope).toBe("user");
    expect(found.catalog.has("b")).toBe(true);
    expect(found.catalog.has("c")).toBe(false);
  });

  it("name an unknown key with its line and the nearest known one", async () => {
    const { diagnostics } = await settingsOf(
      user("# mine\n[skills.a]\nenabeld = false\n[skils.b]\nenabled = true\n[odd]\nx = 1\n"),
    );
    expect(diagnostics).toMatchObject([
      { code: "config-unknown", line: 3, meant: "skills.a.enabled" },
      { code: "config-unknown", line: 5, meant: "skills.b.enabled" },
      { code: "config-unknown", line: 7 },
    ]);
  });

  it("report a source without a folder, and one whose folder does not exist", async () => {
    const { diagnostics } = await settingsOf(
      user('[sources.none]\nrecursive = true\n[sources.gone]\npath = "~/gone"\n'),
    );
    expect(diagnostics).toMatchObject([
      { code: "config-source", line: 1, message: "[sources.none] has no path" },
      { code: "config-source", message: expect.stringContaining("[sources.gone] names") },
    ]);
  });

  it("ignore a value of the wrong type and state what it must be", async () => {
    const { settings, diagnostics } = await settingsOf(user('[skills.a]\nenabled = "no"\nKEY = 5\n'));
    expect(settings.skills.get("a")).toBeUndefined();
    expect(diagnostics).toMatchObject([
      { code: "config-type", line: 2, message: '"skills.a.enabled" must be true or false' },
      { code: "config-type", line: 3 },
    ]);
  });

  it("name file and line of a file that does not parse, and continue with defaults", async () => {
    const { diagnostics, isBroken, settings, root } = await settingsOf(
      user('[skills.a]\nenabled = false\nmodel = "x\n'),
    );
    expect(isBroken).toBe(true);
    expect(settings.skills.size).toBe(0);
    expect(diagnostics).toMatchObject([
      { code: "config-syntax", file: join(root, "home/.skillet/config.toml"), line: 3 },
    ]);
  });

  it.each(["[skills.a]\nKEY", "[models.a]\napi_key"])("warn when others can read a file with %s", async (key) => {
    const { root } = await settingsOf(user(`${key} = "sesame"\n`));
    const file = join(root, "home/.skillet/config.toml");
    const again = async () =>
      (await discover({ workspace: root, env: { HOME: join(root, "home") }, index: false })).configuration.diagnostics;
    expect(await again()).toEqual([]);
    chmodSync(file, 0o644);
    expect(await again()).toMatchObject([{ code: "config-world-readable", fix: `chmod 600 ${file}` }]);
    expect(JSON.stringify(await again())).not.toContain("sesame");
    expect(statSync(file).mode & 0o777).toBe(0o644);
  });
});

describe("a workspace's configuration", () => {
  it("[Q-26] can enable skills and select aliases", async () => {
    const { settings, codes } = await settingsOf({
      ...workspace('[skills.a]\nenabled = false\nmodel = "fast"\n'),
      ...user('[skills.a]\nmodel = "slow"\nKEY = "k"\n'),
    });
    expect(codes).toEqual([]);
    expect(settings.skills.get("a")).toMatchObject({ enabled: false, model: "fast" });
    expect(settings.skills.get("a")?.variables.get("KEY")).toBe("k");
  });

  it("[Q-26] can reduce the size of the listing for a model, but not increase it", async () => {
    const { settings, codes } = await settingsOf({
      ...workspace('[disclosure]\nmax_skills = 50\nbudget = 500\nshortlist = true\nlist_intents = ["zeig alles"]\n'),
      ...user("[disclosure]\nmax_skills = 2\nbudget = 9000\n"),
    });
    expect(codes).toEqual([]);
    expect(settings.disclosure).toEqual({ maxSkills: 2, budget: 500, shortlist: true, listIntents: ["zeig alles"] });
    const alone = await settingsOf(workspace("[disclosure]\nmax_skills = 50\nbudget = 1000000\n"));
    expect(alone.settings.disclosure, "the defaults apply").toEqual({});
    expect(alone.overruled.map(({ value, line }) => [value, line])).toEqual([
      [50, 2],
      [1_000_000, 3],
    ]);
  });

  it("cannot set an invalid number for the disclosure", async () => {
    const { settings, diagnostics } = await settingsOf(user('[disclosure]\nmax_skills = "3"\nbudget = -1\n'));
    expect(diagnostics).toMatchObject([
      { code: "config-type", line: 2, message: '"disclosure.max_skills" must be a whole number' },
      { code: "config-type", line: 3 },
    ]);
    expect(settings.disclosure).toEqual({});
  });

  it("[Q-26] cannot flood the user with reports of many keys", async () => {
    const keys = Array.from({ length: 40_000 }, (_, index) => `enabld${index} = true\n`).join("");
    const skills = Array.from({ length: 10_000 }, (_, index) => `[skills.s${index}]\nenabled = true\n`).join("");
    const { diagnostics, settings, found } = await settingsOf(workspace(`[skills.a]\n${keys}${skills}`));
    expect(findUndeclaredSettings(found)).toHaveLength(100);
    expect(diagnostics).toHaveLength(101);
    expect(diagnostics.at(-1)?.message).toBe("has 39,900 more unknown keys");
    expect(settings.skills.size, "allowed keys count nonetheless").toBe(10_000);
    const roots = [2500, 5000, 10_000].map((length) => {
      const lines = (lineOf: (index: number) => string) => Array.from({ length }, (_, index) => lineOf(index)).join("");
      const text = `${lines((index) => `enabld${index} = true\n`)}${lines((index) => `[skills.s${index}]\nenabled = true\n`)}`;
      return temporaryFolder(workspace(`[skills.a]\n${text}`));
    });
    await expectLinearSteps(
      ["src/config/discover.ts"],
      async ({ discover, findUndeclaredSettings }: typeof import("../../src/config/discover.ts"), root: string) => {
        const env = { HOME: `${root}/home`, SKILLS_DIR: `${root}/shipped` };
        findUndeclaredSettings(await discover({ workspace: `${root}/project`, env, index: false }));
      },
      [["keys", roots]],
    );
  });

  it("[Q-26] gets a suggestion for a misspelled key that it may set, rather than a refusal", async () => {
    const { diagnostics } = await settingsOf(workspace("[skills.a]\nenabld = false\n"));
    expect(diagnostics).toMatchObject([{ code: "config-unknown", line: 2, meant: "skills.a.enabled" }]);
  });

  it("[Q-26] cannot enable what the user disabled", async () => {
    const { settings } = await settingsOf({
      ...workspace("[skills.a]\nenabled = true\n"),
      ...user("[skills.a]\nenabled = false\n"),
    });
    expect(settings.skills.get("a")?.enabled).toBe(false);
  });

  it("[Q-26] can lower the limits of runs, and not raise them", async () => {
    const all = (number: number) =>
      `[limits]\nmax_iterations = ${number}\niteration_cap = ${number}\ntimeout_seconds = ${number}\nnesting = ${number}\ntokens = ${number}\ntool_output = ${number}\n`;
    const lower = { iterations: 2, iterationCap: 2, seconds: 2, nesting: 2, tokens: 2, toolOutput: 2 };
    expect((await settingsOf(workspace(all(2)))).settings.limits).toMatchObject(lower);
    const more = await settingsOf({ ...workspace(all(99_999)), ...user("[limits]\ntokens = 70\nnesting = 5\n") });
    expect(more.codes).toEqual([]);
    expect(more.settings.limits).toEqual({ ...DEFAULT_SETTINGS.limits, tokens: 70, nesting: 5 });
    expect(more.overruled).toHaveLength(6);
  });

  it("[Q-26][Q-04] can lower the limits of scripts, and not raise them", async () => {
    const { settings, codes } = await settingsOf({
      ...workspace("[scripts]\ntimeout_seconds = 5\noutput_bytes = 99999999\n"),
      ...user("[scripts]\narguments = 7\n"),
    });
    expect(codes).toEqual([]);
    expect(settings.scripts).toEqual({ seconds: 5, output: 1024 * 1024, arguments: 7, argumentBytes: 4096 });
  });

  it.each([
    ["a value for a variable", '[skills.a]\nAPI_KEY = "x"', 2],
    ["the users of a skill", '[skills.a]\nallow_chat_ids = ["1"]', 2],
    ["a provider", '[skills.a.capability_provider]\ncommand = ["evil"]', 2],
    ["a provider of a namespace", '[capabilities.providers.mail]\ncommand = ["evil"]', 2],
    ["an endpoint", '[models.fast]\nbase_url = "http://evil"', 2],
    ["a key", '[models.fast]\napi_key = "x"', 2],
    ["a model", '[models.fast]\nmodel = "x"', 2],
    ["a price", "[prices.x]\ninput = 0", 2],
    ["the available tools", '[tools]\ndisabled = ["bash"]', 2],
    ["whether commands in instructions are run", "[tools]\ndynamic_commands = true", 2],
    ["the same for one skill", "[skills.a]\ndynamic_commands = true", 2],
    ["a model of a provider for a skill", '[skills.a]\nmodel = "evil/x"', 2],
    ["anything of the defaults", "[skills.defaults]\nenabled = false", 2],
    ["a tool server", '[tools.mcp.x]\ncommand = ["evil"]', 2],
    ["the address of a tool server", '[tools.mcp.x]\nurl = "http://evil"', 2],
    ["the environment of a tool server", '[tools.mcp.x.env]\nNODE_OPTIONS = "--import evil"', 2],
    ["its tools without approval", '[tools.mcp.x]\nauto_approve = ["send"]', 2],
    ["whether it is enabled", "[tools.mcp.x]\nenabled = true", 2],
    ["the network", '\n\n[sandbox]\nnetwork = ["evil:1"]', 4],
    ["the sandbox", '[sandbox]\nlevel = "none"', 2],
    ["the sandbox engine", '[sandbox]\nengine = "docker"\n', 2],
    ["the image of a container", '[sandbox]\nimage = "evil"\n', 2],
    ["more memory", "[sandbox]\nmemory_mib = 100000\n", 2],
    ["a skill's allowed hosts", '[skills.a]\nnetwork = ["evil:1"]', 2],
    ["a skill's writable paths", '[skills.a]\nworkspace = "read-write"', 2],
    ["a folder of skills", '[sources.x]\npath = "/"', 2],
    ["a dotted key", 'skills.a."API_KEY" = "x"', 1],
    ["an inline table", 'skills = { a = { API_KEY = "x" } }', 1],
  ])("[Q-26] cannot set %s: refused with file and line", async (_, text, line) => {
    const { settings, diagnostics, root } = await settingsOf(workspace(`${text}\n`));
    expect(diagnostics).toMatchObject([
      { code: "config-refused", severity: "error", line, file: join(root, "project/.skillet/config.toml") },
    ]);
    expect(settings).toEqual(DEFAULT_SETTINGS);
  });
});

describe("enabled", () => {
  it("[T-15] excludes a bundled skill with default_enabled: false until it is enabled; other skills are enabled", async () => {
    const root = temporaryFolder({
      "shipped/off/SKILL.md": skillText("off", { more: "default_enabled: false\n" }),
      "project/skills/own/SKILL.md": skillText("own", { more: "default_enabled: false\n" }),
    });
    const env = { HOME: join(root, "home"), SKILLS_DIR: join(root, "shipped") };
    const find = async () => {
      const found = await discover({ workspace: join(root, "project"), env, index: false });
      return found.catalog.available((skill) => findDenials(skill, found)[0]).map(({ name }) => name);
    };
    expect(await find()).toEqual(["own"]);
    writeFiles(root, { "home/.skillet/config.toml": "[skills.off]\nenabled = true\n[skills.own]\nenabled = false\n" });
    expect(await find()).toEqual(["off"]);
  });

  it("[S-29] removes unavailable skills from the available ones, but not from the names", async () => {
    const { found } = await settingsOf({
      ...user("[skills.a]\nenabled = false\n"),
      "project/skills/a/SKILL.md": skillText("a"),
      "project/skills/b/SKILL.md": skillText("b"),
    });
    const available = found.catalog.available((skill) => findDenials(skill, found)[0]);
    expect(found.catalog.names()).toEqual(expect.arrayContaining(["a", "b"]));
    expect(available.filter(isOwn).map(({ name }) => name)).toEqual(["b"]);
    expect(findDenials(found.catalog.get("a"), found)).toMatchObject([
      { code: "disabled", kind: "access", commands: [expect.stringContaining("skillet enable a")] },
    ]);
  });

  it("hides lower copies of a disabled winner: the meaning of a name does not depend on missing skills", async () => {
    const { found } = await settingsOf({
      ...user("[skills.a]\nenabled = false\n"),
      "home/.skillet/skills/a/SKILL.md": skillText("a", { description: "far" }),
      "project/skills/a/SKILL.md": skillText("a", { description: "near" }),
    });
    expect(found.catalog.available((skill) => findDenials(skill, found)[0]).filter(isOwn)).toEqual([]);
  });
});
