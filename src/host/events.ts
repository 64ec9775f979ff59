import type { Problem } from "../errors/problem.ts";
import type { Usage } from "../skill/tool.ts";
import type { Approval, ApprovalRequest } from "./approval.ts";
import type { Caller } from "./host-policy.ts";
import type { Isolation } from "./sandbox-contract.ts";

/** How a run ended. */
export const STOP_REASONS = [
  "answer",
  "complete",
  "failed",
  "refused",
  "max-steps",
  "timeout",
  "budget",
  "aborted",
  "waiting",
  "error",
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** What happens, as plain data, named noun-verb. No value of a secret is in any of it. */
export type SkillEvent =
  | { type: "skill-matched"; skills: readonly string[]; tier: string; caller?: Caller }
  | { type: "skill-loaded"; skill: string; source: string; caller?: Caller }
  | SkillsInstalledEvent
  | SkillExpandedEvent
  | RunEvent;

/** Of which prompt, and when. */
interface PromptEventFields {
  promptNs: string;
  promptKey: string;
  /** The session that it is evaluated in, where there is one. */
  sessionId: string | null;
  /** As ISO 8601 writes it. */
  createdAt: string;
  eventId: string;
}

/** Skills of a prompt were put where an agent finds them by itself. */
export interface SkillsInstalledEvent extends PromptEventFields {
  type: "skills-installed";
  /** Names of those that were written from code. */
  inlineSkills: readonly string[];
  /** Names of those that were copied from the disk. */
  referencedSkills: readonly string[];
  /** All of them. */
  skills: readonly string[];
  skillsDir: string;
}

/** A skill that was summarised is shown in full from now on. */
export interface SkillExpandedEvent extends PromptEventFields {
  type: "skill-expanded";
  skillName: string;
  /** Dotted: `skills.testing`. */
  skillKey: string;
}

/** What happens in a run. `run` says in which: those of skills that a skill called are among them. A conversation has no skill: "". */
export type RunEvent = { run: string; skill: string /** When, as ISO 8601 writes it. */; at: string } & (
  | {
      type: "run-started";
      /** None in a conversation. */
      source?: string;
      model: string;
      tools: readonly string[];
      /** 1 for a run that no other run started. */
      depth: number;
      /** The run that started it. */
      parent?: string;
      caller?: Caller;
      limits: { iterations: number; seconds: number; tokens?: number };
      /** It began before, perhaps in another program, and is gone on with: what it did until then is not told again. */
      isResumed?: true;
    }
  | ({ type: "run-warned" } & Problem)
  | { type: "run-refused"; refusals: readonly Problem[]; parent?: string; caller?: Caller }
  | { type: "packages-built"; text: string }
  | { type: "text-said"; step: number; text: string }
  | { type: "model-retried"; step: number; reason: string }
  | { type: "step-ended"; step: number; ms: number; usage: Usage; cost?: number; calls: number }
  | { type: "tool-called"; step: number; tool: string; input: unknown }
  | { type: "tool-blocked"; step: number; tool: string; code: string; message: string }
  | { type: "tool-progressed"; step: number; tool: string; text: string }
  | {
      type: "tool-ended";
      step: number;
      tool: string;
      isError: boolean;
      code?: string;
      /** What was done, as the tool says it. */
      title?: string;
      /** What went wrong, in a line. */
      message?: string;
      ms: number;
      characters: number;
    }
  /** A capability was asked for, by a tool or from a sandbox. `outcome`: `ok`, or the code of what refused it. */
  | { type: "capability-called"; capability: string; operation: string; outcome: string; ms: number }
  /** Somebody has to agree before the call is made. */
  | { type: "approval-asked"; step: number; tool: string; effect: ApprovalRequest }
  | ({ type: "approval-given"; step: number; tool: string } & Approval)
  | {
      type: "run-ended";
      stop: StopReason;
      isError: boolean;
      iterations: number;
      ms: number;
      usage: Usage;
      cost?: number;
      isolation?: Isolation;
      caller?: Caller;
    }
);

export type SkillEventListener = (event: SkillEvent) => void;
