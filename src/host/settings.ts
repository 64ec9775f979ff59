import { existsSync } from "node:fs";
import { join } from "node:path";
import { DEFAULTS } from "../catalog/defaults.ts";
import { type Diagnostic, diagnose } from "../skill/diagnostic.ts";
import { expandPath, type Surroundings } from "../source/locations.ts";
import { readConfig } from "./config-file.ts";
import type { OneSkill, Values } from "./keys.ts";
import { RUN_DEFAULTS, type RunLimits } from "./limits.ts";
import type { ModelSettings, Price } from "./models.ts";
import {
  SANDBOX_DEFAULTS,
  type SandboxSettings,
  SCRIPT_DEFAULTS,
  type ScriptLimits,
  type WorkspaceAccess,
} from "./sandbox-settings.ts";

export interface SkillSettings {
  enabled?: boolean;
  model?: string;
  allowChatIds?: readonly string[];
  /** What its sandbox may reach and see, over what holds for all. */
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  /** Whether commands in its instructions are run, over what holds for all. */
  dynamicCommands?: boolean;
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
  limits: RunLimits;
}

export interface ToolSettings {
  /** Tools that no run is given. */
  disabled: readonly string[];
  /** Whether commands in instructions (an exclamation mark before code) are run when a trusted skill is loaded or used. */
  dynamicCommands: boolean;
}

/** How much a model is told; what is left out has its default. */
export interface DisclosureSettings {
  maxSkills?: number;
  budget?: number;
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
  limits: RUN_DEFAULTS,
};

export interface LoadedSettings {
  settings: Settings;
  diagnostics: readonly Diagnostic[];
  /** The files that were looked for, user's first. */
  files: readonly { path: string; exists: boolean }[];
  /** True when a file could not be read, so that defaults stand in its place. */
  isBroken: boolean;
}

/** Reads the user's configuration, then the few keys that a workspace may set. Never throws: what is wrong is a diagnostic. */
export async function loadSettings(around: Surroundings): Promise<LoadedSettings> {
  const user = await readConfig(join(around.skilletHome, "config.toml"), "user");
  const workspacePath = join(around.workspace, ".skillet", "config.toml");
  const isSame = workspacePath === user.path;
  const workspace = isSame ? undefined : await readConfig(workspacePath, "workspace");
  const files = workspace ? [user, workspace] : [user];
  const sources = extraSources(user.values, around);
  return {
    settings: {
      skills: mergeSkills(user.values, workspace?.values),
      defaults: { allowChatIds: user.values.defaults ?? [] },
      sources,
      disclosure: mergeDisclosure(user.values.disclosure, workspace?.values.disclosure ?? {}),
      sandbox: { ...SANDBOX_DEFAULTS, ...user.values.sandbox },
      models: new Map(),
      prices: new Map(),
      tools: { disabled: [], dynamicCommands: false },
      limits: RUN_DEFAULTS,
      scripts: lower({ ...SCRIPT_DEFAULTS, ...user.values.scripts }, workspace?.values.scripts ?? {}),
    },
    diagnostics: [
      ...files.flatMap(({ path, findings }) => diagnose(findings, path)),
      ...missingSources(sources, user.path),
    ],
    files: files.map(({ path, exists }) => ({ path, exists })),
    isBroken: files.some(({ findings }) => findings.some(({ code }) => code === "config-syntax")),
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

/** The workspace's word counts, but it cannot switch on what the user switched off. */
function mergeSkills(user: Values, workspace: Values | undefined): Map<string, SkillSettings> {
  const merged = new Map<string, OneSkill>(user.skills);
  for (const [name, theirs] of workspace?.skills ?? []) {
    const ours = user.skills.get(name);
    const skill: OneSkill = { variables: new Map(), ...ours };
    if (theirs.enabled !== undefined && ours?.enabled !== false) skill.enabled = theirs.enabled;
    if (theirs.model !== undefined) skill.model = theirs.model;
    merged.set(name, skill);
  }
  return merged;
}

/** A workspace can ask for less than the user allows, not for more. */
function lower(ours: ScriptLimits, theirs: Partial<ScriptLimits>): ScriptLimits {
  const merged = { ...ours };
  for (const key of Object.keys(ours) as (keyof ScriptLimits)[])
    merged[key] = Math.min(ours[key], theirs[key] ?? ours[key]);
  return merged;
}

/** A workspace can have less told than the user allows, not more. */
function mergeDisclosure(ours: DisclosureSettings, theirs: DisclosureSettings): DisclosureSettings {
  const merged = { ...ours, ...theirs };
  for (const key of ["maxSkills", "budget"] as const) {
    if (theirs[key] !== undefined) merged[key] = Math.min(theirs[key], ours[key] ?? DEFAULTS[key]);
  }
  return merged;
}
