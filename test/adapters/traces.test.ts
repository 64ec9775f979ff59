import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { createTraceExporter, type TraceExporter } from "../../src/adapters/opentelemetry/trace-exporter.ts";
import { createConversation } from "../../src/agent/session/conversation.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { runTraced as tracedWork } from "../../src/cli/progress.ts";
import { type Collector, type Got, startCollector } from "../support/collector.ts";
import { ended, started } from "../support/statistics-events.ts";
import { type Parts, useScene } from "../support/use.ts";

const TOKENS = { input: 100, output: 10, cached: 40 };

function open({ url }: Pick<Collector, "url">, more: Record<string, string> = {}): TraceExporter {
  const traces = createTraceExporter({ OTEL_EXPORTER_OTLP_ENDPOINT: url, ...more });
  if (!traces) throw new Error("there are none");
  return traces;
}

/** Uses the first skill, with spans sent to a collector. */
async function traced(parts: Parts, more: Record<string, string> = {}) {
  const [scene, server] = [await useScene(parts), await startCollector()];
  const traces = open(server, more);
  const [skill = ""] = Object.keys(parts.skills);
  const used = await scene.use({ skill, message: "words of the user" }, { onEvent: traces.record });
  expect(await traces.flush()).toBeUndefined();
  return { ...used, server, spans: server.spans() };
}

/** The names of spans, each below its parent. */
function tree(spans: readonly Got[], parent?: string, indent = ""): string[] {
  const inOrder = spans.filter((span) => span.parentSpanId === parent).sort((a, b) => Number(a.start - b.start));
  return inOrder.flatMap((span) => [indent + span.name, ...tree(spans, span.spanId, `${indent}  `)]);
}

const named = (spans: readonly Got[], name: string): Got => {
  const found = spans.find((span) => span.name === name);
  if (!found) throw new Error(`no span ${name}, but ${spans.map((span) => span.name).join(", ")}`);
  return found;
};

