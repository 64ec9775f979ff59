import type { ToolEffect } from "../skill/tool.ts";

/** What a call would do, for whoever is to agree to it. No value of a secret is in it. */
export interface ApprovalRequest {
  run: string;
  /** The skill that asks: the one whose tool it is, or that is followed. Empty in a conversation with tools of nobody. */
  skill: string;
  source: string;
  /** Its folder or file; empty for one in code. */
  place: string;
  tool: string;
  input: unknown;
  /** `other`: what it changes is not known, and the skill did not say that it would do it. */
  on: ToolEffect["on"] | "other";
  what: string;
  where?: string;
  amount?: string;
  isReversible?: boolean;
  /** Why somebody has to agree. */
  reason: string;
  /** Where the text came from that it is given, where others wrote it: a line each. */
  from?: readonly string[];
  /** No word that was given before covers it, and none on it covers another. */
  isOnce?: true;
}

/** How far somebody's word reaches: this call, this run, or this skill for ever. */
const APPROVAL_SCOPES = ["once", "run", "always"] as const;
export type ApprovalScope = (typeof APPROVAL_SCOPES)[number];

export interface Approval {
  isApproved: boolean;
  /** `once`, when left out. */
  scope?: ApprovalScope;
  /** Why not, for the model. */
  reason?: string;
}

/**
 * Asks for an approval. Resolves with `undefined` where it cannot be asked for here: a run then waits in its journal, as without a callback.
 * Contract: resolves. Ends with the signal.
 */
export type Approve = (effect: ApprovalRequest, options: { signal: AbortSignal }) => Promise<Approval | undefined>;

/** A word as it was given, by whomever: only `true` is a yes, and what is no scope is this call alone. */
export function parseApproval(given: unknown, hide: (text: string) => string = (text) => text): Approval {
  const { isApproved, scope, reason } = Object(given) as Partial<Record<keyof Approval, unknown>>;
  const known = APPROVAL_SCOPES.find((one) => one === scope);
  return {
    isApproved: isApproved === true,
    ...(known === undefined ? {} : { scope: known }),
    ...(reason === undefined ? {} : { reason: hide(String(reason)).slice(0, MAX_REASON_LENGTH) }),
  };
}

const MAX_REASON_LENGTH = 500;

/** Whether a word holds for more than one call: who lets files of the workspace be changed is asked once a run. */
export function isApprovedForRun(
  { on, isOnce }: Pick<ApprovalRequest, "on" | "isOnce">,
  { isApproved, scope }: Approval,
): boolean {
  return isApproved && !isOnce && (on === "workspace" || scope === "run" || scope === "always");
}

/** What of an effect is agreed to. */
export type ApprovalSubject = Pick<ApprovalRequest, "skill" | "source" | "place" | "tool" | "on" | "where" | "isOnce">;

/** Changes in one workspace are one thing, whichever tool makes them. What is agreed to once is like nothing else. */
export function getApprovalKey({
  tool,
  on,
  where = "",
  isOnce,
}: Pick<ApprovalRequest, "tool" | "on" | "where" | "isOnce">): string {
  if (isOnce) return `once:${tool}`;
  return on === "workspace" ? `workspace:${where}` : `tool:${tool}`;
}
