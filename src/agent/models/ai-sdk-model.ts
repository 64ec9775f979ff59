import type { AssistantModelMessage, ModelMessage, TextStreamPart, ToolSet } from "ai";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { SkillError } from "../../errors/problem.ts";
import type {
  AiSdkModel,
  Message,
  Model,
  ModelReply,
  ModelRequest,
  ToolCall,
  ToolCallResult,
} from "../../host/model-contract.ts";
import { createWireNames, formatWireName, type WireNames } from "../../skill/tool-names.ts";
import { clampTimerMs } from "../../util/async.ts";
import { isJsonObject, omitUndefined } from "../../util/objects.ts";
import { loadPeer } from "../../util/peer-packages.ts";
import { formatCount, truncateLine } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import {
  createAnswerLimit,
  getContextWindow,
  getPauseMs,
  type ModelStreamPart,
  type ProviderLimit,
  type ProviderRates,
} from "./model-providers.ts";

interface SdkModelOptions extends ModelTarget {
  /** The number of retries after a temporary failure. */
  retries: number;
  /** The maximum number of output tokens. Defaults to the model's own limit. */
  maxTokens?: number;
  /** True if the model accepts a reasoning effort. Defaults to true. */
  supportsEffort?: boolean;
  /** The context window in tokens, if known. */
  contextWindow?: number;
  /** The limit of its account, which all runs of this process share, and the configured rates. */
  limit?: { account: ProviderLimit; rates: ProviderRates };
}

/** Creates a model from one of the AI SDK. One `respond` is one request: the SDK gets tools that it cannot execute. */
export function createSdkModel(model: AiSdkModel, options: SdkModelOptions): Model {
  return {
    name: options.name,
    supportsEffort: options.supportsEffort !== false,
    ...omitUndefined({ contextWindow: options.contextWindow ?? getContextWindow(options.name) }),
    async respond(request) {
      // Loaded on first use: it would be most of the start-up time.
      const { streamText, wrapLanguageModel, jsonSchema } = await loadPeer.ai();
      const clock = createDeadline(options.seconds, request.signal);
      const names = createWireNames(request.tools.map(({ name }) => name));
      const tools: ToolSet = Object.fromEntries(
        request.tools.map(({ name, description, inputSchema }) => [
          names.toWire(name),
          { description, inputSchema: jsonSchema(inputSchema) },
        ]),
      );
      try {
        request.signal.throwIfAborted();
        const result = streamText({
          model: wrapLanguageModel({
            model: model as never,
            middleware: createMiddleware(request, options, clock.signal),
          }),
          ...(request.instructions === "" ? {} : { instructions: request.instructions }),
          messages: request.messages.flatMap((message) => toModelMessages(message, names)),
          tools,
          maxRetries: options.retries,
          abortSignal: clock.signal,
          providerOptions: PROVIDER_OPTIONS,
          ...(options.maxTokens === undefined ? {} : { maxOutputTokens: options.maxTokens }),
          ...(options.supportsEffort !== false && REASONING_EFFORTS.has(request.effort ?? "")
            ? { reasoning: request.effort as "low" }
            : {}),
          // Without this, the SDK prints the error, which is in the stream too.
          onError: () => undefined,
        });
        const reply = await collectReply(result.stream, request, names);
        options.limit?.account.spend(reply.usage.inputTokens + reply.usage.outputTokens);
        const raw = (await result.responseMessages).flatMap((message) => (message.role === "assistant" ? message : []));
        return { ...reply, ...(raw.length === 0 ? {} : { raw: toPlainData(raw) }) };
      } catch (error) {
        throw toModelError(error, { asked: options, signal: request.signal, isLate: clock.isLate() });
      } finally {
        clock.stop();
      }
    },
  };
}

