import { existsSync } from "node:fs";
import { type Problem, SkillError } from "../errors/problem.ts";
import type { Approve } from "../host/approval.ts";
import type { Capabilities } from "../host/capability-contract.ts";
import type { SkillEvent, SkillEventListener } from "../host/events.ts";
import type { Caller, HostPolicy } from "../host/host-policy.ts";
import type { AiSdkModel, Model } from "../host/model-contract.ts";
import type { Sandbox } from "../host/sandbox-contract.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import type { RunStore } from "../store/runs.ts";
import type { StatisticsStore } from "../store/statistics.ts";
import type { SecretGrants, TrustStore } from "../store/trust.ts";
import { findSystemProgram } from "../util/system.ts";
import type { SandboxSettings } from "./limits.ts";
import { DEFAULT_SETTINGS, type Settings } from "./settings.ts";

/** What the embedding program decides. */
export interface Host {
  settings: Settings;
  /** The folder that paths from a model are relative to; the folders of skills, when left out. It can name none outside of these. */
  workspace?: string;
  /** The skill's folder as the model sees it, where that differs from the real one. */
  folderOf?: (skill: Skill) => string | undefined;
  /** skillet's own folder, where sandboxes are kept; `~/.skillet` when left out. */
  home?: string;
  /** What keeps code apart, in place of what the settings choose. */
  sandbox?: Sandbox;
  /** Whose code may run. Everybody's, when left out: it is the embedding program's to say. */
  trust?: TrustStore;
  /** What this machine has. What a skill needs of it is not judged when left out. */
  system?: SystemInfo;
  /** Where values such as `env:NAME` are taken from; nowhere when left out. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Whether a client started this program and chose its environment: then an API key in it is the client's, and needs the user's consent. */
  isEnvOfClient?: boolean;
  /** Models by alias, before those of the settings: of the AI SDK, or of your own making. The one called `default` is the default, or else the first. */
  models?: Readonly<Record<string, Model | AiSdkModel>>;
  /** Tools for runs, beside those that are built in. */
  tools?: readonly Tool[];
  /** Whether tools that are built in are offered to runs: `bash`, `read_file`, … True when left out. */
  hasBuiltInTools?: boolean;
  /** On whose behalf skills are loaded and used. */
  caller?: Caller;
  /** Rules of the embedding program, applied after the built-in ones. A skill that one denies is hidden and refused. */
  policies?: readonly HostPolicy[];
  /** Which skill's values were given to which copy of it. Any copy gets them, when left out. */
  grants?: SecretGrants;
  /** Sensitive systems that skills may be given, and who serves them. None, when left out. */
  capabilities?: Capabilities;
  /** Asks somebody whether a call may be made. Left out: a run that is written down waits, and in any other nobody agrees. */
  approve?: Approve;
  /** What the user agreed to once and for all. Nothing, when left out. */
  approvals?: ApprovalStore;
  /** Where runs are written down, so that they can be gone on with. Nowhere, when left out. */
  runs?: RunStore;
  /** Where it is counted what is used. Nowhere, when left out. */
  statistics?: StatisticsStore;
  /** Called with everything that happens. What it throws is nobody's problem but its own. */
  onEvent?: SkillEventListener;
}

/** The parts of a host that a program gives. Each is optional. */
export interface HostOptions extends Omit<Partial<Host>, "settings"> {
  /** Settings, as `createSettings` and `discover` return them, or any part of them. */
  settings?: SettingsParts;
}

/** Settings of which any part can be left out. */
export type SettingsParts = {
  readonly [Part in keyof Settings]?: Settings[Part] extends ReadonlyMap<string, infer One>
    ? ReadonlyMap<string, Partial<One>>
    : Settings[Part] extends readonly unknown[]
      ? Settings[Part]
      : Partial<Settings[Part]>;
};

/** Adds the defaults to what a program gives. Throws a SkillError that names the part which cannot be used. */
export function completeHost(given: HostOptions = {}): Host {
  const { settings } = Object(given) as HostOptions;
  if (settings !== undefined && COMPLETED_SETTINGS.get(settings) === settings) return given as Host;
  const wrong = findInvalidPart(given);
  if (wrong) throw new SkillError("host-invalid", wrong);
  return { ...given, settings: completeSettings(settings) };
}

