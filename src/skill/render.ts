import type { Data } from "./data.ts";
import { trimBody } from "./frame.ts";
import type { Skill } from "./skill.ts";
import { writeYaml } from "./yaml.ts";

/** A SKILL.md with this frontmatter and body; parsed again it gives the same values. */
export function renderDocument(data: Data, body: string): string {
  return `---\n${writeYaml(data)}---\n\n${trimBody(body)}\n`;
}

/** The skill as a SKILL.md: its frontmatter as it was written, and its instructions. */
export function toSkillMd(skill: Skill): string {
  const { name: _name, description: _description, instructions: _instructions, ...rest } = skill.manifest.data;
  return renderDocument({ name: skill.name, description: skill.description, ...rest }, skill.body());
}
