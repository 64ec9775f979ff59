import { DISCLOSURE_DEFAULTS } from "../catalog/catalog.ts";
import type { ModelPrice, ModelSettings } from "../host/model-contract.ts";
import { DEFAULT_RUN_RETENTION, type RunRetention } from "../store/run-rules.ts";
import {
  type ConfigValues,
  getOrCreateEntry,
  KEY_TYPES,
  type PersonValues,
  type ProviderValues,
  type ServerValues,
  type SkillValues,
} from "./key-types.ts";
import {
  type CapabilitySettings,
  type CostCeilings,
  DEFAULT_CAPABILITY_SETTINGS,
  DEFAULT_ENGINE_SETTINGS,
  DEFAULT_RUN_LIMITS,
  DEFAULT_SANDBOX_SETTINGS,
  DEFAULT_SCRIPT_LIMITS,
  type EngineSettings,
  type ProviderSettings,
  type RunLimits,
  type SandboxSettings,
  type ScriptLimits,
} from "./limits.ts";
import type {
  DisclosureSettings,
  McpSettings,
  OauthSettings,
  PersonSettings,
  TenantSettings,
  WebSearchSettings,
  WORKSPACE_RULES,
} from "./settings.ts";

export interface ConfigKey {
  /** `*` stands for any name, `UPPER_CASE` for a variable. */
  path: string;
  type: keyof typeof KEY_TYPES;
  means: string;
  set: SetConfigValue;
  /** The default value, if it is the same everywhere. */
  default?: unknown;
  /** The rule by which a workspace may set it, too. */
  workspace?: keyof typeof WORKSPACE_RULES;
  /** The narrower type for a workspace. */
  workspaceType?: keyof typeof KEY_TYPES;
  isSecret?: true;
  /** The name at `*` may only contain letters, digits, `-` and `_`. */
  hasPlainName?: true;
}
/** Contract: `value` has the type of the row, and `parts` match its path. */
type SetConfigValue = (values: ConfigValues, value: unknown, parts: readonly string[]) => unknown;
type KeyOptions = Omit<ConfigKey, "path" | "type" | "means" | "set">;

const MIB = 1024 * 1024;

/** The keys of the search engine for `web_search`. A workspace may set none of them. */
const SEARCH_KEYS: readonly ConfigKey[] = [
  defineSearchKey(
    "provider",
    "search",
    "the search engine of `web_search`; the tool exists only if this is set",
    "provider",
  ),
  defineSearchKey("url", "address", "its address; required for `searxng`", "url"),
  {
    ...defineSearchKey("api_key", "text", 'its API key: a value, `"env:NAME"` or `"file:PATH"`', "apiKey"),
    isSecret: true,
  },
  defineSearchKey("results", "size", "the maximum results of a search; default: `5`", "results"),
];

