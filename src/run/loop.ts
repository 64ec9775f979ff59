import { StringDecoder } from "node:string_decoder";
import type { RunEvent, Stop } from "../host/events.ts";
import {
  type CallResult,
  type Message,
  type Model,
  type ModelReply,
  NO_USAGE,
  type Task,
  type ToolCall,
  type Usage,
} from "../host/models.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import type { Hiding } from "../shared/redact.ts";
import type { Tool } from "../skill/tool.ts";
import { TIMED_OUT } from "./bound-time.ts";
import { answer } from "./call.ts";
import { COMPLETE, type Gate } from "./gate.ts";
import type { Port } from "./port.ts";

/** Tokens that are left to a run and all that it calls. */
export interface Budget {
  used: number;
  most: number | undefined;
}

export interface LoopOptions {
  /** Whose events they are. */
  run: string;
  skill: string;
  model: Model;
  instructions: string;
  /** What was said so far. Contract: what is said here is added to it. */
  messages: Message[];
  tools: readonly Tool[];
  gates: readonly Gate[];
  task: Task;
  effort?: string | undefined;
  limits: { iterations: number; toolOutput: number; toolSeconds: number };
  budget: Budget;
  hiding: Hiding;
  costOf(usage: Usage): number | undefined;
  signal: AbortSignal;
}

export interface LoopEnd {
  stop: Stop;
  /** The answer, or the last that was said. */
  text: string;
  iterations: number;
  usage: Usage;
  cost: number | undefined;
  /** What went wrong. */
  error?: SkillError;
}

/** A model and its tools in turns, until it has an answer or a limit is reached. Never throws. */
export async function loop(port: Port, options: LoopOptions): Promise<LoopEnd> {
  const { messages, limits, budget, signal, costOf } = options;
  const end: LoopEnd = { stop: "max-steps", text: "", iterations: 0, usage: NO_USAGE, cost: undefined };
  // Of who has said nothing yet, the last that a tool gave is all that there is.
  let last = "";
  const ended = (stop: Stop): LoopEnd => ({ ...end, stop, text: end.text || last });
  for (let step = 1; step <= limits.iterations; step++) {
    if (signal.aborted) return ended(stopOf(signal));
    if (budget.most !== undefined && budget.used >= budget.most) return ended("budget");
    const start = performance.now();
    let reply: ModelReply;
    try {
      reply = await port.step(`model:${step}`, () => ask(port, options, step));
    } catch (error) {
      if (signal.aborted) return ended(stopOf(signal));
      return { ...ended("error"), error: asSkillError(error) };
    }
    const { usage, calls } = reply;
    const cost = costOf(usage);
    end.iterations = step;
    end.usage = plus(end.usage, usage);
    if (cost !== undefined) end.cost = (end.cost ?? 0) + cost;
    budget.used += usage.inputTokens + usage.outputTokens;
    const ms = Math.round(performance.now() - start);
    const priced = cost === undefined ? {} : { cost };
    emit(port, options, { type: "step-ended", step, ms, usage, ...priced, calls: calls.length });
    if (reply.text.trim() !== "") end.text = reply.text;
    messages.push({
      role: "assistant",
      text: reply.text,
      calls,
      ...(reply.raw === undefined ? {} : { raw: reply.raw }),
    });
    if (calls.length === 0)
      return end.text === "" ? { ...end, stop: "error", error: said(reply) } : { ...end, stop: "answer" };
    if (step === limits.iterations && !calls.some(({ tool }) => tool === COMPLETE)) {
      messages.push({ role: "tool", results: calls.map(notMade) }); // A conversation may go on later.
      break;
    }
    const answered = await answer(port, options, calls, step);
    messages.push({ role: "tool", results: answered.results });
    if (answered.completed) return { ...end, ...answered.completed };
    last = answered.results.at(-1)?.content ?? last;
  }
  return ended(signal.aborted ? stopOf(signal) : "max-steps");
}

function notMade({ id, tool }: ToolCall): CallResult {
  return { id, tool, content: "It was not made: the limit of iterations was reached.", isError: true };
}

function stopOf(signal: AbortSignal): Stop {
  return signal.reason === TIMED_OUT ? "timeout" : "aborted";
}

async function ask(port: Port, options: LoopOptions, step: number): Promise<ModelReply> {
  const { model, instructions, messages, tools, task, effort, hiding, signal } = options;
  const stream = hiding.stream();
  const decoder = new StringDecoder("utf8");
  const say = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    if (text !== "") emit(port, options, { type: "text-said", step, text });
  };
  const reply = await model.respond({
    instructions,
    messages,
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    task,
    ...(effort === undefined ? {} : { effort }),
    signal,
    onText: (text) => say(stream.push(Buffer.from(text))),
    onRetry: (reason) => emit(port, options, { type: "model-retried", step, reason: hiding.text(inLine(reason, 300)) }),
  });
  say(stream.end());
  return { ...reply, text: hiding.text(reply.text) };
}

/** Why nothing was said. */
function said({ finish }: ModelReply): SkillError {
  const why =
    finish === "length"
      ? "it reached the limit of what it may say"
      : finish === "filtered"
        ? "its provider kept it back"
        : "it said nothing";
  return new SkillError("model-empty", {
    message: `The model gave no answer: ${why}`,
    fix: finish === "length" ? "raise max_tokens of the model in config.toml" : "try again, or use another model",
  });
}

function asSkillError(error: unknown): SkillError {
  if (error instanceof SkillError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SkillError("model-broken", {
    message: `The model failed: ${inLine(message, 300)}`,
    fix: "try again, or use another model",
    cause: error,
  });
}

export function plus(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
  };
}

type Happening = RunEvent extends infer E ? (E extends unknown ? Omit<E, "run" | "skill"> : never) : never;

/** What happens in this run. */
export function emit(port: Port, { run, skill }: LoopOptions, event: Happening): void {
  port.emit({ run, skill, ...event } as RunEvent);
}
