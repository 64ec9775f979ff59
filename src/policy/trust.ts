import type { Policy } from "./policy.ts";

/** Code that came with a workspace, or that another program put into the user's home, waits for the user's word. */
export const isTrusted: Policy = (skill, host) => {
  if (host.trust?.standingOf(skill) !== "untrusted") return undefined;
  const { folder, file, source } = skill.origin;
  return {
    code: "untrusted",
    kind: "setup",
    message: `The code of skill '${skill.name}' (from ${source}) has not been trusted`,
    fix: `look at it, then run: skillet trust ${quoted(folder ?? file ?? ".")}`,
  };
};

/** A path for a shell. */
export function quoted(path: string): string {
  return /^[\w./~@%+:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
