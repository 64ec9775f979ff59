import { type Approval, type Approve, asApproval, type Effect } from "../host/approvals.ts";
import type { RunEvent } from "../host/events.ts";
import type { Host } from "../host/host.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { untilAborted } from "./grace.ts";

/** Somebody is to agree to what a call would do. */
export interface Ask {
  effect: Effect;
  signal: AbortSignal;
  /** Takes what nobody is shown out of a text. */
  hide(text: string): string;
  /** Called when somebody is really asked, and when they have answered: not for a word that was given before. */
  onAsked(): void;
  onGiven(approval: Approval): void;
}

export interface Answered {
  approval: Approval;
  effect: Effect;
}

/**
 * What a run is driven by. Everything that happens to the world happens in a step, and what a run does next follows from what its steps
 * gave: so another driver can remember them, and go on after the program was killed.
 */
export interface Port {
  /** Contract: each name once in a run. What it resolves with is plain data. Events are emitted in steps, so that none is told twice. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** What a step gave that was done before. Nothing when it was not. */
  done<T>(name: string): { value: T } | undefined;
  /** The word, and what it was given on: for a call that was made before, that may be another thing than is asked now. */
  approval(name: string, ask: Ask): Promise<Answered>;
  /** Asks now, and writes nothing down. Resolves with `undefined` where it cannot be asked for here. */
  ask(ask: Ask): Promise<Approval | undefined>;
  emit(event: RunEvent): void;
  /** For how many milliseconds somebody was being asked: nobody's time limit is for that. */
  waited(): number;
  /** The port of a run within this one: its names do not meet these. */
  within(name: string): Port;
}

export const NOBODY: Approval = { isApproved: false, reason: "there is nobody to ask" };

/** Everything happens now, and nothing is remembered. */
export function livePort(host: Pick<Host, "approve" | "approvals">, emit: (event: RunEvent) => void): Port {
  const waits = openWaits();
  const port: Port = {
    step: (_, work) => work(),
    done: () => undefined,
    approval: async (_, ask) => ({
      approval: (await waits.during(() => wordOn(host, ask))) ?? NOBODY,
      effect: ask.effect,
    }),
    ask: (ask) => waits.during(() => wordOn(host, ask)),
    waited: waits.waited,
    emit,
    within: () => port,
  };
  return port;
}

/** How long was waited for people, with what is waited for now. */
export function openWaits(now = () => performance.now()): {
  during<T>(work: () => Promise<T>): Promise<T>;
  waited(): number;
} {
  let over = 0;
  let since = 0;
  // Commands of a skill may have several asked at once: what is waited for twice at the same time is waited for once.
  let asked = 0;
  const waited = () => over + (asked === 0 ? 0 : now() - since);
  return {
    waited,
    async during(work) {
      if (asked++ === 0) since = now();
      try {
        return await work();
      } finally {
        const whole = waited();
        if (--asked === 0) over = whole;
      }
    },
  };
}

/** What the user agreed to for ever, or says now. Nothing when nobody can be asked. */
export async function wordOn(
  { approve, approvals }: Pick<Host, "approve" | "approvals">,
  { effect, signal, hide, onAsked, onGiven }: Ask,
): Promise<Approval | undefined> {
  if (approvals?.isAlways(effect)) return { isApproved: true, scope: "always" };
  if (!approve) return undefined;
  onAsked();
  const word = await untilAborted(given(approve, effect, signal), signal);
  if (word === undefined) return undefined;
  const approval = boundTo(effect, asApproval(word, oneLineOf(hide)));
  const kept = keptFor(approvals, effect, approval);
  onGiven(kept);
  return kept;
}

/** A word on what is asked about each time is for this time, whatever was said. */
function boundTo({ isOnce }: Effect, approval: Approval): Approval {
  return isOnce && approval.isApproved ? { ...approval, scope: "once" } : approval;
}

/** What cannot be written down holds for this run. */
function keptFor(approvals: Host["approvals"], effect: Effect, approval: Approval): Approval {
  if (!approval.isApproved || approval.scope !== "always") return approval;
  try {
    approvals?.add(effect);
    return approval;
  } catch {
    return { ...approval, scope: "run" };
  }
}

/** Who cannot ask has got no yes. */
async function given(approve: Approve, effect: Effect, signal: AbortSignal): Promise<Approval | undefined> {
  try {
    return await approve(effect, { signal });
  } catch (error) {
    return { isApproved: false, reason: `nobody could be asked: ${reason(error)}` };
  }
}

function oneLineOf(hide: (text: string) => string): (text: string) => string {
  return (text) => inLine(hide(text), 500);
}
