import { z } from "zod";

export interface Call {
  id: string;
  name: string;
  input: unknown;
}

export interface Said {
  text: string;
  calls: readonly Call[];
}

/** One thing of a conversation. */
export type Entry =
  | { role: "user" | "assistant" }
  | { call: Call }
  | { result: { id: string; content: string; isError: boolean | undefined } };

export interface ReadRequest {
  model: string;
  isStream: boolean;
  instructions: string;
  /** What the user wrote last. */
  prompt: string;
  tools: Readonly<Record<string, { description: string; schema: Readonly<Record<string, unknown>> }>>;
  entries: readonly Entry[];
}

/** How a provider's interface spells things. */
export interface Protocol {
  path: string;
  /** What a request must carry. */
  headers(apiKey: string): Readonly<Record<string, string>>;
  /** Throws for a body that the provider would refuse. */
  read(body: unknown): ReadRequest;
  answer(said: Said): object;
  /** The same as events of a stream. */
  stream(said: Said): readonly string[];
  refusal(message: string): object;
}

const TEXT = z.string().min(1);
const SCHEMA = z.record(z.string(), z.unknown());

const OPENAI_BODY = z.object({
  model: TEXT,
  stream: z.boolean().optional(),
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
    const { model, stream = false, messages, tools = [] } = OPENAI_BODY.parse(body);
    return {
      model,
      isStream: stream,
      instructions: messages.flatMap((message) => (message.role === "system" ? message.content : [])).join("\n\n"),
      prompt: messages.findLast(({ role }) => role === "user")?.content ?? "",
      tools: Object.fromEntries(
        tools.map(({ function: { name, description, parameters } }) => [name, { description, schema: parameters }]),
      ),
      entries: messages.flatMap((message): Entry[] => {
        if (message.role === "system") return [];
        if (message.role === "tool")
          return [{ result: { id: message.tool_call_id, content: message.content, isError: undefined } }];
        if (message.role === "user") return [{ role: "user" }];
        const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => ({
          call: { id, name, input: JSON.parse(input) },
        }));
        return [{ role: "assistant" }, ...calls];
      }),
    };
  },
  answer: ({ text, calls }) => ({
    ...OPENAI_HEAD,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: calls.length > 0 ? null : text,
          ...(calls.length > 0 ? { tool_calls: calls.map(openaiCall) } : {}),
        },
        finish_reason: openaiReason(calls),
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  }),
  stream({ text, calls }) {
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
      chunk({}, openaiReason(calls)),
      "data: [DONE]",
    ];
  },
  refusal: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

const OPENAI_HEAD = { id: "chatcmpl-1", created: 1, model: "test-model" };
const openaiReason = (calls: readonly Call[]) => (calls.length > 0 ? "tool_calls" : "stop");

function openaiCall({ id, name, input }: Call) {
  return { id, type: "function", function: { name, arguments: JSON.stringify(input) } };
}

const ANTHROPIC_TEXT = z.strictObject({ type: z.literal("text"), text: TEXT });
const ANTHROPIC_BODY = z.object({
  model: TEXT,
  max_tokens: z.number().int().min(1),
  stream: z.boolean().optional(),
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
    const { model, stream = false, system = [], messages, tools = [] } = ANTHROPIC_BODY.parse(body);
    const parts = messages.flatMap(({ role, content }) => content.map((part) => ({ role, part })));
    const asked = parts.findLast(({ role, part }) => role === "user" && part.type === "text");
    return {
      model,
      isStream: stream,
      instructions: system.map(({ text }) => text).join("\n\n"),
      prompt: asked?.part.type === "text" ? asked.part.text : "",
      tools: Object.fromEntries(
        tools.map(({ name, description, input_schema }) => [name, { description, schema: input_schema }]),
      ),
      entries: parts.map(({ role, part }): Entry => {
        if (part.type === "tool_use") return { call: { id: part.id, name: part.name, input: part.input } };
        if (part.type === "tool_result")
          return { result: { id: part.tool_use_id, content: part.content, isError: part.is_error ?? false } };
        return { role };
      }),
    };
  },
  answer: ({ text, calls }) => ({
    ...ANTHROPIC_HEAD,
    content: calls.length > 0 ? calls.map(anthropicCall) : [{ type: "text", text }],
    stop_reason: anthropicReason(calls),
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
  }),
  stream({ text, calls }) {
    const event = (type: string, data: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}`;
    const block = (index: number, content_block: object, deltas: readonly object[]) => [
      event("content_block_start", { index, content_block }),
      ...deltas.map((delta) => event("content_block_delta", { index, delta })),
      event("content_block_stop", { index }),
    ];
    return [
      event("message_start", {
        message: { ...ANTHROPIC_HEAD, content: [], stop_reason: null, usage: { input_tokens: 10, output_tokens: 1 } },
      }),
      ...(calls.length > 0
        ? calls.flatMap((call, index) =>
            block(
              index,
              { ...anthropicCall(call), input: {} },
              pieces(JSON.stringify(call.input)).map((part) => ({ type: "input_json_delta", partial_json: part })),
            ),
          )
        : block(
            0,
            { type: "text", text: "" },
            pieces(text).map((part) => ({ type: "text_delta", text: part })),
          )),
      event("message_delta", {
        delta: { stop_reason: anthropicReason(calls), stop_sequence: null },
        usage: { output_tokens: 5 },
      }),
      event("message_stop", {}),
    ];
  },
  refusal: (message) => ({ type: "error", error: { type: "invalid_request_error", message } }),
};

const ANTHROPIC_HEAD = { id: "msg_1", type: "message", role: "assistant", model: "test-model" };
const anthropicReason = (calls: readonly Call[]) => (calls.length > 0 ? "tool_use" : "end_turn");
const anthropicCall = ({ id, name, input }: Call) => ({ type: "tool_use", id, name, input });

/** A text as it comes over a wire: in parts that end anywhere. */
function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,9}/g) ?? [];
}
