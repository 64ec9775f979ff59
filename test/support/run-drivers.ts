import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RunStore } from "../../src/store/runs.ts";
import { createMemoryRunStore, type MemoryRun } from "../../src/testing/memory-stores.ts";
import type { Scene } from "./discover.ts";
import { useScene } from "./use.ts";

export type RunDriver = "files" | "memory" | "postgres";

/** A storage of runs that each scene creates again. Each open acts as another process. */
type CreateRunStorage = () => () => RunStore;

const external = new Map<RunDriver, CreateRunStorage>();

/** The drivers of run stores, over which a run, an approval and a resume are the same. */
export const RUN_DRIVERS: RunDriver[] = ["files", "memory"];

/** Runs the suites that are imported from now on over this driver only: it needs a server that most of them do without. */
export function useExternalDriver(driver: RunDriver, create: CreateRunStorage): void {
  external.set(driver, create);
  RUN_DRIVERS.splice(0, RUN_DRIVERS.length, driver);
}

/** `useScene` with the runs of this driver. */
export function scenesOver(driver: RunDriver): typeof useScene {
  if (driver === "files") return useScene;
  return (parts) => {
    const create = external.get(driver);
    if (create) return useScene({ ...parts, openRuns: create() });
    const stored = new Map<string, MemoryRun>();
    return useScene({ ...parts, openRuns: () => createMemoryRunStore(stored) });
  };
}

/** The journal of a run as text. */
export async function readJournalText(driver: RunDriver, { home, runs }: Scene, id: string): Promise<string> {
  if (driver === "files") return readFileSync(join(home, "runs", `${id}.jsonl`), "utf8");
  return (await runs.read(id)).lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
