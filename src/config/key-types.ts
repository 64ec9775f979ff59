import { isAbsolute } from "node:path";
import { DISCLOSURE_MODES } from "../catalog/catalog.ts";
import { MODEL_PROVIDERS, type ModelPrice, type ModelSettings } from "../host/model-contract.ts";
import { ISOLATION_LEVELS } from "../host/sandbox-contract.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE, SYSTEM_PACKAGE_NAME } from "../skill/requirements.ts";
import type { RunRetention } from "../store/run-summary.ts";
import {
  type CapabilitySettings,
  type ProviderSettings,
  type RunLimits,
  SANDBOX_ENGINES,
  type SandboxSettings,
  type ScriptLimits,
  WORKSPACE_ACCESS,
  type WorkspaceAccess,
} from "./limits.ts";
import type { DisclosureSettings, McpSettings, ServingSettings, ToolSettings } from "./settings.ts";

/** What a value of the configuration must be. */
interface KeyType {
  is(value: unknown): boolean;
  say: string;
  /** One, where words alone leave a doubt how it is written. */
  example?: string;
  /** A value as it is written on a command line. */
  read(written: string): unknown;
}

// What is exactly a host is judged where it is opened: that takes more than a start should load.
// The bracket by its number: editors read it in the schema, and their engines take it for a class of its own.
export const ENDPOINT_PATTERN = /^(?:unix:\S.*|(?:[^\s:/@\x5b\]]+|\[[\da-fA-F:.]+\]):\d{1,5})$/;

export const NAMESPACE_PATTERN = /^[a-z][a-z0-9_-]*$/;
export const CAPABILITY_PATTERN = /^[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*\.(?:\*|[a-z][a-z0-9_-]*)$/;

/** How many packages of a kind a skill is given at most. */
export const MAX_PACKAGES = 32;

export const KEY_TYPES = {
  text: createTextType(() => true, 'text in quotes, "…"'),
  path: createTextType(isAbsolute, 'a whole path in quotes, "/…"'),
  address: createTextType(isWebAddress, 'a web address in quotes, "https://…", without a name or password in it'),
  alias: createTextType((value) => !value.includes("/"), "an alias of the user's configuration"),
  access: createEnumType(WORKSPACE_ACCESS),
  mode: createEnumType(DISCLOSURE_MODES),
  engine: createEnumType(SANDBOX_ENGINES),
  level: createEnumType(ISOLATION_LEVELS),
  provider: createEnumType(MODEL_PROVIDERS),
  search: createEnumType(["searxng", "brave", "tavily"]),
  flag: {
    is: (value) => typeof value === "boolean",
    say: "true or false",
    read: (written) => ({ true: true, false: false })[written] ?? written,
  },
  number: createNumberType((value) => Number.isSafeInteger(value) && value >= 0, "a whole number", "20"),
  size: createNumberType((value) => Number.isSafeInteger(value) && value >= 1, "a whole number above 0", "20"),
  patience: createNumberType(
    (value) => Number.isSafeInteger(value) && value >= 1 && value <= 300,
    "a whole number, 1 to 300",
    "30",
  ),
  price: createNumberType((value) => Number.isFinite(value) && value >= 0, "a number of dollars", "2.5"),
  texts: createListType(() => true, 'a list of texts, ["…"]'),
  command: createListType((item) => item !== "", 'a program and its arguments, ["…"]', 1),
  capabilities: createListType(
    (item) => CAPABILITY_PATTERN.test(item),
    'a list of capabilities, ["gog.email"]; `gog.*` is all of gog',
  ),
  namespace: createTextType(
    (value) => NAMESPACE_PATTERN.test(value),
    'a name of small letters, digits, `-` and `_` in quotes, "gog"',
  ),
  endpoints: createListType(
    (item) => ENDPOINT_PATTERN.test(item),
    'a list of hosts with their ports, or of sockets of the workspace, ["api.example.com:443", "unix:db.sock"]',
  ),
  systemPackages: createPackagesType(
    SYSTEM_PACKAGE_NAME,
    'a list of Debian packages by their exact names, ["poppler-utils"]',
  ),
  pythonPackages: createPackagesType(
    PYTHON_PACKAGE,
    'a list of Python packages, ["pypdf", "pillow>=10"]; no URL, path or option',
  ),
  npmPackages: createPackagesType(
    NPM_PACKAGE,
    'a list of npm packages, ["docx", "pptxgenjs@^3"]; no URL, path or alias',
  ),
} satisfies Record<string, KeyType>;

/** Whether a workspace's word counts beside what the user said, or what holds where the user said nothing. */
export const WORKSPACE_RULES = {
  always: () => true,
  "not what is switched off": (_: unknown, ours: unknown) => ours !== false,
  "only less": (theirs: unknown, ours: unknown) => ours === undefined || Number(theirs) < Number(ours),
};

function createTextType(is: (value: string) => boolean, say: string): KeyType {
  return { is: (value) => typeof value === "string" && is(value), say, read: (written) => written };
}

function createEnumType(choices: readonly string[]): KeyType {
  return createTextType((value) => choices.includes(value), choices.map((choice) => `"${choice}"`).join(", "));
}

function createNumberType(is: (value: number) => boolean, say: string, example: string): KeyType {
  const read = (written: string) => (/^[\d.]+$/.test(written) ? Number(written) : written);
  return { is: (value) => typeof value === "number" && is(value), say, example, read };
}

function createListType(
  is: (item: string) => boolean,
  say: string,
  least = 0,
  most = Number.POSITIVE_INFINITY,
): KeyType {
  const isItem = (item: unknown) => typeof item === "string" && is(item);
  const isList = (value: unknown) =>
    Array.isArray(value) && value.length >= least && value.length <= most && value.every(isItem);
  return { is: isList, say, read: parseList };
}

function createPackagesType(pattern: RegExp, say: string): KeyType {
  return createListType((item) => pattern.test(item), `${say}; at most ${MAX_PACKAGES}`, 0, MAX_PACKAGES);
}

/** `a,b`, or JSON where an item holds a comma. */
function parseList(written: string): unknown {
  if (!written.trimStart().startsWith("[")) {
    return written.split(",").flatMap((item) => item.trim() || []);
  }
  try {
    return JSON.parse(written);
  } catch {
    return undefined;
  }
}

function isWebAddress(value: string): boolean {
  const address = URL.parse(value);
  return /^https?:$/.test(address?.protocol ?? "") && `${address?.username}${address?.password}` === "";
}

/** What the configuration says, before defaults fill it up. */
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
  serving: ServingSettings;
  limits: Partial<RunLimits>;
  runs: Partial<RunRetention>;
  providers: Map<string, ProviderValues>;
  capabilities: Partial<CapabilitySettings>;
}

export interface SkillValues {
  enabled?: boolean;
  enabledBy?: "workspace";
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  model?: string;
  allowChatIds?: readonly string[];
  dynamicCommands?: boolean;
  /** Packages that the user gives to its code: Python's, npm's and the system's. */
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

export interface ProviderValues extends ProviderSettings {
  env: Map<string, string>;
}

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
    providers: new Map(),
    capabilities: {},
  };
}

/** What is said of the one with this name, made when first asked for. */
export function getOrCreateEntry<T>(all: Map<string, T>, name: string | undefined, make: () => T): T {
  const one = all.get(name ?? "") ?? make();
  all.set(name ?? "", one);
  return one;
}
