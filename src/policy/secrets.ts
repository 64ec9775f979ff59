import { needsGrant, type Owner } from "../host/grants.ts";
import type { Host } from "../host/host.ts";
import { SkillError } from "../shared/error.ts";
import { declaredVariables } from "../skill/needs.ts";
import type { Skill } from "../skill/skill.ts";
import type { Denial, Policy } from "./policy.ts";
import { shownPath } from "./shown-path.ts";
import { tableOf } from "./table.ts";
import { quoted } from "./trust.ts";

/** What is configured for a name goes to the copy that the user gave it to, and to no other that takes its name. */
export const ownsSecrets: Policy = denialOf;

function denialOf(skill: Skill, host: Host): Denial | undefined {
  const { grants } = host;
  if (!grants || !isGiven(skill, host)) return undefined;
  const problem = grants.problem();
  if (problem !== undefined) {
    return {
      code: "grants-unreadable",
      kind: "setup",
      message: `Skill '${skill.name}' is not given its values: ${problem}`,
      fix: "fix the file, or remove it: then the next run asks which copy gets its values",
    };
  }
  const owner = grants.ownerOf(skill.name);
  if (!owner) return needsGrant(skill) && isConfigured(skill, host) ? notGiven(skill, host) : undefined;
  return grants.isOwner(skill, owner) ? undefined : otherSource(skill, owner, host);
}

/** Checks again, right before values are handed over, that they were given to this copy. Throws a SkillError when they were not. */
export function requireSecrets(skill: Skill, host: Host): void {
  const denial = denialOf(skill, host);
  if (denial) throw new SkillError(denial.code, denial);
}

/** Whether the configuration gives this name what not every skill has: values, capabilities, a network, a workspace, commands in its instructions. */
export function isGiven(
  skill: Skill,
  host: Pick<Host, "settings"> & { capabilities?: Host["capabilities"] | undefined },
): boolean {
  const { network = [], workspace = "none", dynamicCommands = false } = host.settings.skills.get(skill.name) ?? {};
  if (skill.manifest.capabilities.some((id) => host.capabilities?.isGranted(id, skill))) return true;
  return network.length > 0 || workspace !== "none" || dynamicCommands || configuredVariables(skill, host).length > 0;
}

/** The same for what the settings themselves give: what a program gives in code is its own decision. */
function isConfigured(skill: Skill, host: Host): boolean {
  const { capabilities = [], provider } = host.settings.skills.get(skill.name) ?? {};
  const isProvided = provider !== undefined && provider.enabled !== false;
  const asksForSome = skill.manifest.capabilities.length > 0 && (capabilities.length > 0 || isProvided);
  return asksForSome || isGiven(skill, { ...host, capabilities: undefined });
}

/** The variables that a skill declares and that have values, by their names. */
export function configuredVariables(skill: Skill, { settings }: Pick<Host, "settings">): string[] {
  const values = settings.skills.get(skill.name)?.variables;
  return values ? declaredVariables(skill).filter((name) => values.get(name)) : [];
}

/** What is configured for a skill, in words: `KEY, notes.read`, or the table. */
export function givenNames(skill: Skill, host: Host): string {
  const capabilities = skill.manifest.capabilities.filter((id) => host.capabilities?.isGranted(id, skill));
  return [...configuredVariables(skill, host), ...capabilities].join(", ") || `what ${tableOf(skill)} gives it`;
}

function notGiven(skill: Skill, host: Host): Denial {
  const { source, folder, file } = skill.origin;
  const place = folder ?? file;
  const from = `${source}${place === undefined ? "" : ` (${shownPath(place, host)})`}`;
  return {
    code: "secret-not-given",
    kind: "setup",
    message: `What config.toml has for skill '${skill.name}' (${givenNames(skill, host)}) was not given to a copy of it yet, and this is the one from ${from}`,
    fix: `look at it, then run: skillet trust --secrets ${quoted(skill.name)}`,
  };
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
