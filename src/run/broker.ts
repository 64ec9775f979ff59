import type { Broker } from "../capability/broker.ts";
import type { Effect } from "../host/approvals.ts";
import type { Host } from "../host/host.ts";
import type { Notice } from "../host/sandbox.ts";
import { placeOf } from "../host/trust.ts";
import { isEnabled } from "../policy/policy.ts";
import type { Hiding } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";
import { emit } from "./loop-options.ts";
import type { Port } from "./port.ts";
import { shownOrigins } from "./shown.ts";
import type { Taint } from "./taint.ts";

export interface BrokeredRun {
  id: string;
  skill: Skill;
  host: Host;
  port: Port;
  hiding: Hiding;
  /** When its time is over, as `Date.now` counts. */
  until(): number;
  signal: AbortSignal;
  taint: Taint;
  /** Why it may call nothing any more. Defaults to whether its own skill is disabled. */
  revoked?(): Notice | undefined;
}

/** Who stands between a run and the capabilities that its skill declares. Nobody where it declares none. */
export async function brokerFor(given: BrokeredRun): Promise<Broker | undefined> {
  const { skill, host, port, hiding, signal, taint } = given;
  const { capabilities, caller } = host;
  if (!capabilities || skill.manifest.capabilities.length === 0) return undefined;
  const { openBroker } = await import("../capability/broker.ts"); // Only who has any loads what it needs.
  const whose = { run: given.id, skill: skill.name };
  const hide = (text: string) => hiding.text(text);
  let place = "0";
  const ask = async (name: string, effect: Effect, asking: AbortSignal) => {
    const about = { step: Number.parseInt(place, 10) || 0, tool: effect.tool };
    const { approval } = await port.approval(name, {
      ...{ effect, signal: asking, hide },
      onAsked: () => emit(port, whose, { type: "approval-asked", ...about, effect }),
      onGiven: (word) => emit(port, whose, { type: "approval-given", ...about, ...word }),
    });
    return approval;
  };
  const broker = openBroker(capabilities, {
    ...{ run: given.id, skill, place: placeOf(skill), caller, signal, hide, until: given.until },
    revoked: given.revoked ?? (() => isEnabled(skill, host)),
    step: (name, work) => port.step(name, work),
    done: (name) => port.done(name),
    agree: ask,
    originsOf: (value, schema) => shownOrigins(taint.originsOf(value, schema), hiding),
    addOrigin: (label, text) => taint.add({ label }, text),
    onCalled: (called) => emit(port, whose, { type: "capability-called", ...called }),
  });
  return {
    ...broker,
    at(at) {
      place = at;
      broker.at(at);
    },
  };
}

/** When time that begins now will be over; how long people are waited for does not count. */
export function endOf(seconds: number, { waited }: Pick<Port, "waited">): () => number {
  const end = Date.now() + seconds * 1000 - waited();
  return () => end + waited();
}
