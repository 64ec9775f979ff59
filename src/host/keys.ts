import { DEFAULTS } from "../catalog/defaults.ts";
import { CAPABILITY_DEFAULTS, type CapabilitySettings, type ProviderSettings } from "./capability-settings.ts";
import { type RULES, TYPES } from "./key-types.ts";
import { RUN_DEFAULTS, type RunLimits } from "./limits.ts";
import type { ModelSettings, Price } from "./models.ts";
import { RETENTION, type Retention } from "./runs-prune.ts";
import { SANDBOX_DEFAULTS, type SandboxSettings, SCRIPT_DEFAULTS, type ScriptLimits } from "./sandbox-settings.ts";
import { SEARCH_KEYS } from "./search-keys.ts";
import type { DisclosureSettings, McpSettings } from "./settings.ts";
import { entryOf, type OneProvider, type OneServer, type OneSkill, type Values } from "./values.ts";

export interface Key {
  /** `*` stands for any name, `UPPER_CASE` for a variable. */
  path: string;
  type: keyof typeof TYPES;
  means: string;
  set: SetKey;
  /** What holds where nobody says anything, where that is one value everywhere. */
  default?: unknown;
  /** A workspace may set it too, by this rule. */
  workspace?: keyof typeof RULES;
  /** What a workspace may set it to, where that is less than the user may. */
  workspaceType?: keyof typeof TYPES;
  isSecret?: true;
  /** What is named by its `*` has a name of letters, digits, `-` and `_`. */
  hasPlainName?: true;
}
/** Contract: `value` is of the row's type; `parts` fit its path. */
type SetKey = (values: Values, value: unknown, parts: readonly string[]) => unknown;
type Rest = Omit<Key, "path" | "type" | "means" | "set">;

const MIB = 1024 * 1024;

