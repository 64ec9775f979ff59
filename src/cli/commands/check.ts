import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { SkillError } from "../../shared/error.ts";
import { count, nearest } from "../../shared/text.ts";
import type { Diagnostic, Profile, Severity } from "../../skill/diagnostic.ts";
import { skillsOf } from "../../source/changed.ts";
import { type CheckResult, checkPath } from "../../source/check.ts";
import { displayPath, locations, type Surroundings } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { githubLines, reportRoot, sarifOf } from "../formats.ts";
import { discoverFor, printDiagnostic, surroundingsFor } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { CommonOptions, Context } from "../program.ts";
import { waitingFor } from "../progress.ts";

interface CheckOptions {
  profile?: Profile;
  format?: "text" | "json" | "sarif" | "github";
  fix?: boolean;
  strict?: boolean;
  changed?: boolean;
}

export async function check({ io, options, args }: Context<CheckOptions>): Promise<number> {
  const { profile = "load", fix = false, strict = false } = options;
  const format = options.json ? "json" : (options.format ?? "text");
  const around = surroundingsFor(io, options);
  const paths = distinct(await pathsOf(io, options, args));
  const results = await waitingFor(io, "checking", ({ at }) =>
    paths.map((path) => {
      const onChecked = (done: number) => at(`checking ${displayPath(path, around)}: ${count(done, "skill")}`);
      return checkPath(path, { profile, fix, onChecked });
    }),
  );
  const files = results.flatMap((result) => result.files);
  const diagnostics = results.flatMap((result) => [
    ...result.diagnostics,
    ...result.files.flatMap((file) => file.diagnostics),
  ]);
  if (format === "json") printJson(io.stdout, { profile, files, diagnostics });
  else if (format === "sarif") printJson(io.stdout, sarifOf(diagnostics, reportRoot(io.env, around.workspace)));
  else if (format === "github") io.stdout.write(githubLines(diagnostics, reportRoot(io.env, around.workspace)));
  else printText(io, results, { ...around, workspace: io.cwd });
  if (files.length === 0 && diagnostics.length === 0) {
    const where = args.length > 0 ? args.join(", ") : "this workspace";
    const error = printer(io.stderr, io.env);
    if (options.changed) error.line`none of these files is part of a skill`;
    else error.line`no skills in ${where}: \`skillet new NAME\` makes one`;
  }
  const failing: readonly Severity[] = strict ? ["error", "warning"] : ["error"];
  return diagnostics.some(({ severity }) => failing.includes(severity)) ? EXIT.findings : EXIT.fine;
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

function printText(io: Io, results: readonly CheckResult[], around: Surroundings): void {
  const out = printer(io.stdout, io.env);
  const totals: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  const print = (diagnostics: readonly Diagnostic[]) => {
    for (const diagnostic of diagnostics) {
      totals[diagnostic.severity]++;
      printDiagnostic(out, diagnostic, around);
    }
  };
  for (const result of results) {
    print(result.diagnostics);
    for (const file of result.files) {
      if (file.fixed.length > 0)
        out.line`${out.green("✓")} ${displayPath(file.file, around)} fixed: ${file.fixed.join(", ")}`;
      else if (file.diagnostics.length === 0) out.line`${out.green("✓")} ${displayPath(file.file, around)}`;
      print(file.diagnostics);
    }
  }
  const files = results.reduce((total, result) => total + result.files.length, 0);
  if (files === 0 && totals.error + totals.warning + totals.info === 0) return;
  out.line`\n${count(files, "skill")}: ${count(totals.error, "error")}, ${count(totals.warning, "warning")}, ${count(totals.info, "hint")} ${out.dim(`(profile ${results[0]?.profile ?? ""})`)}`;
}
