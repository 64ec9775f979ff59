import { join } from "node:path";
import { type LockedSkills, parseLock } from "../host/lock/format.ts";
import { readLock } from "../host/lock/locks.ts";
import { targetOf } from "../install/target.ts";
import { SkillError } from "../shared/error.ts";
import { realPlace } from "../shared/inside.ts";
import { displayPath, type Surroundings } from "../source/locations.ts";

/** A folder of skills with a lock: that for all projects, or a workspace's own. */
export interface SkillsPlace {
  /** Its real path, be it there or not. */
  folder: string;
  isProject: boolean;
  /** The folder as people are told. */
  shown: string;
}

/** Where `skillet add` puts skills. Throws a SkillError when there can be no such folder. */
export function placeFor(around: Surroundings, isProject: boolean): SkillsPlace {
  const folder = isProject
    ? targetOf("agents", { around, isProject }).folder
    : realPlace(join(around.skilletHome, "installed"));
  return { folder, isProject, shown: displayPath(folder, around) };
}

/** What is locked there. Throws a SkillError when the lock cannot be used. */
export function lockedIn({ folder }: Pick<SkillsPlace, "folder">): LockedSkills {
  const lock = readLock(folder);
  if (lock instanceof SkillError) throw lock;
  return lock ?? lockedFrom(undefined);
}

/** The same from a text that was read while nobody else was at it. */
export function lockedFrom(text: string | undefined): Record<string, LockedSkills[string]> {
  return text === undefined ? Object.create(null) : parseLock(text);
}
