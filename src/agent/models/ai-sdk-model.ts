import type { AssistantModelMessage, ModelMessage, TextStreamPart, ToolSet } from "ai";
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
import { omitUndefined } from "../../util/objects.ts";
import { loadPeer } from "../../util/peer-packages.ts";
import {
  findPermanentError,
  formatModelFailure,
  type ModelTarget,
  TruncatedStreamError,
  toModelError,
} from "./model-errors.ts";
import { getContextWindow, getPauseMs, type ProviderLimit, type ProviderRates } from "./model-providers.ts";

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

/** The longest delay of a timer: a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

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
    Math.min(seconds * 1000, MAX_TIMER_MS),
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
  return isPlainObject(input) ? call : { ...call, problem: "its input is not a JSON object" };
}

function isPlainObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Converts messages to plain data. Providers accept only objects as call inputs, and no forbidden names. */
function toPlainData(messages: readonly AssistantModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages), (_, value) =>
    value?.type === "tool-call"
      ? { ...value, toolName: formatWireName(value.toolName), input: isPlainObject(value.input) ? value.input : {} }
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
      input: isPlainObject(input) ? input : {},
    })),
  ];
  return content.length === 0 ? [] : [{ role: "assistant", content }];
}

function toToolResultPart({ id, tool, content, isError }: ToolCallResult, names: WireNames) {
  const output = { type: isError ? ("error-text" as const) : ("text" as const), value: content };
  return { type: "tool-result" as const, toolCallId: id, toolName: names.toWire(tool), output };
}

/** A chunk of an answer from a provider of the AI SDK. */
interface ModelStreamPart {
  type: string;
  id?: string;
  /** A piece of text, of reasoning, or of the input of the call `id`. */
  delta?: unknown;
  /** The input of a complete call. */
  input?: unknown;
}

const MIB = 1024 * 1024;
const MAX_TEXT_BYTES = 4 * MIB;
const MAX_INPUT_BYTES = MIB;

/** Measures one answer. Throws a SkillError, `model-broken`, if it is too large. */
function createAnswerLimit(name: string): (part: ModelStreamPart) => void {
  let said = 0;
  const inputs = new Map<string, number>();
  const refuse = (what: string): never => {
    throw new SkillError("model-broken", {
      message: `${name} sent more than ${what}`,
      fix: "set max_tokens of the model in config.toml, or use another model",
    });
  };
  return ({ type, id = "", delta, input }) => {
    const size = measureText(delta);
    said += size;
    if (said > MAX_TEXT_BYTES) refuse("4 MiB in one answer");
    if (type === "tool-input-delta") inputs.set(id, (inputs.get(id) ?? 0) + size);
    if (Math.max(inputs.get(id) ?? 0, measureText(input)) > MAX_INPUT_BYTES) refuse("1 MiB in one tool call");
  };
}

function measureText(text: unknown): number {
  return typeof text === "string" ? Buffer.byteLength(text) : 0;
}
