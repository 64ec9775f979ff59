import { join } from "node:path";
import { editConfig } from "../../host/config-edit.ts";
import { readConfig } from "../../host/config-file.ts";
import { userConfig } from "../../host/settings.ts";
import { type Denial, denials, isEnabled } from "../../policy/policy.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { isInside, realPlace } from "../../shared/inside.ts";
import { displayPath, type Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, type Found, requireConfiguration, withCapabilities } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import { fromHere } from "../next-step.ts";
import type { CommonOptions, Context } from "../program.ts";
import { reachedFacts, sayReached, waitUntilApplied } from "../reached.ts";
import { sayNotice } from "../say.ts";
import { explainMissing } from "./show.ts";

interface SwitchOptions {
  project?: boolean;
}

export function enable(context: Context<SwitchOptions>): Promise<number> {
  return switchTo(true, context);
}

export function disable(context: Context<SwitchOptions>): Promise<number> {
  return switchTo(false, context);
}

/** Writes it down for all of the skills or none, then looks what holds: the other file may say otherwise. */
async function switchTo(isOn: boolean, { io, options, args }: Context<SwitchOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  requireConfiguration(io, found);
  const { around, catalog } = found;
  const missing = args.find((name) => !catalog.has(name));
  if (missing !== undefined) return explainMissing(io, found, missing);
  const names = [...new Set(args.map((name) => catalog.get(name).name))];
  const file = options.project ? projectConfig(around) : userConfig(around);
  const already = await namesIn(file, isOn, options.project ? "workspace" : "user");
  const isWritten = await editConfig(
    file,
    ...names.map((name) => ({ parts: ["skills", name, "enabled"], value: isOn })),
  );
  // Disabling again is how a user asks whether a server that was late has applied it by now.
  const reached = isWritten || !isOn ? await waitUntilApplied(file, around) : undefined;
  const now = await withCapabilities(await discoverFor(io, options));
  const switched = names.map((name) => ({ ...stateOf(name, now), isChanged: !already.has(name) }));
  if (options.json) printJson(io.stdout, { file, skills: switched, ...reachedFacts(reached) });
  else {
    say(io, switched, { isOn, file: displayPath(file, around), options });
    const runs = isOn ? "can use it at its next call" : "is refused further tool calls";
    sayReached(io, reached, { runs, isRevocation: !isOn });
  }
  return switched.every((skill) => skill.isEnabled === isOn) ? EXIT.fine : EXIT.findings;
}

interface Switched {
  name: string;
  isEnabled: boolean;
  isChanged: boolean;
  /** What else speaks against using it. */
  needs: readonly Denial[];
}

function stateOf(name: string, found: Found): Omit<Switched, "isChanged"> {
  const skill = found.catalog.get(name);
  const needs = denials(skill, found, "use").filter(({ code }) => code !== "disabled");
  return { name, isEnabled: isEnabled(skill, found) === undefined, needs };
}

/** The skills that a file switches so. */
async function namesIn(file: string, isOn: boolean, owner: "user" | "workspace"): Promise<ReadonlySet<string>> {
  const { entries } = await readConfig(file, owner);
  const switches = entries.filter(
    ({ parts, value }) => parts[0] === "skills" && parts[2] === "enabled" && parts.length === 3 && value === isOn,
  );
  return new Set(switches.map(({ parts: [, name = ""] }) => name));
}

/** The workspace's own file. One that is a link may be anybody's, and is not written. */
function projectConfig({ workspace }: Surroundings): string {
  const file = join(workspace, ".skillet", "config.toml");
  if (isInside(realPlace(workspace), realPlace(file))) return file;
  throw new SkillError("target-outside", {
    message: `${file} is a link that leaves the workspace, so nothing was written`,
    fix: "look where it leads, and put a file in its place",
  });
}

interface Told {
  isOn: boolean;
  file: string;
  options: SwitchOptions & CommonOptions;
}

function say(io: Io, switched: readonly Switched[], { isOn, file, options }: Told): void {
  const out = printer(io.stdout, io.env);
  const state = isOn ? "on" : "off";
  for (const { name, isChanged, isEnabled: is } of switched) {
    if (is === isOn)
      out.line`${out.green("✓")} ${out.bold(name)} ${isChanged ? `is switched ${state}` : `was switched ${state} already`}, in ${file}`;
    else out.line`${out.yellow("!")} ${out.bold(name)} is written down as ${state} in ${file}, and stays off`;
  }
  const changed = switched.filter(({ isChanged }) => isChanged);
  if (changed.length > 0) out.line`  to undo: ${out.cyan(commandFor(isOn ? "disable" : "enable", changed, options))}`;
  const overruled = switched.filter((skill) => skill.isEnabled !== isOn);
  if (overruled.length > 0) sayOverruled(io, overruled, options);
  for (const { needs } of switched.filter((skill) => isOn && skill.isEnabled)) {
    for (const { message, fix } of needs) sayNotice(out, out.yellow("!"), message, fromHere(fix, options.workspace));
  }
}

/** Only what is to be on can be off all the same: either file can switch a skill off. */
function sayOverruled(io: Io, skills: readonly Switched[], options: Told["options"]): void {
  const error = printer(io.stderr, io.env);
  const other = { ...options, project: !options.project };
  const who = options.project ? "Your own configuration" : "The workspace's own configuration";
  const message = `${who} switches ${skills.map(({ name }) => name).join(", ")} off`;
  sayNotice(error, error.yellow("!"), message, `to switch it on there: ${commandFor("enable", skills, other)}`);
}

function commandFor(command: string, skills: readonly Switched[], { project, workspace }: Told["options"]): string {
  const names = skills.map(({ name }) => quoted(name)).join(" ");
  const where = workspace === undefined ? "" : ` -C ${quoted(workspace)}`;
  return `skillet ${command} ${names}${project ? " --project" : ""}${where}`;
}
