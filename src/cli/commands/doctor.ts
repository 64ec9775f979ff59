import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Argument, Option } from "commander";
import type { ModelAlias } from "../../agent/models/resolve-model.ts";
import { listAvailableSkills } from "../../agent/policy/skill-policies.ts";
import { type DiscoverResult, findUndeclaredSettings } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import { listClientViews } from "../../remote/clients/native-clients.ts";
import { findUvPrograms } from "../../sandbox/create-sandbox.ts";
import { applyNodePackages, planNodePackages } from "../../sandbox/host-tools.ts";
import { formatDisplayPath, formatHomePath, type Location } from "../../skill/source/locations.ts";
import { formatPeers, PEER_GROUPS } from "../../util/peer-packages.ts";
import { packageVersion } from "../../util/system.ts";
import { formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommandHost,
  discoverWithCapabilities,
  EXIT,
  formatExamples,
  printDiagnostic,
} from "../command-context.ts";
import { getDefaultSandbox, toConfigFileJson } from "../config-output.ts";
import { formatMcpServers, listMcpServers } from "../format.ts";
import { type CommandIo, createPrinter, type Printer, printFix, printHanging, printJson } from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { toAuditVerdictJson } from "./audit.ts";
import type { CapabilityFacts } from "./doctor-checks.ts";
import { findUntrustedCode } from "./trust-review.ts";

/** `skillet doctor`. */
export const doctorCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show the searched folders, the configuration and all problems")
      .option("--sandbox", "Test the guarantees of the sandbox")
      .addOption(new Option("--tools", "Start the configured MCP servers and list their tools").conflicts("sandbox"))
      .addOption(new Option("--fix", "Install missing programs with the system's package manager").conflicts("sandbox"))
      .option("-y, --yes", "Install without asking")
      .addHelpText(
        "after",
        formatExamples(
          "skillet doctor",
          "skillet doctor --sandbox",
          "skillet doctor --tools",
          "skillet doctor --fix",
          "skillet doctor --json",
        ),
      ),
  run: runDoctor,
};

interface DoctorOptions {
  sandbox?: boolean;
  tools?: boolean;
  fix?: boolean;
  yes?: boolean;
}

/** Shows the skill folders, the configuration, the machine and all problems. */
async function runDoctor({ io, options }: CommandContext<DoctorOptions>): Promise<number> {
  if (options.fix) return (await import("./doctor-checks.ts")).installMissingPrograms(io, options);
  const found = await discoverWithCapabilities(io, options);
  if (options.sandbox) return (await import("./sandbox-views.ts")).printSafetyReport(io, options, found);
  if (options.tools) return (await import("./doctor-checks.ts")).doctorTools(io, options, found);
  const facts = await collectDoctorFacts(io, found);
  const { models, capabilities, supply, connections, homeProblem } = facts;
  const { findRemoteSkillProblems, printCapabilityFacts, printConnectionFacts, printRemoteSkillFacts } = await import(
    "./doctor-checks.ts"
  );
  const problems = [
    ...(homeProblem === null ? [] : [homeProblem]),
    ...connections.flatMap((one) => one.problems),
    ...capabilities.problems,
    ...findRemoteSkillProblems(supply),
  ];
  const isAskable = models.every(({ problem }) => problem === undefined);
  const printMore = (out: Printer) => {
    printConnectionFacts(out, connections);
    printCapabilityFacts(out, capabilities, found);
    printRemoteSkillFacts(out, supply);
  };
  if (options.json) printJson(io.stdout, toDoctorJson(facts));
  else printDoctorFacts(io, found, facts, { printMore, problems });
  if (found.configuration.isBroken) return EXIT.usage;
  const isWrong = facts.diagnostics.some(({ severity }) => severity === "error") || problems.length > 0 || !isAskable;
  return isWrong ? EXIT.findings : EXIT.fine;
}

type DoctorFacts = Awaited<ReturnType<typeof collectDoctorFacts>>;

/** Collects what `doctor` prints. Starts the servers and hooks of connected clients. */
export async function collectDoctorFacts(io: CommandIo, found: CommandHost) {
  const { checkModelAliases } = await import("../../agent/models/resolve-model.ts");
  const { collectCapabilityFacts, collectRemoteSkillFacts, findHomeProblem, readConnectionFacts } = await import(
    "./doctor-checks.ts"
  );
  const homeProblem = findHomeProblem(found.home) ?? null;
  const models = await checkModelAliases(found);
  const capabilities = await runWithWaitIndicator(io, "checking capability providers", () =>
    collectCapabilityFacts(io, found),
  );
  const supply = await collectRemoteSkillFacts(found);
  const connections = await readConnectionFacts(io, found);
  return { ...(await collectFacts(found)), homeProblem, models, capabilities, supply, connections };
}

/** Returns the value of `doctor --json`. */
export function toDoctorJson({ capabilities, ...facts }: DoctorFacts) {
  return { ...facts, capabilities: toCapabilitiesJson(capabilities) };
}

