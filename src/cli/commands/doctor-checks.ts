import { existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkMcpServers, type McpServerState } from "../../agent/mcp-client/mcp-servers.ts";
import { createAuditLog } from "../../capabilities/audit-log.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { formatFix, getErrorMessage, type Problem, pickProblem, SkillError } from "../../errors/problem.ts";
import type { AuditVerdict } from "../../host/capability-contract.ts";
import { createConnectionStore } from "../../remote/clients/apply-connection.ts";
import { type ConnectionCheck, checkConnections, type PartCheck } from "../../remote/clients/check-connections.ts";
import { PROMPT_HOOKS } from "../../remote/clients/prompt-hook-config.ts";
import { listUnlocked, needsTrust, verifySkill } from "../../remote/skills-dir.ts";
import { findUvPrograms } from "../../sandbox/create-sandbox.ts";
import { applyHostToolFix, detectMachine, listHostTools, planHostToolFix } from "../../sandbox/host-tools.ts";
import type { FindingWeight, ScanFinding } from "../../scan/rule.ts";
import { createScanSubject, scanSkill } from "../../scan/scan.ts";
import type { Skill } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { createFingerprintCache } from "../../store/lock-diff.ts";
import { closeMcpServers, getUserHome } from "../../util/system.ts";
import { compareText, formatCount } from "../../util/text.ts";
import {
  findProviders,
  formatVaultKey,
  listVaultEntries,
  openCommandVault,
  type ProviderState,
  printProviderState,
  readProviderState,
  readVaultKeyFacts,
  type VaultKeyFacts,
} from "../capability-providers.ts";
import { type CommandHost, EXIT } from "../command-context.ts";
import { type LockedSkillsDir, openDistinctLockedDirs } from "../locked-skills.ts";
import {
  type CommandIo,
  createPrinter,
  isConfirmed,
  type Printer,
  printHanging,
  printJson,
  runUntilInterrupted,
} from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { type ConnectionFacts, getOwnProgram, isConnected, readConnections } from "./mcp-config.ts";

export interface CapabilityFacts {
  providers: readonly ProviderState[];
  vault: VaultKeyFacts & { signedIn: number };
  /** Without a verdict if the log is too large to verify here. */
  audit: { file: string; bytes: number; verdict?: AuditVerdict; problem?: string };
  /** Providers that are not ready are not problems: they may not be needed. */
  problems: readonly Problem[];
}

/** Collects the state of the capability providers, the vault and the audit log. */
export async function collectCapabilityFacts(io: CommandIo, found: CommandHost): Promise<CapabilityFacts> {
  const asked = findProviders(found);
  const providers = await runUntilInterrupted(io, (signal) =>
    Promise.all(asked.map((provider) => readProviderState(provider, found, signal))),
  );
  const vault = openCommandVault(found);
  const kept = { ...(await readVaultKeyFacts(vault, found)), signedIn: (await listVaultEntries(vault)).length };
  const audit = await collectAuditFacts(found);
  return { providers, vault: kept, audit, problems: findCapabilityProblems(kept, audit) };
}

function findCapabilityProblems(
  { problem }: CapabilityFacts["vault"],
  audit: CapabilityFacts["audit"],
): CapabilityFacts["problems"] {
  const { verdict, problem: unreadable } = audit;
  const broken = verdict?.isWhole === false ? `the audit log is not intact: ${verdict.message}` : unreadable;
  const problems: Problem[] = [];
  if (problem !== null)
    problems.push({
      ...{ code: "vault-unreadable", message: problem },
      ...{ fix: "list its entries", commands: ["skillet auth list"] },
    });
  if (broken !== undefined)
    problems.push({
      ...{ code: "audit-unwritable", message: broken },
      ...{ fix: "see details", commands: ["skillet audit verify"] },
    });
  return problems;
}

/**
 * Returns a problem if nothing can be written to the home. Writes a small file and removes it, since permissions do not show a full
 * disk. A missing home is not created: the file is written to the nearest parent.
 */
export function findHomeProblem(home: string): Problem | undefined {
  let folder = home;
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  const file = join(folder, `.skillet-${crypto.randomUUID()}`);
  try {
    writeFileSync(file, "x".repeat(PROBE_BYTES), { flag: "wx", mode: 0o600, flush: true });
    return undefined;
  } catch (error) {
    const message = `Nothing can be written to ${folder}: ${getErrorMessage(error)}`;
    return { code: "unwritable", message, fix: "check its permissions and the free disk space" };
  } finally {
    if (existsSync(file)) rmSync(file);
  }
}

const PROBE_BYTES = 16 * 1024;

const MAX_VERIFIED_LOG_BYTES = 5 * 1024 * 1024;

