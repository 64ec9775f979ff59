import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DisclosureMode } from "../catalog/catalog.ts";
import type { ModelPrice, ModelSettings } from "../host/model-contract.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostics.ts";
import { type Environment, expandPath } from "../skill/source/locations.ts";
import { DEFAULT_RUN_RETENTION, type RunRetention } from "../store/run-summary.ts";
import { omitUndefined } from "../util/objects.ts";
import { type ConfigEntry, type ConfigFile, type ConfigOwner, readConfig } from "./config-file.ts";
import { type ConfigValues, createConfigValues, WORKSPACE_RULES } from "./key-types.ts";
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
  type WorkspaceAccess,
} from "./limits.ts";

export interface SkillSettings {
  enabled?: boolean;
  /** A workspace says so, and not the user: then it is there, and is given nothing for that. */
  enabledBy?: "workspace";
  model?: string;
  allowChatIds?: readonly string[];
  /** What its sandbox may reach and see, over what holds for all. */
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  /** Whether commands in its instructions are run, over what holds for all. */
  dynamicCommands?: boolean;
  /** Packages that the user gives to its code: Python's, npm's and the system's. */
  python?: readonly string[];
  npm?: readonly string[];
  packages?: readonly string[];
  /** Who serves the capabilities that it declares. */
  provider?: ProviderSettings;
  /** Capabilities that the operator gave it. */
  capabilities?: readonly string[];
  /** UPPER_CASE keys, with their exact names: values for the variables that the skill declares. */
  variables: ReadonlyMap<string, string>;
}

export interface ExtraSource {
  name: string;
  path: string;
  recursive?: boolean;
}

/** What the user and, within narrow bounds, the workspace decided. */
export interface Settings {
  skills: ReadonlyMap<string, SkillSettings>;
  defaults: { allowChatIds: readonly string[] };
  sources: readonly ExtraSource[];
  disclosure: DisclosureSettings;
  sandbox: SandboxSettings;
  scripts: ScriptLimits;
  /** By alias, in the order they are written in. */
  models: ReadonlyMap<string, ModelSettings>;
  /** By the model's name at its provider. */
  prices: ReadonlyMap<string, ModelPrice>;
  tools: ToolSettings;
  /** Servers of tools, by name. */
  mcp: ReadonlyMap<string, McpSettings>;
  serving: ServingSettings;
  limits: RunLimits;
  /** What is kept of runs. */
  runs: RunRetention;
  /** Who serves capabilities, by namespace. */
  providers: ReadonlyMap<string, ProviderSettings>;
  capabilities: CapabilitySettings;
}

/** What holds for `skillet serve`. */
export interface ServingSettings {
  /** Whether a server that a client started may spend the API key that the client passed to it. Undefined: the user has not decided. */
  useClientKey?: boolean;
}

/** The search engine behind `web_search`. */
export interface WebSearchSettings {
  provider?: SearchProvider;
  url?: string;
  /** The key itself, `env:NAME` or `file:PATH`. */
  apiKey?: string;
  /** How many results at most. Defaults to 5. */
  results?: number;
}

export const SEARCH_PROVIDERS = ["searxng", "brave", "tavily"] as const;
export type SearchProvider = (typeof SEARCH_PROVIDERS)[number];

export interface ToolSettings {
  webSearch?: WebSearchSettings;
  /** Tools that no run is given. */
  disabled: readonly string[];
  /** Whether commands in instructions (an exclamation mark before code) are run when a trusted skill is loaded or used. */
  dynamicCommands: boolean;
}

/** A server of tools that speaks MCP: a program of the user's, or an address. */
export interface McpSettings {
  enabled?: boolean;
  command?: readonly string[];
  url?: string;
  /** Variables of the program, as they are written: a value, `env:NAME`, `file:PATH`. */
  env: ReadonlyMap<string, string>;
  token?: string;
  /** How long a call may take. */
  seconds?: number;
  /** The only tools of it that there are; all when left out. */
  tools?: readonly string[];
  /** Whether its skills are a source. Defaults to false. */
  skills?: boolean;
  /** Tools of it that nobody is asked about. */
  withoutAsking?: readonly string[];
}

/** How much a model is told; what is left out has its default. */
export interface DisclosureSettings {
  mode?: DisclosureMode;
  maxSkills?: number;
  budget?: number;
  listingBudget?: number;
  asks?: readonly string[];
  shortlist?: boolean;
}

