import { dirname, join } from "node:path";
import type { ExclusionReason } from "../../catalog/catalog.ts";
import type { Host } from "../../config/host.ts";
import type { Problem } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { statIfExists } from "../../skill/source/read-file.ts";
import { copySkill, listCurrentFiles, withCurrentFiles } from "../../skill/source/skill-copy.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { trustPolicy } from "./trust-policy.ts";

/**
 * Returns why a skill's text is not given to models. Text of the user's own folders needs no decision, and text of a workspace one for
 * the workspace. Without that decision a workspace skill is served while it is exactly what was trusted.
 */
export function createTextTrust(host: Host): (skill: Skill) => ExclusionReason | undefined {
  const known = new Map<string, { stamp: string; why: ExclusionReason | undefined }>();
  return (skill) => {
    if (host.trust?.text.covers(skill)) return undefined;
    const [untrusted] = [trustPolicy(skill, host) ?? []].flat();
    if (untrusted && skill.origin.scope === "workspace") return createNotApprovedProblem(skill);
    if (untrusted || host.trust?.standingOf(skill) !== "trusted") return untrusted;
    if (skill.origin.remote) return undefined; // Each file is verified when it is read: it is what was trusted.
    const place = getSkillLocation(skill);
    // As they are now: what was added is served by its address before the sources are read again.
    const stamp = `${host.trust.entryOf(skill)?.at} ${fingerprintPaths(listSkillPaths(skill, listCurrentFiles(skill)))}`;
    const before = known.get(place);
    if (before?.stamp === stamp) return before.why;
    const why = isAsTrusted(skill, host) ? undefined : createNotTrustedProblem(skill);
    known.set(place, { stamp, why });
    return why;
  };
}

function createNotApprovedProblem({ name, origin: { source } }: Skill): ExclusionReason {
  return {
    code: "untrusted",
    message: `Skill '${name}' (from ${source}) is text of this workspace, which the user has not approved`,
    fix: "the user runs: skillet trust --text .",
  };
}

function isAsTrusted(skill: Skill, { trust }: Host): boolean {
  try {
    const now = withCurrentFiles(skill);
    return trust?.changesOf(now, copySkill(now)).length === 0;
  } catch {
    return false; // What cannot be compared is not what was trusted.
  }
}

/** A model reads it: the names of files that nobody has looked at are no part of it. */
function createNotTrustedProblem(skill: Skill): ExclusionReason {
  return { ...describeTrustChange(skill, []), message: `Skill '${skill.name}' is not what was trusted` };
}

/** Code that is not what the user trusted. */
export function describeTrustChange(skill: Skill, changes: readonly { path: string; what: string }[]): Problem {
  const said = changes.slice(0, 10).map(({ path, what }) => `${path} ${what}`);
  if (changes.length > 10) said.push(`and ${changes.length - 10} more`);
  return {
    code: "changed",
    message: `Skill '${skill.name}' is not what was trusted: ${said.join(", ")}`,
    fix: `look at it, then run: skillet trust ${quoteIfNeeded(getSkillLocation(skill))}`,
  };
}

/** Its own file, those beside it, and the folders that they are in. */
export function listSkillPaths(skill: Skill, { files: listed } = skill.files()): string[] {
  const { folder, file } = skill.origin;
  if (folder === undefined || file === undefined) return [];
  const files = [file, ...listed.map(({ path }) => join(folder, path))];
  return [...new Set([folder, ...files.flatMap((path) => [path, dirname(path)])])];
}

/** What tells that something of it changed, without reading it. The time of the change itself too: the other can be set. */
export function fingerprintPaths(paths: readonly string[]): string {
  const stamps = paths.map((path) => {
    const stats = statIfExists(path);
    return stats ? `${stats.mtimeMs} ${stats.ctimeMs} ${stats.size} ${stats.ino}` : "-";
  });
  return stamps.join("\n");
}