describe("spans", () => {
  it("are a run, its steps and its calls, with an inner run below the call that started it", async () => {
    const { spans, result, server } = await traced({
      skills: { outer: {}, inner: {} },
      turns: [
        () => ({ calls: [{ tool: "use_skill", input: { skill: "inner", message: "go" } }], usage: TOKENS }),
        () => ({ calls: [{ tool: "read_file", input: { path: "README.md" } }], usage: TOKENS }),
        () => ({ text: "from within", usage: TOKENS }),
        () => ({ text: "done", usage: TOKENS }),
      ],
    });
    expect(result.content).toBe("done");
    expect(tree(spans)).toEqual([
      "invoke_agent outer",
      "  chat test-model",
      "  execute_tool use_skill",
      "    invoke_agent inner",
      "      chat test-model",
      "      execute_tool read_file",
      "      chat test-model",
      "  chat test-model",
    ]);
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(named(spans, "invoke_agent outer")).toMatchObject({
      kind: 1,
      isFailed: false,
      attributes: {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "outer",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "test-model",
        "gen_ai.usage.input_tokens": 400,
        "gen_ai.usage.output_tokens": 40,
        "gen_ai.usage.cache_read.input_tokens": 160,
        "skillet.run": result.run,
        "skillet.source": "~/.skillet/skills",
        "skillet.depth": 1,
        "skillet.stop": "answer",
        "skillet.iterations": 2,
      },
    });
    const chat = named(spans, "chat test-model");
    expect(chat.kind).toBe(3);
    expect(chat.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai-compatible",
      "gen_ai.request.model": "test-model",
      "gen_ai.usage.input_tokens": 100,
      "gen_ai.usage.output_tokens": 10,
      "gen_ai.usage.cache_read.input_tokens": 40,
      "skillet.step": 1,
    });
    expect(named(spans, "execute_tool read_file").attributes).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "read_file",
      "gen_ai.tool.type": "function",
      "skillet.step": 1,
      "skillet.characters": expect.any(Number),
    });
    expect(server.requests, "all at once, when the outer run has ended").toHaveLength(1);
    expect(server.requests[0]).toMatchObject({ path: "/v1/traces", headers: { "content-type": "application/json" } });
  });

  it("report failures: a run, a call, and one that was not made", async () => {
    const { spans } = await traced({
      skills: { x: { more: "max_iterations: 2\n" } },
      turns: [
        () => [
          { tool: "read_file", input: { path: "not-there.md" } },
          { tool: "teleport", input: {} },
        ],
        () => [{ tool: "read_file", input: { path: "README.md" } }],
      ],
    });
    expect(named(spans, "invoke_agent x")).toMatchObject({
      isFailed: true,
      attributes: { "error.type": "max-iterations", "skillet.stop": "max-iterations" },
    });
    const read = named(spans, "execute_tool read_file");
    expect(read).toMatchObject({ isFailed: true, attributes: { "error.type": "path-missing" } });
    const unknown = named(spans, "execute_tool teleport");
    expect(unknown).toMatchObject({ isFailed: true, attributes: { "error.type": "tool-unknown" } });
  });

  it("report that the model was unreachable, and that a use was refused", async () => {
    const failed = await traced({ skills: { x: {} }, turns: [() => ({ status: 401 })] });
    expect(tree(failed.spans)).toEqual(["invoke_agent x"]);
    expect(failed.spans[0]?.attributes).toMatchObject({ "error.type": "error" });
    const refused = await traced({ skills: { x: { more: "required_tools: [teleport]\n" } }, turns: [] });
    expect(tree(refused.spans)).toEqual(["invoke_agent x"]);
    expect(refused.spans[0]).toMatchObject({ isFailed: true, attributes: { "error.type": "missing-tool" } });
  });

  it("of a conversation contain those of the skills that it uses", async () => {
    const scene = await useScene({
      skills: { inner: {} },
      turns: [
        () => [{ tool: "use_skill", input: { skill: "inner", message: "go" } }],
        () => "from within",
        () => "done",
      ],
    });
    const server = await startCollector();
    const traces = open(server);
    const host = { ...scene.found, onEvent: traces.record };
    await createConversation(openSession(scene.found.catalog, host), host).send("do it");
    await traces.flush();
    expect(tree(server.spans()).slice(0, 4)).toEqual([
      "invoke_agent",
      "  chat test-model",
      "  execute_tool use_skill",
      "    invoke_agent inner",
    ]);
  });

  it("[Q-22] contain no secret, and no message text by default", async () => {
    const secret = "very-secret-0815";
    const parts: Parts = {
      skills: { keyed: { more: "env: [A_KEY]\n" } },
      config: `[skills.keyed]\nA_KEY = "${secret}"\n`,
      turns: [
        () => ({
          text: `The answer is ${secret}, in words of the model.`,
          calls: [
            { tool: "read_file", input: { path: `notes-of-${secret}.md` } },
            { tool: "complete", input: { result: `It is ${secret}.` } },
          ],
        }),
      ],
    };
    const quiet = await traced(parts);
    const sent = JSON.stringify(quiet.server.requests);
    for (const text of [secret, "words of the user", "words of the model", "notes-of"])
      expect(sent).not.toContain(text);
    const told = await traced(parts, { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" });
    const all = JSON.stringify(told.server.requests);
    expect(all).not.toContain(secret);
    const read = named(told.spans, "execute_tool read_file");
    expect(JSON.parse(String(read.attributes["gen_ai.tool.call.arguments"]))).toEqual({ path: "notes-of-[A_KEY].md" });
    const messages = told.spans.flatMap(({ attributes }) => attributes["gen_ai.output.messages"] ?? []);
    const content = "The answer is [A_KEY], in words of the model.";
    expect(JSON.parse(String(messages[0]))).toEqual([
      { role: "assistant", parts: [{ type: "text", content }], finish_reason: "tool_call" },
    ]);
  });

  // Nanoseconds are more than a number holds exactly: one millisecond in eight came out as the one before.
  const times = ["2026-11-16T13:00:00.002Z", "2026-11-16T13:00:00.003Z"];
  it.each(times)("of a resumed run are complete, though its start was reported elsewhere, at %s", async (at) => {
    const server = await startCollector();
    const traces = open(server);
    const rest = { run: "r.1.1", skill: "inner", at };
    traces.record({ ...rest, run: "r", skill: "outer", type: "tool-called", step: 1, tool: "use_skill", input: {} });
    const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
    traces.record({ ...rest, type: "step-ended", step: 2, ms: 5, usage, calls: 0 });
    traces.record(ended("inner", { ...rest }));
    traces.record(ended("outer", { run: "r" }));
    await traces.flush();
    expect(tree(server.spans())).toEqual([
      "invoke_agent outer",
      "  execute_tool use_skill",
      "    invoke_agent inner",
      "      chat",
    ]);
  });

  it("of many are sent in batches, and those of a run that never ends at the flush", async () => {
    const server = await startCollector();
    const traces = open(server);
    traces.record(started("x", { run: "r" }));
    const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
    for (let step = 1; step <= 1300; step++) {
      traces.record({
        type: "step-ended",
        run: "r",
        skill: "x",
        at: new Date().toISOString(),
        step,
        ms: 0,
        usage,
        calls: 1,
      });
    }
    expect(await traces.flush()).toBeUndefined();
    expect(server.spans()).toHaveLength(1301);
    expect(server.requests.length).toBe(3);
  });
});

