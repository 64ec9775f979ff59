import { z } from "zod";

export interface Call {
  id: string;
  name: string;
  input: unknown;
}

export interface Said {
  text: string;
  /** `written` is its input on the wire, if that is not the JSON of `input`. */
  calls: readonly (Call & { written?: string })[];
  /** Its reasoning, which only this server can read again. */
  reasoning?: string;
  usage?: Tokens;
  /** It was cut off. */
  isCut?: boolean;
}

export interface Tokens {
  input: number;
  output: number;
  /** Of the input. */
  cached: number;
}

/** One item of a conversation. */
export type Entry =
  | { role: "user" | "assistant"; text?: string }
  | { call: Call }
  | { reasoning: string }
  | { result: { id: string; content: string; isError: boolean | undefined } };

export interface ReadRequest {
  model: string;
  isStream: boolean;
  /** The reasoning effort. */
  effort: string | undefined;
  /** The maximum number of output tokens. */
  mostTokens: number | undefined;
  /** True when the end of a stream must report the usage. */
  wantsUsage: boolean;
  instructions: string;
  /** The user's last message. */
  prompt: string;
  tools: Readonly<Record<string, { description: string; schema: Readonly<Record<string, unknown>> }>>;
  entries: readonly Entry[];
}

/** The spelling of a provider's API. */
export interface Protocol {
  path: string;
  /** The required parts of a request. */
  headers(apiKey: string): Readonly<Record<string, string>>;
  /** Throws for a body that the provider would refuse. */
  read(body: unknown): ReadRequest;
  answer(said: Said): object;
  /** The same as events of a stream. */
  stream(said: Said, request: ReadRequest): readonly string[];
  refusal(message: string): object;
}

export const TEXT = z.string().min(1);
export const SCHEMA = z.record(z.string(), z.unknown());

const OPENAI_BODY = z.object({
  model: TEXT,
  stream: z.boolean().optional(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).optional(),
  reasoning_effort: z.enum(["minimal", "low", "medium", "high"]).optional(),
  max_tokens: z.number().int().min(1).optional(),
  messages: z
    .array(
      z.discriminatedUnion("role", [
        z.strictObject({ role: z.literal("system"), content: z.string() }),
        z.strictObject({ role: z.literal("user"), content: TEXT }),
        z.strictObject({
          role: z.literal("assistant"),
          content: z.string().nullable(),
          tool_calls: z
            .array(
              z.strictObject({
                id: TEXT,
                type: z.literal("function"),
                function: z.strictObject({ name: TEXT, arguments: z.string() }),
              }),
            )
            .min(1)
            .optional(),
        }),
        z.strictObject({ role: z.literal("tool"), tool_call_id: TEXT, content: z.string() }),
      ]),
    )
    .min(1),
  tools: z
    .array(
      z.strictObject({
        type: z.literal("function"),
        function: z.strictObject({ name: TEXT, description: z.string(), parameters: SCHEMA }),
      }),
    )
    .optional(),
});

