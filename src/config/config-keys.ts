import { DISCLOSURE_DEFAULTS } from "../catalog/catalog.ts";
import type { ModelPrice, ModelSettings } from "../host/model-contract.ts";
import { DEFAULT_RUN_RETENTION, type RunRetention } from "../store/run-summary.ts";
import {
  type ConfigValues,
  getOrCreateEntry,
  KEY_TYPES,
  type ProviderValues,
  type ServerValues,
  type SkillValues,
  type WORKSPACE_RULES,
} from "./key-types.ts";
import {
  type CapabilitySettings,
  DEFAULT_CAPABILITY_SETTINGS,
  DEFAULT_RUN_LIMITS,
  DEFAULT_SANDBOX_SETTINGS,
  DEFAULT_SCRIPT_LIMITS,
  type ProviderSettings,
  type RunLimits,
  type SandboxSettings,
  type ScriptLimits,
} from "./limits.ts";
import type { DisclosureSettings, McpSettings, WebSearchSettings } from "./settings.ts";

export interface ConfigKey {
  /** `*` stands for any name, `UPPER_CASE` for a variable. */
  path: string;
  type: keyof typeof KEY_TYPES;
  means: string;
  set: SetConfigValue;
  /** What holds where nobody says anything, where that is one value everywhere. */
  default?: unknown;
  /** A workspace may set it too, by this rule. */
  workspace?: keyof typeof WORKSPACE_RULES;
  /** What a workspace may set it to, where that is less than the user may. */
  workspaceType?: keyof typeof KEY_TYPES;
  isSecret?: true;
  /** What is named by its `*` has a name of letters, digits, `-` and `_`. */
  hasPlainName?: true;
}
/** Contract: `value` is of the row's type; `parts` fit its path. */
type SetConfigValue = (values: ConfigValues, value: unknown, parts: readonly string[]) => unknown;
type KeyOptions = Omit<ConfigKey, "path" | "type" | "means" | "set">;

const MIB = 1024 * 1024;

/** The keys of the search engine behind `web_search`: rows of the table of keys. No workspace may set one. */
const SEARCH_KEYS: readonly ConfigKey[] = [
  defineSearchKey("provider", "search", "who is asked by `web_search`, which exists where this is set", "provider"),
  defineSearchKey("url", "address", "where it is asked; needed for `searxng`", "url"),
  { ...defineSearchKey("api_key", "text", 'its key, `"env:NAME"` or `"file:PATH"`', "apiKey"), isSecret: true },
  defineSearchKey("results", "size", "how many results a search gives at most; `5`", "results"),
];

