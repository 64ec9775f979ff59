// Find skills: `discover` looks in every standard folder; sources and catalogs are its parts.

export { type Catalog, loadCatalog } from "./catalog/catalog.ts";
export { type DiscoverOptions, type DiscoverResult, discover } from "./config/discover.ts";
export { type CatalogChange, watchCatalog } from "./config/live-settings.ts";
export {
  createInlineSource,
  type Diagnostic,
  type LoadedSkills,
  type Severity,
  type Skill,
  type SkillFile,
  type SkillOrigin,
  type SkillScope,
  type Source,
} from "./skill/skill.ts";
export { createDirectorySource, type DirectoryOptions } from "./skill/source/directory-source.ts";
export { type Location, listLocations } from "./skill/source/locations.ts";

// Disclose skills: the prompt text for a query, in the right amount.

export { type Advice, advise } from "./agent/session/advise.ts";
export { type DiscloseOptions, type Disclosure, disclose, TIERS, type Tier } from "./catalog/disclose.ts";
export { formatPromptListing, formatPromptSection } from "./catalog/listing.ts";
export type { Match } from "./catalog/search/matcher.ts";

// Load skills: a session puts instructions and tools into a conversation.

export { type Conversation, createConversation, resumeChat } from "./agent/session/conversation.ts";
export {
  type AgentTool,
  createAgentTools,
  type LoadOptions,
  openSession,
  type Session,
  type SessionOptions,
} from "./agent/session/session.ts";

// Use skills: a run hands a task to an isolated sub-agent, or runs a script.

export { planUse, type UsePlan } from "./agent/run/plan-use.ts";
export { type ResumeOptions, resumeRun } from "./agent/run/resume-run.ts";
export type { Run, RunResult } from "./agent/run/run-result.ts";
export { runScript, type ScriptRequest, type ScriptResult } from "./agent/run/run-script.ts";
export { type UseRequest, useSkill } from "./agent/run/use-skill.ts";

// The host: settings, models, callers, policies, approvals and errors that your program provides or handles.

export type { Host, HostOptions } from "./config/host.ts";
export type { Settings } from "./config/settings.ts";
export { createSettings, type SettingsInput } from "./config/settings-schema.ts";
export type { ErrorCode } from "./errors/error-codes.ts";
export { formatProblem, type Problem, SkillError } from "./errors/problem.ts";
export type { Approval, ApprovalRequest, Approve, Caller, HostPolicy, PolicyContext } from "./host/approval.ts";
export type { RunEvent, SkillEvent, StopReason } from "./host/events.ts";
export type { Message, Model, ModelReply, ModelRequest } from "./host/model-contract.ts";
export { closeMcpServers } from "./util/system.ts";

// Write and check skills and tools: in code, as text, and as files.

export { defineSkill, type SkillDefinition } from "./skill/define-skill.ts";
export type { ToolContext, ToolDefinition } from "./skill/define-tool.ts";
export { parseSkillMd } from "./skill/document.ts";
export { toSkillMd } from "./skill/frontmatter.ts";
export type { Manifest } from "./skill/manifest.ts";
export { PROFILES, type Profile } from "./skill/skill.ts";
export { type CheckResult, checkPath, checkText, validateSkillFile } from "./skill/source/check-skills.ts";
export { Tool, type ToolEffect, type ToolResult, type Usage } from "./skill/tool.ts";
