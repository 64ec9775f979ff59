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

/**
 * What a run is driven by. Everything that happens to the world happens in a step, and what a run does next follows from what its steps
 * gave: so another driver can remember them, and go on after the program was killed.
 */
export interface Port {
  /** Contract: each name once in a run. What it resolves with is plain data. Events are emitted in steps, so that none is told twice. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  approval(name: string, effect: Effect): Promise<Approval>;
  emit(event: RunEvent): void;
  /** The port of a run within this one: its names do not meet these. */
  within(name: string): Port;
}

/** Everything happens now, nothing is remembered, and there is nobody to ask. */
export function livePort(emit: (event: RunEvent) => void): Port {
  const port: Port = {
    step: (_, work) => work(),
    approval: async () => ({ isApproved: false, reason: "there is nobody to ask" }),
    emit,
    within: () => port,
  };
  return port;
}
