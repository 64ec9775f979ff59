import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DisclosureMode } from "../catalog/defaults.ts";
import { defined } from "../shared/defined.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { expandPath, type Surroundings } from "../source/locations.ts";
import { CAPABILITY_DEFAULTS, type CapabilitySettings, type ProviderSettings } from "./capability-settings.ts";
import { type Config, type ConfigOwner, type Entry, readConfig } from "./config-file.ts";
import { RULES } from "./key-types.ts";
import { RUN_DEFAULTS, type RunLimits } from "./limits.ts";
import type { ModelSettings, Price } from "./models.ts";
import { RETENTION, type Retention } from "./runs-prune.ts";
import {
  SANDBOX_DEFAULTS,
  type SandboxSettings,
  SCRIPT_DEFAULTS,
  type ScriptLimits,
  type WorkspaceAccess,
} from "./sandbox-settings.ts";
import { noValues, type Values } from "./values.ts";

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
  prices: ReadonlyMap<string, Price>;
  tools: ToolSettings;
  /** Servers of tools, by name. */
  mcp: ReadonlyMap<string, McpSettings>;
  serving: ServingSettings;
  limits: RunLimits;
  /** What is kept of runs. */
  runs: Retention;
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
export const NO_SETTINGS: Settings = {
  skills: new Map(),
  defaults: { allowChatIds: [] },
  sources: [],
  disclosure: {},
  sandbox: SANDBOX_DEFAULTS,
  scripts: SCRIPT_DEFAULTS,
  models: new Map(),
  prices: new Map(),
  tools: { disabled: [], dynamicCommands: false },
  mcp: new Map(),
  serving: {},
  limits: RUN_DEFAULTS,
  runs: RETENTION,
  providers: new Map(),
  capabilities: CAPABILITY_DEFAULTS,
};

export interface LoadedSettings {
  settings: Settings;
  diagnostics: readonly Diagnostic[];
  /** The files that were looked for, user's first. `fingerprint`: of the applied content, if the files are followed. */
  files: readonly { path: string; exists: boolean; fingerprint?: string }[];
  /** True when a file could not be read: defaults are used in its place, or its previous content if the files are followed. */
  isBroken: boolean;
  /** What counts, and where it is written. */
  entries: readonly Entry[];
  /** What a workspace says in vain: the user's own word stands against it. */
  overruled: readonly Entry[];
}

/** Reads the user's configuration, then the few keys that a workspace may set. Never throws: what is wrong is a diagnostic. */
export async function loadSettings(around: Surroundings): Promise<LoadedSettings> {
  const files: Config[] = [];
  for (const { path, owner } of configFiles(around)) files.push(await readConfig(path, owner));
  return settingsIn(files, around);
}

/** The configuration files, the user's first. */
export function configFiles(around: Surroundings): readonly { path: string; owner: ConfigOwner }[] {
  const user = { path: userConfig(around), owner: "user" } as const;
  const workspace = { path: join(around.workspace, ".skillet", "config.toml"), owner: "workspace" } as const;
  const ash = { path: join(around.home, ".ash", "config.toml"), owner: "ash" } as const;
  return [user, ...(workspace.path === user.path ? [] : [workspace]), ...(existsSync(ash.path) ? [ash] : [])];
}

/** Merges configuration files into settings. Contract: `files` are those of `configFiles`, in their order. */
export function settingsIn(files: readonly Config[], around: Surroundings): LoadedSettings {
  const of = (owner: ConfigOwner) => files.find((file) => file.owner === owner)?.entries ?? [];
  const { entries, overruled } = merge([...of("ash"), ...of("user")], of("workspace"));
  const settings = settingsFrom(entries, around);
  return {
    settings,
    diagnostics: [
      ...files.flatMap(({ path, findings }) => diagnose(findings, path)),
      ...missingSources(settings.sources, userConfig(around)),
    ],
    files: files.map(({ path, exists, fingerprint }) => ({ path, exists, ...defined({ fingerprint }) })),
    isBroken: files.some(isBroken),
    entries,
    overruled,
  };
}

