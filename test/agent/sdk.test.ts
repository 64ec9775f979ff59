import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { describe, expect, it, onTestFinished } from "vitest";
import { REASONING_EFFORTS } from "../../src/agent/models/ai-sdk-model.ts";
import { resolveModel } from "../../src/agent/models/resolve-model.ts";
import type { Message } from "../../src/host/model-contract.ts";
import { API_KEY, MODEL } from "../support/model-server.ts";
import { withGrowingLimit } from "../support/wait-for.ts";
import {
  ALL_WAYS,
  catchFailure,
  createHostWith,
  createModelRequest,
  resolveModelAt,
  user,
  WAYS,
  WEATHER,
} from "./model-requests.ts";

const SOON = { "retry-after-ms": "10" };

describe.each(ALL_WAYS)("a model over the protocol of %s", (way) => {
  it("streams its text, and reports the usage", async () => {
    const said = "It is sunny in Oslo today, and warm.";
    const { model, requests } = await resolveModelAt(way, [
      () => ({ text: said, usage: { input: 1200, output: 34, cached: 1000 } }),
    ]);
    const request = createModelRequest();
    const reply = await model.respond(request);
    expect(reply).toMatchObject({ text: said, calls: [], finish: "stop" });
    expect(reply.usage).toEqual({ inputTokens: 1200, outputTokens: 34, cachedTokens: 1000 });
    expect(request.texts.length).toBeGreaterThan(1);
    expect(request.texts.join("")).toBe(said);
    expect(requests[0]).toMatchObject({ instructions: "Be brief.", prompt: "What is it?", model: MODEL });
    expect(requests[0]?.tools).toEqual({
      weather: {
        description: "Says what the weather is.",
        schema: expect.objectContaining({ type: "object", required: ["city"] }),
      },
    });
    expect(model.name).toBe(`${WAYS[way]}/${MODEL}`);
  });

  it("makes no call itself, and continues with the results of the calls", async () => {
    const { model, requests } = await resolveModelAt(way, [
      () => [
        { tool: "weather", input: { city: "Oslo" } },
        { tool: "weather", input: { city: "Rome" } },
      ],
      ({ results }) => results.map(({ content }) => content).join(" and "),
    ]);
    const first = await model.respond(createModelRequest());
    expect(first).toMatchObject({ text: "", finish: "calls" });
    expect(first.calls).toEqual([
      { id: "call_1", tool: "weather", input: { city: "Oslo" } },
      { id: "call_2", tool: "weather", input: { city: "Rome" } },
    ]);
    expect(requests).toHaveLength(1);
    const messages: Message[] = [
      user("What is it?"),
      { role: "assistant", ...first },
      {
        role: "tool",
        results: [
          { id: "call_1", tool: "weather", content: "rain", isError: false },
          { id: "call_2", tool: "weather", content: "no such city", isError: true },
        ],
      },
    ];
    expect((await model.respond(createModelRequest({ messages }))).text).toMatch(/^rain and .*no such city/);
    if (way === "anthropic") expect(requests[1]?.results.map(({ isError }) => isError)).toEqual([false, true]);
  });

  it("continues a stored conversation, with and without the provider's own metadata", async () => {
    const { model, requests } = await resolveModelAt(way, [
      () => ({ calls: [{ tool: "weather", input: { city: "Oslo" } }], reasoning: "I should look." }),
      () => "rain",
      () => "rain again",
    ]);
    const { text, calls, raw } = await model.respond(createModelRequest());
    const results = [{ id: "call_1", tool: "weather", content: "rain", isError: false }];
    const stored = JSON.parse(
      JSON.stringify([user("What is it?"), { role: "assistant", text, calls, raw }, { role: "tool", results }]),
    );
    expect((await model.respond(createModelRequest({ messages: stored }))).text).toBe("rain");
    expect(requests[1]?.reasoning).toEqual(way === "openai" ? [] : ["I should look."]);
    delete stored[1].raw;
    expect((await model.respond(createModelRequest({ messages: stored }))).text).toBe("rain again");
    expect(requests[2]?.reasoning).toEqual([]);
  });

  it("returns calls of unknown tools, and calls without JSON, with the error", async () => {
    const { model } = await resolveModelAt(way, [
      () => [
        { tool: "wether", input: { city: "Oslo" } },
        { tool: "weather", input: {}, written: '{"city": "Os' },
        { tool: "weather", input: {}, written: '["Oslo"]' },
      ],
      ({ results }) => String(results.length),
    ]);
    const reply = await model.respond(createModelRequest());
    expect(reply.calls.map(({ tool, problem }) => [tool, problem])).toEqual([
      ["wether", undefined],
      ["weather", "its input is not JSON"],
      ["weather", "its input is not a JSON object"],
    ]);
    const results = reply.calls.map(({ id, tool }) => ({ id, tool, content: "wrong", isError: true }));
    const messages: Message[] = [user("What is it?"), { role: "assistant", ...reply }, { role: "tool", results }];
    expect((await model.respond(createModelRequest({ messages }))).text).toBe("3");
  });

  it("receives names that its provider accepts, and its calls come back with the original names", async () => {
    const tools = ["web.search", "web__search", "plan", "notes.söka", `long.${"x".repeat(80)}`].map((name) => ({
      ...WEATHER,
      name,
    }));
    const input = { city: "Oslo" };
    const { model, requests } = await resolveModelAt(way, [
      (request) => Object.keys(request.tools).map((tool) => ({ tool, input })),
      ({ results }) => results.map(({ content }) => content).join(" "),
      ({ results }) => results.map(({ content }) => content).join(" "),
    ]);
    const { text, calls, raw } = await model.respond(createModelRequest({ tools }));
    expect(calls.map(({ tool }) => tool)).toEqual(tools.map(({ name }) => name));
    expect(Object.keys(requests[0]?.tools ?? {})).toEqual([
      expect.stringMatching(/^web_search_/),
      "web__search",
      "plan",
      expect.stringMatching(/^notes_s_ka_/),
      expect.stringMatching(/^long_x+_[a-z0-9]+$/),
    ]);
    const results = calls.map(({ id, tool }) => ({ id, tool, content: tool.slice(0, 5), isError: false }));
    for (const kept of [{ raw }, {}]) {
      const messages: Message[] = [user("Go"), { role: "assistant", text, calls, ...kept }, { role: "tool", results }];
      expect((await model.respond(createModelRequest({ tools, messages }))).text).toBe("web.s web__ plan notes long.");
    }
  });

  it("can call a tool with an impossible name, and continue", async () => {
    const { model } = await resolveModelAt(way, [
      () => [{ tool: "functions.weather", input: { city: "Oslo" } }],
      ({ results }) => String(results.length),
      ({ results }) => String(results.length),
    ]);
    const { text, calls, raw } = await model.respond(createModelRequest());
    expect(calls).toEqual([{ id: "call_1", tool: "functions.weather", input: { city: "Oslo" } }]);
    const results = [{ id: "call_1", tool: "functions.weather", content: "there is none", isError: true }];
    for (const kept of [{ raw }, {}]) {
      const messages: Message[] = [user("Go"), { role: "assistant", text, calls, ...kept }, { role: "tool", results }];
      expect((await model.respond(createModelRequest({ messages }))).text).toBe("1");
    }
  });

  it("accepts an empty answer, and one that was cut off", async () => {
    const { model } = await resolveModelAt(way, [() => "", () => ({ text: "It is", isCut: true })]);
    const empty = await model.respond(createModelRequest());
    expect(empty).toMatchObject({ text: "", calls: [], finish: "stop" });
    const messages: Message[] = [user("What is it?"), { role: "assistant", ...empty }, user("Well?")];
    expect(await model.respond(createModelRequest({ messages }))).toMatchObject({ text: "It is", finish: "length" });
  });

  it("sends requests without instructions and tools, and with the given limit of tokens", async () => {
    const { model, requests } = await resolveModelAt(way, [() => "ok"], { maxTokens: 77, seconds: 10 ** 9 });
    await model.respond(createModelRequest({ instructions: "", tools: [] }));
    expect(requests[0]).toMatchObject({ instructions: "", tools: {}, mostTokens: 77 });
  });

  it("retries a temporary failure as soon as the provider allows, and reports that", async () => {
    const { model, requests } = await resolveModelAt(way, [
      () => ({ status: 429, headers: { "retry-after": "0" }, message: "slow down" }),
      () => ({ status: 503, headers: SOON }),
      () => "ok",
    ]);
    const request = createModelRequest();
    expect((await model.respond(request)).text).toBe("ok");
    expect(requests).toHaveLength(3);
    expect(request.retries).toEqual([
      expect.stringMatching(/^429: slow down.*; retrying \(1 of 2\)$/),
      expect.stringMatching(/^503.*; retrying \(2 of 2\)$/),
    ]);
  });

  it("reports that the provider is unreachable after more failures, and the last failure", async () => {
    const turn = () => ({ status: 500, headers: SOON, message: "out of cake" });
    const { model, url } = await resolveModelAt(way, [turn, turn], { retries: 1 });
    const error = await catchFailure(model, createModelRequest());
    expect(error).toMatchObject({ code: "model-unreachable", message: expect.stringContaining("out of cake") });
    expect(error.message).toContain(url);
    expect(error.fix).toMatch(/try again/);
  });

  it("names the refused key and its source, never its value", async () => {
    for (const status of [401, 403]) {
      const message = `Incorrect key ${API_KEY} for this`;
      const { model } = await resolveModelAt(way, [() => ({ status, message })]);
      const error = await catchFailure(model, createModelRequest());
      expect(error).toMatchObject({ code: "model-refused" });
      expect(error.message).toContain("api_key of [models.default]");
      expect(`${error.message}${error.fix}${error.stack}${JSON.stringify(error)}`).not.toContain(API_KEY);
      expect(error.cause).toBeUndefined();
    }
  });

  it("reports a missing model, and other refusals of the provider", async () => {
    const { model } = await resolveModelAt(way, [
      () => ({ status: 404, message: "no model of this name" }),
      () => ({ status: 400, message: "the prompt is too long" }),
    ]);
    expect(await catchFailure(model, createModelRequest())).toMatchObject({
      code: "model-refused",
      message: expect.stringContaining("was not found"),
      fix: expect.stringContaining("name"),
    });
    expect(await catchFailure(model, createModelRequest())).toMatchObject({
      code: "model-refused",
      message: expect.stringContaining("(400): the prompt is too long"),
    });
  });

  it("ends at its time limit", async () => {
    const { error } = await withGrowingLimit(
      async (seconds) => {
        const { model, requests } = await resolveModelAt(way, () => ({ hangs: true }), { seconds });
        return { error: await catchFailure(model, createModelRequest()), requests };
      },
      ({ requests }) => requests.length > 0,
    );
    expect(error).toMatchObject({ code: "model-timeout", fix: expect.stringContaining("timeout_seconds") });
  });

  it("ends with the caller's own abort reason, before and during the request", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const hangs = () => {
      setImmediate(() => controller.abort(reason));
      return { hangs: true } as const;
    };
    const { model } = await resolveModelAt(way, [hangs]);
    expect(await catchFailure(model, createModelRequest({ signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(await catchFailure(model, createModelRequest({ signal: controller.signal }))).toBe(reason);
  });

  it("reports that the connection broke off", async () => {
    const { model } = await resolveModelAt(way, [() => ({ breaksOff: "It is sunny in Oslo today." })]);
    const request = createModelRequest();
    const error = await catchFailure(model, request);
    expect(request.texts.join("")).toMatch(/^It is sunny/);
    expect(error).toMatchObject({
      code: "model-unreachable",
      message: expect.stringContaining("the answer was truncated"),
    });
    expect(error.message).not.toContain("cannot be reached");
  });

  it.each(["data: {not json\n\n", 'data: {"hello": "world"}\n\n', "<html>Sign in</html>", ""])(
    "reports the answer %j",
    async (sends) => {
      const { model } = await resolveModelAt(way, [() => ({ sends })]);
      const error = await catchFailure(model, createModelRequest());
      expect(["model-broken", "model-unreachable"]).toContain(error.code);
      expect(error.fix).not.toBe("");
    },
  );

  it("prints nothing, whatever happens", async () => {
    const { model } = await resolveModelAt(way, [() => ({ status: 400 }), () => ({ sends: "x" }), () => "ok"]);
    const printed: unknown[] = [];
    const warn = (warning: unknown) => printed.push(warning);
    process.on("warning", warn);
    const { error, log } = console;
    console.error = console.log = (...parts: unknown[]) => printed.push(parts);
    onTestFinished(() => {
      process.off("warning", warn);
      Object.assign(console, { error, log });
    });
    await catchFailure(model, createModelRequest());
    await catchFailure(model, createModelRequest());
    await model.respond(createModelRequest({ effort: "high" }));
    await new Promise(setImmediate); // Warnings are emitted in the next tick.
    expect(printed).toEqual([]);
  });
});

const STREAMED = {
  openai: 'data: {"error":{"message":"out of cake","type":"server_error"}}',
  anthropic: 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"out of cake"}}',
  responses:
    'data: {"type":"response.failed","sequence_number":1,"response":{"error":{"code":"server_error","message":"out of cake"}}}',
} as const;

describe("a model", () => {
  it.each(ALL_WAYS)("reports an error in the stream, over the protocol of %s", async (way) => {
    const { model } = await resolveModelAt(way, [() => ({ sends: `${STREAMED[way]}\n\n` })], { retries: 0 });
    const error = await catchFailure(model, createModelRequest());
    expect(error.message).toContain("out of cake");
    expect(error.code).toBe(way === "openai" ? "model-refused" : "model-unreachable");
  });

  it("can be an SDK model that the program passes, including one that fails in its own way", async () => {
    const usage = {
      inputTokens: { total: 3, noCache: 3, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 1, text: 1, reasoning: undefined },
    };
    const chunks = [
      { type: "stream-start", warnings: [] },
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "hello" },
      { type: "text-end", id: "1" },
      { type: "finish", finishReason: { unified: "stop", raw: undefined }, usage },
    ] as never[];
    const good = new MockLanguageModelV4({
      doStream: async () => ({ stream: simulateReadableStream({ chunks }) }),
    });
    const bad = new MockLanguageModelV4({
      provider: "acme.chat",
      modelId: "a-1",
      doStream: () => Promise.reject(new Error("out of cake")),
    });
    const host = createHostWith({}, { models: { default: good, bad } });
    const reply = await (await resolveModel(host, undefined)).model.respond(createModelRequest());
    expect(reply).toMatchObject({ text: "hello", usage: { inputTokens: 3, outputTokens: 1, cachedTokens: 0 } });
    expect(await catchFailure((await resolveModel(host, "bad")).model, createModelRequest())).toMatchObject({
      code: "model-broken",
      message: "acme/a-1 returned an invalid answer: out of cake",
    });
  });

  it("uses the configured reasoning effort if it supports one", async () => {
    const wanted = ["high", undefined, "harder"];
    const turns = wanted.map(() => () => "ok");
    for (const [way, efforts] of [
      ["responses", ["high", undefined, undefined]],
      ["openai", [undefined, undefined, undefined]],
    ] as const) {
      const { model, requests } = await resolveModelAt(way, turns, { model: "gpt-6-astra" });
      for (const effort of wanted) await model.respond(createModelRequest(effort ? { effort } : {}));
      expect(requests.map(({ effort }) => effort)).toEqual(efforts);
    }
  });

  it("never follows a redirect to another host with its key", async () => {
    const seen: string[] = [];
    const other = createServer((request, response) => {
      seen.push(JSON.stringify(request.headers));
      response.writeHead(500).end();
    });
    const server = createServer((_, response) => {
      const { port } = other.address() as AddressInfo;
      response.writeHead(307, { location: `http://localhost:${port}/v1/messages` }).end();
    });
    for (const one of [other, server]) {
      await new Promise<void>((resolve) => one.listen(0, resolve));
      onTestFinished(() => void one.close());
    }
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    for (const provider of Object.values(WAYS)) {
      const host = createHostWith({ default: { provider, model: MODEL, baseUrl, apiKey: API_KEY, retries: 0 } });
      const { model } = await resolveModel(host, undefined);
      expect(await catchFailure(model, createModelRequest())).toMatchObject({ code: "model-unreachable" });
    }
    expect(seen).toEqual([]);
  });

  it("names the address that does not answer, after another try", async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    await new Promise((resolve) => server.close(resolve));
    const { model } = await resolveModel(createHostWith({ default: { baseUrl, model: "x", retries: 1 } }), undefined);
    const request = createModelRequest();
    const error = await catchFailure(model, request);
    expect(error).toMatchObject({ code: "model-unreachable", message: expect.stringContaining(baseUrl) });
    expect(error.message).toContain("connection refused");
    expect(request.retries).toEqual(["connection refused; retrying (1 of 1)"]);
  });

  it.each(ALL_WAYS)("is not retried at a port that fetch blocks, over the protocol of %s", async (way) => {
    const settings = { provider: WAYS[way], model: MODEL, baseUrl: "http://127.0.0.1:6000/v1", apiKey: API_KEY };
    const { model } = await resolveModel(createHostWith({ default: settings }), undefined);
    const request = createModelRequest();
    const error = await catchFailure(model, request);
    expect(error).toMatchObject({ code: "model-unreachable", message: expect.stringContaining("127.0.0.1:6000") });
    expect(error.fix).toBe("correct base_url of [models.default] in config.toml");
    expect(request.retries).toEqual([]);
  });

  it("is not retried at an invalid address", async () => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const own = createOpenAICompatible({ name: "acme", baseURL: "nowhere at all" })("a-1");
    const request = createModelRequest();
    const { model } = await resolveModel(createHostWith({}, { models: { default: own } }), undefined);
    expect(await catchFailure(model, request)).toMatchObject({
      code: "model-unreachable",
      message: expect.stringContaining("cannot be called"),
    });
    expect(request.retries).toEqual([]);
  });

  it.each([
    ["text", "4 MiB in one answer", { content: "x".repeat(64 * 1024) }],
    ["thoughts", "4 MiB in one answer", { reasoning_content: "x".repeat(64 * 1024) }],
    [
      "the input of a call",
      "1 MiB in one tool call",
      { tool_calls: [{ index: 0, id: "c", function: { name: "weather", arguments: "x".repeat(64 * 1024) } }] },
    ],
  ])("that streams endless %s is ended at a limit, and its connection closed", async (_, bound, delta) => {
    const line = `data: ${JSON.stringify({ id: "1", choices: [{ index: 0, delta }] })}\n\n`;
    let sent = 0;
    const server = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const more = () => {
        while (!response.destroyed && sent++ < 10_000 && response.write(line));
      };
      response.on("drain", more);
      more();
    });
    const closed = new Promise<void>((resolve) => {
      server.on("connection", (socket) => socket.on("close", () => resolve()));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    const { model } = await resolveModel(createHostWith({ default: { baseUrl, model: "x" } }), undefined);
    expect(await catchFailure(model, createModelRequest())).toMatchObject({
      code: "model-broken",
      message: `openai-compatible/x sent more than ${bound}`,
    });
    await closed;
    expect(sent).toBeLessThan(10_000);
  });

  it("lists the allowed values of the reasoning effort", () => {
    expect(REASONING_EFFORTS.has("high")).toBe(true);
    expect(REASONING_EFFORTS.has("ultra")).toBe(false);
  });
});