function toCapabilitiesJson({ audit: { verdict, ...audit }, ...capabilities }: CapabilityFacts) {
  return { ...capabilities, audit: { ...audit, ...(verdict ? { verdict: toAuditVerdictJson(verdict) } : {}) } };
}

async function collectFacts(found: DiscoverResult) {
  const { catalog, around: environment, configuration } = found;
  const locations: Location[] = [...found.locations];
  const extra = configuration.settings.sources.map(({ name, path }) => ({
    scope: "user" as const,
    name,
    path,
    requiresTrust: false,
  }));
  locations.splice(
    locations.findIndex(({ scope }) => scope === "workspace"),
    0,
    ...extra,
  );
  return {
    skillet: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    executable: process.execPath,
    workspace: environment.workspace,
    home: environment.skilletHome,
    clients: listClientViews(found).map(({ id, title, skills }) => ({ id, title, skills: skills.length })),
    folders: locations.map(({ path: folder, requiresTrust: asks, skillsFolders: _, ...place }) => ({
      ...place,
      folder,
      needsTrust: asks,
      exists: existsSync(folder),
      skills: catalog.sources.find(({ name, path }) => name === place.name && path === folder)?.skills ?? 0,
    })),
    code: await collectCodeFacts(found),
    servers: listMcpServers(found),
    configuration: configuration.files.map(toConfigFileJson),
    diagnostics: [...configuration.diagnostics, ...findUndeclaredSettings(found), ...catalog.diagnostics],
  };
}

/** Collects the facts on running code: the sandbox, and skills that are not trusted yet. */
async function collectCodeFacts(found: DiscoverResult) {
  const { settings, system, around: environment } = found;
  const missing = system.missingEngine();
  const usual = getDefaultSandbox(system.platform);
  const waiting = await findUntrustedCode(found);
  return {
    level: settings.sandbox.level ?? usual.level,
    engine: settings.sandbox.engine ?? usual.engine,
    missing: missing ?? null,
    hasUv: findUvPrograms(environment.home).has("uv"),
    waitingForTrust: waiting?.skills ?? 0,
    trustCommand: waiting?.command ?? null,
    ownFolders: found.trust.own.list().map(([folder]) => folder),
  };
}

function printCodeFacts(
  out: Printer,
  {
    level,
    engine,
    missing,
    hasUv,
    waitingForTrust,
    trustCommand,
    ownFolders,
  }: Awaited<ReturnType<typeof collectCodeFacts>>,
): void {
  out.line`\n${out.bold("Code")} ${out.dim("`skillet doctor --sandbox` tests the sandbox")}`;
  if (level === "none") out.line`  ${out.red('✗ code is not isolated: level = "none" under [sandbox]')}`;
  else if (missing !== null)
    out.line`  ${out.red(`✗ ${missing} is not installed, so no code runs`)}: skillet doctor --fix`;
  else out.line`  ${level} isolation by ${engine}`;
  out.line`  uv ${hasUv ? "is installed" : "is not installed: pip fetches Python packages; `uv run` and `uvx` fail"}`;
  if (waitingForTrust > 0)
    printHanging(
      out,
      "  ",
      [`the code of ${formatCount(waitingForTrust, "skill")} is not trusted yet: ${trustCommand ?? ""}`],
      {
        indent: 2,
      },
    );
  if (ownFolders.length > 0)
    out.line`  ${formatCount(ownFolders.length, "folder")} trusted as your own: edits there keep the trust (skillet trust --list)`;
}

function printModelFacts(out: Printer, models: readonly ModelAlias[], configuration: string): void {
  out.line`\n${out.bold("Models")} ${out.dim("with their aliases")}`;
  const byModel = new Map<string, ModelAlias[]>();
  for (const alias of models) byModel.set(alias.model, [...(byModel.get(alias.model) ?? []), alias]);
  for (const [model, aliases] of byModel) {
    const isDefault = aliases.some((alias) => alias.isDefault);
    const problem = aliases.find((alias) => alias.problem)?.problem;
    const mark = problem ? out.red("✗") : isDefault ? out.green("✓") : " ";
    out.line`  ${mark} ${model}  ${out.dim(aliases.map(({ alias }) => alias).join(", "))}`;
    if (problem) {
      printHanging(out, "    ", [problem.message], { indent: 4 });
      printFix(out, problem, { indent: 4 });
    }
  }
  if (models.every(({ model }) => model === "runbook"))
    out.line`    no language model: set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama,\n    or add [models.default] to ${configuration}`;
}

