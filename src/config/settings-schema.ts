import { DISCLOSURE_MODES, type DisclosureMode } from "../catalog/catalog.ts";
import { SkillError } from "../errors/problem.ts";
import { MODEL_PROVIDERS, type ModelPrice, type ModelProvider } from "../host/model-contract.ts";
import { ISOLATION_LEVELS, type IsolationLevel } from "../host/sandbox-contract.ts";
import { NPM_PACKAGE, PYTHON_PACKAGE, SYSTEM_PACKAGE_NAME } from "../skill/skill.ts";
import type { JsonObject } from "../util/objects.ts";
import {
  type ConfigEntry,
  PLAIN_NAME,
  type SettingsOwner,
  type TomlLeaf,
  UPPER_CASE,
  validateConfigValue,
} from "./config-file.ts";
import { CONFIG_KEYS, type ConfigKey } from "./config-keys.ts";
import { resolveEnvironment } from "./discover.ts";
import {
  CAPABILITY_PATTERN,
  DATABASE_PATTERN,
  DATE_PATTERN,
  ENDPOINT_PATTERN,
  type KEY_TYPES,
  MAX_PACKAGES,
  NAMESPACE_PATTERN,
  REFERENCE_PATTERN,
} from "./key-types.ts";
import {
  type CostCeilings,
  SANDBOX_ENGINES,
  type SandboxEngine,
  WORKSPACE_ACCESS,
  type WorkspaceAccess,
} from "./limits.ts";
import { createSettingsFromEntries, type OauthSettings, type SearchProvider, type Settings } from "./settings.ts";

/** Configuration as an object: the keys of config.toml, in camelCase. Variables of a skill are under its `env`. */
export interface SettingsInput {
  skills?: Readonly<Record<string, SkillInput>> & { readonly defaults?: { allowChatIds?: readonly string[] } };
  /** Additional folders of skills, for `discover`. Relative paths start at the working directory. */
  sources?: Readonly<Record<string, { path: string; recursive?: boolean }>>;
  models?: Readonly<Record<string, ModelInput>>;
  prices?: Readonly<Record<string, ModelPrice>>;
  tools?: {
    disabled?: readonly string[];
    dynamicCommands?: boolean;
    webSearch?: { provider?: SearchProvider; url?: string; apiKey?: string; results?: number };
    mcp?: Readonly<Record<string, McpInput>>;
  };
  mcp?: { useClientKey?: boolean };
  /** The people who may call `skillet serve --http`. */
  server?: {
    publicUrl?: string;
    trustedProxies?: readonly string[];
    oauth?: OauthSettings;
    tenants?: Readonly<
      Record<string, { limits?: { cost?: CostCeilings }; concurrency?: number; callsPerMinute?: number }>
    >;
    people?: Readonly<Record<string, PersonInput>>;
  };
  limits?: {
    maxIterations?: number;
    iterationCap?: number;
    timeoutSeconds?: number;
    nesting?: number;
    tokens?: number;
    cost?: CostCeilings;
    toolTimeoutSeconds?: number;
    toolOutput?: number;
  };
  runs?: { keepDays?: number; keep?: number };
  engine?: {
    url?: string;
    sealKey?: string;
    slots?: number;
    tenantSlots?: number;
    leaseSeconds?: number;
    outageSeconds?: number;
    drainSeconds?: number;
    attempts?: number;
  };
  docs?: { url?: string };
  disclosure?: {
    mode?: DisclosureMode;
    maxSkills?: number;
    budget?: number;
    listingBudget?: number;
    listIntents?: readonly string[];
    shortlist?: boolean;
  };
  sandbox?: {
    level?: IsolationLevel;
    engine?: SandboxEngine;
    image?: string;
    program?: string;
    network?: readonly string[];
    pythonIndex?: readonly string[];
    workspace?: WorkspaceAccess;
    memoryMib?: number;
    processes?: number;
    diskMib?: number;
  };
  scripts?: { timeoutSeconds?: number; outputBytes?: number; arguments?: number; argumentBytes?: number };
  capabilities?: {
    providers?: Readonly<Record<string, NamedProviderInput>>;
    callsPerRun?: number;
    changesPerRun?: number;
    vaultPassphraseFile?: string;
  };
}

export interface SkillInput {
  enabled?: boolean;
  /** An alias, or `provider/model`. */
  model?: string;
  /** The only chats that may use the skill. An empty list allows all. */
  allowChatIds?: readonly string[];
  /** Values of the variables that the skill declares: the value, `env:NAME` or `file:PATH`. */
  env?: Readonly<Record<string, string>>;
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  limits?: { cost?: CostCeilings };
  dynamicCommands?: boolean;
  /** Python, npm and Debian packages for the skill's code. */
  python?: readonly string[];
  npm?: readonly string[];
  packages?: readonly string[];
  capabilities?: readonly string[];
  capabilityProvider?: ProviderInput;
}

