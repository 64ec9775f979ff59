import { statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunState, RunSummary } from "./run-summary.ts";

/** For how many days runs are kept, and how many of those that are over. */
export interface Retention {
  days: number;
  most: number;
}

export const RETENTION: Retention = { days: 30, most: 1000 };

const DAY_MS = 24 * 60 * 60 * 1000;

/** What is not kept of these, the newest of which is the first. */
export function outOf(runs: readonly RunSummary[], { days, most }: Retention): readonly RunSummary[] {
  const oldest = Date.now() - days * DAY_MS;
  return runs
    .filter(({ state }) => state !== "running")
    .filter(({ changedAt, state }, index) => Date.parse(changedAt) <= oldest || (index >= most && isOver(state)));
}

export function isOver(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

/** Whether it is time to look for what is not kept: once a day. */
export function isDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (Date.now() - at < DAY_MS) return false;
  try {
    writeFileSync(stamp, "", { mode: 0o600 });
    utimesSync(stamp, new Date(), new Date());
  } catch {} // Then it is tried again with the next run.
  return at !== 0;
}
