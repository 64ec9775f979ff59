import type { Skill } from "../skill/skill.ts";
import type { Caller } from "./caller.ts";

/** What is to be done with a skill: its text read, a script of its run, or a task handed to a sub-agent that follows it. */
export type Purpose = "load" | "run" | "use";

/** What a policy of the embedding program decides by. */
export interface PolicyContext {
  /** Asked with `load` also to decide whether the skill is listed. */
  purpose: Purpose;
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
