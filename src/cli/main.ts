import { type Command, CommanderError } from "commander";
import { closeMcpServers } from "../config/mcp-shutdown.ts";
import { SkillError } from "../errors/problem.ts";
import { omitUndefined } from "../util/objects.ts";
import { escapeLine } from "../util/untrusted-text.ts";
import { EXIT, ReportedError } from "./command-definition.ts";
import {
  type CommandIo,
  createPrinter,
  printJson,
  printJsonLine,
  printProblem,
  type TerminalStream,
} from "./output.ts";
import { buildProgram, formatHelpHint, isNeverFailing } from "./program.ts";

/** The command line as a function. Never throws and never ends the process. */
export async function main(argv: readonly string[], given: CommandIo): Promise<number> {
  let code: number = EXIT.fine;
  const stdout = createRecordingStream(given.stdout);
  const io = { ...given, stdout: stdout.stream };
  const program = await buildProgram(io, argv, (result) => {
    code = result;
  });
  try {
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
    if (!stdout.isWritten()) printFailureJson(io, failure, detectOutputForm(error, { program, argv }));
    return ERROR_EXIT_CODES[failure.code] ?? EXIT.findings;
  } finally {
    await closeMcpServers();
  }
}

/** What ends a command with another code than that of a failure. */
export const ERROR_EXIT_CODES: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  "workspace-missing": EXIT.usage,
  "config-unreadable": EXIT.usage,
  "not-agreed": EXIT.refused,
  "another-server": EXIT.refused,
  "keys-at-stake": EXIT.refused,
  "another-hook": EXIT.refused,
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
    const message = isHelpError(error)
      ? "This command does nothing by itself"
      : `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
    return { code: "usage", message, fix: [...hint.map(stripBrackets), await formatHelpHint(argv)].join(" ") };
  }
  return { code: "bug", message: error instanceof Error ? error.message : String(error), fix: BUG_FIX };
}

/** Whoever left out what to do has been shown what there is. */
function isHelpError(error: unknown): boolean {
  return error instanceof CommanderError && error.code === "commander.help";
}

function isReported(error: unknown): boolean {
  return error instanceof ReportedError || isHelpError(error);
}

/** A message repeats what it was given, which may be the name of somebody's file. */
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

const BUG_FIX = "this is a bug in skillet: please report it with the command you ran";

function printFailure(io: CommandIo, { message, fix = "" }: CommandFailure): void {
  const out = createPrinter(io.stderr, io.env);
  // On one line: it may hold the name of somebody's file.
  printProblem(out, out.red("✗"), message, fix.replace(/\s*\n\s*/g, " "));
}

/** Whoever asked for JSON gets some, whatever happens: what went wrong, where there is nothing else. */
function printFailureJson({ stdout }: CommandIo, error: CommandFailure, form: OutputForm): void {
  if (form === "json") printJson(stdout, { error });
  else if (form === "lines") printJsonLine(stdout, { type: "error", error });
}

type OutputForm = "json" | "lines" | undefined;

/** What was asked for, also by a line that could not be read to its end. */
function detectOutputForm(error: unknown, { program, argv }: ParsedCommand): OutputForm {
  const end = argv.indexOf("--");
  const words = end === -1 ? argv : argv.slice(0, end);
  const { json, events, watch, format } =
    error instanceof CommanderError ? readTypedOptions(words) : readParsedOptions(program);
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

/** A stream, and whether anything was written to it. */
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
