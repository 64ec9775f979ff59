import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { count } from "../shared/text.ts";

/** Who was asked, for what is said when it fails. */
export interface Asked {
  /** `anthropic/claude-…`. */
  name: string;
  /** How long one answer may take, with all attempts. */
  seconds: number;
  /** Where it is asked. */
  address?: string;
  /** Which key was used and where it comes from, never its value: `ANTHROPIC_API_KEY of the environment`. */
  key?: string;
  /** Takes what must not be shown out of what a provider said. */
  secrets?: { text(text: string): string };
}

interface Circumstances {
  asked: Asked;
  signal: AbortSignal;
  timeout: AbortSignal;
}

/** What to throw for what went wrong: the abort itself, or a SkillError that says what to do. */
export function failureOf(error: unknown, { asked, signal, timeout }: Circumstances): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof SkillError) return error;
  if (timeout.aborted) {
    return new SkillError("model-timeout", {
      message: `${asked.name} did not answer within ${count(asked.seconds, "second")}`,
      fix: "try again, or raise timeout_seconds of the model in config.toml",
    });
  }
  const { status, kind, said } = read(error, asked);
  const [code, message, fix] = (STATUS[status ?? 0] ?? KINDS[kind])({ ...asked, said, status });
  return new SkillError(code, { message, fix });
}

/** The same in a few words, for somebody who watches it being tried again. */
export function sayFailure(error: unknown, asked: Asked): string {
  const { status, said } = read(error, asked);
  return status === undefined ? said : `${status}${said === "" ? "" : `: ${said}`}`;
}

type Say = (known: Asked & { said: string; status: number | undefined }) => readonly [string, string, string];

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
  404: ({ name, address, said }) => [
    "model-refused",
    `${name} is not there${at(address)}${quoted(said)}`,
    "correct the model's name, or its base_url, in config.toml",
  ],
  429: ({ name, said }) => [
    "model-unreachable",
    `${name} takes no more requests for now${quoted(said)}`,
    "wait a little and try again, or look at the limits of your account",
  ],
};

const KINDS: Record<"passing" | "refused" | "broken", Say> = {
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
}

/** A stream that ended without saying why. */
export class BrokenOff extends Error {}

const BROKE_OFF = "the connection broke off";
const UNREADABLE = /JSONParse|TypeValidation|InvalidResponseData|EmptyResponseBody/;
const NETWORK =
  /terminated|fetch failed|cannot connect|socket|network|ECONN|ENOTFOUND|EAI_AGAIN|EPIPE|UND_ERR|certificate/i;

/** By the shape of the SDK's errors: a provider that a program brings along may have other classes of the same names. */
function read(error: unknown, { secrets }: Asked): Failure {
  const { name, message, statusCode: status, isRetryable, cause } = described(error);
  const said = (text: string) => inLine(secrets?.text(text) ?? text, 300);
  const isNetwork = NETWORK.test(`${message} ${cause ?? ""}`);
  if (error instanceof BrokenOff || [message, cause].includes("terminated"))
    return { status: undefined, kind: "passing", said: BROKE_OFF };
  if (status !== undefined && status >= 300) {
    const isPassing = isRetryable === true || status >= 500;
    return { status, kind: isPassing ? "passing" : "refused", said: said(message) };
  }
  if (UNREADABLE.test(name)) return { status: undefined, kind: "broken", said: said(message) };
  if (name === STREAMED && isRetryable !== true && !isNetwork)
    return { status: undefined, kind: "refused", said: said(message) };
  const isPassing = isNetwork || (isRetryable === true && status === undefined);
  return { status: undefined, kind: isPassing ? "passing" : "broken", said: said(cause ?? message) };
}

interface Described {
  name: string;
  message: string;
  statusCode?: number;
  isRetryable?: boolean;
  cause?: string;
}

/** What a provider says in the middle of a stream. */
const STREAMED = "AI_StreamProviderError";

/** Of several attempts the last. */
function described(error: unknown): Described {
  const { lastError, cause, type } = Object(error) as Record<string, unknown>;
  if (lastError !== undefined) return described(lastError);
  if (!(error instanceof Error)) return { name: STREAMED, message: String(Object(error).message ?? type ?? error) };
  const { statusCode, isRetryable } = error as { statusCode?: unknown; isRetryable?: unknown };
  return {
    name: error.name,
    message: error.message,
    ...(typeof statusCode === "number" ? { statusCode } : {}),
    ...(typeof isRetryable === "boolean" ? { isRetryable } : {}),
    ...(cause instanceof Error && cause.message !== "" ? { cause: cause.message } : {}),
  };
}
