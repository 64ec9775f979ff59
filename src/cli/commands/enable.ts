import { join } from "node:path";
import { type Denial, enabledPolicy, findDenials } from "../../agent/policy/skill-policies.ts";
import { editConfig } from "../../config/config-edit.ts";
import { readConfig } from "../../config/config-file.ts";
import { getUserConfigPath } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { type Environment, formatDisplayPath } from "../../skill/source/locations.ts";
import { isInside, resolveRealPath } from "../../util/safe-path.ts";
import { quoteIfNeeded } from "../../util/text.ts";
import {
  attachCapabilities,
  type CommandContext,
  type CommandDefinition,
  type CommandHost,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  requireConfiguration,
} from "../command-context.ts";
import { printConfigReach, recordChange, toConfigReachJson, waitUntilApplied } from "../config-output.ts";
import { type CommandIo, createPrinter, printJson, printProblem } from "../output.ts";
import { failMissingSkill } from "./show.ts";

/** `skillet enable`. */
export const enableCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Enable skills and show what else they need")
      .argument("<skill...>", "skills")
      .option("--project", "Enable in this workspace's .skillet/config.toml. Skills that you disabled stay disabled.")
      .addHelpText("after", formatExamples("skillet enable gog", "skillet enable research deploy --project")),
  run: enableSkills,
};

/** `skillet disable`. */
export const disableCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Disable skills for models and users")
      .argument("<skill...>", "skills")
      .option("--project", "Disable in this workspace's .skillet/config.toml")
      .addHelpText("after", formatExamples("skillet disable research", "skillet disable deploy --project")),
  run: disableSkills,
};

interface SwitchOptions {
  project?: boolean;
}

function enableSkills(context: CommandContext<SwitchOptions>): Promise<number> {
  return setEnabled(true, context);
}

function disableSkills(context: CommandContext<SwitchOptions>): Promise<number> {
  return setEnabled(false, context);
}

/** Writes the setting for all skills or none, then checks the effective state: the other file may override it. */
async function setEnabled(isOn: boolean, { io, options, args }: CommandContext<SwitchOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  requireConfiguration(io, found);
  const { around: environment, catalog } = found;
  const missing = args.find((name) => !catalog.has(name));
  if (missing !== undefined) return failMissingSkill(io, found, missing);
  const names = [...new Set(args.map((name) => catalog.get(name).name))];
  const file = options.project ? getProjectConfigPath(environment) : getUserConfigPath(environment);
  const already = await readSwitchedNames(file, isOn, options.project ? "workspace" : "user");
  const isWritten = await editConfig(
    file,
    ...names.map((name) => ({ parts: ["skills", name, "enabled"], value: isOn })),
  );
  if (isWritten)
    for (const skill of names) await recordChange(environment, isOn ? "skill.enable" : "skill.disable", { skill });
  // Users repeat `disable` to check whether a late server has applied it by now.
  const reached = isWritten || !isOn ? await waitUntilApplied(file, environment) : undefined;
  const now = await attachCapabilities(await discoverForCommand(io, options));
  const switched = names.map((name) => ({ ...readSwitchState(name, now), isChanged: !already.has(name) }));
  if (options.json) printJson(io.stdout, { file, skills: switched, ...toConfigReachJson(reached) });
  else {
    printSwitched(io, switched, { isOn, file: formatDisplayPath(file, environment), options });
    const runs = isOn ? "can use it at its next call" : "is denied further tool calls";
    printConfigReach(io, reached, { runs, isRevocation: !isOn });
  }
  return switched.every((skill) => skill.isEnabled === isOn) ? EXIT.fine : EXIT.findings;
}

interface SwitchedSkill {
  name: string;
  isEnabled: boolean;
  isChanged: boolean;
  /** Other reasons why it cannot be used. */
  needs: readonly Denial[];
}

function readSwitchState(name: string, found: CommandHost): Omit<SwitchedSkill, "isChanged"> {
  const skill = found.catalog.get(name);
  const needs = findDenials(skill, found, "use").filter(({ code }) => code !== "disabled");
  return { name, isEnabled: enabledPolicy(skill, found) === undefined, needs };
}

/** Returns the names of the skills with this state in a file. */
async function readSwitchedNames(
  file: string,
  isOn: boolean,
  owner: "user" | "workspace",
): Promise<ReadonlySet<string>> {
  const { entries } = await readConfig(file, owner);
  const switches = entries.filter(
    ({ parts, value }) => parts[0] === "skills" && parts[2] === "enabled" && parts.length === 3 && value === isOn,
  );
  return new Set(switches.map(({ parts: [, name = ""] }) => name));
}

/** Returns the workspace's configuration file. Throws for a symlink that leaves the workspace: its target may belong to others. */
function getProjectConfigPath({ workspace }: Environment): string {
  const file = join(workspace, ".skillet", "config.toml");
  if (isInside(resolveRealPath(workspace), resolveRealPath(file))) return file;
  throw new SkillError("target-outside", {
    message: `${file} is a symlink that leaves the workspace; nothing was written`,
    fix: "check its target, and replace it with a file",
  });
}

interface SwitchReport {
  isOn: boolean;
  file: string;
  options: SwitchOptions & CommonOptions;
}

function printSwitched(io: CommandIo, switched: readonly SwitchedSkill[], { isOn, file, options }: SwitchReport): void {
  const out = createPrinter(io.stdout, io.env);
  const state = isOn ? "enabled" : "disabled";
  for (const { name, isChanged, isEnabled: is } of switched) {
    if (is === isOn)
      out.line`${out.green("✓")} ${out.bold(name)} ${isChanged ? `is now ${state}` : `was already ${state}`}, in ${file}`;
    else out.line`${out.yellow("!")} ${out.bold(name)} is ${state} in ${file}, but stays disabled`;
  }
  const changed = switched.filter(({ isChanged }) => isChanged);
  if (changed.length > 0)
    out.line`  to undo: ${out.cyan(formatSwitchCommand(isOn ? "disable" : "enable", changed, options))}`;
  const overruled = switched.filter((skill) => skill.isEnabled !== isOn);
  if (overruled.length > 0) printOverruled(io, overruled, options);
  for (const { needs } of switched.filter((skill) => isOn && skill.isEnabled)) {
    for (const need of needs) printProblem(out, out.yellow("!"), need, options.workspace);
  }
}

/** Prints the skills that stay disabled: either configuration file can disable a skill. */
function printOverruled(io: CommandIo, skills: readonly SwitchedSkill[], options: SwitchReport["options"]): void {
  const error = createPrinter(io.stderr, io.env);
  const other = { ...options, project: !options.project };
  const who = options.project ? "Your own configuration" : "The workspace's own configuration";
  const message = `${who} disables ${skills.map(({ name }) => name).join(", ")}`;
  const commands = [formatSwitchCommand("enable", skills, other)];
  printProblem(error, error.yellow("!"), { message, fix: "to enable it there", commands });
}

function formatSwitchCommand(
  command: string,
  skills: readonly SwitchedSkill[],
  { project, workspace }: SwitchReport["options"],
): string {
  const names = skills.map(({ name }) => quoteIfNeeded(name)).join(" ");
  const where = workspace === undefined ? "" : ` -C ${quoteIfNeeded(workspace)}`;
  return `skillet ${command} ${names}${project ? " --project" : ""}${where}`;
}
