import type { Host } from "../../config/host.ts";
import {
  findUnusedLibraryLayers,
  type LibraryLayer,
  type LibrarySummary,
  removeLibraryLayers,
} from "../../sandbox/libraries/library-layer.ts";
import type { LibrarySet } from "../../sandbox/libraries/library-lock.ts";
import { getSkillStoreFolder, storeSkillCopy } from "../../sandbox/sandbox-folders.ts";
import { findStaleFetches, findUnusedFetches, removeFetches } from "../../sandbox/uv.ts";
import type { Skill } from "../../skill/skill.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import { copySkill, type SkillCopy } from "../../skill/source/skill-copy.ts";
import { mapAsync } from "../../util/sequential.ts";
import { getPackageFolders, resolveSandbox } from "./run-sandbox.ts";
import { listSkillPackages, resolveSkilletHome } from "./sandbox-permissions.ts";
import {
  createLibrarySets,
  createUvScript,
  type DeclaringScript,
  fetchDeclaredPackages,
  findDeclaringScripts,
  hasUv,
  listPlainDependencies,
  requirePlainPackages,
  resolveLibraries,
} from "./skill-libraries.ts";

export interface SkillLibraries {
  /** The scripts whose declared packages were fetched. */
  scripts: string[];
  layers: LibraryLayer[];
}

export interface SkillLibraryOptions {
  update?: boolean;
  onProgress(text: string): void;
  signal: AbortSignal;
}

/** Builds the Python and npm packages of a skill before anything runs: those that the user configured, and those that its scripts declare. */
export async function buildSkillLibraries(
  host: Host,
  skill: Skill,
  options: SkillLibraryOptions,
): Promise<SkillLibraries> {
  const { copy, declaring } = await readDeclarations(skill);
  const sets = createSetsFor(host, skill, declaring);
  if (sets.length === 0 && declaring.length === 0) return { scripts: [], layers: [] };
  const sandbox = await resolveSandbox(host);
  const places = getPackageFolders(host);
  const isByPip = !hasUv(host);
  if (isByPip) for (const one of declaring) requirePlainPackages(one);
  const layers = await resolveLibraries(host, listWantedPackages(host, skill, declaring), {
    ...options,
    sandbox,
    places,
    rebuild: true,
  });
  if (!isByPip && copy && declaring.length > 0) {
    const mount = {
      from: storeSkillCopy(copy, getSkillStoreFolder(resolveSkilletHome(host))),
      to: SANDBOX_SKILL_FOLDER,
      access: "read" as const,
    };
    await fetchDeclaredPackages(host, declaring, copy, { ...options, sandbox, mount, folder: places.own });
  }
  return { scripts: declaring.map(({ script }) => script.path), layers };
}

/** Stored libraries that none of the given skills uses. */
export interface UnusedLibraries {
  layers: LibrarySummary[];
  /** Folders of packages that uv fetched for scripts. */
  fetched: string[];
}

export async function findUnusedSkillLibraries(host: Host, skills: readonly Skill[]): Promise<UnusedLibraries> {
  const places = getPackageFolders(host);
  const found = await mapAsync(skills, async (skill) => ({ skill, ...(await readDeclarations(skill)) }));
  const scripts = found.flatMap(({ copy, declaring }) =>
    copy ? declaring.map(({ script }) => createUvScript(host, script, copy)) : [],
  );
  const sets = found.flatMap(({ skill, declaring }) => createSetsFor(host, skill, declaring));
  return { layers: findUnusedLibraryLayers(places, sets), fetched: findUnusedFetches(places.own, scripts) };
}

/** Removes these libraries, and incomplete or replaced ones. */
export function pruneSkillLibraries(host: Host, { layers, fetched }: UnusedLibraries): void {
  removeLibraryLayers(layers);
  removeFetches([...fetched, ...findStaleFetches(getPackageFolders(host).own)]);
}

/** Lists the sets that a skill uses, including those that its scripts declare. */
export async function listSkillLibrarySets(host: Host, skill: Skill): Promise<LibrarySet[]> {
  return createSetsFor(host, skill, (await readDeclarations(skill)).declaring);
}

function createSetsFor(host: Host, skill: Skill, declaring: readonly DeclaringScript[]): LibrarySet[] {
  return createLibrarySets(listWantedPackages(host, skill, declaring));
}

function listWantedPackages(host: Host, skill: Skill, declaring: readonly DeclaringScript[]) {
  const configured = listSkillPackages(skill, host);
  return hasUv(host)
    ? configured
    : { ...configured, python: [...configured.python, ...listPlainDependencies(declaring)] };
}

async function readDeclarations(skill: Skill): Promise<{ copy?: SkillCopy; declaring: DeclaringScript[] }> {
  if (!(await skill.files()).files.some(({ path }) => /\.py$/i.test(path))) return { declaring: [] };
  const copy = await copySkill(skill);
  return { copy, declaring: await findDeclaringScripts(skill, copy) };
}