/** The same for a run, which resolves: a problem in place of an exception. */
export function tryCompleteHost(given: HostOptions | undefined): { host: Host; problem?: Problem } {
  try {
    return { host: completeHost(given) };
  } catch (error) {
    const { code, message, fix = "" } = error as SkillError;
    return { host: { settings: DEFAULT_SETTINGS }, problem: { code, message, fix } };
  }
}

/** Completed settings by what was given: caches are by identity, and live settings stay live. */
const COMPLETED_SETTINGS = new WeakMap<object, Settings>([[DEFAULT_SETTINGS, DEFAULT_SETTINGS]]);

function completeSettings(parts: SettingsParts | undefined): Settings {
  if (parts === undefined) return DEFAULT_SETTINGS;
  const known = COMPLETED_SETTINGS.get(parts);
  if (known) return known;
  const isWhole = SETTINGS_PARTS.every((part) => isCompletePart(part, parts[part]));
  const settings = isWhole
    ? (parts as Settings)
    : (Object.fromEntries(
        SETTINGS_PARTS.map((part) => [part, completePart(part, parts[part])]),
      ) as unknown as Settings);
  COMPLETED_SETTINGS.set(parts, settings);
  COMPLETED_SETTINGS.set(settings, settings);
  return settings;
}

const SETTINGS_PARTS = Object.keys(DEFAULT_SETTINGS) as (keyof Settings)[];
/** Maps that the values of a part's map must have. */
const INNER_MAPS: Readonly<Partial<Record<keyof Settings, string>>> = { skills: "variables", mcp: "env" };

function isCompletePart(part: keyof Settings, value: unknown): boolean {
  if (value === undefined) return false;
  const inner = INNER_MAPS[part];
  if (inner !== undefined) return [...(value as Map<string, object>).values()].every((one) => inner in one);
  return Object.keys(DEFAULT_SETTINGS[part]).every((key) => key in (value as object));
}

function completePart(part: keyof Settings, value: unknown): unknown {
  const usual = DEFAULT_SETTINGS[part];
  if (value === undefined) return usual;
  const inner = INNER_MAPS[part];
  if (inner !== undefined) {
    const entries = [...(value as Map<string, object>)];
    return new Map(entries.map(([name, one]) => [name, { [inner]: new Map(), ...one }]));
  }
  return usual instanceof Map || Array.isArray(usual) ? value : { ...usual, ...(value as object) };
}

type ValueKind = "text" | "flag" | "function" | "list" | "object";

const VALUE_KINDS: Readonly<Record<ValueKind, { is(value: unknown): boolean; say: string }>> = {
  text: { is: (value) => typeof value === "string", say: "a string" },
  flag: { is: (value) => typeof value === "boolean", say: "true or false" },
  function: { is: (value) => typeof value === "function", say: "a function" },
  list: { is: Array.isArray, say: "an array" },
  object: { is: (value) => value !== null && typeof value === "object" && !Array.isArray(value), say: "an object" },
};

/** What each part of a host must be. */
const HOST_MEMBERS: Readonly<Record<keyof Host, ValueKind>> = {
  settings: "object",
  workspace: "text",
  folderOf: "function",
  home: "text",
  sandbox: "object",
  trust: "object",
  system: "object",
  env: "object",
  isEnvOfClient: "flag",
  models: "object",
  tools: "list",
  hasBuiltInTools: "flag",
  caller: "object",
  policies: "list",
  grants: "object",
  capabilities: "object",
  approve: "function",
  approvals: "object",
  runs: "object",
  statistics: "object",
  onEvent: "function",
};

interface InvalidPart {
  message: string;
  fix: string;
}

function findInvalidPart(given: unknown): InvalidPart | undefined {
  if (!VALUE_KINDS.object.is(given)) return { message: "The host must be an object", fix: "give {} for the defaults" };
  for (const [name, kind] of Object.entries(HOST_MEMBERS)) {
    const value = (given as Record<string, unknown>)[name];
    if (value !== undefined && !VALUE_KINDS[kind].is(value))
      return {
        message: `host.${name} must be ${VALUE_KINDS[kind].say}`,
        fix: `leave ${name} out, or give ${VALUE_KINDS[kind].say}`,
      };
  }
  return findInvalidSetting((given as HostOptions).settings);
}

