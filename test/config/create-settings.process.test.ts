import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findDenials, skillResult } from "../../src/agent/index.ts";
import { planUse } from "../../src/agent/run/plan-use.ts";
import { runScript } from "../../src/agent/run/run-script.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { CONFIG_KEYS, type ConfigKey } from "../../src/config/config-keys.ts";
import { discover } from "../../src/config/discover.ts";
import { DEFAULT_SETTINGS, loadSettings } from "../../src/config/settings.ts";
import { createSettings, type SettingsInput } from "../../src/config/settings-schema.ts";
import { useSkill } from "../../src/index.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { createCatalogOf } from "../support/skills.ts";

/** A value of each type of the configuration. */
const SAMPLES: Readonly<Record<ConfigKey["type"], unknown>> = {
  text: "some",
  path: "/etc/file",
  address: "https://example.com",
  database: "env:DATABASE_URL",
  reference: "env:SKILLET_SEAL_KEY",
  alias: "fast",
  access: "read",
  mode: "static",
  engine: "podman",
  level: "partial",
  provider: "openai",
  search: "brave",
  flag: true,
  number: 3,
  size: 4,
  patience: 5,
  price: 1.5,
  date: "2026-11-19",
  texts: ["a", "b"],
  command: ["prog", "arg"],
  capabilities: ["gog.email"],
  namespace: "gog",
  endpoints: ["api.example.com:443"],
  systemPackages: ["poppler-utils"],
  pythonPackages: ["pypdf>=5"],
  npmPackages: ["docx@^9"],
};

/** Every key with its type: a program cannot set a key that is missing here. */
const EVERY = {
  skills: {
    x: {
      ...{ enabled: true, model: "some", allowChatIds: ["a"], env: { KEY: "some" }, network: [], workspace: "read" },
      ...{ dynamicCommands: true, capabilities: [], python: ["pypdf"], npm: ["docx"], packages: ["poppler-utils"] },
      limits: { cost: { run: 1.5, day: 2, month: 3 } },
      capabilityProvider: { enabled: true, namespace: "gog", command: ["a"], timeoutSeconds: 5 },
    },
    defaults: { allowChatIds: ["a"] },
  },
  sources: { x: { path: "/a", recursive: true } },
  models: {
    x: {
      ...{ provider: "openai", model: "m", baseUrl: "https://example.com", apiKey: "env:K" },
      ...{ timeoutSeconds: 1, retries: 1, requestsPerMinute: 1, tokensPerMinute: 1, maxTokens: 1, contextWindow: 1 },
    },
  },
  prices: { x: { input: 1, output: 1, cached: 1, date: "2026-11-19" } },
  tools: {
    disabled: [],
    dynamicCommands: true,
    webSearch: { provider: "brave", url: "https://example.com", apiKey: "env:K", results: 3 },
    mcp: {
      x: {
        ...{ command: ["a"], url: "https://example.com", env: { KEY: "v" }, token: "env:T", timeoutSeconds: 1 },
        ...{ enabled: true, tools: [], skills: true, autoApprove: [] },
      },
    },
  },
  mcp: { useClientKey: true },
  server: {
    ...{ publicUrl: "https://example.com/mcp", trustedProxies: [] },
    oauth: {
      ...{ issuer: "https://example.com", audience: "a", jwksUrl: "https://example.com/jwks", algorithms: ["RS256"] },
      ...{ userClaim: "sub", tenantClaim: "org", scopePrefix: "skillet:" },
    },
    people: {
      x: {
        ...{
          enabled: true,
          tenant: "t",
          workspace: "/w",
          chatType: "private",
          chatId: "c",
          skills: [],
          capabilities: [],
        },
        ...{ variables: { x: { KEY: "v" } }, limits: { cost: { run: 1.5, day: 2, month: 3 } } },
      },
    },
    tenants: { x: { limits: { cost: { run: 1.5, day: 2, month: 3 } }, concurrency: 2, callsPerMinute: 3 } },
  },
  limits: {
    ...{ maxIterations: 1, iterationCap: 1, timeoutSeconds: 1, nesting: 1, tokens: 1 },
    ...{ toolTimeoutSeconds: 1, toolOutput: 1, cost: { run: 1.5, day: 2, month: 3 } },
  },
  runs: { keepDays: 1, keep: 1 },
  engine: {
    url: "env:E",
    sealKey: "env:K",
    slots: 1,
    tenantSlots: 1,
    leaseSeconds: 1,
    outageSeconds: 1,
    drainSeconds: 1,
    attempts: 1,
  },
  docs: { url: "https://docs.example.com" },
  disclosure: { mode: "static", maxSkills: 1, budget: 1, listingBudget: 1, listIntents: [], shortlist: true },
  sandbox: {
    ...{ level: "partial", engine: "podman", image: "i", program: "/p", network: [], pythonIndex: [] },
    ...{ workspace: "read", memoryMib: 1, processes: 1, diskMib: 1 },
  },
  scripts: { timeoutSeconds: 1, outputBytes: 1, arguments: 1, argumentBytes: 1 },
  capabilities: {
    providers: {
      x: {
        ...{ enabled: true, namespace: "gog", command: ["a"], timeoutSeconds: 5, chatTypes: [], allowChatIds: [] },
        ...{ baseUrl: "https://example.com", clientId: "c", env: { KEY: "v" } },
      },
    },
    ...{ callsPerRun: 1, changesPerRun: 1, vaultPassphraseFile: "/p" },
  },
} satisfies SettingsInput;

