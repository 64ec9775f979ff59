import { existsSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import type { Engine } from "../adapters/postgres/engine.ts";
import type { Catalog } from "../catalog/catalog.ts";
import { type DiscoverOptions, type DiscoverResult, discover, resolveEnvironment } from "../config/discover.ts";
import { resolveReference } from "../config/key-types.ts";
import { loadSettings, type Settings } from "../config/settings.ts";
import { SkillError } from "../errors/problem.ts";
import type { Caller } from "../host/approval.ts";
import type { Capabilities } from "../host/capability-contract.ts";
import type { Diagnostic } from "../skill/diagnostics.ts";
import type { Skill, SkillScope } from "../skill/skill.ts";
import { type Environment, formatDisplayPath } from "../skill/source/locations.ts";
import { isSameSkill } from "../skill/source/skill-copy.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import type { RunStore } from "../store/runs.ts";
import type { StatisticsStore } from "../store/statistics.ts";
import { filterAsync } from "../util/sequential.ts";
import { type CommonOptions, ReportedError } from "./command-definition.ts";
import { type CommandIo, createPrinter, type Printer, printFix, printHanging, type SafeText } from "./output.ts";

/** Options of commands that can act on behalf of another chat. */
export interface CallerOptions {
  chatType?: string;
  chatId?: string;
}

/** Discovers skills in the workspace and environment of a command. */
export async function discoverForCommand(
  io: CommandIo,
  options: CommonOptions & CallerOptions,
  more: Pick<DiscoverOptions, "sources" | "follow" | "remote"> = {},
): Promise<DiscoverResult> {
  const where = { workspace: resolveWorkspace(io, options), env: io.env, caller: createCaller(options) };
  // Most commands do not need the skills of MCP servers, and do not wait for them.
  const found = await discover({ follow: false, remote: "cached", ...where, ...more });
  await keepTrustAfterCheckout(found);
  return found;
}

/** The discovery result with the capability providers. */
export interface CommandHost extends DiscoverResult {
  capabilities: Capabilities;
  /** Opens the permanent approvals of a tenant or person, if they are in the database of the engine. */
  openApprovals?: Engine["openApprovals"];
}

/** Discovers for commands that need capabilities: only these load them. */
export async function discoverWithCapabilities(
  io: CommandIo,
  options: CommonOptions & CallerOptions,
): Promise<CommandHost> {
  return attachCapabilities(await discoverForCommand(io, options, { remote: "soon" }));
}

/** Discovers for commands that run skills. These may take long, so they follow configuration changes. */
export async function discoverForRun(io: CommandIo, options: CommonOptions & CallerOptions): Promise<CommandHost> {
  const found = await discoverForCommand(io, options, { follow: true, remote: "background" });
  return attachCapabilities({ ...found, ...(await openEngineStores(found.around, found.settings)) });
}

export async function attachCapabilities<Found extends DiscoverResult>(
  found: Found,
): Promise<Found & { capabilities: Capabilities }> {
  const { createCapabilities } = await import("../capabilities/configured-capabilities.ts");
  return { ...found, capabilities: createCapabilities(found) };
}

/** A user at a terminal is in a private chat by default. */
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
    const fix = options.workspace === undefined ? "fix or unset AGENT_WORKSPACE_ROOT" : "check --workspace";
    throw new SkillError("workspace-missing", { message: `The workspace ${workspace} does not exist`, fix });
  }
  return workspace;
}

/** Formats a folder for display. */
export function formatSkillsFolder(path: string, around: Environment): string {
  const shown = formatDisplayPath(path, around);
  return shown === "." ? "this workspace" : shown;
}