function findInvalidSetting(settings: SettingsParts | undefined): InvalidPart | undefined {
  for (const part of settings === undefined ? [] : SETTINGS_PARTS) {
    const value = settings?.[part];
    const usual = DEFAULT_SETTINGS[part];
    const isFine =
      usual instanceof Map
        ? value instanceof Map && [...value.values()].every(VALUE_KINDS.object.is)
        : VALUE_KINDS[Array.isArray(usual) ? "list" : "object"].is(value) && !(value instanceof Map);
    if (value === undefined || isFine) continue;
    const what = usual instanceof Map ? "a Map of objects" : VALUE_KINDS[Array.isArray(usual) ? "list" : "object"].say;
    return {
      message: `host.settings.${part} must be ${what}`,
      fix: `create the settings from plain objects: createSettings({ ${part}: … })`,
    };
  }
  return undefined;
}

/** Tells the host, and counts. What its listener throws, now or later, breaks nothing here. */
export function notifyHost(host: Pick<Host, "onEvent" | "statistics">, event: SkillEvent): void {
  callIgnoringErrors(() => host.statistics?.take(event));
  callIgnoringErrors(() => host.onEvent?.(event));
}

/** What a listener throws, now or later, is its own business. */
export function callIgnoringErrors(listen: () => unknown): void {
  try {
    const answer = listen();
    if (answer instanceof Promise) answer.catch(() => {});
  } catch {}
}

/** Calls each listener. What one throws breaks nothing here. */
export function notifyListeners(listeners: Iterable<() => void>): void {
  for (const listener of listeners) callIgnoringErrors(listener);
}

/** What this machine can do for a skill. Looked at when asked, and once. */
export interface SystemInfo {
  platform: NodeJS.Platform;
  /** Whether code sees this machine's programs, or those of an image, which only the image knows. */
  programs: "host" | "own";
  /** Whether code in a sandbox finds this program. */
  hasProgram(name: string): boolean;
  /** The program that is to keep code apart and is not there. Quick: whether it works is tried when it is used. */
  missingEngine(): string | undefined;
  /** Whether system packages can be had here. */
  hasPackages(): boolean;
}

/** Contract: the settings are looked at when it is asked, so that they may follow their files. */
export function createSystemInfo(settings: Pick<SandboxSettings, "engine" | "level" | "program">): SystemInfo {
  const { platform } = process;
  const known = new Map<string, boolean>();
  const hasProgram = (name: string) => {
    const has = known.get(name) ?? (name === "node" || findSystemProgram(name) !== undefined);
    known.set(name, has);
    return has;
  };
  const engineOf = () => settings.engine ?? (platform === "darwin" ? "seatbelt" : "bubblewrap");
  return {
    platform,
    get programs() {
      return ["docker", "podman"].includes(engineOf()) ? "own" : "host";
    },
    hasProgram,
    missingEngine() {
      const program = ENGINE_PROGRAMS[engineOf()];
      const isNeeded = settings.level !== "none" && settings.program === undefined;
      return isNeeded && !hasProgram(program) ? program : undefined;
    },
    hasPackages: () => platform === "linux" && hasProgram("apt-get") && existsSync("/var/lib/dpkg/status"),
  };
}

const ENGINE_PROGRAMS = { bubblewrap: "bwrap", docker: "docker", podman: "podman", seatbelt: "sandbox-exec" } as const;

/** A tool that a run is given without anybody adding it. */
interface BuiltInTool {
  name: string;
  /** `sandbox`: it starts programs, so that a host can switch it off. `network`: also only where the skill was granted hosts to reach. `search`: where a search engine is configured. */
  needs?: "sandbox" | "network" | "search";
}

export const BUILT_IN_TOOLS: readonly BuiltInTool[] = [
  { name: "bash", needs: "sandbox" },
  { name: "read_file", needs: "sandbox" },
  { name: "write_file", needs: "sandbox" },
  { name: "edit_file", needs: "sandbox" },
  { name: "list_files", needs: "sandbox" },
  { name: "grep", needs: "sandbox" },
  { name: "web_search", needs: "search" },
  { name: "web_fetch", needs: "network" },
  { name: "run_skill_script", needs: "sandbox" },
  { name: "list_skills" },
  { name: "use_skill" },
  { name: "read_skill_resource" },
  { name: "complete" },
];
