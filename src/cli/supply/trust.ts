import { join } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import type { Skill } from "../../skill/skill.ts";
import { digestOf } from "../../source/digest.ts";
import { readFolderSkill } from "../../source/folder-skill.ts";
import type { Coming } from "../../supply/add-skills.ts";
import { type Tree, writeTree } from "../../supply/read-tree.ts";
import { needsTrust, type SkillsPlace } from "../../supply/skills-place.ts";

const ORIGIN = { scope: "workspace", source: ".agents/skills" } as const;

/** Those of a project that will be trusted by whoever agrees: all that was shown, or of which what was not shown is what they trusted before. */
export function trustedOnceAgreed(
  coming: readonly Coming[],
  where: { place: SkillsPlace; found: Discovered; work: string },
): ReadonlySet<string> {
  const { place, found, work } = where;
  if (!needsTrust(place)) return new Set(coming.map(({ name }) => name));
  const given = new Map(found.trust.list());
  const isSeen = (one: Coming) => {
    if (one.is === "new") return true;
    const trusted = given.get(join(place.folder, one.name));
    return trusted !== undefined && trusted.digest === digestIn(one.difference.before, join(work, "trusted", one.name));
  };
  return new Set(coming.filter(isSeen).map(({ name }) => name));
}

function digestIn(tree: Tree, folder: string): string | undefined {
  writeTree(folder, tree);
  const skill = skillIn(folder);
  return skill && digestOf(skill);
}

function skillIn(folder: string): Skill | undefined {
  const read = readFolderSkill(folder, ORIGIN);
  return read && "skill" in read ? read.skill : undefined;
}
