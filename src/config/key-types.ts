import { isAbsolute } from "node:path";
import { DISCLOSURE_MODES } from "../catalog/catalog.ts";
import { MODEL_PROVIDERS, type ModelPrice, type ModelSettings } from "../host/model-contract.ts";
import { ISOLATION_LEVELS } from "../host/sandbox-contract.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE, SYSTEM_PACKAGE_NAME } from "../skill/skill.ts";
import type { RunRetention } from "../store/run-rules.ts";
import {
  type CapabilitySettings,
  type CostCeilings,
  type EngineSettings,
  type ProviderSettings,
  type RunLimits,
  SANDBOX_ENGINES,
  type SandboxSettings,
  type ScriptLimits,
  WORKSPACE_ACCESS,
  type WorkspaceAccess,
} from "./limits.ts";
import type {
  DisclosureSettings,
  McpSettings,
  PersonSettings,
  ServingSettings,
  TenantSettings,
  ToolSettings,
} from "./settings.ts";

/** The type of a configuration value. */
interface KeyType {
  is(value: unknown): boolean;
  description: string;
  /** A valid value, as on the command line. */
  example: string;
  /** Parses a value from the command line. */
  read(text: string): unknown;
}

// Hosts are validated completely when they are used: that needs more code than a start should load.
// The bracket is written as `\x5b`: editors read the pattern from the schema, and their engines would parse a nested class.
export const ENDPOINT_PATTERN = /^(?:unix:\S.*|(?:[^\s:/@\x5b\]]+|\[[\da-fA-F:.]+\]):\d{1,5})$/;

export const NAMESPACE_PATTERN = /^[a-z][a-z0-9_-]*$/;
export const CAPABILITY_PATTERN = /^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*\.(?:\*|[a-z][a-z0-9_-]*)$/;

export const DATE_PATTERN = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;

/** A reference, or the URL of a Postgres database without a password. */
export const DATABASE_PATTERN = /^(?:(?:env|file):\S+|postgres(?:ql)?:\/\/(?!\S*password=)(?:[^\s:@/?]+@)?[^\s@]*)$/;

/** A value that is never written into the configuration itself. */
export const REFERENCE_PATTERN = /^(?:env|file):\S+$/;

/** The maximum packages of each kind for a skill. */
export const MAX_PACKAGES = 32;

export const KEY_TYPES = {
  text: createTextType(() => true, 'text in quotes, "…"', "TEXT"),
  path: createTextType(isAbsolute, 'an absolute path in quotes, "/…"', "/srv/skills"),
  address: createTextType(
    isWebAddress,
    'a web address in quotes, "https://…", without a user name or password',
    "https://skills.example.com",
  ),
  database: createTextType(
    (value) => DATABASE_PATTERN.test(value),
    '"env:NAME", "file:PATH", or a URL without a password, "postgres://skillet@db.example.com/skillet"',
    "env:DATABASE_URL",
  ),
  reference: createTextType((value) => REFERENCE_PATTERN.test(value), '"env:NAME" or "file:PATH"', "env:NAME"),
  alias: createTextType((value) => !value.includes("/"), "an alias of the user's configuration", "fast"),
  access: createEnumType(WORKSPACE_ACCESS),
  mode: createEnumType(DISCLOSURE_MODES),
  engine: createEnumType(SANDBOX_ENGINES),
  level: createEnumType(ISOLATION_LEVELS),
  provider: createEnumType(MODEL_PROVIDERS),
  search: createEnumType(["searxng", "brave", "tavily"]),
  flag: {
    is: (value) => typeof value === "boolean",
    description: "true or false",
    example: "true",
    read: (text) => ({ true: true, false: false })[text] ?? text,
  },
  number: createNumberType((value) => Number.isSafeInteger(value) && value >= 0, "a whole number", "20"),
  size: createNumberType((value) => Number.isSafeInteger(value) && value >= 1, "a whole number above 0", "20"),
  patience: createNumberType(
    (value) => Number.isSafeInteger(value) && value >= 1 && value <= 300,
    "a whole number, 1 to 300",
    "30",
  ),
  price: createNumberType((value) => Number.isFinite(value) && value >= 0, "a number of dollars", "2.5"),
  date: createTextType((value) => DATE_PATTERN.test(value), 'a day in quotes, "2026-11-19"', "2026-11-19"),
  texts: createListType(() => true, 'a list of strings, ["…"]', "ONE,TWO"),
  command: createListType((item) => item !== "", 'a program and its arguments, ["…"]', "node,/srv/provider.ts", 1),
  capabilities: createListType(
    (item) => CAPABILITY_PATTERN.test(item),
    'a list of capabilities, ["gog.email"]; `gog.*` is all of gog',
    "gog.email",
  ),
  namespace: createTextType(
    (value) => NAMESPACE_PATTERN.test(value),
    'a name of lowercase letters, digits, `-` and `_` in quotes, "gog"',
    "gog",
  ),
  endpoints: createListType(
    (item) => ENDPOINT_PATTERN.test(item),
    'a list of hosts with ports, or of sockets in the workspace, ["api.example.com:443", "unix:db.sock"]',
    "api.example.com:443",
  ),
  systemPackages: createPackagesType(
    SYSTEM_PACKAGE_NAME,
    'a list of exact names of Debian packages, ["poppler-utils"]',
    "poppler-utils",
  ),
  pythonPackages: createPackagesType(
    PYTHON_PACKAGE,
    'a list of Python packages, ["pypdf", "pillow>=10"]; no URL, path or option',
    "pypdf",
  ),
  npmPackages: createPackagesType(
    NPM_PACKAGE,
    'a list of npm packages, ["docx", "pptxgenjs@^3"]; no URL, path or alias',
    "docx",
  ),
} satisfies Record<string, KeyType>;

