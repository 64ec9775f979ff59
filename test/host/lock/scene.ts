import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LOCK_FILE, type LockedSkill, parseLock, printLock } from "../../../src/host/lock/format.ts";
import { stampOf } from "../../../src/host/lock/stamps.ts";
import { treeDigest, treeOf } from "../../../src/host/lock/tree.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Locks every skill in a folder as it is now, as if it had been added. */
export function lockAll(skillsDir: string, more: Partial<LockedSkill> = {}): Record<string, LockedSkill> {
  const names = readdirSync(skillsDir, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && !entry.name.startsWith(".") ? entry.name : [],
  );
  const skills = Object.fromEntries(names.map((name) => [name, entryFor(join(skillsDir, name), more)]));
  writeFileSync(join(skillsDir, LOCK_FILE), printLock(skills));
  return skills;
}

export function entryFor(folder: string, more: Partial<LockedSkill> = {}): LockedSkill {
  const files = treeOf(folder);
  return { source: "/source", digest: treeDigest(files), files, grants: ["instructions"], ...more };
}

/** Waits until the clock has ticked since the last change of a folder: what is changed after that has other times. */
export async function settle(folder: string, { files }: LockedSkill): Promise<void> {
  await waitFor(() => stampOf(folder, files).isSettled);
}

/** What a folder's lock says; nothing when it has none. */
export function lockIn(skillsDir: string): Record<string, LockedSkill> | undefined {
  const file = join(skillsDir, LOCK_FILE);
  return existsSync(file) ? parseLock(readFileSync(file, "utf8")) : undefined;
}
