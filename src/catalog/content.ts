import { inLine, inTag } from "../shared/prompt.ts";
import { count } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { substitute } from "../skill/substitute.ts";

export interface ContentOptions {
  /** What was written after the skill's name. */
  arguments?: string;
  /** The skill's folder as the model sees it, where that differs from the real one. */
  folder?: string;
}

/** A skill's instructions for a model, with what was given put in, and the list of its files. Throws a SkillError when they cannot be read. */
export function skillContent(skill: Skill, options: ContentOptions = {}): string {
  const { manifest, origin } = skill;
  const folder = options.folder ?? origin.folder;
  const text = substitute(skill.body(), {
    names: manifest.arguments,
    ...(options.arguments === undefined ? {} : { arguments: options.arguments }),
    ...(folder === undefined ? {} : { folder }),
  });
  return [inTag("skill_content", { name: skill.name }, text), ...fileLines(skill)].join("\n");
}

const MOST_FILES = 100;

function fileLines(skill: Skill): string[] {
  const { files } = skill.files();
  if (files.length === 0) return [];
  const lines = files.slice(0, MOST_FILES).map(({ path, size, executable }) => {
    return `- ${inLine(path)} (${count(size, "byte")}${executable ? ", executable" : ""})`;
  });
  if (files.length > MOST_FILES) lines.push(`- and ${files.length - MOST_FILES} more`);
  return ["<skill_files>", ...lines, "</skill_files>", "read_skill_resource reads one of them."];
}
