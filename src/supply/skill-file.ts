import { constants, copyFileSync, lstatSync, readdirSync, renameSync } from "node:fs";
import { join, posix } from "node:path";
import type { Fetched } from "./contract.ts";
import { shown } from "./refusal.ts";

/**
 * Makes a SKILL.md that is a link to a file of its folder a copy of that. No link was made, so its folder would be no skill, and what lies
 * in it be taken for skills of one file each. `lost`: what paths begin with where it leads elsewhere.
 */
export function copyLinkedSkillFiles({ folder, links, notes }: Fetched): { lost: string[]; notes: string[] } {
  const outcome = { lost: [] as string[], notes: [...notes] };
  for (const link of links.keys()) {
    if (posix.basename(link) !== "SKILL.md") continue;
    const above = link.slice(0, -"SKILL.md".length);
    const target = leadsTo(link, links);
    if (target?.startsWith(above) && lstatSync(join(folder, target), { throwIfNoEntry: false })?.isFile()) {
      copyFileSync(join(folder, target), join(folder, link), constants.COPYFILE_EXCL);
    } else {
      outcome.lost.push(above);
      outcome.notes.push(`${shown(link)} is a link that leads to no file of its folder, so that is no skill`);
    }
  }
  return outcome;
}

/** The file of a folder that may be a skill: SKILL.md, also where it was skill.md or the like. Contract: the folder is ours. */
export function renamedSkillFile(folder: string): string {
  const file = join(folder, "SKILL.md");
  const names = readdirSync(folder);
  const other = names.includes("SKILL.md") ? undefined : names.find((name) => name.toUpperCase() === "SKILL.MD");
  if (other !== undefined) renameSync(join(folder, other), file);
  return file;
}

const MOST_LINKS = 40;

/** Where a link leads, by way of others or not. Nothing when that is no path of the same tree. */
export function leadsTo(path: string, links: ReadonlyMap<string, string>): string | undefined {
  let at = path;
  for (let count = 0; count < MOST_LINKS; count++) {
    const target = links.get(at);
    if (target === undefined) return at.startsWith("../") ? undefined : at;
    if (posix.isAbsolute(target)) return undefined;
    at = posix.join(posix.dirname(at), target);
  }
  return undefined;
}