/** Chat completions, as OpenAI, Ollama and many others serve them. */
export const openai: Protocol = {
  path: "/chat/completions",
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  read(body) {
    const { model, stream = false, messages, tools = [], ...rest } = OPENAI_BODY.parse(body);
    return {
      model,
      isStream: stream,
      effort: rest.reasoning_effort,
      mostTokens: rest.max_tokens,
      wantsUsage: rest.stream_options?.include_usage === true,
      instructions: messages.flatMap((message) => (message.role === "system" ? message.content : [])).join("\n\n"),
      prompt: messages.findLast(({ role }) => role === "user")?.content ?? "",
      tools: Object.fromEntries(
        tools.map(({ function: { name, description, parameters } }) => [name, { description, schema: parameters }]),
      ),
      entries: messages.flatMap((message): Entry[] => {
        if (message.role === "system") return [];
        if (message.role === "tool")
          return [{ result: { id: message.tool_call_id, content: message.content, isError: undefined } }];
        if (message.role === "user") return [{ role: "user", text: message.content }];
        const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
          call: { id, name, input: JSON.parse(input) },
        }));
        return [{ role: "assistant", text: message.content ?? "" }, ...calls];
      }),
    };
  },
  answer: ({ text, calls, usage, isCut }) => ({
    ...OPENAI_HEAD,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: calls.length > 0 && text === "" ? null : text,
          ...(calls.length > 0 ? { tool_calls: calls.map(openaiCall) } : {}),
        },
        finish_reason: openaiReason(calls, isCut),
      },
    ],
    usage: openaiUsage(usage),
  }),
  stream({ text, calls, usage, isCut }, { wantsUsage }) {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      `data: ${JSON.stringify({ ...OPENAI_HEAD, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}`;
    return [
      chunk({ role: "assistant", content: "" }),
      ...pieces(text).map((content) => chunk({ content })),
      ...calls.flatMap((call, index) => {
        const whole = openaiCall(call);
        return [
          chunk({ tool_calls: [{ index, ...whole, function: { name: call.name, arguments: "" } }] }),
          ...pieces(whole.function.arguments).map((part) =>
            chunk({ tool_calls: [{ index, function: { arguments: part } }] }),
          ),
        ];
      }),
      chunk({}, openaiReason(calls, isCut)),
      ...(wantsUsage
        ? [
            `data: ${JSON.stringify({ ...OPENAI_HEAD, object: "chat.completion.chunk", choices: [], usage: openaiUsage(usage) })}`,
          ]
        : []),
      "data: [DONE]",
    ];
  },
  refusal: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

const OPENAI_HEAD = { id: "chatcmpl-1", created: 1, model: "test-model" };
const openaiReason = (calls: readonly Call[], isCut = false) =>
  isCut ? "length" : calls.length > 0 ? "tool_calls" : "stop";

