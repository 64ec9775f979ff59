/** Evaluation of skills. */

export { type AgentArmOptions, createAgentArm } from "./agent-arm.ts";
export { readSkillCases } from "./case-formats.ts";
export { createEvalBudget, type EvalBudget, type EvalBudgetOptions, type SpentCall } from "./eval-budget.ts";
export { createEvalSchema, type EvalCase, type EvalSuite, type Grader, readEvalCases } from "./eval-cases.ts";
export {
  type ArmComparison,
  createEvalReport,
  EVAL_LEVELS,
  type EvalCaseReport,
  type EvalLevel,
  type EvalMiss,
  type EvalReport,
  type EvalSkillReport,
  type EvalSpending,
  type NamedRate,
  readEvalReports,
  saveEvalReport,
} from "./eval-report.ts";
export {
  adjustPValues,
  comparePairs,
  computeMcNemar,
  computePower,
  computeRate,
  findDetectableEffect,
  type PairedComparison,
  planPairs,
  type Rate,
  type TrialPair,
  type TrialPlan,
  type Verdict,
} from "./pair-statistics.ts";
export { PromptfooProvider, type PromptfooProviderOptions, type PromptfooResponse } from "./promptfoo-provider.ts";
export { createUseRecorder, type RecordedRun, readRecording, saveRecording, type UseRecorder } from "./recorded-run.ts";
export { type ReplayDifference, type ReplayOptions, type ReplayResult, replayRun } from "./replay.ts";
export { formatEvalReport, REPORT_FORMATS, type ReportFormat } from "./report-formats.ts";
export { evaluateTasks, type TaskEvaluation, type TaskEvaluationOptions, type TaskSubject } from "./task-evaluation.ts";
export {
  listTranscripts,
  type MinedSkill,
  type MinedTranscripts,
  mineTranscripts,
  redactSecretShapes,
  TRANSCRIPT_CLIENTS,
  type TranscriptClient,
} from "./transcripts.ts";
export {
  type ArmTask,
  createBaselineArm,
  createSkillArm,
  type EvalArm,
  type FinishedTrial,
  type SkillArmOptions,
} from "./trials.ts";
export {
  type ChoiceEvaluation,
  type ChoiceEvaluationOptions,
  type ChoiceOptions,
  chooseSkill,
  evaluateChoices,
} from "./trigger-choice.ts";
export {
  computeRecall,
  evaluateTriggers,
  type ImproveOptions,
  improveTriggers,
  type MissedQuery,
  type SkillScore,
  type TriggerEvaluation,
  type TriggerEvaluationSubject,
  type TriggerImprovement,
  type TriggerScore,
} from "./trigger-evaluation.ts";
