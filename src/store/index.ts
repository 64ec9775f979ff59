/** Stores in files: runs, approvals, trust, grants, statistics. */
export { type ApprovalStore, createApprovalStore } from "./approvals.ts";
export type { Journal, JournalLine, ParsedJournal, RunEnd, RunHeader } from "./journal.ts";
export {
  type NewRun,
  RUN_STATES,
  type RunOwner,
  type RunRetention,
  type RunState,
  type RunSummary,
} from "./run-rules.ts";
export { createTimeline, type TimelineApproval, type TimelineCall, type TimelineEntry } from "./run-timeline.ts";
export { createRunStore, type RunStore } from "./runs.ts";
export { createStatisticsStore, type SkillStatistics, type StatisticsStore } from "./statistics.ts";
export {
  createSecretGrants,
  createTrustStore,
  type SecretGrants,
  type TrustChange,
  type TrustedSkill,
  type TrustStatus,
  type TrustStore,
} from "./trust.ts";
