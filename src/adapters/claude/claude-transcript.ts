import { redactData } from "../../agent/run/run-inputs.ts";
import { addUsage, emitRunEvent, type StepRunner } from "../../agent/run/step-runner.ts";
import { shortenInput } from "../../agent/run/tool-policy.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import type { Problem } from "../../errors/problem.ts";
import type { StopReason } from "../../host/events.ts";
import { NO_USAGE } from "../../host/model-contract.ts";
import type { Tool, Usage } from "../../skill/tool.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { resolveBridgedName } from "./tool-bridge.ts";

export interface TranscriptOptions {
  run: string;
  port: StepRunner;
  hiding: Redactor;
  limits: { iterations: number; seconds: number };
  /** The tools of the prompt, as they are now. */
  bridged(): readonly Tool[];
  /** Called when a skill was loaded by name. */
  onSkill(name: string): void;
}

/** How it ended, as the SDK says it. */
export interface TranscriptEnd {
  stop: StopReason;
  text: string;
  usage?: Usage;
  cost?: number;
  error?: Problem;
  /** The answer as data, where that was asked for. */
  structured?: unknown;
}

/** What the SDK says, told as events; and what is left of it at the end. */
export interface Transcript {
  take(message: unknown): void;
  /** Says what is not said yet, when no more comes. */
  close(model: string | undefined): void;
  readonly step: number;
  readonly usage: Usage;
  readonly model: string | undefined;
  /** What was said last. */
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

export function createTranscript({ run, port, hiding, limits, bridged, onSkill }: TranscriptOptions): Transcript {
  const tell = (event: Parameters<typeof emitRunEvent>[2]) => emitRunEvent(port, { run, skill: "" }, event);
  const nameOf = (tool: unknown) => resolveBridgedName(String(tool), bridged()) ?? String(tool);
  const pending = new Map<string, PendingCall>();
  let isStarted = false;
  let asked = performance.now();
  let steps = 0;
  let now: TranscriptStep | undefined;
  const all: { usage: Usage; model?: string; text: string; ended?: TranscriptEnd } = { usage: NO_USAGE, text: "" };

  const begin = (model: string, tools: readonly string[]) => {
    if (isStarted) return;
    isStarted = true;
    tell({ type: "run-started", model, tools, depth: 1, limits });
  };
  const endStep = () => {
    if (!now) return;
    const { usage, calls, started } = now;
    all.usage = addUsage(all.usage, usage);
    tell({ type: "step-ended", step: steps, ms: Math.round(performance.now() - started), usage, calls });
    now = undefined;
  };
  const stepOf = (id: string): TranscriptStep => {
    if (now?.id === id) return now;
    endStep();
    steps++;
    now = { id, started: asked, usage: NO_USAGE, calls: 0 };
    return now;
  };

  const said: Record<string, (block: JsonObject, step: TranscriptStep) => void> = {
    text({ text }) {
      if (typeof text !== "string" || text === "") return;
      all.text = hiding.text(text);
      tell({ type: "text-said", step: steps, text: all.text });
    },
    tool_use({ id, name, input }, step) {
      const tool = nameOf(name);
      step.calls++;
      pending.set(String(id), { step: steps, tool, input, started: performance.now() });
      tell({ type: "tool-called", step: steps, tool, input: shortenInput(input, hiding) });
    },
  };
  const result = ({ tool_use_id: id, content, is_error }: JsonObject) => {
    const call = pending.get(String(id));
    if (!call) return;
    pending.delete(String(id));
    const text = hiding.text(joinText(content));
    const isError = is_error === true;
    const wrong = isError ? { message: sanitizeLine(text, 300) } : {};
    const ms = Math.round(performance.now() - call.started);
    tell({ type: "tool-ended", step: call.step, tool: call.tool, isError, ...wrong, ms, characters: text.length });
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
        tell({ type: "model-retried", step: steps + 1, reason });
      }
    },
    // The usage of an answer is whole only when it ends.
    stream_event({ event, parent_tool_use_id }) {
      if (!isJsonObject(event) || !isNullish(parent_tool_use_id)) return;
      const { type, message, usage } = event;
      if (type === "message_start" && isJsonObject(message))
        stepOf(String(message["id"])).usage = parseUsage(message["usage"]);
      if (type === "message_delta" && now) now.usage = takeLargerUsage(now.usage, parseUsage(usage));
    },
    assistant({ message, parent_tool_use_id, error }) {
      // What the API refused comes as something that was said, and with the result again.
      if (!isJsonObject(message) || !isNullish(parent_tool_use_id) || !isNullish(error)) return;
      const step = stepOf(String(message["id"]));
      for (const block of toArray(message["content"]))
        if (isJsonObject(block)) said[String(block["type"])]?.(block, step);
    },
    user({ message }) {
      const content = isJsonObject(message) ? message["content"] : undefined;
      for (const block of toArray(content)) if (isJsonObject(block) && block["type"] === "tool_result") result(block);
      asked = performance.now();
    },
    result(message) {
      endStep();
      all.ended = parseResult(message, hiding);
    },
  };

  return {
    take(message) {
      if (isJsonObject(message)) messages[String(message["type"])]?.(message);
    },
    close(model) {
      begin(all.model ?? model ?? "", []);
      // Its process is gone, and nobody else says how they ended.
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
  error_max_turns: "max-steps",
  error_max_budget_usd: "budget",
};

function parseResult(message: JsonObject, hiding: Redactor): TranscriptEnd {
  const { subtype, is_error, result, errors, modelUsage, total_cost_usd: cost, api_error_status: status } = message;
  const structured = message["structured_output"];
  const stop = SDK_STOP_REASONS[String(subtype)] ?? "error";
  const said = typeof result === "string" ? result : toArray(errors).map(String).join("; ");
  const text = hiding.text(said);
  const known = { usage: sumModelUsage(modelUsage), ...(typeof cost === "number" ? { cost } : {}) };
  // What the API refused comes as an answer that is an error.
  if (stop === "answer" && is_error !== true)
    return { stop, text, ...known, ...omitUndefined({ structured: redactData(hiding, structured) }) };
  if (stop === "max-steps" || stop === "budget") return { stop, text: "", ...known };
  return { stop: "error", text: "", ...known, error: createApiProblem(text, status) };
}

function createApiProblem(text: string, status: unknown): Problem {
  // Without a key it does not ask the API, and so there is no status.
  const known = STATUS_FIXES[/^Not logged in\b/.test(text) ? 401 : String(status)];
  const fix = known ?? "see what Claude Code says, and try again";
  const what = text === "" ? "Claude Code ended without an answer" : sanitizeLine(text, 500);
  return { code: classifyStatus(status), message: what, fix };
}

/** As of any other model. */
function classifyStatus(status: unknown): ErrorCode {
  if (typeof status !== "number") return "claude-failed";
  return status === 429 || status >= 500 ? "model-unreachable" : "model-refused";
}

const STATUS_FIXES: Readonly<Record<string, string>> = {
  400: "the request was refused: check the model's name and the options",
  401: "set ANTHROPIC_API_KEY, or bring in the files that you are signed in with: isolation: { authFiles: […] }",
  403: "the key may not do this: use another",
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

/** Of all models and with that of sub-agents, as the cost is. What a result calls its usage leaves both out. */
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

/** What comes at the end counts from the beginning; what it leaves out stays. */
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
