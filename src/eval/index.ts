/** Evaluation of skills. */
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
export {
  computeRecall,
  evaluateTriggers,
  type MissedQuery,
  type SkillScore,
  type TriggerEvaluation,
  type TriggerEvaluationSubject,
  type TriggerScore,
} from "./trigger-evaluation.ts";
