import type { ErrorCode } from "./error-codes.ts";

/** A problem: what is wrong, and what to do about it. Programs read `code`, `commands` and `data`; the texts are for people and models. */
export interface Problem<Code extends string = ErrorCode> {
  code: Code;
  message: string;
  /** What to do, without the commands; `formatFix` adds these. Empty if nothing can be done. */
  fix: string;
  /** Command lines for the first line of the fix, as they are typed. Contract: variable parts are quoted for a shell. */
  commands?: readonly string[];
  /** Values for programs, without secrets. Contract: never part of a prompt, because it may contain untrusted text. */
  data?: Readonly<Record<string, unknown>>;
}

interface ErrorDetails extends Partial<Pick<Problem, "fix" | "commands" | "data">> {
  message: string;
  cause?: unknown;
}

/** The base class of all errors: a code to branch on, a message to read, a fix to try. */
export class SkillError extends Error implements Problem {
  // Written out, as in every subclass that programs see: the published build shortens the names of classes.
  override readonly name: string = "SkillError";
  readonly code: ErrorCode;
  readonly fix: string;
  declare readonly commands?: readonly string[];
  declare readonly data?: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, { message, fix = "", cause, commands, data }: ErrorDetails) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.fix = fix;
    if (commands !== undefined) this.commands = commands;
    if (data !== undefined) this.data = data;
  }

  /** The error as plain data, for JSON and events. */
  get problem(): Problem {
    return pickProblem(this);
  }
}

/** Returns only the fields of a problem, from an error or from a record with more fields. */
export function pickProblem<Code extends string>({ code, message, fix, commands, data }: Problem<Code>): Problem<Code> {
  return { code, message, fix, ...(commands ? { commands } : {}), ...(data ? { data } : {}) };
}

/** Formats a fix with its commands, for a reader. The commands follow its first line. Empty without both. */
export function formatFix({ fix = "", commands = [] }: Partial<Pick<Problem, "fix" | "commands">>): string {
  if (commands.length === 0) return fix;
  const [first = "", ...more] = fix.split("\n");
  return [`${first || "run"}: ${commands.join("; ")}`, ...more].join("\n");
}

/** Formats a problem in one text, for a model or a log. */
export function formatProblem(problem: Pick<Problem, "message" | "fix" | "commands">): string {
  const fix = formatFix(problem);
  return fix === "" ? problem.message : `${problem.message}: ${fix}`;
}

/** The error of a skill, section or prompt that is defined in code and is invalid. */
export class PromptValidationError extends SkillError {
  override readonly name = "PromptValidationError";
}

/** Returns the system code of an error (`ENOENT`), or the empty string. */
export function getErrnoCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Returns the message of an error, without the error code and the path that Node adds to it. */
export function getErrorMessage(error: unknown): string {
  if (!(error instanceof Error))
    return Object(error) === error ? "a value that is not an Error was thrown" : String(error);
  const message = /^[A-Z0-9]+: ([^,]+),/.exec(error.message)?.[1] ?? error.message;
  // Node's recursive `mkdir` reports a read-only file system in this way.
  const isFolder = "syscall" in error && error.syscall === "mkdir" && getErrnoCode(error) === "ENOENT";
  return isFolder ? `${message}, or the file system is read-only` : message;
}

/** Returns the message of an error, with the path that a call of the system failed for. */
export function getErrorMessageWithPath(error: unknown): string {
  const path = error instanceof Error && "path" in error && getErrnoCode(error) !== "" ? error.path : undefined;
  return typeof path === "string" && path !== "" ? `${path}: ${getErrorMessage(error)}` : getErrorMessage(error);
}

/** The general meaning and fix of a code. The message of an actual error is more specific. */
export interface CodeRow {
  meaning: string;
  fix: string;
}

export function defineCode(meaning: string, fix: string): CodeRow {
  return { meaning, fix };
}
