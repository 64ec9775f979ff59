import { existsSync } from "node:fs";
import {
  applyConfigMigration,
  type ConfigMigration,
  editConfig,
  formatTomlValue,
  planConfigMigration,
} from "../../config/config-edit.ts";
import {
  type ConfigEntry,
  findKeyRow,
  formatKeyPath,
  isTableKey,
  listFormerKeys,
  parseKeyPath,
  validateConfigValue,
} from "../../config/config-file.ts";
import type { ConfigKey } from "../../config/config-keys.ts";
import { findUndeclaredSettings } from "../../config/discover.ts";
import { isValueReference, KEY_TYPES } from "../../config/key-types.ts";
import { getUserConfigPath, listConfigFiles, loadSettings } from "../../config/settings.ts";
import { SkillError } from "../../errors/problem.ts";
import { type Environment, formatDisplayPath } from "../../skill/source/locations.ts";
import { getSkillLocation } from "../../store/trust.ts";
import { formatCount, quoteIfNeeded } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  type CommonOptions,
  createConfigurationError,
  discoverForCommand,
  EXIT,
  formatExamples,
  printDiagnostic,
  resolveCommandEnvironment,
} from "../command-context.ts";
import {
  chooseCopy,
  createConfigValueError,
  getDefaultValue,
  listDefaultSettings,
  printConfigReach,
  printSetting,
  printSettings,
  toConfigFileJson,
  toConfigReachJson,
  toDisplayedSetting,
  waitUntilApplied,
} from "../config-output.ts";
import { type CommandIo, createPrinter, printDiff, printHanging, printJson, printProblem } from "../output.ts";

/** `skillet config` and its subcommands. */
export const configCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Show all settings, their defaults and their sources")
      .option("--show-secrets", "Show the values of variables and keys")
      .addHelpText(
        "after",
        formatExamples(
          "skillet config",
          "skillet config get skills.research.model",
          "skillet config set skills.research.enabled true",
          "skillet config set skills.research.PERPLEXITY_API_KEY < key.txt",
        ),
      ),
  run: showConfig,
  commands: {
    get: {
      define: (command) =>
        command
          .description("Print one effective value")
          .argument("<key>", "A key such as skills.research.model, or a table")
          .option("--show-secrets", "Print the value even if it is a secret")
          .addHelpText(
            "after",
            formatExamples(
              "skillet config get limits.max_iterations",
              "skillet config get skills.research",
              "skillet config get skills.research.PERPLEXITY_API_KEY --show-secrets",
            ),
          ),
      run: getConfig,
    },
    set: {
      define: (command) =>
        command
          .description("Set one value in your config.toml")
          .argument("<key>", "A key such as skills.research.model")
          .argument("[value]", "The value. Secrets are piped in or typed at a prompt.")
          .option("--for <copy>", "Grant the value to this copy of the skill: NAME@SOURCE")
          .addHelpText(
            "after",
            formatExamples(
              "skillet config set skills.research.model fast",
              "skillet config set tools.disabled bash,grep",
              "skillet config set skills.research.PERPLEXITY_API_KEY",
              "skillet config set skills.research.PERPLEXITY_API_KEY env:PERPLEXITY_API_KEY",
              "pass show perplexity | skillet config set skills.research.PERPLEXITY_API_KEY",
              "skillet config set skills.research.MY_KEY --for research@bundled < key.txt",
            ),
          ),
      run: setConfig,
    },
    unset: {
      define: (command) =>
        command
          .description("Remove one value from your config.toml")
          .argument("<key>", "A key such as skills.research.model")
          .addHelpText("after", formatExamples("skillet config unset skills.research.model")),
      run: unsetConfig,
    },
    migrate: {
      define: (command) =>
        command
          .description("Rename keys of earlier versions in your config.toml and the workspace's")
          .option("-n, --dry-run", "Show the changes without writing them")
          .addHelpText("after", formatExamples("skillet config migrate --dry-run", "skillet config migrate")),
      run: migrateConfig,
    },
    path: {
      define: (command) =>
        command
          .description("Print the path of your config.toml")
          .addHelpText("after", formatExamples('$EDITOR "$(skillet config path)"')),
      run: printConfigPath,
    },
  },
};

interface SecretOptions {
  showSecrets?: boolean;
}