/** Creates a signal that aborts with another one or at a time limit. `stop` releases it completely: a long run creates many. */
function createDeadline(seconds: number, outer: AbortSignal) {
  const controller = new AbortController();
  let isLate = false;
  const onAbort = () => controller.abort(outer.reason);
  const timer = setTimeout(
    () => {
      isLate = true;
      controller.abort(new DOMException("The time limit was reached", "TimeoutError"));
    },
    clampTimerMs(seconds * 1000),
  );
  outer.addEventListener("abort", onAbort, { once: true });
  if (outer.aborted) onAbort();
  return {
    signal: controller.signal,
    isLate: () => isLate,
    stop() {
      clearTimeout(timer);
      outer.removeEventListener("abort", onAbort);
    },
  };
}

/** The reasoning efforts that SDKs support. Other values are not passed on. */
export const REASONING_EFFORTS: ReadonlySet<string> = new Set([
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
]);

// Nothing is stored at the provider: when a conversation resumes, stored data may be gone or belong to another account. So each
// request contains everything. Anthropic's cache control makes the repeated part cheaper.
const PROVIDER_OPTIONS = {
  openai: { store: false },
  anthropic: { cacheControl: { type: "ephemeral" } },
} as const;

type Middleware = Parameters<typeof import("ai").wrapLanguageModel>[0]["middleware"];

/** Reports retries, limits the size of an answer, and suppresses provider warnings, which the SDK would print. */
function createMiddleware(request: ModelRequest, options: SdkModelOptions, signal: AbortSignal): Middleware {
  let failed: string | undefined;
  let again = 0;
  return {
    specificationVersion: "v4",
    async wrapStream({ doStream }) {
      if (failed !== undefined) request.onRetry?.(`${failed}; retrying (${++again} of ${options.retries})`);
      await options.limit?.account.wait(options.limit.rates, signal);
      try {
        const { stream, ...rest } = await doStream();
        const bound = createAnswerLimit(options.name);
        const quiet = new TransformStream({
          // An exception here closes the connection.
          transform(part: ModelStreamPart, controller) {
            bound(part);
            controller.enqueue(part.type === "stream-start" ? { ...part, warnings: [] } : part);
          },
        });
        return { ...rest, stream: (stream as ReadableStream).pipeThrough(quiet) };
      } catch (error) {
        const pauseMs = getPauseMs(error);
        if (pauseMs !== undefined) options.limit?.account.pause(pauseMs);
        failed = formatModelFailure(error, options);
        throw findPermanentError(error, options) ?? error;
      }
    },
  };
}

async function collectReply(
  stream: AsyncIterable<TextStreamPart<ToolSet>>,
  request: ModelRequest,
  names: WireNames,
): Promise<ModelReply> {
  let text = "";
  const calls: ToolCall[] = [];
  let end: Extract<TextStreamPart<ToolSet>, { type: "finish-step" }> | undefined;
  for await (const part of stream) {
    if (part.type === "error") throw part.error;
    if (part.type === "abort") throw new DOMException(part.reason ?? "aborted", "AbortError");
    if (part.type === "text-delta" && part.text !== "") {
      text += part.text;
      request.onText(part.text);
    }
    if (part.type === "tool-call" && !part.providerExecuted) calls.push(toToolCall(part, names));
    if (part.type === "finish-step") end = part;
  }
  if (!end || (end.rawFinishReason === undefined && UNFINISHED_REASONS.has(end.finishReason)))
    throw new TruncatedStreamError();
  const { usage } = end;
  return {
    text,
    calls,
    usage: {
      inputTokens: usage.inputTokens ?? 0,
      outputTokens: usage.outputTokens ?? 0,
      cachedTokens: usage.inputTokenDetails.cacheReadTokens ?? 0,
    },
    finish: mapFinishReason(end.finishReason, calls),
  };
}

/** The SDK's finish reasons for a truncated stream. */
const UNFINISHED_REASONS = new Set<string>(["interrupted", "other"]);

