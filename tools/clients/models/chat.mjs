import { pieces, textOf } from "./text.mjs";

/** The protocol of OpenAI's chat completions, which many servers implement. */
export const chat = {
  isAsked: (path) => path.endsWith("/chat/completions"),
  read: ({ tools = [], messages, stream = false }) => ({
    isStream: stream,
    tools: tools.map(({ function: { name } }) => ({ name })),
    results: messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content)),
  }),
  answer: ({ text, call }) => ({
    ...HEAD,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: { role: "assistant", ...(call ? { content: null, tool_calls: [called(call)] } : { content: text }) },
        finish_reason: call ? "tool_calls" : "stop",
      },
    ],
    usage: USAGE,
  }),
  stream: ({ text, call }) => [
    chunk({ role: "assistant", content: "" }),
    ...(call ? callDeltas(call) : pieces(text).map((content) => ({ content }))).map((delta) => chunk(delta)),
    chunk({}, call ? "tool_calls" : "stop"),
    `data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices: [], usage: USAGE })}`,
    "data: [DONE]",
  ],
};

const HEAD = { id: "chatcmpl-1", created: 1, model: "model" };
const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const called = ({ id, tool, input }) => ({
  id,
  type: "function",
  function: { name: tool.name, arguments: JSON.stringify(input) },
});

function callDeltas(call) {
  const whole = called(call);
  return [
    { tool_calls: [{ index: 0, ...whole, function: { name: call.tool.name, arguments: "" } }] },
    ...pieces(whole.function.arguments).map((part) => ({ tool_calls: [{ index: 0, function: { arguments: part } }] })),
  ];
}

const chunk = (delta, finish_reason = null) =>
  `data: ${JSON.stringify({ ...HEAD, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}`;
