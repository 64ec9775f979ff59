import type { Host } from "../host/host.ts";
import {
  type LibraryLayer,
  type LibrarySummary,
  removeLibraries,
  unusedLibraries,
} from "../sandbox/libraries/library-layer.ts";
import type { LibrarySet } from "../sandbox/libraries/library-lock.ts";
import { storeFolder } from "../sandbox/places.ts";
import { storeSkill } from "../sandbox/store.ts";
import { leftOvers, removeFetched, unusedFetched } from "../sandbox/uv.ts";
import { SKILL_FOLDER } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";
import { placesOf, sandboxOf } from "./enclosure.ts";
import { givenPackages } from "./given-packages.ts";
import { librarySets, openLibraries } from "./open-libraries.ts";
import {
  type DeclaringScript,
  declaringScripts,
  fetchInline,
  hasUv,
  plainDependencies,
  requirePlain,
  uvScript,
} from "./python.ts";
import { homeOf } from "./workspace-access.ts";

export interface SkillLibraries {
  /** The scripts whose own declarations were fetched. */
  scripts: string[];
  layers: LibraryLayer[];
}

export interface SkillLibraryOptions {
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** Builds the Python and npm packages of a skill before anything runs: those that the user gives it, and those that its scripts declare. */
export async function buildSkillLibraries(
  host: Host,
  skill: Skill,
  options: SkillLibraryOptions,
): Promise<SkillLibraries> {
  const { copy, declaring } = declarationsOf(skill);
  const sets = setsOf(host, skill, declaring);
  if (sets.length === 0 && declaring.length === 0) return { scripts: [], layers: [] };
  const sandbox = await sandboxOf(host);
  const places = placesOf(host);
  const isByPip = !hasUv(host);
  if (isByPip) for (const one of declaring) requirePlain(one);
  const layers = await openLibraries(host, wantedOf(host, skill, declaring), {
    ...options,
    sandbox,
    places,
    rebuild: true,
  });
  if (!isByPip && copy && declaring.length > 0) {
    const mount = { from: storeSkill(copy, storeFolder(homeOf(host))), to: SKILL_FOLDER, access: "read" as const };
    await fetchInline(host, declaring, copy, { ...options, sandbox, mount, folder: places.own });
  }
  return { scripts: declaring.map(({ script }) => script.path), layers };
}

/** What is kept for skills that none of these is. */
export interface UnusedLibraries {
  layers: LibrarySummary[];
  /** Folders of what uv fetched for scripts. */
  fetched: string[];
}

export function unusedSkillLibraries(host: Host, skills: readonly Skill[]): UnusedLibraries {
  const places = placesOf(host);
  const found = skills.map((skill) => ({ skill, ...declarationsOf(skill) }));
  const scripts = found.flatMap(({ copy, declaring }) =>
    copy ? declaring.map(({ script }) => uvScript(host, script, copy)) : [],
  );
  const sets = found.flatMap(({ skill, declaring }) => setsOf(host, skill, declaring));
  return { layers: unusedLibraries(places, sets), fetched: unusedFetched(places.own, scripts) };
}

/** Removes these, and what was left half-made or replaced. */
export function pruneSkillLibraries(host: Host, { layers, fetched }: UnusedLibraries): void {
  removeLibraries(layers);
  removeFetched([...fetched, ...leftOvers(placesOf(host).own)]);
}

/** The sets that a skill uses, with those that its scripts declare. */
export function skillLibrarySets(host: Host, skill: Skill): LibrarySet[] {
  return setsOf(host, skill, declarationsOf(skill).declaring);
}

function setsOf(host: Host, skill: Skill, declaring: readonly DeclaringScript[]): LibrarySet[] {
  return librarySets(wantedOf(host, skill, declaring));
}

function wantedOf(host: Host, skill: Skill, declaring: readonly DeclaringScript[]) {
  const given = givenPackages(skill, host);
  return hasUv(host) ? given : { ...given, python: [...given.python, ...plainDependencies(declaring)] };
}

function declarationsOf(skill: Skill): { copy?: SkillCopy; declaring: DeclaringScript[] } {
  if (!skill.files().files.some(({ path }) => /\.py$/i.test(path))) return { declaring: [] };
  const copy = copySkill(skill);
  return { copy, declaring: declaringScripts(skill, copy) };
}