function mapFinishReason(reason: string, calls: readonly ToolCall[]): ModelReply["finish"] {
  // Some servers report `stop` although they request calls.
  if (calls.length > 0 && reason !== "length") return "calls";
  return FINISH_REASONS[reason] ?? "other";
}

const FINISH_REASONS: Record<string, ModelReply["finish"]> = {
  stop: "stop",
  length: "length",
  "content-filter": "filtered",
};

function toToolCall(
  { toolCallId, toolName, input }: { toolCallId: string; toolName: string; input: unknown },
  names: WireNames,
): ToolCall {
  const call = { id: toolCallId, tool: names.toId(toolName) ?? toolName, input };
  if (typeof input === "string") return { ...call, problem: "its input is not JSON" };
  return isJsonObject(input) ? call : { ...call, problem: "its input is not a JSON object" };
}

/** Converts messages to plain data. Providers accept only objects as call inputs, and no forbidden names. */
function toPlainData(messages: readonly AssistantModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages), (_, value) =>
    value?.type === "tool-call"
      ? { ...value, toolName: formatWireName(value.toolName), input: isJsonObject(value.input) ? value.input : {} }
      : value,
  );
}

function toModelMessages(message: Message, names: WireNames): ModelMessage[] {
  if (message.role === "user") return [{ role: "user", content: message.text }];
  if (message.role === "tool")
    return [{ role: "tool", content: message.results.map((result) => toToolResultPart(result, names)) }];
  if (Array.isArray(message.raw)) return message.raw as AssistantModelMessage[];
  const content = [
    ...(message.text === "" ? [] : [{ type: "text" as const, text: message.text }]),
    ...message.calls.map(({ id, tool, input }) => ({
      type: "tool-call" as const,
      toolCallId: id,
      toolName: names.toWire(tool),
      input: isJsonObject(input) ? input : {},
    })),
  ];
  return content.length === 0 ? [] : [{ role: "assistant", content }];
}

function toToolResultPart({ id, tool, content, isError }: ToolCallResult, names: WireNames) {
  const output = { type: isError ? ("error-text" as const) : ("text" as const), value: content };
  return { type: "tool-result" as const, toolCallId: id, toolName: names.toWire(tool), output };
}

/** The model of a request, for error messages. */
interface ModelTarget {
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
function toModelError(error: unknown, { asked: target, signal, isLate }: FailureContext): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof SkillError) return error;
  if (isLate) {
    return new SkillError("model-timeout", {
      message: `${target.name} did not answer within ${formatCount(target.seconds, "second")}`,
      fix: "try again, or raise timeout_seconds of the model in config.toml",
    });
  }
  return createModelError(parseFailure(error, target), target);
}

/** Returns the error for a permanent failure that the SDK would retry. */
function findPermanentError(error: unknown, target: ModelTarget): SkillError | undefined {
  const failure = parseFailure(error, target);
  return failure.kind === "nowhere" ? createModelError(failure, target) : undefined;
}

/** Formats a failure briefly, for progress messages of a retry. */
function formatModelFailure(error: unknown, target: ModelTarget): string {
  const { status, text } = parseFailure(error, target);
  return truncateLine(status === undefined ? text : `${status}${formatQuote(text)}`, 200);
}

function createModelError(failure: ModelFailure, target: ModelTarget): SkillError {
  const { status, kind } = failure;
  const [code, message, fix] = (STATUS_FORMATTERS[status ?? 0] ?? KIND_FORMATTERS[kind])({ ...target, ...failure });
  return new SkillError(code, { message, fix });
}

type ProblemFormatter = (known: ModelTarget & ModelFailure) => readonly [ErrorCode, string, string];

const formatAccessProblem: ProblemFormatter = ({ name, key, status, text }) => [
  "model-refused",
  `${name} refused the key (${status})${status === 403 ? formatQuote(text) : ""}: ${key ?? "no key is configured"}`,
  key === undefined
    ? "set api_key of the model in config.toml"
    : "check that it is correct, not expired, and may use this model",
];