describe("the environment variables of traces", () => {
  it.each([
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_SDK_DISABLED: "true" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318", OTEL_TRACES_EXPORTER: "none" },
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318",
      TRACEPARENT: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
    },
  ])("%j enable none", (env) => {
    expect(createTraceExporter(env)).toBeUndefined();
  });

  it("set headers, the service, its environment, and its owner", async () => {
    const server = await startCollector();
    const traces = open(server, {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${server.url}/base/`,
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20a%2Cb, x-team = tools",
      OTEL_SERVICE_NAME: "mine",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment.name=a%20b",
      TRACEPARENT: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    traces.record(started("x", { run: "r" }));
    traces.record(ended("x", { run: "r" }));
    expect(await traces.flush()).toBeUndefined();
    expect(server.requests[0]).toMatchObject({
      path: "/base/v1/traces",
      headers: { authorization: "Bearer a,b", "x-team": "tools" },
    });
    expect(server.resource()).toEqual({
      "service.name": "mine",
      "service.version": expect.any(String),
      "deployment.environment.name": "a b",
    });
    expect(server.spans()).toMatchObject([
      { traceId: "0af7651916cd43dd8448eb211c80319c", parentSpanId: "b7ad6b7169203331" },
    ]);
  });

  it("for traces alone take precedence", async () => {
    const server = await startCollector();
    const traces = open(server, {
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${server.url}/as/it/is`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
    });
    expect(traces.problem).toBeUndefined();
    traces.record(ended("x"));
    await traces.flush();
    expect(server.requests[0]?.path).toBe("/as/it/is");
  });

  it("with an unsupported protocol cause one warning, and the default", async () => {
    const server = await startCollector();
    const traces = open(server, { OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf" });
    expect(traces.problem?.message).toContain("sent as http/json: OTEL_EXPORTER_OTLP_PROTOCOL asks for http/protobuf");
    traces.record(ended("x"));
    expect(await traces.flush()).toBeUndefined();
    expect(server.spans()).toHaveLength(1);
  });

  it.each(["localhost:4318", "collector", "ftp://x", "http://me:hunter22@127.0.0.1:1"])(
    "with the address %s cause a warning without its password",
    async (address) => {
      const traces = open({ url: address });
      expect(traces.problem?.message).toContain("not the address of a collector");
      traces.record(ended("x"));
      expect(JSON.stringify([traces.problem, await traces.flush()])).not.toContain("hunter22");
    },
  );

  it("[Q-22] with invalid headers cause a warning that shows none of them", async () => {
    const server = await startCollector();
    const traces = open(server, { OTEL_EXPORTER_OTLP_HEADERS: "a b=hunter22,authorization=%zz" });
    expect(traces.problem?.message).toContain("OTEL_EXPORTER_OTLP_HEADERS cannot be read");
    expect(JSON.stringify(traces.problem)).not.toContain("hunter22");
  });
});

describe("a failing collector", () => {
  const use = async (env: Record<string, string>) => {
    const scene = await useScene({ skills: { x: {} }, turns: [() => "ok"] });
    const traces = createTraceExporter(env);
    const { result } = await scene.use({ skill: "x" }, { onEvent: (event) => traces?.record(event) });
    expect(result.content).toBe("ok");
    return await traces?.flush();
  };

  it("that is down does not affect the run, and one line reports it", async () => {
    const url = await unheard();
    const notice = await use({ OTEL_EXPORTER_OTLP_ENDPOINT: url });
    expect(notice).toMatchObject({ code: "traces-unsent" });
    expect(notice?.message).toBe(`Cannot send traces to ${url}/v1/traces: ECONNREFUSED`);
  });

  it("that hangs is awaited for two seconds at the end, and not during the run", async () => {
    const server = await startCollector({ hangs: true });
    const notice = await use({ OTEL_EXPORTER_OTLP_ENDPOINT: server.url });
    expect(notice?.message).toContain("did not answer within 2 seconds");
  });

  it("that hangs is awaited no longer than the environment says", async () => {
    const server = await startCollector({ hangs: true });
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: server.url, OTEL_EXPORTER_OTLP_TIMEOUT: "100" };
    expect((await use(env))?.message).toContain("did not answer in time");
  });

  it("can refuse spans, or redirect them", async () => {
    const refusing = await startCollector({ status: 503 });
    expect((await use({ OTEL_EXPORTER_OTLP_ENDPOINT: refusing.url }))?.message).toContain("it answered 503");
    const sending = await startCollector({ status: 307 });
    expect(await use({ OTEL_EXPORTER_OTLP_ENDPOINT: sending.url })).toBeDefined();
  });

  it("is reported at the end, with the fix", async () => {
    let stderr = "";
    const write = (text: string) => {
      stderr += text;
    };
    const url = await unheard();
    const io = { stdout: { write }, stderr: { write }, cwd: "/", env: { OTEL_EXPORTER_OTLP_ENDPOINT: url } };
    await tracedWork(io, async (traces) => {
      traces?.record(ended("x"));
      stderr += "The answer.\n";
    });
    expect(stderr).toMatch(
      /^The answer\.\n! Cannot send traces to \S+\/v1\/traces: ECONNREFUSED {2}\[traces-unsent\]\n {2}check that it runs.*\n$/,
    );
    expect(await tracedWork({ ...io, env: {} }, async (traces) => traces)).toBeUndefined();
  });
});

/** An address without a server. */
async function unheard(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}
