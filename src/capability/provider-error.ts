import { PROVIDER_CODES } from "../host/capabilities.ts";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import { inLine } from "../shared/prompt.ts";
import { LONGEST_LINE } from "./envelope-methods.ts";

/** How long an answer may take: what was asked for, within what is sensible. */
export function secondsOf(asked: number | undefined): number {
  const seconds = asked === undefined || Number.isNaN(asked) ? DEFAULT_SECONDS : asked;
  return Math.min(Math.max(seconds, LEAST_SECONDS), MOST_SECONDS);
}

const [DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS] = [30, 1, 300];

/** What went wrong in a provider, as everybody is told it: one of the codes for that, and short texts. */
export function asProviderError(error: unknown, namespace: string): SkillError {
  const { code, fix } = error instanceof SkillError ? error : {};
  const said = inLine(reason(error), LONGEST_LINE) || "it did not say why";
  const known = PROVIDER_CODES.find((one) => one === code);
  if (known === undefined) {
    return new SkillError("provider-failed", { message: `The provider of ${namespace} failed: ${said}`, cause: error });
  }
  return new SkillError(known, {
    message: said,
    ...(fix === undefined ? {} : { fix: inLine(fix, LONGEST_LINE) }),
    cause: error,
  });
}

/** What a program printed beside its answer, without secrets: the cause of its failure, for whoever mends it. */
export class Printed extends Error {
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

export function tooLate(namespace: string, seconds: number): SkillError {
  return new SkillError("provider-timeout", {
    message: `The provider of ${namespace} did not answer within ${seconds} ${seconds === 1 ? "second" : "seconds"}`,
    fix: `try again, or give it longer: timeout_seconds under [capabilities.providers.${namespace}], up to ${MOST_SECONDS}`,
  });
}

/** The caller did not wait for it. */
export function stopped(namespace: string, signal: AbortSignal): SkillError {
  const isLate = Object(signal.reason).name === "TimeoutError";
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message: `The provider of ${namespace} was stopped before it answered`,
    cause: signal.reason,
  });
}

/** What this comes to; a time-out when it does not in time, and at once when the caller gives up. What hangs is left behind. */
export async function inTime<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { namespace, seconds: asked, signal }: { namespace: string; seconds: number; signal: AbortSignal },
): Promise<T> {
  const seconds = secondsOf(asked);
  if (signal.aborted) throw stopped(namespace, signal);
  const inner = new AbortController();
  let onAbort = () => {};
  let timer: NodeJS.Timeout | undefined;
  const given = new Promise<never>((_, reject) => {
    const end = (error: SkillError) => {
      reject(error);
      inner.abort(error);
    };
    onAbort = () => end(stopped(namespace, signal));
    signal.addEventListener("abort", onAbort, { once: true });
    timer = setTimeout(() => end(tooLate(namespace, seconds)), seconds * 1000);
  });
  try {
    return await Promise.race([work(inner.signal), given]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}
