import { describe, expect, it } from "vitest";
import { canProvideTool, findDenials, findUnavailability } from "../../src/agent/policy/skill-policies.ts";
import { createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import { createSystemInfo, type Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { formatFix } from "../../src/errors/problem.ts";
import { createNoSandbox } from "../../src/sandbox/create-sandbox.ts";
import { listDeclaredVariables } from "../../src/skill/skill.ts";
import { createTool } from "../../src/skill/tool.ts";
import { skillet } from "../support/command.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createIdleProvider } from "../support/provider.ts";
import { defineTestSkill } from "../support/skills.ts";

const HOST: Host = { settings: DEFAULT_SETTINGS };
const looking = (name: string) =>
  createTool({ name, description: "Looks.", category: "own", parameters: {} }, async () => ({
    text: "",
    isError: false,
  }));

describe("required tools", () => {
  const needing = (...tools: string[]) => defineTestSkill("x", { more: { required_tools: tools } });

  it("[W-10][W-23] are all checked before a use, each with the skill's own name for it", () => {
    const skill = needing("bash", "teleport", "Levitate(high)");
    expect(findDenials(skill, HOST, "use")).toMatchObject([
      { code: "missing-tool", kind: "setup", message: "Skill requires tool 'teleport' which is not available" },
      { code: "missing-tool", kind: "setup", message: "Skill requires tool 'Levitate(high)' which is not available" },
    ]);
    expect(findDenials(skill, HOST, "load"), "its text can be read").toEqual([]);
    expect(findDenials(skill, HOST, "run"), "its scripts call no tools").toEqual([]);
    expect(
      findDenials(
        needing("teleport", "levitate"),
        { ...HOST, tools: [looking("teleport"), looking("levitate")] },
        "use",
      ),
    ).toEqual([]);
  });

  it("[W-10] are known by the names that other clients use", () => {
    for (const name of ["Bash", "Bash(git:*)", "Read", "Write", "Edit", "Glob", "Grep", "bash", "use_skill", "*"])
      expect(canProvideTool(name, HOST, needing(name)), name).toBe(true);
    expect(canProvideTool("WebSearch", HOST, needing("WebSearch"))).toBe(false);
  });

  it("[W-10] include built-in tools only if the host offers them and they are not disabled", () => {
    const off: Host = { settings: { ...DEFAULT_SETTINGS, tools: { disabled: ["Bash"], dynamicCommands: false } } };
    expect(findDenials(needing("bash"), off, "use")).toMatchObject([
      { code: "missing-tool", fix: "remove it from disabled under [tools] in config.toml" },
    ]);
    expect(canProvideTool("grep", off, needing("grep"))).toBe(true);
    expect(canProvideTool("grep", { ...HOST, hasBuiltInTools: false }, needing("grep"))).toBe(false);
    expect(canProvideTool("grep", { ...HOST, hasBuiltInTools: false, tools: [looking("grep")] }, needing("grep"))).toBe(
      true,
    );
    expect(
      canProvideTool("bash", { ...off, tools: [looking("bash")] }, needing("bash")),
      "it is granted to no caller",
    ).toBe(false);
  });

  it("[W-10] include web tools only if a host is reachable", () => {
    const skill = needing("WebFetch");
    expect(findDenials(skill, HOST, "use")).toMatchObject([
      { code: "missing-tool", fix: expect.stringContaining("network = [") },
    ]);
    const network = ["api.example.com:443"];
    const granted = new Map([["x", { network, variables: new Map() }]]);
    expect(findDenials(skill, { settings: { ...DEFAULT_SETTINGS, skills: granted } }, "use")).toEqual([]);
    const forAll = { ...DEFAULT_SETTINGS, sandbox: { ...DEFAULT_SETTINGS.sandbox, network } };
    expect(findDenials(skill, { settings: forAll }, "use")).toEqual([]);
  });

  it("[W-10] can belong to an MCP server, as far as its configuration allows", () => {
    const env = new Map<string, string>();
    const host = (mcp: Record<string, object>): Host => ({
      settings: {
        ...DEFAULT_SETTINGS,
        mcp: new Map(Object.entries(mcp).map(([name, one]) => [name, { env, ...one }])),
      },
    });
    const has = (name: string, mcp: Record<string, object>) => canProvideTool(name, host(mcp), needing(name));
    expect(has("teleport", { star: {} }), "the run itself checks").toBe(true);
    expect(has("teleport", { star: { tools: ["teleport"] } })).toBe(true);
    expect(has("teleport", { star: { tools: ["levitate"] } })).toBe(false);
    expect(has("teleport", { star: { enabled: false } })).toBe(false);
    expect(has("star.teleport", { star: {} })).toBe(true);
    expect(has("star.teleport", { other: {} })).toBe(false);
    expect(has("star.*", { star: { tools: ["levitate"] } })).toBe(true);
    expect(has("mcp__star__teleport", { star: {} })).toBe(true);
    expect(has("WebFetch", { star: {} }), "a built-in one has its own requirements").toBe(false);
    expect(has("WebFetch", { star: { tools: ["web_fetch"] } })).toBe(true);
    expect(findDenials(needing("teleport"), HOST, "use")).toMatchObject([
      { code: "missing-tool", fix: expect.stringContaining("[tools.mcp.NAME]") },
    ]);
  });

  it("[S-34] that are missing make a skill unavailable, with the reason in `list --all`", async () => {
    const HOME = temporaryFolder({
      ".skillet/skills/odd/SKILL.md": skillText("odd", { more: "required-tools: [teleport]\n" }),
    });
    expect((await skillet(["list"], { env: { HOME } })).stdout).not.toMatch(/^odd /m);
    expect((await skillet(["list", "--all"], { env: { HOME } })).stdout).toContain(
      "odd  Skill requires tool 'teleport' which is not available",
    );
  });
});

describe("capabilities", () => {
  const skill = defineTestSkill("mailer", { more: { capabilities: ["gog.email", "gog.calendar", "acme.fax"] } });

  it("[S-23] without a provider stop a use and a run, all in one message, with the tables to configure", () => {
    for (const purpose of ["run", "use"] as const) {
      const [denial, ...more] = findDenials(skill, HOST, purpose);
      expect(more).toEqual([]);
      expect(denial).toMatchObject({
        code: "capability-unavailable",
        kind: "setup",
        message:
          "Skill 'mailer' needs the capabilities gog.email, gog.calendar, acme.fax, which has no configured provider",
      });
      for (const table of [
        "[capabilities.providers.gog]",
        "[capabilities.providers.acme]",
        "[skills.mailer.capability_provider]",
      ])
        expect(denial?.fix).toContain(table);
    }
    expect(findDenials(skill, HOST, "load"), "its text can be read").toEqual([]);
    expect(findUnavailability(skill, HOST), "it is listed: the user can set it up").toBeUndefined();
  });

  it("[S-23] are checked for the caller, and only those missing for this caller are reported", () => {
    const seen: unknown[] = [];
    const caller = { userId: "u", chatType: "private" };
    const isVisible = (id: string, whose: unknown) => {
      seen.push(whose);
      return id !== "acme.fax";
    };
    const providers = ["gog", "acme"].map(createIdleProvider);
    const isGranted = () => true;
    const capabilities = createCapabilities({ providers, isVisible, isGranted });
    expect(findDenials(skill, { ...HOST, caller, capabilities }, "use")).toMatchObject([
      {
        code: "capability-unavailable",
        message: expect.stringContaining("the capability acme.fax, which is not available"),
      },
    ]);
    expect(seen).toEqual([caller, caller, caller]);
    const all = createCapabilities({ providers, isVisible: () => true, isGranted });
    expect(findDenials(skill, { ...HOST, capabilities: all }, "use")).toEqual([]);
  });

  it("[S-23] are available in private chats only, unless the operator lists others, and never without a known chat", () => {
    const settings = { ...DEFAULT_SETTINGS, providers: new Map([["acme", { command: ["x"], chatTypes: ["group"] }]]) };
    const { isVisible } = createCapabilities({
      settings,
      providers: [createIdleProvider("gog")],
      env: {},
      home: "/nonexistent",
    });
    expect(isVisible("gog.email", { chatType: "private" })).toBe(true);
    for (const caller of [undefined, {}, { userId: "u" }, { chatType: "group" }])
      expect(isVisible("gog.email", caller)).toBe(false);
    expect(isVisible("acme.fax", { chatType: "group" })).toBe(true);
    expect(isVisible("acme.fax", { chatType: "private" })).toBe(false);
    expect(isVisible("other.thing", { chatType: "private" })).toBe(false);
  });

  it("[S-21] are not served when the operator disabled their provider, even if the skill has its own table", () => {
    const own = { variables: new Map(), provider: { namespace: "gog", command: ["x"] } };
    const settings = { ...DEFAULT_SETTINGS, skills: new Map([["mailer", own]]) };
    const off = { ...settings, providers: new Map([["gog", { enabled: false }]]) };
    const open = (said: typeof settings) => createCapabilities({ settings: said, env: {}, home: "/nonexistent" });
    expect(open(settings).findProvider("gog.email", skill)).toBeDefined();
    expect(open(off).findProvider("gog.email", skill)).toBeUndefined();
  });

  it("[Q-19] that the operator has not granted stop the skill, with the command that grants them", () => {
    const providers = ["gog", "acme"].map(createIdleProvider);
    const skills = new Map([["mailer", { variables: new Map(), capabilities: ["gog.*"] }]]);
    const settings = { ...DEFAULT_SETTINGS, skills };
    const capabilities = createCapabilities({ settings, providers, env: {}, home: "/nonexistent" });
    const host = { ...HOST, settings, caller: { chatType: "private" }, capabilities };
    expect(findDenials(skill, host, "use")).toEqual([
      {
        code: "capability-not-granted",
        kind: "setup",
        message: "Skill 'mailer' was not granted the capability acme.fax",
        fix: "review what it does, then grant it",
        commands: ["skillet show mailer", "skillet capability grant mailer acme.fax"],
      },
    ]);
    expect(capabilities.isGranted("gogx.email", skill), "a namespace is not a prefix").toBe(false);
    expect(capabilities.isGranted("gog.email.evil", skill), "what the namespace provides is granted").toBe(true);
  });
});

describe("requirements in the syntax of other clients", () => {
  const system = createSystemInfo(DEFAULT_SETTINGS.sandbox);
  const host: Host = { settings: DEFAULT_SETTINGS, system };
  const openclaw = (requires: unknown) => defineTestSkill("x", { more: { metadata: { openclaw: { requires } } } });

  it("[X-05] can be programs on this machine, with a hint to install a missing one", () => {
    const skill = openclaw({ bins: ["sh", "no-such-program", "nor-this"], anyBins: ["neither", "nor"] });
    for (const purpose of ["run", "use"] as const) {
      expect(findDenials(skill, host, purpose)).toMatchObject([
        {
          code: "missing-program",
          kind: "setup",
          message: "Skill 'x' needs no-such-program, nor-this, which are not installed",
          fix: "install no-such-program, nor-this, or add the Debian package",
          commands: ["skillet config set skills.x.packages PACKAGE"],
        },
        { code: "missing-program", message: "Skill 'x' needs one of neither, nor, which are not installed" },
      ]);
    }
    expect(findDenials(skill, host, "load")).toEqual([]);
    expect(findUnavailability(skill, host), "it is listed: it can be installed").toBeUndefined();
    expect(findDenials(openclaw({ bins: "sh", anyBins: ["nothing", "ls"] }), host, "run")).toEqual([]);
    const plain = defineTestSkill("x", { more: { metadata: { requires: { bins: "no-such-program" } } } });
    expect(findDenials(plain, host, "run")).toMatchObject([
      {
        fix: "install no-such-program, or add the Debian package",
        commands: ["skillet config set skills.x.packages PACKAGE"],
      },
    ]);
  });

  it("[X-05] are not checked when a sandbox has its own programs, or packages provide them", () => {
    const skill = openclaw({ bins: ["no-such-program"] });
    expect(findDenials(skill, { ...host, sandbox: createNoSandbox() }, "run")).toEqual([]);
    expect(findDenials(skill, { ...host, system: { ...system, programs: "own" } }, "run")).toEqual([]);
    expect(findDenials(skill, HOST, "run")).toEqual([]);
    const brings = defineTestSkill("x", {
      more: { packages: ["jq"], metadata: { requires: { bins: ["no-such-program"] } } },
    });
    const debian = { ...system, missingEngine: () => undefined, hasPackages: () => true };
    expect(findDenials(brings, { ...host, system: debian }, "run")).toEqual([]);
    expect(findDenials(openclaw({ bins: ["node", "uv", "uvx"] }), host, "run"), "a sandbox has them").toEqual([]);
  });

  it("[X-05] can be variables, together with those under `env`, each once", () => {
    const skill = defineTestSkill("x", {
      more: {
        env: ["A", "B"],
        metadata: { requires: { env: ["B", "C"] }, openclaw: { requires: { env: "D", bins: [] } } },
      },
    });
    expect(listDeclaredVariables(skill)).toEqual(["A", "B", "C", "D"]);
    expect(findDenials(skill, HOST, "use")).toMatchObject([
      { code: "missing-variable", message: "Skill 'x' needs A, B, C, D", fix: expect.stringContaining('  D = "…"') },
    ]);
  });

  it("[S-06] name the command that sets each variable, then key, section and file", () => {
    const fixOf = (name: string, more: Partial<Host> = {}) =>
      formatFix(
        findDenials(defineTestSkill(name, { more: { env: ["A", "B"] } }), { ...HOST, ...more }, "use")[0] ?? {},
      );
    const said = `run: skillet config set skills.x.A; skillet config set skills.x.B
or add to ~/.skillet/config.toml:
  [skills.x]
  A = "…"
  B = "…"`;
    expect(fixOf("x")).toBe(said);
    expect(fixOf("x", { home: "/home/me/.skillet", env: { HOME: "/home/me" } })).toBe(said);
    expect(fixOf("x", { home: "/srv/skillet", env: { HOME: "/home/me" } })).toContain("to /srv/skillet/config.toml:");
  });

  it("[X-05] can be operating systems", () => {
    const denial = findUnavailability(openclaw({ os: ["macos"] }), {
      ...host,
      system: { ...system, platform: "linux" },
    });
    expect(denial).toMatchObject({ code: "unsupported-os", message: "Skill 'x' is for darwin, not for linux" });
    expect(
      findUnavailability(openclaw({ os: "macos" }), { ...host, system: { ...system, platform: "darwin" } }),
    ).toBeUndefined();
  });

  it.each([
    ["numbers", { bins: [1, null, { a: 1 }], env: 5, os: { x: 1 }, anyBins: true }],
    ["paths and options", { bins: ["../sh", "/bin/sh", "-rf", "a b", ""].slice(0, 2), env: ["A=B", "1X", ""] }],
    ["variables that steer programs", { env: ["PATH", "LD_PRELOAD", "NODE_OPTIONS"] }],
    ["a text", "everything"],
    ["a list", ["bins"]],
    ["names of objects' own", { ["__proto__"]: { bins: ["x"] }, constructor: { bins: ["x"] } }],
  ])("[X-05] are ignored when they are %s", (_, requires) => {
    expect(findDenials(openclaw(requires), host, "use")).toEqual([]);
    expect(listDeclaredVariables(openclaw(requires))).toEqual([]);
  });

  it("[X-05] apply to skills in files even if nothing else is required", async () => {
    const found = await discoverIn({
      "home/.skillet/skills/a/SKILL.md": skillText("a", {
        more: 'metadata: {"openclaw": {"requires": {"bins": ["no-such-program"], "env": ["SOME_KEY"]}}}\n',
      }),
    });
    expect(findDenials(found.skill("a"), found, "run").map(({ code }) => code)).toEqual([
      "missing-program",
      "missing-variable",
    ]);
  });
});

describe("a skill without requirements", () => {
  it.each([
    ["sensitive: true", "chat-type"],
    ["access:\n  chat_types: [group]", "chat-type"],
    ["required_tools: [teleport]", "missing-tool"],
    ["required-tools: [teleport]", "missing-tool"],
    ["capabilities: [a.b]", "capability-unavailable"],
    ["env: [KEY]", "missing-variable"],
    ["metadata:\n  requires:\n    env: [KEY]", "missing-variable"],
    ["metadata:\n  openclaw:\n    os: [plan9]", "unsupported-os"],
  ])("is distinguished from one with %s without parsing its manifest", async (more, code) => {
    const found = await discoverIn({
      "home/.skillet/skills/asks/SKILL.md": skillText("asks", { more: `${more}\n` }),
      "home/.skillet/skills/plain/SKILL.md": skillText("plain", {
        body: `"env": ["packages"]`,
        more: "tags: [env, os]\n",
      }),
    });
    expect(found.skill("asks").hasRequirements?.()).toBe(true);
    expect(findDenials(found.skill("asks"), found, "use").map((denial) => denial.code)).toEqual([code]);
    expect(found.skill("plain").hasRequirements?.()).toBe(false);
    expect(findDenials(found.skill("plain"), found, "use")).toEqual([]);
  });
});
