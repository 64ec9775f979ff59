import type { Host } from "../host/host.ts";
import type { Policy } from "./policy.ts";
import { shownPath } from "./shown-path.ts";

/** What came with a workspace, or what another program put into the user's home, waits for the user's word. */
export const isTrusted: Policy = (skill, host) => {
  if (host.trust?.standingOf(skill) !== "untrusted") return undefined;
  const { folder, file, source } = skill.origin;
  return {
    code: "untrusted",
    kind: "setup",
    message: `Skill '${skill.name}' (from ${source}) has not been trusted yet`,
    fix: `look at it, then run: skillet trust ${quotedPath(folder ?? file ?? ".", host)}`,
  };
};

/** A path for a shell. */
export function quoted(path: string): string {
  return /^[\w./~@%+:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** The same with the home folder as `~`, which a shell understands only outside of quotes. */
function quotedPath(path: string, host: Host): string {
  const short = shownPath(path, host);
  return quoted(short) === short ? short : quoted(path);
}
