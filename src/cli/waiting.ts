import type { Discovered } from "../host/discover.ts";
import { placeOf } from "../host/trust.ts";
import { givenNames } from "../policy/secrets.ts";
import type { Skill } from "../skill/skill.ts";
import { displayPath } from "../source/locations.ts";
import { askForTrust } from "./commands/trust.ts";
import { type Io, isAgreed, printer } from "./io.ts";

interface Refusal {
  code: string;
}

const TRUST: ReadonlySet<string> = new Set(["untrusted", "changed"]);
const VALUES = "secret-not-given";

/** Whether a use was refused only for what the user at a terminal can give. */
export function isWaiting(refusals: readonly Refusal[]): boolean {
  return refusals.length > 0 && refusals.every(({ code }) => TRUST.has(code) || code === VALUES);
}

/** At a terminal: asks for the trust and the values that skills wait for. False where nobody can be asked, or one was not given. */
export async function askForWaiting(
  io: Io,
  found: Discovered,
  waiting: readonly { skill: Skill; refusals: readonly Refusal[] }[],
): Promise<boolean> {
  const untrusted = waiting.filter(({ refusals }) => refusals.some(({ code }) => TRUST.has(code)));
  const isTrusted =
    untrusted.length === 0 ||
    (await askForTrust(
      io,
      found,
      untrusted.map(({ skill }) => skill),
    ));
  if (!isTrusted) return false;
  for (const { skill, refusals } of waiting)
    if (refusals.some(({ code }) => code === VALUES) && !(await askForValues(io, found, skill))) return false;
  return true;
}

/** At a terminal: asks whether this copy gets what is configured for its name, while no copy has it. */
async function askForValues(io: Io, found: Discovered, skill: Skill): Promise<boolean> {
  const { grants, around } = found;
  if (!io.ask) return false;
  const out = printer(io.stderr, io.env);
  const place = placeOf(skill);
  out.line`${out.bold(skill.name)}  ${givenNames(skill, found)} ${out.dim("in config.toml, given to no copy yet")}`;
  out.line`  to be given ${place === "" ? "" : `${displayPath(place, around)} `}(from ${skill.origin.source})`;
  if (!(await isAgreed(io, "Give this to this copy, and to no other of its name?"))) return false;
  return grants.isOwner(skill, grants.claim(skill));
}
