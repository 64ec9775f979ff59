import { setTimeout as wait } from "node:timers/promises";
import { OPEN_SECTIONS } from "../../agent/prompts/prompt-section.ts";
import type { PromptSession } from "../../agent/prompts/prompt-session.ts";
import { callTool } from "../../agent/run/call-tool.ts";
import { redactData, shortenInput } from "../../agent/run/redaction.ts";
import { addUsage, emitRunEvent, type StepRunner } from "../../agent/run/step-runner.ts";
import { shortenMiddle } from "../../agent/tools/tool-output.ts";
import type { RunLimits } from "../../config/limits.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { getErrorMessage, type Problem } from "../../errors/problem.ts";
import type { StopReason } from "../../host/events.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { CallOptions, Tool, Usage } from "../../skill/tool.ts";
import { createWireNames, type WireNames } from "../../skill/tool-names.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { packageVersion } from "../../util/system.ts";
import { sanitizeLine, wrapInTag } from "../../util/untrusted-text.ts";
import type { SdkTransport } from "./claude-sdk.ts";

export interface TranscriptOptions {
  run: string;
  steps: StepRunner;
  redactor: Redactor;
  limits: { iterations: number; seconds: number };
  /** Returns the current tools of the prompt. */
  listBridgedTools(): readonly Tool[];
  /** Called when a skill was loaded by name. */
  onSkill(name: string): void;
}

/** The end of a transcript, as reported by the SDK. */
export interface TranscriptEnd {
  stop: StopReason;
  text: string;
  usage?: Usage;
  cost?: number;
  error?: Problem;
  /** The answer as data, if requested. */
  structured?: unknown;
}

/** Converts messages of the SDK to events, and collects the result. */
export interface Transcript {
  record(message: unknown): void;
  /** Emits the pending events after the last message. */
  close(model: string | undefined): void;
  readonly step: number;
  readonly usage: Usage;
  readonly model: string | undefined;
  /** The last text of the model. */
  readonly text: string;
  readonly ended: TranscriptEnd | undefined;
}

interface TranscriptStep {
  id: string;
  started: number;
  usage: Usage;
  calls: number;
}

interface PendingCall {
  step: number;
  tool: string;
  input: unknown;
  started: number;
}