/** Shows all effective settings with their sources. */
async function showConfig({ io, options }: CommandContext<SecretOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const { files, entries, overruled, isBroken } = found.configuration;
  const show = (entry: ConfigEntry) => toDisplayedSetting(entry, found.around, options.showSecrets ?? false);
  const diagnostics = [...found.configuration.diagnostics, ...findUndeclaredSettings(found)];
  const facts = {
    files: files.map(toConfigFileJson),
    set: entries.map(show),
    overruled: overruled.map(show),
    defaults: listDefaultSettings(entries),
    diagnostics,
  };
  if (options.json) printJson(io.stdout, facts);
  else {
    const out = createPrinter(io.stdout, io.env);
    out.line`${out.bold("Files")}`;
    for (const { path, exists } of files)
      out.line`  ${formatDisplayPath(path, found.around)}  ${out.dim(exists ? "read" : "not found")}`;
    printSettings(out, "Set", facts.set, found.around);
    printSettings(out, "Set by the workspace but overruled: yours is lower or disabled", facts.overruled, found.around);
    printSettings(out, "Defaults", facts.defaults, found.around);
    if (diagnostics.length > 0) out.line`\n${out.bold("Findings")}`;
    for (const diagnostic of diagnostics) printDiagnostic(out, diagnostic, found.around);
  }
  if (isBroken) return EXIT.usage;
  return diagnostics.some(({ severity }) => severity === "error") ? EXIT.findings : EXIT.fine;
}

async function setConfig(context: CommandContext<{ for?: string }>): Promise<number> {
  const {
    io,
    options,
    args: [written = "", typed],
  } = context;
  const environment = resolveCommandEnvironment(io, options);
  const parts = parseKeyPath(written);
  const row = findConfigKey(parts);
  const giving = isGrantingKey(parts) ? await prepareGrant(io, options, parts) : undefined;
  if (!giving && options.for !== undefined) {
    throw new SkillError("usage", {
      message: `${formatKeyPath(parts)} is not specific to a copy of a skill, so --for has no effect`,
      fix: "omit --for",
    });
  }
  const text = row.isSecret ? await readSecretText(io, parts, typed) : typed;
  const { description, example, read } = KEY_TYPES[row.type];
  const valid = `skillet config set ${formatKeyPath(parts)} ${example}`;
  if (text === undefined)
    throw new SkillError("usage", {
      message: `${formatKeyPath(parts)} needs a value: ${description}`,
      fix: "for example",
      commands: [valid],
    });
  const value = read(text);
  const judged = validateConfigValue(parts, value, "user");
  if ("code" in judged) throw createConfigValueError(judged, valid);
  const file = getUserConfigPath(environment);
  giving?.give(); // First: a value without an owner would be refused, and another copy's value must not be granted.
  const former = listFormerKeys(parts).map((old) => ({ parts: old }));
  const isChanged = await editConfig(file, ...former, { parts, value, isSecret: row.isSecret ?? false });
  await printConfigChange(io, options.json, environment, {
    key: formatKeyPath(parts),
    file,
    isChanged,
    did: isChanged ? "set" : "was already set",
    ...(giving ? { giving } : {}),
  });
  return EXIT.fine;
}

/** Keys of a skill's table that grant it access. */
const GRANTING_KEYS: ReadonlySet<string> = new Set([
  ...["network", "workspace", "dynamic_commands", "capabilities", "capability_provider"],
]);

function isGrantingKey([table, name, key = ""]: readonly string[]): boolean {
  return table === "skills" && name !== "defaults" && (GRANTING_KEYS.has(key) || /^[A-Z]/.test(key));
}

interface GrantChange {
  /** The message on the copy that receives the value. */
  message: string;
  copy: { source: string; location: string } | null;
  isWarning: boolean;
  give(): void;
}

/** Chooses the copy of a skill that receives a value, before anything is written. */
async function prepareGrant(
  io: CommandIo,
  options: CommonOptions & { for?: string },
  parts: readonly string[],
): Promise<GrantChange> {
  const found = await discoverForCommand(io, options);
  const [, name = ""] = parts;
  const command = `skillet config set ${quoteIfNeeded(formatKeyPath(parts))} --for`;
  const choice = await chooseCopy(io, found, { name, copy: options.for, command });
  const trust = `skillet trust --secrets ${quoteIfNeeded(name)}`;
  const { grants, around: environment } = found;
  const where = ({ source, location }: { source: string; location: string }) =>
    location === "" ? source : formatDisplayPath(location, environment);
  if (choice.is === "none") {
    const message = `no skill '${name}' is found here, so the value is not granted to a copy yet: the next run asks, or run: ${trust}`;
    return { message, copy: null, isWarning: true, give: () => {} };
  }
  if (choice.is === "kept") {
    const { source, location } = choice.owner;
    const here = found.catalog.find(name);
    const isOther = here !== undefined && !grants.isOwner(here, choice.owner);
    const message = `for the copy from ${where(choice.owner)}${isOther ? `, not for the one found here; to grant all values to that one: ${trust}` : ""}`;
    return { message, copy: { source, location }, isWarning: isOther, give: () => {} };
  }
  const { skill } = choice;
  const before = grants.getOwner(name);
  const isMoved = before !== undefined && !grants.isOwner(skill, before);
  const copy = { source: skill.origin.source, location: getSkillLocation(skill) };
  const message = `for the copy from ${where(copy)}${isMoved ? `; it also receives the earlier values, which ${where(before)} loses` : ""}`;
  return { message, copy, isWarning: isMoved, give: () => grants.grant(skill) };
}

