export { type Denial, findDenials, findUnavailability, type Policy } from "./agent/policy/skill-policies.ts";
export { type EvaluatePromptOptions, evaluatePrompt, type PromptResult } from "./agent/prompts/evaluate-prompt.ts";
export {
  type MarkdownOptions,
  markdown,
  type ParamValue,
  type PromptParams,
  type Section,
  type Visibility,
  type VisibilitySelector,
} from "./agent/prompts/prompt-section.ts";
export { createPromptSession, type PromptSession, type PromptSessionOptions } from "./agent/prompts/prompt-session.ts";
export {
  type BindOptions,
  type Prompt,
  type PromptTemplate,
  type PromptTemplateOptions,
  promptTemplate,
  type RenderedPrompt,
  type RenderOptions,
  type SectionOverride,
  VisibilityExpansionRequired,
} from "./agent/prompts/prompt-template.ts";
export type { RenderedSection } from "./agent/prompts/render-sections.ts";
export {
  type RefReason,
  type SkillOptions,
  type SkillRef,
  SkillRefError,
  type SkillRefOptions,
  type SkillSection,
  type SkillSource,
  type SkillsSection,
  type SkillsSectionOptions,
  type SkillsSectionParams,
  skill,
  skillRef,
  skillsSection,
} from "./agent/prompts/skill-sections.ts";
export { type PlanCheck, planUse, type UsePlan } from "./agent/run/plan-use.ts";
export { type ResumeOptions, resumeRun } from "./agent/run/resume-run.ts";
export { type Run, type RunResult, skillResult, wrapResult } from "./agent/run/run-result.ts";
export { runScript, type ScriptEvent, type ScriptRequest, type ScriptResult } from "./agent/run/run-script.ts";
export { type UseRequest, useSkill } from "./agent/run/use-skill.ts";
export {
  type Advice,
  type AdviceMemory,
  type AdviseContext,
  type AdvisedSkill,
  advise,
  createAdviceMemory,
  createFileAdviceMemory,
} from "./agent/session/advise.ts";
export { type AgentTool, createAgentTools } from "./agent/session/agent-tools.ts";
export {
  type Conversation,
  type ConversationOptions,
  createConversation,
  resumeChat,
  type SendOptions,
} from "./agent/session/conversation.ts";
export {
  type ActivationResult,
  type ActiveSkill,
  type Invoker,
  type LoadOptions,
  openSession,
  type QueryOptions,
  type Session,
  type SessionAdviseOptions,
  type SessionCallOptions,
  type SessionOptions,
} from "./agent/session/session.ts";
export { createAuditLog } from "./capabilities/audit-log.ts";
export { type CapabilityOptions, createCapabilities } from "./capabilities/configured-capabilities.ts";
export { createVault } from "./capabilities/credential-vault.ts";
export {
  type Catalog,
  type IsDenied,
  loadCatalog,
  type SkillDescriptor,
  type SourceSummary,
} from "./catalog/catalog.ts";
export { type DiscloseOptions, type Disclosure, disclose, TIERS, type Tier } from "./catalog/disclose.ts";
export { LIST_INTENT_PHRASES } from "./catalog/list-intents.ts";
export { formatPromptListing, formatPromptSection, type PromptSectionOptions } from "./catalog/listing.ts";
export {
  createEmbeddedMatcher,
  type EmbeddedMatcher,
  type EmbeddedMatches,
  type Embedder,
} from "./catalog/search/embedder.ts";
export {
  createMatcher,
  MATCH_LEVELS,
  type Match,
  type Matcher,
  type Matches,
  type MatchLevel,
  type MatchOptions,
  type MatchReason,
  type Shortlist,
  selectShortlist,
} from "./catalog/search/matcher.ts";
export type { TriggerKind } from "./catalog/search/trigger-index.ts";
export type { TriggerWeight, WeakCause } from "./catalog/search/trigger-weights.ts";
export { type ContentOptions, formatSkillContent } from "./catalog/skill-content.ts";
export { type DiscoverOptions, type DiscoverResult, discover } from "./config/discover.ts";
export { createSystemInfo, type Host, type HostOptions, type SettingsParts, type SystemInfo } from "./config/host.ts";
export type { RunLimits, SandboxEngine, SandboxSettings, ScriptLimits, WorkspaceAccess } from "./config/limits.ts";
export { closeMcpServers } from "./config/mcp-shutdown.ts";
export type { DisclosureSettings, ExtraSource, LoadedSettings, Settings, SkillSettings } from "./config/settings.ts";
export { createSettings, type SettingsInput, type SkillInput } from "./config/settings-schema.ts";
export { type CatalogChange, type WatchCatalogOptions, watchCatalog } from "./config/watch-catalog.ts";
export type { ErrorCode } from "./errors/error-codes.ts";
export { FINDING_CODES, type FindingCode } from "./errors/finding-codes.ts";
export { type Problem, PromptValidationError, SkillError } from "./errors/problem.ts";
export {
  computeRecall,
  evaluateTriggers,
  type MissedQuery,
  type SkillScore,
  type TriggerEvaluation,
  type TriggerEvaluationSubject,
  type TriggerScore,
} from "./eval/trigger-evaluation.ts";
export type { Approval, ApprovalRequest, ApprovalScope, Approve } from "./host/approval.ts";
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
} from "./host/capability-contract.ts";
export {
  type RunEvent,
  type SkillEvent,
  type SkillExpandedEvent,
  type SkillsInstalledEvent,
  STOP_REASONS,
  type StopReason,
} from "./host/events.ts";
export type { Caller, HostPolicy, PolicyContext, PolicyDenial, PolicyPurpose } from "./host/host-policy.ts";
export type {
  AiSdkModel,
  Message,
  Model,
  ModelPrice,
  ModelProvider,
  ModelReply,
  ModelRequest,
  ModelSettings,
  ModelTask,
  ModelTool,
  ToolCall,
  ToolCallResult,
} from "./host/model-contract.ts";
export {
  type Endpoint,
  FIXED_VARIABLES,
  ISOLATION_LEVELS,
  type Isolation,
  type IsolationLevel,
  type Mount,
  type ProcessEnding,
  type ProcessStream,
  type Sandbox,
  type SandboxCommand,
  type SandboxLimits,
  type SandboxOutcome,
  type SandboxRunOptions,
} from "./host/sandbox-contract.ts";
export { defineSkill, type SkillDefinition } from "./skill/define-skill.ts";
export type { StandardSchema, ToolContext, ToolDefinition, ToolOutput } from "./skill/define-tool.ts";
export {
  type Diagnostic,
  type Finding,
  type Position,
  PROFILES,
  type Profile,
  type Severity,
} from "./skill/diagnostics.ts";
export { type ParsedSkillMd, parseSkillMd } from "./skill/document.ts";
export type { SkillForm } from "./skill/frontmatter.ts";
export { toSkillMd } from "./skill/frontmatter-yaml.ts";
export type { Manifest } from "./skill/manifest.ts";
export type { DeclaredScript, Triggers } from "./skill/manifest-fields.ts";
export {
  createInlineSource,
  type FileList,
  type LoadedSkills,
  SCOPES,
  type Skill,
  type SkillFile,
  type SkillOrigin,
  type SkillScope,
  type Source,
} from "./skill/skill.ts";
export { findScript, getSandboxPath, listSkillScripts, type SkillScript } from "./skill/skill-code.ts";
export {
  type CheckedFile,
  type CheckResult,
  type CheckSkillsOptions,
  checkPath,
  checkText,
  validateSkillFile,
} from "./skill/source/check-skills.ts";
export { createDirectorySource, type DirectoryOptions } from "./skill/source/directory-source.ts";
export { type Environment, type Location, listLocations } from "./skill/source/locations.ts";
export { type CopiedFile, computeSkillDigest, copySkill, type SkillCopy } from "./skill/source/skill-copy.ts";
export type { Watcher } from "./skill/source/watch-folders.ts";
export {
  type CallOptions,
  Tool,
  type ToolEffect,
  type ToolOutcome,
  type ToolOwner,
  type ToolProgram,
  type ToolResult,
  type ToolSandbox,
  type Usage,
} from "./skill/tool.ts";
export { type ApprovalStore, createApprovalStore } from "./store/approvals.ts";
export { SkillInstallationError } from "./store/atomic-folder.ts";
export type { Journal, JournalLine, ParsedJournal, RunEnd, RunHeader } from "./store/journal.ts";
export { RUN_STATES, type RunRetention, type RunState, type RunSummary } from "./store/run-summary.ts";
export { createRunStore, type NewRun, type RunStore } from "./store/runs.ts";
export { createStatisticsStore, type SkillStatistics, type StatisticsStore } from "./store/statistics.ts";
export {
  createSecretGrants,
  createTrustStore,
  type SecretGrants,
  type TrustChange,
  type TrustedSkill,
  type TrustStatus,
  type TrustStore,
} from "./store/trust.ts";
export type { JsonObject } from "./util/objects.ts";
