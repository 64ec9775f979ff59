import { dirname, join } from "node:path";
import type { Host } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { statIfExists } from "../../skill/source/read-file.ts";
import { copySkill, listCurrentFiles, withCurrentFiles } from "../../skill/source/skill-copy.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { trustPolicy } from "./trust-policy.ts";

/**
 * Creates a function that returns why a skill's text is withheld from models. Text in the user's own folders needs no decision, text
 * of a workspace needs one for the workspace. Without it, a workspace skill is served while it is exactly the trusted version.
 */
export function createTextTrust(host: Host): (skill: Skill) => Problem | undefined {
  const known = new Map<string, { stamp: string; why: Problem | undefined }>();
  return (skill) => {
    if (host.trust?.text.covers(skill)) return undefined;
    const [untrusted] = [trustPolicy(skill, host) ?? []].flat();
    if (untrusted && skill.origin.scope === "workspace") return createNotApprovedProblem(skill);
    if (untrusted || host.trust?.getStatus(skill) !== "trusted") return untrusted;
    if (skill.origin.remote) return undefined; // Each file is verified when it is read, so it is the trusted version.
    const place = getSkillLocation(skill);
    // The current files: an added skill is served by its path before the sources are read again.
    const stamp = `${host.trust.getEntry(skill)?.at} ${fingerprintPaths(listSkillPaths(skill, listCurrentFiles(skill)))}`;
    const before = known.get(place);
    if (before?.stamp === stamp) return before.why;
    const why = isAsTrusted(skill, host) ? undefined : createNotTrustedProblem(skill);
    known.set(place, { stamp, why });
    return why;
  };
}

function createNotApprovedProblem({ name, origin: { source } }: Skill): Problem {
  return {
    code: "untrusted",
    message: `Skill '${name}' (from ${source}) is text from this workspace, which the user has not approved`,
    fix: "the user runs",
    commands: ["skillet trust --text ."],
  };
}

function isAsTrusted(skill: Skill, { trust }: Host): boolean {
  try {
    const now = withCurrentFiles(skill);
    return trust?.findChanges(now, copySkill(now)).length === 0;
  } catch {
    return false; // A skill that cannot be compared does not count as trusted.
  }
}

/** A model reads this message: it contains no names of files that the user has not reviewed. */
function createNotTrustedProblem(skill: Skill): Problem {
  return { ...describeTrustChange(skill, []), message: `Skill '${skill.name}' differs from the trusted version` };
}

/** Describes code that differs from the trusted version. */
export function describeTrustChange(skill: Skill, changes: readonly { path: string; what: string }[]): Problem {
  const said = changes.slice(0, 10).map(({ path, what }) => `${path} ${what}`);
  if (changes.length > 10) said.push(`and ${changes.length - 10} more`);
  return {
    code: "changed",
    message: `Skill '${skill.name}' differs from the trusted version: ${said.join(", ")}`,
    fix: "review it, then run",
    commands: [`skillet trust ${quoteIfNeeded(getSkillLocation(skill))}`],
  };
}

/** Returns the skill's file, its other files, and their folders. */
export function listSkillPaths(skill: Skill, { files: listed } = skill.files()): string[] {
  const { folder, file } = skill.origin;
  if (folder === undefined || file === undefined) return [];
  const files = [file, ...listed.map(({ path }) => join(folder, path))];
  return [...new Set([folder, ...files.flatMap((path) => [path, dirname(path)])])];
}

/** Returns a fingerprint that changes with the files, without reading them. It includes the ctime, since the mtime can be set. */
export function fingerprintPaths(paths: readonly string[]): string {
  const stamps = paths.map((path) => {
    const stats = statIfExists(path);
    return stats ? `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}` : "-";
  });
  return stamps.join("\n");
}