async function unsetConfig({ io, options, args: [written = ""] }: CommandContext<object>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const parts = parseKeyPath(written);
  const file = getUserConfigPath(environment);
  const isChanged = await editConfig(file, ...[parts, ...listFormerKeys(parts)].map((one) => ({ parts: one })));
  if (!isChanged) {
    findConfigKey(parts);
    throw new SkillError("not-found", {
      message: `${formatKeyPath(parts)} is not set in ${formatDisplayPath(file, environment)}`,
      fix: "list all settings and their files",
      commands: ["skillet config"],
    });
  }
  await printConfigChange(io, options.json, environment, {
    key: formatKeyPath(parts),
    file,
    isChanged,
    did: "removed",
  });
  return EXIT.fine;
}

async function printConfigPath({ io, options }: CommandContext<object>): Promise<number> {
  const { files } = await loadSettings(resolveCommandEnvironment(io, options));
  if (options.json) printJson(io.stdout, { files: files.map(toConfigFileJson) });
  else createPrinter(io.stdout, io.env).line`${files[0]?.path ?? ""}`;
  return EXIT.fine;
}

/** Returns the definition of a key. Throws a SkillError with the nearest key if it is unknown. */
function findConfigKey(parts: readonly string[]): ConfigKey {
  const judged = findKeyRow(parts) ?? validateConfigValue(parts, undefined, "user");
  if (!("code" in judged)) return judged;
  throw createConfigValueError({ fix: "docs/config.md describes each key", ...judged });
}

/** Reads a secret from stdin or a hidden prompt: command lines are visible to other users and stay in the shell history. */
async function readSecretText(
  io: CommandIo,
  parts: readonly string[],
  value: string | undefined,
): Promise<string | undefined> {
  if (value !== undefined && isValueReference(value)) return value;
  const key = formatKeyPath(parts);
  if (value !== undefined) {
    throw new SkillError("usage", {
      message: `${key} is a secret: a command line is visible to other users and stays in your shell history`,
      fix: "omit it to be prompted, or pipe it in",
      commands: [`skillet config set ${key} < FILE`],
    });
  }
  const ask = io.askHidden ?? io.ask;
  const text = io.stdin ? ((await io.stdin()) ?? "").replace(/\r?\n$/, "") : await ask?.(`${key}: `);
  if (text) return text;
  throw new SkillError("usage", {
    message: `No value was given for ${key}`,
    fix: "pipe it in",
    commands: [`skillet config set ${key} < FILE`],
  });
}

interface ConfigChange {
  key: string;
  file: string;
  isChanged: boolean;
  did: string;
  giving?: GrantChange;
}

async function printConfigChange(
  io: CommandIo,
  asJson: boolean | undefined,
  environment: Environment,
  done: ConfigChange,
): Promise<void> {
  const { key, file, isChanged, did, giving } = done;
  const out = createPrinter(io.stdout, io.env);
  const reached = isChanged ? await waitUntilApplied(file, environment) : undefined;
  if (asJson) return printJson(io.stdout, { key, file, isChanged, copy: giving?.copy, ...toConfigReachJson(reached) });
  out.line`${out.green("✓")} ${key} ${did} in ${formatDisplayPath(file, environment)}`;
  if (giving) {
    const mark = giving.isWarning ? out.yellow("!") : out.dim("·");
    printHanging(out, out.text`${mark} `, [giving.message], { indent: 2 });
  }
  printConfigReach(io, reached, { runs: "keeps its model, limits, sandbox and secrets" });
}

