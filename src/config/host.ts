import { existsSync } from "node:fs";
import { type Problem, SkillError } from "../errors/problem.ts";
import type { Approve, Caller, HostPolicy } from "../host/approval.ts";
import type { Capabilities } from "../host/capability-contract.ts";
import type { SkillEvent, SkillEventListener } from "../host/events.ts";
import type { AiSdkModel, Model } from "../host/model-contract.ts";
import type { Sandbox } from "../host/sandbox-contract.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import type { RunStore } from "../store/runs.ts";
import type { SpendingStore } from "../store/spending.ts";
import type { StatisticsStore } from "../store/statistics.ts";
import type { SecretGrants, TrustStore } from "../store/trust.ts";
import { findSystemProgram } from "../util/system.ts";
import type { SandboxSettings } from "./limits.ts";
import { DEFAULT_SETTINGS, type Settings } from "./settings.ts";

/** The services and settings that the embedding program provides. */
export interface Host {
  settings: Settings;
  /** The base folder of relative paths from a model. Defaults to the folders of the skills. Paths outside are refused. */
  workspace?: string;
  /** Returns the skill's folder as shown to the model, if it differs from the real one. */
  resolveFolder?: (skill: Skill) => string | undefined;
  /** skillet's own folder, which contains the sandboxes. Defaults to `~/.skillet`. */
  home?: string;
  /** The sandbox, instead of the one that the settings select. */
  sandbox?: Sandbox;
  /** The skills whose code may run. Defaults to all: the embedding program is responsible for trust. */
  trust?: TrustStore;
  /** The programs and packages of this machine. If undefined, requirements of skills are not checked. */
  system?: SystemInfo;
  /** The environment for values such as `env:NAME`. Defaults to an empty one. */
  env?: Readonly<Record<string, string | undefined>>;
  /** True if a client started this program with its own environment: an API key in it belongs to the client and needs the user's consent. */
  isClientEnv?: boolean;
  /** Models by alias, used before those of the settings: from the AI SDK, or your own. The default is `default`, otherwise the first. */
  models?: Readonly<Record<string, Model | AiSdkModel>>;
  /** Tools for runs, in addition to the built-in ones. */
  tools?: readonly Tool[];
  /** Provides built-in tools to runs: `bash`, `read_file`, … Defaults to true. */
  hasBuiltInTools?: boolean;
  /** The caller on whose behalf skills are loaded and used. */
  caller?: Caller;
  /** The W3C trace context of the caller, `00-TRACE-SPAN-FLAGS`: traces of runs belong to it. */
  traceParent?: string;
  /** Policies of the embedding program, applied after the built-in ones. A denied skill is hidden and refused. */
  policies?: readonly HostPolicy[];
  /** The copies of skills that may use configured values. Defaults to all copies. */
  grants?: SecretGrants;
  /** The capabilities and their providers. Defaults to none. */
  capabilities?: Capabilities;
  /** Asks the user to approve a call. If undefined, a recorded run waits, and any other run refuses the call. */
  approve?: Approve;
  /** The permanent approvals of the user. Defaults to none. */
  approvals?: ApprovalStore;
  /** The store that records runs, so that they can be resumed. If undefined, runs are not recorded. */
  runs?: RunStore;
  /** The store of what models cost, for ceilings of a day or month. If undefined, only ceilings of a run apply. */
  spending?: SpendingStore;
  /** The store of usage statistics. If undefined, nothing is counted. */
  statistics?: StatisticsStore;
  /** Called with every event. Its errors are ignored. */
  onEvent?: SkillEventListener;
}

/** The parts of a host that a program provides. Each is optional. */
export interface HostOptions extends Omit<Partial<Host>, "settings"> {
  /** Settings, as `createSettings` and `discover` return them, or any part of them. */
  settings?: SettingsParts;
}

/** Settings in which every part is optional. */
export type SettingsParts = {
  readonly [Part in keyof Settings]?: Settings[Part] extends ReadonlyMap<string, infer One>
    ? ReadonlyMap<string, Partial<One>>
    : Settings[Part] extends readonly unknown[]
      ? Settings[Part]
      : Partial<Settings[Part]>;
};

/** Adds defaults to the host of a program. Throws a SkillError that names an invalid part. */
export function completeHost(options: HostOptions = {}): Host {
  const { settings } = Object(options) as HostOptions;
  if (settings !== undefined && COMPLETED_SETTINGS.get(settings) === settings) return options as Host;
  const invalid = findInvalidPart(options);
  if (invalid) throw new SkillError("host-invalid", invalid);
  return { ...options, settings: completeSettings(settings) };
}

