import { existsSync, realpathSync } from "node:fs";
import { relative, resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { Option } from "commander";
import { loadCatalog } from "../../catalog/catalog.ts";
import { loadSettings } from "../../config/settings.ts";
import { FINDING_CODES, type FindingCode } from "../../errors/finding-codes.ts";
import { formatFix, SkillError } from "../../errors/problem.ts";
import type { Manifest } from "../../skill/manifest.ts";
import { type Diagnostic, diagnose, PROFILES, type Profile, type Severity } from "../../skill/skill.ts";
import { type CheckedFile, type CheckResult, checkPaths } from "../../skill/source/check-skills.ts";
import { createDirectorySource } from "../../skill/source/directory-source.ts";
import { type Environment, formatDisplayPath, type Location, listLocations } from "../../skill/source/locations.ts";
import { findSkillsOfFiles } from "../../skill/source/watch-folders.ts";
import { isInside } from "../../util/safe-path.ts";
import { packageVersion } from "../../util/system.ts";
import { findNearest, formatCount } from "../../util/text.ts";
import { escapeLine } from "../../util/untrusted-text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  discoverForCommand,
  EXIT,
  formatExamples,
  printDiagnostic,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, type Printer, printDiff, printJson } from "../output.ts";
import { runWithWaitIndicator } from "../progress.ts";
import { listCommand } from "./list.ts";

/** `skillet check`. */
export const checkCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Check skills and report problems with their location and fix")
      .argument(
        "[path...]",
        "Skill folders, skill files, folders of skills, or names. Defaults to the workspace's skills.",
      )
      .addOption(new Option("-p, --profile <name>", "Check against this profile").choices(PROFILES).default("load"))
      .addOption(
        new Option("-f, --format <name>", "Print the findings in this format")
          .choices(["text", "json", "sarif", "github"])
          .default("text")
          .conflicts("json"),
      )
      .option("--fix", "Fix problems in place that do not affect the content, and show each change")
      .addOption(new Option("-n, --dry-run", "Show the changes of --fix without applying them").implies({ fix: true }))
      .option("--rename <key,...>", "With --fix: also rename these misspelled keys")
      .option("--strict", "Treat warnings as errors")
      .option("--overlap", "Also find pairs of skills that compete. Without paths, among all skills that were found.")
      .option("--changed", "Check only the skills that contain the given files")
      .addHelpText(
        "after",
        formatExamples(
          "skillet check skills/deploy",
          "skillet check skills --profile agentskills",
          "skillet check skills --fix --dry-run",
          "skillet check --fix --rename alowed_tools skills",
          "skillet check skills --overlap",
          "skillet check --format sarif > skills.sarif",
          "git diff --name-only main | xargs skillet check --changed",
        ),
      ),
  run: checkSkills,
};

interface CheckOptions {
  profile?: Profile;
  format?: "text" | "json" | "sarif" | "github";
  fix?: boolean;
  dryRun?: boolean;
  rename?: string;
  strict?: boolean;
  overlap?: boolean;
  changed?: boolean;
}