/** Prints one value, or all values of a table. */
async function getConfig({ io, options, args: [written = ""] }: CommandContext<SecretOptions>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const { entries, isBroken, diagnostics } = await loadSettings(environment);
  if (isBroken) {
    for (const diagnostic of diagnostics) printDiagnostic(createPrinter(io.stderr, io.env), diagnostic, environment);
    throw createConfigurationError(diagnostics);
  }
  const parts = parseKeyPath(written);
  if (isTableKey(parts)) return printTable(io, parts, { entries, environment, ...options });
  const row = findConfigKey(parts);
  const entry = entries.find((one) => formatKeyPath(one.parts) === formatKeyPath(parts));
  if (row.isSecret && entry && !isValueReference(entry.value) && !options.showSecrets) {
    throw new SkillError("not-confirmed", {
      message: `${formatKeyPath(parts)} is a secret`,
      fix: "to print it",
      commands: [`skillet config get ${formatKeyPath(parts)} --show-secrets`],
    });
  }
  const { value, says } = entry ? { value: entry.value } : getDefaultValue(row);
  if (value === undefined) {
    throw new SkillError("not-found", {
      message: `${formatKeyPath(parts)} is not set${says === undefined ? "" : `: ${says}`}`,
      fix: "to set it",
      commands: [`skillet config set ${formatKeyPath(parts)}${row.isSecret ? "" : " VALUE"}`],
    });
  }
  if (options.json) {
    const location = entry ? { from: entry.owner, file: entry.file, line: entry.line } : { from: "default" };
    printJson(io.stdout, { key: formatKeyPath(parts), value, ...location });
  } else {
    const text = typeof value === "string" ? value : formatTomlValue(value);
    // A file gets the exact value; a terminal gets it escaped.
    if (io.stdout.isTTY) createPrinter(io.stdout, io.env).line`${text}`;
    else io.stdout.write(`${text}\n`);
  }
  return EXIT.fine;
}

interface TableRequest extends SecretOptions {
  entries: readonly ConfigEntry[];
  environment: Environment;
  json?: boolean;
}

function printTable(
  io: CommandIo,
  parts: readonly string[],
  { entries, environment, json, showSecrets = false }: TableRequest,
): number {
  const isBelow = (key: readonly string[]) => parts.every((part, index) => key[index] === part);
  const set = entries
    .filter((entry) => isBelow(entry.parts))
    .map((entry) => toDisplayedSetting(entry, environment, showSecrets));
  const values = [...set, ...listDefaultSettings(entries).filter(({ key }) => isBelow(key.split(".")))];
  if (values.length === 0) {
    throw new SkillError("not-found", {
      message: `Nothing is set in ${formatKeyPath(parts)}`,
      fix: "list all settings and their files",
      commands: ["skillet config"],
    });
  }
  if (json) printJson(io.stdout, { key: formatKeyPath(parts), values });
  else for (const value of values) printSetting(createPrinter(io.stdout, io.env), value);
  return EXIT.fine;
}

/** Renames the keys of earlier versions in the files of the user and of the workspace. */
async function migrateConfig({ io, options }: CommandContext<{ dryRun?: boolean }>): Promise<number> {
  const environment = resolveCommandEnvironment(io, options);
  const isDryRun = options.dryRun ?? false;
  const files = listConfigFiles(environment).filter(({ owner, path }) => owner !== "ash" && existsSync(path));
  const migrations: ConfigMigration[] = [];
  for (const { path } of files) migrations.push(await planConfigMigration(path));
  if (!isDryRun) for (const migration of migrations) applyConfigMigration(migration);
  if (options.json) printJson(io.stdout, { isDryRun, files: migrations.map(toMigrationJson) });
  else if (migrations.length === 0) createPrinter(io.stdout, io.env).line`No configuration file found`;
  else for (const migration of migrations) printMigration(io, migration, { environment, isDryRun });
  return migrations.some(({ problems }) => problems.length > 0) ? EXIT.findings : EXIT.fine;
}

/** Formats a migration for `--json`. */
function toMigrationJson({ file, renames, diff, problems }: ConfigMigration) {
  return { file, renames, diff, problems };
}

function printMigration(
  io: CommandIo,
  { file, renames, diff, problems }: ConfigMigration,
  { environment, isDryRun }: { environment: Environment; isDryRun: boolean },
): void {
  const out = createPrinter(io.stdout, io.env);
  const where = formatDisplayPath(file, environment);
  const count = renames.length === 0 ? "no keys" : formatCount(renames.length, "key");
  out.line`${isDryRun ? out.dim("·") : out.green("✓")} ${count} ${isDryRun ? "to rename" : "renamed"} in ${where}`;
  printDiff(out, diff);
  for (const problem of problems) printProblem(out, out.yellow("!"), problem);
}
