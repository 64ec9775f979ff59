import { join } from "node:path";
import { Command, Help } from "commander";
import type { Problem } from "../errors/problem.ts";
import { packageRoot, packageVersion } from "../util/system.ts";
import { findNearest } from "../util/text.ts";
import { type CommandDefinition, EXIT, formatExamples } from "./command-context.ts";
import { listCommand, printOverview } from "./commands/list.ts";
import { type CommandIo, createPrinter } from "./output.ts";

/** Imports the file of a command. Only the file of the command that is run is imported, and that of `list`, whose modules every start needs. */
type LoadCommand = () => Promise<CommandDefinition>;

/** The everyday commands, in the order of the help. */
const EVERYDAY_COMMANDS: Readonly<Record<string, { summary: string; load: LoadCommand }>> = {
  list: {
    summary: "List the skills that were found",
    load: async () => listCommand,
  },
  show: {
    summary: "Show one skill: its source, files and findings",
    load: async () => (await import("./commands/show.ts")).showCommand,
  },
  add: {
    summary: "Add skills from a repository, archive, site or folder",
    load: async () => (await import("./commands/add.ts")).addCommand,
  },
  update: {
    summary: "Update added skills",
    load: async () => (await import("./commands/update.ts")).updateCommand,
  },
  check: {
    summary: "Find out why a skill does not load, and fix it",
    load: async () => (await import("./commands/check.ts")).checkCommand,
  },
  new: {
    summary: "Create a skill from a template",
    load: async () => (await import("./commands/new.ts")).newCommand,
  },
  explain: {
    summary: "Show what a model receives for a query, and why",
    load: async () => (await import("./commands/explain.ts")).explainCommand,
  },
  run: {
    summary: "Run a skill as a sub-agent",
    load: async () => (await import("./commands/run.ts")).runCommand,
  },
  chat: {
    summary: "Chat with an agent that has your skills",
    load: async () => (await import("./commands/chat.ts")).chatCommand,
  },
  connect: {
    summary: "Give your skills to Claude Code, Codex and other agents",
    load: async () => (await import("./commands/connect.ts")).connectCommand,
  },
  trust: {
    summary: "Review the code of a skill and let it run",
    load: async () => (await import("./commands/trust.ts")).trustCommand,
  },
  doctor: {
    summary: "Check this machine: folders, models, sandbox",
    load: async () => (await import("./commands/doctor.ts")).doctorCommand,
  },
};

/** The other commands, by topic, in the order of the help. */
const MORE_COMMANDS: Readonly<Record<string, Readonly<Record<string, LoadCommand>>>> = {
  Skills: {
    eval: async () => (await import("./commands/eval.ts")).evalCommand,
    mine: async () => (await import("./commands/mine.ts")).mineCommand,
    scan: async () => (await import("./commands/scan.ts")).scanCommand,
    sign: async () => (await import("./commands/sign.ts")).signCommand,
    signers: async () => (await import("./commands/sign.ts")).signersCommand,
    schema: async () => (await import("./commands/schema.ts")).schemaCommand,
    types: async () => (await import("./commands/schema.ts")).typesCommand,
    skill: async () => (await import("./commands/check.ts")).skillCommand,
  },
  Added: {
    remove: async () => (await import("./commands/remove.ts")).removeCommand,
    adopt: async () => (await import("./commands/adopt.ts")).adoptCommand,
    outdated: async () => (await import("./commands/update.ts")).outdatedCommand,
    verify: async () => (await import("./commands/verify.ts")).verifyCommand,
  },
  Runs: {
    runs: async () => (await import("./commands/runs.ts")).runsCommand,
    resume: async () => (await import("./commands/resume.ts")).resumeCommand,
    approve: async () => (await import("./commands/approve.ts")).approveCommand,
    cancel: async () => (await import("./commands/resume.ts")).cancelCommand,
    stats: async () => (await import("./commands/stats.ts")).statsCommand,
    studio: async () => (await import("./commands/studio.ts")).studioCommand,
  },
  Workers: {
    worker: async () => (await import("./commands/worker.ts")).workerCommand,
    workers: async () => (await import("./commands/worker.ts")).workersCommand,
    engine: async () => (await import("./commands/worker.ts")).engineCommand,
  },
  Code: {
    script: async () => (await import("./commands/script.ts")).scriptCommand,
    packages: async () => (await import("./commands/packages.ts")).packagesCommand,
    tools: async () => (await import("./commands/call.ts")).toolsCommand,
    call: async () => (await import("./commands/call.ts")).callCommand,
  },
  Systems: {
    capability: async () => (await import("./commands/capability.ts")).capabilityCommand,
    auth: async () => (await import("./commands/auth.ts")).authCommand,
    audit: async () => (await import("./commands/audit.ts")).auditCommand,
  },
  Agents: {
    serve: async () => (await import("./commands/serve.ts")).serveCommand,
    token: async () => (await import("./commands/serve.ts")).tokenCommand,
    hook: async () => (await import("./commands/hook.ts")).hookCommand,
    export: async () => (await import("./commands/export.ts")).exportCommand,
  },
  Setup: {
    config: async () => (await import("./commands/config.ts")).configCommand,
    enable: async () => (await import("./commands/enable.ts")).enableCommand,
    disable: async () => (await import("./commands/enable.ts")).disableCommand,
    setup: async () => (await import("./commands/doctor.ts")).setupCommand,
    completion: async () => (await import("./commands/completion.ts")).completionCommand,
    help: async () => (await import("./commands/help.ts")).helpCommand,
  },
};

