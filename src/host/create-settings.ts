import type { DisclosureMode } from "../catalog/defaults.ts";
import { SkillError } from "../shared/error.ts";
import { dotted, type Entry, judge, type Leaf } from "./config-file.ts";
import { surroundings } from "./discover.ts";
import { KEYS } from "./keys.ts";
import type { Price, Provider } from "./models.ts";
import type { Level } from "./sandbox.ts";
import type { Engine, WorkspaceAccess } from "./sandbox-settings.ts";
import { type SearchProvider, type Settings, settingsFrom } from "./settings.ts";

/** Configuration as an object: the keys of config.toml, in camelCase. Variables of a skill are under its `env`. */
export interface SettingsInput {
  skills?: Readonly<Record<string, SkillInput>> & { readonly defaults?: { allowChatIds?: readonly string[] } };
  /** Further folders of skills, for `discover`. A relative path is relative to the current folder. */
  sources?: Readonly<Record<string, { path: string; recursive?: boolean }>>;
  models?: Readonly<Record<string, ModelInput>>;
  prices?: Readonly<Record<string, Price>>;
  tools?: {
    disabled?: readonly string[];
    dynamicCommands?: boolean;
    webSearch?: { provider?: SearchProvider; url?: string; apiKey?: string; results?: number };
    mcp?: Readonly<Record<string, McpInput>>;
  };
  mcp?: { useClientKey?: boolean };
  limits?: {
    maxIterations?: number;
    mostIterations?: number;
    timeoutSeconds?: number;
    nesting?: number;
    tokens?: number;
    toolTimeoutSeconds?: number;
    toolOutput?: number;
  };
  runs?: { keepDays?: number; keep?: number };
  disclosure?: {
    mode?: DisclosureMode;
    maxSkills?: number;
    budget?: number;
    listingBudget?: number;
    asks?: readonly string[];
    shortlist?: boolean;
  };
  sandbox?: {
    level?: Level;
    engine?: Engine;
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
  /** The only chats that may use the skill. An empty list lets all. */
  allowChatIds?: readonly string[];
  /** Values of the variables that the skill declares: the value, `env:NAME` or `file:PATH`. */
  env?: Readonly<Record<string, string>>;
  network?: readonly string[];
  workspace?: WorkspaceAccess;
  dynamicCommands?: boolean;
  /** Packages for the skill's code: of Python, npm and Debian. */
  python?: readonly string[];
  npm?: readonly string[];
  packages?: readonly string[];
  capabilities?: readonly string[];
  capabilityProvider?: ProviderInput;
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
  provider?: Provider;
  model?: string;
  baseUrl?: string;
  apiKey?: string;
  timeoutSeconds?: number;
  retries?: number;
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
  withoutAsking?: readonly string[];
}

/** Creates settings from an object, by the rules of config.toml. Throws a SkillError that names every key which cannot be used. */
export function createSettings(input: SettingsInput = {}): Settings {
  const problems: string[] = [];
  const entries: Entry[] = [];
  for (const { parts, value, written } of leavesOf(input)) {
    const judged = judge(parts, value, "user");
    if (!("code" in judged)) entries.push({ parts, value, row: judged, owner: "user", file: "", line: 0 });
    else {
      const meant =
        judged.meant === undefined ? "" : `; did you mean ${judged.meant.split(".").map(camelCase).join(".")}?`;
      problems.push(judged.message.replace(dotted(parts), written.join(".")) + meant);
    }
  }
  if (problems.length > 0)
    throw new SkillError("settings-invalid", {
      message: problems.join("\n"),
      fix: "the keys are those of config.toml, in camelCase: docs/config.md",
    });
  // A relative path of a program is relative to the current folder.
  return settingsFrom(entries, { ...surroundings({}), skilletHome: process.cwd() });
}

interface InputLeaf {
  /** As config.toml has it. */
  parts: Leaf[0];
  value: unknown;
  /** As the program wrote it. */
  written: readonly string[];
}

function* leavesOf(
  table: object,
  parts: readonly string[] = [],
  written: readonly string[] = [],
): Generator<InputLeaf> {
  for (const [name, value] of Object.entries(table)) {
    if (value === undefined) continue;
    const isName = NAMED.has(parts.join("."));
    const below = isVariables([...parts, name]) && isPlain(value) ? parts : [...parts, isName ? name : snakeCase(name)];
    if (isPlain(value)) yield* leavesOf(value, below, [...written, name]);
    else yield { parts: below, value, written: [...written, name] };
  }
}

/** The tables whose keys are names that users choose. */
const NAMED: ReadonlySet<string> = new Set(
  KEYS.flatMap(({ path }) => (path.includes(".*") ? path.slice(0, path.indexOf(".*")) : [])),
);

/** In config.toml the variables of a skill are keys of its table. */
function isVariables([table, , last]: readonly string[]): boolean {
  return table === "skills" && last === "env";
}

function isPlain(value: unknown): value is object {
  const prototype = value !== null && typeof value === "object" ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === null;
}

function snakeCase(name: string): string {
  return /^[a-z]/.test(name) ? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : name;
}

function camelCase(name: string): string {
  return /^[a-z]/.test(name) ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
}
