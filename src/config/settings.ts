import { existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { DisclosureMode } from "../catalog/catalog.ts";
import { getErrorMessage } from "../errors/problem.ts";
import type { ModelPrice, ModelSettings } from "../host/model-contract.ts";
import { type Diagnostic, diagnose } from "../skill/skill.ts";
import { type Environment, expandPath } from "../skill/source/locations.ts";
import { DEFAULT_RUN_RETENTION, type RunRetention } from "../store/run-rules.ts";
import { omitUndefined } from "../util/objects.ts";
import { getUserHome } from "../util/system.ts";
import type { ConfigEntry, ConfigFile, ConfigOwner } from "./config-file.ts";
import type { Host } from "./host.ts";
import type { ConfigValues } from "./key-types.ts";
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
  type WorkspaceAccess,
} from "./limits.ts";

export interface SkillSettings {
  enabled?: boolean;
  /** Enabled by a workspace, not by the user: the skill is available, but gets no further permissions. */
  enabledBy?: "workspace";
  model?: string;
  allowChatIds?: readonly string[];
  /** The network and workspace access of its sandbox, overriding the settings of all sandboxes. */
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  /** The cost ceilings of its runs. */
  cost?: CostCeilings;
  /** Runs commands in its instructions, overriding the setting for all skills. */
  dynamicCommands?: boolean;
  /** Additional Python, npm and system packages for its code. */
  python?: readonly string[];
  npm?: readonly string[];
  packages?: readonly string[];
  /** The provider of the capabilities that it declares. */
  provider?: ProviderSettings;
  /** The capabilities that the operator granted. */
  capabilities?: readonly string[];
  /** Values of the environment variables that the skill declares, by exact name. */
  variables: ReadonlyMap<string, string>;
}

export interface ExtraSource {
  name: string;
  path: string;
  recursive?: boolean;
}

/** The settings of the user and, within narrow bounds, of the workspace. */
export interface Settings {
  skills: ReadonlyMap<string, SkillSettings>;
  defaults: { allowChatIds: readonly string[] };
  sources: readonly ExtraSource[];
  disclosure: DisclosureSettings;
  sandbox: SandboxSettings;
  scripts: ScriptLimits;
  /** Models by alias, in the order of the file. */
  models: ReadonlyMap<string, ModelSettings>;
  /** Prices by the name of the model at its provider. */
  prices: ReadonlyMap<string, ModelPrice>;
  tools: ToolSettings;
  /** MCP servers by name. */
  mcp: ReadonlyMap<string, McpSettings>;
  serving: ServingSettings;
  limits: RunLimits;
  /** The retention of recorded runs. */
  runs: RunRetention;
  engine: EngineSettings;
  /** The site of the documentation, to which errors of the command line link. */
  docs: { url?: string };
  /** Capability providers by name. */
  providers: ReadonlyMap<string, ProviderSettings>;
  capabilities: CapabilitySettings;
}

/** The settings of `skillet serve`. */
export interface ServingSettings {
  /** Allows a server that a client started to use the API key of the client. Undefined: the user has not decided. */
  useClientKey?: boolean;
  /** The address by which clients reach the server, with its path. */
  publicUrl?: string;
  /** The addresses of reverse proxies whose `X-Forwarded-For` counts. */
  trustedProxies?: readonly string[];
  /** The authorization server whose access tokens are accepted. Only read when a server starts. */
  oauth?: OauthSettings;
  /** The tenants of people, by name. */
  tenants?: ReadonlyMap<string, TenantSettings>;
  /** The people who may call the server over HTTP, by name. */
  people?: ReadonlyMap<string, PersonSettings>;
}

/** An OAuth authorization server. */
export interface OauthSettings {
  issuer?: string;
  /** The audience of its tokens. Defaults to the address of the server. */
  audience?: string;
  /** The address of its keys. Defaults to the one in its metadata. */
  jwksUrl?: string;
  algorithms?: readonly string[];
  /** The claim with the name of the person. Defaults to `sub`. */
  userClaim?: string;
  tenantClaim?: string;
  /** The text before each scope. Defaults to none. */
  scopePrefix?: string;
}

