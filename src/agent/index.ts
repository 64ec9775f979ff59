/** Details of sessions, tools, advice and policies. */

export type { ApprovalScope, PolicyPurpose } from "../host/approval.ts";
export type { StandardSchema, ToolOutput } from "../skill/define-tool.ts";
export type { CallOptions, ToolOutcome, ToolOwner, ToolProgram, ToolSandbox } from "../skill/tool.ts";
export { type Denial, findDenials, findUnavailability, type Policy } from "./policy/skill-policies.ts";
export type { PlanCheck } from "./run/plan-use.ts";
export { skillResult, wrapResult } from "./run/run-result.ts";
export type { ScriptEvent } from "./run/run-script.ts";
export {
  type AdviceMemory,
  type AdviseContext,
  type AdvisedSkill,
  createAdviceMemory,
  createFileAdviceMemory,
} from "./session/advise.ts";
export type { ConversationOptions, SendOptions } from "./session/conversation.ts";
export type {
  ActivationResult,
  ActiveSkill,
  Invoker,
  QueryOptions,
  SessionAdviseOptions,
  SessionCallOptions,
} from "./session/session.ts";