async function checkSkills({ io, options, args }: CommandContext<CheckOptions>): Promise<number> {
  const { profile = "load", fix = false, dryRun = false, strict = false } = options;
  const rename = (options.rename ?? "").split(",").flatMap((key) => key.trim() || []);
  if (rename.length > 0 && !fix) {
    throw new SkillError("usage", {
      message: "--rename needs --fix",
      fix: "add --fix, or --fix --dry-run to see the changes first",
    });
  }
  const format = options.json ? "json" : (options.format ?? "text");
  const environment = resolveCommandEnvironment(io, options);
  const paths = distinctPaths(await resolveCheckPaths(io, options, args));
  const skillsFolders = await listDiscoveryFolders(environment);
  let namesTools = false;
  const onManifest = ({ tools }: Manifest) => {
    namesTools ||= tools.allowed.length > 0 || tools.required.length > 0;
  };
  const checked = await runWithWaitIndicator(io, "checking", ({ at }) => {
    const onChecked = (done: number, path: string) =>
      at(`checking ${formatDisplayPath(path, environment)}: ${formatCount(done, "skill")}`);
    return checkPaths(paths, { profile, fix, dryRun, rename, skillsFolders, onChecked, onManifest });
  });
  const { files } = checked;
  if (format === "text" && namesTools) await printMissingTools(io, paths, environment);
  const result = options.overlap
    ? { ...checked, diagnostics: [...checked.diagnostics, ...(await diagnoseOverlaps(io, options, { args, paths }))] }
    : checked;
  const diagnostics = [...result.diagnostics, ...files.flatMap((file) => file.diagnostics)];
  const shown = { ...environment, workspace: io.cwd };
  if (format === "json") printJson(io.stdout, { profile, isDryRun: dryRun, files, diagnostics });
  else if (format === "text") printCheckResult(io, result, { environment: shown, isDryRun: dryRun });
  else {
    // Stdout has a machine-readable format: the changes are printed to stderr.
    for (const file of files)
      printChange(createPrinter(io.stderr, io.env), file, { environment: shown, isDryRun: dryRun });
    if (format === "sarif")
      printJson(io.stdout, formatDiagnosticsSarif(diagnostics, resolveReportRoot(io.env, environment.workspace)));
    else io.stdout.write(formatGithubAnnotations(diagnostics, resolveReportRoot(io.env, environment.workspace)));
  }
  if (files.length === 0 && diagnostics.length === 0) {
    const where = args.length > 0 ? args.join(", ") : "this workspace";
    const error = createPrinter(io.stderr, io.env);
    if (options.changed) error.line`none of these files is part of a skill`;
    else error.line`no skills in ${where}: create one with \`skillet new NAME\``;
    if (!options.changed && args.length > 0)
      error.line`A single .md or .yaml file counts as a skill only in a folder named skills, or if you name the file.`;
  }
  const failing: readonly Severity[] = strict ? ["error", "warning"] : ["error"];
  return diagnostics.some(({ severity }) => failing.includes(severity)) ? EXIT.findings : EXIT.fine;
}

/** Reports pairs of skills that compete: those below the paths, or all that were found. */
async function diagnoseOverlaps(
  io: CommandIo,
  options: CheckOptions & CommonOptions,
  { args, paths }: { args: readonly string[]; paths: readonly string[] },
): Promise<Diagnostic[]> {
  const { findOverlaps } = await import("../../catalog/overlap.ts");
  const sources = paths.map((path) => createDirectorySource({ path, scope: "workspace" }));
  const { skills } = args.length === 0 ? (await discoverForCommand(io, options)).catalog : await loadCatalog(sources);
  const overlaps = await runWithWaitIndicator(io, "comparing descriptions", () => findOverlaps(skills));
  return overlaps.flatMap(({ narrow, other, similarity, words, own, taken }) => {
    const list = (all: readonly string[]) => all.slice(0, 5).join(", ");
    const queries =
      taken.queries === 0
        ? ""
        : `; it also matches ${taken.queries} of the ${formatCount(taken.of, "query", "queries")} of '${other.name}'`;
    const message = `'${narrow.name}' competes with '${other.name}' (similarity ${similarity.toFixed(2)}): both are about ${list(words)}${queries}`;
    const fix =
      own.length === 0
        ? `merge it with '${other.name}', or say what only '${narrow.name}' does`
        : `narrow the description of '${narrow.name}' to what only it does (${list(own)}), or merge the two`;
    const data = { other: other.name, similarity, words };
    const { file = narrow.name } = narrow.origin;
    return diagnose([{ code: "description-overlap", message, fix, data }], file, options.profile);
  });
}

/** Warns about tools that no run of these skills would have here, as a run does. */
async function printMissingTools(io: CommandIo, paths: readonly string[], environment: Environment): Promise<void> {
  const { settings } = await loadSettings(environment);
  const { warnMissingTools } = await import("../../agent/run/tool-policy.ts");
  const { requiredToolPolicy } = await import("../../agent/policy/skill-policies.ts");
  const error = createPrinter(io.stderr, io.env);
  for (const path of paths) {
    const { skills } = await createDirectorySource({ path, scope: "workspace" }).load();
    for (const skill of skills) {
      for (const problem of [
        requiredToolPolicy(skill, { settings }) ?? [],
        await warnMissingTools(skill, { settings }),
      ].flat()) {
        error.line`${error.yellow("!")} ${problem.message}`;
        error.line`  ${formatFix(problem)}`;
      }
    }
  }
}

