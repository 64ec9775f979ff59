import { describeDatabase, openDatabase } from "../../adapters/postgres/database.ts";
import { loadSettings } from "../../config/settings.ts";
import { formatCount } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  createEngineMissingError,
  EXIT,
  formatExamples,
  readEngineUrl,
  requireCommandEngine,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";
import { parseCountOption } from "./runs.ts";

/** `skillet engine` and its subcommands. */
export const engineCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Set up the Postgres database that several machines share")
      .addHelpText(
        "after",
        formatExamples(
          "skillet config set engine.url env:DATABASE_URL",
          "skillet engine init",
          "skillet engine init --print-sql --role skillet_worker",
          "skillet engine check",
        ),
      ),
  run: checkDatabase,
  commands: {
    init: {
      define: (command) =>
        command
          .description("Create or update the tables")
          .option("--print-sql", "Print the SQL for a database administrator instead of running it")
          .option("--role <name>", "Also grant this role what workers and commands need, and nothing more")
          .addHelpText(
            "after",
            formatExamples(
              "skillet engine init",
              "skillet engine init --print-sql --role skillet_worker > skillet.sql",
            ),
          ),
      run: initDatabase,
    },
    check: {
      define: (command) =>
        command
          .description("Check the connection, the tables and the rights of the role")
          .addHelpText("after", formatExamples("skillet engine check")),
      run: checkDatabase,
    },
    prune: {
      define: (command) =>
        command
          .description("Remove old runs, and the records of their dispatch")
          .option("--older-than <days>", "Remove runs older than this. Defaults to keep_days of [runs], 30.")
          .option("--dry-run", "Show the number of runs without removing them")
          .addHelpText(
            "after",
            formatExamples("skillet engine prune --dry-run", "skillet engine prune --older-than 7"),
          ),
      run: pruneDatabase,
    },
  },
};

interface InitOptions {
  printSql?: boolean;
  role?: string;
}

/** Creates or updates the tables, or prints the SQL for it. */
async function initDatabase({ io, options }: CommandContext<InitOptions>): Promise<number> {
  const { createSchema, formatSchemaSql, formatRoleSql, SCHEMA_VERSION } = await import(
    "../../adapters/postgres/schema.ts"
  );
  const { role } = options;
  if (options.printSql) {
    const { formatDispatchSql } = await import("../../adapters/postgres/dispatcher.ts");
    const parts = [formatSchemaSql(), await formatDispatchSql(), ...(role === undefined ? [] : [formatRoleSql(role)])];
    io.stdout.write(parts.join("\n"));
    return EXIT.fine;
  }
  const url = await requireEngineUrl(io, options);
  const database = await openDatabase({ url });
  try {
    const before = await createSchema(database);
    const { createDispatchTables } = await import("../../adapters/postgres/dispatcher.ts");
    await createDispatchTables(database, url);
    if (role !== undefined) await database.query(formatRoleSql(role));
    if (options.json) printJson(io.stdout, { database: describeDatabase(url), before, version: SCHEMA_VERSION });
    else {
      const out = createPrinter(io.stdout, io.env);
      const what =
        before === SCHEMA_VERSION
          ? "the tables are up to date"
          : before === 0
            ? "created the tables"
            : "updated the tables";
      out.line`${out.green("✓")} ${what} in ${describeDatabase(url)} (version ${String(SCHEMA_VERSION)})`;
      if (role !== undefined) out.line`${out.green("✓")} granted ${role} what workers need`;
    }
    return EXIT.fine;
  } finally {
    await database.close();
  }
}

/** Checks the database, and prints one line for each finding. */
async function checkDatabase({ io, options }: CommandContext<object>): Promise<number> {
  const url = await requireEngineUrl(io, options);
  const { checkEngine } = await import("../../adapters/postgres/engine.ts");
  const database = await openDatabase({ url, connections: 1 });
  try {
    const findings = await checkEngine(database);
    if (options.json) printJson(io.stdout, { database: describeDatabase(url), findings });
    else {
      const out = createPrinter(io.stdout, io.env);
      const marks = { ok: out.green("✓"), warning: out.yellow("!"), error: out.red("✗") };
      out.line`${out.bold(describeDatabase(url))}`;
      for (const { level, message, fix } of findings) {
        out.line`${marks[level]} ${message}`;
        if (fix !== undefined) out.line`  ${fix}`;
      }
    }
    return findings.some(({ level }) => level === "error") ? EXIT.findings : EXIT.fine;
  } finally {
    await database.close();
  }
}

interface PruneOptions {
  olderThan?: string;
  dryRun?: boolean;
}

/** The records of legs are needed only while a run may still be dispatched. */
const LEG_RETENTION_MS = 24 * 60 * 60 * 1000;

/** Removes old runs, and what the dispatcher recorded about legs that ended. */
async function pruneDatabase({ io, options }: CommandContext<PruneOptions>): Promise<number> {
  const { settings } = await loadSettings(resolveCommandEnvironment(io, options));
  const { olderThan, dryRun: isTrial = false } = options;
  const days = olderThan === undefined ? settings.runs.days : parseCountOption("--older-than", olderThan);
  const engine = await requireCommandEngine(io, options);
  try {
    const removed = await engine.runs.prune({ days, most: settings.runs.most }, { isTrial });
    const legs = isTrial ? 0 : await engine.dispatcher.prune(new Date(Date.now() - LEG_RETENTION_MS));
    if (options.json) printJson(io.stdout, { isDryRun: isTrial, runs: removed.length, legs });
    else {
      const out = createPrinter(io.stdout, io.env);
      const what = isTrial ? "would remove" : "removed";
      out.line`${out.green("✓")} ${what} ${formatCount(removed.length, "run")}${isTrial ? "" : `, and the records of ${formatCount(legs, "leg")}`}`;
    }
    return EXIT.fine;
  } finally {
    await engine.close();
  }
}

/** Returns the URL of the engine's database. Throws a SkillError if none is configured. */
export async function requireEngineUrl(io: CommandIo, options: CommandContext<object>["options"]): Promise<string> {
  const around = resolveCommandEnvironment(io, options);
  const url = readEngineUrl(around, (await loadSettings(around)).settings);
  if (url !== undefined) return url;
  throw createEngineMissingError();
}