/** Prints a diagnostic: `skills/x/SKILL.md:3:1 message  [yaml-syntax]`, then the fix. */
export function printDiagnostic(out: Printer, diagnostic: Diagnostic, around: Environment): void {
  const { severity, code, line: row, column, message } = diagnostic;
  const mark: SafeText = severity === "error" ? out.red("✗") : severity === "warning" ? out.yellow("!") : out.dim("·");
  const position = row === undefined ? "" : `:${row}${column === undefined ? "" : `:${column}`}`;
  const text = `${formatDisplayPath(diagnostic.file, around)}${position} ${message}`;
  printHanging(out, out.text`${mark} `, [text], { indent: 2, code });
  printFix(out, diagnostic, { indent: 4 });
}

type ConfigurationSource = Pick<DiscoverResult, "configuration" | "around"> & Partial<Pick<DiscoverResult, "catalog">>;

/**
 * Prints problems of the configuration to stderr, each nearer copy of a skill that does not load while a farther one is used, and each MCP
 * server whose skills cannot be listed. Returns false if defaults replace a file that cannot be read.
 */
export function printConfigurationWarnings(io: CommandIo, found: ConfigurationSource): boolean {
  const error = createPrinter(io.stderr, io.env);
  const replaced = found.catalog?.diagnostics.filter(({ code }) => WARNED_CODES.has(code)) ?? [];
  for (const diagnostic of [...found.configuration.diagnostics, ...replaced])
    printDiagnostic(error, diagnostic, found.around);
  return !found.configuration.isBroken;
}

/** Diagnostics that every command prints which lists or uses skills. */
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
    const reported = new Set(known.diagnostics.map((diagnostic) => JSON.stringify(diagnostic)));
    const wrong = now.diagnostics.filter((diagnostic) => !reported.has(JSON.stringify(diagnostic)));
    const isFixed = known.isBroken && !now.isBroken;
    known = now;
    left -= wrong.length + (isFixed ? 1 : 0);
    if (left < 0) return;
    const error = createPrinter(io.stderr, io.env);
    for (const diagnostic of wrong) printDiagnostic(error, diagnostic, found.around);
    if (isFixed) error.line`${error.dim("·")} the configuration is valid again and in effect`;
  };
}

/** Some clients never read stderr: a full pipe would block the server. */
const MAX_WARNINGS = 50;

/** Prints configuration problems, and throws if defaults would replace an unreadable file. */
export function requireConfiguration(io: CommandIo, found: ConfigurationSource): void {
  if (!printConfigurationWarnings(io, found)) throw createConfigurationError(found.configuration.diagnostics);
}

/** Returns the error for an unreadable configuration, after its diagnostics were printed. */
export function createConfigurationError(diagnostics: readonly Diagnostic[]): ReportedError {
  const { file = "", message = "", ...problem } = diagnostics.find(({ severity }) => severity === "error") ?? {};
  return new ReportedError("config-unreadable", { ...problem, message: `${file} ${message}` });
}

/** Keeps the trust in the user's own skills that a git checkout did not change. */
async function keepTrustAfterCheckout({ trust: { own }, env }: Pick<DiscoverResult, "trust" | "env">): Promise<void> {
  const moved = own.listMovedHeads();
  if (moved.length === 0) return;
  const { createGit } = await import("../sandbox/git.ts");
  for (const one of moved) {
    try {
      const git = await createGit({ env, repository: one.repository, protocol: "file" });
      const path = relative(one.root, one.location).split(sep).join("/");
      const paths = path === "" ? [] : ["--", path];
      const { code } = await git.run(["diff-tree", "-r", "--quiet", "--no-renames", one.from, one.to, ...paths]);
      if (code === 0) own.acceptHead(one);
    } catch (error) {
      if (!(error instanceof SkillError)) throw error; // Without git the change is unknown: the skill needs to be trusted again.
    }
  }
}

/** The stores of the caller: in the database of the engine if one is configured, otherwise in files of this machine. */
export interface CommandStores {
  runs: RunStore;
  approvals: ApprovalStore;
  statistics: StatisticsStore;
  /** Opens the permanent approvals of a tenant or person, if they are in the database of the engine. */
  openApprovals?: Engine["openApprovals"];
}

