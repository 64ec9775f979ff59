import type { Skill } from "../skill/skill.ts";

/** The skill's table in the configuration, as it is written there. */
export function tableOf({ name }: Skill): string {
  return `[skills.${/^[\w-]+$/.test(name) ? name : JSON.stringify(name)}]`;
}
