import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

/** Who was asked, for what is said when it fails. */
export interface ModelTarget {
  /** `anthropic/claude-…`. */
  name: string;
  /** How long one answer may take, with all attempts. */
  seconds: number;
  /** Where it is asked, and what says so, where somebody does: `ANTHROPIC_BASE_URL`, `base_url of …`. */
  address?: string;
  addressFrom?: string;
  /** Which key was used and where it comes from, never its value: `ANTHROPIC_API_KEY of the environment`. */
  key?: string;
  /** Takes what must not be shown out of what a provider said. */
  secrets?: { text(text: string): string };
}

interface FailureContext {
  asked: ModelTarget;
  signal: AbortSignal;
  /** Whether the time of the answer was over. */
  isLate: boolean;
}

/** What to throw for what went wrong: the abort itself, or a SkillError that says what to do. */
export function toModelError(error: unknown, { asked, signal, isLate }: FailureContext): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof SkillError) return error;
  if (isLate) {
    return new SkillError("model-timeout", {
      message: `${asked.name} did not answer within ${formatCount(asked.seconds, "second")}`,
      fix: "try again, or raise timeout_seconds of the model in config.toml",
    });
  }
  return createModelError(parseFailure(error, asked), asked);
}

/** What to throw for what comes to the same whenever it is tried, and the SDK would try again. */
export function findPermanentError(error: unknown, asked: ModelTarget): SkillError | undefined {
  const failure = parseFailure(error, asked);
  return failure.kind === "nowhere" ? createModelError(failure, asked) : undefined;
}

/** What happened, in a few words, for somebody who watches it being tried again. */
export function formatModelFailure(error: unknown, asked: ModelTarget): string {
  const { status, said } = parseFailure(error, asked);
  return truncateLine(status === undefined ? said : `${status}${formatQuote(said)}`, 200);
}

function createModelError(failure: ModelFailure, asked: ModelTarget): SkillError {
  const { status, kind } = failure;
  const [code, message, fix] = (STATUS_FORMATTERS[status ?? 0] ?? KIND_FORMATTERS[kind])({ ...asked, ...failure });
  return new SkillError(code, { message, fix });
}

type ProblemFormatter = (known: ModelTarget & ModelFailure) => readonly [ErrorCode, string, string];

const formatAccessProblem: ProblemFormatter = ({ name, key, status, said }) => [
  "model-refused",
  `${name} refused the key (${status})${status === 403 ? formatQuote(said) : ""}: ${key ?? "no key was given"}`,
  key === undefined
    ? "give the model an api_key in config.toml"
    : "check that it is right, still valid, and may use this model",
];

const STATUS_FORMATTERS: Record<number, ProblemFormatter> = {
  401: formatAccessProblem,
  403: formatAccessProblem,
  404: ({ name, address, addressFrom, url, said }) => [
    "model-refused",
    `${name} is not there${formatLocation(url ?? address)}${formatQuote(said)}`,
    `correct the model's name${addressFrom === undefined ? "" : `, or ${addressFrom}`}${/base_url/i.test(addressFrom ?? "") ? ": a base_url usually ends in /v1" : ""}`,
  ],
  429: ({ name, said }) => [
    "model-unreachable",
    `${name} takes no more requests for now${formatQuote(said)}`,
    "wait a little and try again, or look at the limits of your account",
  ],
};

const KIND_FORMATTERS: Record<"passing" | "refused" | "broken" | "cut" | "nowhere", ProblemFormatter> = {
  passing: ({ name, address, status, said }) => [
    "model-unreachable",
    `${name} ${status === undefined ? "cannot be reached" : `has failed (${status})`}${formatLocation(address)}${formatQuote(said)}`,
    status === undefined
      ? "check that it is running and that this machine can reach it, then try again"
      : "try again in a while, or use another model",
  ],
  refused: ({ name, status, said }) => [
    "model-refused",
    `${name} refused the request${status === undefined ? "" : ` (${status})`}${formatQuote(said)}`,
    "correct what it says, or use another model",
  ],
  broken: ({ name, said }) => [
    "model-broken",
    `${name} gave no answer that can be used${formatQuote(said)}`,
    "check that base_url names a server of this provider's kind, or use another model",
  ],
  cut: ({ name, said }) => [
    "model-unreachable",
    `${name}: ${said}`,
    "try again; if it goes on, check that base_url names a server of this provider's kind",
  ],
  nowhere: ({ name, address, addressFrom, said }) => [
    "model-unreachable",
    `${name} cannot be asked${formatLocation(address)}${formatQuote(said)}`,
    `correct ${addressFrom ?? "its address"}`,
  ],
};

