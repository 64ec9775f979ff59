import type { Skill } from "../skill/skill.ts";

/** What is to be done with a skill: its text read, a script of its run, or a task handed to a sub-agent that follows it. */
export type PolicyPurpose = "load" | "run" | "use";

/** What a policy of the embedding program decides by. */
export interface PolicyContext {
  /** Asked with `load` also to decide whether the skill is listed. */
  purpose: PolicyPurpose;
  /** On whose behalf, as the host states it. */
  caller: Caller;
}

/** Why a policy of the embedding program refuses a skill, and what to do about it. */
export interface PolicyDenial {
  message: string;
  fix?: string;
}

/**
 * A rule of the embedding program: returns why the skill may not be used so, or undefined where it may. It is asked wherever the
 * built-in rules are, and hides and refuses as they do. Contract: synchronous and pure. One that throws refuses.
 */
export type HostPolicy = (skill: Skill, context: PolicyContext) => PolicyDenial | undefined;

/** On whose behalf something is done. Stated by the host, never taken from what a model says. */
export interface Caller {
  sessionId?: string;
  userId?: string;
  chatId?: string;
  /** `private`, `group`, …: what skills with `sensitive` or `access` are held to. */
  chatType?: string;
}
