import type { Host } from "../host/host.ts";
import type { OwnRefusal } from "../host/own-folders.ts";
import { count, oneLine } from "../shared/text.ts";
import type { Policy } from "./policy.ts";
import { shownPath } from "./shown-path.ts";

/** What came with a workspace, or what another program put into the user's home, waits for the user's word. */
export const isTrusted: Policy = (skill, host) => {
  if (host.trust?.standingOf(skill) !== "untrusted") return undefined;
  const { folder, file, source, remote } = skill.origin;
  if (remote) {
    const isChanged = host.trust.entryOf(skill) !== undefined;
    return {
      code: "untrusted",
      kind: "setup",
      message: `Skill '${skill.name}' (from MCP server '${remote.server}') ${isChanged ? "changed since it was trusted" : "has not been trusted yet"}`,
      fix: `look at it, then run: skillet trust ${quoted(`${skill.name}@${source}`)}`,
    };
  }
  const refusal = host.trust.refusalOf?.(skill); // The trust of an embedding program may have none.
  return {
    code: "untrusted",
    kind: "setup",
    message: refusal
      ? `Skill '${skill.name}' (from ${source}) is in a folder of yours, but not trusted: ${sayOwnRefusal(refusal)}`
      : `Skill '${skill.name}' (from ${source}) has not been trusted yet`,
    fix: `look at it, then run: skillet trust ${quotedPath(folder ?? file ?? ".", host)}`,
  };
};

/** Says why a skill in a folder of the user's is not trusted as the user's own work. */
export function sayOwnRefusal({ why, path }: OwnRefusal): string {
  const file = path === "." ? "it" : oneLine(path, 100);
  return OWN_REFUSALS[why].replace("FILE", () => file);
}

const OWN_REFUSALS: Record<OwnRefusal["why"], string> = {
  run: "FILE was changed while a run, chat or call of skillet was under way",
  update: "an update or addition of skillet wrote it",
  git: "git checked out another commit since, and it changed",
  repository: "it is in a repository that was put there since",
  owner: "FILE belongs to another user",
  writable: "FILE can be written to by other users (chmod go-w)",
  link: "FILE is a symlink",
  special: "FILE is not a plain file",
  nested: "FILE is a git repository of its own",
  unreadable: "FILE",
};

/** What was added is what was agreed to then, to the last byte: another is not even read out until somebody has looked at it. */
export const isAsLocked: Policy = (skill, host) => {
  const state = host.trust?.lockStateOf(skill);
  if (state?.is === "unknown") {
    const { code, message, fix = "" } = state.problem;
    return { code, kind: "access", message: `Skill '${skill.name}' is not used: ${message}`, fix };
  }
  if (state?.is !== "changed") return undefined;
  // A model may read it: names of files that nobody has looked at are no part of it.
  return {
    code: "changed",
    kind: "access",
    message: `Skill '${skill.name}' is not what was added: ${count(state.drift.length, "file")} of it changed since`,
    fix: `look at the difference, then agree to it or not: skillet trust ${quoted(skill.name)}`,
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
