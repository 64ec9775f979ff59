import type { ErrorCode } from "../codes/codes.ts";
import type { Stop } from "../host/events.ts";
import { NO_USAGE, type Usage } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { emit, plus } from "../run/loop-options.ts";
import { hideIn } from "../run/notice.ts";
import type { Port } from "../run/port.ts";
import { shown } from "../run/shown.ts";
import { defined } from "../shared/defined.ts";
import { inLine } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Tool } from "../skill/tool.ts";
import { bridgedName } from "./bridge.ts";

export interface TranscriptOptions {
  run: string;
  port: Port;
  hiding: Hiding;
  limits: { iterations: number; seconds: number };
  /** The tools of the prompt, as they are now. */
  bridged(): readonly Tool[];
  /** Called when a skill was loaded by name. */
  onSkill(name: string): void;
}

/** How it ended, as the SDK says it. */
export interface Ended {
  stop: Stop;
  text: string;
  usage?: Usage;
  cost?: number;
  error?: Notice;
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
  readonly ended: Ended | undefined;
}

interface Step {
  id: string;
  started: number;
  usage: Usage;
  calls: number;
}

interface Pending {
  step: number;
  tool: string;
  input: unknown;
  started: number;
}

export function openTranscript({ run, port, hiding, limits, bridged, onSkill }: TranscriptOptions): Transcript {
  const tell = (event: Parameters<typeof emit>[2]) => emit(port, { run, skill: "" }, event);
  const nameOf = (tool: unknown) => bridgedName(String(tool), bridged()) ?? String(tool);
  const pending = new Map<string, Pending>();
  let isStarted = false;
  let asked = performance.now();
  let steps = 0;
  let now: Step | undefined;
  const all: { usage: Usage; model?: string; text: string; ended?: Ended } = { usage: NO_USAGE, text: "" };

  const begin = (model: string, tools: readonly string[]) => {
    if (isStarted) return;
    isStarted = true;
    tell({ type: "run-started", model, tools, depth: 1, limits });
  };
  const endStep = () => {
    if (!now) return;
    const { usage, calls, started } = now;
    all.usage = plus(all.usage, usage);
    tell({ type: "step-ended", step: steps, ms: Math.round(performance.now() - started), usage, calls });
    now = undefined;
  };
  const stepOf = (id: string): Step => {
    if (now?.id === id) return now;
    endStep();
    steps++;
    now = { id, started: asked, usage: NO_USAGE, calls: 0 };
    return now;
  };

  const said: Record<string, (block: Data, step: Step) => void> = {
    text({ text }) {
      if (typeof text !== "string" || text === "") return;
      all.text = hiding.text(text);
      tell({ type: "text-said", step: steps, text: all.text });
    },
    tool_use({ id, name, input }, step) {
      const tool = nameOf(name);
      step.calls++;
      pending.set(String(id), { step: steps, tool, input, started: performance.now() });
      tell({ type: "tool-called", step: steps, tool, input: shown(input, hiding) });
    },
  };
  const result = ({ tool_use_id: id, content, is_error }: Data) => {
    const call = pending.get(String(id));
    if (!call) return;
    pending.delete(String(id));
    const text = hiding.text(textOf(content));
    const isError = is_error === true;
    const wrong = isError ? { message: inLine(text, 300) } : {};
    const ms = Math.round(performance.now() - call.started);
    tell({ type: "tool-ended", step: call.step, tool: call.tool, isError, ...wrong, ms, characters: text.length });
    if (call.tool === "Skill" && !isError) onSkill(String(Object(call.input).skill ?? ""));
  };

  const messages: Record<string, (message: Data) => void> = {
    system(message) {
      if (message["subtype"] === "init") {
        all.model = String(message["model"]);
        begin(all.model, listOf(message["tools"]).map(nameOf));
      }
      if (message["subtype"] === "api_retry") {
        const reason = `${message["error_status"] ?? "no answer"}: ${inLine(String(message["error"]), 100)}`;
        tell({ type: "model-retried", step: steps + 1, reason });
      }
    },
    // The usage of an answer is whole only when it ends.
    stream_event({ event, parent_tool_use_id }) {
      if (!isData(event) || !isNothing(parent_tool_use_id)) return;
      const { type, message, usage } = event;
      if (type === "message_start" && isData(message)) stepOf(String(message["id"])).usage = usageOf(message["usage"]);
      if (type === "message_delta" && now) now.usage = later(now.usage, usageOf(usage));
    },
    assistant({ message, parent_tool_use_id, error }) {
      // What the API refused comes as something that was said, and with the result again.
      if (!isData(message) || !isNothing(parent_tool_use_id) || !isNothing(error)) return;
      const step = stepOf(String(message["id"]));
      for (const block of listOf(message["content"])) if (isData(block)) said[String(block["type"])]?.(block, step);
    },
    user({ message }) {
      const content = isData(message) ? message["content"] : undefined;
      for (const block of listOf(content)) if (isData(block) && block["type"] === "tool_result") result(block);
      asked = performance.now();
    },
    result(message) {
      endStep();
      all.ended = endOf(message, hiding);
    },
  };

  return {
    take(message) {
      if (isData(message)) messages[String(message["type"])]?.(message);
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

const STOPS: Readonly<Record<string, Stop>> = {
  success: "answer",
  error_max_turns: "max-steps",
  error_max_budget_usd: "budget",
};

function endOf(message: Data, hiding: Hiding): Ended {
  const { subtype, is_error, result, errors, modelUsage, total_cost_usd: cost, api_error_status: status } = message;
  const structured = message["structured_output"];
  const stop = STOPS[String(subtype)] ?? "error";
  const said = typeof result === "string" ? result : listOf(errors).map(String).join("; ");
  const text = hiding.text(said);
  const known = { usage: wholeUsage(modelUsage), ...(typeof cost === "number" ? { cost } : {}) };
  // What the API refused comes as an answer that is an error.
  if (stop === "answer" && is_error !== true)
    return { stop, text, ...known, ...defined({ structured: hideIn(hiding, structured) }) };
  if (stop === "max-steps" || stop === "budget") return { stop, text: "", ...known };
  return { stop: "error", text: "", ...known, error: failure(text, status) };
}

function failure(text: string, status: unknown): Notice {
  // Without a key it does not ask the API, and so there is no status.
  const known = FIXES[/^Not logged in\b/.test(text) ? 401 : String(status)];
  const fix = known ?? "see what Claude Code says, and try again";
  const what = text === "" ? "Claude Code ended without an answer" : inLine(text, 500);
  return { code: codeOf(status), message: what, fix };
}

/** As of any other model. */
function codeOf(status: unknown): ErrorCode {
  if (typeof status !== "number") return "claude-failed";
  return status === 429 || status >= 500 ? "model-unreachable" : "model-refused";
}

const FIXES: Readonly<Record<string, string>> = {
  400: "the request was refused: check the model's name and the options",
  401: "set ANTHROPIC_API_KEY, or bring in the files that you are signed in with: isolation: { authFiles: […] }",
  403: "the key may not do this: use another",
  404: "check the model's name",
  429: "wait, and try again",
  529: "the API is overloaded: wait, and try again",
};

function usageOf(usage: unknown): Usage {
  if (!isData(usage)) return NO_USAGE;
  const [read, made] = [numberOf(usage["cache_read_input_tokens"]), numberOf(usage["cache_creation_input_tokens"])];
  return {
    inputTokens: numberOf(usage["input_tokens"]) + read + made,
    outputTokens: numberOf(usage["output_tokens"]),
    cachedTokens: read,
  };
}

/** Of all models and with that of sub-agents, as the cost is. What a result calls its usage leaves both out. */
function wholeUsage(models: unknown): Usage {
  return Object.values(Object(models)).map(usageOfModel).reduce(plus, NO_USAGE);
}

function usageOfModel(usage: unknown): Usage {
  const { inputTokens, outputTokens, cacheReadInputTokens, cacheCreationInputTokens } = isData(usage) ? usage : {};
  return usageOf({
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_read_input_tokens: cacheReadInputTokens,
    cache_creation_input_tokens: cacheCreationInputTokens,
  });
}

/** What comes at the end counts from the beginning; what it leaves out stays. */
function later(before: Usage, after: Usage): Usage {
  return {
    inputTokens: Math.max(before.inputTokens, after.inputTokens),
    outputTokens: Math.max(before.outputTokens, after.outputTokens),
    cachedTokens: Math.max(before.cachedTokens, after.cachedTokens),
  };
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined;
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return listOf(content)
    .map((block) => (isData(block) && typeof block["text"] === "string" ? block["text"] : ""))
    .join("\n");
}