/** Lists the folders that discovery reads, including configured ones. */
export async function listDiscoveryFolders(environment: Environment): Promise<string[]> {
  const { settings } = await loadSettings(environment);
  const places = [
    ...listLocations(environment),
    ...settings.sources.map(({ path }): Pick<Location, "path" | "skillsFolders"> => ({ path })),
  ];
  return places.flatMap(({ path, skillsFolders = [path] }) => skillsFolders);
}

async function resolveCheckPaths(
  io: CommandIo,
  options: CheckOptions & CommonOptions,
  args: readonly string[],
): Promise<string[]> {
  const environment = resolveCommandEnvironment(io, options);
  if (options.changed) {
    const files = args.map((arg) => resolve(io.cwd, arg));
    return findSkillsOfFiles(files, { workspace: environment.workspace, places: listWorkspaceFolders(environment) });
  }
  return args.length > 0 ? resolveNamedPaths(io, options, args) : listWorkspaceFolders(environment);
}

/** Resolves arguments: existing paths, or else names of skills, also `name@source`. */
export async function resolveNamedPaths(
  io: CommandIo,
  options: CommonOptions,
  args: readonly string[],
): Promise<string[]> {
  const paths = args.map((arg) => resolve(io.cwd, arg));
  if (paths.every((path) => existsSync(path))) return paths;
  const { catalog } = await discoverForCommand(io, options);
  return args.map((arg, index) => {
    const path = paths[index] ?? arg;
    const skill = existsSync(path) ? undefined : catalog.find(arg);
    if (!skill && !existsSync(path)) throw createMissingPathError(arg, catalog.names());
    return skill?.origin.folder ?? skill?.origin.file ?? path;
  });
}

function createMissingPathError(arg: string, names: readonly string[]): SkillError {
  const meant = findNearest(arg, names);
  return new SkillError("not-found", {
    message: `"${arg}" is neither a path nor the name of a skill`,
    ...(meant
      ? { fix: `did you mean the skill "${meant}"?` }
      : { fix: "check the path, or list the names", commands: ["skillet list"] }),
  });
}

/** Removes paths that resolve to the same folder. */
export function distinctPaths(paths: readonly string[]): string[] {
  const real = (path: string) => {
    try {
      return realpathSync.native(path);
    } catch {
      return path;
    }
  };
  return [...new Map(paths.map((path) => [real(path), path])).values()];
}

export function listWorkspaceFolders(environment: Environment): string[] {
  return listLocations(environment)
    .filter(({ scope, path }) => scope === "workspace" && existsSync(path))
    .map(({ path }) => path);
}

interface PrintCheckOptions {
  environment: Environment;
  isDryRun: boolean;
}

function printCheckResult(
  io: CommandIo,
  { profile, files, diagnostics }: CheckResult,
  options: PrintCheckOptions,
): void {
  const { environment, isDryRun } = options;
  const out = createPrinter(io.stdout, io.env);
  const totals: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  const print = (all: readonly Diagnostic[]) => {
    for (const diagnostic of all) {
      totals[diagnostic.severity]++;
      printDiagnostic(out, diagnostic, environment);
    }
  };
  print(diagnostics);
  for (const file of files) {
    if (file.fixed.length > 0) printChange(out, file, options);
    else if (file.diagnostics.length === 0) out.line`${out.green("✓")} ${formatDisplayPath(file.file, environment)}`;
    print(file.diagnostics);
  }
  if (files.length === 0 && totals.error + totals.warning + totals.info === 0) return;
  out.line`\n${formatCount(files.length, "skill")}: ${formatCount(totals.error, "error")}, ${formatCount(totals.warning, "warning")}, ${formatCount(totals.info, "hint")} ${out.dim(`(profile ${profile})`)}`;
  const fixed = files.filter((file) => file.fixed.length > 0).length;
  if (fixed > 0 && isDryRun) out.line`${formatCount(fixed, "file")} would be fixed; nothing was written`;
  else if (fixed > 0) out.line`${formatCount(fixed, "file")} fixed`;
}

const MAX_CHANGE_LINES = 80;

/** Prints the fixes of a file as a diff. */
function printChange(
  out: Printer,
  { file, fixed, diff, target }: CheckedFile,
  { environment, isDryRun }: PrintCheckOptions,
): void {
  if (fixed.length === 0) return;
  const path = target === undefined ? "" : ` (a symlink to ${formatDisplayPath(target, environment)})`;
  out.line`${out.green("✓")} ${formatDisplayPath(file, environment)}${path} ${isDryRun ? "would be fixed" : "fixed"}: ${fixed.join(", ")}`;
  printDiff(out, diff, { most: MAX_CHANGE_LINES, rest: "--json shows all" });
}