/** What holds where nothing is configured. */
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
  providers: new Map(),
  capabilities: DEFAULT_CAPABILITY_SETTINGS,
};

export interface LoadedSettings {
  settings: Settings;
  diagnostics: readonly Diagnostic[];
  /** The files that were looked for, user's first. `fingerprint`: of the applied content, if the files are followed. */
  files: readonly { path: string; exists: boolean; fingerprint?: string }[];
  /** True when a file could not be read: defaults are used in its place, or its previous content if the files are followed. */
  isBroken: boolean;
  /** What counts, and where it is written. */
  entries: readonly ConfigEntry[];
  /** What a workspace says in vain: the user's own word stands against it. */
  overruled: readonly ConfigEntry[];
}

/** Reads the user's configuration, then the few keys that a workspace may set. Never throws: what is wrong is a diagnostic. */
export async function loadSettings(around: Environment): Promise<LoadedSettings> {
  const files: ConfigFile[] = [];
  for (const { path, owner } of listConfigFiles(around)) files.push(await readConfig(path, owner));
  return mergeConfigFiles(files, around);
}

/** The configuration files, the user's first. */
export function listConfigFiles(around: Environment): readonly { path: string; owner: ConfigOwner }[] {
  const user = { path: getUserConfigPath(around), owner: "user" } as const;
  const workspace = { path: join(around.workspace, ".skillet", "config.toml"), owner: "workspace" } as const;
  const ash = { path: join(around.home, ".ash", "config.toml"), owner: "ash" } as const;
  return [user, ...(workspace.path === user.path ? [] : [workspace]), ...(existsSync(ash.path) ? [ash] : [])];
}

/** Merges configuration files into settings. Contract: `files` are those of `configFiles`, in their order. */
export function mergeConfigFiles(files: readonly ConfigFile[], around: Environment): LoadedSettings {
  const of = (owner: ConfigOwner) => files.find((file) => file.owner === owner)?.entries ?? [];
  const { entries, overruled } = mergeEntries([...of("ash"), ...of("user")], of("workspace"));
  const settings = createSettingsFromEntries(entries, around);
  return {
    settings,
    diagnostics: [
      ...files.flatMap(({ path, findings }) => diagnose(findings, path)),
      ...diagnoseMissingSources(settings.sources, getUserConfigPath(around)),
    ],
    files: files.map(({ path, exists, fingerprint }) => ({ path, exists, ...omitUndefined({ fingerprint }) })),
    isBroken: files.some(isBrokenConfig),
    entries,
    overruled,
  };
}

/** Whether a file could not be read as TOML. */
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

/** The user's own configuration file. */
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
    if (ours?.value === value) continue; // The user says so, whoever says it too.
    if (WORKSPACE_RULES[row.workspace ?? "always"](value, ours ? ours.value : row.default))
      entries.set(formatEntryId(theirs), theirs);
    else overruled.push(theirs);
  }
  return { entries: [...entries.values()], overruled };
}

function formatEntryId({ parts }: ConfigEntry): string {
  return JSON.stringify(parts);
}

/** Creates settings from judged entries. */
export function createSettingsFromEntries(entries: readonly ConfigEntry[], around: Environment): Settings {
  const values = createConfigValues();
  for (const { row, value, parts } of entries) row.set(values, value, parts);
  for (const { parts, owner } of entries) {
    const skill = owner === "workspace" && parts[2] === "enabled" ? values.skills.get(parts[1] ?? "") : undefined;
    if (skill) skill.enabledBy = "workspace";
  }
  return {
    skills: values.skills,
    defaults: { ...DEFAULT_SETTINGS.defaults, ...values.defaults },
    sources: resolveExtraSources(values, around),
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
    providers: values.providers,
    capabilities: { ...DEFAULT_CAPABILITY_SETTINGS, ...values.capabilities },
  };
}

function diagnoseMissingSources(sources: readonly ExtraSource[], file: string): Diagnostic[] {
  const missing = sources.filter(({ path }) => !existsSync(path));
  const findings = missing.map(({ name, path }) => ({
    code: "config-source" as const,
    message: `[sources.${name}] names ${path}, which is not there`,
  }));
  return diagnose(findings, file);
}

function resolveExtraSources(values: ConfigValues, around: Environment): ExtraSource[] {
  return [...values.sources].flatMap(([name, { path, recursive }]) => {
    if (path === undefined) return [];
    return [
      { name, path: expandPath(path, around, around.skilletHome), ...(recursive === undefined ? {} : { recursive }) },
    ];
  });
}
