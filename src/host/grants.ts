import type { Skill } from "../skill/skill.ts";

/** Which copy of a skill its values were given to: that of one source is not that of another. */
export interface Grants {
  /** The copy that has them; nothing while none does. */
  ownerOf(name: string): { source: string; place: string } | undefined;
  /** Gives them to this copy from now on. Throws a SkillError when it cannot be written down. */
  grant(skill: Skill): void;
}
