/** Evaluation of triggers. */
export {
  computeRecall,
  evaluateTriggers,
  type MissedQuery,
  type SkillScore,
  type TriggerEvaluation,
  type TriggerEvaluationSubject,
  type TriggerScore,
} from "./trigger-evaluation.ts";