/** Like `completeHost`, but returns a problem instead of throwing, because a run always resolves. */
export function tryCompleteHost(options: HostOptions | undefined): { host: Host; problem?: Problem } {
  try {
    return { host: completeHost(options) };
  } catch (error) {
    return { host: { settings: DEFAULT_SETTINGS }, problem: (error as SkillError).problem };
  }
}

/** Completed settings by input object: caches compare by identity, and live settings stay live. */
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
/** The map that each entry of a part must have. */
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

const VALUE_KINDS: Readonly<Record<ValueKind, { is(value: unknown): boolean; description: string }>> = {
  text: { is: (value) => typeof value === "string", description: "a string" },
  flag: { is: (value) => typeof value === "boolean", description: "true or false" },
  function: { is: (value) => typeof value === "function", description: "a function" },
  list: { is: Array.isArray, description: "an array" },
  object: {
    is: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
    description: "an object",
  },
};

/** The kind of each part of a host. */
const HOST_MEMBERS: Readonly<Record<keyof Host, ValueKind>> = {
  settings: "object",
  workspace: "text",
  resolveFolder: "function",
  home: "text",
  sandbox: "object",
  trust: "object",
  system: "object",
  env: "object",
  isClientEnv: "flag",
  models: "object",
  tools: "list",
  hasBuiltInTools: "flag",
  caller: "object",
  traceParent: "text",
  policies: "list",
  grants: "object",
  capabilities: "object",
  approve: "function",
  approvals: "object",
  runs: "object",
  spending: "object",
  statistics: "object",
  onEvent: "function",
};

interface InvalidPart {
  message: string;
  fix: string;
}

function findInvalidPart(options: unknown): InvalidPart | undefined {
  if (!VALUE_KINDS.object.is(options))
    return { message: "The host must be an object", fix: "pass {} for the defaults" };
  for (const [name, kind] of Object.entries(HOST_MEMBERS)) {
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined && !VALUE_KINDS[kind].is(value))
      return {
        message: `host.${name} must be ${VALUE_KINDS[kind].description}`,
        fix: `omit ${name}, or pass ${VALUE_KINDS[kind].description}`,
      };
  }
  const { tools = [], settings } = options as HostOptions;
  const wrong = tools.findIndex((tool) => typeof Object(tool).name !== "string" || typeof tool.execute !== "function");
  if (wrong !== -1)
    return { message: `host.tools[${wrong}] must be a tool`, fix: "create each tool with `Tool.define`, or omit it" };
  return findInvalidSetting(settings);
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
    const expected =
      usual instanceof Map ? "a Map of objects" : VALUE_KINDS[Array.isArray(usual) ? "list" : "object"].description;
    return {
      message: `host.settings.${part} must be ${expected}`,
      fix: `create the settings from plain objects: createSettings({ ${part}: … })`,
    };
  }
  return undefined;
}

/** Sends an event to the statistics and the listener of the host, with the caller. Their errors are ignored. */
export function notifyHost(host: Pick<Host, "onEvent" | "statistics" | "caller">, sent: SkillEvent): void {
  const event = host.caller && "run" in sent && !sent.caller ? { ...sent, caller: host.caller } : sent;
  callIgnoringErrors(() => host.statistics?.record(event));
  callIgnoringErrors(() => host.onEvent?.(event));
}

/** Calls a listener and ignores its errors, synchronous or not. */
export function callIgnoringErrors(listen: () => unknown): void {
  try {
    const result = listen();
    if (result instanceof Promise) result.catch(() => {});
  } catch {}
}

/** Calls each listener and ignores its errors. */
export function notifyListeners(listeners: Iterable<() => void>): void {
  for (const listener of listeners) callIgnoringErrors(listener);
}

/** The features of this machine that skills may need. Checked on demand, once. */
export interface SystemInfo {
  platform: NodeJS.Platform;
  /** `host`: code sees this machine's programs. `own`: it sees those of an image, which are unknown here. */
  programs: "host" | "own";
  /** Returns true if code in a sandbox finds this program. */
  hasProgram(name: string): boolean;
  /** Returns the sandbox program if it is missing. Fast: it is only tested when it is used. */
  missingEngine(): string | undefined;
  /** Returns true if system packages are supported here. */
  hasPackages(): boolean;
}

/** Creates the system information. Contract: reads the settings on each call, so that they may follow their files. */
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

/** A tool that every run has by default. */
interface BuiltInTool {
  name: string;
  /** `sandbox`: it starts programs, so a host can disable it. `network`: also needs granted hosts. `search`: needs a configured search engine. */
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