const STATUS_FORMATTERS: Record<number, ProblemFormatter> = {
  401: formatAccessProblem,
  403: formatAccessProblem,
  404: ({ name, address, addressFrom, url, text }) => [
    "model-refused",
    `${name} was not found${formatLocation(url ?? address)}${formatQuote(text)}`,
    `correct the model's name${addressFrom === undefined ? "" : `, or ${addressFrom}`}${/base_url/i.test(addressFrom ?? "") ? ": a base_url usually ends in /v1" : ""}`,
  ],
  429: ({ name, text }) => [
    "model-unreachable",
    `${name} is rate limited${formatQuote(text)}`,
    "wait and try again, or check the limits of your account",
  ],
};

const KIND_FORMATTERS: Record<"passing" | "refused" | "broken" | "cut" | "nowhere", ProblemFormatter> = {
  passing: ({ name, address, status, text }) => [
    "model-unreachable",
    `${name} ${status === undefined ? "cannot be reached" : `failed (${status})`}${formatLocation(address)}${formatQuote(text)}`,
    status === undefined
      ? "check that it is running and reachable from this machine, then try again"
      : "try again later, or use another model",
  ],
  refused: ({ name, status, text }) => [
    "model-refused",
    `${name} refused the request${status === undefined ? "" : ` (${status})`}${formatQuote(text)}`,
    "correct the request, or use another model",
  ],
  broken: ({ name, text }) => [
    "model-broken",
    `${name} returned an invalid answer${formatQuote(text)}`,
    "check that base_url is a server for this provider, or use another model",
  ],
  cut: ({ name, text }) => [
    "model-unreachable",
    `${name}: ${text}`,
    "try again; if it happens again, check that base_url is a server for this provider",
  ],
  nowhere: ({ name, address, addressFrom, text }) => [
    "model-unreachable",
    `${name} cannot be called${formatLocation(address)}${formatQuote(text)}`,
    `correct ${addressFrom ?? "its address"}`,
  ],
};

function formatLocation(address: string | undefined): string {
  return address === undefined ? "" : ` at ${address}`;
}

function formatQuote(text: string): string {
  return text === "" ? "" : `: ${text}`;
}

interface ModelFailure {
  status: number | undefined;
  kind: keyof typeof KIND_FORMATTERS;
  /** The provider's message, in one line. */
  text: string;
  /** The requested URL, if the provider reports it. */
  url?: string;
}

/** A stream that ended without a finish reason. */
class TruncatedStreamError extends Error {}

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
  const toText = (text: string) => sanitizeLine(secrets?.text(text) ?? text, 300);
  const words = `${message} ${cause ?? ""}`;
  const isNetwork = NETWORK_PATTERN.test(words);
  if (error instanceof TruncatedStreamError || [message, cause].includes("terminated"))
    return { status: undefined, kind: "cut", text: TRUNCATED_MESSAGE };
  if (status !== undefined && status >= 300) {
    const isPassing = isRetryable === true || status >= 500;
    const asked = url === undefined ? {} : { url: toText(url) };
    return { status, kind: isPassing ? "passing" : "refused", text: toText(message), ...asked };
  }
  if (BAD_RESPONSE_PATTERN.test(name)) return { status: undefined, kind: "broken", text: toText(message) };
  if (name === STREAM_ERROR_NAME && isRetryable !== true && !isNetwork)
    return { status: undefined, kind: "refused", text: toText(message) };
  const isPassing = isNetwork || (isRetryable === true && status === undefined);
  const plain = NETWORK_MESSAGES.find(([pattern]) => pattern.test(words))?.[1] ?? toText(cause ?? message);
  const kind = BAD_ADDRESS_PATTERN.test(words) ? "nowhere" : isPassing ? "passing" : "broken";
  return { status: undefined, kind, text: plain };
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
