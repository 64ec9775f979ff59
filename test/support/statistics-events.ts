import type { ErrorCode } from "../../src/errors/error-codes.ts";
import type { RunEvent } from "../../src/host/events.ts";

type Of<Type extends RunEvent["type"]> = Extract<RunEvent, { type: Type }>;

/** The start event of a run, with only the fields that a test needs. */
export function started(skill: string, more: Partial<Of<"run-started">> = {}): RunEvent {
  const limits = { iterations: 20, seconds: 600 };
  return { type: "run-started", run: "r1", skill, at: now(), model: "test/m", tools: [], depth: 1, limits, ...more };
}

/** The end event of a run. */
export function ended(skill: string, more: Partial<Of<"run-ended">> = {}): RunEvent {
  const usage = { inputTokens: 10, outputTokens: 5, cachedTokens: 0 };
  const end = { stop: "answer" as const, isError: false, iterations: 1, ms: 100, usage };
  return { type: "run-ended", run: crypto.randomUUID(), skill, at: now(), ...end, ...more };
}

export function refused(skill: string, code: ErrorCode): RunEvent {
  const refusals = [{ code, message: "It is not for this chat", fix: "" }];
  return { type: "run-refused", run: crypto.randomUUID(), skill, at: now(), refusals };
}

function now(): string {
  return new Date().toISOString();
}
