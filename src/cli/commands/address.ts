import type { Discovered } from "../../host/discover.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";

/** `name@source`, or with the file's path where one source has several of the name. */
export function addressOf(skill: Skill, { catalog, around }: Discovered): string {
  const { source, file, remote } = skill.origin;
  const isOnly = catalog.copies(skill.name).filter((copy) => copy.origin.source === source).length === 1;
  const place = file === undefined ? remote?.uri : displayPath(file, around);
  return `${skill.name}@${isOnly || place === undefined ? source : place}`;
}