/** The limits of all people of a tenant together. */
export interface TenantSettings {
  cost?: CostCeilings;
  /** The maximum scripts, tools of skills and sub-agents that run at once. Others wait. */
  concurrency?: number;
  /** The maximum of them that start in a minute. Others are refused. */
  callsPerMinute?: number;
}

/** The settings of a person who calls a server. */
export interface PersonSettings {
  /** False refuses all credentials of the person. */
  enabled?: boolean;
  tenant?: string;
  cost?: CostCeilings;
  /** The workspace of the person's sessions, instead of the server's. */
  workspace?: string;
  chatType?: string;
  chatId?: string;
  /** The only skills of the person. Defaults to all served skills. */
  skills?: readonly string[];
  /** The only capabilities that skills may use for the person. Defaults to those granted to each skill. */
  capabilities?: readonly string[];
  /** The person's values of the variables of skills, by skill and name. */
  variables: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** The search engine of `web_search`. */
export interface WebSearchSettings {
  provider?: SearchProvider;
  url?: string;
  /** The key itself, `env:NAME` or `file:PATH`. */
  apiKey?: string;
  /** The maximum results. Defaults to 5. */
  results?: number;
}

export const SEARCH_PROVIDERS = ["searxng", "brave", "tavily"] as const;
export type SearchProvider = (typeof SEARCH_PROVIDERS)[number];

export interface ToolSettings {
  webSearch?: WebSearchSettings;
  /** Tools that no run is given. */
  disabled: readonly string[];
  /** Runs commands in instructions (an exclamation mark before code) when a trusted skill is loaded or used. */
  dynamicCommands: boolean;
}

/** An MCP server: a program of the user, or an address. */
export interface McpSettings {
  enabled?: boolean;
  command?: readonly string[];
  url?: string;
  /** Unresolved environment variables of the program: a value, `env:NAME` or `file:PATH`. */
  env: ReadonlyMap<string, string>;
  token?: string;
  /** The timeout of a call. */
  seconds?: number;
  /** The only tools that runs get. Defaults to all. */
  tools?: readonly string[];
  /** Uses its skills as a source. Defaults to false. */
  skills?: boolean;
  /** Tools that need no approval. */
  autoApprove?: readonly string[];
}

/** The amount of skill content that a model gets. Every field has a default. */
export interface DisclosureSettings {
  mode?: DisclosureMode;
  maxSkills?: number;
  budget?: number;
  listingBudget?: number;
  listIntents?: readonly string[];
  shortlist?: boolean;
}

/** The settings without any configuration. */
export const DEFAULT_SETTINGS: Settings = {
  skills: new Map(),
  defaults: { allowChatIds: [] },
  sources: [],
  disclosure: {},
  sandbox: DEFAULT_SANDBOX_SETTINGS,
  scripts: DEFAULT_SCRIPT_LIMITS,
  models: new Map(),
  prices: new Map(),
  tools: { disabled: [], dynamicCommands: false },
  mcp: new Map(),
  serving: {},
  limits: DEFAULT_RUN_LIMITS,
  runs: DEFAULT_RUN_RETENTION,
  engine: DEFAULT_ENGINE_SETTINGS,
  docs: {},
  providers: new Map(),
  capabilities: DEFAULT_CAPABILITY_SETTINGS,
};

export interface LoadedSettings {
  settings: Settings;
  diagnostics: readonly Diagnostic[];
  /** The expected files, the user's first. `fingerprint`: that of the applied content, if the files are watched. */
  files: readonly { path: string; exists: boolean; fingerprint?: string }[];
  /** True if a file could not be read: defaults are used instead, or its previous content if the files are watched. */
  isBroken: boolean;
  /** The values in effect, with their position. */
  entries: readonly ConfigEntry[];
  /** Values of a workspace that the user's values override. */
  overruled: readonly ConfigEntry[];
}

/** Reads the user's configuration, then the few keys that a workspace may set. Never throws: problems are diagnostics. */
export async function loadSettings(environment: Environment): Promise<LoadedSettings> {
  const files: ConfigFile[] = [];
  for (const { path, owner } of listConfigFiles(environment)) files.push(await readConfigFile(path, owner));
  return mergeConfigFiles(files, environment);
}

/** Reads one file. A missing one needs no parser and no table of keys. */
async function readConfigFile(path: string, owner: ConfigOwner): Promise<ConfigFile> {
  if (isMissingFile(path)) return { path, owner, exists: false, entries: [], findings: [], rejected: [] };
  return (await import("./config-file.ts")).readConfig(path, owner);
}

function isMissingFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** Returns the configuration files, the user's first. */
export function listConfigFiles(environment: Environment): readonly { path: string; owner: ConfigOwner }[] {
  const user = { path: getUserConfigPath(environment), owner: "user" } as const;
  const workspace = { path: join(environment.workspace, ".skillet", "config.toml"), owner: "workspace" } as const;
  const ash = { path: join(environment.home, ".ash", "config.toml"), owner: "ash" } as const;
  return [user, ...(workspace.path === user.path ? [] : [workspace]), ...(existsSync(ash.path) ? [ash] : [])];
}

/** Merges configuration files into settings. Contract: `files` are those of `listConfigFiles`, in the same order. */
export function mergeConfigFiles(files: readonly ConfigFile[], environment: Environment): LoadedSettings {
  const of = (owner: ConfigOwner) => files.find((file) => file.owner === owner)?.entries ?? [];
  const { entries, overruled } = mergeEntries([...of("ash"), ...of("user")], of("workspace"));
  const settings = createSettingsFromEntries(entries, environment);
  return {
    settings,
    diagnostics: [
      ...files.flatMap(({ path, findings }) => diagnose(findings, path)),
      ...diagnoseMissingSources(settings.sources, getUserConfigPath(environment)),
    ],
    files: files.map(({ path, exists, fingerprint }) => ({ path, exists, ...omitUndefined({ fingerprint }) })),
    isBroken: files.some(isBrokenConfig),
    entries,
    overruled,
  };
}

/** Returns true if a file is not readable or not valid TOML. */
export function isBrokenConfig({ findings }: ConfigFile): boolean {
  return findings.some(({ code }) => code === "config-syntax");
}

/** Returns settings whose properties are read from `now()` at each access. */
export function createLiveSettingsView(now: () => Settings): Settings {
  const settings = createLiveView(now, Object.keys(DEFAULT_SETTINGS) as (keyof Settings)[]);
  REVISIONS.set(settings, now);
  return settings;
}

/** Returns an object that identifies the current values of the settings: the key for caches of derived data. */
export function getSettingsRevision(settings: Settings): Settings {
  return REVISIONS.get(settings)?.() ?? settings;
}

const REVISIONS = new WeakMap<Settings, () => Settings>();

/** Returns an object with these properties of another one, read from `now()` at each access. */
export function createLiveView<T extends object, K extends keyof T>(now: () => T, keys: readonly K[]): Pick<T, K> {
  const properties = keys.map((key) => [key, { enumerable: true, get: () => now()[key] }] as const);
  return Object.defineProperties({}, Object.fromEntries(properties)) as Pick<T, K>;
}

/** Returns the path of the user's configuration file. */
export function getUserConfigPath({ skilletHome }: Environment): string {
  return join(skilletHome, "config.toml");
}

function mergeEntries(
  user: readonly ConfigEntry[],
  workspace: readonly ConfigEntry[],
): { entries: ConfigEntry[]; overruled: ConfigEntry[] } {
  const entries = new Map(user.map((entry) => [formatEntryId(entry), entry]));
  const overruled: ConfigEntry[] = [];
  for (const theirs of workspace) {
    const { row, value } = theirs;
    const ours = entries.get(formatEntryId(theirs));
    if (ours?.value === value) continue; // The user has set the same value.
    if (WORKSPACE_RULES[row.workspace ?? "always"](value, ours ? ours.value : row.default))
      entries.set(formatEntryId(theirs), theirs);
    else overruled.push(theirs);
  }
  return { entries: [...entries.values()], overruled };
}

function formatEntryId({ parts }: ConfigEntry): string {
  return JSON.stringify(parts);
}

/** Creates settings from validated entries. */
export function createSettingsFromEntries(entries: readonly ConfigEntry[], environment: Environment): Settings {
  const values = createConfigValues();
  for (const { row, value, parts } of entries) row.set(values, value, parts);
  for (const { parts, owner } of entries) {
    const skill = owner === "workspace" && parts[2] === "enabled" ? values.skills.get(parts[1] ?? "") : undefined;
    if (skill) skill.enabledBy = "workspace";
  }
  return {
    skills: values.skills,
    defaults: { ...DEFAULT_SETTINGS.defaults, ...values.defaults },
    sources: resolveExtraSources(values, environment),
    disclosure: values.disclosure,
    sandbox: { ...DEFAULT_SANDBOX_SETTINGS, ...values.sandbox },
    scripts: { ...DEFAULT_SCRIPT_LIMITS, ...values.scripts },
    models: values.models,
    prices: values.prices,
    tools: { ...DEFAULT_SETTINGS.tools, ...values.tools },
    mcp: values.mcp,
    serving: values.serving,
    limits: { ...DEFAULT_RUN_LIMITS, ...values.limits },
    runs: { ...DEFAULT_RUN_RETENTION, ...values.runs },
    engine: { ...DEFAULT_ENGINE_SETTINGS, ...values.engine },
    docs: values.docs,
    providers: values.providers,
    capabilities: { ...DEFAULT_CAPABILITY_SETTINGS, ...values.capabilities },
  };
}

function diagnoseMissingSources(sources: readonly ExtraSource[], file: string): Diagnostic[] {
  const missing = sources.filter(({ path }) => !existsSync(path));
  const findings = missing.map(({ name, path }) => ({
    code: "config-source" as const,
    message: `[sources.${name}] names ${path}, which does not exist`,
  }));
  return diagnose(findings, file);
}

function resolveExtraSources(values: ConfigValues, environment: Environment): ExtraSource[] {
  return [...values.sources].flatMap(([name, { path, recursive }]) => {
    if (path === undefined) return [];
    return [
      {
        name,
        path: expandPath(path, environment, environment.skilletHome),
        ...(recursive === undefined ? {} : { recursive }),
      },
    ];
  });
}

/** Rules that decide whether a workspace's value applies, given the user's value or the default. */
export const WORKSPACE_RULES = {
  always: () => true,
  "unless disabled": (_: unknown, ours: unknown) => ours !== false,
  "only less": (theirs: unknown, ours: unknown) => ours === undefined || Number(theirs) < Number(ours),
};

export function createConfigValues(): ConfigValues {
  return {
    skills: new Map(),
    defaults: {},
    sources: new Map(),
    disclosure: {},
    sandbox: {},
    scripts: {},
    models: new Map(),
    prices: new Map(),
    tools: {},
    mcp: new Map(),
    serving: {},
    limits: {},
    runs: {},
    engine: {},
    docs: {},
    providers: new Map(),
    capabilities: {},
  };
}

const MAX_VALUE_BYTES = 64 * 1024;

/** Resolves a reference (`env:NAME`, `file:PATH`), or returns the value itself. */
export function resolveReference(
  written: string,
  host: Pick<Host, "home" | "env">,
  refuse: (why: string) => never,
): string {
  const [, kind, where = ""] = /^(env|file):(.+)$/s.exec(written) ?? [];
  const value =
    kind === "env" ? host.env?.[where] : kind === "file" ? readReferencedFile(where, host, refuse) : written;
  if (value === undefined || value === "") return refuse(`its value, ${JSON.stringify(written)}, is empty or not set`);
  if (value.includes("\0"))
    return refuse("its value contains a NUL character, which is not allowed in an environment variable");
  if (Buffer.byteLength(value) > MAX_VALUE_BYTES) return refuse("its value is larger than 64 KiB");
  return value;
}

function readReferencedFile(
  path: string,
  { home, env }: Pick<Host, "home" | "env">,
  refuse: (why: string) => never,
): string {
  const file = path.startsWith("~/")
    ? join(getUserHome(env ?? {}), path.slice(2))
    : resolve(home ?? getUserHome(env ?? {}), path);
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch (error) {
    return refuse(`${file} cannot be read: ${getErrorMessage(error)}`);
  }
}
