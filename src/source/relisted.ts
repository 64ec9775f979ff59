import { basename } from "node:path";
import { SkillError } from "../shared/error.ts";
import { readInside } from "../shared/inside.ts";
import { type FileList, type Skill, withBody } from "../skill/skill.ts";
import { listFiles } from "./file-list.ts";
import { LARGEST_RESOURCE } from "./file-skill.ts";

/** The skill with the files that there are now. */
export function relisted(skill: Skill): Skill {
  const { folder } = skill.origin;
  if (folder === undefined) return skill;
  const list = listNow(skill);
  return {
    ...withBody(skill),
    files: () => list,
    read(path) {
      const result = readInside(folder, path, LARGEST_RESOURCE);
      if ("bytes" in result) return result.bytes;
      throw new SkillError(`resource-${result.code}`, { message: `Skill "${skill.name}": ${result.message}` });
    },
  };
}

/** The files that there are now: a skill's own list is that of when somebody first asked. */
export function listNow(skill: Skill): FileList {
  const { folder, file } = skill.origin;
  return folder === undefined || file === undefined ? skill.files() : listFiles(folder, basename(file));
}
