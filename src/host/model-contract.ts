import type { Usage } from "../skill/tool.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";

export type { Usage } from "../skill/tool.ts";

/** A language model, or a replacement such as `runbook`. */
export interface Model {
  /** `anthropic/claude-…`, `ollama/…`, `runbook`. */
  readonly name: string;
  /** True if the reasoning effort can be set. */
  readonly supportsEffort?: boolean;
  /** The context window in tokens, if known: the list of skills uses 1 % of it. */
  readonly contextWindow?: number;
  /** Contract: resolves with the reply, or throws a SkillError: `model-unreachable`, `model-refused`, `model-timeout`, `model-broken`. */
  respond(request: ModelRequest): Promise<ModelReply>;
}

/** A model of the AI SDK, typed by its shape: `anthropic("…")`, or your own implementation. */
export interface AiSdkModel {
  readonly specificationVersion: string;
  readonly provider: string;
  readonly modelId: string;
  doStream(options: never): PromiseLike<unknown>;
}

export interface ModelRequest {
  /** The system prompt. */
  instructions: string;
  messages: readonly Message[];
  tools: readonly ModelTool[];
  /** The reasoning effort, if the model supports it: `low`, `medium`, `high`. */
  effort?: string;
  /** The task as data, for a model that does not read prose. */
  task: ModelTask;
  signal: AbortSignal;
  /** Called with each piece of streamed text. Contract: does not throw. */
  onText(text: string): void;
  /** Called before each retry. Contract: does not throw. */
  onRetry?(reason: string): void;
}

/** The subject of a request. */
export interface ModelTask {
  /** The skill that the run follows, with its unmodified instructions. Undefined in a conversation. */
  skill?: {
    name: string;
    body: string;
    arguments: string | undefined;
    names: readonly string[];
    folder: string | undefined;
  };
  /** The last message of the user or the caller. */
  message: string;
}

export interface ModelTool {
  name: string;
  description: string;
  inputSchema: Readonly<Record<string, unknown>>;
}

/** One turn of a conversation. Plain data, so it can be stored and resumed later. */
export type Message =
  | {
      role: "user";
      text: string;
      /** The part that the user wrote, if the text has more. */
      userText?: string;
    }
  | {
      role: "assistant";
      text: string;
      /** The skill whose answer this is, if the user ran one outside the conversation. */
      skill?: string;
      calls: readonly ToolCall[] /** The provider-specific form, sent back unchanged. */;
      raw?: unknown;
    }
  | { role: "tool"; results: readonly ToolCallResult[] };

export interface ToolCall {
  id: string;
  tool: string;
  input: unknown;
  /** The reason why the input is invalid JSON. Such a call gets an error result and is not made. */
  problem?: string;
}

export interface ToolCallResult {
  id: string;
  tool: string;
  /** The text for a language model, which gets nothing else. */
  content: string;
  isError: boolean;
  /** The output without its frame, and the data behind it, for a model that reads no prose. */
  output?: string;
  data?: JsonObject;
}

/** Leaves out of tool results what a language model does not get. For `JSON.stringify`. */
export function omitResultData(_key: string, value: unknown): unknown {
  if (!isJsonObject(value) || typeof value["content"] !== "string" || typeof value["tool"] !== "string") return value;
  const { output: _output, data: _data, ...sent } = value;
  return sent;
}

export interface ModelReply {
  text: string;
  calls: readonly ToolCall[];
  usage: Usage;
  /** `length`: truncated at the output limit of the model. `filtered`: withheld by the provider. */
  finish: "stop" | "calls" | "length" | "filtered" | "other";
  raw?: unknown;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0 };

export const MODEL_PROVIDERS = ["anthropic", "openai", "ollama", "openai-compatible"] as const;
export type ModelProvider = (typeof MODEL_PROVIDERS)[number];

/** `[models.<alias>]` of the configuration. */
export interface ModelSettings {
  provider?: ModelProvider;
  model?: string;
  baseUrl?: string;
  /** The key itself, `env:NAME` or `file:PATH`. Defaults to the environment variable of the provider. */
  apiKey?: string;
  /** The timeout of one response. */
  seconds?: number;
  /** The maximum retries after a transient failure. */
  retries?: number;
  /** The maximum requests, and tokens of requests and answers, that this process sends to the account in a minute. */
  requestsPerMinute?: number;
  tokensPerMinute?: number;
  /** The maximum output tokens of one response. */
  maxTokens?: number;
  /** The context window in tokens. */
  contextWindow?: number;
}

/** US dollars per million tokens. */
export interface ModelPrice {
  input?: number;
  output?: number;
  /** The price of cached input. Defaults to `input`. */
  cached?: number;
  /** The day on which the prices were valid: `2026-11-19`. */
  date?: string;
}