const camel = (part: string) => part.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** The path of a key in the object: `skills.x.env.KEY`. */
function pathOf({ path }: ConfigKey): string[] {
  const parts = path.split(".").map((part) => (part === "*" ? "x" : part === "UPPER_CASE" ? "KEY" : camel(part)));
  return parts[0] === "skills" && parts.at(-1) === "KEY" ? [...parts.slice(0, -1), "env", "KEY"] : parts;
}

function leafPaths(value: object, above: readonly string[] = []): string[] {
  return Object.entries(value).flatMap(([key, inner]) =>
    inner !== null && typeof inner === "object" && !Array.isArray(inner)
      ? leafPaths(inner, [...above, key])
      : [[...above, key].join(".")],
  );
}

async function fromToml(text: string) {
  const home = temporaryFolder({ "config.toml": text });
  return loadSettings({ workspace: join(home, "none"), home, skilletHome: home, env: {} });
}

describe("createSettings", () => {
  it.each(CONFIG_KEYS.map((key) => [key.path, key] as const))(
    "[S-40] accepts %s as config.toml does",
    async (path, key) => {
      const value = SAMPLES[key.type];
      const input = pathOf(key).reduceRight<unknown>((inner, part) => ({ [part]: inner }), value) as SettingsInput;
      const toml = path.replaceAll("*", "x").replace("UPPER_CASE", "KEY");
      const { settings, diagnostics } = await fromToml(`${toml} = ${JSON.stringify(value)}\n`);
      expect(diagnostics.filter(({ code }) => code === "config-unknown" || code === "config-type")).toEqual([]);
      if (path.startsWith("sources.")) return; // A folder without a path is invalid.
      expect(settings).not.toEqual(DEFAULT_SETTINGS);
      expect(createSettings(input)).toEqual(settings);
    },
  );

  it("[S-40] has a type for every key", () => {
    expect(leafPaths(EVERY).sort()).toEqual(CONFIG_KEYS.map((key) => pathOf(key).join(".")).sort());
    expect(() => createSettings(EVERY)).not.toThrow();
  });

  it("[S-40] names every unusable key, as the program wrote it", () => {
    const input = { skills: { research: { allowChatIds: "12345", enabld: true, env: { lower: "x" } } }, nosuch: 1 };
    expect(() => createSettings(input as never)).toThrow(
      expect.objectContaining({
        code: "settings-invalid",
        message: expect.stringMatching(
          /"skills\.research\.allowChatIds" must be a list of strings.*\n.*"skills\.research\.enabld" is not a known key; did you mean skills\.research\.enabled\?\n.*lower.*\n.*"nosuch"/s,
        ),
      }),
    );
  });

  it("[S-40] keeps names unchanged, omits undefined values, and takes no inherited key", () => {
    const models = { gptMini: { provider: "openai", model: "m" } } as const;
    const settings = createSettings({ models, skills: { a: { enabled: undefined as never } } });
    expect([...settings.models.keys()]).toEqual(["gptMini"]);
    expect(settings.skills.size).toBe(0);
    expect(
      createSettings(JSON.parse('{"skills":{"__proto__":{"enabled":false}}}')).skills.get("__proto__"),
    ).toMatchObject({ enabled: false });
  });
});

const CATALOG = () =>
  createCatalogOf({ research: { more: { env: ["KEY"] } }, off: {}, open: {}, private: { more: { sensitive: true } } });

