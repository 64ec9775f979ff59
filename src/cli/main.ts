import { type Command, CommanderError } from "commander";
import { closeMcpServers } from "../host/mcp/end.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import { reveal } from "../shared/hidden.ts";
import { EXIT } from "./exit.ts";
import { type Io, printer, printJson, printJsonLine, type Stream } from "./io.ts";
import { buildProgram, helpFor, neverFails } from "./program.ts";
import { sayNotice } from "./say.ts";
import { Told } from "./told.ts";

/** The command line as a function. Never throws and never ends the process. */
export async function main(argv: readonly string[], given: Io): Promise<number> {
  let code: number = EXIT.fine;
  const stdout = noting(given.stdout);
  const io = { ...given, stdout: stdout.stream };
  const program = buildProgram(io, argv, (result) => {
    code = result;
  });
  try {
    await program.parseAsync(argv, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.fine;
    const failure = failureOf(error, argv);
    if (!isSaid(error)) say(io, failure);
    if (neverFails(argv)) {
      if (!stdout.isWritten()) io.stdout.write("{}\n");
      return EXIT.fine;
    }
    if (!stdout.isWritten()) tell(io, failure, formOf(error, { program, argv }));
    return EXITS[failure.code] ?? EXIT.findings;
  } finally {
    await closeMcpServers();
  }
}

/** What ends a command with another code than that of a failure. */
export const EXITS: Readonly<Record<string, number>> = {
  usage: EXIT.usage,
  "workspace-missing": EXIT.usage,
  "config-unreadable": EXIT.usage,
  "not-agreed": EXIT.refused,
  "another-server": EXIT.refused,
  "keys-at-stake": EXIT.refused,
  "another-hook": EXIT.refused,
  interrupted: EXIT.interrupted,
};

interface Failure {
  code: string;
  message: string;
  fix?: string;
}

interface Asked {
  program: Command;
  argv: readonly string[];
}

function failureOf(error: unknown, argv: readonly string[]): Failure {
  if (error instanceof SkillError) {
    const { code, message, fix } = error;
    return { code, message, ...defined({ fix: fix || undefined }) };
  }
  if (error instanceof CommanderError) {
    const [said = "", ...hint] = withoutControls(error.message, argv)
      .replace(/^error: |\.$/g, "")
      .replace(/^command-argument value '(.*)' is invalid for argument '(.*)'/, 'unknown $2 "$1"')
      .replace(/\. Allowed choices are ([^.]*)$/, "\nsupported: $1;")
      .split("\n");
    const message = isHelp(error)
      ? "This command does nothing by itself"
      : `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
    return { code: "usage", message, fix: [...hint.map(unbracketed), helpFor(argv)].join(" ") };
  }
  return { code: "bug", message: error instanceof Error ? error.message : String(error), fix: BUG };
}

/** Whoever left out what to do has been shown what there is. */
function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.code === "commander.help";
}

function isSaid(error: unknown): boolean {
  return error instanceof Told || isHelp(error);
}

/** A message repeats what it was given, which may be the name of somebody's file. */
function withoutControls(message: string, argv: readonly string[]): string {
  let text = message;
  for (const part of argv.flatMap((arg) => [arg, ...arg.split("=")])) {
    if (part !== reveal(part)) text = text.replaceAll(part, reveal(part));
  }
  return text;
}

function unbracketed(hint: string): string {
  return hint.replace(/^\(Did (.*)\)$/, "did $1");
}

const BUG = "this is a bug in skillet: please report it with the command you ran";

function say(io: Io, { message, fix = "" }: Failure): void {
  const out = printer(io.stderr, io.env);
  // On one line: it may hold the name of somebody's file.
  sayNotice(out, out.red("✗"), message, fix.replace(/\s*\n\s*/g, " "));
}

/** Whoever asked for JSON gets some, whatever happens: what went wrong, where there is nothing else. */
function tell({ stdout }: Io, error: Failure, form: Form): void {
  if (form === "json") printJson(stdout, { error });
  else if (form === "lines") printJsonLine(stdout, { type: "error", error });
}

type Form = "json" | "lines" | undefined;

/** What was asked for, also by a line that could not be read to its end. */
function formOf(error: unknown, { program, argv }: Asked): Form {
  const end = argv.indexOf("--");
  const words = end === -1 ? argv : argv.slice(0, end);
  const { json, events, watch, format } = error instanceof CommanderError ? asTyped(words) : optionsOf(program);
  if (events || (json && watch)) return "lines";
  return json || format === "json" ? "json" : undefined;
}

function asTyped(words: readonly string[]): Options {
  return { json: words.includes("--json"), events: words.includes("--events"), watch: words.includes("--watch") };
}

interface Options {
  json?: boolean;
  events?: boolean;
  watch?: boolean;
  format?: string;
}

function optionsOf(command: Command): Options {
  return Object.assign({}, command.opts(), ...command.commands.map(optionsOf));
}

/** A stream, and whether anything was written to it. */
function noting(stream: Stream): { stream: Stream; isWritten(): boolean } {
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
