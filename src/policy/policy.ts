import type { Host } from "../host/host.ts";
import type { Skill } from "../skill/skill.ts";

/** Why a skill may not be used. `access`: it is hidden and refused. `setup`: it is listed with what is missing, and refused. */
export interface Denial {
  code: string;
  kind: "access" | "setup";
  message: string;
  fix: string;
}

/** A rule that both hides and refuses. Contract: pure. */
export type Policy = (skill: Skill, host: Host) => Denial | undefined;

/** Switched off in the configuration, or bundled and off until switched on. */
export const isEnabled: Policy = (skill, host) => {
  const enabled = host.settings.skills.get(skill.name)?.enabled;
  const isOn = enabled ?? (skill.origin.scope !== "bundled" || skill.manifest.defaultEnabled);
  if (isOn) return undefined;
  const how = `[skills.${/^[\w-]+$/.test(skill.name) ? skill.name : JSON.stringify(skill.name)}] enabled = true`;
  return {
    code: "disabled",
    kind: "access",
    message: `Skill '${skill.name}' is disabled${enabled === false ? " in the configuration" : " until it is switched on"}`,
    fix: `set ${how} in config.toml`,
  };
};

const POLICIES: readonly Policy[] = [isEnabled];

/** The first thing that speaks against using the skill: enough to hide it. */
export function firstDenial(skill: Skill, host: Host): Denial | undefined {
  for (const policy of POLICIES) {
    const denial = policy(skill, host);
    if (denial) return denial;
  }
  return undefined;
}

/** Everything that speaks against using the skill, at once. */
export function denials(skill: Skill, host: Host): Denial[] {
  return POLICIES.flatMap((policy) => policy(skill, host) ?? []);
}
