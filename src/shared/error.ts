import type { ErrorCode } from "../codes/codes.ts";

export interface ErrorDetails {
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
