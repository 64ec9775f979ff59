import type { AssistantModelMessage, ModelMessage, TextStreamPart, ToolSet } from "ai";
import type { CallResult, Message, Model, ModelReply, ModelRequest, SdkModel, ToolCall } from "../host/models.ts";
import { loadPeer } from "../host/peers.ts";
import { defined } from "../shared/defined.ts";
import { type WireNames, wireName, wireNames } from "../skill/wire-name.ts";
import { type AnswerPart, boundAnswer } from "./bound-answer.ts";
import { contextWindowOf } from "./context-windows.ts";
import { type Asked, BrokenOff, failureOf, lastingFailure, sayFailure } from "./failure.ts";

export interface SdkOptions extends Asked {
  /** How often it is asked again after a failure that may pass. */
  retries: number;
  /** How much it may say at once; as much as the model can, when left out. */
  maxTokens?: number;
  /** Whether it can be told how hard to think; true when left out. */
  takesEffort?: boolean;
  /** How many tokens it can read at once, where that is known. */
  contextWindow?: number;
}

/** A model of the AI SDK. One `respond` is one request: the SDK is offered tools that it cannot call. */
export function sdkModel(model: SdkModel, options: SdkOptions): Model {
  return {
    name: options.name,
    takesEffort: options.takesEffort !== false,
    ...defined({ contextWindow: options.contextWindow ?? contextWindowOf(options.name) }),
    async respond(request) {
      // Loaded when a model is first asked: most of what a start costs would be this.
      const { streamText, wrapLanguageModel, jsonSchema } = await loadPeer.ai();
      const clock = openClock(options.seconds, request.signal);
      const names = wireNames(request.tools.map(({ name }) => name));
      const tools: ToolSet = Object.fromEntries(
        request.tools.map(({ name, description, inputSchema }) => [
          names.toWire(name),
          { description, inputSchema: jsonSchema(inputSchema) },
        ]),
      );
      try {
        request.signal.throwIfAborted();
        const result = streamText({
          model: wrapLanguageModel({ model: model as never, middleware: watched(request, options) }),
          ...(request.instructions === "" ? {} : { instructions: request.instructions }),
          messages: request.messages.flatMap((message) => asModelMessages(message, names)),
          tools,
          maxRetries: options.retries,
          abortSignal: clock.signal,
          providerOptions: PROVIDER_OPTIONS,
          ...(options.maxTokens === undefined ? {} : { maxOutputTokens: options.maxTokens }),
          ...(options.takesEffort !== false && EFFORTS.has(request.effort ?? "")
            ? { reasoning: request.effort as "low" }
            : {}),
          // The SDK prints what nobody takes. It is in the stream too.
          onError: () => undefined,
        });
        const reply = await collect(result.stream, request, names);
        const raw = (await result.responseMessages).flatMap((message) => (message.role === "assistant" ? message : []));
        return { ...reply, ...(raw.length === 0 ? {} : { raw: plainData(raw) }) };
      } catch (error) {
        throw failureOf(error, { asked: options, signal: request.signal, isLate: clock.isLate() });
      } finally {
        clock.stop();
      }
    },
  };
}