interface PersonInput {
  enabled?: boolean;
  tenant?: string;
  limits?: { cost?: CostCeilings };
  workspace?: string;
  chatType?: string;
  chatId?: string;
  skills?: readonly string[];
  capabilities?: readonly string[];
  /** Values of variables by skill: the value, `env:NAME` or `file:PATH`. */
  variables?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

interface ProviderInput {
  enabled?: boolean;
  namespace?: string;
  command?: readonly string[];
  timeoutSeconds?: number;
}

interface NamedProviderInput extends ProviderInput {
  chatTypes?: readonly string[];
  allowChatIds?: readonly string[];
  baseUrl?: string;
  clientId?: string;
  env?: Readonly<Record<string, string>>;
}

interface ModelInput {
  provider?: ModelProvider;
  model?: string;
  baseUrl?: string;
  apiKey?: string;
  timeoutSeconds?: number;
  retries?: number;
  requestsPerMinute?: number;
  tokensPerMinute?: number;
  maxTokens?: number;
  contextWindow?: number;
}

interface McpInput {
  command?: readonly string[];
  url?: string;
  env?: Readonly<Record<string, string>>;
  token?: string;
  timeoutSeconds?: number;
  enabled?: boolean;
  tools?: readonly string[];
  skills?: boolean;
  autoApprove?: readonly string[];
}

/** Creates settings from an object, with the rules of config.toml. Throws a SkillError that names every invalid key. */
export function createSettings(input: SettingsInput = {}): Settings {
  const problems: string[] = [];
  const entries: ConfigEntry[] = [];
  for (const { parts, value, written } of walkInput(input)) {
    const checked = validateConfigValue(parts, value, "user", written.join("."));
    if (!("code" in checked)) entries.push({ parts, value, row: checked, owner: "user", file: "", line: 0 });
    else {
      const meant =
        checked.meant === undefined ? "" : `; did you mean ${checked.meant.split(".").map(toCamelCase).join(".")}?`;
      problems.push(checked.message + meant);
    }
  }
  if (problems.length > 0)
    throw new SkillError("settings-invalid", {
      message: problems.join("\n"),
      fix: "use the keys of config.toml in camelCase: docs/config.md",
    });
  // Relative paths of a program start at the working directory.
  return createSettingsFromEntries(entries, { ...resolveEnvironment({}), skilletHome: process.cwd() });
}

interface InputLeaf {
  /** The key path in config.toml. */
  parts: TomlLeaf[0];
  value: unknown;
  /** The key path in the input. */
  written: readonly string[];
}

function* walkInput(
  table: object,
  parts: readonly string[] = [],
  written: readonly string[] = [],
): Generator<InputLeaf> {
  for (const [name, value] of Object.entries(table)) {
    if (value === undefined) continue;
    const isName = NAMED_TABLES.has(parts.join("."));
    const below =
      isVariablesTable([...parts, name]) && isPlainObject(value)
        ? parts
        : [...parts, isName ? name : toSnakeCase(name)];
    if (isPlainObject(value)) yield* walkInput(value, below, [...written, name]);
    else yield { parts: below, value, written: [...written, name] };
  }
}

/** The tables whose keys are names that users choose. */
const NAMED_TABLES: ReadonlySet<string> = new Set(
  CONFIG_KEYS.flatMap(({ path }) => (path.includes(".*") ? path.slice(0, path.indexOf(".*")) : [])),
);

/** Returns true for the `env` table of a skill, whose variables are keys of the skill table in config.toml. */
function isVariablesTable([table, , last]: readonly string[]): boolean {
  return table === "skills" && last === "env";
}

function isPlainObject(value: unknown): value is object {
  const prototype = value !== null && typeof value === "object" ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === null;
}

function toSnakeCase(name: string): string {
  return /^[a-z]/.test(name) ? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : name;
}

function toCamelCase(name: string): string {
  return /^[a-z]/.test(name) ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}

/** Creates the JSON Schema with which editors complete and check the config.toml of the user or of a workspace. */
export function createSettingsSchema(owner: SettingsOwner): JsonObject {
  const rows = CONFIG_KEYS.filter(({ workspace }) => owner === "user" || workspace !== undefined);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: owner === "user" ? "~/.skillet/config.toml" : ".skillet/config.toml of a workspace",
    description:
      owner === "user"
        ? "Your settings for skills, models, limits and sandboxes."
        : "The settings that a workspace may change. Limits only apply if they are lower than yours.",
    ...createTableSchema(
      rows.map((row) => ({ row, parts: row.path.split(".") })),
      owner,
    ),
  };
}

