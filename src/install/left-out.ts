import { isPrivate, SIGNATURE_FILE, type Skill } from "../skill/skill.ts";

/** A copy is written for its client, so the signature would not hold there. */
export const UNSIGNED = `the signature ${SIGNATURE_FILE}, which is over the files as they were signed; this copy is written for its client`;

function isSigned(skill: Skill): boolean {
  return skill.files().files.some(({ path }) => path === SIGNATURE_FILE);
}

/** What of a skill's files is not in its copies: what is hidden belongs to this machine, and a signature to the files as they were. */
export function leftOut(skill: Skill): string[] {
  return [...hiddenFiles(skill), ...(isSigned(skill) ? [`left out: ${UNSIGNED}`] : [])];
}

function hiddenFiles(skill: Skill): string[] {
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
