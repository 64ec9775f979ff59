import type { SkillEvent } from "./events.ts";
import type { Host } from "./host.ts";

/** Tells the host. What its listener throws, now or later, breaks nothing here. */
export function notify(host: Pick<Host, "onEvent">, event: SkillEvent): void {
  try {
    const answer: unknown = host.onEvent?.(event);
    if (answer instanceof Promise) answer.catch(() => {});
  } catch {
    // A listener's own business.
  }
}