async function collectAuditFacts({ home }: CommandHost): Promise<CapabilityFacts["audit"]> {
  const audit = createAuditLog(home);
  const { file } = audit;
  const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > MAX_VERIFIED_LOG_BYTES) return { file, bytes };
  try {
    return { file, bytes, verdict: await audit.verify() };
  } catch (error) {
    if (error instanceof SkillError) return { file, bytes, problem: error.message };
    throw error;
  }
}

export function printCapabilityFacts(
  out: Printer,
  { providers, vault, audit }: CapabilityFacts,
  { around: environment }: CommandHost,
): void {
  out.line`\n${out.bold("Capabilities")} ${out.dim("`skillet capability list` shows their operations and skills")}`;
  for (const provider of providers) printProviderState(out, provider, "  ");
  if (providers.length === 0) out.line`  no provider is configured: add [capabilities.providers.NAME] to config.toml`;
  const file = formatDisplayPath(vault.file, environment);
  if (vault.problem !== null) out.line`  ${out.red("✗")} ${file}  cannot be used`;
  else if (vault.key !== null && (vault.signedIn > 0 || providers.length > 0)) {
    const text = `${formatCount(vault.signedIn, "sign-in")}, ${formatVaultKey(vault)}`;
    printHanging(out, out.text`  ${file}  `, [text], { indent: file.length + 4, paint: out.dim });
  }
  printAuditFacts(out, audit, formatDisplayPath(audit.file, environment));
}

function printAuditFacts(out: Printer, { bytes, verdict, problem }: CapabilityFacts["audit"], file: string): void {
  if (problem !== undefined) out.line`  ${out.red("✗")} ${file}  cannot be used`;
  else if (verdict?.isWhole === false) out.line`  ${out.red("✗")} ${file}  is not intact`;
  else if (verdict && verdict.lines > 0)
    out.line`  ${file}  ${out.dim(`${formatCount(verdict.lines, "line")}, intact`)}`;
  else if (!verdict)
    out.line`  ${file}  ${out.dim(`${Math.round(bytes / 1024 / 1024)} MiB, not verified: skillet audit verify`)}`;
}

/** A connected client, with the results of starting its server and its hook. */
export interface CheckedClient {
  client: string;
  title: string;
  scope: string;
  server: PartCheck | null;
  hook: PartCheck | null;
  problems: Problem[];
}

/** Reads the configuration of each client and starts its server and its hook. */
export async function readConnectionFacts(
  io: CommandIo,
  { around: commandEnvironment }: DiscoverResult,
): Promise<CheckedClient[]> {
  const environment = { ...commandEnvironment, env: io.env, platform: process.platform };
  const all = await readConnections(environment, createConnectionStore(commandEnvironment.skilletHome).entries());
  const facts = all.filter(
    ({ isFound, state }) => isConnected(state) || (isFound && findConnectionProblem(state) !== undefined),
  );
  if (facts.length === 0) return [];
  const context = { environment, skilletHome: commandEnvironment.skilletHome, program: getOwnProgram() };
  const checks = await runWithWaitIndicator(io, "starting the servers and hooks of clients", () =>
    runUntilInterrupted(io, (signal) => checkConnections(facts, { ...context, signal })),
  );
  return facts.map((fact, at) => createCheckedClient(fact, checks[at]));
}

function createCheckedClient({ client, title, scope, state }: ConnectionFacts, check?: ConnectionCheck): CheckedClient {
  const command = `skillet connect ${client}${scope === "project" ? " --project" : ""}`;
  const problems: CheckedClient["problems"] = [];
  const broken = findConnectionProblem(state);
  if (broken) problems.push(pickProblem(broken));
  const report = (what: string, part: PartCheck | undefined) => {
    if (part?.state !== "fails") return;
    const message = `${title} is connected, but its ${what} does not work: ${part.detail}`;
    problems.push({ code: "connection-broken", message, fix: "Run", commands: [command] });
  };
  report("server", check?.server);
  // A hook that calls the server fails with it: one problem is reported.
  if (check?.server?.state !== "fails" || !isToolHook(state)) report("prompt hook", check?.hook);
  return { client, title, scope, server: check?.server ?? null, hook: check?.hook ?? null, problems };
}

function isToolHook({ hook }: ConnectionFacts["state"]): boolean {
  return Object(hook?.handler)["type"] === "mcp_tool";
}

function findConnectionProblem({ server, hook }: ConnectionFacts["state"]) {
  return server.problem ?? hook?.problem;
}

