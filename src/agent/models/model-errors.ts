import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";

/** The model of a request, for error messages. */
export interface ModelTarget {
  /** `anthropic/claude-…`. */
  name: string;
  /** The time limit of one answer, including retries. */
  seconds: number;
  /** The URL, and the setting it comes from, if it is configured: `ANTHROPIC_BASE_URL`, `base_url of …`. */
  address?: string;
  addressFrom?: string;
  /** The key and where it comes from, never its value: `ANTHROPIC_API_KEY of the environment`. */
  key?: string;
  /** Redacts the text of a provider. */
  secrets?: { text(text: string): string };
}

interface FailureContext {
  asked: ModelTarget;
  signal: AbortSignal;
  /** True if the time limit was reached. */
  isLate: boolean;
}

/** Returns the error to throw: the abort reason, or a SkillError with a fix. */
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

/** Returns the error for a permanent failure that the SDK would retry. */
export function findPermanentError(error: unknown, asked: ModelTarget): SkillError | undefined {
  const failure = parseFailure(error, asked);
  return failure.kind === "nowhere" ? createModelError(failure, asked) : undefined;
}

/** Formats a failure briefly, for progress messages of a retry. */
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
  `${name} refused the key (${status})${status === 403 ? formatQuote(said) : ""}: ${key ?? "no key is configured"}`,
  key === undefined
    ? "set api_key of the model in config.toml"
    : "check that it is correct, not expired, and may use this model",
];

const STATUS_FORMATTERS: Record<number, ProblemFormatter> = {
  401: formatAccessProblem,
  403: formatAccessProblem,
  404: ({ name, address, addressFrom, url, said }) => [
    "model-refused",
    `${name} was not found${formatLocation(url ?? address)}${formatQuote(said)}`,
    `correct the model's name${addressFrom === undefined ? "" : `, or ${addressFrom}`}${/base_url/i.test(addressFrom ?? "") ? ": a base_url usually ends in /v1" : ""}`,
  ],
  429: ({ name, said }) => [
    "model-unreachable",
    `${name} is rate limited${formatQuote(said)}`,
    "wait and try again, or check the limits of your account",
  ],
};

const KIND_FORMATTERS: Record<"passing" | "refused" | "broken" | "cut" | "nowhere", ProblemFormatter> = {
  passing: ({ name, address, status, said }) => [
    "model-unreachable",
    `${name} ${status === undefined ? "cannot be reached" : `failed (${status})`}${formatLocation(address)}${formatQuote(said)}`,
    status === undefined
      ? "check that it is running and reachable from this machine, then try again"
      : "try again later, or use another model",
  ],
  refused: ({ name, status, said }) => [
    "model-refused",
    `${name} refused the request${status === undefined ? "" : ` (${status})`}${formatQuote(said)}`,
    "correct the request, or use another model",
  ],
  broken: ({ name, said }) => [
    "model-broken",
    `${name} returned an invalid answer${formatQuote(said)}`,
    "check that base_url is a server for this provider, or use another model",
  ],
  cut: ({ name, said }) => [
    "model-unreachable",
    `${name}: ${said}`,
    "try again; if it happens again, check that base_url is a server for this provider",
  ],
  nowhere: ({ name, address, addressFrom, said }) => [
    "model-unreachable",
    `${name} cannot be called${formatLocation(address)}${formatQuote(said)}`,
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
  /** The provider's message, in one line. */
  said: string;
  /** The requested URL, if the provider reports it. */
  url?: string;
}

/** A stream that ended without a finish reason. */
export class TruncatedStreamError extends Error {}

const TRUNCATED_MESSAGE = "the answer was truncated";
const BAD_ADDRESS_PATTERN = /\bbad port\b|invalid url|failed to parse url/i;
const BAD_RESPONSE_PATTERN = /JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody/;
const NETWORK_PATTERN =
  /terminated|fetch failed|cannot connect|socket|network|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|UND_ERR|certificate/i;

/** Plain texts for network errors. */
const NETWORK_MESSAGES: readonly (readonly [RegExp, string])[] = [
  [BAD_ADDRESS_PATTERN, "requests to this address or port are not allowed"],
  [/ECONNREFUSED/, "connection refused"],
  [/ECONNRESET|other side closed/, "the connection was closed"],
  [/ENOTFOUND|EAI_AGAIN/, "the host name cannot be resolved"],
  [/ETIMEDOUT|CONNECT_TIMEOUT/, "the connection timed out"],
];

/** Classifies an error by the shape of the SDK's errors: a provider from another installation has other classes of the same names. */
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

/** The name for an error that a provider sends in a stream. */
const STREAM_ERROR_NAME = "AI_StreamProviderError";

/** Extracts the fields of an error; of several attempts, those of the last. */
function extractErrorFields(error: unknown): ErrorFields {
  const { lastError, cause, type } = Object(error) as Record<string, unknown>;
  if (lastError !== undefined) return extractErrorFields(lastError);
  if (!(error instanceof Error))
    return { name: STREAM_ERROR_NAME, message: String(Object(error).message ?? type ?? error) };
  const { statusCode, isRetryable, url } = error as { statusCode?: unknown; isRetryable?: unknown; url?: unknown };
  // If several addresses were tried, only the code states the reason.
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