/** Opens the stores of the caller. No skills are discovered. */
export async function openCommandStores(io: CommandIo, options: CommonOptions): Promise<CommandStores> {
  const around = resolveCommandEnvironment(io, options);
  const { settings } = await loadSettings(around);
  const { skilletHome } = around;
  const [{ createRunStore }, { createApprovalStore }, { createStatisticsStore }] = await Promise.all([
    import("../store/runs.ts"),
    import("../store/approvals.ts"),
    import("../store/statistics.ts"),
  ]);
  const local = {
    runs: createRunStore(skilletHome),
    approvals: createApprovalStore(skilletHome),
    statistics: createStatisticsStore(skilletHome),
  };
  return { ...local, ...(await openEngineStores(around, settings)) };
}

/** Opens the caller's runs. No skills are discovered. */
export async function openCommandRuns(io: CommandIo, options: CommonOptions): Promise<RunStore> {
  return (await openCommandStores(io, options)).runs;
}

/** Opens the database of the engine. Returns undefined if none is configured. */
export async function openCommandEngine(around: Environment, settings: Settings): Promise<Engine | undefined> {
  const url = readEngineUrl(around, settings);
  if (url === undefined) return undefined;
  const { openEngine } = await import("../adapters/postgres/engine.ts");
  const { leaseSeconds, outageSeconds, sealKey } = settings.engine;
  return openEngine({
    ...{ url, leaseSeconds, outageSeconds },
    sealKey: sealKey === undefined ? undefined : readEngineReference(around, "seal_key", sealKey),
  });
}

/** Opens the database of the engine. Throws a SkillError if none is configured. */
export async function requireCommandEngine(io: CommandIo, options: CommonOptions): Promise<Engine> {
  const around = resolveCommandEnvironment(io, options);
  const engine = await openCommandEngine(around, (await loadSettings(around)).settings);
  if (engine) return engine;
  throw createEngineMissingError();
}

export function createEngineMissingError(): SkillError {
  return new SkillError("engine-missing", {
    message: "No engine is configured: runs are files of this machine",
    fix: "set the URL of a Postgres database",
    commands: ["skillet config set engine.url env:DATABASE_URL"],
  });
}

/** Selects the stores of the engine that replace those of this machine. */
async function openEngineStores(around: Environment, settings: Settings): Promise<Partial<CommandStores>> {
  const engine = await openCommandEngine(around, settings);
  return engine ? selectEngineStores(engine) : {};
}

/** Returns the stores of the engine, as parts of a host. */
export function selectEngineStores({ runs, approvals, openApprovals }: Engine) {
  return { runs, approvals, openApprovals };
}

/** Returns the URL of the engine's database, if one is configured. Throws a SkillError for a reference without a value. */
export function readEngineUrl(around: Environment, { engine }: Settings): string | undefined {
  return engine.url === undefined ? undefined : readEngineReference(around, "url", engine.url);
}

function readEngineReference({ skilletHome, env }: Environment, key: "url" | "seal_key", reference: string): string {
  return resolveReference(reference, { home: skilletHome, env }, (why) => {
    throw new SkillError("engine-failed", {
      message: `engine.${key} has no value: ${why}`,
      fix: `set the variable or the file that engine.${key} of config.toml names`,
    });
  });
}

/** A skills folder that contains the skill. */
export interface SkillLocation {
  scope: SkillScope;
  source: string;
  file?: string;
}

/** Returns the locations of a skill: its own first, then those of byte-identical copies. */
export async function findSkillLocations(skill: Skill, catalog: Catalog): Promise<SkillLocation[]> {
  const copies = catalog.copies(skill.name).filter((copy) => copy !== skill);
  const others = await filterAsync(copies, (copy) => isSameSkill(skill, copy, "exact"));
  return [skill, ...others].map(({ origin: { scope, source, file } }) => ({
    scope,
    source,
    ...(file === undefined ? {} : { file }),
  }));
}
