import type { Host } from "../host/host.ts";
import type { Skill } from "../skill/skill.ts";
import { fitsSystem } from "./system.ts";
import { tableOf } from "./table.ts";
import { isTrusted } from "./trust.ts";
import { hasVariables } from "./variables.ts";

/**
 * Why a skill may not be used. `access`: it is hidden and refused. `system`: this machine cannot run it; it is left out where what is
 * available is listed, and running it is refused. `setup`: it is listed with what is missing, and refused.
 */
export interface Denial {
  code: string;
  kind: "access" | "system" | "setup";
  message: string;
  fix: string;
}

/** A rule that both hides and refuses. Contract: pure. */
export type Policy = (skill: Skill, host: Host) => Denial | undefined;

/** What is to be done with a skill: its text read, or its code run. */
export type Purpose = "load" | "run";

/** Switched off in the configuration, or bundled and off until switched on. */
export const isEnabled: Policy = (skill, host) => {
  const enabled = host.settings.skills.get(skill.name)?.enabled;
  const isOn = enabled ?? (skill.origin.scope !== "bundled" || skill.manifest.defaultEnabled);
  if (isOn) return undefined;
  return {
    code: "disabled",
    kind: "access",
    message: `Skill '${skill.name}' is disabled${enabled === false ? " in the configuration" : " until it is switched on"}`,
    fix: `set ${tableOf(skill)} enabled = true in config.toml`,
  };
};

/** One row a rule: whether it stops everything or code alone, and whether a skill that it denies is left out of lists. */
const POLICIES: readonly { denies: Policy; stops: "everything" | "code"; isLeftOut: boolean }[] = [
  { denies: isEnabled, stops: "everything", isLeftOut: true },
  { denies: fitsSystem, stops: "code", isLeftOut: true },
  { denies: isTrusted, stops: "code", isLeftOut: false },
  { denies: hasVariables, stops: "code", isLeftOut: false },
];

const STOPS_LOADING = POLICIES.filter(({ stops }) => stops === "everything");
const LEAVES_OUT = POLICIES.filter(({ isLeftOut }) => isLeftOut);

/** The first thing that speaks against giving the skill to anybody: enough to hide it. */
export function firstDenial(skill: Skill, host: Host): Denial | undefined {
  return first(STOPS_LOADING, skill, host);
}

/** Why a skill is not there for anybody here. What only waits for a word or a value of the user's is there. */
export function unavailability(skill: Skill, host: Host): Denial | undefined {
  return first(LEAVES_OUT, skill, host);
}

/** Everything that speaks against using the skill, at once. */
export function denials(skill: Skill, host: Host, purpose: Purpose = "load"): Denial[] {
  const rows = purpose === "load" ? STOPS_LOADING : POLICIES;
  return rows.flatMap(({ denies }) => denies(skill, host) ?? []);
}

function first(rows: typeof POLICIES, skill: Skill, host: Host): Denial | undefined {
  for (const { denies } of rows) {
    const denial = denies(skill, host);
    if (denial) return denial;
  }
  return undefined;
}
