import { scriptsOf } from "./script.ts";
import type { Skill } from "./skill.ts";

/** Returns whether a skill is instructions and files to read: nothing of it runs, and it asks for nothing to run with. */
export function isTextOnly(skill: Skill): boolean {
  const { toolsets, scripts, capabilities, env, packages, context } = skill.manifest;
  const declared = [toolsets, scripts, capabilities, env, packages];
  return context !== "fork" && declared.every(({ length }) => length === 0) && scriptsOf(skill).length === 0;
}
