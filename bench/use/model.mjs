import { createServer } from "node:http";

export const TOOL = "tick";
const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };

/**
 * Starts a language model that answers immediately, on the loopback interface, with OpenAI's chat completions. It calls a tool
 * a set number of times, and then answers that it is done.
 */
export async function openModel() {
  let calls = 0;
  let asked = () => {};
  const server = createServer((request, response) => {
    asked();
    const isCall = calls-- > 0;
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "text/event-stream" }).end(isCall ? call(calls) : DONE);
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    /** Sets the number of tool calls before the final answer. */
    willCall(times) {
      calls = times;
    },
    /** Resolves with the time of the next request. */
    nextAsked: () =>
      new Promise((resolve) => {
        asked = () => resolve(performance.now());
      }),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function call(left) {
  const made = { index: 0, id: `call_${left}`, type: "function", function: { name: TOOL, arguments: "{}" } };
  return stream({ role: "assistant", tool_calls: [made] }, "tool_calls");
}

function stream(delta, reason) {
  const head = { id: "1", object: "chat.completion.chunk", created: 0, model: "bench" };
  const chunks = [
    { ...head, choices: [{ index: 0, delta, finish_reason: null }] },
    { ...head, choices: [{ index: 0, delta: {}, finish_reason: reason }], usage: USAGE },
  ];
  return `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;
}

const DONE = stream({ role: "assistant", content: "done" }, "stop");
