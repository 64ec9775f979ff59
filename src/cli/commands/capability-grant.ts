import { editConfig } from "../../config/config-edit.ts";
import { getUserConfigPath } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import type { Skill } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { computeSkillDigest } from "../../skill/source/skill-copy.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { compareText, quoteIfNeeded, truncateLine } from "../../util/text.ts";
import { findOtherOwner, formatOwnerCopy, formatProviderOrigin } from "../capability-providers.ts";
import {
  type CommandContext,
  type CommandHost,
  createNotApprovedError,
  discoverWithCapabilities,
  EXIT,
  requireConfiguration,
} from "../command-context.ts";
import { chooseCopy, printConfigReach, recordChange, toConfigReachJson, waitUntilApplied } from "../config-output.ts";
import { addWorkspaceOption } from "../format.ts";
import { type CommandIo, createPrinter, isConfirmed, type Printer, printJson, printProblem } from "../output.ts";

/** Grants a skill capabilities that it declares. */
export async function grantCapability({ io, options, args }: CommandContext<{ yes?: boolean }>): Promise<number> {
  const [name = "", ...ids] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const { capabilities, grants } = found;
  const skill = await findGrantSkill(io, found, name, ids);
  const undeclared = ids.filter((id) => !skill.manifest.capabilities.includes(id));
  if (undeclared.length > 0) throw createNotDeclaredError(skill, undeclared);
  const before = [...(found.settings.skills.get(skill.name)?.capabilities ?? [])];
  const added = [...new Set(ids)].filter((id) => !capabilities.isGranted(id, skill)).sort(compareText);
  const granted = [...before, ...added];
  if (added.length > 0) {
    await printGrantSkill(createPrinter(options.json ? io.stderr : io.stdout, io.env), skill, added, found);
    if (!options.yes && !(await isConfirmed(io, `Grant ${skill.name} ${added.join(", ")}?`)))
      throw createNotApprovedError(io, "nothing was granted", "review the skill, then add --yes");
    await editConfig(getUserConfigPath(found.around), {
      parts: ["skills", skill.name, "capabilities"],
      value: granted,
    });
  }
  for (const capability of added)
    await recordChange(found.around, "capability.grant", { skill: skill.name, capability });
  // The grant goes to the copy that was reviewed.
  if (added.length > 0) grants.claim(skill);
  const reached = added.length > 0 ? await waitUntilApplied(getUserConfigPath(found.around), found.around) : undefined;
  const other = findOtherOwner(skill, grants);
  const facts = { name: skill.name, digest: await computeSkillDigest(skill), added, capabilities: granted };
  if (options.json) printJson(io.stdout, { ...facts, ...toConfigReachJson(reached) });
  else {
    const out = createPrinter(io.stdout, io.env);
    const back = addWorkspaceOption(
      `skillet capability ungrant ${quoteIfNeeded(skill.name)} ${added.join(" ")}`,
      options.workspace,
    );
    if (added.length > 0) out.line`${out.green("✓")} granted; to revoke it: ${out.cyan(back)}`;
    else if (!other) out.line`${out.green("✓")} ${skill.name} already has ${ids.join(", ")}`;
    printConfigReach(io, reached, { runs: "can use it at its next call" });
  }
  if (other) {
    const error = createPrinter(io.stderr, io.env);
    const message = `the values configured for this name belong to the copy from ${formatOwnerCopy(other, found)}, not to this one`;
    const commands = [`skillet trust --secrets ${quoteIfNeeded(skill.name)}`];
    const problem = { message, fix: "to grant them to this one", commands };
    printProblem(error, error.yellow("!"), problem, options.workspace);
  }
  return EXIT.fine;
}

/** Finds the copy to grant to. With several, the user chooses, unless one of them already owns the name's values. */
async function findGrantSkill(io: CommandIo, found: CommandHost, name: string, ids: readonly string[]): Promise<Skill> {
  const skill = found.catalog.get(name);
  if (name.includes("@") || found.grants.getOwner(name)) return skill;
  const command = `skillet capability grant NAME@SOURCE ${ids.join(" ")}; for example`;
  const choice = await chooseCopy(io, found, { name: skill.name, command });
  return choice.is === "copy" ? choice.skill : skill;
}