/** Whether a file could not be read as TOML. */
export function isBroken({ findings }: Config): boolean {
  return findings.some(({ code }) => code === "config-syntax");
}

/** Returns settings whose properties are read from `now()` at each access. */
export function changingSettings(now: () => Settings): Settings {
  const settings = viewOf(now, Object.keys(NO_SETTINGS) as (keyof Settings)[]);
  REVISIONS.set(settings, now);
  return settings;
}

/** Returns an object that identifies the current values of the settings: the key for caches of derived data. */
export function revisionOf(settings: Settings): Settings {
  return REVISIONS.get(settings)?.() ?? settings;
}

const REVISIONS = new WeakMap<Settings, () => Settings>();

/** Returns an object with these properties of another one, read from `now()` at each access. */
export function viewOf<T extends object, K extends keyof T>(now: () => T, keys: readonly K[]): Pick<T, K> {
  const properties = keys.map((key) => [key, { enumerable: true, get: () => now()[key] }] as const);
  return Object.defineProperties({}, Object.fromEntries(properties)) as Pick<T, K>;
}

/** The user's own configuration file. */
export function userConfig({ skilletHome }: Surroundings): string {
  return join(skilletHome, "config.toml");
}

function merge(user: readonly Entry[], workspace: readonly Entry[]): { entries: Entry[]; overruled: Entry[] } {
  const entries = new Map(user.map((entry) => [idOf(entry), entry]));
  const overruled: Entry[] = [];
  for (const theirs of workspace) {
    const { row, value } = theirs;
    const ours = entries.get(idOf(theirs));
    if (ours?.value === value) continue; // The user says so, whoever says it too.
    if (RULES[row.workspace ?? "always"](value, ours ? ours.value : row.default)) entries.set(idOf(theirs), theirs);
    else overruled.push(theirs);
  }
  return { entries: [...entries.values()], overruled };
}

function idOf({ parts }: Entry): string {
  return JSON.stringify(parts);
}

/** Creates settings from judged entries. */
export function settingsFrom(entries: readonly Entry[], around: Surroundings): Settings {
  const values = noValues();
  for (const { row, value, parts } of entries) row.set(values, value, parts);
  for (const { parts, owner } of entries) {
    const skill = owner === "workspace" && parts[2] === "enabled" ? values.skills.get(parts[1] ?? "") : undefined;
    if (skill) skill.enabledBy = "workspace";
  }
  return {
    skills: values.skills,
    defaults: { ...NO_SETTINGS.defaults, ...values.defaults },
    sources: extraSources(values, around),
    disclosure: values.disclosure,
    sandbox: { ...SANDBOX_DEFAULTS, ...values.sandbox },
    scripts: { ...SCRIPT_DEFAULTS, ...values.scripts },
    models: values.models,
    prices: values.prices,
    tools: { ...NO_SETTINGS.tools, ...values.tools },
    mcp: values.mcp,
    serving: values.serving,
    limits: { ...RUN_DEFAULTS, ...values.limits },
    runs: { ...RETENTION, ...values.runs },
    providers: values.providers,
    capabilities: { ...CAPABILITY_DEFAULTS, ...values.capabilities },
  };
}

function missingSources(sources: readonly ExtraSource[], file: string): Diagnostic[] {
  const missing = sources.filter(({ path }) => !existsSync(path));
  const findings = missing.map(({ name, path }) => ({
    code: "config-source" as const,
    message: `[sources.${name}] names ${path}, which is not there`,
  }));
  return diagnose(findings, file);
}

function extraSources(values: Values, around: Surroundings): ExtraSource[] {
  return [...values.sources].flatMap(([name, { path, recursive }]) => {
    if (path === undefined) return [];
    return [
      { name, path: expandPath(path, around, around.skilletHome), ...(recursive === undefined ? {} : { recursive }) },
    ];
  });
}
