import { editConfig } from "../../host/config-edit.ts";
import { userConfig } from "../../host/settings.ts";
import { placeOf } from "../../host/trust.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { byText, oneLine } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { digestOf } from "../../source/digest.ts";
import { displayPath } from "../../source/locations.ts";
import { chooseCopy } from "../choose-copy.ts";
import { EXIT } from "../exit.ts";
import { discoverToUse, type Found, requireConfiguration } from "../found.ts";
import { type Io, isAgreed, type Printer, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { Context } from "../program.ts";
import { otherOwner, sayCopy, servedBy } from "../providers-found.ts";
import { reachedFacts, sayReached, waitUntilApplied } from "../reached.ts";
import { sayNotice } from "../say.ts";
import { notAgreed } from "../told.ts";

/** Gives a skill capabilities, of those that it declares. */
export async function grant({ io, options, args }: Context<{ yes?: boolean }>): Promise<number> {
  const [name = "", ...ids] = args;
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const { capabilities, grants } = found;
  const skill = await skillCalled(io, found, name, ids);
  const undeclared = ids.filter((id) => !skill.manifest.capabilities.includes(id));
  if (undeclared.length > 0) throw notDeclared(skill, undeclared);
  const before = [...(found.settings.skills.get(skill.name)?.capabilities ?? [])];
  const added = [...new Set(ids)].filter((id) => !capabilities.isGranted(id, skill)).sort(byText);
  const given = [...before, ...added];
  if (added.length > 0) {
    showSkill(printer(options.json ? io.stderr : io.stdout, io.env), skill, added, found);
    if (!options.yes && !(await isAgreed(io, `Give ${skill.name} ${added.join(", ")}?`)))
      throw notAgreed(io, "not given", "look at the skill, then say --yes");
    await editConfig(userConfig(found.around), { parts: ["skills", skill.name, "capabilities"], value: given });
  }
  // What was looked at is what gets it.
  if (added.length > 0) grants.claim(skill);
  const reached = added.length > 0 ? await waitUntilApplied(userConfig(found.around), found.around) : undefined;
  const other = otherOwner(skill, grants);
  const facts = { name: skill.name, digest: digestOf(skill), added, capabilities: given };
  if (options.json) printJson(io.stdout, { ...facts, ...reachedFacts(reached) });
  else {
    const out = printer(io.stdout, io.env);
    const back = fromHere(`skillet capability ungrant ${quoted(skill.name)} ${added.join(" ")}`, options.workspace);
    if (added.length > 0) out.line`${out.green("✓")} given; to take it back: ${out.cyan(back)}`;
    else if (!other) out.line`${out.green("✓")} ${skill.name} has ${ids.join(", ")} already`;
    sayReached(io, reached, { runs: "has it at its next call" });
  }
  if (other) {
    const error = printer(io.stderr, io.env);
    const message = `what is configured for this name was given to the copy from ${sayCopy(other, found)} before, and not to this one`;
    const fix = `to give it to this one: skillet trust --secrets ${quoted(skill.name)}`;
    sayNotice(error, error.yellow("!"), message, fromHere(fix, options.workspace));
  }
  return EXIT.fine;
}

/** The copy that is meant: of several the user chooses, while what is configured for the name has no copy yet. */
async function skillCalled(io: Io, found: Found, name: string, ids: readonly string[]): Promise<Skill> {
  const skill = found.catalog.get(name);
  if (name.includes("@") || found.grants.ownerOf(name)) return skill;
  const command = `skillet capability grant NAME@SOURCE ${ids.join(" ")}; for example`;
  const choice = await chooseCopy(io, found, { name: skill.name, command });
  return choice.is === "copy" ? choice.skill : skill;
}

/** Takes them from it again. */
export async function ungrant({ io, options, args }: Context<{ yes?: boolean }>): Promise<number> {
  const [name = "", ...ids] = args;
  const found = await discoverToUse(io, options);
  requireConfiguration(io, found);
  const before = [...(found.settings.skills.get(name)?.capabilities ?? [])];
  const missing = ids.filter((id) => !before.includes(id));
  if (missing.length > 0) throw notGiven(name, missing, before, found);
  const skill = found.catalog.find(name);
  const other = skill && otherOwner(skill, found.grants);
  if (other && !options.yes && !(await isAgreed(io, questionOf(name, ids, sayCopy(other, found))))) {
    const copy = sayCopy(other, found);
    const fix = `the copy from ${copy} would lose it, and not the one found here; if that is meant, say --yes`;
    throw notAgreed(io, "not taken", fix);
  }
  const left = before.filter((id) => !ids.includes(id));
  const parts = ["skills", name, "capabilities"];
  const file = userConfig(found.around);
  await editConfig(file, left.length > 0 ? { parts, value: left } : { parts });
  const reached = await waitUntilApplied(file, found.around);
  if (options.json) printJson(io.stdout, { name, removed: ids, capabilities: left, ...reachedFacts(reached) });
  else {
    const out = printer(io.stdout, io.env);
    out.line`${out.green("✓")} ${name} has ${ids.join(", ")} no longer`;
    sayReached(io, reached, { runs: "is refused it at its next call", isRevocation: true });
  }
  return EXIT.fine;
}

function questionOf(name: string, ids: readonly string[], copy: string): string {
  return `Not the ${name} found here loses ${ids.join(", ")}, but the copy from ${copy}: take it?`;
}

/** What is given something, and who would serve it. */
function showSkill(out: Printer, skill: Skill, ids: readonly string[], { capabilities, around }: Found): void {
  out.line`${out.bold(skill.name)}  ${oneLine(skill.description, 200)}`;
  out.line`  ${out.dim("source     ")} ${skill.origin.source}, ${displayPath(placeOf(skill), around)}`;
  out.line`  ${out.dim("digest     ")} ${digestOf(skill)}`;
  for (const id of ids) {
    const provider = capabilities.providerOf(id, skill);
    out.line`  ${out.dim("to be given")} ${out.cyan(id)}, ${provider ? servedBy(provider) : "which nobody serves here yet"}`;
  }
}

function notDeclared(skill: Skill, ids: readonly string[]): SkillError {
  const { capabilities } = skill.manifest;
  return new SkillError("capability-undeclared", {
    message: `Skill '${skill.name}' does not declare ${ids.map((id) => oneLine(id, 60)).join(", ")}`,
    fix: capabilities.length === 0 ? "it declares no capability at all" : `it declares: ${capabilities.join(", ")}`,
  });
}

function notGiven(name: string, ids: readonly string[], before: readonly string[], found: Found): SkillError {
  const skill = found.catalog.find(name);
  const otherwise = skill ? ids.filter((id) => found.capabilities.isGranted(id, skill)) : [];
  const list = before.length === 0 ? "" : `; its list is: ${before.join(", ")}`;
  return new SkillError("not-found", {
    message: `${ids.map((id) => oneLine(id, 60)).join(", ")} is not in the list of what '${oneLine(name, 60)}' is given${list}`,
    fix:
      otherwise.length === 0
        ? "`skillet capability list` shows which skill has what"
        : `it has ${otherwise.join(", ")} by another key of [skills.${name}]: change that one; \`skillet config\` shows it`,
  });
}
