import type { Problem } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import type { ToolEffect } from "../skill/tool.ts";

/** The side effect of a tool call, as shown to the user for approval. Secret values are redacted. */
export interface ApprovalRequest {
  run: string;
  /** The skill that makes the call: the owner of the tool, or the skill that the run follows. Empty in a conversation whose tool belongs to no skill. */
  skill: string;
  source: string;
  /** The folder or file of the skill. Empty for a skill that is defined in code. */
  location: string;
  /** The digest of the skill, if it is known. Permanent approvals that several machines share are bound to it. */
  digest?: string;
  tool: string;
  input: unknown;
  /** `other`: the effect is unknown, and the skill does not declare it. */
  on: ToolEffect["on"] | "other";
  what: string;
  where?: string;
  amount?: string;
  isReversible?: boolean;
  /** The reason why the call needs approval. */
  reason: string;
  /** The origins of untrusted text in the input, one line each. */
  from?: readonly string[];
  /** The approval is valid for this call only: earlier approvals do not apply to it, nor does it apply to later calls. */
  isOnce?: true;
}

/** The scope of an approval: this call, this run, or this skill permanently. */
const APPROVAL_SCOPES = ["once", "run", "always"] as const;
export type ApprovalScope = (typeof APPROVAL_SCOPES)[number];

export interface Approval {
  isApproved: boolean;
  /** Defaults to `once`. */
  scope?: ApprovalScope;
  /** The reason of a refusal, for the model. */
  reason?: string;
}

/**
 * Asks for an approval. Resolves with `undefined` if no user can be asked: the run then waits in its journal, as without a callback.
 * Contract: never rejects, and stops when the signal aborts. When another process answers a recorded run, the signal aborts with that
 * `Approval` as its reason.
 */
export type Approve = (request: ApprovalRequest, options: { signal: AbortSignal }) => Promise<Approval | undefined>;

/** Parses an untrusted approval. Only `true` approves, and an unknown scope is ignored. */
export function parseApproval(value: unknown, redact: (text: string) => string = (text) => text): Approval {
  const { isApproved, scope, reason } = Object(value) as Partial<Record<keyof Approval, unknown>>;
  const known = APPROVAL_SCOPES.find((name) => name === scope);
  return {
    isApproved: isApproved === true,
    ...(known === undefined ? {} : { scope: known }),
    ...(reason === undefined ? {} : { reason: redact(String(reason)).slice(0, MAX_REASON_LENGTH) }),
  };
}

const MAX_REASON_LENGTH = 500;

/**
 * Returns true if an approval applies to the rest of the run. Changes of workspace files are approved once per run. A permanent approval is
 * looked up at each call: it may be revoked while the run is at work.
 */
export function isApprovedForRun(
  { on, isOnce }: Pick<ApprovalRequest, "on" | "isOnce">,
  { isApproved, scope }: Approval,
): boolean {
  return isApproved && !isOnce && scope !== "always" && (on === "workspace" || scope === "run");
}

/** The fields of a request that an approval is bound to. */
export type ApprovalSubject = Pick<
  ApprovalRequest,
  "skill" | "source" | "location" | "digest" | "tool" | "on" | "where" | "isOnce"
>;

/** Returns the key under which an approval is stored. All changes of one workspace share a key, whichever tool makes them. */
export function getApprovalKey({
  tool,
  on,
  where = "",
  isOnce,
}: Pick<ApprovalRequest, "tool" | "on" | "where" | "isOnce">): string {
  if (isOnce) return `once:${tool}`;
  return on === "workspace" ? `workspace:${where}` : `tool:${tool}`;
}

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
  /** The group of users that limits and statistics belong to. */
  tenant?: string;
  chatId?: string;
  /** `private`, `group`, …: skills with `sensitive` or `access` are restricted by it. */
  chatType?: string;
}

/** Formats the key of a person: an id names one person of a tenant only. That of a person without a tenant is the id, as before tenants. */
export function formatPersonKey({ userId = "", tenant = "" }: Caller = {}): string {
  return tenant === "" && !userId.startsWith("[") ? userId : JSON.stringify([tenant, userId]);
}

/** Describes the key of a person for people: `ada of red`. */
export function describePersonKey(key: string): string {
  const [, tenant, userId] = /^\["(.*)","(.*)"\]$/.exec(key) ?? [];
  if (tenant === undefined || userId === undefined) return key;
  return tenant === "" ? userId : `${userId} of ${tenant}`;
}
