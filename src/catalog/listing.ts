import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { type Listed, type ListingOptions, listWithin } from "./budget.ts";
import { describeSkill } from "./describe-skill.ts";

/** The skills as lines for a prompt, or the empty string when there are none. */
export function promptListing(skills: Iterable<Skill>): string {
  return Array.from(skills, (skill) => `- ${inLine(skill.name, 64)}: ${describeSkill(skill)}`).join("\n");
}

export interface SectionOptions {
  /** Where the skill's folder is mounted for the model, if it is. */
  pathOf?: (skill: Skill) => string | undefined;
}

/** The section of a system prompt for agents that want one list and no decision by the query; empty when there are no skills. */
export function promptSection(skills: Iterable<Skill>, { pathOf }: SectionOptions = {}): string {
  const lines = Array.from(skills, (skill) => {
    const path = pathOf?.(skill);
    return `- **${inLine(skill.name, 64)}**: ${describeSkill(skill)}${path === undefined ? "" : ` (${inLine(path)})`}`;
  });
  return lines.length === 0 ? "" : `${HEADING}\n\n${lines.join("\n")}`;
}

/** The same section within a number of characters: where it does not fit, descriptions are shortened as in other lists. */
export function sectionWithin(
  skills: readonly Skill[],
  { pathOf, ...options }: Pick<ListingOptions, "room" | "usage" | "search"> & SectionOptions,
): Listed {
  const text = promptSection(skills, pathOf ? { pathOf } : {});
  if (text.length <= options.room) return { text, whole: skills.length, shortened: 0, named: 0, left: 0 };
  return listWithin(skills, { ...options, heading: `${HEADING}\n`, nameOf: ({ name }) => `**${inLine(name, 64)}**` });
}

const HEADING = `## Skills

Before replying, check if any available skill matches the user's request.
If one clearly applies, invoke it with \`use_skill\`. If none apply, respond directly.`;
