import type { ErrorCode } from "../codes/codes.ts";
import { completeHost, type HostOptions } from "../host/complete-host.ts";
import type { Host } from "../host/host.ts";
import type { HostPolicy, Purpose } from "../host/policies.ts";
import { reason } from "../shared/inside.ts";
import { oneLine } from "../shared/text.ts";
import type { Skill } from "../skill/skill.ts";
import { seesCapabilities } from "./capabilities.ts";
import { fitsChatId, fitsChatType } from "./chat.ts";
import { ownsSecrets } from "./secrets.ts";
import { fitsSystem, hasPrograms } from "./system.ts";
import { hasTools } from "./tools.ts";
import { isAsLocked, isTrusted, quoted } from "./trust.ts";
import { hasVariables } from "./variables.ts";

/**
 * Why a skill may not be used. `access`: it is hidden and refused. `system`: this machine cannot run it; it is left out where what is
 * available is listed, and running it is refused. `setup`: something is missing that can be given; till then it is refused.
 */
export interface Denial {
  code: ErrorCode;
  kind: "access" | "system" | "setup";
  message: string;
  fix: string;
}

/** A rule that both hides and refuses. Contract: pure. */
export type Policy = (skill: Skill, host: Host) => Denial | Denial[] | undefined;

/** Switched off in the configuration, or bundled and off until switched on. */
export function isEnabled(skill: Skill, host: Pick<Host, "settings">): Denial | undefined {
  const enabled = host.settings.skills.get(skill.name)?.enabled;
  if (enabled || (enabled === undefined && !isOffAtFirst(skill))) return undefined;
  return {
    code: "disabled",
    kind: "access",
    message: `Skill '${skill.name}' is disabled${enabled === false ? " in the configuration" : " until it is switched on"}`,
    fix: `switch it on${needsMore(skill) ? ", then try again for what else it needs" : ""}: skillet enable ${quoted(skill.name)}`,
  };
}

/** Whether a skill comes switched off: nobody has missed it who has not switched it on. */
export function isOffAtFirst(skill: Skill): boolean {
  // Of most skills nobody needs the manifest, which is read when it is asked for.
  return skill.origin.scope === "bundled" && !skill.manifest.defaultEnabled;
}

function needsMore({ manifest: { capabilities } }: Skill): boolean {
  return capabilities.length > 0;
}

interface Row {
  denies: Policy;
  stops: readonly Purpose[];
  /** Whether a skill that it denies is left out of lists. */
  isLeftOut: boolean;
  /** Whether it looks at what the skill says of itself: one that surely asks nothing of its host is then not looked at. */
  isOfAsking: boolean;
}

const ALL: readonly Purpose[] = ["load", "run", "use"];
const CODE: readonly Purpose[] = ["run", "use"];

/** One row a rule. */
const POLICIES: readonly Row[] = [
  { denies: isEnabled, stops: ALL, isLeftOut: true, isOfAsking: false },
  { denies: isAsLocked, stops: ALL, isLeftOut: true, isOfAsking: false },
  { denies: fitsChatType, stops: ALL, isLeftOut: true, isOfAsking: true },
  { denies: fitsChatId, stops: ALL, isLeftOut: true, isOfAsking: false },
  { denies: fitsSystem, stops: CODE, isLeftOut: true, isOfAsking: true },
  { denies: hasTools, stops: ["use"], isLeftOut: true, isOfAsking: true },
  { denies: hasPrograms, stops: CODE, isLeftOut: false, isOfAsking: true },
  { denies: isTrusted, stops: CODE, isLeftOut: false, isOfAsking: false },
  { denies: hasVariables, stops: CODE, isLeftOut: false, isOfAsking: true },
  { denies: ownsSecrets, stops: CODE, isLeftOut: false, isOfAsking: false },
  { denies: seesCapabilities, stops: CODE, isLeftOut: false, isOfAsking: true },
];

const LEAVES_OUT = POLICIES.filter(({ isLeftOut }) => isLeftOut);
const STOPPING = new Map(ALL.map((purpose) => [purpose, POLICIES.filter(({ stops }) => stops.includes(purpose))]));

/** The first thing that speaks against giving the skill to anybody: enough to hide it. */
export function firstDenial(skill: Skill, host: Host): Denial | undefined {
  return firstOf(STOPPING.get("load") ?? [], skill, host) ?? hostDenials(skill, host, "load")[0];
}

/** Why a skill is not there for anybody here. What only waits for a word or a value of the user's is there. */
export function unavailability(skill: Skill, given: HostOptions): Denial | undefined {
  const host = completeHost(given);
  return firstOf(LEAVES_OUT, skill, host) ?? hostDenials(skill, host, "load")[0];
}

/** Everything that speaks against using the skill, at once. */
export function denials(skill: Skill, given: HostOptions, purpose: Purpose = "load"): Denial[] {
  const host = completeHost(given);
  const builtIn = rowsFor(STOPPING.get(purpose) ?? [], skill).flatMap(({ denies }) => denies(skill, host) ?? []);
  return [...builtIn, ...hostDenials(skill, host, purpose)];
}

/** Applies the embedding program's own rules. */
function hostDenials(skill: Skill, { policies = [], caller = {} }: Host, purpose: Purpose): Denial[] {
  return policies.flatMap((policy) => hostDenial(policy, skill, { purpose, caller }) ?? []);
}

function hostDenial(policy: HostPolicy, skill: Skill, context: Parameters<HostPolicy>[1]): Denial | undefined {
  const denied = (message: string, fix: string): Denial => ({ code: "policy-denied", kind: "access", message, fix });
  const failed = (why: string) =>
    denied(`A policy of the program failed for skill '${skill.name}': ${why}`, "correct the policy in `host.policies`");
  try {
    const answer = policy(skill, context);
    if (answer === undefined || answer === null) return undefined;
    // A promise would be true whatever it resolves with: it is refused, since it cannot be waited for here.
    if (typeof answer.message !== "string") return failed("it returned neither undefined nor { message, fix }");
    return denied(answer.message, answer.fix ?? "ask the operator of this program");
  } catch (error) {
    return failed(oneLine(reason(error), 200));
  }
}

/** Asked for every skill of a catalog at once. */
function firstOf(rows: readonly Row[], skill: Skill, host: Host): Denial | undefined {
  for (const { denies } of rowsFor(rows, skill)) {
    const found = denies(skill, host);
    const first = Array.isArray(found) ? found[0] : found;
    if (first) return first;
  }
  return undefined;
}

function rowsFor(rows: readonly Row[], skill: Skill): readonly Row[] {
  if (skill.asksOfHost?.() ?? true) return rows;
  let own = NOT_ASKING.get(rows);
  if (!own) {
    own = rows.filter(({ isOfAsking }) => !isOfAsking);
    NOT_ASKING.set(rows, own);
  }
  return own;
}

/** The rules for a skill that asks nothing of its host. */
const NOT_ASKING = new Map<readonly Row[], readonly Row[]>();
