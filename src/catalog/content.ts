import { inTag } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { substitute } from "../skill/substitute.ts";

export interface ContentOptions {
  /** What was written after the skill's name. */
  arguments?: string;
  /** The skill's folder as the model sees it, where that differs from the real one. */
  folder?: string;
}

/** A skill's instructions for a model, with what was given put in. Throws a SkillError when they cannot be read. */
export function skillContent(skill: Skill, options: ContentOptions = {}): string {
  const { manifest, origin } = skill;
  const folder = options.folder ?? origin.folder;
  const text = substitute(skill.body(), {
    names: manifest.arguments,
    ...(options.arguments === undefined ? {} : { arguments: options.arguments }),
    ...(folder === undefined ? {} : { folder }),
  });
  return inTag("skill_content", { name: skill.name }, text);
}