export function printConnectionFacts(out: Printer, clients: readonly CheckedClient[]): void {
  out.line`\n${out.bold("Connections")} ${out.dim("`skillet connect` lists the clients on this machine")}`;
  if (clients.length === 0) out.line`  ${out.dim("no client is connected")}`;
  for (const { client, title, scope, server, hook, problems } of clients) {
    const mark = problems.length > 0 ? out.red("✗") : out.green("✓");
    const hint = hook === null && PROMPT_HOOKS[client] !== undefined ? "no prompt hook" : undefined;
    const parts = [
      server && `server: ${formatPartCheck(server)}`,
      hook ? `prompt hook: ${formatPartCheck(hook)}` : hint,
    ];
    out.line`  ${mark} ${title}${scope === "project" ? " (this project)" : ""}  ${parts.filter(Boolean).join("; ")}`;
  }
}

function formatPartCheck({ state, detail }: PartCheck): string {
  return state === "fails" ? "fails" : state === "untried" ? `not tried: ${detail}` : detail;
}

/** The added skills, and the scan findings of all skills that are not bundled. */
export interface RemoteSkillFacts {
  added: number;
  /** Names of skills that differ from their lock file, or are not in it. */
  lockMismatches: readonly string[];
  scanned: number;
  /** The number of skills beyond the limit. */
  unscanned: number;
  findings: Readonly<Record<FindingWeight, number>>;
  /** Names of skills with findings of high severity. */
  flagged: readonly string[];
}

// Scanning takes about half a millisecond per skill, and doctor is interactive.
const MAX_SCANNED = 1000;

export async function collectRemoteSkillFacts(found: DiscoverResult): Promise<RemoteSkillFacts> {
  const stamps = createFingerprintCache(found.home);
  const places = openAllLockedDirs(found);
  const lockMismatches = places.flatMap(({ skillsDir, skills }) => [
    ...skills
      .filter(([name, entry]) => verifySkill(skillsDir, name, entry, stamps).is !== "unchanged")
      .map(([name]) => name),
    ...(needsTrust(skillsDir) ? [] : listUnlocked(skillsDir, new Set(skills.map(([name]) => name)))),
  ]);
  const foreign = found.catalog.skills.filter(({ origin }) => origin.file !== undefined && origin.scope !== "bundled");
  const findings = { high: 0, medium: 0, low: 0 };
  const flagged: string[] = [];
  for (const skill of foreign.slice(0, MAX_SCANNED)) {
    const found = await scanForFindings(skill);
    for (const { weight } of found) findings[weight]++;
    if (found.some(({ weight }) => weight === "high")) flagged.push(skill.name);
  }
  return {
    added: places.reduce((sum, { skills }) => sum + skills.length, 0),
    lockMismatches: lockMismatches.sort(compareText),
    scanned: Math.min(foreign.length, MAX_SCANNED),
    unscanned: Math.max(0, foreign.length - MAX_SCANNED),
    findings,
    flagged: flagged.sort(compareText),
  };
}

function openAllLockedDirs({ around: environment }: DiscoverResult): LockedSkillsDir[] {
  const levels = ["user", "project"] as const;
  return levels.flatMap((level) => {
    try {
      return openDistinctLockedDirs(environment, [level]);
    } catch (error) {
      if (error instanceof SkillError) return []; // It is reported as a finding.
      throw error;
    }
  });
}

async function scanForFindings(skill: Skill): Promise<readonly ScanFinding[]> {
  try {
    return scanSkill(createScanSubject(skill, await copySkill(skill)));
  } catch (error) {
    if (error instanceof SkillError) return []; // Unreadable skills are reported as findings.
    throw error;
  }
}

/** Returns the problems that make doctor exit with findings. Scan findings are advisory and do not. */
export function findRemoteSkillProblems({ lockMismatches }: RemoteSkillFacts): Problem[] {
  if (lockMismatches.length === 0) return [];
  const message = `different from ${lockMismatches.length === 1 ? "its lock file" : "their lock files"}: ${formatFewNames(lockMismatches)}`;
  return [{ code: "lock-mismatch", message, fix: "see the differences", commands: ["skillet verify"] }];
}

export function printRemoteSkillFacts(out: Printer, facts: RemoteSkillFacts): void {
  const { added, scanned, unscanned, findings, flagged } = facts;
  out.line`\n${out.bold("Remote skills")} ${out.dim("`skillet list --installed` lists the added skills")}`;
  out.line`  ${added === 0 ? "no skills were added" : `${formatCount(added, "skill")} added`}`;
  if (scanned === 0) return;
  const counts = Object.entries(findings).flatMap(([weight, number]) => (number > 0 ? `${number} ${weight}` : []));
  const rest = unscanned > 0 ? `, ${unscanned} more not scanned` : "";
  out.line`  ${formatCount(scanned, "skill")} scanned${rest}: ${counts.length > 0 ? counts.join(", ") : "no findings, which proves nothing"}`;
  if (flagged.length > 0)
    out.line`  ${out.yellow(`! review ${formatFewNames(flagged)}`)}: skillet scan ${flagged[0] ?? ""}`;
}

