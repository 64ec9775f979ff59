import { type Command, CommanderError } from "commander";
import { closeMcpServers } from "../config/mcp-shutdown.ts";
import { SkillError } from "../errors/problem.ts";
import { omitUndefined } from "../util/objects.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { EXIT, ReportedError } from "./command-definition.ts";
import { findFormerSpelling } from "./former-spelling.ts";
import {
  type CommandIo,
  createPrinter,
  printJson,
  printJsonLine,
  printProblem,
  type TerminalStream,
} from "./output.ts";
import { buildProgram, expandAlias, formatHelpHint, isNeverFailing } from "./program.ts";

/** Runs the command line as a function. Contract: never throws and never ends the process. */
export async function main(given: readonly string[], terminal: CommandIo): Promise<number> {
  const argv = expandAlias(given);
  const former = findFormerSpelling(given);
  let code: number = EXIT.fine;
  const stdout = createRecordingStream(terminal.stdout);
  const io = { ...terminal, stdout: stdout.stream };
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

interface CommandFailure {
  code: string;
  message: string;
  fix?: string;
}

interface ParsedCommand {
  program: Command;
  argv: readonly string[];
  /** False if the arguments could not be parsed completely. */
  isParsed: boolean;
}

async function describeFailure(error: unknown, argv: readonly string[]): Promise<CommandFailure> {
  if (error instanceof SkillError) {
    const { code, message, fix } = error;
    return { code, message, ...omitUndefined({ fix: fix || undefined }) };
  }
  if (error instanceof CommanderError) {
    const [said = "", ...hint] = escapeArguments(error.message, argv)
      .replace(/^error: |\.$/g, "")
      .replace(/^command-argument value '(.*)' is invalid for argument '(.*)'/, 'unknown $2 "$1"')
      .replace(/\. Allowed choices are ([^.]*)$/, "\nsupported: $1;")
      .split("\n");
    const message = isHelpError(error) ? "A subcommand is missing" : `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
    return { code: "usage", message, fix: [...hint.map(stripBrackets), await formatHelpHint(argv)].join(" ") };
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

function printFailure(io: CommandIo, { message, fix = "" }: CommandFailure): void {
  const out = createPrinter(io.stderr, io.env);
  // On one line: it may contain an untrusted file name.
  printProblem(out, out.red("✗"), message, fix.replace(/\s*\n\s*/g, " "));
}

/** Prints the failure as JSON if JSON was requested and nothing else was printed. */
function printFailureJson({ stdout }: CommandIo, error: CommandFailure, form: OutputForm): void {
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
function createRecordingStream(stream: TerminalStream): { stream: TerminalStream; isWritten(): boolean } {
  let isWritten = false;
  return {
    isWritten: () => isWritten,
    stream: {
      write(text) {
        isWritten ||= text !== "";
        return stream.write(text);
      },
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
