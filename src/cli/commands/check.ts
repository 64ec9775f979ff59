import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { loadSettings } from "../../host/settings.ts";
import { SkillError } from "../../shared/error.ts";
import { count, nearest } from "../../shared/text.ts";
import type { Diagnostic, Profile, Severity } from "../../skill/diagnostic.ts";
import { skillsOf } from "../../source/changed.ts";
import { type CheckedFile, type CheckResult, checkPaths } from "../../source/check.ts";
import { directorySource } from "../../source/directory.ts";
import { displayPath, type Location, locations, type Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { githubLines, reportRoot, sarifOf } from "../formats.ts";
import { discoverFor, printDiagnostic, surroundingsFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { waitingFor } from "../progress.ts";
import { printDiff } from "../wrap.ts";

interface CheckOptions {
  profile?: Profile;
  format?: "text" | "json" | "sarif" | "github";
  fix?: boolean;
  dryRun?: boolean;
  rename?: string;
  strict?: boolean;
  changed?: boolean;
}

export async function check({ io, options, args }: Context<CheckOptions>): Promise<number> {
  const { profile = "load", fix = false, dryRun = false, strict = false } = options;
  const rename = (options.rename ?? "").split(",").flatMap((key) => key.trim() || []);
  if (rename.length > 0 && !fix) {
    throw new SkillError("usage", {
      message: "--rename renames keys only together with --fix",
      fix: "add --fix, or --fix --dry-run to see the changes first",
    });
  }
  const format = options.json ? "json" : (options.format ?? "text");
  const around = surroundingsFor(io, options);
  const paths = distinct(await pathsOf(io, options, args));
  const skillsFolders = await foldersOfDiscovery(around);
  const result = await waitingFor(io, "checking", ({ at }) => {
    const onChecked = (done: number, path: string) =>
      at(`checking ${displayPath(path, around)}: ${count(done, "skill")}`);
    return checkPaths(paths, { profile, fix, dryRun, rename, skillsFolders, onChecked });
  });
  const { files } = result;
  if (format === "text") await printMissingTools(io, paths, around);
  const diagnostics = [...result.diagnostics, ...files.flatMap((file) => file.diagnostics)];
  const shown = { ...around, workspace: io.cwd };
  if (format === "json") printJson(io.stdout, { profile, isDryRun: dryRun, files, diagnostics });
  else if (format === "text") printText(io, result, { around: shown, isDryRun: dryRun });
  else {
    // Standard output has a format of its own: the changes are listed where people read.
    for (const file of files) printChange(printer(io.stderr, io.env), file, { around: shown, isDryRun: dryRun });
    if (format === "sarif") printJson(io.stdout, sarifOf(diagnostics, reportRoot(io.env, around.workspace)));
    else io.stdout.write(githubLines(diagnostics, reportRoot(io.env, around.workspace)));
  }
  if (files.length === 0 && diagnostics.length === 0) {
    const where = args.length > 0 ? args.join(", ") : "this workspace";
    const error = printer(io.stderr, io.env);
    if (options.changed) error.line`none of these files is part of a skill`;
    else error.line`no skills in ${where}: \`skillet new NAME\` makes one`;
    if (!options.changed && args.length > 0)
      error.line`A .md or .yaml file alone is a skill in a folder named skills, or when you name the file.`;
  }
  const failing: readonly Severity[] = strict ? ["error", "warning"] : ["error"];
  return diagnostics.some(({ severity }) => failing.includes(severity)) ? EXIT.findings : EXIT.fine;
}

/** Warns of tools that no run of these skills would have here, as a run and its plan do. */
async function printMissingTools(io: Io, paths: readonly string[], around: Surroundings): Promise<void> {
  const { settings } = await loadSettings(around);
  const { missingTools } = await import("../../run/unmatched.ts");
  const { hasTools } = await import("../../policy/tools.ts");
  const error = printer(io.stderr, io.env);
  for (const path of paths) {
    const { skills } = await directorySource({ path, scope: "workspace" }).load();
    for (const skill of skills) {
      for (const { message, fix } of [hasTools(skill, { settings }) ?? [], missingTools(skill, { settings })].flat()) {
        error.line`${error.yellow("!")} ${message}`;
        error.line`  ${fix}`;
      }
    }
  }
}

/** The folders that discovery reads, those of the configuration included. */
export async function foldersOfDiscovery(around: Surroundings): Promise<string[]> {
  const { settings } = await loadSettings(around);
  const places = [
    ...locations(around),
    ...settings.sources.map(({ path }): Pick<Location, "path" | "skillsFolders"> => ({ path })),
  ];
  return places.flatMap(({ path, skillsFolders = [path] }) => skillsFolders);
}

async function pathsOf(io: Io, options: CheckOptions & CommonOptions, args: readonly string[]): Promise<string[]> {
  const around = surroundingsFor(io, options);
  if (options.changed) {
    const files = args.map((arg) => resolve(io.cwd, arg));
    return skillsOf(files, { workspace: around.workspace, places: workspaceFolders(around) });
  }
  return args.length > 0 ? named(io, options, args) : workspaceFolders(around);
}

/** Paths as they are; what is no path may be the name of a skill, also `name@source`. */
export async function named(io: Io, options: CommonOptions, args: readonly string[]): Promise<string[]> {
  const paths = args.map((arg) => resolve(io.cwd, arg));
  if (paths.every((path) => existsSync(path))) return paths;
  const { catalog } = await discoverFor(io, options);
  return args.map((arg, index) => {
    const path = paths[index] ?? arg;
    const skill = existsSync(path) ? undefined : catalog.find(arg);
    if (!skill && !existsSync(path)) throw notThere(arg, catalog.names());
    return skill?.origin.folder ?? skill?.origin.file ?? path;
  });
}

function notThere(arg: string, names: readonly string[]): SkillError {
  const meant = nearest(arg, names);
  const fix = meant ? `did you mean the skill "${meant}"?` : "check the path; `skillet list` shows the names";
  return new SkillError("not-found", { message: `"${arg}" is neither a path nor the name of a skill`, fix });
}

/** Two ways to one folder are one folder. */
export function distinct(paths: readonly string[]): string[] {
  const real = (path: string) => {
    try {
      return realpathSync.native(path);
    } catch {
      return path;
    }
  };
  return [...new Map(paths.map((path) => [real(path), path])).values()];
}

export function workspaceFolders(around: Surroundings): string[] {
  return locations(around)
    .filter(({ scope, path }) => scope === "workspace" && existsSync(path))
    .map(({ path }) => path);
}

interface ShowOptions {
  around: Surroundings;
  isDryRun: boolean;
}

function printText(io: Io, { profile, files, diagnostics }: CheckResult, options: ShowOptions): void {
  const { around, isDryRun } = options;
  const out = printer(io.stdout, io.env);
  const totals: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  const print = (all: readonly Diagnostic[]) => {
    for (const diagnostic of all) {
      totals[diagnostic.severity]++;
      printDiagnostic(out, diagnostic, around);
    }
  };
  print(diagnostics);
  for (const file of files) {
    if (file.fixed.length > 0) printChange(out, file, options);
    else if (file.diagnostics.length === 0) out.line`${out.green("✓")} ${displayPath(file.file, around)}`;
    print(file.diagnostics);
  }
  if (files.length === 0 && totals.error + totals.warning + totals.info === 0) return;
  out.line`\n${count(files.length, "skill")}: ${count(totals.error, "error")}, ${count(totals.warning, "warning")}, ${count(totals.info, "hint")} ${out.dim(`(profile ${profile})`)}`;
  const fixed = files.filter((file) => file.fixed.length > 0).length;
  if (fixed > 0 && isDryRun) out.line`${count(fixed, "file")} would be fixed; nothing was written`;
  else if (fixed > 0) out.line`${count(fixed, "file")} fixed`;
}

const MOST_LINES = 80;

/** Prints what was fixed in a file, or would be, as a diff. */
function printChange(
  out: Printer,
  { file, fixed, diff, target }: CheckedFile,
  { around, isDryRun }: ShowOptions,
): void {
  if (fixed.length === 0) return;
  const place = target === undefined ? "" : ` (a link to ${displayPath(target, around)})`;
  out.line`${out.green("✓")} ${displayPath(file, around)}${place} ${isDryRun ? "would be fixed" : "fixed"}: ${fixed.join(", ")}`;
  printDiff(out, diff, { most: MOST_LINES, rest: "--json has all of them" });
}
