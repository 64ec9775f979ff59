import { z } from "zod";
import {
  type Entry,
  type Protocol,
  pieces,
  SCHEMA,
  signed,
  TEXT,
  type Tokens,
  USED,
  unsigned,
} from "./model-protocols.ts";

const ITEMS = z.union([
  z.strictObject({ role: z.enum(["system", "developer"]), content: TEXT }),
  z.strictObject({
    role: z.literal("user"),
    content: z.array(z.strictObject({ type: z.literal("input_text"), text: TEXT })).min(1),
  }),
  z.strictObject({
    role: z.literal("assistant"),
    id: TEXT.optional(),
    content: z.array(z.strictObject({ type: z.literal("output_text"), text: TEXT })).min(1),
  }),
  z.strictObject({
    type: z.literal("function_call"),
    id: TEXT.optional(),
    call_id: TEXT,
    name: TEXT,
    arguments: z.string(),
  }),
  z.strictObject({ type: z.literal("function_call_output"), call_id: TEXT, output: z.string() }),
  z.strictObject({
    type: z.literal("reasoning"),
    id: TEXT.optional(),
    encrypted_content: TEXT,
    summary: z.array(z.strictObject({ type: z.literal("summary_text"), text: TEXT })),
  }),
]);

const BODY = z.object({
  model: TEXT,
  stream: z.boolean().optional(),
  // A run could not resume at another provider with state kept at this one.
  store: z.literal(false),
  max_output_tokens: z.number().int().min(16).optional(),
  reasoning: z.object({ effort: z.string().optional() }).optional(),
  input: z.array(ITEMS).min(1),
  tools: z
    .array(
      z.strictObject({
        type: z.literal("function"),
        name: TEXT,
        description: z.string(),
        parameters: SCHEMA,
        strict: z.boolean().optional(),
      }),
    )
    .optional(),
});

/** OpenAI's own interface. */
export const responses: Protocol = {
  path: "/responses",
  headers: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  read(body) {
    const { model, stream = false, input, tools = [], reasoning, max_output_tokens } = BODY.parse(body);
    const said = input.flatMap((item) => ("role" in item ? [item] : []));
    const asked = said.findLast(({ role }) => role === "user")?.content;
    return {
      model,
      isStream: stream,
      effort: reasoning?.effort,
      mostTokens: max_output_tokens,
      wantsUsage: true,
      instructions: said.flatMap(({ content }) => (typeof content === "string" ? content : [])).join("\n\n"),
      prompt: Array.isArray(asked) ? asked.map(({ text }) => text).join("") : "",
      tools: Object.fromEntries(
        tools.map(({ name, description, parameters }) => [name, { description, schema: parameters }]),
      ),
      entries: input.flatMap((item): Entry[] => {
        if ("role" in item) return item.role === "user" || item.role === "assistant" ? [{ role: item.role }] : [];
        if (item.type === "reasoning") return [{ reasoning: unsigned(item.encrypted_content) }];
        if (item.type === "function_call")
          return [{ call: { id: item.call_id, name: item.name, input: JSON.parse(item.arguments) } }];
        return [{ result: { id: item.call_id, content: item.output, isError: undefined } }];
      }),
    };
  },
  answer() {
    throw new Error("only streams are served");
  },
  stream({ text, calls, usage, isCut, reasoning }) {
    const event = (type: string, data: object) => `data: ${JSON.stringify({ type, ...data })}`;
    const lines = [event("response.created", { response: { id: "resp_1", created_at: 1, model: "test-model" } })];
    let output_index = 0;
    const add = (item: object, done: object, inside: readonly string[]) => {
      lines.push(event("response.output_item.added", { output_index, item: { ...item } }), ...inside);
      lines.push(event("response.output_item.done", { output_index, item: { ...item, ...done } }));
      output_index++;
    };
    if (reasoning !== undefined) {
      const item_id = "rs_1";
      add({ type: "reasoning", id: item_id, summary: [] }, { encrypted_content: signed(reasoning) }, [
        event("response.reasoning_summary_part.added", { item_id, summary_index: 0 }),
        event("response.reasoning_summary_text.delta", { item_id, summary_index: 0, delta: reasoning }),
        event("response.reasoning_summary_part.done", { item_id, summary_index: 0 }),
      ]);
    }
    if (text !== "") {
      const deltas = pieces(text).map((delta) => event("response.output_text.delta", { item_id: "msg_1", delta }));
      add({ type: "message", id: "msg_1" }, {}, deltas);
    }
    for (const { id, name, input, written = JSON.stringify(input) } of calls) {
      const item = { type: "function_call", id: `fc_${id}`, call_id: id, name, arguments: "" };
      const deltas = pieces(written).map((delta) =>
        event("response.function_call_arguments.delta", { item_id: item.id, output_index, delta }),
      );
      add(item, { arguments: written, status: "completed" }, deltas);
    }
    const ended = isCut ? { incomplete_details: { reason: "max_output_tokens" } } : {};
    lines.push(
      event(isCut ? "response.incomplete" : "response.completed", { response: { ...ended, usage: used(usage) } }),
    );
    return lines;
  },
  refusal: (message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

function used({ input, output, cached }: Tokens = USED) {
  return { input_tokens: input, input_tokens_details: { cached_tokens: cached }, output_tokens: output };
}
