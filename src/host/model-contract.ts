import type { Usage } from "../skill/tool.ts";

export type { Usage } from "../skill/tool.ts";

/** A language model, or what stands in for one. */
export interface Model {
  /** `anthropic/claude-…`, `ollama/…`, `runbook`. */
  readonly name: string;
  /** Whether it can be told how hard to think. */
  readonly takesEffort?: boolean;
  /** How many tokens it can read at once, where that is known: a list of skills takes 1 % of it. */
  readonly contextWindow?: number;
  /** Contract: resolves with what the model said, or throws a SkillError: `model-unreachable`, `model-refused`, `model-timeout`, `model-broken`. */
  respond(request: ModelRequest): Promise<ModelReply>;
}

/** A model of the AI SDK, by its shape: `anthropic("…")`, or one of your own making. */
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
  /** How hard to think, where the model can be told: `low`, `medium`, `high`. */
  effort?: string;
  /** What is to be done, for a model that reads no prose. */
  task: ModelTask;
  signal: AbortSignal;
  /** Called with each piece of text as it comes. Contract: does not throw. */
  onText(text: string): void;
  /** Called when it tries again. Contract: does not throw. */
  onRetry?(reason: string): void;
}

/** What a request is about. */
export interface ModelTask {
  /** The skill that is followed, with its instructions as they were written; none in a conversation. */
  skill?: {
    name: string;
    body: string;
    arguments: string | undefined;
    names: readonly string[];
    folder: string | undefined;
  };
  /** What the user wrote last, or the caller. */
  message: string;
}

export interface ModelTool {
  name: string;
  description: string;
  inputSchema: Readonly<Record<string, unknown>>;
}

/** One turn of a conversation. Plain data: it can be stored, and gone on with later. */
export type Message =
  | { role: "user"; text: string }
  | {
      role: "assistant";
      text: string;
      calls: readonly ToolCall[] /** As the provider wants to have it back. */;
      raw?: unknown;
    }
  | { role: "tool"; results: readonly ToolCallResult[] };

export interface ToolCall {
  id: string;
  tool: string;
  input: unknown;
  /** What is wrong with it: it is no JSON. Such a call is answered, not made. */
  problem?: string;
}

export interface ToolCallResult {
  id: string;
  tool: string;
  content: string;
  isError: boolean;
}

export interface ModelReply {
  text: string;
  calls: readonly ToolCall[];
  usage: Usage;
  /** `length`: it was cut off at the model's limit. `filtered`: the provider kept it back. */
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
  /** The key itself, `env:NAME` or `file:PATH`; the provider's own variable when left out. */
  apiKey?: string;
  /** How long one answer may take. */
  seconds?: number;
  /** How often it is asked again after a failure that may pass. */
  retries?: number;
  /** How much it may say at once. */
  maxTokens?: number;
  /** How many tokens it can read at once. */
  contextWindow?: number;
}

/** US dollars for a million tokens. */
export interface ModelPrice {
  input?: number;
  output?: number;
  /** Of input that the provider had kept; as `input` when left out. */
  cached?: number;
}