/** What a timer can wait for: one for longer would end at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** A signal that ends with another one, or when the time is over. Once stopped, nothing of it is left: a long run makes many. */
function openClock(seconds: number, outer: AbortSignal) {
  const controller = new AbortController();
  let isLate = false;
  const onAbort = () => controller.abort(outer.reason);
  const timer = setTimeout(
    () => {
      isLate = true;
      controller.abort(new DOMException("The time is over", "TimeoutError"));
    },
    Math.min(seconds * 1000, LONGEST_MS),
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

/** What SDKs call how hard to think. Another word is not passed on. */
export const EFFORTS: ReadonlySet<string> = new Set(["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

// What a provider kept may be gone, or be another account's, when a conversation is gone on with: all of it goes along, and
// nothing is kept. What was sent before is cheaper when Anthropic is told that it will come again.
const PROVIDER_OPTIONS = {
  openai: { store: false },
  anthropic: { cacheControl: { type: "ephemeral" } },
} as const;

type Middleware = Parameters<typeof import("ai").wrapLanguageModel>[0]["middleware"];

/** Sees each attempt, bounds what it says, and keeps warnings of the provider, which the SDK would print, to itself. */
function watched(request: ModelRequest, options: SdkOptions): Middleware {
  let failed: string | undefined;
  let again = 0;
  return {
    specificationVersion: "v4",
    async wrapStream({ doStream }) {
      if (failed !== undefined) request.onRetry?.(`${failed}; asked again (${++again} of ${options.retries})`);
      try {
        const { stream, ...rest } = await doStream();
        const bound = boundAnswer(options.name);
        const quiet = new TransformStream({
          // What is thrown here closes the connection.
          transform(part: AnswerPart, controller) {
            bound(part);
            controller.enqueue(part.type === "stream-start" ? { ...part, warnings: [] } : part);
          },
        });
        return { ...rest, stream: (stream as ReadableStream).pipeThrough(quiet) };
      } catch (error) {
        failed = sayFailure(error, options);
        throw lastingFailure(error, options) ?? error;
      }
    },
  };
}

async function collect(
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
    if (part.type === "tool-call" && !part.providerExecuted) calls.push(asCall(part, names));
    if (part.type === "finish-step") end = part;
  }
  if (!end || (end.rawFinishReason === undefined && UNENDED.has(end.finishReason))) throw new BrokenOff();
  const { usage } = end;
  return {
    text,
    calls,
    usage: {
      inputTokens: usage.inputTokens ?? 0,
      outputTokens: usage.outputTokens ?? 0,
      cachedTokens: usage.inputTokenDetails.cacheReadTokens ?? 0,
    },
    finish: finishOf(end.finishReason, calls),
  };
}

/** What the SDK says of a stream that ended without its end. */
const UNENDED = new Set<string>(["interrupted", "other"]);

function finishOf(reason: string, calls: readonly ToolCall[]): ModelReply["finish"] {
  // Some servers say that they have stopped when they want to call.
  if (calls.length > 0 && reason !== "length") return "calls";
  return FINISH[reason] ?? "other";
}

const FINISH: Record<string, ModelReply["finish"]> = {
  stop: "stop",
  length: "length",
  "content-filter": "filtered",
};

function asCall(
  { toolCallId, toolName, input }: { toolCallId: string; toolName: string; input: unknown },
  names: WireNames,
): ToolCall {
  const call = { id: toolCallId, tool: names.toId(toolName) ?? toolName, input };
  if (typeof input === "string") return { ...call, problem: "its input is no JSON" };
  return isObject(input) ? call : { ...call, problem: "its input is no JSON object" };
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** As data that can be written down. Providers take nothing but an object for a call's input, and no name that they forbid. */
function plainData(messages: readonly AssistantModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages), (_, value) =>
    value?.type === "tool-call"
      ? { ...value, toolName: wireName(value.toolName), input: isObject(value.input) ? value.input : {} }
      : value,
  );
}

function asModelMessages(message: Message, names: WireNames): ModelMessage[] {
  if (message.role === "user") return [{ role: "user", content: message.text }];
  if (message.role === "tool")
    return [{ role: "tool", content: message.results.map((result) => asResult(result, names)) }];
  if (Array.isArray(message.raw)) return message.raw as AssistantModelMessage[];
  const content = [
    ...(message.text === "" ? [] : [{ type: "text" as const, text: message.text }]),
    ...message.calls.map(({ id, tool, input }) => ({
      type: "tool-call" as const,
      toolCallId: id,
      toolName: names.toWire(tool),
      input: isObject(input) ? input : {},
    })),
  ];
  return content.length === 0 ? [] : [{ role: "assistant", content }];
}

function asResult({ id, tool, content, isError }: CallResult, names: WireNames) {
  const output = { type: isError ? ("error-text" as const) : ("text" as const), value: content };
  return { type: "tool-result" as const, toolCallId: id, toolName: names.toWire(tool), output };
}