const COMMANDS: Record<string, LoadCommand> = Object.assign(
  Object.fromEntries(Object.entries(EVERYDAY_COMMANDS).map(([name, { load }]) => [name, load])),
  ...Object.values(MORE_COMMANDS),
);

/** Former names of commands. They work as before; help, completion and documentation omit them. */
const HIDDEN_COMMANDS: Record<string, LoadCommand> = {
  "mcp-config": async () => (await import("./commands/mcp-config.ts")).mcpConfigCommand,
};
const ALL_COMMANDS: Record<string, LoadCommand> = { ...COMMANDS, ...HIDDEN_COMMANDS };

/** Names that users of other tools type, and the arguments that replace them. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  install: ["add"],
  i: ["add"],
  ls: ["list"],
  find: ["list"],
  info: ["show"],
  rm: ["remove"],
  init: ["new"],
  lint: ["check"],
  validate: ["check"],
  upgrade: ["update"],
  logout: ["auth", "revoke"],
  test: ["eval", "--level", "replay"],
  version: ["--version"],
  "-v": ["--version"],
};

/** Returns the arguments with an alias of a command replaced by the command, also after `help` and the common options. */
export function expandAlias(argv: readonly string[]): readonly string[] {
  const at = findCommandIndex(argv);
  const name = argv[at] ?? "";
  const command = Object.hasOwn(ALIASES, name) ? ALIASES[name] : undefined;
  if (name === "help") return [...argv.slice(0, at + 1), ...expandAlias(argv.slice(at + 1))];
  return command ? [...argv.slice(0, at), ...command, ...argv.slice(at + 1)] : argv;
}

/** Returns the index of the command: the first argument after the common options. */
export function findCommandIndex(argv: readonly string[]): number {
  let at = 0;
  while (/^(?:-C.*|--workspace(?:=.*)?|--json)$/s.test(argv[at] ?? ""))
    at += /^(?:-C|--workspace)$/.test(argv[at] ?? "") ? 2 : 1;
  return at;
}

/** Commands for words with the same meaning, for suggestions. */
const SYNONYMS: Readonly<Record<string, string>> = {
  create: "new",
  delete: "remove",
  describe: "show",
  "disable-all": "disable",
  download: "add",
  "enable-all": "enable",
  exec: "run",
  fetch: "add",
  fix: "check --fix",
  get: "add",
  history: "runs",
  inspect: "show",
  login: "auth login",
  logs: "runs",
  mcp: "serve",
  search: "list",
  status: "doctor",
  sync: "update",
  uninstall: "remove",
  use: "run",
  why: "explain",
};

/** Returns the names of the commands, without those below them. */
export function listCommandNames(): string[] {
  return Object.keys(COMMANDS);
}

/** Builds the program for these arguments. Only commands that they name are imported and defined; the help needs the names alone. */
export async function buildProgram(
  io: CommandIo,
  argv: readonly string[],
  done: (code: number) => void,
): Promise<Command> {
  const { program, attach } = createProgram(io, done);
  attach(program, {
    define: (command) =>
      command
        .addHelpText("after", formatExamples("skillet run host-report", "skillet help run"))
        .addHelpText("after", formatDocumentation()),
    run: printOverview,
  });
  const [named = ""] = argv;
  const names = Object.hasOwn(ALL_COMMANDS, named) ? [named] : Object.keys(COMMANDS);
  for (const name of names) {
    const command = program.command(name);
    if (argv.includes(name)) attach(command, await loadDefinition(name));
    addAliasHelp(command);
  }
  return finishHelp(program, io);
}

/** Builds the program with the definitions of all commands, for completion and documentation. */
export async function buildWholeProgram(io: CommandIo): Promise<Command> {
  const { program, attach } = createProgram(io, () => {});
  attach(program, { define: (command) => command, run: async () => EXIT.fine });
  for (const name of Object.keys(COMMANDS)) attach(addAliasHelp(program.command(name)), await loadDefinition(name));
  return finishHelp(program, io);
}

