/** Settings, limits and the types of models and events. */

export { type SkillExpandedEvent, type SkillsInstalledEvent, STOP_REASONS } from "../host/events.ts";
export type {
  AiSdkModel,
  ModelPrice,
  ModelProvider,
  ModelSettings,
  ModelTask,
  ModelTool,
  ToolCall,
  ToolCallResult,
} from "../host/model-contract.ts";
export { createSystemInfo, type SettingsParts, type SystemInfo } from "./host.ts";
export type { RunLimits, SandboxEngine, SandboxSettings, ScriptLimits, WorkspaceAccess } from "./limits.ts";
export type { WatchCatalogOptions } from "./live-settings.ts";
export type { DisclosureSettings, ExtraSource, LoadedSettings, SkillSettings } from "./settings.ts";
export type { SkillInput } from "./settings-schema.ts";