function printDoctorFacts(
  io: CommandIo,
  found: DiscoverResult,
  facts: Pick<DoctorFacts, "homeProblem" | "models"> & Awaited<ReturnType<typeof collectFacts>>,
  { printMore, problems }: { printMore: (out: Printer) => void; problems: CapabilityFacts["problems"] },
): void {
  const out = createPrinter(io.stdout, io.env);
  const { around: environment } = found;
  const { folders, diagnostics } = facts;
  out.line`${out.bold("Machine")}`;
  out.line`  skillet ${facts.skillet}, Node ${facts.node} on ${facts.platform}`;
  const state = existsSync(facts.home) ? "is writable" : "is created when first needed";
  out.line`  ${formatHomePath(facts.home, environment.home)} ${out.dim(facts.homeProblem ? "is not writable: no state is saved between starts" : state)}`;
  out.line`\n${out.bold("Folders")} ${out.dim("from far to near: later ones override")}`;
  // Most machines have few clients: missing client folders are summarized in one line.
  const shown = folders.filter(({ client, exists: isThere }) => client === undefined || isThere);
  const widest = Math.max(...shown.map(({ name }) => name.length));
  for (const { scope, name, folder, exists: isThere, skills, sameAs } of shown) {
    const state =
      sameAs !== undefined ? `the same folder as ${sameAs}` : isThere ? formatCount(skills, "skill") : "not found";
    const where =
      formatDisplayPath(folder, environment) === name ? "" : `  ${formatHomePath(folder, environment.home)}`;
    const row = out.text`  ${scope.padEnd(9)}  ${name.padEnd(widest)}  ${state}${out.dim(where)}`;
    out.line`${isThere ? row : out.dim(row)}`;
  }
  const available = listAvailableSkills(found.catalog, found).length;
  const unavailable = found.catalog.skills.length - available;
  const others = unavailable === 0 ? "" : `, ${unavailable} not available: \`skillet list --all\` shows why`;
  printHanging(out, "  ", [`${formatCount(available, "skill")} in use${others}`], { indent: 2 });
  const missing = folders.length - shown.length;
  if (missing > 0)
    out.line`  ${out.dim(`${formatCount(missing, "other client folder")} not found: skillet doctor --json lists ${missing === 1 ? "it" : "them"}`)}`;
  out.line`\n${out.bold("Clients")} ${out.dim("`skillet list --by client` shows the skills that each finds itself")}`;
  for (const { title, skills } of facts.clients) {
    const line = out.text`  ${title}  ${formatCount(skills, "skill")}`;
    out.line`${skills > 0 ? line : out.dim(line)}`;
  }
  printCodeFacts(out, facts.code);
  printModelFacts(out, facts.models, formatDisplayPath(facts.configuration[0]?.file ?? "", environment));
  if (facts.servers.length > 0) {
    out.line`\n${out.bold("MCP servers")} ${out.dim("`skillet doctor --tools` starts them and lists their tools")}`;
    out.line`  ${formatMcpServers(found)}`;
  }
  printMore(out);
  out.line`\n${out.bold("Configuration")}`;
  for (const { file, exists: isThere } of facts.configuration) {
    out.line`  ${formatDisplayPath(file, environment)}  ${out.dim(isThere ? "read" : "not found")}`;
  }
  out.line`\n${out.bold("Findings")}`;
  for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, environment);
  for (const problem of problems) {
    printHanging(out, out.text`${out.red("✗")} `, [problem.message], { indent: 2, code: problem.code });
    printFix(out, problem, { indent: 4 });
  }
  const errors = problems.length + diagnostics.filter(({ severity }) => severity === "error").length;
  const findings = problems.length + diagnostics.length;
  if (findings === 0) out.line`${out.green("✓ no problems found")}`;
  else out.line`\n${formatCount(findings, "finding")}, ${formatCount(errors, "error")}`;
}

/** The sets of packages. Repeated here because every command loads this file. */
const SETUP_NAMES = ["anthropic", "openai", "openai-compatible", "mcp", "postgres"] as const;

/** `skillet setup`. */
export const setupCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Install optional packages for a program that imports skillet")
      .addArgument(new Argument("<name>", "The set of packages").choices(SETUP_NAMES))
      .option("-n, --dry-run", "Print the command without running it")
      .addHelpText("after", formatExamples("skillet setup anthropic", "skillet setup mcp --dry-run")),
  run: installOptionalPackages,
};

interface SetupOptions {
  dryRun?: boolean;
}

async function installOptionalPackages({
  io,
  options,
  args: [name = ""],
}: CommandContext<SetupOptions>): Promise<number> {
  const packages = formatPeers(PEER_GROUPS[name as keyof typeof PEER_GROUPS]).split(" ");
  const plan = planNodePackages(resolve(io.cwd, options.workspace ?? "."), packages);
  if (plan === undefined) {
    throw new SkillError("not-found", {
      message: "No package.json was found here or above: the packages are for a program that imports skillet",
      fix: "the skillet command has them built in; run this in the folder of your program",
    });
  }
  const command = plan.command.join(" ");
  const isApplied = options.dryRun !== true;
  const code = isApplied ? await applyNodePackages(plan, { ...io.env }) : 0;
  if (code !== 0) {
    throw new SkillError("install-failed", {
      message:
        code === undefined
          ? `${plan.command[0]} could not be started`
          : `${plan.command[0]} failed with exit code ${code}`,
      fix: `run it yourself in ${plan.project}: ${command}`,
    });
  }
  if (options.json) printJson(io.stdout, { folder: plan.project, command: plan.command, isDryRun: !isApplied });
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${isApplied ? out.green("✓") : out.dim("·")} ${command} ${out.dim(`(in ${plan.project})`)}`;
  }
  return EXIT.fine;
}
