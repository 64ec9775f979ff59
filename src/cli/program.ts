import { Command, Option } from "commander";
import { packageVersion } from "../package.ts";
import { reveal } from "../shared/hidden.ts";
import { nearest } from "../shared/text.ts";
import { PROFILES } from "../skill/diagnostic.ts";
import { AUDIT, AUTH, CAPABILITY } from "./capability-commands.ts";
import { CALL, PACKAGES, SCRIPT, TOOLS, TRUST } from "./code-commands.ts";
import { CONFIG } from "./config-command.ts";
import { examples } from "./examples.ts";
import { EXPORT, INSTALL, UNINSTALL } from "./install-commands.ts";
import type { Io } from "./io.ts";
import { APPROVE, CANCEL, RESUME, RUNS } from "./run-commands.ts";
import { SCAN } from "./scan-command.ts";
import { MCP_CONFIG, SERVE } from "./serve-commands.ts";
import { SIGN, SIGNERS } from "./sign-commands.ts";
import { STATS } from "./stats-command.ts";
import { ADD, OUTDATED, REMOVE, UPDATE, VERIFY } from "./supply-commands.ts";
import { DISABLE, ENABLE } from "./switch-commands.ts";
import { CHAT, RUN } from "./use-commands.ts";

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
}

const LIST: Entry = {
  define: (command) =>
    command
      .description("list the skills that are found")
      .option("-a, --all", "also what is shadowed, disabled or broken, with the reasons")
      .addOption(
        new Option("--installed", "what was added, from where, and whether it is as its lock says").conflicts([
          "all",
          "watch",
          "prompt",
        ]),
      )
      .addOption(new Option("-w, --watch", "stay, and show changes as they happen").conflicts("all"))
      .addOption(
        new Option("--prompt", "print them as a section of a system prompt").conflicts(["all", "watch", "json"]),
      )
      .option("--paths", "with --prompt: also where a skill's folder is for its code")
      .addHelpText(
        "after",
        examples("skillet list", "skillet list --all", "skillet list --json | jq '.skills[].name'"),
      ),
  load: async () => (await import("./commands/list.ts")).list,
};