/** Every key of the configuration, one row each. */
export const CONFIG_KEYS: readonly ConfigKey[] = [
  defineSkillKey("enabled", "flag", "whether the skill is there at all", "enabled", {
    workspace: "not what is switched off",
  }),
  defineSkillKey(
    "model",
    "text",
    "the model for it, in place of the skill's own choice; a workspace names an alias",
    "model",
    {
      workspace: "always",
      workspaceType: "alias",
    },
  ),
  defineSkillKey("allow_chat_ids", "texts", "the only chats that may use it; `[]` lets all", "allowChatIds"),
  defineKey(
    "skills.*.UPPER_CASE",
    "text",
    "the value of a variable that the skill declares under `env`",
    ({ skills }, value, [, name, last = ""]) => getSkillValues(skills, name).variables.set(last, String(value)),
    { isSecret: true },
  ),
  defineSkillKey(
    "network",
    "endpoints",
    "what its sandbox may reach besides, as `host:port`, or `unix:PATH` for a socket of the workspace",
    "network",
  ),
  defineSkillKey("workspace", "access", "whether its sandbox sees the workspace", "workspace"),
  defineSkillKey("python", "pythonPackages", "Python packages that its code gets besides", "python"),
  defineSkillKey("npm", "npmPackages", "npm packages that its code gets", "npm"),
  defineSkillKey(
    "packages",
    "systemPackages",
    "system packages that its code gets besides those it declares",
    "packages",
  ),
  defineSkillKey(
    "dynamic_commands",
    "flag",
    "whether commands in its instructions are run, once it is trusted",
    "dynamicCommands",
  ),
  defineSkillKey(
    "capabilities",
    "capabilities",
    "capabilities that it is given, of those that it declares",
    "capabilities",
  ),
  ...defineProviderKeys("skills.*.capability_provider", ({ skills }, [, name]) => {
    const skill = getSkillValues(skills, name);
    skill.provider ??= {};
    return skill.provider;
  }),
  defineKey(
    "skills.defaults.allow_chat_ids",
    "texts",
    "the same for every skill that has none of its own",
    ({ defaults }, allowChatIds) => Object.assign(defaults, { allowChatIds }),
    { default: [] },
  ),
  defineKey(
    "sources.*.path",
    "text",
    "a further folder of skills; `~` is your home folder",
    ({ sources }, path, [, name]) =>
      Object.assign(
        getOrCreateEntry(sources, name, () => ({})),
        { path },
      ),
  ),
  defineKey(
    "sources.*.recursive",
    "flag",
    "whether to look below folders that are no skills",
    ({ sources }, recursive, [, name]) =>
      Object.assign(
        getOrCreateEntry(sources, name, () => ({})),
        { recursive },
      ),
  ),
  defineModelKey("provider", "provider", "who has the model that this alias stands for", "provider"),
  defineModelKey("model", "text", "its name there", "model"),
  defineModelKey("base_url", "address", "where it is asked, for a server of your own", "baseUrl"),
  defineModelKey(
    "api_key",
    "text",
    'the key, `"env:NAME"` or `"file:PATH"`; without it, the variable that the provider names',
    "apiKey",
    { isSecret: true },
  ),
  defineModelKey("timeout_seconds", "size", "how long one answer may take", "seconds"),
  defineModelKey("retries", "number", "how often it is asked again after a failure that may pass", "retries"),
  defineModelKey("max_tokens", "size", "how much it may say at once", "maxTokens"),
  defineModelKey(
    "context_window",
    "size",
    "how many tokens it can read at once; that of its family when left out, where the family is known",
    "contextWindow",
  ),
  definePriceKey("input", "dollars for a million tokens that a model of this name reads"),
  definePriceKey("output", "and that it writes"),
  definePriceKey("cached", "and that its provider had kept; as `input`"),
  defineKey(
    "tools.disabled",
    "texts",
    "tools that no run is given",
    ({ tools }, disabled) => Object.assign(tools, { disabled }),
    { default: [] },
  ),
  defineKey(
    "tools.dynamic_commands",
    "flag",
    "whether commands in the instructions of trusted skills are run",
    ({ tools }, dynamicCommands) => Object.assign(tools, { dynamicCommands }),
    { default: false },
  ),
  ...SEARCH_KEYS,
  defineMcpKey("command", "command", "the program that is started as a server of tools, over MCP", "command"),
  defineMcpKey("url", "address", "or where a server is that runs already", "url"),
  defineKey(
    "tools.mcp.*.env.UPPER_CASE",
    "text",
    'a variable for the program: a value, `"env:NAME"` or `"file:PATH"`',
    ({ mcp }, value, [, , name, , variable = ""]) => getServerValues(mcp, name).env.set(variable, String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  defineMcpKey("token", "text", 'the bearer token for the address, `"env:NAME"` or `"file:PATH"`', "token", {
    isSecret: true,
  }),
  defineMcpKey("timeout_seconds", "size", "how long one call may take; `60`", "seconds"),
  defineMcpKey("enabled", "flag", "whether it is started at all; `true`", "enabled"),
  defineMcpKey("tools", "texts", "the only tools of it that runs are given; all without it", "tools"),
  defineMcpKey("skills", "flag", "whether the skills of this server are listed and can be loaded", "skills", {
    default: false,
  }),
  defineMcpKey("without_asking", "texts", "tools of it that are called without asking anybody", "withoutAsking"),
  defineKey(
    "mcp.use_client_key",
    "flag",
    "whether `use_skill` may spend an API key that a client, such as Claude Code, passes to `skillet serve`",
    ({ serving }, useClientKey) => Object.assign(serving, { useClientKey }),
    { default: false },
  ),
  defineLimitKey("max_iterations", "how often a skill that says nothing of it asks its model", "iterations"),
  defineLimitKey("most_iterations", "how often one that does may ask at most", "mostIterations"),
  defineLimitKey("timeout_seconds", "how long a run may take, with all that it calls", "seconds"),
  defineLimitKey("nesting", "how deep skills may call skills; 1: not at all", "nesting"),
  defineLimitKey("tokens", "how many tokens a run may use, with all that it calls; no bound without it", "tokens"),
  defineLimitKey("tool_timeout_seconds", "how long one call of a tool may take", "toolSeconds"),
  defineLimitKey("tool_output", "how many characters of a tool's output a model gets", "toolOutput"),
  defineRunsKey("keep_days", "for how many days runs are kept", "days"),
  defineRunsKey("keep", "how many of those that are over", "most"),
  defineDisclosureKey(
    "mode",
    "mode",
    "`adaptive` decides by the query what a model is shown; `static` lists all skills once, to be invoked with `use_skill`, and adds no instructions",
    "mode",
    { workspace: "always", default: "adaptive" },
  ),
  defineDisclosureKey(
    "max_skills",
    "number",
    "how many skills' full instructions a query brings at most",
    "maxSkills",
    {
      workspace: "only less",
      default: DISCLOSURE_DEFAULTS.maxSkills,
    },
  ),
  defineDisclosureKey(
    "budget",
    "number",
    "how many tokens the instructions that a query brings take at most",
    "budget",
    {
      workspace: "only less",
      default: DISCLOSURE_DEFAULTS.budget,
    },
  ),
  defineDisclosureKey(
    "listing_budget",
    "number",
    "how many tokens the list of skills takes at most; when left out, 1 % of the model's context window where that is known",
    "listingBudget",
    { workspace: "only less", default: DISCLOSURE_DEFAULTS.listingBudget },
  ),
  defineDisclosureKey("asks", "texts", "further queries that ask what there is", "asks", { workspace: "always" }),
  defineDisclosureKey(
    "shortlist",
    "flag",
    "whether up to five skills that fit by their words are named when none is triggered; when left out, after a list of skills, and one that fits beyond doubt elsewhere",
    "shortlist",
    { workspace: "always" },
  ),
  defineSandboxKey(
    "level",
    "level",
    "the isolation that code runs with; `strong`, and `partial` on macOS; `none` switches it off",
  ),
  defineSandboxKey("engine", "engine", "what keeps code apart; `bubblewrap`, and `seatbelt` on macOS"),
  defineSandboxKey("image", "text", "what a container of docker or podman is made from"),
  defineSandboxKey("program", "path", "the program that is called as docker or podman; the system's own"),
  defineSandboxKey(
    "network",
    "endpoints",
    "what every sandbox may reach, as `host:port`, or `unix:PATH` for a socket of the workspace",
    DEFAULT_SANDBOX_SETTINGS.network,
  ),
  defineSandboxKey(
    "python_index",
    "endpoints",
    "where the Python packages of scripts are fetched from",
    DEFAULT_SANDBOX_SETTINGS.pythonIndex,
    (pythonIndex: string[]) => ({ pythonIndex }),
  ),
  defineSandboxKey(
    "workspace",
    "access",
    "whether every sandbox sees the workspace; without it, scripts read it, and the tools of a run write to it when you approve",
  ),
  defineSandboxKey(
    "memory_mib",
    "size",
    "how much memory a run may use",
    DEFAULT_SANDBOX_SETTINGS.memory / MIB,
    (mib: number) => ({
      memory: mib * MIB,
    }),
  ),
  defineSandboxKey("processes", "size", "how many processes a run may have", DEFAULT_SANDBOX_SETTINGS.processes),
  defineSandboxKey(
    "disk_mib",
    "size",
    "how much a run may write to each folder of its own",
    DEFAULT_SANDBOX_SETTINGS.disk / MIB,
    (mib: number) => ({ disk: mib * MIB }),
  ),
  defineScriptKey("timeout_seconds", "how long a script may run", "seconds"),
  defineScriptKey("output_bytes", "how much it may print", "output"),
  defineScriptKey("arguments", "how many arguments it may be given", "arguments"),
  defineScriptKey("argument_bytes", "how many bytes they may be together", "argumentBytes"),
  ...defineProviderKeys("capabilities.providers.*", ({ providers }, parts) => getProviderValues(providers, parts[2]), {
    hasPlainName: true,
  }),
  defineNamedProviderKey("chat_types", "texts", 'the chats that it is there for; `["private"]`', "chatTypes"),
  defineNamedProviderKey(
    "allow_chat_ids",
    "texts",
    "the only chats that it is there for; `[]` lets all",
    "allowChatIds",
  ),
  defineNamedProviderKey("base_url", "address", "where the system behind it is, for one that is built in", "baseUrl"),
  defineNamedProviderKey(
    "client_id",
    "text",
    "what its sign-in pages know this program by, for one that is built in",
    "clientId",
  ),
  defineKey(
    "capabilities.providers.*.env.UPPER_CASE",
    "text",
    "a variable of its program: a value, `env:NAME`, or `file:PATH`",
    ({ providers }, value, parts) => getProviderValues(providers, parts[2]).env.set(parts[4] ?? "", String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  defineCapabilityKey("calls_per_run", "size", "how many calls a run may make of capabilities", "calls"),
  defineCapabilityKey("changes_per_run", "number", "how many of these may change something", "changes"),
  defineCapabilityKey(
    "vault_passphrase_file",
    "path",
    "a file that what is kept of sign-ins is encrypted with, in place of a key of the system's",
    "passphraseFile",
  ),
];

/** The keys for people to read. */
export function listConfigKeys(): { path: string; type: string; means: string; isForWorkspace: boolean }[] {
  return CONFIG_KEYS.map(({ path, type, means, workspace, default: usual }) => ({
    path,
    type: KEY_TYPES[type].say,
    means: usual === undefined ? means : `${means}; \`${JSON.stringify(usual)}\``,
    isForWorkspace: workspace !== undefined,
  }));
}

function defineKey(
  path: string,
  type: ConfigKey["type"],
  means: string,
  set: SetConfigValue,
  rest: KeyOptions = {},
): ConfigKey {
  return { path, type, means, set, ...rest };
}

function defineSkillKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof SkillValues,
  rest: KeyOptions = {},
): ConfigKey {
  const set: SetConfigValue = ({ skills }, value, parts) =>
    Object.assign(getSkillValues(skills, parts[1]), { [field]: value });
  return defineKey(`skills.*.${name}`, type, means, set, rest);
}

function getSkillValues(skills: ConfigValues["skills"], name: string | undefined): SkillValues {
  return getOrCreateEntry(skills, name, () => ({ variables: new Map() }));
}

function defineModelKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof ModelSettings,
  rest: KeyOptions = {},
): ConfigKey {
  const set: SetConfigValue = ({ models }, value, parts) =>
    Object.assign(
      getOrCreateEntry(models, parts[1], () => ({})),
      { [field]: value },
    );
  return defineKey(`models.*.${name}`, type, means, set, rest);
}

function defineMcpKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof McpSettings,
  rest: KeyOptions = {},
): ConfigKey {
  const set: SetConfigValue = ({ mcp }, value, parts) =>
    Object.assign(getServerValues(mcp, parts[2]), { [field]: value });
  return defineKey(`tools.mcp.*.${name}`, type, means, set, { hasPlainName: true, ...rest });
}

function getServerValues(servers: ConfigValues["mcp"], name: string | undefined): ServerValues {
  return getOrCreateEntry(servers, name, () => ({ env: new Map() }));
}

function definePriceKey(name: keyof ModelPrice, means: string): ConfigKey {
  return defineKey(`prices.*.${name}`, "price", means, ({ prices }, value, parts) =>
    Object.assign(
      getOrCreateEntry(prices, parts[1], () => ({})),
      { [name]: value },
    ),
  );
}

function defineProviderKeys(
  table: string,
  providerIn: (values: ConfigValues, parts: readonly string[]) => ProviderSettings,
  rest: KeyOptions = {},
): readonly ConfigKey[] {
  const row = (name: string, type: ConfigKey["type"], means: string, field: keyof ProviderSettings): ConfigKey =>
    defineKey(
      `${table}.${name}`,
      type,
      means,
      (values, value, parts) => Object.assign(providerIn(values, parts), { [field]: value }),
      rest,
    );
  return [
    row("enabled", "flag", "whether this provider of capabilities is asked", "enabled"),
    row("namespace", "namespace", "what its capabilities begin with, as `gog` in `gog.email`", "namespace"),
    row("command", "command", "the program of yours that serves them", "command"),
    row("timeout_seconds", "patience", "how long it may take for an answer; 30", "seconds"),
  ];
}

function defineNamedProviderKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof ProviderSettings,
): ConfigKey {
  const set: SetConfigValue = ({ providers }, value, parts) =>
    Object.assign(getProviderValues(providers, parts[2]), { [field]: value });
  return defineKey(`capabilities.providers.*.${name}`, type, means, set, { hasPlainName: true });
}

