import type { CapabilitySettings, ProviderSettings } from "./capability-settings.ts";
import type { RunLimits } from "./limits.ts";
import type { ModelSettings, Price } from "./models.ts";
import type { Retention } from "./runs-prune.ts";
import type { SandboxSettings, ScriptLimits, WorkspaceAccess } from "./sandbox-settings.ts";
import type { DisclosureSettings, McpSettings, ServingSettings, ToolSettings } from "./settings.ts";

/** What the configuration says, before defaults fill it up. */
export interface Values {
  skills: Map<string, OneSkill>;
  defaults: { allowChatIds?: readonly string[] };
  sources: Map<string, { path?: string; recursive?: boolean }>;
  disclosure: DisclosureSettings;
  sandbox: Partial<SandboxSettings>;
  scripts: Partial<ScriptLimits>;
  models: Map<string, ModelSettings>;
  prices: Map<string, Price>;
  tools: Partial<ToolSettings>;
  mcp: Map<string, OneServer>;
  serving: ServingSettings;
  limits: Partial<RunLimits>;
  runs: Partial<Retention>;
  providers: Map<string, OneProvider>;
  capabilities: Partial<CapabilitySettings>;
}

export interface OneSkill {
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

export interface OneServer extends McpSettings {
  env: Map<string, string>;
}

export interface OneProvider extends ProviderSettings {
  env: Map<string, string>;
}

export function noValues(): Values {
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
export function entryOf<T>(all: Map<string, T>, name: string | undefined, make: () => T): T {
  const one = all.get(name ?? "") ?? make();
  all.set(name ?? "", one);
  return one;
}
