import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Caller } from "../host/caller.ts";
import type { Capabilities } from "../host/capabilities.ts";
import { type Discovered, type DiscoverOptions, discover, surroundings } from "../host/discover.ts";
import { SkillError } from "../shared/error.ts";
import type { Diagnostic } from "../skill/diagnostic.ts";
import { displayPath, type Surroundings } from "../source/locations.ts";
import { type Io, type Printer, printer, type Safe } from "./io.ts";
import { keepUntouchedSkills } from "./moved-heads.ts";
import type { CommonOptions } from "./program.ts";
import { Told } from "./told.ts";
import { printHanging } from "./wrap.ts";

/** For commands that can be asked on behalf of another chat. */
export interface CallerOptions {
  chatType?: string;
  chatId?: string;
}

/** Discovers for a command: in its workspace, with the environment it was given. */
export async function discoverFor(
  io: Io,
  options: CommonOptions & CallerOptions,
  more: Pick<DiscoverOptions, "sources" | "follow" | "remote"> = {},
): Promise<Discovered> {
  const where = { workspace: workspaceOf(io, options), env: io.env, caller: callerOf(options) };
  // Most commands are not about the skills of MCP servers, and wait for none.
  const found = await discover({ follow: false, remote: "cached", ...where, ...more });
  await keepUntouchedSkills(found);
  return found;
}

/** What was found, with who serves capabilities. */
export interface Found extends Discovered {
  capabilities: Capabilities;
}

/** The same, for commands that need the capabilities: only these load them. */
export async function discoverToUse(io: Io, options: CommonOptions & CallerOptions): Promise<Found> {
  return withCapabilities(await discoverFor(io, options, { remote: "soon" }));
}

/** The same, for commands that run skills: these may take long, so they follow the configuration. */
export async function discoverToRun(io: Io, options: CommonOptions & CallerOptions): Promise<Found> {
  return withCapabilities(await discoverFor(io, options, { follow: true, remote: "background" }));
}

export async function withCapabilities(found: Discovered): Promise<Found> {
  const { openCapabilities } = await import("../capability/open.ts");
  return { ...found, capabilities: openCapabilities(found) };
}

/** Who sits at a terminal is alone with it. */
function callerOf({ chatType = "private", chatId = "terminal" }: CallerOptions): Caller {
  return { chatType, chatId };
}

export function surroundingsFor(io: Io, options: CommonOptions): Surroundings {
  return surroundings({ workspace: workspaceOf(io, options), env: io.env });
}

function workspaceOf(io: Io, options: CommonOptions): string {
  const given = options.workspace ?? io.env["AGENT_WORKSPACE_ROOT"];
  const workspace = resolve(io.cwd, given || ".");
  if (given && !existsSync(workspace)) {
    const fix =
      options.workspace === undefined ? "AGENT_WORKSPACE_ROOT names it: correct or unset it" : "check --workspace";
    throw new SkillError("workspace-missing", { message: `The workspace ${workspace} is not there`, fix });
  }
  return workspace;
}

/** A folder as people are told of it. */
export function folderSaid(path: string, around: Surroundings): string {
  const shown = displayPath(path, around);
  return shown === "." ? "this workspace" : shown;
}

/** `skills/x/SKILL.md:3:1 what is wrong (yaml-syntax)`, then how to mend it. */
export function printDiagnostic(out: Printer, diagnostic: Diagnostic, around: Surroundings): void {
  const { severity, code, line: row, column, message, fix } = diagnostic;
  const mark: Safe = severity === "error" ? out.red("✗") : severity === "warning" ? out.yellow("!") : out.dim("·");
  const place = row === undefined ? "" : `:${row}${column === undefined ? "" : `:${column}`}`;
  const said = `${displayPath(diagnostic.file, around)}${place} ${message} (${code})`;
  const paint = (line: string) =>
    line.endsWith(`(${code})`) ? out.text`${line.slice(0, -code.length - 2)}${out.dim(`(${code})`)}` : line;
  printHanging(out, out.text`${mark} `, [said], { indent: 2, paint });
  printHanging(out, "    ", [fix], { indent: 4 });
}

type Warned = Pick<Discovered, "configuration" | "around"> & Partial<Pick<Discovered, "catalog">>;

/**
 * Prints what is wrong with the configuration to stderr, each nearer copy of a skill that does not load while a farther one is used, and
 * each MCP server whose skills cannot be listed. Returns
 * false when defaults stand in for a file that cannot be read.
 */
export function warnOfConfiguration(io: Io, found: Warned): boolean {
  const error = printer(io.stderr, io.env);
  const replaced = found.catalog?.diagnostics.filter(({ code }) => WARNED.has(code)) ?? [];
  for (const diagnostic of [...found.configuration.diagnostics, ...replaced])
    printDiagnostic(error, diagnostic, found.around);
  return !found.configuration.isBroken;
}

/** Diagnostics of skills that every command prints which lists or uses skills. */
const WARNED: ReadonlySet<string> = new Set(["nearer-copy-broken", "remote-unavailable"]);

/** Returns a function that prints new problems of the followed configuration to stderr, once each, and when it is valid again. */
export function openConfigurationWarnings(
  io: Io,
  found: Pick<Discovered, "currentConfiguration" | "around">,
): () => void {
  let known = found.currentConfiguration();
  let left = MOST_WARNINGS;
  return () => {
    const now = found.currentConfiguration();
    if (now === known) return;
    const said = new Set(known.diagnostics.map((diagnostic) => JSON.stringify(diagnostic)));
    const wrong = now.diagnostics.filter((diagnostic) => !said.has(JSON.stringify(diagnostic)));
    const isFixed = known.isBroken && !now.isBroken;
    known = now;
    left -= wrong.length + (isFixed ? 1 : 0);
    if (left < 0) return;
    const error = printer(io.stderr, io.env);
    for (const diagnostic of wrong) printDiagnostic(error, diagnostic, found.around);
    if (isFixed) error.line`${error.dim("·")} the configuration is valid again, and in effect`;
  };
}

/** Some clients never read stderr: a full pipe would block the server. */
const MOST_WARNINGS = 50;

/** The same for commands that do nothing where defaults would stand in: throws then. */
export function requireConfiguration(io: Io, found: Warned): void {
  if (!warnOfConfiguration(io, found)) throw unreadableConfiguration(found.configuration.diagnostics);
}

/** People see each of these. */
export function unreadableConfiguration(diagnostics: readonly Diagnostic[]): Told {
  const { file = "", message = "", fix = "" } = diagnostics.find(({ severity }) => severity === "error") ?? {};
  return new Told("config-unreadable", { message: `${file} ${message}`, fix });
}
