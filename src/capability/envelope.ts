import { PROVIDER_CODES, type ProviderContext } from "../host/capabilities.ts";
import { defined } from "../shared/defined.ts";
import { SkillError } from "../shared/error.ts";
import type { Data } from "../skill/data.ts";
import { CONTEXT, LONGEST_LINE, METHODS, type Params, type ProviderMethod, type Result } from "./envelope-methods.ts";
import { anything, data, flag, line, number, object, one, optional, type Part, text, Unfit } from "./envelope-parts.ts";

/**
 * What the host and a provider's program say to each other: one JSON object each way, the request on one line of stdin, the answer
 * on stdout, and a process for each. Strict both ways: what is not known is refused, so that nobody believes to have said it.
 */
const ENVELOPE = 1;

/** In bytes. */
export const LARGEST_ANSWER: number = 4 * 1024 * 1024;
export const LARGEST_REQUEST: number = 4 * 1024 * 1024;

export interface ProviderRequest<Method extends ProviderMethod = ProviderMethod> {
  id: string;
  method: Method;
  namespace: string;
  params: Params<Method>;
  context: Partial<ProviderContext>;
  /** How long the answer may take. */
  deadlineMs: number;
}

/** A request of any method, with what it comes with. */
export type AnyRequest = { [Method in ProviderMethod]: ProviderRequest<Method> }[ProviderMethod];

interface Head {
  version: number;
  id: string;
  method: ProviderMethod;
  namespace: string;
  params: Data;
  context: Partial<ProviderContext>;
  deadlineMs: number;
}

const REQUEST = object<Head>({
  version: number(ENVELOPE, ENVELOPE),
  id: text(64),
  method: one(...(Object.keys(METHODS) as ProviderMethod[])),
  namespace: text(64),
  params: data,
  context: CONTEXT,
  deadlineMs: number(1, 300_000),
});

/** The line that a program reads. */
export function writeRequest<Method extends ProviderMethod>(request: ProviderRequest<Method>): string {
  const { params } = METHODS[request.method] as { params: Part<unknown> };
  const head = { version: ENVELOPE, ...request, params: params.write(request.params) as Data };
  return `${JSON.stringify(REQUEST.write(head))}\n`;
}

/** Throws `input-invalid` for what is no request. */
export function readRequest(bytes: Uint8Array): AnyRequest {
  try {
    const { version: _, ...head } = REQUEST.read(parse(bytes, "request"), "request");
    return { ...head, params: METHODS[head.method].params.read(head.params, "request.params") } as AnyRequest;
  } catch (error) {
    if (!(error instanceof Unfit)) throw error;
    throw new SkillError("input-invalid", {
      message: `This is no request: ${error.message}`,
      fix: "the host writes one; docs/providers.md has an example of each kind",
    });
  }
}

/** What a program answers, or why it did not do it. */
interface WireError {
  code: string;
  message: string;
  fix?: string;
  retryAfterSeconds?: number;
}

const ERROR = object<WireError>({
  code: text(64),
  message: line(LONGEST_LINE),
  fix: optional(line(LONGEST_LINE)),
  retryAfterSeconds: optional(number(0, Number.MAX_SAFE_INTEGER)),
});

interface Answer {
  version: number;
  id: string;
  ok: boolean;
  result?: unknown;
  error?: unknown;
}

const ANSWER = object<Answer>({
  version: number(ENVELOPE, ENVELOPE),
  id: text(64),
  ok: flag,
  result: optional(anything),
  error: optional(anything),
});

export function writeAnswer<Method extends ProviderMethod>(
  { id, method }: { id: string; method: Method },
  result: Result<Method>,
): string {
  const part = METHODS[method].result as unknown as Part<unknown>;
  return `${JSON.stringify({ version: ENVELOPE, id, ok: true, result: part.write(result) })}\n`;
}

export function writeError(id: string, { code, message, fix }: SkillError): string {
  const error = ERROR.write(defined({ code, message, fix }) as WireError);
  return `${JSON.stringify({ version: ENVELOPE, id, ok: false, error })}\n`;
}

/** A code of the program's own, for a sign-in that it does not have. */
export const UNSUPPORTED = "unsupported";

/**
 * What a program answered to this request. Throws what it says went wrong, with one of the codes for that, and `provider-answer`
 * when it is no answer. Contract: nothing of such a one is in the message.
 */
export function readAnswer<Method extends ProviderMethod>(
  bytes: Uint8Array,
  { id, method, namespace }: Pick<ProviderRequest<Method>, "id" | "method" | "namespace">,
): Result<Method> {
  try {
    if (bytes.length > LARGEST_ANSWER) throw new Unfit("answer", TOO_LARGE);
    const answer = ANSWER.read(parse(bytes, "answer"), "answer");
    if (answer.id !== id) throw new Unfit("answer.id", "is not that of the request");
    const [has, hasNot] = answer.ok ? (["result", "error"] as const) : (["error", "result"] as const);
    if (!(has in answer)) throw new Unfit(`answer.${has}`, "is missing");
    if (hasNot in answer) throw new Unfit(`answer.${hasNot}`, `is there though \`ok\` is ${answer.ok}`);
    if (!answer.ok) throw refusal(ERROR.read(answer.error, "answer.error"), method, namespace);
    return METHODS[method].result.read(answer.result, "answer.result") as Result<Method>;
  } catch (error) {
    throw error instanceof Unfit ? noAnswer(namespace, method, error.message) : error;
  }
}

/** Also for a program that was stopped because of it. */
export const TOO_LARGE: string = `is larger than ${LARGEST_ANSWER / 1024 / 1024} MiB`;

export function noAnswer(namespace: string, method: ProviderMethod, what: string): SkillError {
  return new SkillError("provider-answer", {
    message: `What the provider of ${namespace} answered to ${method} is no answer: ${what}`,
    fix: "it must print one JSON object to stdout, as docs/providers.md says, and all else to stderr",
  });
}

function refusal({ code, message, fix, retryAfterSeconds }: WireError, method: string, namespace: string): SkillError {
  if (code === UNSUPPORTED && method.startsWith("auth.")) {
    return new SkillError("denied", {
      message: `Nobody signs in at the provider of ${namespace}`,
      fix: "use it as it is: `skillet capability list` says whether it is ready",
    });
  }
  const later = retryAfterSeconds === undefined ? undefined : `try again in ${Math.ceil(retryAfterSeconds)} seconds`;
  const fixes = [fix, later].filter((text) => text !== undefined && text !== "");
  return new SkillError(PROVIDER_CODES.find((known) => known === code) ?? "provider-failed", {
    message: message || `The provider of ${namespace} refused, and did not say why`,
    ...(fixes.length === 0 ? {} : { fix: fixes.join("; ") }),
  });
}

function parse(bytes: Uint8Array, place: string): unknown {
  let written: string;
  try {
    written = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Unfit(place, "is not UTF-8");
  }
  if (written.trim() === "") throw new Unfit(place, "is empty");
  let value: unknown;
  try {
    value = JSON.parse(written);
  } catch (error) {
    const isMore = /after JSON/.test((error as Error).message);
    throw new Unfit(place, isMore ? "has something after its first JSON value" : "is no JSON");
  }
  if (isTooDeep(value)) throw new Unfit(place, `is nested more than ${DEEPEST} levels deep`);
  return value;
}

/** Others walk through it level by level, and would have no room left. */
export const DEEPEST = 100;

export function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEEPEST) return true;
    level = level.flatMap((item) => (Object(item) === item ? Object.values(item as object) : []));
  }
  return false;
}
