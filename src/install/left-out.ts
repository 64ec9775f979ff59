import { isPrivate, type Skill } from "../skill/skill.ts";

/** What of a skill's files is not in its copies, in one sentence or none: what is hidden belongs to this machine. */
export function leftOut(skill: Skill): string[] {
  const hidden = skill.files().files.flatMap(({ path }) => (isPrivate(path) ? [hiddenPart(path)] : []));
  const names = [...new Set(hidden)].filter((path) => !path.endsWith(".DS_Store"));
  if (names.length === 0) return [];
  const rest = names.length > MOST ? `, and ${names.length - MOST} more` : "";
  return [`left out: ${names.slice(0, MOST).join(", ")}${rest}`];
}

const MOST = 5;

/** As far as what hides it: a hidden folder is named once. */
function hiddenPart(path: string): string {
  return /^(?:.*?\/)??\.[^/]*/.exec(path)?.[0] ?? path;
}
