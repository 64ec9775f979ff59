import type { Host } from "../host/host.ts";

/** The skills that were used last, of all conversations. */
export interface Recent {
  /** The one used last first. */
  names(): readonly string[];
  note(name: string): void;
}

/** `first`: what this conversation has used already. */
export function openRecent(first: readonly string[], { statistics }: Host): Recent {
  let known: string[] | undefined;
  // Read when first asked for: many a session, one for a single request above all, never asks, and the statistics are a database.
  const names = () => {
    known ??= [...new Set([...first, ...(statistics?.recent(MOST_RECENT) ?? [])])];
    return known;
  };
  return {
    names,
    note(name) {
      known = [name, ...names().filter((other) => other !== name)].slice(0, MOST_RECENT);
    },
  };
}

/** How many of them are known. */
export const MOST_RECENT = 100;
