import { SkillError } from "../shared/error.ts";
import { type FileList, type Skill, withBody } from "../skill/skill.ts";
import { listSkillFiles, readSkillFile } from "./file-list.ts";

/** The skill with the files that there are now. */
export function relisted(skill: Skill): Skill {
  const { folder } = skill.origin;
  if (folder === undefined) return skill;
  const list = listNow(skill);
  return {
    ...withBody(skill),
    files: () => list,
    read(path) {
      const result = readSkillFile(skill.origin, path);
      if ("bytes" in result) return result.bytes;
      throw new SkillError(`resource-${result.code}`, { message: `Skill "${skill.name}": ${result.message}` });
    },
  };
}

/** The files that there are now: a skill's own list is that of when somebody first asked. */
export function listNow(skill: Skill): FileList {
  const { folder, file } = skill.origin;
  return folder === undefined || file === undefined ? skill.files() : listSkillFiles(skill.origin);
}
