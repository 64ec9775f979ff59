import type { ErrorCode } from "./error-codes.ts";

/** What somebody should look at although the code ran. */
export interface Problem {
  code: ErrorCode;
  message: string;
  fix: string;
  /** Changes of sensitive paths, as lines of a diff. Text of others, for people: it is in no prompt. */
  diff?: string;
}

interface ErrorDetails {
  message: string;
  fix?: string;
  cause?: unknown;
}

/** The one error class: a code to branch on, a sentence to read, a fix to try. */
export class SkillError extends Error {
  readonly code: ErrorCode;
  readonly fix: string | undefined;

  constructor(code: ErrorCode, details: ErrorDetails) {
    super(details.message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.fix = details.fix;
  }
}

/** A skill or prompt that a programmer defined in code and that cannot be what it says. */
export class PromptValidationError extends SkillError {}

/** The system's code of an error (`ENOENT`), or the empty string. */
export function getErrnoCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** What went wrong, without the path that Node's message repeats. */
export function getErrorMessage(error: unknown): string {
  if (!(error instanceof Error))
    return Object(error) === error ? "something that is no error was thrown" : String(error);
  return /^[A-Z0-9]+: ([^,]+),/.exec(error.message)?.[1] ?? error.message;
}

/** What a code means, in a sentence, and what to do about it. The message of the moment says more. */
export interface CodeRow {
  means: string;
  fix: string;
}

export function defineCode(means: string, fix: string): CodeRow {
  return { means, fix };
}
