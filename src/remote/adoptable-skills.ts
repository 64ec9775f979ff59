import { existsSync, lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { DiscoverResult } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import type { Skill } from "../skill/skill.ts";
import { formatDisplayPath, listLocations } from "../skill/source/locations.ts";
import { readFolderSkill } from "../skill/source/read-skill.ts";
import type { LockedSkill } from "../store/lock-file.ts";
import { statIfExists } from "../util/file-access.ts";
import { isInside, resolveRealPath } from "../util/safe-path.ts";
import type { RefusedSkill } from "./candidate.ts";
import { findExportedOriginal } from "./skill-origin.ts";
import { readLockedSkills } from "./skills-dir.ts";

/** The requested skills on the disk, each with the symlinks that point to it, and those that cannot be adopted. */
export interface AdoptableSkills {
  skills: readonly { skill: Skill; links: readonly string[] }[];
  problems: readonly RefusedSkill[];
}

/** Finds the skills that paths and names refer to. A symlink refers to its target folder, once. */
export function findAdoptable(
  found: Pick<DiscoverResult, "catalog" | "around" | "trust" | "installs">,
  wanted: readonly string[],
  { cwd, isProject }: { cwd: string; isProject: boolean },
): AdoptableSkills {
  const { catalog, around } = found;
  const chosen = new Map<string, { skill: Skill; links: string[] }>();
  const problems: RefusedSkill[] = [];
  const all = [...catalog.skills, ...catalog.shadowed].filter(({ origin }) => origin.folder !== undefined);
  const take = (skill: Skill, link?: string) => {
    const { folder = "", file = "" } = skill.origin;
    const one = chosen.get(folder) ?? { skill, links: [] };
    const paths = [
      link ?? dirname(file),
      ...all.flatMap(({ origin }) => (origin.folder === folder ? dirname(origin.file ?? "") : [])),
    ];
    for (const path of paths) if (path !== folder && isLink(path) && !one.links.includes(path)) one.links.push(path);
    chosen.set(folder, one);
  };
  if (wanted.length === 0) for (const skill of listUnmanaged(found, all, isProject)) take(skill);
  for (const one of wanted) {
    const path = resolve(cwd, one.replace(/^~(?=\/|$)/, around.home));
    try {
      const named = one.includes("/") ? undefined : catalog.find(one);
      if (named && !existsSync(join(path, "SKILL.md"))) take(named);
      else for (const [skill, link] of findSkillsAt(path, all, around)) take(skill, link);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error;
      problems.push({ name: one.includes("/") ? formatDisplayPath(path, around) : one, error });
    }
  }
  return { skills: [...chosen.values()], problems };
}

/** Lists the skills in the user's client folders, or in the workspace, that are in no lock file. */
function listUnmanaged(
  { trust, around, installs }: Pick<DiscoverResult, "trust" | "around" | "installs">,
  all: readonly Skill[],
  isProject: boolean,
): Skill[] {
  const asking = new Set(listLocations(around).flatMap(({ requiresTrust: asks, name }) => (asks ? name : [])));
  return all.filter((skill) => {
    const { scope, source, folder = "", parent, form } = skill.origin;
    if (scope !== (isProject ? "workspace" : "user") || !asking.has(source)) return false;
    if (parent !== undefined || form !== "folder" || findExportedOriginal(installs, folder) !== undefined) return false;
    return trust.getLockState(skill).is === "unlocked" && !readLockEntry(folder);
  });
}

export function readLockEntry(folder: string): LockedSkill | undefined {
  return readLockedSkills({ folder: dirname(folder) })[basename(folder)];
}

/** Finds the skill in a folder, or the skills in a folder of skills, each with the symlink that led to it. */
function findSkillsAt(path: string, all: readonly Skill[], around: DiscoverResult["around"]): [Skill, string?][] {
  const stats = statIfExists(path);
  if (!stats) throw createPathMissingError(path, around);
  const folder = realpathSync(stats.isDirectory() ? path : dirname(path));
  if (!stats.isDirectory() && basename(path) !== "SKILL.md") throw createNotFolderError(path, around);
  if (!existsSync(join(folder, "SKILL.md"))) {
    const inside = all.filter(({ origin: { folder: own = "", file = "", parent } }) => {
      const outside = dirname(dirname(file));
      return parent === undefined && own !== "" && (isInside(folder, own) || resolveRealPath(outside) === folder);
    });
    if (inside.length === 0) throw createNotSkillError(path, around);
    return inside.map((skill) => [skill]);
  }
  const known = all.find(({ origin }) => origin.folder === folder);
  return [[known ?? readSkillAt(folder, around), ...(isLink(path) ? [path] : [])] as [Skill, string?]];
}

function readSkillAt(folder: string, around: DiscoverResult["around"]): Skill {
  const read = readFolderSkill(folder, { scope: "user", source: formatDisplayPath(dirname(folder), around) });
  if (read && "skill" in read) return read.skill;
  const finding = read?.findings[0];
  throw new SkillError("not-adoptable", {
    message: `${formatDisplayPath(folder, around)} is not a skill: its SKILL.md ${finding?.message ?? "cannot be read"}`,
    ...(finding?.fix === undefined
      ? { fix: "run", commands: [`skillet check ${formatDisplayPath(folder, around)}`] }
      : { fix: finding.fix }),
  });
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function createPathMissingError(path: string, around: DiscoverResult["around"]): SkillError {
  return new SkillError("not-found", {
    message: `Skill or folder ${formatDisplayPath(path, around)} not found`,
    fix: "list the skills that can be adopted",
    commands: ["skillet adopt --dry-run"],
  });
}

function createNotFolderError(path: string, around: DiscoverResult["around"]): SkillError {
  return new SkillError("not-adoptable", {
    message: `${formatDisplayPath(path, around)} is a file, but a skill is adopted with its folder`,
    fix: "move it to a folder with the skill's name, as SKILL.md",
  });
}

function createNotSkillError(path: string, around: DiscoverResult["around"]): SkillError {
  const shown = formatDisplayPath(path, around);
  return new SkillError("not-adoptable", {
    message: `${shown} has no SKILL.md, and contains no skill`,
    fix: "name the folder of a skill; to see what is wrong with one",
    commands: [`skillet check ${shown}`],
  });
}
