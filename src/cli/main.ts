import { join } from "node:path";
import { type Command, CommanderError } from "commander";
import { type Problem, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";
import { closeMcpServers, getSkilletHome } from "../util/system.ts";
import { quoteIfNeeded } from "../util/text.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { EXIT, ReportedError } from "./command-context.ts";
import {
  type CommandIo,
  createPrinter,
  type LinkOf,
  printJson,
  printJsonLine,
  printProblem,
  type TerminalStream,
} from "./output.ts";
import { buildProgram, expandAlias, findCommandIndex, findHelpCommand, isNeverFailing } from "./program.ts";

/** Runs the command line as a function. Contract: never throws and never ends the process. */
export async function main(values: readonly string[], terminal: CommandIo): Promise<number> {
  const argv = expandAlias(values);
  const former = findFormerSpelling(values);
  let code: number = EXIT.fine;
  const linkOf = await findDocsLinks(terminal.env);
  const stdout = createRecordingStream(terminal.stdout, linkOf);
  const stderr = linkOf ? createRecordingStream(terminal.stderr, linkOf).stream : terminal.stderr;
  const io = { ...terminal, stdout: stdout.stream, stderr };
  const program = await buildProgram(io, argv, (result) => {
    code = result;
  });
  try {
    if (former) throw former;
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.fine;
    const failure = await describeFailure(error, argv);
    if (!isReported(error)) printFailure(io, failure);
    if (isNeverFailing(argv)) {
      if (!stdout.isWritten()) io.stdout.write("{}\n");
      return EXIT.fine;
    }
    const isParsed = !(error instanceof CommanderError) && error !== former;
    if (!stdout.isWritten()) printFailureJson(io, failure, detectOutputForm({ program, argv, isParsed }));
    return ERROR_EXIT_CODES[failure.code] ?? EXIT.findings;
  } finally {
    await closeMcpServers();
  }
}

/** Error codes with their own exit code. */
export const ERROR_EXIT_CODES: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  "workspace-missing": EXIT.usage,
  "config-unreadable": EXIT.usage,
  "not-confirmed": EXIT.refused,
  "server-name-taken": EXIT.refused,
  "unmanaged-keys": EXIT.refused,
  "unmanaged-hook": EXIT.refused,
  interrupted: EXIT.interrupted,
};

interface ParsedCommand {
  program: Command;
  argv: readonly string[];
  /** False if the arguments could not be parsed completely. */
  isParsed: boolean;
}

