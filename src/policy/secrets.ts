import type { Owner } from "../host/grants.ts";
import type { Host } from "../host/host.ts";
import { SkillError } from "../shared/error.ts";
import { declaredVariables } from "../skill/needs.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";
import { shownPath } from "./shown-path.ts";
import { quoted } from "./trust.ts";

/** What was configured for a name goes to the copy that first used it, and to no other that takes its name. */
export const ownsSecrets: Policy = (skill, host) => {
  const { grants } = host;
  if (!grants || !isGiven(skill, host)) return undefined;
  const problem = grants.problem();
  if (problem !== undefined) {
    return {
      code: "grants-unreadable",
      kind: "setup",
      message: `Skill '${skill.name}' is not given its values: ${problem}`,
      fix: "mend the file, or remove it to start anew: then the first copy that is used gets its values",
    };
  }
  const owner = grants.ownerOf(skill.name);
  return owner && !grants.isOwner(skill, owner) ? otherSource(skill, owner, host) : undefined;
};

/**
 * Gives the values of a skill to this copy, when none has them yet. Called right before they are handed over. Throws a SkillError when
 * another copy has them, or when it cannot be written down.
 */
export function claimSecrets(skill: Skill, host: Host): void {
  const { grants } = host;
  if (!grants || !isGiven(skill, host)) return;
  const owner = grants.ownerOf(skill.name) ?? grants.claim(skill);
  if (!grants.isOwner(skill, owner)) throw new SkillError("secret-other-source", otherSource(skill, owner, host));
}

/** Whether the configuration gives this name what not every skill has: values, capabilities, a network, a workspace, commands in its instructions. */
export function isGiven(skill: Skill, host: Host): boolean {
  const { network = [], workspace = "none", dynamicCommands = false } = host.settings.skills.get(skill.name) ?? {};
  if (skill.manifest.capabilities.some((id) => host.capabilities?.isGranted(id, skill))) return true;
  return network.length > 0 || workspace !== "none" || dynamicCommands || configuredVariables(skill, host).length > 0;
}

/** The variables that a skill declares and that have values, by their names. */
export function configuredVariables(skill: Skill, { settings }: Host): string[] {
  const values = settings.skills.get(skill.name)?.variables;
  return values ? declaredVariables(skill).filter((name) => values.get(name)) : [];
}

function otherSource(skill: Skill, owner: Owner, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const place = folder ?? file;
  const isThere = owner.place === place; // Another was put into its place since.
  const was = isThere ? owner.from : owner.place === "" ? undefined : shownPath(owner.place, host);
  const from = `${owner.source}${was === undefined ? "" : ` (${was})`}`;
  const to = isThere ? "another source" : `${source}${place === undefined ? "" : ` (${shownPath(place, host)})`}`;
  return {
    code: "secret-other-source",
    kind: "setup",
    message: `What config.toml has for skill '${skill.name}' was given to the one from ${from}, and this is the one from ${to}`,
    fix: `look at it, then run: skillet trust --secrets ${quoted(skill.name)}`,
  };
}