export function createTranscript({
  run,
  steps: stepRunner,
  redactor,
  limits,
  listBridgedTools: bridged,
  onSkill,
}: TranscriptOptions): Transcript {
  const emit = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(stepRunner, { run, skill: "" }, event);
  const nameOf = (tool: unknown) => resolveBridgedName(String(tool), bridged()) ?? String(tool);
  const pending = new Map<string, PendingCall>();
  let isStarted = false;
  let requestedAt = performance.now();
  let steps = 0;
  let now: TranscriptStep | undefined;
  const all: { usage: Usage; model?: string; text: string; ended?: TranscriptEnd } = { usage: NO_USAGE, text: "" };

  const begin = (model: string, tools: readonly string[]) => {
    if (isStarted) return;
    isStarted = true;
    emit({ type: "run-started", model, tools, depth: 1, limits });
  };
  const endStep = () => {
    if (!now) return;
    const { usage, calls, started } = now;
    all.usage = addUsage(all.usage, usage);
    emit({ type: "step-ended", step: steps, ms: Math.round(performance.now() - started), usage, calls });
    now = undefined;
  };
  const stepOf = (id: string): TranscriptStep => {
    if (now?.id === id) return now;
    endStep();
    steps++;
    now = { id, started: requestedAt, usage: NO_USAGE, calls: 0 };
    return now;
  };

  const blockHandlers: Record<string, (block: JsonObject, step: TranscriptStep) => void> = {
    text({ text }) {
      if (typeof text !== "string" || text === "") return;
      all.text = redactor.redact(text);
      emit({ type: "text-generated", step: steps, text: all.text });
    },
    tool_use({ id, name, input }, step) {
      const tool = nameOf(name);
      step.calls++;
      pending.set(String(id), { step: steps, tool, input, started: performance.now() });
      emit({ type: "tool-called", step: steps, tool, input: shortenInput(input, redactor) });
    },
  };
  const result = ({ tool_use_id: id, content, is_error }: JsonObject) => {
    const call = pending.get(String(id));
    if (!call) return;
    pending.delete(String(id));
    const text = redactor.redact(joinText(content));
    const isError = is_error === true;
    const wrong = isError ? { message: sanitizeLine(text, 300) } : {};
    const ms = Math.round(performance.now() - call.started);
    emit({ type: "tool-ended", step: call.step, tool: call.tool, isError, ...wrong, ms, characters: text.length });
    if (call.tool === "Skill" && !isError) onSkill(String(Object(call.input).skill ?? ""));
  };

  const messages: Record<string, (message: JsonObject) => void> = {
    system(message) {
      if (message["subtype"] === "init") {
        all.model = String(message["model"]);
        begin(all.model, toArray(message["tools"]).map(nameOf));
      }
      if (message["subtype"] === "api_retry") {
        const reason = `${message["error_status"] ?? "no answer"}: ${sanitizeLine(String(message["error"]), 100)}`;
        emit({ type: "model-retried", step: steps + 1, reason });
      }
    },
    // The usage of an answer is complete only at its end.
    stream_event({ event, parent_tool_use_id }) {
      if (!isJsonObject(event) || !isNullish(parent_tool_use_id)) return;
      const { type, message, usage } = event;
      if (type === "message_start" && isJsonObject(message))
        stepOf(String(message["id"])).usage = parseUsage(message["usage"]);
      if (type === "message_delta" && now) now.usage = takeLargerUsage(now.usage, parseUsage(usage));
    },
    assistant({ message, parent_tool_use_id, error }) {
      // A refusal of the API arrives as text, and again with the result.
      if (!isJsonObject(message) || !isNullish(parent_tool_use_id) || !isNullish(error)) return;
      const step = stepOf(String(message["id"]));
      for (const block of toArray(message["content"]))
        if (isJsonObject(block)) blockHandlers[String(block["type"])]?.(block, step);
    },
    user({ message }) {
      const content = isJsonObject(message) ? message["content"] : undefined;
      for (const block of toArray(content)) if (isJsonObject(block) && block["type"] === "tool_result") result(block);
      requestedAt = performance.now();
    },
    result(message) {
      endStep();
      all.ended = parseResult(message, redactor);
    },
  };

  return {
    record(message) {
      if (isJsonObject(message)) messages[String(message["type"])]?.(message);
    },
    close(model) {
      begin(all.model ?? model ?? "", []);
      // The process has ended, so no result will report how they ended.
      for (const id of pending.keys()) result({ tool_use_id: id, content: "It was interrupted.", is_error: true });
      endStep();
    },
    get step() {
      return Math.max(1, steps);
    },
    get usage() {
      return all.ended?.usage ?? all.usage;
    },
    get model() {
      return all.model;
    },
    get text() {
      return all.text;
    },
    get ended() {
      return all.ended;
    },
  };
}

const SDK_STOP_REASONS: Readonly<Record<string, StopReason>> = {
  success: "answer",
  error_max_turns: "max-iterations",
  error_max_budget_usd: "budget",
};

function parseResult(message: JsonObject, redactor: Redactor): TranscriptEnd {
  const { subtype, is_error, result, errors, modelUsage, total_cost_usd: cost, api_error_status: status } = message;
  const structured = message["structured_output"];
  const stop = SDK_STOP_REASONS[String(subtype)] ?? "error";
  const output = typeof result === "string" ? result : toArray(errors).map(String).join("; ");
  const text = redactor.redact(output);
  const known = { usage: sumModelUsage(modelUsage), ...(typeof cost === "number" ? { cost } : {}) };
  // A refusal of the API arrives as an answer that is an error.
  if (stop === "answer" && is_error !== true)
    return { stop, text, ...known, ...omitUndefined({ structured: redactData(redactor, structured) }) };
  if (stop === "max-iterations" || stop === "budget") return { stop, text: "", ...known };
  return { stop: "error", text: "", ...known, error: createApiProblem(text, status) };
}