/** Revokes capabilities of a skill. */
export async function revokeCapability({ io, options, args }: CommandContext<{ yes?: boolean }>): Promise<number> {
  const [name = "", ...ids] = args;
  const found = await discoverWithCapabilities(io, options);
  requireConfiguration(io, found);
  const before = [...(found.settings.skills.get(name)?.capabilities ?? [])];
  const missing = ids.filter((id) => !before.includes(id));
  if (missing.length > 0) throw createNotGrantedError(name, missing, before, found);
  const skill = found.catalog.find(name);
  const other = skill && findOtherOwner(skill, found.grants);
  if (
    other &&
    !options.yes &&
    !(await isConfirmed(io, formatGrantQuestion(name, ids, formatOwnerCopy(other, found))))
  ) {
    const copy = formatOwnerCopy(other, found);
    const fix = `the copy from ${copy} would lose it, not the one found here; add --yes to confirm`;
    throw createNotApprovedError(io, "nothing was revoked", fix);
  }
  const left = before.filter((id) => !ids.includes(id));
  const parts = ["skills", name, "capabilities"];
  const file = getUserConfigPath(found.around);
  await editConfig(file, left.length > 0 ? { parts, value: left } : { parts });
  for (const capability of ids) await recordChange(found.around, "capability.ungrant", { skill: name, capability });
  const reached = await waitUntilApplied(file, found.around);
  if (options.json) printJson(io.stdout, { name, removed: ids, capabilities: left, ...toConfigReachJson(reached) });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.green("✓")} revoked ${ids.join(", ")} of ${name}`;
    printConfigReach(io, reached, { runs: "is denied it at its next call", isRevocation: true });
  }
  return EXIT.fine;
}

function formatGrantQuestion(name: string, ids: readonly string[], copy: string): string {
  return `Revoke ${ids.join(", ")} of the copy of ${name} from ${copy}, not of the one found here?`;
}

/** Prints the skill, and the providers of the capabilities to grant. */
async function printGrantSkill(
  out: Printer,
  skill: Skill,
  ids: readonly string[],
  { capabilities, around: environment }: CommandHost,
): Promise<void> {
  out.line`${out.bold(skill.name)}  ${truncateLine(skill.description, 200)}`;
  out.line`  ${out.dim("source     ")} ${skill.origin.source}, ${formatDisplayPath(getSkillLocation(skill), environment)}`;
  out.line`  ${out.dim("digest     ")} ${await computeSkillDigest(skill)}`;
  for (const id of ids) {
    const provider = capabilities.findProvider(id, skill);
    out.line`  ${out.dim("to grant   ")} ${out.cyan(id)}, ${provider ? formatProviderOrigin(provider) : "which has no provider yet"}`;
  }
}

function createNotDeclaredError(skill: Skill, ids: readonly string[]): SkillError {
  const { capabilities } = skill.manifest;
  return new SkillError("capability-undeclared", {
    message: `Skill '${skill.name}' does not declare ${ids.map((id) => truncateLine(id, 60)).join(", ")}`,
    fix: capabilities.length === 0 ? "it declares no capabilities" : `it declares: ${capabilities.join(", ")}`,
  });
}

function createNotGrantedError(
  name: string,
  ids: readonly string[],
  before: readonly string[],
  found: CommandHost,
): SkillError {
  const skill = found.catalog.find(name);
  const otherwise = skill ? ids.filter((id) => found.capabilities.isGranted(id, skill)) : [];
  const list = before.length === 0 ? "" : `; granted: ${before.join(", ")}`;
  return new SkillError("not-found", {
    message: `${ids.map((id) => truncateLine(id, 60)).join(", ")} is not granted to '${truncateLine(name, 60)}'${list}`,
    ...(otherwise.length === 0
      ? { fix: "list the grants of each skill", commands: ["skillet capability list"] }
      : {
          fix: `another key of [skills.${name}] grants ${otherwise.join(", ")}: change that one; to see it`,
          commands: ["skillet config"],
        }),
  });
}