/** Every command, one row each. */
const COMMANDS: Record<string, Entry> = {
  list: LIST,
  show: {
    define: (command) =>
      command
        .description("show one skill: what it costs, where it comes from, its files and findings")
        .argument("<name>", "a skill, or `name@source` for a shadowed copy")
        .argument("[file]", "one of its files: print it")
        .option("--body", "print the instructions")
        .addHelpText(
          "after",
          examples(
            "skillet show skillmaker",
            "skillet show skillmaker@bundled",
            "skillet show skillmaker quality-checklist.md",
          ),
        ),
    load: async () => (await import("./commands/show.ts")).show,
  },
  check: {
    define: (command) =>
      command
        .description("check skill files and say what is wrong, where, and how to mend it")
        .argument(
          "[path...]",
          "skill folders, skill files, folders of skills, or names; the workspace's skills when left out",
        )
        .addOption(new Option("-p, --profile <name>", "what to check against").choices(PROFILES).default("load"))
        .addOption(
          new Option("-f, --format <name>", "how to print the findings")
            .choices(["text", "json", "sarif", "github"])
            .default("text")
            .conflicts("json"),
        )
        .option("--fix", "mend what can be mended safely")
        .option("--strict", "warnings count as errors")
        .addHelpText(
          "after",
          examples(
            "skillet check skills/deploy",
            "skillet check skills --profile agentskills",
            "skillet check skills --fix",
            "skillet check --format sarif > skills.sarif",
          ),
        ),
    load: async () => (await import("./commands/check.ts")).check,
  },
  scan: SCAN,
  explain: {
    define: (command) =>
      command
        .description("say what a model is told for a query, and why each skill was chosen or not")
        .argument("<query>", "what the user asks")
        .option("-s, --skill <name>", "explain one skill")
        .option("--file <path...>", "paths that the conversation is about, for skills with `paths`")
        .option("--max-skills <number>", "tell the instructions of at most so many skills")
        .option("--budget <tokens>", "tell at most so much")
        .option("--shortlist", "name the skills that fit by their words when no trigger does")
        .option("--text", "print only what the model is told")
        .addHelpText(
          "after",
          examples(
            'skillet explain "greet the new team"',
            'skillet explain "review my change" --skill code-review',
            'skillet explain "list skills" --budget 1500 --text',
          ),
        ),
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  eval: {
    define: (command) =>
      command
        .description("measure whether queries find the skills they are for (evals/triggers.json of a skill)")
        .argument("[path...]", "folders of skills, skill folders, or names; every skill found when left out")
        .option("-a, --all", "compete with every skill found here, not only with their neighbours")
        .option("-m, --misses", "list the queries that missed and those that triggered wrongly")
        .option("--ci", "exit 1 when the threshold is not reached")
        .option("--threshold <share>", "the least recall@3, and the most false triggers above it", "0.8")
        .addHelpText(
          "after",
          examples(
            "skillet eval skills",
            "skillet eval skills/deploy --misses",
            "skillet eval skills --ci --threshold 0.9",
          ),
        ),
    load: async () => (await import("./commands/eval.ts")).evaluateSkills,
  },
  new: {
    define: (command) =>
      command
        .description("make a new skill that passes every check; says what your words for it break")
        .argument("<name>", "lower-case letters, digits and hyphens")
        .option("-d, --description <text>", "what it does and when to use it")
        .addOption(new Option("--in <folder>", "the folder for it").default(undefined, "<workspace>/skills"))
        .addOption(new Option("--user", "make it in your own skills, ~/.skillet/skills").conflicts("in"))
        .addHelpText(
          "after",
          examples(
            "skillet new release-notes",
            'skillet new deploy --description "Deploys the app. Use when asked to ship."',
          ),
        ),
    load: async () => (await import("./commands/new.ts")).newSkill,
  },
  run: RUN,
  chat: CHAT,
  runs: RUNS,
  resume: RESUME,
  approve: APPROVE,
  cancel: CANCEL,
  script: SCRIPT,
  tools: TOOLS,
  call: CALL,
  packages: PACKAGES,
  trust: TRUST,
  capability: CAPABILITY,
  auth: AUTH,
  audit: AUDIT,
  serve: SERVE,
  "mcp-config": MCP_CONFIG,
  add: ADD,
  update: UPDATE,
  remove: REMOVE,
  verify: VERIFY,
  outdated: OUTDATED,
  install: INSTALL,
  uninstall: UNINSTALL,
  export: EXPORT,
  sign: SIGN,
  signers: SIGNERS,
  enable: ENABLE,
  disable: DISABLE,
  stats: STATS,
  doctor: {
    define: (command) =>
      command
        .description("show the folders that are searched, the configuration, and what is wrong")
        .option("--sandbox", "try what the sandbox promises, and show what holds")
        .addOption(
          new Option("--tools", "start the configured servers of tools, and show what they have").conflicts("sandbox"),
        )
        .addOption(
          new Option("--fix", "install what is missing, with the system's package manager").conflicts("sandbox"),
        )
        .option("-y, --yes", "do not ask before that")
        .addHelpText(
          "after",
          examples(
            "skillet doctor",
            "skillet doctor --sandbox",
            "skillet doctor --tools",
            "skillet doctor --fix",
            "skillet doctor --json",
          ),
        ),
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  config: CONFIG,
  skill: {
    define: (command) => command.description("the same under other names: skill list, skill validate"),
    commands: {
      list: LIST,
      validate: {
        define: (command) =>
          command
            .description("say whether a path is a valid skill; as `skillet check PATH`")
            .argument("<path>", "a skill folder or file")
            .addHelpText("after", examples("skillet skill validate skills/deploy")),
        load: async () => (await import("./commands/check.ts")).check,
      },
    },
  },
};

/** The program for these arguments. Only the command they name is built, unless they name none. */
export function buildProgram(io: Io, argv: readonly string[], done: (code: number) => void): Command {
  const program = new Command("skillet")
    .description("Skills for any agent: find them, check them, see what a model is told about them, and use them.")
    .usage("[command] [options]")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help for a command")
    .helpCommand("help [command]", "show help for a command")
    .enablePositionalOptions()
    .allowExcessArguments() // `unknownCommand` knows what was meant.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(withoutControls(text, argv)),
      getOutHelpWidth: () => io.stdout.columns || 100,
      getErrHelpWidth: () => io.stderr.columns || 100,
    })
    .configureHelp({ minWidthToWrap: 24 }) // 40 when left out: at 80 columns the list of commands was not wrapped at all.
    .showHelpAfterError("(`skillet --help` shows the commands)");
  const attach = (command: Command, entry: Entry) => {
    entry.define(command);
    if (command !== program) {
      command.copyInheritedSettings(program).allowExcessArguments(false);
      command.showHelpAfterError(`${entry.afterError ?? ""}(see \`skillet ${pathOf(command, program)} --help\`)`);
    }
    for (const [name, inner] of Object.entries(entry.commands ?? {})) attach(command.command(name), inner);
    if (!entry.load) return;
    const { load } = entry;
    common(command).action(async (...received) => {
      const args = received
        .slice(0, -2)
        .flat()
        .filter((arg): arg is string => arg !== undefined);
      if (command === program && command.args.length > 0) unknownCommand(program);
      const run = await load();
      done(await run({ io, options: command.optsWithGlobals() as never, args }));
    });
  };
  attach(program, {
    define: (command) => command,
    load: async () => (await import("./commands/overview.ts")).overview,
  });
  const [named] = argv;
  for (const [name, entry] of Object.entries(COMMANDS)) {
    if (name === named || named === undefined || !Object.hasOwn(COMMANDS, named)) attach(program.command(name), entry);
  }
  return program;
}

/** Every command and what stands below it, as they are typed; the program alone is the first. */
export function commandPaths(): string[] {
  const below = (commands: Record<string, Entry>, above = ""): string[] =>
    Object.entries(commands).flatMap(([name, { commands: inner = {} }]) => [
      above + name,
      ...below(inner, `${above}${name} `),
    ]);
  return ["", ...below(COMMANDS)];
}

function pathOf(command: Command, program: Command): string {
  const above = command.parent;
  return above === null || above === program ? command.name() : `${pathOf(above, program)} ${command.name()}`;
}

/** A message repeats what it was given, which may be the name of somebody's file. */
function withoutControls(message: string, argv: readonly string[]): string {
  let text = message;
  for (const part of argv.flatMap((arg) => [arg, ...arg.split("=")])) {
    if (part !== reveal(part)) text = text.replaceAll(part, reveal(part));
  }
  return text;
}

function unknownCommand(program: Command): never {
  const [name = ""] = program.args;
  const meant = nearest(name, Object.keys(COMMANDS));
  program.error(`error: unknown command '${name}'${meant ? `\nDid you mean ${meant}?` : ""}`);
}

function common(command: Command): Command {
  return command
    .option("-C, --workspace <folder>", "the workspace (else $AGENT_WORKSPACE_ROOT, else the current folder)")
    .option("--json", "print JSON");
}
