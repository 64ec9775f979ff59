import { expect } from "vitest";
import { PromptValidationError } from "../../src/errors/problem.ts";

/** Returns the thrown error, which must name a fix for the author of the prompt. */
export function catchRefusal(work: () => unknown): PromptValidationError {
  let thrown: unknown;
  try {
    work();
  } catch (error) {
    thrown = error;
  }
  expect(thrown, "the thrown error").toBeInstanceOf(PromptValidationError);
  const error = thrown as PromptValidationError;
  expect(error.fix).toMatch(/\S/);
  expect(error.message).not.toMatch(/\[object/);
  return error;
}
