import type { RunEvent } from "../host/events.ts";

/** What a call would do, for whoever is to agree to it. */
export interface Effect {
  skill: string;
  tool: string;
  input: unknown;
  /** Why somebody has to agree. */
  reason: string;
}

export interface Approval {
  isApproved: boolean;
  reason?: string;
}

/** What a loop is driven by: everything that happens to the world goes through it, so that another driver can remember it. */
export interface Port {
  /** Contract: each name once in a run. What it resolves with is plain data. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  approval(name: string, effect: Effect): Promise<Approval>;
  emit(event: RunEvent): void;
}

/** Everything happens now, nothing is remembered, and there is nobody to ask. */
export function livePort(emit: (event: RunEvent) => void): Port {
  return {
    step: (_, work) => work(),
    approval: async () => ({ isApproved: false, reason: "there is nobody to ask" }),
    emit,
  };
}
