import type { Catalog } from "../catalog/catalog.ts";
import type { Skill } from "../skill/skill.ts";

/** Whether two catalogs hold the same skills with the same to say, and with the files that were listed of the first ones. */
export function saysTheSame(a: Catalog, b: Catalog): boolean {
  if (a.skills.length !== b.skills.length || a.shadowed.length !== b.shadowed.length) return false;
  if (JSON.stringify(a.diagnostics) !== JSON.stringify(b.diagnostics)) return false;
  return a.skills.every((skill, index) => {
    const other = b.skills[index];
    if (skill.hasOtherFiles?.()) return false;
    if (!other || skill.name !== other.name || skill.origin.file !== other.origin.file) return false;
    if (skill.origin.folderId !== other.origin.folderId) return false;
    if (skill.origin.remote?.digest !== other.origin.remote?.digest) return false;
    if (skill.origin.remote?.uri !== other.origin.remote?.uri) return false;
    if (skill.origin.fileId !== other.origin.fileId && !canBeRead(skill)) return false;
    return JSON.stringify(skill.manifest.data) === JSON.stringify(other.manifest.data);
  });
}

/** Whether its file is still one that is read: a link to a file that changed is not. */
function canBeRead(skill: Skill): boolean {
  try {
    skill.body();
    return true;
  } catch {
    return false;
  }
}
