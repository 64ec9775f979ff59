import type { ErrorCode } from "../codes/codes.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { count, oneLine } from "../shared/text.ts";

/** Who was asked, for what is said when it fails. */
export interface Asked {
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

interface Circumstances {
  asked: Asked;
  signal: AbortSignal;
  /** Whether the time of the answer was over. */
  isLate: boolean;
}

/** What to throw for what went wrong: the abort itself, or a SkillError that says what to do. */
export function failureOf(error: unknown, { asked, signal, isLate }: Circumstances): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof SkillError) return error;
  if (isLate) {
    return new SkillError("model-timeout", {
      message: `${asked.name} did not answer within ${count(asked.seconds, "second")}`,
      fix: "try again, or raise timeout_seconds of the model in config.toml",
    });
  }
  return sentence(read(error, asked), asked);
}

/** What to throw for what comes to the same whenever it is tried, and the SDK would try again. */
export function lastingFailure(error: unknown, asked: Asked): SkillError | undefined {
  const failure = read(error, asked);
  return failure.kind === "nowhere" ? sentence(failure, asked) : undefined;
}

/** What happened, in a few words, for somebody who watches it being tried again. */
export function sayFailure(error: unknown, asked: Asked): string {
  const { status, said } = read(error, asked);
  return oneLine(status === undefined ? said : `${status}${quoted(said)}`, 200);
}

function sentence(failure: Failure, asked: Asked): SkillError {
  const { status, kind } = failure;
  const [code, message, fix] = (STATUS[status ?? 0] ?? KINDS[kind])({ ...asked, ...failure });
  return new SkillError(code, { message, fix });
}

type Say = (known: Asked & Failure) => readonly [ErrorCode, string, string];

const noAccess: Say = ({ name, key, status, said }) => [
  "model-refused",
  `${name} refused the key (${status})${status === 403 ? quoted(said) : ""}: ${key ?? "no key was given"}`,
  key === undefined
    ? "give the model an api_key in config.toml"
    : "check that it is right, still valid, and may use this model",
];

const STATUS: Record<number, Say> = {
  401: noAccess,
  403: noAccess,
  404: ({ name, address, addressFrom, url, said }) => [
    "model-refused",
    `${name} is not there${at(url ?? address)}${quoted(said)}`,
    `correct the model's name${addressFrom === undefined ? "" : `, or ${addressFrom}`}${/base_url/i.test(addressFrom ?? "") ? ": a base_url usually ends in /v1" : ""}`,
  ],
  429: ({ name, said }) => [
    "model-unreachable",
    `${name} takes no more requests for now${quoted(said)}`,
    "wait a little and try again, or look at the limits of your account",
  ],
};

const KINDS: Record<"passing" | "refused" | "broken" | "cut" | "nowhere", Say> = {
  passing: ({ name, address, status, said }) => [
    "model-unreachable",
    `${name} ${status === undefined ? "cannot be reached" : `has failed (${status})`}${at(address)}${quoted(said)}`,
    status === undefined
      ? "check that it is running and that this machine can reach it, then try again"
      : "try again in a while, or use another model",
  ],
  refused: ({ name, status, said }) => [
    "model-refused",
    `${name} refused the request${status === undefined ? "" : ` (${status})`}${quoted(said)}`,
    "correct what it says, or use another model",
  ],
  broken: ({ name, said }) => [
    "model-broken",
    `${name} gave no answer that can be used${quoted(said)}`,
    "check that base_url names a server of this provider's kind, or use another model",
  ],
  cut: ({ name, said }) => [
    "model-unreachable",
    `${name}: ${said}`,
    "try again; if it goes on, check that base_url names a server of this provider's kind",
  ],
  nowhere: ({ name, address, addressFrom, said }) => [
    "model-unreachable",
    `${name} cannot be asked${at(address)}${quoted(said)}`,
    `correct ${addressFrom ?? "its address"}`,
  ],
};

function at(address: string | undefined): string {
  return address === undefined ? "" : ` at ${address}`;
}

function quoted(said: string): string {
  return said === "" ? "" : `: ${said}`;
}

interface Failure {
  status: number | undefined;
  kind: keyof typeof KINDS;
  /** What was said about it, in one line. */
  said: string;
  /** What was asked for, where the provider's part says so. */
  url?: string;
}

/** A stream that ended without saying why. */
export class BrokenOff extends Error {}

const BROKE_OFF = "the answer broke off in the middle";
const NOWHERE = /\bbad port\b|invalid url|failed to parse url/i;
const UNREADABLE = /JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody/;
const NETWORK =
  /terminated|fetch failed|cannot connect|socket|network|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|UND_ERR|certificate/i;

/** What the network's own words mean. */
const PLAIN: readonly (readonly [RegExp, string])[] = [
  [NOWHERE, "no request can go to this address or port"],
  [/ECONNREFUSED/, "connection refused"],
  [/ECONNRESET|other side closed/, "the connection was closed"],
  [/ENOTFOUND|EAI_AGAIN/, "the name of the host cannot be looked up"],
  [/ETIMEDOUT|CONNECT_TIMEOUT/, "no connection in time"],
];

/** By the shape of the SDK's errors: a provider that a program brings along may have other classes of the same names. */
function read(error: unknown, { secrets }: Asked): Failure {
  const { name, message, statusCode: status, isRetryable, cause, url } = described(error);
  const said = (text: string) => inLine(secrets?.text(text) ?? text, 300);
  const words = `${message} ${cause ?? ""}`;
  const isNetwork = NETWORK.test(words);
  if (error instanceof BrokenOff || [message, cause].includes("terminated"))
    return { status: undefined, kind: "cut", said: BROKE_OFF };
  if (status !== undefined && status >= 300) {
    const isPassing = isRetryable === true || status >= 500;
    const asked = url === undefined ? {} : { url: said(url) };
    return { status, kind: isPassing ? "passing" : "refused", said: said(message), ...asked };
  }
  if (UNREADABLE.test(name)) return { status: undefined, kind: "broken", said: said(message) };
  if (name === STREAMED && isRetryable !== true && !isNetwork)
    return { status: undefined, kind: "refused", said: said(message) };
  const isPassing = isNetwork || (isRetryable === true && status === undefined);
  const plain = PLAIN.find(([pattern]) => pattern.test(words))?.[1] ?? said(cause ?? message);
  const kind = NOWHERE.test(words) ? "nowhere" : isPassing ? "passing" : "broken";
  return { status: undefined, kind, said: plain };
}

interface Described {
  name: string;
  message: string;
  statusCode?: number;
  isRetryable?: boolean;
  cause?: string;
  url?: string;
}

/** What a provider says in the middle of a stream. */
const STREAMED = "AI_StreamProviderError";

/** Of several attempts the last. */
function described(error: unknown): Described {
  const { lastError, cause, type } = Object(error) as Record<string, unknown>;
  if (lastError !== undefined) return described(lastError);
  if (!(error instanceof Error)) return { name: STREAMED, message: String(Object(error).message ?? type ?? error) };
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
