import { readdirSync } from "node:fs";
import { join } from "node:path";
import { openAdopted } from "../host/adopted.ts";
import { LOCK_FILE, type LockedSkills, parseLock } from "../host/lock/format.ts";
import { readLock } from "../host/lock/locks.ts";
import { targetOf } from "../install/target.ts";
import { SkillError } from "../shared/error.ts";
import { realPlace } from "../shared/inside.ts";
import type { Scope } from "../skill/skill.ts";
import { statOf } from "../source/file.ts";
import { displayPath, locations, type Surroundings } from "../source/locations.ts";
import { foldedName } from "./entry-name.ts";

/** A folder of skills with a lock: that for all projects, or a workspace's own. */
export interface SkillsPlace {
  /** Its real path, be it there or not. */
  folder: string;
  isProject: boolean;
  /** The folder as people are told. */
  shown: string;
  /** Whether its skills were adopted: skillet did not make the folder, and other programs write to it. */
  isAdopted?: true;
}

/** True when trust in a skill there is recorded apart from its lock, since others can write the lock: all but `~/.skillet/installed`. */
export function needsTrust({ isProject, isAdopted }: Pick<SkillsPlace, "isProject" | "isAdopted">): boolean {
  return isProject || isAdopted === true;
}

/** Where `skillet add` puts skills. Throws a SkillError when there can be no such folder. */
export function placeFor(around: Surroundings, isProject: boolean): SkillsPlace {
  const folder = isProject
    ? targetOf("agents", { around, isProject }).folder
    : realPlace(join(around.skilletHome, "installed"));
  return { folder, isProject, shown: displayPath(folder, around) };
}

/** Returns the folder that an adopted skill is in, as a place. */
export function adoptedPlace(folder: string, around: Surroundings, isProject: boolean): SkillsPlace {
  const added = ownPlace(around, isProject);
  if (added?.folder === folder) return added;
  return { folder, isProject, shown: displayPath(folder, around), isAdopted: true };
}

/**
 * Returns every folder of skills with a lock, for all projects or of the workspace: the one that `skillet add` uses, whether it is there or
 * not, then those with adopted skills.
 */
export function lockedPlaces(around: Surroundings, isProject: boolean): SkillsPlace[] {
  const first = placeFor(around, isProject);
  const all = locations(around).filter(({ sameAs }) => sameAs === undefined);
  const ofScope = (scope: Scope) => all.flatMap((one) => (one.scope === scope ? realPlace(one.path) : []));
  const project = new Set(ofScope("workspace"));
  const folders = isProject
    ? [...project]
    : [...ofScope("user"), ...openAdopted(around.skilletHome).list()].filter((folder) => !project.has(folder));
  const locked = [...new Set(folders)].filter((folder) => folder !== first.folder && statOf(join(folder, LOCK_FILE)));
  return [first, ...locked.map((folder) => adoptedPlace(folder, around, isProject))];
}

/** Nothing when there can be no such folder. */
function ownPlace(around: Surroundings, isProject: boolean): SkillsPlace | undefined {
  try {
    return placeFor(around, isProject);
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
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
