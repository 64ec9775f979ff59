import { type Exported, type ExportFormat, exportPath, exportSkill, FORMATS } from "../../install/export.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { count, grouped, nearest } from "../../shared/text.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import { discoverFor, warnOfConfiguration } from "../found.ts";
import { type Io, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";
import { EXPORT_TARGETS, FILE_TARGETS } from "../rows/install.ts";
import { printHanging } from "../wrap.ts";
import type { InstallOptions } from "./install.ts";
import { explainMissing } from "./show.ts";

interface ExportOptions extends InstallOptions {
  format?: ExportFormat;
  output?: string;
  remove?: boolean;
  all?: boolean;
}

/** Writes skills for other clients: copies in their folders, or files. */
export async function exportCommand(context: Context<ExportOptions>): Promise<number> {
  const { options, args } = context;
  const names = (options.to ?? "").split(",").flatMap((name) => name.trim() || []);
  const mode = options.list ? "--list" : options.update ? "--update" : options.remove ? "--remove" : undefined;
  const isDefault = options.to === undefined && mode === undefined && !options.project && args.length > 0;
  const file =
    options.format ?? names.find((name) => Object.hasOwn(FILE_TARGETS, name)) ?? (isDefault ? "zip" : undefined);
  for (const name of names) checkTarget(name);
  checkOptions(options, { names, mode, file });
  if (options.remove) return (await import("./uninstall.ts")).uninstall(context);
  if (file !== undefined) return writeFiles(context, options.format ?? FILE_TARGETS[file as keyof typeof FILE_TARGETS]);
  return (await import("./install.ts")).install(context);
}

function checkTarget(name: string): void {
  if (EXPORT_TARGETS.includes(name)) return;
  const meant = nearest(name, EXPORT_TARGETS);
  throw new SkillError("usage", {
    message: `Unknown target "${name}"`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}Targets: ${EXPORT_TARGETS.join(", ")}`,
  });
}

interface Wanted {
  names: readonly string[];
  mode: string | undefined;
  /** The file target, if it is one. */
  file: string | undefined;
}

function checkOptions({ all, remove, project, output }: ExportOptions, { names, mode, file }: Wanted): void {
  const wrong = (message: string, fix: string) => new SkillError("usage", { message, fix });
  if (file !== undefined && mode !== undefined)
    throw wrong(`${mode} is about copies in clients' folders`, "name clients with --to, or leave it out");
  if (file !== undefined && names.length > 1)
    throw wrong(`${file} cannot be combined with other targets`, "run the command once for each of them");
  if (file !== undefined && project) throw wrong("--project is about copies in clients' folders", "leave it out");
  if (output !== undefined && file === undefined)
    throw wrong("--output is for zip and plugin", "a client's copies go into its own folder: leave it out");
  if (all && !remove) throw wrong("--all is for --remove", "without names, every usable skill is exported anyway");
}

/** Nothing of a skill is run for a file, so it need not be trusted. */
async function writeFiles({ io, options, args }: Context<ExportOptions>, format: ExportFormat): Promise<number> {
  const { output, force = false, dryRun: isDryRun = false } = options;
  if (args.length === 0)
    throw new SkillError("usage", {
      message: "No skill was named",
      fix: "name one or several; `skillet list` shows them",
    });
  if (args.length > 1 && output !== undefined && !/[/\\]$/.test(output))
    throw new SkillError("usage", {
      message: `${args.length} skills cannot be written to ${output}`,
      fix: `name a folder: --output ${output}/`,
    });
  const found = await discoverFor(io, options);
  const code = warnOfConfiguration(io, found) ? EXIT.fine : EXIT.usage;
  const missing = args.find((name) => !found.catalog.find(name));
  if (missing !== undefined) return explainMissing(io, found, missing);
  const written = args.map((name) => {
    const skill = found.catalog.get(name);
    const path = exportPath(skill, format, { cwd: io.cwd, ...(output === undefined ? {} : { output }) });
    return { skill, exported: exportSkill({ skill, format, path, isForced: force, isDryRun }) };
  });
  if (options.json) {
    printJson(io.stdout, { isDryRun, exported: written.map(({ skill, exported }) => asJson(skill, format, exported)) });
    return code;
  }
  for (const { exported } of written) {
    const shown = displayPath(exported.path, { ...found.around, workspace: io.cwd });
    const next = FORMATS[format].next(quoted(shown) === shown ? shown : quoted(exported.path));
    printExported(io, exported, { shown, next: isDryRun ? "nothing was written" : next, isDryRun });
  }
  return code;
}

function asJson({ name, origin }: Skill, format: ExportFormat, { path: place, ...written }: Exported): object {
  return { name, source: origin.source, format, place, ...written };
}

function printExported(
  io: Io,
  { files, bytes, leftOut, notes }: Exported,
  { shown, next, isDryRun }: { shown: string; next: string; isDryRun: boolean },
): void {
  const out = printer(io.stdout, io.env);
  const size = `${count(files.length, "file")}, ${grouped(bytes)} bytes`;
  out.line`${isDryRun ? out.dim("+") : out.green("✓")} ${shown} ${out.dim(size)}`;
  if (isDryRun) for (const file of files) out.line`  ${file}`;
  const error = printer(io.stderr, io.env);
  for (const said of leftOut)
    printHanging(error, error.text`${error.yellow("!")} `, [`left out: ${said}`], { indent: 2 });
  for (const note of notes) printHanging(error, error.text`${error.dim("·")} `, [note], { indent: 2 });
  error.line`  ${next}`;
}
