import type { Catalog } from "../../catalog/catalog.ts";
import type { Scope, Skill } from "../../skill/skill.ts";
import { isCopy } from "../../source/digest.ts";

/** A folder of skills that has the skill. */
export interface SkillPlace {
  scope: Scope;
  source: string;
  file?: string;
}

/** Returns where a skill is: its own place first, then those of copies that are the same to the byte. */
export function placesOf(skill: Skill, catalog: Catalog): SkillPlace[] {
  const others = catalog.copies(skill.name).filter((copy) => copy !== skill && isCopy(skill, copy, "exact"));
  return [skill, ...others].map(({ origin: { scope, source, file } }) => ({
    scope,
    source,
    ...(file === undefined ? {} : { file }),
  }));
}