describe("a host with settings of a program", () => {
  it("[S-40] gives a skill its values, disables one and restricts one to some chats", async () => {
    const catalog = await CATALOG();
    const settings = createSettings({
      skills: {
        research: { env: { KEY: "v" }, allowChatIds: ["12345"] },
        off: { enabled: false },
      },
    });
    const codes = (name: string, chatId = "12345") =>
      findDenials(catalog.get(name), { settings, caller: { chatType: "private", chatId } }, "use").map(
        ({ code }) => code,
      );
    expect(codes("research")).toEqual([]);
    expect(codes("research", "9")).toEqual(["chat-id"]);
    expect(codes("off")).toEqual(["disabled"]);
    expect(findDenials(catalog.get("research"), {}, "use").map(({ code }) => code)).toEqual(["missing-variable"]);
    expect(settings.skills.get("research")?.variables).toEqual(new Map([["KEY", "v"]]));
  });

  it("[S-40] completes partial settings, also live ones, once", async () => {
    const catalog = await CATALOG();
    const settings = { skills: new Map([["off", { enabled: false }]]), limits: { toolOutput: 10 } };
    const session = openSession(catalog, { settings });
    expect(session.listVisible().map(({ name }) => name)).toEqual(["open", "research"]);
    for (const host of [{}, undefined, { settings: {} }, { settings: { skills: new Map() } }])
      expect(openSession(catalog, host).listVisible()).toHaveLength(3);
  });

  it.each([
    ["null", null, /The host must be an object/],
    ["settings as plain objects", { settings: { skills: { a: {} } } }, /host\.settings\.skills must be a Map/],
    ["settings that are text", { settings: "x" }, /host\.settings must be an object/],
    ["limits that are a number", { settings: { limits: 3 } }, /host\.settings\.limits must be an object/],
    ["tools that are not an array", { tools: {} }, /host\.tools must be an array/],
    ["a tool that is a number", { tools: [5] }, /host\.tools\[0\] must be a tool/],
    ["an invalid event listener", { onEvent: "x" }, /host\.onEvent must be a function/],
  ])("[S-40] resolves a use, a plan and a script with a problem for %s, and never throws", async (_, host, message) => {
    const catalog = await CATALOG();
    const result = await useSkill(catalog, host as never, { skill: "open", message: "Go." });
    expect(result).toMatchObject({
      ...{ isError: true, stop: "refused", iterations: 0 },
      refusals: [{ code: "host-invalid", message: expect.stringMatching(message), fix: expect.stringMatching(/\S/) }],
    });
    expect(Object.keys(result).sort()).toEqual(Object.keys(skillResult.error("")).sort());
    const plan = await planUse(catalog, host as never, { skill: "open" });
    expect(plan.checks).toMatchObject([{ name: "host", refusals: [{ code: "host-invalid" }] }]);
    const script = await runScript(host as never, { skill: catalog.get("open"), script: "a.sh" });
    expect(script.refusals).toMatchObject([{ code: "host-invalid" }]);
    expect(() => openSession(catalog, host as never)).toThrow(expect.objectContaining({ code: "host-invalid" }));
  });

  it.each([
    ["nothing", undefined],
    ["a host", { tools: [5] }],
    ["the result of discover()", { catalog: {} }],
  ])("[S-40] throws at once if a session is opened with %s in place of a catalog", (_, value) => {
    expect(() => openSession(value as never)).toThrow(
      expect.objectContaining({ code: "catalog-invalid", fix: expect.stringContaining("discover()") }),
    );
  });

  it("[S-40] resolves a use even if a plausible part fails", async () => {
    const catalog = await CATALOG();
    const broken = { runs: { begin: () => raise("no disk") }, models: { default: {} } };
    const result = await useSkill(catalog, broken as never, { skill: "open", message: "Go." });
    expect(result).toMatchObject({ isError: true });
    const settings = { skills: new Map([["open", { variables: 3 }]]) };
    expect(await useSkill(catalog, { settings } as never, { skill: "open" })).toMatchObject({ isError: true });
  });

  it("[S-40] discovers with settings in place of the configuration files", async () => {
    const root = temporaryFolder({
      "home/.skillet/config.toml": "[skills.mine]\nenabled = false\n",
      "home/.skillet/skills/mine/SKILL.md": skillText("mine"),
      "more/other/SKILL.md": skillText("other"),
    });
    const settings = createSettings({ sources: { more: { path: join(root, "more") } } });
    const options = { workspace: join(root, "project"), env: { HOME: join(root, "home") }, index: false };
    const found = await discover({ ...options, settings });
    expect(found.settings).toBe(settings);
    expect(findDenials(found.catalog.get("mine"), found)).toEqual([]);
    expect(found.catalog.get("other").origin.source).toBe("more");
    const files = await discover(options);
    expect(findDenials(files.catalog.get("mine"), files)).toMatchObject([{ code: "disabled" }]);
  });
});

function raise(message: string): never {
  throw new Error(message);
}