/** A key, and the remaining parts of its path. */
interface SchemaRow {
  row: ConfigKey;
  parts: readonly string[];
}

function createTableSchema(rows: readonly SchemaRow[], owner: SettingsOwner): JsonObject {
  const properties: JsonObject = {};
  const patternProperties: JsonObject = {};
  let additionalProperties: unknown = false;
  for (const [name, inner] of Map.groupBy(rows, ({ parts }) => parts[0] ?? "")) {
    const [first] = inner;
    const below = inner.map(({ row, parts }) => ({ row, parts: parts.slice(1) }));
    const shape = first?.parts.length === 1 ? createLeafSchema(first.row, owner) : createTableSchema(below, owner);
    if (name === "UPPER_CASE") patternProperties[UPPER_CASE.source] = shape;
    else if (name !== "*") properties[name] = shape;
    else if (first?.row.hasPlainName) patternProperties[PLAIN_NAME.source] = shape;
    else additionalProperties = shape;
  }
  const isNamed = (table: JsonObject) => Object.keys(table).length > 0;
  return {
    type: "object",
    ...(isNamed(properties) ? { properties } : {}),
    ...(isNamed(patternProperties) ? { patternProperties } : {}),
    additionalProperties,
  };
}

function createLeafSchema(
  { means, type, workspaceType = type, default: usual }: ConfigKey,
  owner: SettingsOwner,
): JsonObject {
  return {
    description: means,
    ...TYPE_SCHEMAS[owner === "user" ? type : workspaceType],
    ...(usual === undefined ? {} : { default: usual }),
  };
}

/** `KEY_TYPES` as JSON Schema. A test compares both with the same values. */
const TYPE_SCHEMAS: Readonly<Record<keyof typeof KEY_TYPES, JsonObject>> = {
  text: { type: "string" },
  // Paths of any system: the same file may be used on all of them.
  path: { type: "string", pattern: "^(?:/|\\\\|[A-Za-z]:[\\\\/])", examples: ["/etc/skillet/passphrase"] },
  address: {
    type: "string",
    pattern: "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@\\\\\\s]+(?:[/?#\\\\]|$)",
    examples: ["https://api.example.com/v1"],
  },
  database: { type: "string", pattern: DATABASE_PATTERN.source, examples: ["env:DATABASE_URL"] },
  reference: { type: "string", pattern: REFERENCE_PATTERN.source, examples: ["env:SKILLET_SEAL_KEY"] },
  alias: { type: "string", pattern: "^[^/]*$", examples: ["fast"] },
  access: { enum: WORKSPACE_ACCESS },
  mode: { enum: DISCLOSURE_MODES },
  engine: { enum: SANDBOX_ENGINES },
  level: { enum: ISOLATION_LEVELS },
  provider: { enum: MODEL_PROVIDERS },
  search: { enum: ["searxng", "brave", "tavily"] },
  flag: { type: "boolean" },
  number: { type: "integer", minimum: 0 },
  size: { type: "integer", minimum: 1 },
  patience: { type: "integer", minimum: 1, maximum: 300 },
  price: { type: "number", minimum: 0 },
  date: { type: "string", pattern: DATE_PATTERN.source, examples: ["2026-11-19"] },
  texts: createTextListSchema({}),
  command: { ...createTextListSchema({ minLength: 1 }), minItems: 1, examples: [["node", "/opt/notes/provider.ts"]] },
  capabilities: { ...createTextListSchema({ pattern: CAPABILITY_PATTERN.source }), examples: [["gog.email"]] },
  namespace: { type: "string", pattern: NAMESPACE_PATTERN.source, examples: ["gog"] },
  endpoints: { ...createTextListSchema({ pattern: ENDPOINT_PATTERN.source }), examples: [["api.example.com:443"]] },
  systemPackages: createPackagesSchema(SYSTEM_PACKAGE_NAME, "poppler-utils"),
  pythonPackages: createPackagesSchema(PYTHON_PACKAGE, "pypdf"),
  npmPackages: createPackagesSchema(NPM_PACKAGE, "docx"),
};

function createTextListSchema(item: JsonObject): JsonObject {
  return { type: "array", items: { type: "string", ...item } };
}

function createPackagesSchema({ source }: RegExp, example: string): JsonObject {
  return { ...createTextListSchema({ pattern: source }), maxItems: MAX_PACKAGES, examples: [[example]] };
}
