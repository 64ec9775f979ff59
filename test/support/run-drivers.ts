import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { MemoryRun } from "../../src/testing/run-store.ts";
import { createMemoryRunStore } from "../../src/testing/run-store.ts";
import type { Scene } from "./discover.ts";
import { useScene } from "./use.ts";

/** The drivers of run stores, over which a run, an approval and a resume are the same. */
export const RUN_DRIVERS = ["files", "memory"] as const;
export type RunDriver = (typeof RUN_DRIVERS)[number];

/** `useScene` with the runs of this driver. */
export function scenesOver(driver: RunDriver): typeof useScene {
  if (driver === "files") return useScene;
  return (parts) => {
    const stored = new Map<string, MemoryRun>();
    return useScene({ ...parts, openRuns: () => createMemoryRunStore(stored) });
  };
}

/** The journal of a run as text. */
export async function journalText(driver: RunDriver, { home, runs }: Scene, id: string): Promise<string> {
  if (driver === "files") return readFileSync(join(home, "runs", `${id}.jsonl`), "utf8");
  return (await runs.read(id)).lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
