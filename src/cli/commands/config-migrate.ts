import { existsSync } from "node:fs";
import { applyConfigMigration, type ConfigMigration, planConfigMigration } from "../../config/config-edit.ts";
import { listConfigFiles } from "../../config/settings.ts";
import { type Environment, formatDisplayPath } from "../../skill/source/locations.ts";
import { formatCount } from "../../util/text.ts";
import { type CommandContext, EXIT } from "../command-definition.ts";
import { resolveCommandEnvironment } from "../command-host.ts";
import { type CommandIo, createPrinter, printDiff, printJson, printProblem } from "../output.ts";

/** Renames the keys of earlier versions in the files of the user and of the workspace. */
export async function migrateConfig({ io, options }: CommandContext<{ dryRun?: boolean }>): Promise<number> {
  const around = resolveCommandEnvironment(io, options);
  const isDryRun = options.dryRun ?? false;
  const files = listConfigFiles(around).filter(({ owner, path }) => owner !== "ash" && existsSync(path));
  const migrations: ConfigMigration[] = [];
  for (const { path } of files) migrations.push(await planConfigMigration(path));
  if (!isDryRun) for (const migration of migrations) applyConfigMigration(migration);
  if (options.json) printJson(io.stdout, { isDryRun, files: migrations.map(toMigrationJson) });
  else if (migrations.length === 0) createPrinter(io.stdout, io.env).line`No configuration file found`;
  else for (const migration of migrations) printMigration(io, migration, { around, isDryRun });
  return migrations.some(({ problems }) => problems.length > 0) ? EXIT.findings : EXIT.fine;
}

/** Formats a migration for `--json`. */
function toMigrationJson({ file, renames, diff, problems }: ConfigMigration) {
  return { file, renames, diff, problems };
}

function printMigration(
  io: CommandIo,
  { file, renames, diff, problems }: ConfigMigration,
  { around, isDryRun }: { around: Environment; isDryRun: boolean },
): void {
  const out = createPrinter(io.stdout, io.env);
  const where = formatDisplayPath(file, around);
  const count = renames.length === 0 ? "no keys" : formatCount(renames.length, "key");
  out.line`${isDryRun ? out.dim("·") : out.green("✓")} ${count} ${isDryRun ? "to rename" : "renamed"} in ${where}`;
  printDiff(out, diff);
  for (const problem of problems) printProblem(out, out.yellow("!"), problem);
}
