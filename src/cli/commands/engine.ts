import { loadSettings } from "../../config/settings.ts";
import { describeDatabase, openDatabase } from "../../postgres/database.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { createEngineMissingError, readEngineUrl, resolveCommandEnvironment } from "../command-host.ts";
import { type CommandIo, createPrinter, printJson } from "../output.ts";

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
  },
};

interface InitOptions {
  printSql?: boolean;
  role?: string;
}

/** Creates or updates the tables, or prints the SQL for it. */
async function initDatabase({ io, options }: CommandContext<InitOptions>): Promise<number> {
  const { createSchema, formatSchemaSql, formatRoleSql, SCHEMA_VERSION } = await import("../../postgres/schema.ts");
  const { role } = options;
  if (options.printSql) {
    const { formatDispatchSql } = await import("../../postgres/dispatcher.ts");
    const parts = [formatSchemaSql(), await formatDispatchSql(), ...(role === undefined ? [] : [formatRoleSql(role)])];
    io.stdout.write(parts.join("\n"));
    return EXIT.fine;
  }
  const url = await requireEngineUrl(io, options);
  const database = await openDatabase({ url });
  try {
    const before = await createSchema(database);
    const { createDispatchTables } = await import("../../postgres/dispatcher.ts");
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
  const { checkEngine } = await import("../../postgres/check-engine.ts");
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

/** Returns the URL of the engine's database. Throws a SkillError if none is configured. */
export async function requireEngineUrl(io: CommandIo, options: CommandContext<object>["options"]): Promise<string> {
  const around = resolveCommandEnvironment(io, options);
  const url = readEngineUrl(around, (await loadSettings(around)).settings);
  if (url !== undefined) return url;
  throw createEngineMissingError();
}
