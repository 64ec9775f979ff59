import type { Problem } from "../errors/problem.ts";
import type { Usage } from "../skill/tool.ts";
import type { Approval, ApprovalRequest, Caller } from "./approval.ts";
import type { Isolation } from "./sandbox-contract.ts";

/** The reasons why a run stops. */
export const STOP_REASONS = [
  "answer",
  "complete",
  "failed",
  "refused",
  "max-iterations",
  "timeout",
  "budget",
  "aborted",
  "waiting",
  "error",
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** An event as plain data, named noun-verb. Secret values are redacted. */
export type SkillEvent =
  | { type: "skill-matched"; skills: readonly string[]; tier: string; caller?: Caller }
  | { type: "skill-loaded"; skill: string; source: string; caller?: Caller }
  | SkillsInstalledEvent
  | SkillExpandedEvent
  | RunEvent;

/** The prompt of an event, and its time. */
interface PromptEventFields {
  promptNs: string;
  promptKey: string;
  /** The session in which the prompt is evaluated, if any. */
  sessionId: string | null;
  /** ISO 8601. */
  createdAt: string;
  eventId: string;
}

/** Skills of a prompt were installed where an agent discovers them. */
export interface SkillsInstalledEvent extends PromptEventFields {
  type: "skills-installed";
  /** Names of the skills that are defined in code. */
  inlineSkills: readonly string[];
  /** Names of the skills that were copied from disk. */
  referencedSkills: readonly string[];
  /** Names of all installed skills. */
  skills: readonly string[];
  skillsDir: string;
}

/** A summarized skill is shown in full from now on. */
export interface SkillExpandedEvent extends PromptEventFields {
  type: "skill-expanded";
  skillName: string;
  /** The dotted key: `skills.testing`. */
  skillKey: string;
}

/** An event of a run. `run` is its id; events of nested runs are included. In a conversation, `skill` is "". */
export type RunEvent = {
  run: string;
  skill: string;
  /** ISO 8601. */
  at: string;
  /** The caller of the run, if the host states one. */
  caller?: Caller;
} & (
  | {
      type: "run-started";
      /** Omitted in a conversation. */
      source?: string;
      model: string;
      tools: readonly string[];
      /** 1 for a run that no other run started. */
      depth: number;
      /** The run that started it. */
      parent?: string;
      limits: { iterations: number; seconds: number; tokens?: number };
      /** The W3C trace context of the program that asked for the run. */
      traceParent?: string;
      /** The run was started earlier, perhaps in another process, and is resumed. Its earlier events are not repeated. */
      isResumed?: true;
    }
  | ({ type: "run-warned" } & Problem)
  | { type: "run-refused"; refusals: readonly Problem[]; parent?: string }
  | { type: "packages-built"; text: string }
  | { type: "text-generated"; step: number; text: string }
  | { type: "model-retried"; step: number; reason: string }
  | { type: "step-ended"; step: number; ms: number; usage: Usage; cost?: number; calls: number }
  | ({ type: "tool-called"; input: unknown } & CallFields)
  | ({ type: "tool-blocked"; code: string; message: string } & CallFields)
  | ({ type: "tool-progressed"; text: string } & CallFields)
  | ({
      type: "tool-ended";
      isError: boolean;
      code?: string;
      /** A summary of the call by the tool. */
      title?: string;
      /** The error in one line. */
      message?: string;
      ms: number;
      characters: number;
    } & CallFields)
  /** A tool or code in a sandbox called a capability. `outcome` is `ok`, or the code of the refusal. */
  | { type: "capability-called"; capability: string; operation: string; outcome: string; ms: number }
  /** The call needs approval before it is made. */
  | ({ type: "approval-requested"; approvalRequest: ApprovalRequest } & CallFields)
  | ({ type: "approval-decided" } & CallFields & Approval)
  | {
      type: "run-ended";
      stop: StopReason;
      isError: boolean;
      iterations: number;
      ms: number;
      usage: Usage;
      cost?: number;
      isolation?: Isolation;
    }
);

/** The tool call of an event. */
interface CallFields {
  step: number;
  /** The position among the calls of the step, from 1. Read-only calls of one step overlap. Omitted where it is unknown. */
  call?: number;
  tool: string;
}

export type SkillEventListener = (event: SkillEvent) => void;