function openaiUsage({ input, output, cached }: Tokens = USED) {
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

export const USED: Tokens = { input: 10, output: 5, cached: 0 };

function openaiCall({ id, name, input, written = JSON.stringify(input) }: Said["calls"][number]) {
  return { id, type: "function", function: { name, arguments: written } };
}

const ANTHROPIC_TEXT = z.strictObject({ type: z.literal("text"), text: TEXT });
const ANTHROPIC_BODY = z.object({
  model: TEXT,
  max_tokens: z.number().int().min(1),
  stream: z.boolean().optional(),
  cache_control: z.strictObject({ type: z.literal("ephemeral") }).optional(),
  output_config: z.strictObject({ effort: z.enum(["low", "medium", "high", "xhigh", "max"]) }).optional(),
  // An empty text block is refused, as the provider does.
  system: z.array(ANTHROPIC_TEXT).optional(),
  messages: z
    .array(
      z.discriminatedUnion("role", [
        z.strictObject({
          role: z.literal("user"),
          content: z
            .array(
              z.discriminatedUnion("type", [
                ANTHROPIC_TEXT,
                z.strictObject({
                  type: z.literal("tool_result"),
                  tool_use_id: TEXT,
                  content: z.string(),
                  is_error: z.boolean().optional(),
                }),
              ]),
            )
            .min(1),
        }),
        z.strictObject({
          role: z.literal("assistant"),
          content: z
            .array(
              z.discriminatedUnion("type", [
                ANTHROPIC_TEXT,
                z.strictObject({ type: z.literal("thinking"), thinking: z.string(), signature: TEXT }),
                z.strictObject({ type: z.literal("tool_use"), id: TEXT, name: TEXT, input: SCHEMA }),
              ]),
            )
            .min(1),
        }),
      ]),
    )
    .min(1),
  tools: z
    .array(
      z.strictObject({
        name: TEXT,
        description: z.string(),
        input_schema: SCHEMA,
        eager_input_streaming: z.boolean().optional(),
      }),
    )
    .optional(),
});

/** Anthropic's messages. */
export const anthropic: Protocol = {
  path: "/messages",
  headers: (apiKey) => ({ "x-api-key": apiKey, "anthropic-version": "2023-06-01" }),
  read(body) {
    const { model, stream = false, system = [], messages, tools = [], ...rest } = ANTHROPIC_BODY.parse(body);
    const parts = messages.flatMap(({ role, content }) => content.map((part) => ({ role, part })));
    const asked = parts.findLast(({ role, part }) => role === "user" && part.type === "text");
    return {
      model,
      isStream: stream,
      effort: rest.output_config?.effort,
      mostTokens: rest.max_tokens,
      wantsUsage: true,
      instructions: system.map(({ text }) => text).join("\n\n"),
      prompt: asked?.part.type === "text" ? asked.part.text : "",
      tools: Object.fromEntries(
        tools.map(({ name, description, input_schema }) => [name, { description, schema: input_schema }]),
      ),
      entries: parts.map(({ role, part }): Entry => {
        if (part.type === "tool_use") return { call: { id: part.id, name: part.name, input: part.input } };
        if (part.type === "tool_result")
          return { result: { id: part.tool_use_id, content: part.content, isError: part.is_error ?? false } };
        return part.type === "thinking" ? { reasoning: unsigned(part.signature) } : { role, text: part.text };
      }),
    };
  },
  answer: ({ text, calls, usage, isCut }) => ({
    ...ANTHROPIC_HEAD,
    content: [...(text === "" && calls.length > 0 ? [] : [{ type: "text", text }]), ...calls.map(anthropicCall)],
    stop_reason: anthropicReason(calls, isCut),
    stop_sequence: null,
    usage: anthropicUsage(usage),
  }),
  stream({ text, calls, usage, isCut, reasoning }) {
    const thought = reasoning === undefined ? 0 : 1;
    const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}`;
    const block = (index: number, content_block: object, deltas: readonly object[]) => [
      event("content_block_start", { index, content_block }),
      ...deltas.map((delta) => event("content_block_delta", { index, delta })),
      event("content_block_stop", { index }),
    ];
    return [
      event("message_start", {
        message: {
          ...ANTHROPIC_HEAD,
          content: [],
          stop_reason: null,
          usage: { ...anthropicUsage(usage), output_tokens: 1 },
        },
      }),
      ...(reasoning === undefined
        ? []
        : block(0, { type: "thinking", thinking: "" }, [
            ...pieces(reasoning).map((thinking) => ({ type: "thinking_delta", thinking })),
            { type: "signature_delta", signature: signed(reasoning) },
          ])),
      ...(text === "" && calls.length > 0
        ? []
        : block(
            thought,
            { type: "text", text: "" },
            pieces(text).map((part) => ({ type: "text_delta", text: part })),
          )),
      ...calls.flatMap((call, index) =>
        block(
          index + thought + (text === "" ? 0 : 1),
          { ...anthropicCall(call), input: {} },
          pieces(call.written ?? JSON.stringify(call.input)).map((part) => ({
            type: "input_json_delta",
            partial_json: part,
          })),
        ),
      ),
      event("message_delta", {
        delta: { stop_reason: anthropicReason(calls, isCut), stop_sequence: null },
        usage: { output_tokens: (usage ?? USED).output },
      }),
      event("message_stop", {}),
    ];
  },
  refusal: (message) => ({ type: "error", error: { type: "invalid_request_error", message } }),
};

const ANTHROPIC_HEAD = { id: "msg_1", type: "message", role: "assistant", model: "test-model" };
const anthropicReason = (calls: readonly Call[], isCut = false) =>
  isCut ? "max_tokens" : calls.length > 0 ? "tool_use" : "end_turn";

function anthropicUsage({ input, output, cached }: Tokens = USED) {
  return {
    input_tokens: input - cached,
    output_tokens: output,
    ...(cached > 0 ? { cache_read_input_tokens: cached } : {}),
  };
}

/** Content that only this server can read again. */
export function signed(reasoning: string): string {
  return `signed.${Buffer.from(reasoning).toString("base64url")}`;
}

export function unsigned(signature: string): string {
  const [, text] = /^signed\.([\w-]+)$/.exec(signature) ?? [];
  if (text === undefined) throw new Error(`the signature "${signature}" is not from this server`);
  return Buffer.from(text, "base64url").toString();
}
const anthropicCall = ({ id, name, input }: Call) => ({ type: "tool_use", id, name, input });

/** Splits a text as it arrives over a wire: in parts that end anywhere. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,9}/g) ?? [];
}
