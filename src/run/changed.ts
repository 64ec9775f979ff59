import type { Notice } from "../host/sandbox.ts";
import { placeOf } from "../host/trust.ts";
import { quoted } from "../policy/trust.ts";
import type { Skill } from "../skill/skill.ts";

/** Code that is not what the user trusted. */
export function changed(skill: Skill, changes: readonly { path: string; what: string }[]): Notice {
  const said = changes.slice(0, 10).map(({ path, what }) => `${path} ${what}`);
  if (changes.length > 10) said.push(`and ${changes.length - 10} more`);
  return {
    code: "changed",
    message: `Skill '${skill.name}' is not what was trusted: ${said.join(", ")}`,
    fix: `look at it, then run: skillet trust ${quoted(placeOf(skill))}`,
  };
}
