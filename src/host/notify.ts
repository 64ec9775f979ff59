import type { SkillEvent } from "./events.ts";
import type { Host } from "./host.ts";

/** Tells the host, and counts. What its listener throws, now or later, breaks nothing here. */
export function notify(host: Pick<Host, "onEvent" | "statistics">, event: SkillEvent): void {
  quietly(() => host.statistics?.take(event));
  quietly(() => host.onEvent?.(event));
}

/** What a listener throws, now or later, is its own business. */
export function quietly(listen: () => unknown): void {
  try {
    const answer = listen();
    if (answer instanceof Promise) answer.catch(() => {});
  } catch {}
}

/** Calls each listener. What one throws breaks nothing here. */
export function notifyAll(listeners: Iterable<() => void>): void {
  for (const listener of listeners) quietly(listener);
}
