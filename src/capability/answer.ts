import type { ErrorCode } from "../codes/codes.ts";
import { inLine } from "../shared/prompt.ts";
import type { Data } from "../skill/data.ts";
import { PROTOCOL, type Reply } from "./protocol.ts";

/** What a request came to. A refusal is such an answer, never an exception. */
export type Answer = { ok: true; result: Data } | { ok: false; error: Refusal };

export interface Refusal {
  code: ErrorCode;
  message: string;
  fix?: string;
}

export function refused(code: ErrorCode, message: string, fix?: string): Answer & { ok: false } {
  return { ok: false, error: { code, message: inLine(message, 600), ...(fix ? { fix: inLine(fix, 600) } : {}) } };
}

/** What came of it when it was done: it was not done again. */
export function remembered(answer: Answer): Answer {
  return answer.ok ? { ok: true, result: { ...answer.result, is_repeated: true } } : answer;
}

export function replyLine(id: string, answer: Answer): string {
  const reply: Reply = { v: PROTOCOL, id, ...answer };
  return `${JSON.stringify(reply)}\n`;
}

/** What a provider did not do, in its own words as far as they are fit to be told. */
export function failure(
  error: unknown,
  hide: (text: string) => string,
  usual: ErrorCode = "provider-failed",
): Answer & { ok: false } {
  const { code, message, fix } = Object(error) as { code?: unknown; message?: unknown; fix?: unknown };
  const isOurs = typeof code === "string" && /^[a-z]+(?:-[a-z]+)*$/.test(code);
  const say = (text: unknown) => hide(String(text ?? ""));
  return refused(isOurs ? (code as ErrorCode) : usual, say(message), fix === undefined ? undefined : say(fix));
}
