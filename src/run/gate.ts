import type { Notice } from "../host/sandbox.ts";
import { inLine } from "../shared/prompt.ts";
import type { Skill } from "../skill/skill.ts";
import { expandToolNames } from "../skill/tool-alias.ts";
import { isForbidden, isGranted, mayOffer } from "../skill/tool-grant.ts";
import { gistOf } from "./shown.ts";

/** What one skill says about tools. Those of the skills that called it hold too: none gets more than its caller. */
export interface Gate {
  skill: string;
  allowed: readonly string[];
  preapproved: readonly string[];
  /** What of that the skill says itself: not what it brings. */
  said: readonly string[];
  disallowed: readonly string[];
}

/** Ends the run, whatever else is allowed. */
export const COMPLETE = "complete";
/** Reading what came with the skill is nothing to ask for. */
const SILENT = new Set([COMPLETE, "read_skill_resource"]);

export interface Offered {
  /** What there is, by its whole name. */
  names: readonly string[];
  /** What the skill brings itself: nobody has to allow it what is its own. */
  own: readonly string[];
}

/** What holds for a run of this skill: what its callers say, and it itself. Names are those of the tools that there are. */
export function gatesFor(
  above: readonly Gate[],
  { name, manifest: { tools } }: Skill,
  { names, own }: Offered,
): Gate[] {
  const said = expandToolNames(tools.preapproved, names);
  const gate: Gate = {
    skill: name,
    allowed: expandToolNames(tools.allowed, names),
    preapproved: said,
    said,
    disallowed: expandToolNames(tools.disallowed, names, "all"),
  };
  const withOwn = (list: readonly string[]) => (list.length === 0 ? list : [...list, ...own]);
  return [...above, gate].map((one) => ({
    ...one,
    allowed: withOwn(one.allowed),
    preapproved: withOwn(one.preapproved),
  }));
}

/** Whether a tool is shown to the model at all. */
export function isOffered(gates: readonly Gate[], tool: string): boolean {
  if (tool === COMPLETE) return true;
  return gates.every(({ allowed, disallowed }) => {
    if (allowed.length > 0 && !mayOffer(allowed, tool)) return false;
    return !isForbidden(disallowed, tool, undefined);
  });
}

/** Why a call may not be made. */
export function blockOf(gates: readonly Gate[], tool: string, input: unknown): Notice | undefined {
  if (tool === COMPLETE) return undefined;
  for (const { skill, allowed, disallowed } of gates) {
    if (allowed.length > 0 && !isGranted(allowed, tool, input)) {
      return blocked(
        `Tool '${tool}' is not allowed so for skill '${skill}'${shown(input)}`,
        `it may use: ${allowed.join(", ")}`,
      );
    }
    if (isForbidden(disallowed, tool, input)) {
      return blocked(
        `Skill '${skill}' forbids tool '${tool}' so${shown(input)}`,
        `it forbids: ${disallowed.join(", ")}`,
      );
    }
  }
  return undefined;
}

/** Why a call needs somebody's word: a skill that says what it may do without asking asks for the rest. */
export function wordFor(gates: readonly Gate[], tool: string, input: unknown): string | undefined {
  if (SILENT.has(tool)) return undefined;
  const gate = gates.find(({ preapproved }) => preapproved.length > 0 && !isGranted(preapproved, tool, input));
  return gate && `skill '${gate.skill}' is allowed beforehand only: ${gate.preapproved.join(", ")}`;
}

/** Which call it was: of several, the model and the user should know. */
function shown(input: unknown): string {
  const what = gistOf(input);
  return what === undefined ? "" : ` (${inLine(what, 120)})`;
}

function blocked(message: string, fix: string): Notice {
  return { code: "tool-blocked", message, fix };
}
