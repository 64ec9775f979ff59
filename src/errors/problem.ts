import type { ErrorCode } from "./error-codes.ts";

/** A problem to report that did not stop the operation: a warning, a notice or the reason of a refusal. */
export interface Problem {
  code: ErrorCode;
  message: string;
  fix: string;
  /** Changes of sensitive paths, as lines of a diff. Untrusted text, shown to users only: it is never part of a prompt. */
  diff?: string;
}

interface ErrorDetails {
  message: string;
  fix?: string;
  cause?: unknown;
}

/** The base class of all errors: a code to branch on, a message to read, a fix to try. */
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

/** The error of a skill, section or prompt that is defined in code and is invalid. */
export class PromptValidationError extends SkillError {}

/** Returns the system code of an error (`ENOENT`), or the empty string. */
export function getErrnoCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Returns the message of an error, without the error code and the path that Node adds to it. */
export function getErrorMessage(error: unknown): string {
  if (!(error instanceof Error))
    return Object(error) === error ? "a value that is not an Error was thrown" : String(error);
  return /^[A-Z0-9]+: ([^,]+),/.exec(error.message)?.[1] ?? error.message;
}

/** The general meaning and fix of a code. The message of an actual error is more specific. */
export interface CodeRow {
  meaning: string;
  fix: string;
}

export function defineCode(meaning: string, fix: string): CodeRow {
  return { meaning, fix };
}
