import type { Problem } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";

/** The intended use of a skill: `load` reads its text, `run` runs one of its scripts, `use` delegates a task to a sub-agent. */
export type PolicyPurpose = "load" | "run" | "use";

/** The input of a policy of the embedding program. */
export interface PolicyContext {
  /** `load` also decides whether the skill is listed. */
  purpose: PolicyPurpose;
  /** The caller, as set by the host. */
  caller: Caller;
}

/**
 * A policy of the embedding program: returns why the skill may not be used, or undefined to allow it. It applies wherever the built-in
 * policies apply, and hides and refuses skills in the same way. Contract: synchronous and pure. A policy that throws refuses.
 */
export type HostPolicy = (
  skill: Skill,
  context: PolicyContext,
) => (Pick<Problem, "message"> & Partial<Pick<Problem, "fix" | "commands" | "data">>) | undefined;

/** The session, user and chat on whose behalf skillet acts. Set by the host, never taken from model output. */
export interface Caller {
  sessionId?: string;
  userId?: string;
  chatId?: string;
  /** `private`, `group`, …: skills with `sensitive` or `access` are restricted by it. */
  chatType?: string;
}