function getProviderValues(providers: ConfigValues["providers"], name: string | undefined): ProviderValues {
  return getOrCreateEntry(providers, name, () => ({ env: new Map() }));
}

function defineCapabilityKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof CapabilitySettings,
): ConfigKey {
  const set: SetConfigValue = ({ capabilities }, value) => Object.assign(capabilities, { [field]: value });
  const usual = DEFAULT_CAPABILITY_SETTINGS[field];
  return defineKey(`capabilities.${name}`, type, means, set, usual === undefined ? {} : { default: usual });
}

function defineDisclosureKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof DisclosureSettings,
  rest: KeyOptions,
) {
  const set: SetConfigValue = ({ disclosure }, value) => Object.assign(disclosure, { [field]: value });
  return defineKey(`disclosure.${name}`, type, means, set, rest);
}

function defineSandboxKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  usual?: unknown,
  read: (value: never) => Partial<SandboxSettings> = (value) => ({ [name]: value }),
): ConfigKey {
  const set: SetConfigValue = ({ sandbox }, value) => Object.assign(sandbox, read(value as never));
  return defineKey(`sandbox.${name}`, type, means, set, usual === undefined ? {} : { default: usual });
}

function defineScriptKey(name: string, means: string, limit: keyof ScriptLimits): ConfigKey {
  const set: SetConfigValue = ({ scripts }, value) => Object.assign(scripts, { [limit]: value });
  return defineKey(`scripts.${name}`, "size", means, set, {
    workspace: "only less",
    default: DEFAULT_SCRIPT_LIMITS[limit],
  });
}

function defineLimitKey(name: string, means: string, limit: keyof RunLimits): ConfigKey {
  const set: SetConfigValue = ({ limits }, value) => Object.assign(limits, { [limit]: value });
  const usual = DEFAULT_RUN_LIMITS[limit];
  const rest: KeyOptions = { workspace: "only less", ...(usual === undefined ? {} : { default: usual }) };
  return defineKey(`limits.${name}`, "size", means, set, rest);
}

function defineRunsKey(name: string, means: string, kept: keyof RunRetention): ConfigKey {
  return defineKey(`runs.${name}`, "size", means, ({ runs }, value) => Object.assign(runs, { [kept]: value }), {
    default: DEFAULT_RUN_RETENTION[kept],
  });
}

function defineSearchKey(
  name: string,
  type: ConfigKey["type"],
  means: string,
  field: keyof WebSearchSettings,
): ConfigKey {
  const set: ConfigKey["set"] = ({ tools }, value) => {
    tools.webSearch = { ...tools.webSearch, [field]: value };
  };
  return { path: `tools.web_search.${name}`, type, means, set };
}
