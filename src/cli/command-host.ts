import { existsSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import type { Catalog } from "../catalog/catalog.ts";
import { type DiscoverOptions, type DiscoverResult, discover, resolveEnvironment } from "../config/discover.ts";
import { SkillError } from "../errors/problem.ts";
import type { Capabilities } from "../host/capability-contract.ts";
import type { Caller } from "../host/host-policy.ts";
import type { Diagnostic } from "../skill/diagnostics.ts";
import type { Skill, SkillScope } from "../skill/skill.ts";
import { type Environment, formatDisplayPath } from "../skill/source/locations.ts";
import { isSameSkill } from "../skill/source/skill-copy.ts";
import { createRunStore, type RunStore } from "../store/runs.ts";
import { type CommonOptions, ReportedError } from "./command-definition.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, type SafeText } from "./output.ts";

/** For commands that can be asked on behalf of another chat. */
export interface CallerOptions {
  chatType?: string;
  chatId?: string;
}

/** Discovers for a command: in its workspace, with the environment it was given. */
export async function discoverForCommand(
  io: CommandIo,
  options: CommonOptions & CallerOptions,
  more: Pick<DiscoverOptions, "sources" | "follow" | "remote"> = {},
): Promise<DiscoverResult> {
  const where = { workspace: resolveWorkspace(io, options), env: io.env, caller: createCaller(options) };
  // Most commands are not about the skills of MCP servers, and wait for none.
  const found = await discover({ follow: false, remote: "cached", ...where, ...more });
  await keepTrustAfterCheckout(found);
  return found;
}

/** What was found, with who serves capabilities. */
export interface CommandHost extends DiscoverResult {
  capabilities: Capabilities;
}

/** The same, for commands that need the capabilities: only these load them. */
export async function discoverWithCapabilities(
  io: CommandIo,
  options: CommonOptions & CallerOptions,
): Promise<CommandHost> {
  return attachCapabilities(await discoverForCommand(io, options, { remote: "soon" }));
}

/** The same, for commands that run skills: these may take long, so they follow the configuration. */
export async function discoverForRun(io: CommandIo, options: CommonOptions & CallerOptions): Promise<CommandHost> {
  return attachCapabilities(await discoverForCommand(io, options, { follow: true, remote: "background" }));
}

export async function attachCapabilities(found: DiscoverResult): Promise<CommandHost> {
  const { createCapabilities } = await import("../capabilities/configured-capabilities.ts");
  return { ...found, capabilities: createCapabilities(found) };
}

/** Who sits at a terminal is alone with it. */
function createCaller({ chatType = "private", chatId = "terminal" }: CallerOptions): Caller {
  return { chatType, chatId };
}

export function resolveCommandEnvironment(io: CommandIo, options: CommonOptions): Environment {
  return resolveEnvironment({ workspace: resolveWorkspace(io, options), env: io.env });
}

function resolveWorkspace(io: CommandIo, options: CommonOptions): string {
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
export function formatSkillsFolder(path: string, around: Environment): string {
  const shown = formatDisplayPath(path, around);
  return shown === "." ? "this workspace" : shown;
}

/** `skills/x/SKILL.md:3:1 what is wrong (yaml-syntax)`, then how to mend it. */
export function printDiagnostic(out: Printer, diagnostic: Diagnostic, around: Environment): void {
  const { severity, code, line: row, column, message, fix } = diagnostic;
  const mark: SafeText = severity === "error" ? out.red("✗") : severity === "warning" ? out.yellow("!") : out.dim("·");
  const place = row === undefined ? "" : `:${row}${column === undefined ? "" : `:${column}`}`;
  const said = `${formatDisplayPath(diagnostic.file, around)}${place} ${message} (${code})`;
  const paint = (line: string) =>
    line.endsWith(`(${code})`) ? out.text`${line.slice(0, -code.length - 2)}${out.dim(`(${code})`)}` : line;
  printHanging(out, out.text`${mark} `, [said], { indent: 2, paint });
  printHanging(out, "    ", [fix], { indent: 4 });
}

type ConfigurationSource = Pick<DiscoverResult, "configuration" | "around"> & Partial<Pick<DiscoverResult, "catalog">>;

/**
 * Prints what is wrong with the configuration to stderr, each nearer copy of a skill that does not load while a farther one is used, and
 * each MCP server whose skills cannot be listed. Returns
 * false when defaults stand in for a file that cannot be read.
 */
export function printConfigurationWarnings(io: CommandIo, found: ConfigurationSource): boolean {
  const error = createPrinter(io.stderr, io.env);
  const replaced = found.catalog?.diagnostics.filter(({ code }) => WARNED_CODES.has(code)) ?? [];
  for (const diagnostic of [...found.configuration.diagnostics, ...replaced])
    printDiagnostic(error, diagnostic, found.around);
  return !found.configuration.isBroken;
}

/** Diagnostics of skills that every command prints which lists or uses skills. */
const WARNED_CODES: ReadonlySet<string> = new Set(["nearer-copy-broken", "remote-unavailable"]);

/** Returns a function that prints new problems of the followed configuration to stderr, once each, and when it is valid again. */
export function createConfigurationWarner(
  io: CommandIo,
  found: Pick<DiscoverResult, "currentConfiguration" | "around">,
): () => void {
  let known = found.currentConfiguration();
  let left = MAX_WARNINGS;
  return () => {
    const now = found.currentConfiguration();
    if (now === known) return;
    const said = new Set(known.diagnostics.map((diagnostic) => JSON.stringify(diagnostic)));
    const wrong = now.diagnostics.filter((diagnostic) => !said.has(JSON.stringify(diagnostic)));
    const isFixed = known.isBroken && !now.isBroken;
    known = now;
    left -= wrong.length + (isFixed ? 1 : 0);
    if (left < 0) return;
    const error = createPrinter(io.stderr, io.env);
    for (const diagnostic of wrong) printDiagnostic(error, diagnostic, found.around);
    if (isFixed) error.line`${error.dim("·")} the configuration is valid again, and in effect`;
  };
}

/** Some clients never read stderr: a full pipe would block the server. */
const MAX_WARNINGS = 50;

/** The same for commands that do nothing where defaults would stand in: throws then. */
export function requireConfiguration(io: CommandIo, found: ConfigurationSource): void {
  if (!printConfigurationWarnings(io, found)) throw createConfigurationError(found.configuration.diagnostics);
}

/** People see each of these. */
export function createConfigurationError(diagnostics: readonly Diagnostic[]): ReportedError {
  const { file = "", message = "", fix = "" } = diagnostics.find(({ severity }) => severity === "error") ?? {};
  return new ReportedError("config-unreadable", { message: `${file} ${message}`, fix });
}

/** Asks git whether a commit that was checked out since changed the user's own skills, and keeps the trust in those that it did not. */
async function keepTrustAfterCheckout({ trust: { own }, env }: Pick<DiscoverResult, "trust" | "env">): Promise<void> {
  const moved = own.moved();
  if (moved.length === 0) return;
  const { createGit } = await import("../sandbox/git.ts");
  for (const one of moved) {
    try {
      const git = await createGit({ env, repository: one.repository, protocol: "file" });
      const path = relative(one.root, one.place).split(sep).join("/");
      const paths = path === "" ? [] : ["--", path];
      const { code } = await git.run(["diff-tree", "-r", "--quiet", "--no-renames", one.from, one.to, ...paths]);
      if (code === 0) own.keepHead(one);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error; // Without git nothing is known: the skill waits for trust.
    }
  }
}

/** The runs of whoever calls. No skill is looked for. */
export function openCommandRuns(io: CommandIo, options: CommonOptions): RunStore {
  return createRunStore(resolveCommandEnvironment(io, options).skilletHome);
}

/** A folder of skills that has the skill. */
interface SkillLocation {
  scope: SkillScope;
  source: string;
  file?: string;
}

/** Returns where a skill is: its own place first, then those of copies that are the same to the byte. */
export function findSkillLocations(skill: Skill, catalog: Catalog): SkillLocation[] {
  const others = catalog.copies(skill.name).filter((copy) => copy !== skill && isSameSkill(skill, copy, "exact"));
  return [skill, ...others].map(({ origin: { scope, source, file } }) => ({
    scope,
    source,
    ...(file === undefined ? {} : { file }),
  }));
}
