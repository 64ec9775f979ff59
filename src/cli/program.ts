import { Command, type Help } from "commander";
import { packageVersion } from "../package.ts";
import { findNearest } from "../util/text.ts";
import { type CommandDefinition, formatExamples } from "./command-definition.ts";
import type { CommandIo } from "./output.ts";

/** Imports the file of a command. Only the file of the command that is run is imported. */
type LoadCommand = () => Promise<CommandDefinition>;

/** What stands in one line of the program's help: commands that belong together, and what they do. */
interface HelpRow {
  says: string;
  commands: Record<string, LoadCommand>;
}

/** Every command, in the order of the program's help. */
const COMMAND_GROUPS: Readonly<Record<string, readonly HelpRow[]>> = {
  Look: [
    createHelpRow("the skills that are found; all about one", {
      list: async () => (await import("./commands/list.ts")).listCommand,
      show: async () => (await import("./commands/show.ts")).showCommand,
    }),
    createHelpRow("what a model is told for a query; measure it", {
      explain: async () => (await import("./commands/explain.ts")).explainCommand,
      eval: async () => (await import("./commands/eval.ts")).evalCommand,
    }),
    createHelpRow("where skills are looked for; what is wrong", {
      doctor: async () => (await import("./commands/doctor.ts")).doctorCommand,
    }),
  ],
  Write: [
    createHelpRow("make a skill that passes every check", {
      new: async () => (await import("./commands/new.ts")).newCommand,
    }),
    createHelpRow("what is wrong; what to see before you trust", {
      check: async () => (await import("./commands/check.ts")).checkCommand,
      scan: async () => (await import("./commands/scan.ts")).scanCommand,
    }),
    createHelpRow("say who made it; whose word counts for you", {
      sign: async () => (await import("./commands/sign.ts")).signCommand,
      signers: async () => (await import("./commands/signers.ts")).signersCommand,
    }),
    createHelpRow("JSON Schema and types, for your editor", {
      schema: async () => (await import("./commands/schema.ts")).schemaCommand,
      types: async () => (await import("./commands/types.ts")).typesCommand,
    }),
  ],
  Use: [
    createHelpRow("hand a task to a skill; talk with an agent", {
      run: async () => (await import("./commands/run.ts")).runCommand,
      chat: async () => (await import("./commands/chat.ts")).chatCommand,
    }),
    createHelpRow("what was done, what it took and cost", {
      runs: async () => (await import("./commands/runs.ts")).runsCommand,
      stats: async () => (await import("./commands/stats.ts")).statsCommand,
    }),
    createHelpRow("go on with a run, agree to it, call it off", {
      resume: async () => (await import("./commands/resume.ts")).resumeCommand,
      approve: async () => (await import("./commands/approve.ts")).approveCommand,
      cancel: async () => (await import("./commands/cancel.ts")).cancelCommand,
    }),
  ],
  Code: [
    createHelpRow("let the code of skills run", {
      trust: async () => (await import("./commands/trust.ts")).trustCommand,
    }),
    createHelpRow("scripts in a sandbox; the packages they need", {
      script: async () => (await import("./commands/script.ts")).scriptCommand,
      packages: async () => (await import("./commands/packages.ts")).packagesCommand,
    }),
    createHelpRow("the tools that skills bring; call one", {
      tools: async () => (await import("./commands/tools.ts")).toolsCommand,
      call: async () => (await import("./commands/call.ts")).callCommand,
    }),
  ],
  Systems: [
    createHelpRow("which skill may ask mail, issues, notes", {
      capability: async () => (await import("./commands/capability.ts")).capabilityCommand,
    }),
    createHelpRow("sign in to them; all that was asked of them", {
      auth: async () => (await import("./commands/auth.ts")).authCommand,
      audit: async () => (await import("./commands/audit.ts")).auditCommand,
    }),
  ],
  Agents: [
    createHelpRow("give agents your skills; serve them over MCP", {
      connect: async () => (await import("./commands/connect.ts")).connectCommand,
      serve: async () => (await import("./commands/serve.ts")).serveCommand,
    }),
    createHelpRow("add the skill that fits to each prompt", {
      hook: async () => (await import("./commands/hook.ts")).hookCommand,
    }),
    createHelpRow("copies for other clients, zips and plugins", {
      export: async () => (await import("./commands/export.ts")).exportCommand,
    }),
  ],
  Fetch: [
    createHelpRow("skills from elsewhere: look, agree, lock", {
      add: async () => (await import("./commands/add.ts")).addCommand,
      update: async () => (await import("./commands/update.ts")).updateCommand,
      remove: async () => (await import("./commands/remove.ts")).removeCommand,
    }),
    createHelpRow("lock what you have; what is newer, changed", {
      adopt: async () => (await import("./commands/adopt.ts")).adoptCommand,
      outdated: async () => (await import("./commands/outdated.ts")).outdatedCommand,
      verify: async () => (await import("./commands/verify.ts")).verifyCommand,
    }),
  ],
  "Set up": [
    createHelpRow("settings; switch skills on and off", {
      config: async () => (await import("./commands/config.ts")).configCommand,
      enable: async () => (await import("./commands/enable.ts")).enableCommand,
      disable: async () => (await import("./commands/enable.ts")).disableCommand,
    }),
    createHelpRow("packages for a program that imports skillet", {
      setup: async () => (await import("./commands/setup.ts")).setupCommand,
    }),
    createHelpRow("TAB in bash, zsh and fish", {
      completion: async () => (await import("./commands/completion.ts")).completionCommand,
    }),
    createHelpRow("more about a command; other names for some", {
      help: async () => (await import("./commands/help.ts")).helpCommand,
      skill: async () => (await import("./commands/check.ts")).skillCommand,
    }),
  ],
};

