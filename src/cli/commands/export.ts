import { Option } from "commander";
import { SkillError } from "../../errors/problem.ts";
import {
  EXPORT_FORMATS,
  type ExportFormat,
  type ExportResult,
  exportSkill,
  resolveExportPath,
} from "../../remote/clients/export-skill.ts";
import type { Skill } from "../../skill/skill.ts";
import { formatDisplayPath } from "../../skill/source/locations.ts";
import { mapAsync } from "../../util/sequential.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { findNearest, formatCount, formatNumber } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  EXIT,
  EXPORT_TARGETS,
  FILE_TARGETS,
  formatExamples,
} from "../command-definition.ts";
import { discoverForCommand, printConfigurationWarnings } from "../command-host.ts";
import { type CommandIo, createPrinter, printHanging, printJson } from "../output.ts";
import type { CopyOptions } from "./export-copies.ts";
import { failMissingSkill } from "./show.ts";

/** `skillet export`. */
export const exportCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Export skills as copies in clients' folders, zips or plugins")
      .argument("[skill...]", "Skills, or `name@source`. Defaults to every usable skill for clients.")
      .option("-t, --to <target,...>", `Export to these targets: ${EXPORT_TARGETS.join(", ")}. Defaults to zip.`)
      .option("--project", "Use the client's folder in this workspace instead of your own")
      .addOption(createModeOption("-l, --list", "List all copies with their state", ["update", "remove"]))
      .addOption(createModeOption("--update", "Update existing copies in all clients or those of --to", ["remove"]))
      .addOption(createModeOption("--remove", "Remove copies from all clients or those of --to", []))
      .option("--all", "With --remove: remove every copy")
      .option("-n, --dry-run", "Show the changes without applying them")
      .option("-o, --output <file>", "Write the zip or plugin to this path. Defaults to the current folder.")
      .option("--force", "Also replace or remove copies that were edited by hand")
      .addOption(createFormatOption().hideHelp())
      .addHelpText("after", "\nFiles that skillet did not write are never changed or removed.")
      .addHelpText(
        "after",
        formatExamples(
          "skillet export code-review --to claude",
          "skillet export --to codex,gemini --dry-run",
          "skillet export deploy --to agents --project",
          "skillet export deploy --to zip --output dist/",
          "skillet export --list",
          "skillet export --update",
          "skillet export --remove deploy --to codex",
        ),
      ),
  run: exportSkills,
};

function createModeOption(flags: string, description: string, others: string[]): Option {
  return new Option(flags, description).conflicts(others);
}

/** Creates the option that formerly selected a zip or a plugin. */
function createFormatOption(): Option {
  return new Option("-f, --format <format>", "Write this format").choices(Object.values(FILE_TARGETS)).conflicts("to");
}

interface ExportOptions extends CopyOptions {
  format?: ExportFormat;
  output?: string;
  remove?: boolean;
  all?: boolean;
}

/** Writes skills for other clients: copies in their folders, or files. */
export async function exportSkills(context: CommandContext<ExportOptions>): Promise<number> {
  const { options, args } = context;
  const names = (options.to ?? "").split(",").flatMap((name) => name.trim() || []);
  const mode = options.list ? "--list" : options.update ? "--update" : options.remove ? "--remove" : undefined;
  const isDefault = options.to === undefined && mode === undefined && !options.project && args.length > 0;
  const file =
    options.format ?? names.find((name) => Object.hasOwn(FILE_TARGETS, name)) ?? (isDefault ? "zip" : undefined);
  for (const name of names) checkTarget(name);
  checkOptions(options, { names, mode, file });
  if (options.remove) return (await import("./export-manage.ts")).removeExportedCopies(context);
  if (file !== undefined)
    return exportFiles(context, options.format ?? FILE_TARGETS[file as keyof typeof FILE_TARGETS]);
  return (await import("./export-copies.ts")).exportSkillCopies(context);
}

function checkTarget(name: string): void {
  if (EXPORT_TARGETS.includes(name)) return;
  const meant = findNearest(name, EXPORT_TARGETS);
  throw new SkillError("usage", {
    message: `Unknown target "${name}"`,
    fix: `${meant === undefined ? "" : `did you mean ${meant}? `}Targets: ${EXPORT_TARGETS.join(", ")}`,
  });
}

interface ExportRequest {
  names: readonly string[];
  mode: string | undefined;
  /** The file target, if there is one. */
  file: string | undefined;
}

function checkOptions({ all, remove, project, output }: ExportOptions, { names, mode, file }: ExportRequest): void {
  const wrong = (message: string, fix: string) => new SkillError("usage", { message, fix });
  if (file !== undefined && mode !== undefined)
    throw wrong(`${mode} applies to copies in clients' folders only`, "name clients with --to, or omit it");
  if (file !== undefined && names.length > 1)
    throw wrong(`${file} cannot be combined with other targets`, "run the command once for each of them");
  if (file !== undefined && project)
    throw wrong("--project applies to copies in clients' folders only", "omit --project");
  if (output !== undefined && file === undefined)
    throw wrong("--output applies to zip and plugin only", "copies go into the client's own folder: omit --output");
  if (all && !remove) throw wrong("--all needs --remove", "omit it: without names, every usable skill is exported");
}

/** Exports skills to files. No code of a skill runs, so trust is not needed. */
async function exportFiles(
  { io, options, args }: CommandContext<ExportOptions>,
  format: ExportFormat,
): Promise<number> {
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
  const found = await discoverForCommand(io, options);
  const code = printConfigurationWarnings(io, found) ? EXIT.fine : EXIT.usage;
  const missing = args.find((name) => !found.catalog.find(name));
  if (missing !== undefined) return failMissingSkill(io, found, missing);
  const written = await mapAsync(args, async (name) => {
    const skill = found.catalog.get(name);
    const path = resolveExportPath(skill, format, { cwd: io.cwd, ...(output === undefined ? {} : { output }) });
    return { skill, exported: await exportSkill({ skill, format, path, isForced: force, isDryRun }) };
  });
  if (options.json) {
    printJson(io.stdout, {
      isDryRun,
      exported: written.map(({ skill, exported }) => toExportJson(skill, format, exported)),
    });
    return code;
  }
  for (const { exported } of written) {
    const shown = formatDisplayPath(exported.path, { ...found.around, workspace: io.cwd });
    const next = EXPORT_FORMATS[format].next(quoteIfNeeded(shown) === shown ? shown : quoteIfNeeded(exported.path));
    printExported(io, exported, { shown, next: isDryRun ? "nothing was written" : next, isDryRun });
  }
  return code;
}

function toExportJson(
  { name, origin }: Skill,
  format: ExportFormat,
  { path: location, ...written }: ExportResult,
): object {
  return { name, source: origin.source, format, location, ...written };
}

function printExported(
  io: CommandIo,
  { files, bytes, omitted, notes }: ExportResult,
  { shown, next, isDryRun }: { shown: string; next: string; isDryRun: boolean },
): void {
  const out = createPrinter(io.stdout, io.env);
  const size = `${formatCount(files.length, "file")}, ${formatNumber(bytes)} bytes`;
  out.line`${isDryRun ? out.dim("+") : out.green("✓")} ${shown} ${out.dim(size)}`;
  if (isDryRun) for (const file of files) out.line`  ${file}`;
  const error = createPrinter(io.stderr, io.env);
  for (const said of omitted)
    printHanging(error, error.text`${error.yellow("!")} `, [`left out: ${said}`], { indent: 2 });
  for (const note of notes) printHanging(error, error.text`${error.dim("·")} `, [note], { indent: 2 });
  error.line`  ${next}`;
}