function createTextType(is: (value: string) => boolean, description: string, example: string): KeyType {
  return { is: (value) => typeof value === "string" && is(value), description, example, read: (text) => text };
}

function createEnumType(choices: readonly [string, ...string[]]): KeyType {
  const description = choices
    .map((choice) => `"${choice}"`)
    .join(", ")
    .replace(/, (?=[^,]*$)/, " or ");
  return createTextType((value) => choices.includes(value), description, choices[0]);
}

function createNumberType(is: (value: number) => boolean, description: string, example: string): KeyType {
  const read = (text: string) => (/^[\d.]+$/.test(text) ? Number(text) : text);
  return { is: (value) => typeof value === "number" && is(value), description, example, read };
}

function createListType(
  is: (item: string) => boolean,
  description: string,
  example: string,
  min = 0,
  max = Number.POSITIVE_INFINITY,
): KeyType {
  const isItem = (item: unknown) => typeof item === "string" && is(item);
  const isList = (value: unknown) =>
    Array.isArray(value) && value.length >= min && value.length <= max && value.every(isItem);
  return { is: isList, description, example, read: parseList };
}

function createPackagesType(pattern: RegExp, description: string, example: string): KeyType {
  const whole = `${description}; at most ${MAX_PACKAGES}`;
  return createListType((item) => pattern.test(item), whole, example, 0, MAX_PACKAGES);
}

/** Parses `a,b`, or JSON for items that contain a comma. */
function parseList(text: string): unknown {
  if (!text.trimStart().startsWith("[")) {
    return text.split(",").flatMap((item) => item.trim() || []);
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isWebAddress(value: string): boolean {
  const address = URL.parse(value);
  return /^https?:$/.test(address?.protocol ?? "") && `${address?.username}${address?.password}` === "";
}

/** The configured values, before defaults are added. */
export interface ConfigValues {
  skills: Map<string, SkillValues>;
  defaults: { allowChatIds?: readonly string[] };
  sources: Map<string, { path?: string; recursive?: boolean }>;
  disclosure: DisclosureSettings;
  sandbox: Partial<SandboxSettings>;
  scripts: Partial<ScriptLimits>;
  models: Map<string, ModelSettings>;
  prices: Map<string, ModelPrice>;
  tools: Partial<ToolSettings>;
  mcp: Map<string, ServerValues>;
  serving: ServingValues;
  limits: Partial<RunLimits>;
  runs: Partial<RunRetention>;
  engine: Partial<EngineSettings>;
  docs: { url?: string };
  providers: Map<string, ProviderValues>;
  capabilities: Partial<CapabilitySettings>;
}

export interface SkillValues {
  enabled?: boolean;
  enabledBy?: "workspace";
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  cost?: CostCeilings;
  model?: string;
  allowChatIds?: readonly string[];
  dynamicCommands?: boolean;
  /** Additional Python, npm and system packages for its code. */
  python?: readonly string[];
  npm?: readonly string[];
  packages?: readonly string[];
  provider?: ProviderSettings;
  capabilities?: readonly string[];
  variables: Map<string, string>;
}

export interface ServerValues extends McpSettings {
  env: Map<string, string>;
}

export interface ServingValues extends ServingSettings {
  people?: Map<string, PersonValues>;
  tenants?: Map<string, TenantSettings>;
}

export interface PersonValues extends PersonSettings {
  variables: Map<string, Map<string, string>>;
}

export interface ProviderValues extends ProviderSettings {
  env: Map<string, string>;
}

/** Returns the entry with this name, and creates it if it is missing. */
export function getOrCreateEntry<T>(entries: Map<string, T>, name: string | undefined, create: () => T): T {
  const entry = entries.get(name ?? "") ?? create();
  entries.set(name ?? "", entry);
  return entry;
}

/** Returns true if a value is a reference: `env:NAME` or `file:PATH`. */
export function isValueReference(value: unknown): boolean {
  return /^(?:env|file):./s.test(String(value));
}