function createHelpRow(says: string, commands: HelpRow["commands"]): HelpRow {
  return { says, commands };
}

const COMMANDS: Record<string, LoadCommand> = Object.assign(
  {},
  ...Object.values(COMMAND_GROUPS).flatMap((rows) => rows.map(({ commands }) => commands)),
);

/** Former names of commands. They work as before, and neither help, completion nor documentation names them. */
const HIDDEN_COMMANDS: Record<string, LoadCommand> = {
  install: async () => (await import("./commands/install.ts")).installCommand,
  uninstall: async () => (await import("./commands/install.ts")).uninstallCommand,
  "mcp-config": async () => (await import("./commands/mcp-config.ts")).mcpConfigCommand,
};
const ALL_COMMANDS: Record<string, LoadCommand> = { ...COMMANDS, ...HIDDEN_COMMANDS };

/** Builds the program for these arguments. Only commands that they name are imported and defined; the help needs the names alone. */
export async function buildProgram(
  io: CommandIo,
  argv: readonly string[],
  done: (code: number) => void,
): Promise<Command> {
  const { program, attach } = createProgram(io, done);
  attach(program, {
    define: (command) => command.addHelpText("after", formatExamples("skillet run host-report", "skillet help run")),
    run: async (context) => (await import("./commands/list.ts")).printOverview(context),
  });
  const [named = ""] = argv;
  const names = Object.hasOwn(ALL_COMMANDS, named) ? [named] : Object.keys(COMMANDS);
  for (const name of names) {
    const command = program.command(name);
    if (argv.includes(name)) attach(command, await loadDefinition(name));
  }
  return finishHelp(program);
}

/** Builds the program with the definitions of all commands, for completion and documentation. */
export async function buildWholeProgram(io: CommandIo): Promise<Command> {
  const { program, attach } = createProgram(io, () => {});
  attach(program, { define: (command) => command });
  for (const name of Object.keys(COMMANDS)) attach(program.command(name), await loadDefinition(name));
  return finishHelp(program);
}

async function loadDefinition(name: string): Promise<CommandDefinition> {
  const load = Object.hasOwn(ALL_COMMANDS, name) ? ALL_COMMANDS[name] : undefined;
  if (!load) throw new Error(`no command ${name}`);
  return load();
}

