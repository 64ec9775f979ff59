import { oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";

const LONGEST = 1024;

/** The skills as lines for a prompt, or the empty string when there are none. */
export function promptListing(skills: Iterable<Skill>): string {
  const lines: string[] = [];
  for (const skill of skills) lines.push(`- ${skill.name}: ${oneLine(skill.description, LONGEST)}`);
  return lines.join("\n");
}
