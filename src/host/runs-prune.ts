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

/** What is not kept of these, the newest of which is the first. `now`: what counts as the current time. */
export function outOf(runs: readonly RunSummary[], { days, most }: Retention, now = Date.now()): readonly RunSummary[] {
  const oldest = now - days * DAY_MS;
  return runs
    .filter(({ state }) => state !== "running")
    .filter(({ changedAt, state }, index) => Date.parse(changedAt) <= oldest || (index >= most && isOver(state)));
}

/**
 * The time by which runs are pruned without being asked: that of the last change which an earlier process recorded, if the clock is past it. A
 * clock that jumps ahead for one command deletes nothing; once a second run has seen the same time, it is believed.
 */
export function confirmedNow(runs: readonly RunSummary[]): number {
  return Math.min(Date.now(), Math.max(0, ...runs.map(({ changedAt }) => Date.parse(changedAt))));
}

export function isOver(state: RunState): boolean {
  return state === "ended" || state === "cancelled";
}

/** Whether it is time to look for what is not kept: once a day. */
export function isDue(folder: string): boolean {
  const stamp = join(folder, ".pruned");
  const at = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const age = Date.now() - at;
  if (age >= 0 && age < DAY_MS) return false; // One from the future was written by a clock that was wrong.
  try {
    writeFileSync(stamp, "", { mode: 0o600 });
    utimesSync(stamp, new Date(), new Date());
  } catch {} // Then it is tried again with the next run.
  return at !== 0;
}