function createProgram(io: CommandIo, done: (code: number) => void) {
  const program = new Command("skillet")
    .description("Skills for any agent: find them, check them, see what a model is told, use them.")
    .usage("[command] [options]")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help for a command")
    .helpCommand("help [command]", "show help for a command") // For commands with others below them.
    .helpCommand(false)
    .enablePositionalOptions()
    .allowExcessArguments()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: () => {}, // It is said as any other failure is.
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
    })
    .configureHelp(HELP_WRAPPING);
  const attach = (command: Command, entry: CommandDefinition) => {
    entry.define(command);
    if (command !== program) {
      // Of what has commands below it, what is too much was meant to be one of them.
      const isAmong = entry.commands !== undefined && command.registeredArguments.length === 0;
      command.copyInheritedSettings(program).allowExcessArguments(isAmong);
    }
    for (const [name, inner] of Object.entries(entry.commands ?? {})) attach(command.command(name), inner);
    const { run } = entry;
    if (!run) return;
    addCommonOptions(command).action(async (...received) => {
      const args = received
        .slice(0, -2)
        .flat()
        .filter((arg): arg is string => arg !== undefined);
      const [unknown] = command.commands.length > 0 ? command.args.slice(command.registeredArguments.length) : [];
      if (unknown !== undefined) failUnknownCommand(command, unknown);
      done(await run({ io, options: command.optsWithGlobals() as never, args }));
    });
  };
  return { program, attach };
}

/** Sets the help of the program itself. Called last: commands copy the settings of the program when they are added. */
function finishHelp(program: Command): Command {
  return program.configureHelp({ ...HELP_WRAPPING, ...createGroupedHelp(program) });
}

/** 40 when left out: at 80 columns what is said beside long terms was not wrapped at all. */
const HELP_WRAPPING = { minWidthToWrap: 24 };

/** The program's own help has one line for commands that belong together, so that a screen holds all. */
function createGroupedHelp(program: Command): Partial<Help> {
  const lines = () =>
    Object.entries(COMMAND_GROUPS).flatMap(([heading, rows]) =>
      rows.map(({ says, commands }, index) => {
        const [first = "", ...others] = Object.keys(commands);
        const term = `${(index === 0 ? heading : "").padEnd(HEADING_WIDTH)}${[first, ...others].join(", ")}`;
        return { first, term, says };
      }),
    );
  const lineOf = (command: Command) => lines().find(({ first }) => first === command.name());
  return {
    visibleCommands: () => program.commands.filter(lineOf),
    subcommandTerm: (command) => lineOf(command)?.term ?? "",
    subcommandDescription: (command) => lineOf(command)?.says ?? "",
  };
}

/** The columns of a heading. */
const HEADING_WIDTH = 9;

/** Returns every command and subcommand as it is typed; the program alone is the first. */
export async function listCommandPaths(): Promise<string[]> {
  const below = (commands: Record<string, CommandDefinition>, above = ""): string[] =>
    Object.entries(commands).flatMap(([name, { commands: inner = {} }]) => [
      above + name,
      ...below(inner, `${above}${name} `),
    ]);
  const definitions: Record<string, CommandDefinition> = {};
  for (const name of Object.keys(COMMANDS)) definitions[name] = await loadDefinition(name);
  return ["", ...below(definitions)];
}

/** Commands that exit with 0 whatever happens. */
const NEVER_FAILING = ["hook"];

/** Returns true when the arguments name a command that exits with 0 whatever happens. */
export function isNeverFailing([name = ""]: readonly string[]): boolean {
  return NEVER_FAILING.includes(name);
}

/** Returns the hint for a wrong command line: the help to read. */
export async function formatHelpHint(argv: readonly string[]): Promise<string> {
  const [name = "", ...rest] = argv;
  if (!Object.hasOwn(ALL_COMMANDS, name)) return "`skillet --help` shows the commands";
  let entry = await loadDefinition(name);
  const path = [name];
  for (const word of rest) {
    const inner: CommandDefinition | undefined = Object.hasOwn(entry.commands ?? {}, word)
      ? entry.commands?.[word]
      : undefined;
    if (!inner) break;
    path.push(word);
    entry = inner;
  }
  return `${entry.afterError ?? ""}see \`skillet ${path.join(" ")} --help\``;
}

export function failUnknownCommand(above: Command, name: string): never {
  const meant = findNearest(
    name,
    above.commands.map((command) => command.name()),
  );
  above.error(`error: unknown command '${name}'${meant ? `\n(Did you mean ${meant}?)` : ""}`);
}

function addCommonOptions(command: Command): Command {
  return command
    .option("-C, --workspace <folder>", "the workspace (else $AGENT_WORKSPACE_ROOT, else the current folder)")
    .option("--json", "print JSON");
}
