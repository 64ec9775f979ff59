import type { Discovered } from "../host/discover.ts";
import type { Owner } from "../host/grants.ts";
import { quoted } from "../policy/trust.ts";
import { SkillError } from "../shared/error.ts";
import type { Skill } from "../skill/skill.ts";
import { displayPath } from "../source/locations.ts";
import { addressOf } from "./commands/address.ts";
import { type Io, printer } from "./io.ts";

/** Which copy of a skill what is configured for its name is given to. */
export type Choice =
  /** This one, by choice or since there is no other. */
  | { is: "copy"; skill: Skill }
  /** That which has it already. */
  | { is: "kept"; owner: Owner }
  /** None is found from here. */
  | { is: "none" };

export interface Wanted {
  name: string;
  /** `NAME@SOURCE`, where the user said which. */
  copy?: string | undefined;
  /** The command to run again, with `NAME@SOURCE` at its end. */
  command: string;
}

/**
 * Chooses the copy that gets what is configured for a name. What was given before stays with its copy. Of several, the user chooses at a
 * terminal. Throws a SkillError with the choices where nobody can be asked.
 */
export async function chooseCopy(io: Io, found: Discovered, { name, copy, command }: Wanted): Promise<Choice> {
  const { catalog, grants } = found;
  const problem = grants.problem();
  if (problem !== undefined) throw new SkillError("grants-unreadable", { message: problem });
  if (copy !== undefined) return { is: "copy", skill: copyCalled(found, name, copy) };
  const owner = grants.ownerOf(name);
  if (owner) return { is: "kept", owner };
  const copies = catalog.copies(name);
  const [first, ...others] = copies;
  if (!first) return { is: "none" };
  if (others.length === 0) return { is: "copy", skill: first };
  return { is: "copy", skill: await ask(io, found, copies, command) };
}

function copyCalled(found: Discovered, name: string, copy: string): Skill {
  const { catalog } = found;
  const skill = catalog.find(copy.includes("@") ? copy : `${name}@${copy}`);
  if (skill?.name === name) return skill;
  const copies = catalog.copies(name).map((one) => addressOf(one, found));
  throw new SkillError("not-found", {
    message: `"${copy}" is not a copy of the skill '${name}'`,
    fix: copies.length === 0 ? "there is none; `skillet list` shows the skills" : `there are: ${copies.join(", ")}`,
  });
}

async function ask(io: Io, found: Discovered, copies: readonly Skill[], command: string): Promise<Skill> {
  const addresses = copies.map((copy) => addressOf(copy, found));
  const [name = ""] = copies.map((copy) => copy.name);
  if (!io.ask) {
    throw new SkillError("usage", {
      message: `There are ${copies.length} copies of the skill '${name}', and what is configured for it is given to one: ${addresses.join(", ")}`,
      fix: `name it: ${command} ${quoted(addresses[0] ?? "")}`,
    });
  }
  const out = printer(io.stderr, io.env);
  for (const [at, copy] of copies.entries()) {
    const { file } = copy.origin;
    out.line`${String(at + 1)}  ${addresses[at] ?? ""}  ${out.dim(file === undefined ? "" : displayPath(file, found.around))}`;
  }
  const answer = ((await io.ask("Which copy is it for? A number: ")) ?? "").trim();
  const chosen = /^\d{1,3}$/.test(answer) ? copies[Number(answer) - 1] : undefined;
  if (chosen) return chosen;
  throw new SkillError("not-agreed", { message: "no copy was chosen, and nothing was set" });
}