function formatLocation(address: string | undefined): string {
  return address === undefined ? "" : ` at ${address}`;
}

function formatQuote(said: string): string {
  return said === "" ? "" : `: ${said}`;
}

interface ModelFailure {
  status: number | undefined;
  kind: keyof typeof KIND_FORMATTERS;
  /** What was said about it, in one line. */
  said: string;
  /** What was asked for, where the provider's part says so. */
  url?: string;
}

/** A stream that ended without saying why. */
export class TruncatedStreamError extends Error {}

const TRUNCATED_MESSAGE = "the answer broke off in the middle";
const BAD_ADDRESS_PATTERN = /\bbad port\b|invalid url|failed to parse url/i;
const BAD_RESPONSE_PATTERN = /JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody/;
const NETWORK_PATTERN =
  /terminated|fetch failed|cannot connect|socket|network|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|UND_ERR|certificate/i;

/** What the network's own words mean. */
const NETWORK_MESSAGES: readonly (readonly [RegExp, string])[] = [
  [BAD_ADDRESS_PATTERN, "no request can go to this address or port"],
  [/ECONNREFUSED/, "connection refused"],
  [/ECONNRESET|other side closed/, "the connection was closed"],
  [/ENOTFOUND|EAI_AGAIN/, "the name of the host cannot be looked up"],
  [/ETIMEDOUT|CONNECT_TIMEOUT/, "no connection in time"],
];

/** By the shape of the SDK's errors: a provider that a program brings along may have other classes of the same names. */
function parseFailure(error: unknown, { secrets }: ModelTarget): ModelFailure {
  const { name, message, statusCode: status, isRetryable, cause, url } = extractErrorFields(error);
  const said = (text: string) => sanitizeLine(secrets?.text(text) ?? text, 300);
  const words = `${message} ${cause ?? ""}`;
  const isNetwork = NETWORK_PATTERN.test(words);
  if (error instanceof TruncatedStreamError || [message, cause].includes("terminated"))
    return { status: undefined, kind: "cut", said: TRUNCATED_MESSAGE };
  if (status !== undefined && status >= 300) {
    const isPassing = isRetryable === true || status >= 500;
    const asked = url === undefined ? {} : { url: said(url) };
    return { status, kind: isPassing ? "passing" : "refused", said: said(message), ...asked };
  }
  if (BAD_RESPONSE_PATTERN.test(name)) return { status: undefined, kind: "broken", said: said(message) };
  if (name === STREAM_ERROR_NAME && isRetryable !== true && !isNetwork)
    return { status: undefined, kind: "refused", said: said(message) };
  const isPassing = isNetwork || (isRetryable === true && status === undefined);
  const plain = NETWORK_MESSAGES.find(([pattern]) => pattern.test(words))?.[1] ?? said(cause ?? message);
  const kind = BAD_ADDRESS_PATTERN.test(words) ? "nowhere" : isPassing ? "passing" : "broken";
  return { status: undefined, kind, said: plain };
}

interface ErrorFields {
  name: string;
  message: string;
  statusCode?: number;
  isRetryable?: boolean;
  cause?: string;
  url?: string;
}

/** What a provider says in the middle of a stream. */
const STREAM_ERROR_NAME = "AI_StreamProviderError";

/** Of several attempts the last. */
function extractErrorFields(error: unknown): ErrorFields {
  const { lastError, cause, type } = Object(error) as Record<string, unknown>;
  if (lastError !== undefined) return extractErrorFields(lastError);
  if (!(error instanceof Error))
    return { name: STREAM_ERROR_NAME, message: String(Object(error).message ?? type ?? error) };
  const { statusCode, isRetryable, url } = error as { statusCode?: unknown; isRetryable?: unknown; url?: unknown };
  // Where several addresses were tried, only the code says how it went.
  const why = cause instanceof Error ? cause.message || String((cause as { code?: unknown }).code ?? "") : "";
  return {
    name: error.name,
    message: error.message,
    ...(typeof statusCode === "number" ? { statusCode } : {}),
    ...(typeof isRetryable === "boolean" ? { isRetryable } : {}),
    ...(typeof url === "string" ? { url } : {}),
    ...(why === "" ? {} : { cause: why }),
  };
}