async function describeFailure(error: unknown, argv: readonly string[]): Promise<Problem> {
  if (error instanceof SkillError) return error.problem;
  if (error instanceof CommanderError) {
    const [text = "", ...hint] = escapeArguments(error.message, argv)
      .replace(/^error: |\.$/g, "")
      .replace(/^command-argument value '(.*)' is invalid for argument '(.*)'/, 'unknown $2 "$1"')
      .replace(/\. Allowed choices are ([^.]*)$/, "\nsupported: $1;")
      .split("\n");
    const message = isHelpError(error) ? "A subcommand is missing" : `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
    const help = await findHelpCommand(argv);
    return { code: "usage", message, ...help, fix: [...hint.map(stripBrackets), help.fix].join(" ") };
  }
  return { code: "internal-error", message: error instanceof Error ? error.message : String(error), fix: BUG_FIX };
}

/** Returns true if commander printed the help because a subcommand was missing. */
function isHelpError(error: unknown): boolean {
  return error instanceof CommanderError && error.code === "commander.help";
}

function isReported(error: unknown): boolean {
  return error instanceof ReportedError || isHelpError(error);
}

/** Escapes arguments in a message: they may be untrusted file names. */
function escapeArguments(message: string, argv: readonly string[]): string {
  let text = message;
  for (const part of argv.flatMap((arg) => [arg, ...arg.split("=")])) {
    if (part !== escapeLine(part)) text = text.replaceAll(part, escapeLine(part));
  }
  return text;
}

function stripBrackets(hint: string): string {
  return hint.replace(/^\(Did (.*)\)$/, "did $1");
}

const BUG_FIX = "this is a bug in skillet: report it with the command you ran";

function printFailure(io: CommandIo, problem: Problem): void {
  const out = createPrinter(io.stderr, io.env);
  // On one line: it may contain an untrusted file name.
  const fix = problem.fix.split("\n").map((line) => line.trim());
  printProblem(out, out.red("✗"), { ...problem, fix: fix.join(" ") });
}

/** Prints the failure as JSON if JSON was requested and nothing else was printed. */
function printFailureJson({ stdout }: CommandIo, error: Problem, form: OutputForm): void {
  if (form === "json") printJson(stdout, { error });
  else if (form === "lines") printJsonLine(stdout, { type: "error", error });
}

type OutputForm = "json" | "lines" | undefined;

/** Returns the requested output form, also for arguments that could not be parsed completely. */
function detectOutputForm({ program, argv, isParsed }: ParsedCommand): OutputForm {
  const end = argv.indexOf("--");
  const words = end === -1 ? argv : argv.slice(0, end);
  const { json, events, watch, format } = isParsed ? readParsedOptions(program) : readTypedOptions(words);
  if (events || (json && watch)) return "lines";
  return json || format === "json" ? "json" : undefined;
}

function readTypedOptions(words: readonly string[]): OutputOptions {
  return { json: words.includes("--json"), events: words.includes("--events"), watch: words.includes("--watch") };
}

interface OutputOptions {
  json?: boolean;
  events?: boolean;
  watch?: boolean;
  format?: string;
}

function readParsedOptions(command: Command): OutputOptions {
  return Object.assign({}, command.opts(), ...command.commands.map(readParsedOptions));
}

/** Wraps a stream and records if anything was written to it. */
function createRecordingStream(
  stream: TerminalStream,
  linkOf?: LinkOf,
): { stream: TerminalStream; isWritten(): boolean } {
  let isWritten = false;
  return {
    isWritten: () => isWritten,
    stream: {
      write(text) {
        isWritten ||= text !== "";
        return stream.write(text);
      },
      linkOf,
      get isClosed() {
        return stream.isClosed ?? false;
      },
      get isTTY() {
        return stream.isTTY;
      },
      get columns() {
        return stream.columns;
      },
      get rows() {
        return stream.rows;
      },
    },
  };
}

/**
 * Returns the error for a command line that meant something else in an earlier version, with the command that replaces it.
 * Contract: decides by the arguments alone. Nothing is read, fetched or written.
 */
export function findFormerSpelling(argv: readonly string[]): SkillError | undefined {
  const at = findCommandIndex(argv);
  const name = argv[at] ?? "";
  const find = Object.hasOwn(FORMER_SPELLINGS, name) ? FORMER_SPELLINGS[name] : undefined;
  const found = find?.(readArguments([...argv.slice(0, at), ...argv.slice(at + 1)]));
  return found && new SkillError("usage", found);
}

/** The arguments of a command line, before any command has defined its options. */
interface TypedArguments {
  names: readonly string[];
  flags: ReadonlySet<string>;
  /** All arguments, with former options replaced by those of `export`. */
  forExport: readonly string[];
}

const FORMER_SPELLINGS: Readonly<
  Record<string, (typed: TypedArguments) => Pick<Problem, "message" | "fix" | "commands"> | undefined>
> = { install: findFormerInstall, i: findFormerInstall, uninstall: findFormerUninstall };

/** `install` wrote copies for clients, as `export` does; now it adds skills from a source. */
function findFormerInstall({ names, flags, forExport }: TypedArguments) {
  const isCopy = flags.has("--to") || flags.has("--list");
  const isFormer = flags.has("--update") || (isCopy && !names.some(isSource));
  if (!isFormer || flags.has("--help")) return undefined; // The help is of `add`.
  return {
    message: "`install` adds skills from a source; `export` copies them to clients",
    fix: "Use",
    commands: [
      formatCommand(
        "skillet export",
        forExport.filter((arg) => arg !== "--all"),
      ),
    ],
  };
}

/** `uninstall` removed copies from clients. Other tools remove what was added, so it must not do either by itself. */
function findFormerUninstall({ names, flags, forExport }: TypedArguments) {
  const isWhole = names.length > 0 || flags.has("--all");
  const args = isWhole ? forExport : ["NAME", ...forExport];
  const removal = formatCommand("skillet export --remove", args);
  if (flags.has("--to") || flags.has("--all"))
    return { message: "`uninstall` was replaced by `export --remove`", fix: "Use", commands: [removal] };
  return {
    message:
      "`uninstall` was replaced by `skillet remove`, for added skills, and `skillet export --remove`, for copies",
    fix: "Use the first to remove it, or the second to remove its copies from clients",
    commands: [formatCommand("skillet remove", args), removal],
  };
}

/** Returns true for an address of a source. Everything else, such as `name` and `name@source`, is the name of a skill. */
function isSource(text: string): boolean {
  if (/^[a-z][a-z0-9+.-]*:\/\/|^[^/:@]+@[^/:]+:.*\/|^(?:\.{1,2}|~)?(?:\/|$)/i.test(text)) return true;
  return /^[^@]+\//.test(text) || /\.(?:zip|skill|tar\.gz|tgz)$/i.test(text);
}

function readArguments(argv: readonly string[]): TypedArguments {
  const names: string[] = [];
  const flags = new Set<string>();
  const forExport: string[] = [];
  const rest = [...argv];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--") {
      names.push(...rest);
      forExport.push(...rest.splice(0));
    } else if (!word.startsWith("-")) {
      names.push(word);
      forExport.push(word);
    } else {
      // `--to=claude`, `-tclaude` and `-nl` are other spellings of `--to claude` and `-n -l`.
      const [, flag = "", inline] = /^(--[^=]*|-.)=?(.+)?$/s.exec(word) ?? [];
      const option = Object.hasOwn(TYPED_OPTIONS, flag) ? TYPED_OPTIONS[flag] : undefined;
      const isCluster = !option?.hasValue && !flag.startsWith("--") && inline !== undefined;
      if (isCluster) rest.unshift(`-${inline}`);
      if (option === undefined) continue;
      flags.add(option.name);
      forExport.push(option.name, ...(option.hasValue ? [inline ?? rest.shift() ?? "CLIENT"] : []));
    }
  }
  return { names, flags, forExport };
}

/** The options that `install` and `uninstall` had, with their names in `export`. Others are dropped. */
const TYPED_OPTIONS: Readonly<Record<string, { name: string; hasValue?: boolean }>> = {
  "--to": { name: "--to", hasValue: true },
  "-t": { name: "--to", hasValue: true },
  "--from": { name: "--to", hasValue: true },
  "--workspace": { name: "-C", hasValue: true },
  "-C": { name: "-C", hasValue: true },
  "--update": { name: "--update" },
  "--list": { name: "--list" },
  "-l": { name: "--list" },
  "--all": { name: "--all" },
  "-a": { name: "--all" },
  "--project": { name: "--project" },
  "--dry-run": { name: "--dry-run" },
  "-n": { name: "--dry-run" },
  "--force": { name: "--force" },
  "--json": { name: "--json" },
  "--help": { name: "--help" },
  "-h": { name: "--help" },
};

function formatCommand(command: string, args: readonly string[]): string {
  return [command, ...args.map(quoteIfNeeded)].join(" ");
}

/**
 * Returns the links to the pages of codes, if the user configured `docs.url`. A workspace cannot set it. Each command calls
 * this first, so a configuration without the word costs one read.
 */
async function findDocsLinks(env: CommandIo["env"]): Promise<LinkOf | undefined> {
  const path = join(getSkilletHome(env), "config.toml");
  try {
    if (!readRegularText(path, { limit: 1024 * 1024 }).includes("docs")) return undefined;
  } catch {
    return undefined; // The command reports a configuration that cannot be read.
  }
  const { readConfig } = await import("../config/config-file.ts");
  const { ERROR_CODES } = await import("../errors/error-codes.ts");
  const { entries } = await readConfig(path, "user");
  const base = entries.find(({ row }) => row.path === "docs.url")?.value;
  if (typeof base !== "string") return undefined;
  const site = base.replace(/\/+$/, "");
  return (code) => (Object.hasOwn(ERROR_CODES, code) ? `${site}/errors/${code}` : undefined);
}