/** Every key of the configuration, one row each. */
export const CONFIG_KEYS: readonly ConfigKey[] = [
  defineSkillKey("enabled", "flag", "whether the skill is enabled", "enabled", {
    workspace: "unless disabled",
  }),
  defineSkillKey(
    "model",
    "text",
    "the model for the skill, instead of the one it requests; in a workspace, an alias",
    "model",
    {
      workspace: "always",
      workspaceType: "alias",
    },
  ),
  defineSkillKey("allow_chat_ids", "texts", "the only chats that may use the skill; `[]` allows all", "allowChatIds"),
  defineKey(
    "skills.*.UPPER_CASE",
    "text",
    "the value of an environment variable that the skill declares under `env`",
    ({ skills }, value, [, name, last = ""]) => getSkillValues(skills, name).variables.set(last, String(value)),
    { isSecret: true },
  ),
  defineSkillKey(
    "network",
    "endpoints",
    "additional hosts that its sandbox may reach: `host:port`, or `unix:PATH` for a socket in the workspace",
    "network",
  ),
  defineSkillKey("workspace", "access", "the access of its sandbox to the workspace", "workspace"),
  defineSkillKey("python", "pythonPackages", "additional Python packages for its code", "python"),
  defineSkillKey("npm", "npmPackages", "npm packages for its code", "npm"),
  defineSkillKey(
    "packages",
    "systemPackages",
    "system packages for its code, in addition to those it declares",
    "packages",
  ),
  defineSkillKey(
    "dynamic_commands",
    "flag",
    "whether commands in its instructions run when the skill is trusted",
    "dynamicCommands",
  ),
  defineSkillKey(
    "capabilities",
    "capabilities",
    "the declared capabilities that are granted to the skill",
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
    "the default of `allow_chat_ids` for all skills",
    ({ defaults }, allowChatIds) => Object.assign(defaults, { allowChatIds }),
    { default: [] },
  ),
  defineKey(
    "sources.*.path",
    "text",
    "an additional folder of skills; `~` is your home folder",
    ({ sources }, path, [, name]) =>
      Object.assign(
        getOrCreateEntry(sources, name, () => ({})),
        { path },
      ),
  ),
  defineKey(
    "sources.*.recursive",
    "flag",
    "whether to search subfolders of folders that are not skills",
    ({ sources }, recursive, [, name]) =>
      Object.assign(
        getOrCreateEntry(sources, name, () => ({})),
        { recursive },
      ),
  ),
  defineModelKey("provider", "provider", "the provider of the model with this alias", "provider"),
  defineModelKey("model", "text", "the name of the model at the provider", "model"),
  defineModelKey("base_url", "address", "the address of the API, for your own server", "baseUrl"),
  defineModelKey(
    "api_key",
    "text",
    'the API key: a value, `"env:NAME"` or `"file:PATH"`; default: the environment variable of the provider',
    "apiKey",
    { isSecret: true },
  ),
  defineModelKey("timeout_seconds", "size", "the timeout of one response", "seconds"),
  defineModelKey("retries", "number", "the maximum retries after a transient failure", "retries"),
  defineModelKey(
    "requests_per_minute",
    "size",
    "the maximum requests in a minute to the account of the model, by all runs of a process, or of all processes with an engine; others wait",
    "requestsPerMinute",
  ),
  defineModelKey(
    "tokens_per_minute",
    "size",
    "the maximum input and output tokens in a minute of that account, by all runs of a process, or of all processes with an engine; others wait",
    "tokensPerMinute",
  ),
  defineModelKey("max_tokens", "size", "the maximum output tokens of one response", "maxTokens"),
  defineModelKey(
    "context_window",
    "size",
    "the context window in tokens; default: that of its model family, if known",
    "contextWindow",
  ),
  definePriceKey("input", "US dollars per million input tokens of the model"),
  definePriceKey("output", "US dollars per million output tokens"),
  definePriceKey("cached", "US dollars per million cached input tokens; default: the price of `input`"),
  definePriceKey("date", "the day on which you looked up the prices; reports show it", "date"),
  defineKey(
    "tools.disabled",
    "texts",
    "tools that are disabled in all runs",
    ({ tools }, disabled) => Object.assign(tools, { disabled }),
    { default: [] },
  ),
  defineKey(
    "tools.dynamic_commands",
    "flag",
    "whether commands in the instructions of trusted skills run",
    ({ tools }, dynamicCommands) => Object.assign(tools, { dynamicCommands }),
    { default: false },
  ),
  ...SEARCH_KEYS,
  defineMcpKey("command", "command", "the program to start as an MCP server", "command"),
  defineMcpKey("url", "address", "the address of a running MCP server, instead of `command`", "url"),
  defineKey(
    "tools.mcp.*.env.UPPER_CASE",
    "text",
    'an environment variable of the program: a value, `"env:NAME"` or `"file:PATH"`',
    ({ mcp }, value, [, , name, , variable = ""]) => getServerValues(mcp, name).env.set(variable, String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  defineMcpKey("token", "text", 'the bearer token for the address: a value, `"env:NAME"` or `"file:PATH"`', "token", {
    isSecret: true,
  }),
  defineMcpKey("timeout_seconds", "size", "the timeout of one call; default: `60`", "seconds"),
  defineMcpKey("enabled", "flag", "whether the server is enabled; default: `true`", "enabled"),
  defineMcpKey("tools", "texts", "the only tools of the server that runs get; default: all", "tools"),
  defineMcpKey("skills", "flag", "whether the skills of the server are listed and can be loaded", "skills", {
    default: false,
  }),
  defineMcpKey("auto_approve", "texts", "tools of the server that need no approval", "autoApprove"),
  defineKey(
    "mcp.use_client_key",
    "flag",
    "whether `use_skill` may use an API key that a client, such as Claude Code, passes to `skillet serve`",
    ({ serving }, useClientKey) => Object.assign(serving, { useClientKey }),
    { default: false },
  ),
  defineKey(
    "server.public_url",
    "address",
    "the address by which clients reach `skillet serve --http`, with its path: `https://skills.example.com/mcp`",
    ({ serving }, publicUrl) => Object.assign(serving, { publicUrl }),
  ),
  defineKey(
    "server.trusted_proxies",
    "texts",
    "the IP addresses of reverse proxies whose `X-Forwarded-For` header names the client",
    ({ serving }, trustedProxies) => Object.assign(serving, { trustedProxies }),
    { default: [] },
  ),
  defineOauthKey("issuer", "address", "the authorization server whose access tokens are accepted", "issuer"),
  defineOauthKey("audience", "text", "the audience of its tokens; default: `server.public_url`", "audience"),
  defineOauthKey("jwks_url", "address", "the address of its keys; default: the one in its metadata", "jwksUrl"),
  defineOauthKey(
    "algorithms",
    "texts",
    'the accepted signature algorithms; default: `["RS256","PS256","ES256","EdDSA"]`',
    "algorithms",
  ),
  defineOauthKey("user_claim", "text", "the claim with the name of the person; default: `sub`", "userClaim"),
  defineOauthKey("tenant_claim", "text", "the claim with the tenant of the person; default: none", "tenantClaim"),
  defineOauthKey("scope_prefix", "text", "the text before each scope, such as `skillet:`", "scopePrefix"),
  definePersonKey("enabled", "flag", "`false` refuses all tokens of the person; default: `true`", "enabled"),
  definePersonKey("tenant", "text", "the tenant of the person", "tenant"),
  definePersonKey(
    "workspace",
    "path",
    "the workspace of the person's sessions; default: that of the server",
    "workspace",
  ),
  definePersonKey(
    "chat_type",
    "text",
    "the type of chat in which the person calls; default: `--chat-type`",
    "chatType",
  ),
  definePersonKey("chat_id", "text", "the id of that chat; default: `--chat-id`", "chatId"),
  definePersonKey("skills", "texts", "the only skills of the person; default: all that are served", "skills"),
  definePersonKey(
    "capabilities",
    "capabilities",
    "the only capabilities that skills may use for the person; default: those granted to each skill",
    "capabilities",
  ),
  defineKey(
    "server.people.*.variables.*.UPPER_CASE",
    "text",
    'the person\'s value of a variable of a skill: a value, `"env:NAME"` or `"file:PATH"`; default: the value under `[skills.NAME]`',
    ({ serving }, value, [, , person, , skill, variable = ""]) =>
      getOrCreateEntry(getPersonValues(serving, person).variables, skill, () => new Map()).set(variable, String(value)),
    { isSecret: true },
  ),
  defineLimitKey("max_iterations", "the iterations of a run, unless the skill sets them", "iterations"),
  defineLimitKey("iteration_cap", "the maximum iterations that a skill may set", "iterationCap"),
  defineLimitKey("timeout_seconds", "the time limit of a run, including nested runs", "seconds"),
  defineLimitKey("nesting", "the maximum depth of skills that call skills; `1` allows none", "nesting"),
  defineLimitKey("tokens", "the token limit of a run, including nested runs; default: no limit", "tokens"),
  ...defineCostKeys("limits.cost", "all runs", ({ limits }) => limits, { workspace: "only less" }),
  ...defineCostKeys("skills.*.limits.cost", "the runs of the skill", ({ skills }, [, name]) =>
    getSkillValues(skills, name),
  ),
  ...defineCostKeys("server.people.*.limits.cost", "the runs of the person", ({ serving }, [, , name]) =>
    getPersonValues(serving, name),
  ),
  ...defineCostKeys("server.tenants.*.limits.cost", "the runs of the tenant", ({ serving }, [, , name]) =>
    getTenantValues(serving, name),
  ),
  defineKey(
    "server.tenants.*.concurrency",
    "size",
    "the maximum scripts, tools of skills and sub-agents of the tenant that run at once in a server; others wait",
    ({ serving }, concurrency, [, , name]) => Object.assign(getTenantValues(serving, name), { concurrency }),
  ),
  defineKey(
    "server.tenants.*.calls_per_minute",
    "size",
    "the maximum of them that start in a minute; others are refused",
    ({ serving }, callsPerMinute, [, , name]) => Object.assign(getTenantValues(serving, name), { callsPerMinute }),
  ),
  defineLimitKey("tool_timeout_seconds", "the time limit of one tool call", "toolSeconds"),
  defineLimitKey("tool_output", "the maximum characters of tool output that a model gets", "toolOutput"),
  defineRunsKey("keep_days", "the days that runs are kept", "days"),
  defineRunsKey("keep", "the maximum number of ended runs to keep", "most"),
  defineKey(
    "engine.url",
    "database",
    "the Postgres database that several machines share; without it, runs are files of this machine",
    ({ engine }, value) => Object.assign(engine, { url: value }),
  ),
  defineKey(
    "engine.seal_key",
    "reference",
    "a key of at least 32 characters that encrypts what the database stores of runs; the same on all machines",
    ({ engine }, value) => Object.assign(engine, { sealKey: value }),
  ),
  defineKey(
    "docs.url",
    "address",
    "the address of a site of these pages (`npm run docs:site`): errors print the link to the page of their code",
    ({ docs }, value) => Object.assign(docs, { url: value }),
  ),
  defineEngineKey("slots", "the number of runs that a worker works on at once", "slots"),
  defineKey(
    "engine.tenant_slots",
    "size",
    "the maximum runs of a tenant that all workers work on at once; the same on all workers",
    ({ engine }, value) => Object.assign(engine, { tenantSlots: value }),
  ),
  defineEngineKey("lease_seconds", "the time after which a worker that does not answer loses its runs", "leaseSeconds"),
  defineEngineKey("outage_seconds", "the time that a running run waits for an unavailable database", "outageSeconds"),
  defineEngineKey("drain_seconds", "the time that a stopped worker gives its runs to end", "drainSeconds"),
  defineEngineKey("attempts", "the number of times that a run may end its worker", "attempts"),
  defineDisclosureKey(
    "mode",
    "mode",
    "`adaptive` selects the content for a model by the query; `static` lists all skills once, to be invoked with `use_skill`, and adds no instructions",
    "mode",
    { workspace: "always", default: "adaptive" },
  ),
  defineDisclosureKey(
    "max_skills",
    "number",
    "the maximum skills whose full instructions are added for a query",
    "maxSkills",
    {
      workspace: "only less",
      default: DISCLOSURE_DEFAULTS.maxSkills,
    },
  ),
  defineDisclosureKey(
    "budget",
    "number",
    "the maximum tokens of the instructions that are added for a query",
    "budget",
    {
      workspace: "only less",
      default: DISCLOSURE_DEFAULTS.budget,
    },
  ),
  defineDisclosureKey(
    "listing_budget",
    "number",
    "the maximum tokens of the list of skills; if not set, 1 % of the context window of the model, if known",
    "listingBudget",
    { workspace: "only less", default: DISCLOSURE_DEFAULTS.listingBudget },
  ),
  defineDisclosureKey("list_intents", "texts", "additional queries that ask for the list of skills", "listIntents", {
    workspace: "always",
  }),
  defineDisclosureKey(
    "shortlist",
    "flag",
    "whether up to five skills that match by keywords are named if none is triggered; if not set, up to five after a list of skills, and elsewhere one that clearly matches",
    "shortlist",
    { workspace: "always" },
  ),
  defineSandboxKey(
    "level",
    "level",
    "the required isolation of code; default: `strong`, on macOS `partial`; `none` disables it",
  ),
  defineSandboxKey("engine", "engine", "the sandbox engine; default: `bubblewrap`, on macOS `seatbelt`"),
  defineSandboxKey("image", "text", "the image of docker or podman containers"),
  defineSandboxKey("program", "path", "the docker or podman program; default: the one of the system"),
  defineSandboxKey(
    "network",
    "endpoints",
    "the hosts that every sandbox may reach: `host:port`, or `unix:PATH` for a socket in the workspace",
    DEFAULT_SANDBOX_SETTINGS.network,
  ),
  defineSandboxKey(
    "python_index",
    "endpoints",
    "the hosts of the Python package index for scripts",
    DEFAULT_SANDBOX_SETTINGS.pythonIndex,
    (pythonIndex: string[]) => ({ pythonIndex }),
  ),
  defineSandboxKey(
    "workspace",
    "access",
    "the access of every sandbox to the workspace; if not set, scripts can read it, and tools of a run can write to it with approval",
  ),
  defineSandboxKey(
    "memory_mib",
    "size",
    "the memory limit of a run",
    DEFAULT_SANDBOX_SETTINGS.memory / MIB,
    (mib: number) => ({
      memory: mib * MIB,
    }),
  ),
  defineSandboxKey("processes", "size", "the maximum processes of a run", DEFAULT_SANDBOX_SETTINGS.processes),
  defineSandboxKey(
    "disk_mib",
    "size",
    "the disk limit of each writable folder of a run, except the workspace",
    DEFAULT_SANDBOX_SETTINGS.disk / MIB,
    (mib: number) => ({ disk: mib * MIB }),
  ),
  defineScriptKey("timeout_seconds", "the time limit of a script", "seconds"),
  defineScriptKey("output_bytes", "the output limit of a script", "output"),
  defineScriptKey("arguments", "the maximum number of arguments of a script", "arguments"),
  defineScriptKey("argument_bytes", "the maximum total bytes of the arguments", "argumentBytes"),
  ...defineProviderKeys("capabilities.providers.*", ({ providers }, parts) => getProviderValues(providers, parts[2]), {
    hasPlainName: true,
  }),
  defineNamedProviderKey(
    "chat_types",
    "texts",
    'the types of chats that may use the provider; default: `["private"]`',
    "chatTypes",
  ),
  defineNamedProviderKey(
    "allow_chat_ids",
    "texts",
    "the only chats that may use the provider; `[]` allows all",
    "allowChatIds",
  ),
  defineNamedProviderKey("base_url", "address", "the address of the backend, for a built-in provider", "baseUrl"),
  defineNamedProviderKey("client_id", "text", "the OAuth client id, for a built-in provider", "clientId"),
  defineKey(
    "capabilities.providers.*.env.UPPER_CASE",
    "text",
    "an environment variable of its program: a value, `env:NAME` or `file:PATH`",
    ({ providers }, value, parts) => getProviderValues(providers, parts[2]).env.set(parts[4] ?? "", String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  defineCapabilityKey("calls_per_run", "size", "the maximum capability calls of a run", "calls"),
  defineCapabilityKey("changes_per_run", "number", "the maximum mutating capability calls of a run", "changes"),
  defineCapabilityKey(
    "vault_passphrase_file",
    "path",
    "a passphrase file that encrypts stored credentials, instead of a key of the system",
    "passphraseFile",
  ),
];

/** Returns the keys with their descriptions, for users. */
export function listConfigKeys(): { path: string; type: string; means: string; isForWorkspace: boolean }[] {
  return CONFIG_KEYS.map(({ path, type, means, workspace, default: usual }) => ({
    path,
    type: KEY_TYPES[type].description,
    means: usual === undefined ? means : `${means}; default: \`${JSON.stringify(usual)}\``,
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

function defineOauthKey(name: string, type: ConfigKey["type"], means: string, field: keyof OauthSettings): ConfigKey {
  return defineKey(`server.oauth.${name}`, type, means, ({ serving }, value) => {
    serving.oauth = { ...serving.oauth, [field]: value };
  });
}

function definePersonKey(name: string, type: ConfigKey["type"], means: string, field: keyof PersonSettings): ConfigKey {
  return defineKey(`server.people.*.${name}`, type, means, ({ serving }, value, [, , person]) =>
    Object.assign(getPersonValues(serving, person), { [field]: value }),
  );
}

/** Defines the ceilings of one table: of a run, a day and a month. */
function defineCostKeys(
  table: string,
  subject: string,
  valuesOf: (values: ConfigValues, parts: readonly string[]) => { cost?: CostCeilings },
  rest: KeyOptions = {},
): readonly ConfigKey[] {
  const means: Record<keyof CostCeilings, string> = {
    run: `the maximum cost of one run in US dollars, with its nested runs, for ${subject}`,
    day: `the maximum cost of ${subject} in a day (UTC), in US dollars`,
    month: `the maximum cost of ${subject} in a month (UTC), in US dollars`,
  };
  return (Object.keys(means) as (keyof CostCeilings)[]).map((name) =>
    defineKey(
      `${table}.${name}`,
      "price",
      means[name],
      (values, value, parts) => {
        const limited = valuesOf(values, parts);
        limited.cost = { ...limited.cost, [name]: value };
      },
      rest,
    ),
  );
}

function getTenantValues(serving: ConfigValues["serving"], name: string | undefined): TenantSettings {
  serving.tenants ??= new Map();
  return getOrCreateEntry(serving.tenants, name, () => ({}));
}

function getPersonValues(serving: ConfigValues["serving"], name: string | undefined): PersonValues {
  serving.people ??= new Map();
  return getOrCreateEntry(serving.people, name, () => ({ variables: new Map() }));
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

function definePriceKey(name: keyof ModelPrice, means: string, type: "price" | "date" = "price"): ConfigKey {
  return defineKey(`prices.*.${name}`, type, means, ({ prices }, value, parts) =>
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
    row("enabled", "flag", "whether this capability provider is enabled", "enabled"),
    row("namespace", "namespace", "the prefix of its capabilities, for example `gog` in `gog.email`", "namespace"),
    row("command", "command", "the program that serves them", "command"),
    row("timeout_seconds", "patience", "the timeout of an answer; default: `30`", "seconds"),
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

function defineEngineKey(
  name: string,
  means: string,
  field: Exclude<keyof EngineSettings, "url" | "sealKey" | "tenantSlots">,
): ConfigKey {
  return defineKey(`engine.${name}`, "size", means, ({ engine }, value) => Object.assign(engine, { [field]: value }), {
    default: DEFAULT_ENGINE_SETTINGS[field],
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
