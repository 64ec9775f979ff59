import { Command, type Help } from "commander";
import { packageVersion } from "../package.ts";
import { nearest } from "../shared/text.ts";
import { examples } from "./examples.ts";
import type { Io } from "./io.ts";
import { AUDIT, AUTH, CAPABILITY } from "./rows/capability.ts";
import { CALL, PACKAGES, SCRIPT, TOOLS, TRUST } from "./rows/code.ts";
import { CONFIG } from "./rows/config.ts";
import { EXPORT, INSTALL, UNINSTALL } from "./rows/install.ts";
import { DOCTOR, EVAL, EXPLAIN, LIST, SHOW } from "./rows/look.ts";
import { APPROVE, CANCEL, RESUME, RUNS } from "./rows/run.ts";
import { SCAN } from "./rows/scan.ts";
import { CONNECT, HOOK, MCP_CONFIG, SERVE } from "./rows/serve.ts";
import { COMPLETION, HELP } from "./rows/shell.ts";
import { SIGN, SIGNERS } from "./rows/sign.ts";
import { STATS } from "./rows/stats.ts";
import { ADD, ADOPT, OUTDATED, REMOVE, UPDATE, VERIFY } from "./rows/supply.ts";
import { DISABLE, ENABLE } from "./rows/switch.ts";
import { CHAT, RUN } from "./rows/use.ts";
import { CHECK, NEW, SCHEMA, SETUP, SKILL, TYPES } from "./rows/write.ts";

/** Options that every command takes. */
export interface CommonOptions {
  workspace?: string;
  json?: boolean;
}
export interface Context<Options> {
  io: Io;
  options: Options & CommonOptions;
  args: string[];
}
type Run = (context: Context<never>) => Promise<number>;
export interface Entry {
  define(command: Command): Command;
  /** What a command does is imported only when it is called. */
  load?(): Promise<Run>;
  commands?: Record<string, Entry>;
  /** What else is said where an option is wrong. */
  afterError?: string;
  /** The command exits with 0 whatever happens, and prints `{}` where it printed nothing: its caller takes another code for a refusal. */
  neverFails?: true;
}

/** What stands in one line of the program's help: commands that belong together, and what they do. */
interface Row {
  says: string;
  commands: Record<string, Entry>;
}

/** Every command, in the order of the program's help. */
const GROUPS: Readonly<Record<string, readonly Row[]>> = {
  Look: [
    row("the skills that are found; all about one", { list: LIST, show: SHOW }),
    row("what a model is told for a query; measure it", { explain: EXPLAIN, eval: EVAL }),
    row("where skills are looked for; what is wrong", { doctor: DOCTOR }),
  ],
  Write: [
    row("make a skill that passes every check", { new: NEW }),
    row("what is wrong; what to see before you trust", { check: CHECK, scan: SCAN }),
    row("say who made it; whose word counts for you", { sign: SIGN, signers: SIGNERS }),
    row("JSON Schema and types, for your editor", { schema: SCHEMA, types: TYPES }),
  ],
  Use: [
    row("hand a task to a skill; talk with an agent", { run: RUN, chat: CHAT }),
    row("what was done, what it took and cost", { runs: RUNS, stats: STATS }),
    row("go on with a run, agree to it, call it off", { resume: RESUME, approve: APPROVE, cancel: CANCEL }),
  ],
  Code: [
    row("let the code of skills run", { trust: TRUST }),
    row("scripts in a sandbox; the packages they need", { script: SCRIPT, packages: PACKAGES }),
    row("the tools that skills bring; call one", { tools: TOOLS, call: CALL }),
  ],
  Systems: [
    row("which skill may ask mail, issues, notes", { capability: CAPABILITY }),
    row("sign in to them; all that was asked of them", { auth: AUTH, audit: AUDIT }),
  ],
  Agents: [
    row("give agents your skills; serve them over MCP", { connect: CONNECT, serve: SERVE }),
    row("add the skill that fits to each prompt", { hook: HOOK }),
    row("copies for other clients, zips and plugins", { export: EXPORT }),
  ],
  Fetch: [
    row("skills from elsewhere: look, agree, lock", { add: ADD, update: UPDATE, remove: REMOVE }),
    row("lock what you have; what is newer, changed", { adopt: ADOPT, outdated: OUTDATED, verify: VERIFY }),
  ],
  "Set up": [
    row("settings; switch skills on and off", { config: CONFIG, enable: ENABLE, disable: DISABLE }),
    row("packages for a program that imports skillet", { setup: SETUP }),
    row("TAB in bash, zsh and fish", { completion: COMPLETION }),
    row("more about a command; other names for some", { help: HELP, skill: SKILL }),
  ],
};