function createApiProblem(text: string, status: unknown): Problem {
  // Without a key it does not call the API, so there is no status.
  const known = STATUS_FIXES[/^Not logged in\b/.test(text) ? 401 : String(status)];
  const fix = known ?? "check the output of Claude Code, and try again";
  const what = text === "" ? "Claude Code ended without an answer" : sanitizeLine(text, 500);
  return { code: classifyStatus(status), message: what, fix };
}

/** Classifies the status as for any other model. */
function classifyStatus(status: unknown): ErrorCode {
  if (typeof status !== "number") return "claude-failed";
  return status === 429 || status >= 500 ? "model-unreachable" : "model-refused";
}

const STATUS_FIXES: Readonly<Record<string, string>> = {
  400: "the request was refused: check the model's name and the options",
  401: "set ANTHROPIC_API_KEY, or copy the files with your credentials: isolation: { authFiles: […] }",
  403: "the key has no permission: use another",
  404: "check the model's name",
  429: "wait, and try again",
  529: "the API is overloaded: wait, and try again",
};

function parseUsage(usage: unknown): Usage {
  if (!isJsonObject(usage)) return NO_USAGE;
  const [read, made] = [toNumber(usage["cache_read_input_tokens"]), toNumber(usage["cache_creation_input_tokens"])];
  return {
    inputTokens: toNumber(usage["input_tokens"]) + read + made,
    outputTokens: toNumber(usage["output_tokens"]),
    cachedTokens: read,
  };
}

/** Sums the usage of all models, including sub-agents, like the cost. The usage field of a result omits both. */
function sumModelUsage(models: unknown): Usage {
  return Object.values(Object(models)).map(parseModelUsage).reduce(addUsage, NO_USAGE);
}

function parseModelUsage(usage: unknown): Usage {
  const { inputTokens, outputTokens, cacheReadInputTokens, cacheCreationInputTokens } = isJsonObject(usage)
    ? usage
    : {};
  return parseUsage({
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_read_input_tokens: cacheReadInputTokens,
    cache_creation_input_tokens: cacheCreationInputTokens,
  });
}

/** Merges usage: final values include earlier ones; missing values stay. */
function takeLargerUsage(before: Usage, after: Usage): Usage {
  return {
    inputTokens: Math.max(before.inputTokens, after.inputTokens),
    outputTokens: Math.max(before.outputTokens, after.outputTokens),
    cachedTokens: Math.max(before.cachedTokens, after.cachedTokens),
  };
}

