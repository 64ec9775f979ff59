import type { LockedSkill } from "../../host/lock/format.ts";
import { readLock } from "../../host/lock/locks.ts";
import { mend } from "../../install/apply.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, count, nearest } from "../../shared/text.ts";
import { statOf } from "../../source/file.ts";
import type { Surroundings } from "../../source/locations.ts";
import { lockedIn, lockedPlaces, placeFor, type SkillsPlace } from "../../supply/skills-place.ts";

/** A folder of skills with a lock, and what is locked there. */
export interface LockedPlace {
  place: SkillsPlace;
  skills: readonly (readonly [string, LockedSkill])[];
  /** What is locked in the other one, that for all projects or the workspace's, by name. */
  elsewhere(): readonly string[];
}

/** The place that a command is about. What a killed process left half-done there is taken back first. */
export function lockedPlace(around: Surroundings, isProject: boolean): LockedPlace {
  return openPlace(placeFor(around, isProject), around);
}

function openPlace(place: SkillsPlace, around: Surroundings): LockedPlace {
  if (statOf(place.folder)) mend(place.folder);
  const skills = Object.entries(lockedIn(place)).sort(([a], [b]) => byText(a, b));
  return { place, skills, elsewhere: () => otherNames(around, !place.isProject) };
}

/** The places that a command is about: the one that `skillet add` uses first, then those with adopted skills. */
export function allLockedPlaces(around: Surroundings, isProject: boolean): LockedPlace[] {
  return lockedPlaces(around, isProject).map((place) => openPlace(place, around));
}

/** The places for all projects and of the workspace, each once: a workspace can be the home folder. */
export function everyLockedPlace(around: Surroundings, levels: readonly ("user" | "project")[]): LockedPlace[] {
  const all = levels.flatMap((level) => allLockedPlaces(around, level === "project"));
  return all.filter(({ place }, index) => all.findIndex((one) => one.place.folder === place.folder) === index);
}

/** Skills of one place that a command is about. */
export interface Chosen {
  locked: LockedPlace;
  entries: LockedPlace["skills"];
}

/**
 * Returns the skills of these names by place; all when none is named. `NAME@FOLDER` names the one in a folder. Throws a SkillError when one
 * is in no place.
 */
export function chooseNamed(places: readonly LockedPlace[], names: readonly string[]): Chosen[] {
  const [first] = places;
  if (!first) return [];
  const wanted = [...new Set(names)].map((name) => ({ name, ...addressIn(name, places) }));
  for (const { name, bare, isIn } of wanted)
    if (!places.some((one) => isIn(one) && has(one, bare))) named(first, [name]); // Throws, with what was meant.
  const chosen = places.map((locked) => ({
    locked,
    entries: locked.skills.filter(
      ([name]) => names.length === 0 || wanted.some(({ bare, isIn }) => bare === name && isIn(locked)),
    ),
  }));
  const some = chosen.filter(({ entries }) => entries.length > 0);
  return some.length > 0 ? some : [{ locked: first, entries: [] }];
}

/** A skill's name may hold an @ only before the folder that it is in. */
function addressIn(name: string, places: readonly LockedPlace[]) {
  const at = name.indexOf("@");
  const folder = name.slice(at + 1);
  const meant = at === -1 ? [] : places.filter(({ place }) => place.shown === folder || place.folder === folder);
  return meant.length === 0
    ? { bare: name, isIn: () => true }
    : { bare: name.slice(0, at), isIn: (one: LockedPlace) => meant.includes(one) };
}

function has({ skills }: LockedPlace, name: string): boolean {
  return skills.some(([other]) => other === name);
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
    return lockedPlaces(around, isProject).flatMap(({ folder }) => {
      const lock = readLock(folder);
      return lock instanceof SkillError || lock === undefined ? [] : Object.keys(lock);
    });
  } catch {
    return []; // There can be no such place.
  }
}