function row(says: string, commands: Row["commands"]): Row {
  return { says, commands };
}

const COMMANDS: Record<string, Entry> = Object.assign(
  {},
  ...Object.values(GROUPS).flatMap((rows) => rows.map(({ commands }) => commands)),
);

/** Former names of commands. They work as before, and neither help, completion nor documentation names them. */
const HIDDEN: Record<string, Entry> = { install: INSTALL, uninstall: UNINSTALL, "mcp-config": MCP_CONFIG };
const ALL_COMMANDS: Record<string, Entry> = { ...COMMANDS, ...HIDDEN };

/** The program for these arguments. Only the command they name is built, unless they name none. */
export function buildProgram(io: Io, argv: readonly string[], done: (code: number) => void): Command {
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
    .configureHelp(WRAPPED);
  const attach = (command: Command, entry: Entry) => {
    entry.define(command);
    if (command !== program) {
      // Of what has commands below it, what is too much was meant to be one of them.
      const isAmong = entry.commands !== undefined && command.registeredArguments.length === 0;
      command.copyInheritedSettings(program).allowExcessArguments(isAmong);
    }
    for (const [name, inner] of Object.entries(entry.commands ?? {})) attach(command.command(name), inner);
    if (!entry.load) return;
    const { load } = entry;
    common(command).action(async (...received) => {
      const args = received
        .slice(0, -2)
        .flat()
        .filter((arg): arg is string => arg !== undefined);
      const [unknown] = command.commands.length > 0 ? command.args.slice(command.registeredArguments.length) : [];
      if (unknown !== undefined) unknownCommand(command, unknown);
      const run = await load();
      done(await run({ io, options: command.optsWithGlobals() as never, args }));
    });
  };
  attach(program, {
    define: (command) => command.addHelpText("after", examples("skillet run host-report", "skillet help run")),
    load: async () => (await import("./commands/overview.ts")).overview,
  });
  const [named] = argv;
  const isKnown = named !== undefined && Object.hasOwn(ALL_COMMANDS, named);
  for (const [name, entry] of Object.entries(isKnown ? ALL_COMMANDS : COMMANDS)) {
    if (name === named || !isKnown) attach(program.command(name), entry);
  }
  // Only now: the commands took over how theirs is written.
  return program.configureHelp({ ...WRAPPED, ...inLines(program) });
}

/** 40 when left out: at 80 columns what is said beside long terms was not wrapped at all. */
const WRAPPED = { minWidthToWrap: 24 };

/** The program's own help has one line for commands that belong together, so that a screen holds all. */
function inLines(program: Command): Partial<Help> {
  const lines = () =>
    Object.entries(GROUPS).flatMap(([heading, rows]) =>
      rows.map(({ says, commands }, index) => {
        const [first = "", ...others] = Object.keys(commands);
        const term = `${(index === 0 ? heading : "").padEnd(HEADING)}${[first, ...others].join(", ")}`;
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
const HEADING = 9;

/** Every command and what stands below it, as they are typed; the program alone is the first. */
export function commandPaths(): string[] {
  const below = (commands: Record<string, Entry>, above = ""): string[] =>
    Object.entries(commands).flatMap(([name, { commands: inner = {} }]) => [
      above + name,
      ...below(inner, `${above}${name} `),
    ]);
  return ["", ...below(COMMANDS)];
}

/** Returns true when the arguments name a command that exits with 0 whatever happens. */
export function neverFails([name = ""]: readonly string[]): boolean {
  return Object.hasOwn(COMMANDS, name) && COMMANDS[name]?.neverFails === true;
}

/** What to look at for who typed this, after what else is said there. */
export function helpFor(argv: readonly string[]): string {
  const path: string[] = [];
  let below: Record<string, Entry> | undefined = ALL_COMMANDS;
  let more = "";
  for (const word of argv) {
    const entry: Entry | undefined = below && Object.hasOwn(below, word) ? below[word] : undefined;
    if (!entry) break;
    path.push(word);
    more = entry.afterError ?? "";
    below = entry.commands;
  }
  if (path.length === 0) return "`skillet --help` shows the commands";
  return `${more}see \`skillet ${path.join(" ")} --help\``;
}

export function unknownCommand(above: Command, name: string): never {
  const meant = nearest(
    name,
    above.commands.map((command) => command.name()),
  );
  above.error(`error: unknown command '${name}'${meant ? `\n(Did you mean ${meant}?)` : ""}`);
}

function common(command: Command): Command {
  return command
    .option("-C, --workspace <folder>", "the workspace (else $AGENT_WORKSPACE_ROOT, else the current folder)")
    .option("--json", "print JSON");
}
