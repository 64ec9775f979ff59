import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import { LOOK_FIRST, unreachable } from "./failure.ts";

export interface Exchange {
  method: "GET" | "POST" | "PATCH" | "PUT";
  headers: Record<string, string>;
  body?: string | URLSearchParams;
  signal: AbortSignal;
}

export interface Exchanged {
  status: number;
  headers: Headers;
  text: string;
}

const LARGEST_ANSWER = 4 * 1024 * 1024;

/** One request and its whole answer, wherever that leads. Throws a SkillError when there is none, or too much of it. */
export async function exchange(address: URL, request: Exchange): Promise<Exchanged> {
  const { method, signal } = request;
  const asked = { what: inLine(`${method} ${address.pathname}`, 200), isChange: method !== "GET" };
  const pieces: Uint8Array[] = [];
  let size = 0;
  let response: Response;
  try {
    response = await fetch(address, { ...request, redirect: "manual" });
    for await (const piece of response.body ?? []) {
      pieces.push(piece);
      size += piece.length;
      if (size > LARGEST_ANSWER) break;
    }
  } catch (error) {
    throw signal.aborted ? stopped(signal, asked) : unreachable(address.host, whyOf(error), asked);
  }
  if (size > LARGEST_ANSWER) {
    throw new SkillError("provider-answer", {
      message: `GitHub's answer is larger than ${LARGEST_ANSWER / 1024 / 1024} MiB (${asked.what})`,
      fix: asked.isChange
        ? "read what became of it, in parts"
        : "ask for less: a smaller limit, or one thing at a time",
    });
  }
  return { status: response.status, headers: response.headers, text: Buffer.concat(pieces).toString() };
}

function stopped({ reason }: AbortSignal, { what, isChange }: { what: string; isChange: boolean }): SkillError {
  const isLate = reason instanceof Error && reason.name === "TimeoutError";
  const message = `${isLate ? "GitHub did not answer in time" : "It was stopped before GitHub answered"} (${what})`;
  return new SkillError(isLate ? "provider-timeout" : "provider-failed", {
    message,
    ...(isChange ? { fix: LOOK_FIRST } : {}),
  });
}

/** Only what the machine says of it: an address could hold more than people should see. */
function whyOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : "the connection broke";
}
