export { openAudit } from "./capability/audit.ts";
export { type CapabilityOptions, openCapabilities } from "./capability/open.ts";
export { openVault } from "./capability/vault.ts";
export { ASKS } from "./catalog/asks.ts";
export { type Catalog, type Definition, type IsDenied, openCatalog, type SourceSummary } from "./catalog/catalog.ts";
export { type ContentOptions, skillContent } from "./catalog/content.ts";
export type { CueKind } from "./catalog/cues.ts";
export { type DiscloseOptions, type Disclosure, disclose, TIERS, type Tier } from "./catalog/disclose.ts";
export {
  createEmbeddedMatcher,
  type EmbeddedMatcher,
  type EmbeddedMatches,
  type Embedder,
} from "./catalog/embedder.ts";
export {
  type Evaluation,
  evaluate,
  type Miss,
  recall,
  type Score,
  type SkillScore,
  type Subject,
} from "./catalog/evaluate.ts";
export { promptListing, promptSection, type SectionOptions } from "./catalog/listing.ts";
export {
  LEVELS,
  type Level,
  type Match,
  type Matcher,
  type Matches,
  type MatchOptions,
  openMatcher,
  type Reason,
} from "./catalog/match.ts";
export type { TriggerWeight, WeakCause } from "./catalog/selectivity.ts";
export { type Shortlist, selectShortlist } from "./catalog/shortlist.ts";
export type { ErrorCode } from "./codes/codes.ts";
export { CODES, type Code } from "./codes/findings.ts";
export {
  type Approval,
  type Approvals,
  type Approve,
  type Effect,
  openApprovals,
  type WordScope,
} from "./host/approvals.ts";
export type { Caller } from "./host/caller.ts";
export type {
  Audit,
  AuditEntry,
  AuditLine,
  AuditVerdict,
  Capabilities,
  CapabilityProvider,
  Credential,
  Vault,
  VaultEntry,
} from "./host/capabilities.ts";
export type { HostOptions, SettingsParts } from "./host/complete-host.ts";
export { createSettings, type SettingsInput, type SkillInput } from "./host/create-settings.ts";
export { type Discovered, type DiscoverOptions, discover } from "./host/discover.ts";
export {
  type RunEvent,
  type SkillEvent,
  type SkillExpanded,
  type SkillsInstalled,
  STOPS,
  type Stop,
} from "./host/events.ts";
export { type Grants, openGrants } from "./host/grants.ts";
export type { Host } from "./host/host.ts";
export type { Journal } from "./host/journal.ts";
export type { JournalLine, JournalText, RunHead, RunTail } from "./host/journal-lines.ts";
export type { RunLimits } from "./host/limits.ts";
export { closeMcpServers } from "./host/mcp/end.ts";
export type {
  CallResult,
  Message,
  Model,
  ModelReply,
  ModelRequest,
  ModelSettings,
  Price,
  Provider,
  SdkModel,
  Task,
  ToolCall,
  ToolOffer,
  Usage,
} from "./host/models.ts";
export type { HostPolicy, PolicyContext, PolicyDenial, Purpose } from "./host/policies.ts";
export {
  type NewRun,
  openRuns,
  type Retention,
  RUN_STATES,
  type RunState,
  type RunSummary,
  type Runs,
} from "./host/runs.ts";
export {
  type Command,
  type Ending,
  type Endpoint,
  FIXED_VARIABLES,
  type Isolation,
  LEVELS as ISOLATION_LEVELS,
  type Level as IsolationLevel,
  type Limits,
  type Mount,
  type Notice,
  type Outcome,
  type OutputStream,
  type RunOptions,
  type Sandbox,
} from "./host/sandbox.ts";
export type { Engine, SandboxSettings, ScriptLimits, WorkspaceAccess } from "./host/sandbox-settings.ts";
export type {
  DisclosureSettings,
  ExtraSource,
  LoadedSettings,
  Settings,
  SkillSettings,
} from "./host/settings.ts";
export { openStatistics, type SkillStatistics, type Statistics } from "./host/statistics.ts";
export { openSystem, type System } from "./host/system.ts";
export { type Change, openTrust, type Standing, type Trust, type TrustedSkill } from "./host/trust.ts";
export { type CatalogChange, type WatchOptions, watchCatalog } from "./host/watch.ts";
export { SkillInstallationError } from "./install/error.ts";
export { type Denial, denials, type Policy, unavailability } from "./policy/policy.ts";
export { type EvaluateOptions, evaluatePrompt, type PromptResult } from "./prompt/evaluate.ts";
export { VisibilityExpansionRequired } from "./prompt/open-sections.ts";
export type { Override } from "./prompt/override.ts";
export {
  type BindOptions,
  type Prompt,
  type PromptTemplate,
  type PromptTemplateOptions,
  promptTemplate,
  type RenderedPrompt,
  type RenderOptions,
} from "./prompt/prompt.ts";
export type { Shown } from "./prompt/render.ts";
export {
  markdown,
  type Section,
  type SectionOptions as MarkdownOptions,
  type Visibility,
  type VisibilitySelector,
} from "./prompt/section.ts";
export { openPromptSession, type PromptSession, type PromptSessionOptions } from "./prompt/session.ts";
export { type SkillOptions, type SkillSection, skill } from "./prompt/skill.ts";
export { type RefReason, type SkillRef, SkillRefError, type SkillRefOptions, skillRef } from "./prompt/skill-ref.ts";
export {
  type SkillSource,
  type SkillsSection,
  type SkillsSectionOptions,
  type SkillsSectionParams,
  skillsSection,
} from "./prompt/skills-section.ts";
export type { Params, Value as ParamValue } from "./prompt/template.ts";
export { type Check, planUse, type UsePlan } from "./run/plan-use.ts";
export { type RunResult, skillResult, wrapResult } from "./run/result.ts";
export { type ResumeOptions, resumeRun } from "./run/resume.ts";
export { runScript, type ScriptEvent, type ScriptRequest, type ScriptResult } from "./run/script.ts";
export type { Run } from "./run/start-run.ts";
export { type UseRequest, useSkill } from "./run/use.ts";
export { type AdviceMemory, createAdviceMemory, openAdviceFiles } from "./session/advice-memory.ts";
export { type Advice, type AdviseContext, type AdvisedSkill, advise } from "./session/advise.ts";
export { type AgentTool, createAgentTools } from "./session/agent-tools.ts";
export { type Conversation, type ConverseOptions, converse, type SendOptions } from "./session/converse.ts";
export { resumeChat } from "./session/resume-chat.ts";
export {
  type Activation,
  type ActiveSkill,
  type By,
  type LoadOptions,
  openSession,
  type Session,
  type SessionAdviseOptions,
  type SessionCallOptions,
  type SessionOptions,
  type TellOptions,
} from "./session/session.ts";
export { PromptValidationError, SkillError } from "./shared/error.ts";
export type { Data } from "./skill/data.ts";
export { defineSkill, type SkillDefinition } from "./skill/define.ts";
export type { StandardSchema, ToolContext, ToolDefinition, ToolOutput } from "./skill/define-tool.ts";
export {
  type Diagnostic,
  type Finding,
  type Position,
  PROFILES,
  type Profile,
  type Severity,
} from "./skill/diagnostic.ts";
export type { Script, Triggers } from "./skill/fields.ts";
export type { Form } from "./skill/frame.ts";
export type { Manifest } from "./skill/manifest.ts";
export { type ParsedSkillMd, parseSkillMd } from "./skill/parse-skill-md.ts";
export { toSkillMd } from "./skill/render.ts";
export { findScript, type SkillScript, sandboxPathOf, scriptsOf } from "./skill/script.ts";
export { type FileList, type Origin, SCOPES, type Scope, type Skill, type SkillFile } from "./skill/skill.ts";
export {
  type CallOptions,
  Tool,
  type ToolEffect,
  type ToolOutcome,
  type ToolOwner,
  type ToolProgram,
  type ToolResult,
  type ToolSandbox,
} from "./skill/tool.ts";
export {
  type CheckedFile,
  type CheckOptions,
  type CheckResult,
  checkPath,
  checkText,
  validateSkillFile,
} from "./source/check.ts";
export { type CopiedFile, copySkill, digestOf, type SkillCopy } from "./source/digest.ts";
export { type DirectoryOptions, directorySource } from "./source/directory.ts";
export { type Location, locations, type Surroundings } from "./source/locations.ts";
export { inlineSource, type Loaded, type Source } from "./source/source.ts";
export type { Watcher } from "./source/watch.ts";