/** Adds the aliases of a command to its help. */
function addAliasHelp(command: Command): Command {
  const names = Object.keys(ALIASES).filter((alias) => ALIASES[alias]?.join(" ") === command.name());
  return names.length === 0 ? command : command.addHelpText("after", `\nAliases: ${names.join(", ")}`);
}

async function loadDefinition(name: string): Promise<CommandDefinition> {
  const load = Object.hasOwn(ALL_COMMANDS, name) ? ALL_COMMANDS[name] : undefined;
  if (!load) throw new Error(`no command ${name}`);
  return load();
}

function createProgram(io: CommandIo, done: (code: number) => void) {
  const program = new Command("skillet")
    .description("The toolkit for Agent Skills: find them, check them, give them to any agent, run them safely.")
    .usage("[command] [options]")
    .version(packageVersion(), "-V, --version", "Print the version")
    .helpOption("-h, --help", "Show help for a command")
    .helpCommand("help [command]", "Show help for a command") // For commands with others below them.
    .helpCommand(false)
    .enablePositionalOptions()
    .allowExcessArguments()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: () => {}, // `main` prints it as it prints every error.
      getOutHasColors: () => true, // `bold` decides by the terminal and NO_COLOR.
      getErrHasColors: () => true,
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
    })
    .configureHelp(HELP_WRAPPING);
  const attach = (command: Command, entry: CommandDefinition) => {
    entry.define(command);
    if (command !== program) {
      // An excess argument of a command with subcommands was meant to be one of them.
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
function finishHelp(program: Command, io: CommandIo): Command {
  const printer = createPrinter(io.stdout, io.env);
  const bold = (text: string) => printer.bold(text).text;
  return program.configureHelp({
    ...HELP_WRAPPING,
    visibleCommands: () => [],
    commandDescription(this: Help) {
      return `${program.description()}\n\n${formatCommandList(this, bold)}`;
    },
    styleTitle: bold,
  });
}

/** The least width of the column of descriptions. */
const MIN_DESCRIPTION_WIDTH = 24;

const HELP_WRAPPING = {
  minWidthToWrap: MIN_DESCRIPTION_WIDTH,
  /** Puts a description below its term where the column next to it would be too narrow. */
  formatItem(this: Help, term: string, termWidth: number, description: string, helper: Help): string {
    const width = this.helpWidth ?? 80;
    if (width - termWidth - 4 >= MIN_DESCRIPTION_WIDTH)
      return Help.prototype.formatItem.call(this, term, termWidth, description, helper);
    const lines = description === "" ? [] : helper.boxWrap(description, width - 6).split("\n");
    return [`  ${term}`, ...lines.map((line) => `      ${line}`)].join("\n");
  },
};

/** Formats the list of all commands, so that a screen holds it. */
function formatCommandList(helper: Help, bold: (text: string) => string): string {
  const formatRow = (term: string, text: string) => helper.formatItem(term, TERM_WIDTH, text, helper);
  const everyday = Object.entries(EVERYDAY_COMMANDS).map(([name, { summary }]) => formatRow(name, summary));
  const more = Object.entries(MORE_COMMANDS).map(([topic, commands]) =>
    formatRow(topic, Object.keys(commands).join(", ")),
  );
  return [bold("Commands:"), ...everyday, "", bold("More commands:"), ...more].join("\n");
}

/** Formats the path of the shipped documentation. */
function formatDocumentation(): string {
  const root = packageRoot();
  return root === undefined ? "" : `\nDocumentation:\n  ${join(root, "docs", "README.md")}`;
}

/** The columns of a command or a topic. */
const TERM_WIDTH = 7;

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

/** Returns the fix for a wrong command line: the help to read. */
export async function findHelpCommand(argv: readonly string[]): Promise<Pick<Problem, "fix" | "commands">> {
  const [name = "", ...rest] = argv;
  if (!Object.hasOwn(ALL_COMMANDS, name)) return { fix: "see the commands", commands: ["skillet --help"] };
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
  return { fix: `${entry.afterError ?? ""}see its help`, commands: [`skillet ${path.join(" ")} --help`] };
}

/** Returns the command for a word that is not one: by meaning, then by spelling. */
export function findMeantCommand(name: string): string | undefined {
  return Object.hasOwn(SYNONYMS, name) ? SYNONYMS[name] : findNearest(name, listCommandNames());
}

export function failUnknownCommand(above: Command, name: string): never {
  const names = above.commands.map((command) => command.name());
  const meant = above.parent === null ? findMeantCommand(name) : findNearest(name, names);
  above.error(`error: unknown command '${name}'${meant ? `\n(Did you mean ${meant}?)` : ""}`);
}

function addCommonOptions(command: Command): Command {
  return command
    .option("-C, --workspace <folder>", "The workspace; defaults to $AGENT_WORKSPACE_ROOT, else the current folder")
    .option("--json", "Print JSON");
}