function toNumber(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function toArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isNullish(value: unknown): boolean {
  return value === null || value === undefined;
}

function joinText(content: unknown): string {
  if (typeof content === "string") return content;
  return toArray(content)
    .map((block) => (isJsonObject(block) && typeof block["text"] === "string" ? block["text"] : ""))
    .join("\n");
}

/** The name of the MCP server, and the prefix of its tools' names. */
export const BRIDGE_SERVER = "skillet";
const TOOL_PREFIX = `mcp__${BRIDGE_SERVER}__`;

export interface ToolBridgeOptions {
  run: string;
  signal: AbortSignal;
  redactor: Redactor;
  /** Time limit of one call, and maximum length of a result. */
  limits: Pick<RunLimits, "toolSeconds" | "toolOutput">;
}

/** The tools of a prompt for Claude: an MCP server in this process. Tools of opened sections are listed with the next request. */
export interface ToolBridge {
  /** For `mcpServers`. */
  readonly server: { type: "sdk"; name: string; instance: { connect(transport: SdkTransport): Promise<void> } };
  /** Maps the prompt's tool names, which a model may use too: `run_tests` → `mcp__skillet__run_tests`. */
  aliases(taken: readonly string[]): Record<string, string>;
}

/** Returns the prompt's name of the tool that Claude calls `mcp__skillet__…`. Undefined for other tools. */
export function resolveBridgedName(tool: string, tools: readonly Tool[]): string | undefined {
  if (!tool.startsWith(TOOL_PREFIX)) return undefined;
  const wire = tool.slice(TOOL_PREFIX.length);
  return createWireNames(tools.map(({ name }) => name)).toId(wire) ?? wire;
}

export function createToolBridge(session: PromptSession, options: ToolBridgeOptions): ToolBridge {
  const names = () => createWireNames(session.tools.map(({ name }) => name));
  const methods = createMethods(session, names, options);
  const connect = async (transport: SdkTransport) => {
    let listed = joinToolNames(session);
    let onListed = () => {};
    /** Waits until the client has requested the new list: the model must see new tools together with the result. */
    const relist = async () => {
      if (joinToolNames(session) === listed) return;
      listed = joinToolNames(session);
      const listRequested = new Promise<void>((resolve) => {
        onListed = resolve;
      });
      await transport.send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
      await Promise.race([listRequested, wait(MAX_RELIST_WAIT_MS, undefined, { ref: false })]);
    };
    const answer = async ({ id, method, params }: JsonObject) => {
      const response = await answerRequest(methods, String(method), params);
      if (options.signal.aborted) return; // A response would start another model turn.
      if (method === "tools/call") await relist();
      await transport.send({ jsonrpc: "2.0", id, ...response });
      if (method === "tools/list") onListed();
    };
    transport.onmessage = (message) => {
      if (!isJsonObject(message) || typeof message["method"] !== "string" || message["id"] === undefined) return;
      answer(message).catch(() => {}); // The client has disconnected.
    };
    await transport.start?.();
  };
  return {
    server: { type: "sdk", name: BRIDGE_SERVER, instance: { connect } },
    aliases(taken) {
      const { tools, sections } = session.render();
      const all = new Set([...tools, ...sections.flatMap((section) => section.tools)].map(({ name }) => name));
      const wire = createWireNames([...all]);
      const own = [...all].filter((name) => !taken.includes(name));
      return Object.fromEntries(own.map((name) => [name, `${TOOL_PREFIX}${wire.toWire(name)}`]));
    },
  };
}

/** In milliseconds. A client that does not request the list sees the tools one request later. */
const MAX_RELIST_WAIT_MS = 1000;

type Methods = Record<string, (params: JsonObject) => JsonObject | Promise<JsonObject>>;

/** Creates the methods of the protocol that tools need. */
function createMethods(session: PromptSession, names: () => WireNames, options: ToolBridgeOptions): Methods {
  const { run, signal, redactor, limits } = options;
  let calls = 0;
  /** Tool results are data; the text of opened sections is to be followed. */
  const formatContent = (tool: string, content: string) =>
    tool === OPEN_SECTIONS ? content : wrapInTag("skill_output", { tool }, shortenMiddle(content, limits.toolOutput));
  return {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: BRIDGE_SERVER, version: packageVersion() },
    }),
    ping: () => ({}),
    "tools/list": () => ({ tools: session.tools.map((tool) => describeTool(tool, names())) }),
    async "tools/call"({ name, arguments: input = {} }) {
      const id = names().toId(String(name)) ?? String(name);
      const key = `${run}:${++calls}`;
      // Claude has asked for the permission of this call before: `ToolPermissions` decides it.
      const approve = async () => ({ isApproved: true });
      const execute = (value: unknown, more?: CallOptions) => session.call(id, value, { ...more, approve });
      const { text, isError } = await callTool({ name: id, execute } as Tool, input, {
        createOptions: () => ({ signal, run, key }),
        seconds: limits.toolSeconds,
        redactor,
      });
      return { content: [{ type: "text", text: formatContent(id, text) }], ...(isError ? { isError } : {}) };
    },
  };
}

async function answerRequest(methods: Methods, method: string, params: unknown): Promise<JsonObject> {
  if (!Object.hasOwn(methods, method)) return { error: { code: -32601, message: `Unknown method ${method}` } };
  try {
    return { result: await methods[method]?.(isJsonObject(params) ? params : {}) };
  } catch (error) {
    return { error: { code: -32603, message: getErrorMessage(error) } };
  }
}

function describeTool({ name, description, inputSchema }: Tool, names: WireNames): JsonObject {
  const { $schema: _, $id: _id, ...schema } = inputSchema;
  // Claude shows other tools by name only, until its model searches for them.
  const _meta = { "anthropic/alwaysLoad": true };
  return { name: names.toWire(name), description, inputSchema: { ...schema, type: "object" }, _meta };
}

function joinToolNames({ tools }: PromptSession): string {
  return tools.map(({ name }) => name).join("\n");
}