function formatFewNames(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
}

/** Starts the configured MCP servers and prints their state. */
export async function doctorTools(io: CommandIo, { json }: { json?: boolean }, found: DiscoverResult): Promise<number> {
  const servers = await runWithWaitIndicator(io, "starting MCP servers", () =>
    runUntilInterrupted(io, () => checkMcpServers(found)),
  );
  await closeMcpServers();
  if (json) printJson(io.stdout, { servers });
  else printMcpServers(io, servers);
  return servers.some(hasServerFailed) ? EXIT.findings : EXIT.fine;
}

function printMcpServers(io: CommandIo, servers: readonly McpServerState[]): void {
  const out = createPrinter(io.stdout, io.env);
  out.line`${out.bold("MCP servers")} ${out.dim("[tools.mcp.NAME] in config.toml")}`;
  if (servers.length === 0) out.line`  none configured`;
  for (const server of servers) {
    const { name, where, isEnabled, tools, problems } = server;
    const mark = !isEnabled ? " " : hasServerFailed(server) ? out.red("✗") : out.green("✓");
    const state = isEnabled ? formatCount(tools.length, "tool") : "disabled";
    out.line`  ${mark} ${name}  ${state}  ${out.dim(where)}`;
    if (tools.length > 0) out.line`    ${tools.join(", ")}`;
    for (const problem of problems) out.line`    ${problem.message}\n      ${formatFix(problem)}`;
  }
}

function hasServerFailed({ isEnabled, tools, problems }: McpServerState): boolean {
  return isEnabled && tools.length === 0 && problems.length > 0;
}

/** Installs missing programs after showing the commands and asking. */
export async function installMissingPrograms(
  io: CommandIo,
  { yes = false, json = false }: { yes?: boolean; json?: boolean },
): Promise<number> {
  const error = createPrinter(io.stderr, io.env);
  if (process.platform !== "linux") {
    error.line`nothing to install here: code runs in ${process.platform === "darwin" ? "the macOS sandbox" : "a container"}`;
    if (json) printJson(io.stdout, { installed: [], missing: [], failed: null, userWithoutRange: null });
    return EXIT.fine;
  }
  const missing = listHostTools().filter(({ path }) => path === undefined);
  const { commands, left } = planHostToolFix(listHostTools(), detectMachine());
  for (const { tool } of missing) error.line`${error.yellow("!")} ${tool.program} is missing: it ${tool.purpose}`;
  // No package manager provides it.
  if (!findUvPrograms(getUserHome(io.env)).has("uv"))
    error.line`${error.dim("·")} uv is not installed: uv run and uvx need it (https://docs.astral.sh/uv)`;
  for (const command of commands) error.line`  ${error.cyan(command.join(" "))}`;
  if (commands.length > 0 && !yes && !(await isConfirmed(io, "Run these commands?"))) {
    throw new SkillError("not-confirmed", {
      message: "nothing was installed",
      fix: "run the commands above, or",
      commands: ["skillet doctor --fix --yes"],
    });
  }
  const failed = await applyHostToolFix(commands, (line) => error.line`${error.dim(line)}`);
  const still = listHostTools().flatMap(({ tool, path }) => (path === undefined ? [tool.program] : []));
  const user = detectMachine().userWithoutRange;
  if (json)
    printJson(io.stdout, {
      installed: missing.map(({ tool }) => tool.program).filter((name) => !still.includes(name)),
      missing: still,
      failed: failed ?? null,
      userWithoutRange: user ?? null,
    });
  const hint = left.length > 0 ? "; install it with your system's package manager, as root" : "";
  const failures = [
    ...(failed ? [`this command failed: ${failed.join(" ")}`] : []),
    ...(still.length > 0 ? [`still missing: ${still.join(", ")}${hint}`] : []),
    ...(user === undefined ? [] : [formatSubIdCommand(user)]),
  ];
  for (const message of failures)
    printHanging(error, error.text`${error.red("✗")} `, [message], { indent: 2, code: "install-failed" });
  if (failures.length > 0) return EXIT.findings;
  error.line`${error.green("✓")} everything needed for sandboxes and packages is installed`;
  return EXIT.fine;
}

function formatSubIdCommand(user: string | number): string {
  return typeof user === "number"
    ? `user ${user} has no name, so it cannot have a range of ids: build packages as root`
    : `user ${user} has no range of ids in /etc/subuid and /etc/subgid: add one as root with usermod, or build packages as root`;
}
