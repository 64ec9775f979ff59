import { pieces, textOf } from "./text.mjs";

/** The protocol of OpenAI's Responses, which Codex uses. */
export const responses = {
  isAsked: (path) => path.endsWith("/responses"),
  aside: (path) => (path.endsWith("/models") ? { models: [], data: [] } : {}),
  read: ({ tools = [], input }) => ({
    isStream: true,
    tools: tools.flatMap(toolsIn),
    results: input
      .filter(({ type }) => type === "function_call_output" || type === "mcp_tool_call_output")
      .map(({ output }) => textOf(output)),
  }),
  stream({ text, call }) {
    const item = call ? called(call) : said(text);
    const deltas = call
      ? pieces(item.arguments).map((delta) =>
          event("response.function_call_arguments.delta", { item_id: item.id, output_index: 0, delta }),
        )
      : pieces(text).map((delta) =>
          event("response.output_text.delta", { item_id: item.id, output_index: 0, content_index: 0, delta }),
        );
    return [
      event("response.created", { response: { id: "resp_1", created_at: 1, model: "gpt-5" } }),
      event("response.output_item.added", {
        output_index: 0,
        item: call ? { ...item, arguments: "" } : { ...item, content: [] },
      }),
      ...deltas,
      event("response.output_item.done", { output_index: 0, item }),
      event("response.completed", { response: { id: "resp_1", usage: USAGE } }),
    ];
  },
};

const USAGE = {
  input_tokens: 10,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: 5,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 15,
};
const event = (type, data) => `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}`;
const said = (text) => ({ type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text }] });
const called = ({ id, tool, input }) => ({
  type: "function_call",
  id: `fc_${id}`,
  call_id: id,
  ...tool.as,
  arguments: JSON.stringify(input),
});

/** Returns the tools. A server's tools may be in their own namespace; a call then names both. */
function toolsIn({ type, name, tools = [] }) {
  if (type === "namespace")
    return tools.map((tool) => ({ name: `${name}/${tool.name}`, as: { namespace: name, name: tool.name } }));
  return name === undefined ? [] : [{ name, as: { name } }];
}