/** Every key of the configuration, one row each. */
export const KEYS: readonly Key[] = [
  skillKey("enabled", "flag", "whether the skill is there at all", "enabled", {
    workspace: "not what is switched off",
  }),
  skillKey(
    "model",
    "text",
    "the model for it, in place of the skill's own choice; a workspace names an alias",
    "model",
    {
      workspace: "always",
      workspaceType: "alias",
    },
  ),
  skillKey("allow_chat_ids", "texts", "the only chats that may use it; `[]` lets all", "allowChatIds"),
  key(
    "skills.*.UPPER_CASE",
    "text",
    "the value of a variable that the skill declares under `env`",
    ({ skills }, value, [, name, last = ""]) => skillOf(skills, name).variables.set(last, String(value)),
    { isSecret: true },
  ),
  skillKey(
    "network",
    "endpoints",
    "what its sandbox may reach besides, as `host:port`, or `unix:PATH` for a socket of the workspace",
    "network",
  ),
  skillKey("workspace", "access", "whether its sandbox sees the workspace", "workspace"),
  skillKey("python", "pythonPackages", "Python packages that its code gets besides", "python"),
  skillKey("npm", "npmPackages", "npm packages that its code gets", "npm"),
  skillKey("packages", "systemPackages", "system packages that its code gets besides those it declares", "packages"),
  skillKey(
    "dynamic_commands",
    "flag",
    "whether commands in its instructions are run, once it is trusted",
    "dynamicCommands",
  ),
  skillKey("capabilities", "capabilities", "capabilities that it is given, of those that it declares", "capabilities"),
  ...providerKeys("skills.*.capability_provider", ({ skills }, [, name]) => {
    const skill = skillOf(skills, name);
    skill.provider ??= {};
    return skill.provider;
  }),
  key(
    "skills.defaults.allow_chat_ids",
    "texts",
    "the same for every skill that has none of its own",
    ({ defaults }, allowChatIds) => Object.assign(defaults, { allowChatIds }),
    { default: [] },
  ),
  key("sources.*.path", "text", "a further folder of skills; `~` is your home folder", ({ sources }, path, [, name]) =>
    Object.assign(
      entryOf(sources, name, () => ({})),
      { path },
    ),
  ),
  key(
    "sources.*.recursive",
    "flag",
    "whether to look below folders that are no skills",
    ({ sources }, recursive, [, name]) =>
      Object.assign(
        entryOf(sources, name, () => ({})),
        { recursive },
      ),
  ),
  modelKey("provider", "provider", "who has the model that this alias stands for", "provider"),
  modelKey("model", "text", "its name there", "model"),
  modelKey("base_url", "address", "where it is asked, for a server of your own", "baseUrl"),
  modelKey(
    "api_key",
    "text",
    'the key, `"env:NAME"` or `"file:PATH"`; without it, the variable that the provider names',
    "apiKey",
    { isSecret: true },
  ),
  modelKey("timeout_seconds", "size", "how long one answer may take", "seconds"),
  modelKey("retries", "number", "how often it is asked again after a failure that may pass", "retries"),
  modelKey("max_tokens", "size", "how much it may say at once", "maxTokens"),
  modelKey(
    "context_window",
    "size",
    "how many tokens it can read at once; that of its family when left out, where the family is known",
    "contextWindow",
  ),
  priceKey("input", "dollars for a million tokens that a model of this name reads"),
  priceKey("output", "and that it writes"),
  priceKey("cached", "and that its provider had kept; as `input`"),
  key(
    "tools.disabled",
    "texts",
    "tools that no run is given",
    ({ tools }, disabled) => Object.assign(tools, { disabled }),
    { default: [] },
  ),
  key(
    "tools.dynamic_commands",
    "flag",
    "whether commands in the instructions of trusted skills are run",
    ({ tools }, dynamicCommands) => Object.assign(tools, { dynamicCommands }),
    { default: false },
  ),
  ...SEARCH_KEYS,
  mcpKey("command", "command", "the program that is started as a server of tools, over MCP", "command"),
  mcpKey("url", "address", "or where a server is that runs already", "url"),
  key(
    "tools.mcp.*.env.UPPER_CASE",
    "text",
    'a variable for the program: a value, `"env:NAME"` or `"file:PATH"`',
    ({ mcp }, value, [, , name, , variable = ""]) => serverOf(mcp, name).env.set(variable, String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  mcpKey("token", "text", 'the bearer token for the address, `"env:NAME"` or `"file:PATH"`', "token", {
    isSecret: true,
  }),
  mcpKey("timeout_seconds", "size", "how long one call may take; `60`", "seconds"),
  mcpKey("enabled", "flag", "whether it is started at all; `true`", "enabled"),
  mcpKey("tools", "texts", "the only tools of it that runs are given; all without it", "tools"),
  mcpKey("skills", "flag", "whether the skills of this server are listed and can be loaded", "skills", {
    default: false,
  }),
  mcpKey("without_asking", "texts", "tools of it that are called without asking anybody", "withoutAsking"),
  key(
    "mcp.use_client_key",
    "flag",
    "whether `use_skill` may spend an API key that a client, such as Claude Code, passes to `skillet serve`",
    ({ serving }, useClientKey) => Object.assign(serving, { useClientKey }),
    { default: false },
  ),
  limitKey("max_iterations", "how often a skill that says nothing of it asks its model", "iterations"),
  limitKey("most_iterations", "how often one that does may ask at most", "mostIterations"),
  limitKey("timeout_seconds", "how long a run may take, with all that it calls", "seconds"),
  limitKey("nesting", "how deep skills may call skills; 1: not at all", "nesting"),
  limitKey("tokens", "how many tokens a run may use, with all that it calls; no bound without it", "tokens"),
  limitKey("tool_timeout_seconds", "how long one call of a tool may take", "toolSeconds"),
  limitKey("tool_output", "how many characters of a tool's output a model gets", "toolOutput"),
  runsKey("keep_days", "for how many days runs are kept", "days"),
  runsKey("keep", "how many of those that are over", "most"),
  disclosureKey(
    "mode",
    "mode",
    "`adaptive` decides by the query what a model is shown; `static` lists all skills once, to be invoked with `use_skill`, and adds no instructions",
    "mode",
    { workspace: "always", default: "adaptive" },
  ),
  disclosureKey("max_skills", "number", "how many skills' full instructions a query brings at most", "maxSkills", {
    workspace: "only less",
    default: DEFAULTS.maxSkills,
  }),
  disclosureKey("budget", "number", "how many tokens the instructions that a query brings take at most", "budget", {
    workspace: "only less",
    default: DEFAULTS.budget,
  }),
  disclosureKey(
    "listing_budget",
    "number",
    "how many tokens the list of skills takes at most; when left out, 1 % of the model's context window where that is known",
    "listingBudget",
    { workspace: "only less", default: DEFAULTS.listingBudget },
  ),
  disclosureKey("asks", "texts", "further queries that ask what there is", "asks", { workspace: "always" }),
  disclosureKey(
    "shortlist",
    "flag",
    "whether up to five skills that fit by their words are named when none is triggered; when left out, after a list of skills, and one that fits beyond doubt elsewhere",
    "shortlist",
    { workspace: "always" },
  ),
  sandboxKey(
    "level",
    "level",
    "the isolation that code runs with; `strong`, and `partial` on macOS; `none` switches it off",
  ),
  sandboxKey("engine", "engine", "what keeps code apart; `bubblewrap`, and `seatbelt` on macOS"),
  sandboxKey("image", "text", "what a container of docker or podman is made from"),
  sandboxKey("program", "path", "the program that is called as docker or podman; the system's own"),
  sandboxKey(
    "network",
    "endpoints",
    "what every sandbox may reach, as `host:port`, or `unix:PATH` for a socket of the workspace",
    SANDBOX_DEFAULTS.network,
  ),
  sandboxKey(
    "python_index",
    "endpoints",
    "where the Python packages of scripts are fetched from",
    SANDBOX_DEFAULTS.pythonIndex,
    (pythonIndex: string[]) => ({ pythonIndex }),
  ),
  sandboxKey(
    "workspace",
    "access",
    "whether every sandbox sees the workspace; without it, scripts read it, and the tools of a run write to it when you approve",
  ),
  sandboxKey("memory_mib", "size", "how much memory a run may use", SANDBOX_DEFAULTS.memory / MIB, (mib: number) => ({
    memory: mib * MIB,
  })),
  sandboxKey("processes", "size", "how many processes a run may have", SANDBOX_DEFAULTS.processes),
  sandboxKey(
    "disk_mib",
    "size",
    "how much a run may write to each folder of its own",
    SANDBOX_DEFAULTS.disk / MIB,
    (mib: number) => ({ disk: mib * MIB }),
  ),
  scriptKey("timeout_seconds", "how long a script may run", "seconds"),
  scriptKey("output_bytes", "how much it may print", "output"),
  scriptKey("arguments", "how many arguments it may be given", "arguments"),
  scriptKey("argument_bytes", "how many bytes they may be together", "argumentBytes"),
  ...providerKeys("capabilities.providers.*", ({ providers }, parts) => providerOf(providers, parts[2]), {
    hasPlainName: true,
  }),
  namedProviderKey("chat_types", "texts", 'the chats that it is there for; `["private"]`', "chatTypes"),
  namedProviderKey("allow_chat_ids", "texts", "the only chats that it is there for; `[]` lets all", "allowChatIds"),
  namedProviderKey("base_url", "address", "where the system behind it is, for one that is built in", "baseUrl"),
  namedProviderKey(
    "client_id",
    "text",
    "what its sign-in pages know this program by, for one that is built in",
    "clientId",
  ),
  key(
    "capabilities.providers.*.env.UPPER_CASE",
    "text",
    "a variable of its program: a value, `env:NAME`, or `file:PATH`",
    ({ providers }, value, parts) => providerOf(providers, parts[2]).env.set(parts[4] ?? "", String(value)),
    { isSecret: true, hasPlainName: true },
  ),
  capabilityKey("calls_per_run", "size", "how many calls a run may make of capabilities", "calls"),
  capabilityKey("changes_per_run", "number", "how many of these may change something", "changes"),
  capabilityKey(
    "vault_passphrase_file",
    "path",
    "a file that what is kept of sign-ins is encrypted with, in place of a key of the system's",
    "passphraseFile",
  ),
];

/** The keys for people to read. */
export function settingsTable(): { path: string; type: string; means: string; isForWorkspace: boolean }[] {
  return KEYS.map(({ path, type, means, workspace, default: usual }) => ({
    path,
    type: TYPES[type].say,
    means: usual === undefined ? means : `${means}; \`${JSON.stringify(usual)}\``,
    isForWorkspace: workspace !== undefined,
  }));
}

function key(path: string, type: Key["type"], means: string, set: SetKey, rest: Rest = {}): Key {
  return { path, type, means, set, ...rest };
}

function skillKey(name: string, type: Key["type"], means: string, field: keyof OneSkill, rest: Rest = {}): Key {
  const set: SetKey = ({ skills }, value, parts) => Object.assign(skillOf(skills, parts[1]), { [field]: value });
  return key(`skills.*.${name}`, type, means, set, rest);
}

function skillOf(skills: Values["skills"], name: string | undefined): OneSkill {
  return entryOf(skills, name, () => ({ variables: new Map() }));
}

function modelKey(name: string, type: Key["type"], means: string, field: keyof ModelSettings, rest: Rest = {}): Key {
  const set: SetKey = ({ models }, value, parts) =>
    Object.assign(
      entryOf(models, parts[1], () => ({})),
      { [field]: value },
    );
  return key(`models.*.${name}`, type, means, set, rest);
}

function mcpKey(name: string, type: Key["type"], means: string, field: keyof McpSettings, rest: Rest = {}): Key {
  const set: SetKey = ({ mcp }, value, parts) => Object.assign(serverOf(mcp, parts[2]), { [field]: value });
  return key(`tools.mcp.*.${name}`, type, means, set, { hasPlainName: true, ...rest });
}

function serverOf(servers: Values["mcp"], name: string | undefined): OneServer {
  return entryOf(servers, name, () => ({ env: new Map() }));
}

function priceKey(name: keyof Price, means: string): Key {
  return key(`prices.*.${name}`, "price", means, ({ prices }, value, parts) =>
    Object.assign(
      entryOf(prices, parts[1], () => ({})),
      { [name]: value },
    ),
  );
}

function providerKeys(
  table: string,
  providerIn: (values: Values, parts: readonly string[]) => ProviderSettings,
  rest: Rest = {},
): readonly Key[] {
  const row = (name: string, type: Key["type"], means: string, field: keyof ProviderSettings): Key =>
    key(
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

function namedProviderKey(name: string, type: Key["type"], means: string, field: keyof ProviderSettings): Key {
  const set: SetKey = ({ providers }, value, parts) =>
    Object.assign(providerOf(providers, parts[2]), { [field]: value });
  return key(`capabilities.providers.*.${name}`, type, means, set, { hasPlainName: true });
}

function providerOf(providers: Values["providers"], name: string | undefined): OneProvider {
  return entryOf(providers, name, () => ({ env: new Map() }));
}

function capabilityKey(name: string, type: Key["type"], means: string, field: keyof CapabilitySettings): Key {
  const set: SetKey = ({ capabilities }, value) => Object.assign(capabilities, { [field]: value });
  const usual = CAPABILITY_DEFAULTS[field];
  return key(`capabilities.${name}`, type, means, set, usual === undefined ? {} : { default: usual });
}

function disclosureKey(name: string, type: Key["type"], means: string, field: keyof DisclosureSettings, rest: Rest) {
  const set: SetKey = ({ disclosure }, value) => Object.assign(disclosure, { [field]: value });
  return key(`disclosure.${name}`, type, means, set, rest);
}

function sandboxKey(
  name: string,
  type: Key["type"],
  means: string,
  usual?: unknown,
  read: (value: never) => Partial<SandboxSettings> = (value) => ({ [name]: value }),
): Key {
  const set: SetKey = ({ sandbox }, value) => Object.assign(sandbox, read(value as never));
  return key(`sandbox.${name}`, type, means, set, usual === undefined ? {} : { default: usual });
}

function scriptKey(name: string, means: string, limit: keyof ScriptLimits): Key {
  const set: SetKey = ({ scripts }, value) => Object.assign(scripts, { [limit]: value });
  return key(`scripts.${name}`, "size", means, set, { workspace: "only less", default: SCRIPT_DEFAULTS[limit] });
}

function limitKey(name: string, means: string, limit: keyof RunLimits): Key {
  const set: SetKey = ({ limits }, value) => Object.assign(limits, { [limit]: value });
  const usual = RUN_DEFAULTS[limit];
  const rest: Rest = { workspace: "only less", ...(usual === undefined ? {} : { default: usual }) };
  return key(`limits.${name}`, "size", means, set, rest);
}

function runsKey(name: string, means: string, kept: keyof Retention): Key {
  return key(`runs.${name}`, "size", means, ({ runs }, value) => Object.assign(runs, { [kept]: value }), {
    default: RETENTION[kept],
  });
}
