import { existsSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import type { Command } from "commander";
import type { Engine } from "../adapters/postgres/engine.ts";
import type { Catalog } from "../catalog/catalog.ts";
import {
  type DiscoverOptions,
  type DiscoverResult,
  discover,
  openOnCall,
  resolveEnvironment,
} from "../config/discover.ts";
import { loadSettings, resolveReference, type Settings } from "../config/settings.ts";
import { SkillError } from "../errors/problem.ts";
import type { Caller } from "../host/approval.ts";
import type { Audit, AuditLine, Capabilities, Vault } from "../host/capability-contract.ts";
import { NATIVE_CLIENT_NAMES } from "../skill/clients.ts";
import type { Diagnostic, Skill, SkillScope } from "../skill/skill.ts";
import { type Environment, formatDisplayPath } from "../skill/source/locations.ts";
import { isSameSkill } from "../skill/source/skill-copy.ts";
import type { ApprovalStore } from "../store/approvals.ts";
import type { RunStore } from "../store/runs.ts";
import type { StatisticsStore } from "../store/statistics.ts";
import { filterAsync } from "../util/async.ts";
import { truncateLine } from "../util/text.ts";
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

/** The stores that several machines share, if an engine is configured. */
interface SharedStores extends Partial<Pick<Engine, "openApprovals" | "mailbox" | "tokens" | "database">> {
  audit?: Audit;
  vault?: Vault;
}

/** The discovery result with the capability providers. */
export interface CommandHost extends DiscoverResult, SharedStores {
  capabilities: Capabilities;
}

/** Discovers for commands that need capabilities: only these load them. */
export async function discoverWithCapabilities(
  io: CommandIo,
  options: CommonOptions & CallerOptions,
): Promise<CommandHost> {
  const found = await discoverForCommand(io, options, { remote: "soon" });
  return attachCapabilities({ ...found, ...openLazyStores(found.around, found.settings) });
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
  const value = options.workspace ?? io.env["AGENT_WORKSPACE_ROOT"];
  const workspace = resolve(io.cwd, value || ".");
  if (!existsSync(workspace)) {
    const message = `The workspace ${workspace} does not exist`;
    throw new SkillError("workspace-missing", { message, fix: getWorkspaceFix(options, value) });
  }
  return workspace;
}

function getWorkspaceFix(options: CommonOptions, value: string | undefined): string {
  if (options.workspace !== undefined) return "check --workspace";
  return value ? "fix or unset AGENT_WORKSPACE_ROOT" : "change to an existing folder";
}

/** Formats a folder for display. */
export function formatSkillsFolder(path: string, environment: Environment): string {
  const shown = formatDisplayPath(path, environment);
  return shown === "." ? "this workspace" : shown;
}

/** Prints a diagnostic: `skills/x/SKILL.md:3:1 message  [yaml-syntax]`, then the fix. */
export function printDiagnostic(out: Printer, diagnostic: Diagnostic, environment: Environment): void {
  const { severity, code, line: row, column, message } = diagnostic;
  const mark: SafeText = severity === "error" ? out.red("✗") : severity === "warning" ? out.yellow("!") : out.dim("·");
  const position = row === undefined ? "" : `:${row}${column === undefined ? "" : `:${column}`}`;
  const text = `${formatDisplayPath(diagnostic.file, environment)}${position} ${message}`;
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
export interface CommandStores extends SharedStores {
  runs: RunStore;
  approvals: ApprovalStore;
  statistics: StatisticsStore;
}

/** Opens the stores of the caller. No skills are discovered. */
export async function openCommandStores(io: CommandIo, options: CommonOptions): Promise<CommandStores> {
  const environment = resolveCommandEnvironment(io, options);
  const { settings } = await loadSettings(environment);
  const { skilletHome } = environment;
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
  return { ...local, ...(await openEngineStores(environment, settings)) };
}

/** Opens the caller's runs. No skills are discovered. */
export async function openCommandRuns(io: CommandIo, options: CommonOptions): Promise<RunStore> {
  return (await openCommandStores(io, options)).runs;
}

/** Opens the database of the engine. Returns undefined if none is configured. */
export async function openCommandEngine(environment: Environment, settings: Settings): Promise<Engine | undefined> {
  const url = readEngineUrl(environment, settings);
  if (url === undefined) return undefined;
  const [{ openEngine }, { createPostgresProviderLimit }, { shareProviderLimits }] = await Promise.all([
    import("../adapters/postgres/engine.ts"),
    import("../adapters/postgres/postgres-stores.ts"),
    import("../agent/models/model-providers.ts"),
  ]);
  const { leaseSeconds, outageSeconds, sealKey } = settings.engine;
  const engine = await openEngine({
    ...{ url, leaseSeconds, outageSeconds },
    sealKey: sealKey === undefined ? undefined : readEngineReference(environment, "seal_key", sealKey),
  });
  shareProviderLimits((account, local) => createPostgresProviderLimit(engine.database, account, local));
  return engine;
}

/** Opens the database of the engine. Throws a SkillError if none is configured. */
export async function requireCommandEngine(io: CommandIo, options: CommonOptions): Promise<Engine> {
  const environment = resolveCommandEnvironment(io, options);
  const engine = await openCommandEngine(environment, (await loadSettings(environment)).settings);
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
async function openEngineStores(environment: Environment, settings: Settings): Promise<Partial<CommandStores>> {
  const engine = await openCommandEngine(environment, settings);
  return engine ? selectEngineStores(engine) : {};
}

/** Returns stores of the engine that connect to the database when they are first used: most commands only list what is here. */
function openLazyStores(environment: Environment, settings: Settings): { audit?: Audit; vault?: Vault } {
  if (settings.engine.url === undefined) return {};
  let opening: Promise<Engine> | undefined;
  const open = async (): Promise<Engine> => {
    opening ??= openCommandEngine(environment, settings) as Promise<Engine>;
    return opening;
  };
  return {
    vault: openOnCall(async () => (await open()).vault),
    audit: {
      add: async (entry) => (await open()).audit.add(entry),
      read: () => readFrom(open),
      verify: async () => (await open()).audit.verify(),
    },
  };
}

async function* readFrom(open: () => Promise<Engine>): AsyncGenerator<AuditLine> {
  yield* (await open()).audit.read();
}

/** Returns the stores of the engine, as parts of a host. */
export function selectEngineStores({
  runs,
  approvals,
  openApprovals,
  statistics,
  audit,
  vault,
  mailbox,
  tokens,
  database,
}: Engine) {
  return { runs, approvals, openApprovals, statistics, audit, vault, mailbox, tokens, database };
}

/** Returns the URL of the engine's database, if one is configured. Throws a SkillError for a reference without a value. */
export function readEngineUrl(environment: Environment, { engine }: Settings): string | undefined {
  return engine.url === undefined ? undefined : readEngineReference(environment, "url", engine.url);
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

/** Options that every command takes. */
export interface CommonOptions {
  workspace?: string;
  json?: boolean;
}
export interface CommandContext<Options> {
  io: CommandIo;
  options: Options & CommonOptions;
  args: string[];
}
type CommandHandler = (context: CommandContext<never>) => Promise<number>;
export interface CommandDefinition {
  define(command: Command): Command;
  run?: CommandHandler;
  commands?: Record<string, CommandDefinition>;
  /** Text added to the hint for a wrong option. */
  afterError?: string;
}

/** The exit codes of all commands. 130 is the shell's code for a program ended by Ctrl-C. */
export const EXIT = { fine: 0, findings: 1, usage: 2, refused: 3, limit: 4, waiting: 5, interrupted: 130 } as const;

/** A failure already printed in detail for people. `--json` reports it like any other. */
export class ReportedError extends SkillError {}

/** The reason why the user cannot be asked, in every message. */
export const NOT_A_TERMINAL = "this is not a terminal";

/** Returns the error for a missing approval. `fix`: the step for non-interactive use. */
export function createNotApprovedError(
  { ask }: Pick<CommandIo, "ask">,
  message: string,
  fix: string,
  commands?: string[],
): SkillError {
  return ask
    ? new SkillError("not-confirmed", { message })
    : new SkillError("not-confirmed", {
        message: `${message}: ${NOT_A_TERMINAL}`,
        fix,
        ...(commands ? { commands } : {}),
      });
}

/** Formats the examples at the end of a command's help. */
export function formatExamples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}

/** Adds the options of all commands that run skills. */
export function addRunOptions(command: Command): Command {
  return addRunOutputOptions(
    command
      .option("-m, --model <alias>", "Use this model: a configured alias, `provider/model`, or `runbook`")
      .option("--timeout <seconds>", "Stop after this time and return the partial result")
      .option("--budget <tokens>", "Stop after this many tokens and return the partial result")
      .option("--max-iterations <number>", "Limit the number of model calls")
      .option("--chat-type <type>", "Run on behalf of this type of chat. Defaults to private.")
      .option("--chat-id <id>", "Run on behalf of the chat with this id. Defaults to terminal."),
  );
}

/** Adds the options of all commands that show a run. */
export function addRunOutputOptions(command: Command): Command {
  return command
    .option("-y, --yes", "Approve changes inside the workspace in advance")
    .option("--no-wait", "Deny requests that need an approval instead of waiting")
    .option("--events", "Print events as JSON Lines")
    .option("--show-secrets", "Show the values of skill variables in the answer")
    .option("-q, --quiet", "Print only the answer");
}

export const PROJECT_HELP = "Use .agents/skills of this workspace instead of your user folder";

export const ALLOW_PRIVATE_HELP = "Also fetch from private addresses named by the source";

/** Other targets of `skillet export --to`, with their formats. */
export const FILE_TARGETS = { zip: "skill-zip", plugin: "agent-plugin" } as const;
export const EXPORT_TARGETS: readonly string[] = [...NATIVE_CLIENT_NAMES, ...Object.keys(FILE_TARGETS)];

/** The values of `--since`, for help texts. */
export const SINCE_HELP = "7d, 24h, 30m, 2w, or a date such as 2026-11-01";

const SINCE_UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Parses `7d`, `24h`, or a date. A date without a time starts at midnight, local time. */
export function parseSince(text: string, now = new Date()): Date {
  const [, number, unit] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  if (number !== undefined && unit !== undefined)
    return new Date(now.getTime() - Number(number) * (SINCE_UNITS[unit] ?? 0));
  const [, day = ""] = /^(\d{4}-\d\d-\d\d)(?:T[\d:.]{5,12}(?:Z|[+-]\d\d:\d\d)?)?$/.exec(text) ?? [];
  const date = new Date(text === day ? `${day}T00:00` : text);
  if (isCalendarDay(day) && !Number.isNaN(date.getTime())) return date;
  throw new SkillError("usage", {
    message: `--since takes a time, not "${truncateLine(text, 40)}"`,
    fix: "for example --since 7d, --since 24h or --since 2026-11-01",
  });
}

/** Parses a duration such as `12h` or `30d` into milliseconds. */
export function parseDuration(option: string, text: string): number {
  const [, number, unit = ""] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  if (Number(number) > 0) return Number(number) * (SINCE_UNITS[unit] ?? 0);
  throw new SkillError("usage", {
    message: `${option} takes a duration, not "${truncateLine(text, 40)}"`,
    fix: `for example ${option} 12h or ${option} 30d`,
  });
}

/** Rejects dates such as the 31st of February, which `Date` takes for the 3rd of March. */
function isCalendarDay(day: string): boolean {
  const start = new Date(`${day}T00:00Z`);
  return !Number.isNaN(start.getTime()) && start.toISOString().startsWith(day);
}
