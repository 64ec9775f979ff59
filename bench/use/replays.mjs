import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, streamText } from "ai";

/** Repeats the requests of a run without skillet, byte for byte, one after the other. Each returns the times of its answers. */
export const replays = {
  /** The cost of any request through the AI SDK. Everything that can be prepared is built beforehand. */
  async streamText({ instructions, messages, tools }, url) {
    const model = createOpenAICompatible({ name: "bench", baseURL: url, includeUsage: true })("bench");
    const all = messages.map(asModelMessage);
    const offered = Object.fromEntries(
      tools.map(({ name, description, inputSchema }) => [name, { description, inputSchema: jsonSchema(inputSchema) }]),
    );
    return timed(all, async (said) => {
      const { stream } = streamText({ model, instructions, messages: said, tools: offered, maxRetries: 0 });
      for await (const part of stream) if (part.type === "error") throw part.error;
    });
  },
  async fetch({ instructions, messages, tools }, url) {
    const all = messages.map(asWire);
    const head = {
      model: "bench",
      stream: true,
      stream_options: { include_usage: true },
      tools: tools.map(({ name, description, inputSchema: parameters }) => ({
        type: "function",
        function: { name, description, parameters },
      })),
      tool_choice: "auto",
    };
    return timed(all, async (said) => {
      const body = JSON.stringify({ ...head, messages: [{ role: "system", content: instructions }, ...said] });
      const response = await fetch(`${url}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      });
      await response.text();
    });
  },
};

/** Two messages per step, after the first message. */
async function timed(all, ask) {
  const times = [];
  for (let length = 1; length <= all.length; length += 2) {
    await ask(all.slice(0, length));
    times.push(performance.now());
  }
  return { times };
}

function asModelMessage({ role, text, raw, results }) {
  if (role === "user") return { role, content: text };
  if (role === "assistant") return raw[0];
  return {
    role,
    content: results.map(({ id, tool, content }) => ({
      type: "tool-result",
      toolCallId: id,
      toolName: tool,
      output: { type: "text", value: content },
    })),
  };
}

function asWire({ role, text, calls, results }) {
  if (role === "user") return { role, content: text };
  if (role === "tool") return { role, tool_call_id: results[0].id, content: results[0].content };
  return {
    role,
    content: null,
    tool_calls: calls.map(({ id, tool, input }) => ({
      id,
      type: "function",
      function: { name: tool, arguments: JSON.stringify(input) },
    })),
  };
}
