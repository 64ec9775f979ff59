import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fingerprintTree } from "../../../src/store/lock-diff.ts";
import {
  digestTree,
  formatLock,
  LOCK_FILE,
  type LockedSkill,
  parseLock,
  readFileTree,
} from "../../../src/store/lock-file.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Locks every skill in a folder in its present state, as if it had been added. */
export function lockAll(skillsDir: string, more: Partial<LockedSkill> = {}): Record<string, LockedSkill> {
  const names = readdirSync(skillsDir, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && !entry.name.startsWith(".") ? entry.name : [],
  );
  const skills = Object.fromEntries(names.map((name) => [name, entryFor(join(skillsDir, name), more)]));
  writeFileSync(join(skillsDir, LOCK_FILE), formatLock(skills));
  return skills;
}

export function entryFor(folder: string, more: Partial<LockedSkill> = {}): LockedSkill {
  const files = readFileTree(folder);
  return { source: "/source", digest: digestTree(files), files, grants: ["instructions"], ...more };
}

/** Waits until the clock has ticked since the last change of a folder: later changes have other times. */
export async function waitForClockTick(folder: string, { files }: LockedSkill): Promise<void> {
  await waitFor(() => fingerprintTree(folder, files).isSettled);
}

/** Reads a folder's lock; undefined without one. */
export function lockIn(skillsDir: string): Record<string, LockedSkill> | undefined {
  const file = join(skillsDir, LOCK_FILE);
  return existsSync(file) ? parseLock(readFileSync(file, "utf8")) : undefined;
}
