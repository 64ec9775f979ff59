import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type LockedSkills, parseLock } from "../host/lock/format.ts";
import { readLock } from "../host/lock/locks.ts";
import { targetOf } from "../install/target.ts";
import { SkillError } from "../shared/error.ts";
import { realPlace } from "../shared/inside.ts";
import { statOf } from "../source/file.ts";
import { displayPath, type Surroundings } from "../source/locations.ts";
import { foldedName } from "./entry-name.ts";

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

/** Throws a SkillError when another folder of the place is the same on some disks. */
export function judgeBeside(name: string, { folder, shown }: SkillsPlace, locked: LockedSkills): void {
  const names = [...Object.keys(locked), ...(statOf(folder) ? readdirSync(folder) : [])];
  const other = names.find((one) => one !== name && foldedName(one) === foldedName(name));
  if (other === undefined) return;
  throw new SkillError("in-the-way", {
    message: `"${name}" and ${JSON.stringify(other)}, which is in ${shown}, are one folder on some disks`,
    fix: locked[other] ? `remove the other one first: skillet remove ${other}` : "move the other one away",
  });
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
