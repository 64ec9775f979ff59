import type { LockedSkill } from "../../host/lock/format.ts";
import { readLock } from "../../host/lock/locks.ts";
import { mend } from "../../install/apply.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, count, nearest } from "../../shared/text.ts";
import { statOf } from "../../source/file.ts";
import type { Surroundings } from "../../source/locations.ts";
import { lockedIn, placeFor, type SkillsPlace } from "../../supply/skills-place.ts";

/** A folder of skills with a lock, and what is locked there. */
export interface LockedPlace {
  place: SkillsPlace;
  skills: readonly (readonly [string, LockedSkill])[];
  /** What is locked in the other one, that for all projects or the workspace's, by name. */
  elsewhere(): readonly string[];
}

/** The place that a command is about. What a killed process left half-done there is taken back first. */
export function lockedPlace(around: Surroundings, isProject: boolean): LockedPlace {
  const place = placeFor(around, isProject);
  if (statOf(place.folder)) mend(place.folder);
  const skills = Object.entries(lockedIn(place)).sort(([a], [b]) => byText(a, b));
  return { place, skills, elsewhere: () => otherNames(around, !isProject) };
}

/** Those of these names; all when none is named. Throws a SkillError when one was not added there. */
export function named({ place, skills, elsewhere }: LockedPlace, names: readonly string[]): LockedPlace["skills"] {
  if (names.length === 0) return skills;
  return [...new Set(names)].map((name) => {
    const found = skills.find(([other]) => other === name);
    if (found) return found;
    const meant = nearest(
      name,
      skills.map(([other]) => other),
    );
    throw new SkillError("not-found", {
      message: `No skill "${name}" was added to ${place.shown}`,
      fix: elsewhere().includes(name)
        ? place.isProject
          ? "it is in all of your projects: leave --project out"
          : "this workspace has it: say --project"
        : meant
          ? `did you mean ${meant}?`
          : "`skillet list --installed` shows what was added",
    });
  });
}

/** What to say where there is nothing to do anything with. */
export function sayNothingAdded(locked: LockedPlace): string {
  const { place, elsewhere } = locked;
  const nothing = `nothing was added to ${place.shown} yet`;
  if (elsewhere().length > 0) return `${nothing}; ${sayElsewhere(locked)}`;
  return `${nothing}: \`skillet add SOURCE${place.isProject ? " --project" : ""}\` does`;
}

function sayElsewhere({ place, elsewhere }: LockedPlace): string {
  const skills = count(elsewhere().length, "skill");
  return place.isProject
    ? `leave --project out for the ${skills} that you have in all projects`
    : `say --project for the ${skills} of this workspace`;
}

function otherNames(around: Surroundings, isProject: boolean): string[] {
  try {
    const lock = readLock(placeFor(around, isProject).folder);
    return lock instanceof SkillError || lock === undefined ? [] : Object.keys(lock);
  } catch {
    return []; // There can be no such place.
  }
}
