import { pieces, textOf } from "./text.mjs";

/** The protocol of Anthropic's Messages API. */
export const anthropic = {
  isAsked: (path) => path.endsWith("/messages"),
  aside: (path) => (path.endsWith("/count_tokens") ? { input_tokens: 1 } : {}),
  read({ tools = [], messages, stream = false }) {
    const parts = messages.flatMap(({ content }) =>
      Array.isArray(content) ? content : [{ type: "text", text: content }],
    );
    const whole = tools.map(({ name }) => ({ name }));
    return {
      isStream: stream,
      tools: [...whole, ...deferred(parts).filter(({ name }) => !whole.some((tool) => tool.name === name))],
      results: parts
        .filter(({ type, tool_use_id }) => type === "tool_result" && tool_use_id.startsWith("call_"))
        .map(({ content }) => textOf(content)),
    };
  },
  answer: ({ text, call }) => ({
    ...HEAD,
    content: [call ? use(call) : { type: "text", text }],
    stop_reason: call ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: USAGE,
  }),
  stream: ({ text, call }) => [
    event("message_start", { message: { ...HEAD, content: [], stop_reason: null, stop_sequence: null, usage: USAGE } }),
    event("content_block_start", {
      index: 0,
      content_block: call ? { ...use(call), input: {} } : { type: "text", text: "" },
    }),
    ...(call
      ? pieces(JSON.stringify(call.input)).map((partial_json) => ({ type: "input_json_delta", partial_json }))
      : pieces(text).map((part) => ({ type: "text_delta", text: part }))
    ).map((delta) => event("content_block_delta", { index: 0, delta })),
    event("content_block_stop", { index: 0 }),
    event("message_delta", {
      delta: { stop_reason: call ? "tool_use" : "end_turn", stop_sequence: null },
      usage: { output_tokens: 5 },
    }),
    event("message_stop", {}),
  ],
};

const HEAD = { id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-4-5" };
const USAGE = { input_tokens: 10, output_tokens: 5 };
const use = ({ id, tool, input }) => ({ type: "tool_use", id, name: tool.name, input });
const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}`;

/**
 * Returns the tools. A client may announce a server's tools by name alone, also next to a result, and fetches their schemas
 * before it calls them.
 */
function deferred(parts) {
  const texts = parts.flatMap(({ text, content }) => text ?? (content ? textOf(content) : []));
  const names = texts.flatMap((text) => text.match(/^mcp__\S+$/gm) ?? []);
  return [...new Set(names)].map((name) => ({
    name,
    first: { tool: { name: "ToolSearch" }, input: { query: `select:${name}`, max_results: 5 } },
  }));
}
