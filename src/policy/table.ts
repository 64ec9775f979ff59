import type { Skill } from "../skill/skill.ts";
import { quoted } from "./trust.ts";

/** The skill's table in the configuration, as it is written there. */
export function tableOf({ name }: Skill): string {
  return `[skills.${/^[\w-]+$/.test(name) ? name : JSON.stringify(name)}]`;
}

/** A key in it, as a shell takes it: one word. */
export function keyOf(skill: Skill, key: string): string {
  return quoted(`${tableOf(skill).slice(1, -1)}.${key}`);
}
