import { SkillError } from "../shared/error.ts";
import type { Host } from "./host.ts";
import type { Notice } from "./sandbox.ts";
import { NO_SETTINGS, type Settings } from "./settings.ts";

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
  if (settings !== undefined && COMPLETE.get(settings) === settings) return given as Host;
  const wrong = wrongPart(given);
  if (wrong) throw new SkillError("host-invalid", wrong);
  return { ...given, settings: completeSettings(settings) };
}

/** The same for a run, which resolves: a problem in place of an exception. */
export function readHost(given: HostOptions | undefined): { host: Host; problem?: Notice } {
  try {
    return { host: completeHost(given) };
  } catch (error) {
    const { code, message, fix = "" } = error as SkillError;
    return { host: { settings: NO_SETTINGS }, problem: { code, message, fix } };
  }
}

/** Completed settings by what was given: caches are by identity, and live settings stay live. */
const COMPLETE = new WeakMap<object, Settings>([[NO_SETTINGS, NO_SETTINGS]]);

function completeSettings(parts: SettingsParts | undefined): Settings {
  if (parts === undefined) return NO_SETTINGS;
  const known = COMPLETE.get(parts);
  if (known) return known;
  const isWhole = PARTS.every((part) => isWholePart(part, parts[part]));
  const settings = isWhole
    ? (parts as Settings)
    : (Object.fromEntries(PARTS.map((part) => [part, completePart(part, parts[part])])) as unknown as Settings);
  COMPLETE.set(parts, settings);
  COMPLETE.set(settings, settings);
  return settings;
}

const PARTS = Object.keys(NO_SETTINGS) as (keyof Settings)[];
/** Maps that the values of a part's map must have. */
const INNER_MAPS: Readonly<Partial<Record<keyof Settings, string>>> = { skills: "variables", mcp: "env" };

function isWholePart(part: keyof Settings, value: unknown): boolean {
  if (value === undefined) return false;
  const inner = INNER_MAPS[part];
  if (inner !== undefined) return [...(value as Map<string, object>).values()].every((one) => inner in one);
  return Object.keys(NO_SETTINGS[part]).every((key) => key in (value as object));
}

function completePart(part: keyof Settings, value: unknown): unknown {
  const usual = NO_SETTINGS[part];
  if (value === undefined) return usual;
  const inner = INNER_MAPS[part];
  if (inner !== undefined) {
    const entries = [...(value as Map<string, object>)];
    return new Map(entries.map(([name, one]) => [name, { [inner]: new Map(), ...one }]));
  }
  return usual instanceof Map || Array.isArray(usual) ? value : { ...usual, ...(value as object) };
}

type Kind = "text" | "flag" | "function" | "list" | "object";

const KINDS: Readonly<Record<Kind, { is(value: unknown): boolean; say: string }>> = {
  text: { is: (value) => typeof value === "string", say: "a string" },
  flag: { is: (value) => typeof value === "boolean", say: "true or false" },
  function: { is: (value) => typeof value === "function", say: "a function" },
  list: { is: Array.isArray, say: "an array" },
  object: { is: (value) => value !== null && typeof value === "object" && !Array.isArray(value), say: "an object" },
};

/** What each part of a host must be. */
const MEMBERS: Readonly<Record<keyof Host, Kind>> = {
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

interface Wrong {
  message: string;
  fix: string;
}

function wrongPart(given: unknown): Wrong | undefined {
  if (!KINDS.object.is(given)) return { message: "The host must be an object", fix: "give {} for the defaults" };
  for (const [name, kind] of Object.entries(MEMBERS)) {
    const value = (given as Record<string, unknown>)[name];
    if (value !== undefined && !KINDS[kind].is(value))
      return {
        message: `host.${name} must be ${KINDS[kind].say}`,
        fix: `leave ${name} out, or give ${KINDS[kind].say}`,
      };
  }
  return wrongSetting((given as HostOptions).settings);
}

function wrongSetting(settings: SettingsParts | undefined): Wrong | undefined {
  for (const part of settings === undefined ? [] : PARTS) {
    const value = settings?.[part];
    const usual = NO_SETTINGS[part];
    const isFine =
      usual instanceof Map
        ? value instanceof Map && [...value.values()].every(KINDS.object.is)
        : KINDS[Array.isArray(usual) ? "list" : "object"].is(value) && !(value instanceof Map);
    if (value === undefined || isFine) continue;
    const what = usual instanceof Map ? "a Map of objects" : KINDS[Array.isArray(usual) ? "list" : "object"].say;
    return {
      message: `host.settings.${part} must be ${what}`,
      fix: `create the settings from plain objects: createSettings({ ${part}: … })`,
    };
  }
  return undefined;
}