/** `skillet skill` and its subcommands. */
export const skillCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Use other names for commands: skill list, skill validate")
      .addHelpText("after", formatExamples("skillet skill list", "skillet skill validate skills/deploy")),
  commands: {
    list: listCommand,
    validate: {
      define: (command) =>
        command
          .description("Validate a skill, the same as `skillet check PATH`")
          .argument("<path>", "A skill folder or file")
          .addHelpText("after", formatExamples("skillet skill validate skills/deploy")),
      run: checkSkills,
    },
  },
};

const SARIF_LEVELS: Record<Severity, "error" | "warning" | "note"> = {
  error: "error",
  warning: "warning",
  info: "note",
};

/** Formats diagnostics as SARIF. */
function formatDiagnosticsSarif(diagnostics: readonly Diagnostic[], root: string): object {
  const results = diagnostics.map(({ code, severity, message, file, line, column, ...problem }) => ({
    ...{ rule: code, level: SARIF_LEVELS[severity], text: `${message}. Fix: ${formatFix(problem)}`, file },
    ...(line === undefined ? {} : { line }),
    ...(column === undefined ? {} : { column }),
  }));
  return formatSarif(results, (code) => describeSarifRule(code as FindingCode), root);
}

export interface SarifResult {
  rule: string;
  level: "error" | "warning" | "note";
  text: string;
  /** An absolute path. */
  file: string;
  line?: number;
  column?: number;
}

/** Formats results as SARIF 2.1.0 for code scanning. `describe` returns a rule by its id. */
export function formatSarif(results: readonly SarifResult[], describe: (rule: string) => object, root: string): object {
  const rules = [...new Set(results.map(({ rule }) => rule))].sort();
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "skillet",
            semanticVersion: packageVersion(),
            rules: rules.map(describe),
          },
        },
        originalUriBaseIds: { ROOT: { uri: `${pathToFileURL(root).href}/` } },
        columnKind: "utf16CodeUnits",
        results: results.map((result) => ({
          ruleId: result.rule,
          ruleIndex: rules.indexOf(result.rule),
          level: result.level,
          message: { text: result.text },
          locations: [
            { physicalLocation: { artifactLocation: describeArtifact(result.file, root), ...describeRegion(result) } },
          ],
        })),
      },
    ],
  };
}

/** Returns the root of relative paths in reports. GitHub expects paths relative to the checkout, whatever the working directory. */
export function resolveReportRoot(env: CommandIo["env"], workspace: string): string {
  const top = env["GITHUB_WORKSPACE"];
  return top && isInside(resolve(top), workspace) ? resolve(top) : workspace;
}

/** Formats diagnostics as workflow commands: GitHub shows each on its line. */
function formatGithubAnnotations(diagnostics: readonly Diagnostic[], root: string): string {
  const lines = diagnostics.map(({ severity, file, line, column, code, message, ...problem }) => {
    const properties = {
      file: isInside(root, file) ? relative(root, file).split(sep).join("/") : file,
      ...(line === undefined ? {} : { line }),
      ...(column === undefined ? {} : { col: column }),
      title: `skillet ${code}`,
    };
    const list = Object.entries(properties).map(([key, value]) => `${key}=${escapeProperty(String(value))}`);
    return `::${severity === "info" ? "notice" : severity} ${list.join(",")}::${escapeData(message)}%0A${escapeData(formatFix(problem))}\n`;
  });
  return lines.join("");
}

function describeSarifRule(code: FindingCode): object {
  const { meaning: means, fix } = FINDING_CODES[code];
  return { id: code, shortDescription: { text: means }, help: { text: `Fix: ${fix}.` } };
}

function describeArtifact(file: string, root: string): object {
  if (!isInside(root, file)) return { uri: pathToFileURL(file).href };
  const uri = relative(root, file).split(sep).map(encodeURIComponent).join("/");
  return { uri: uri === "" ? "." : uri, uriBaseId: "ROOT" };
}

function describeRegion({ line, column }: Pick<SarifResult, "line" | "column">): object {
  if (line === undefined) return {};
  return { region: { startLine: line, ...(column === undefined ? {} : { startColumn: column }) } };
}

function escapeData(text: string): string {
  return escapeLine(text).replaceAll("%", "%25");
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
