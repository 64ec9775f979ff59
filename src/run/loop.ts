import { StringDecoder } from "node:string_decoder";
import type { Stop } from "../host/events.ts";
import { type CallResult, type ModelReply, NO_USAGE, type ToolCall } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { TIMED_OUT } from "./bound-time.ts";
import { answer } from "./call.ts";
import { COMPLETE } from "./gate.ts";
import { untilAborted } from "./grace.ts";
import { emit, type LoopEnd, type LoopOptions, plus } from "./loop-options.ts";
import { hideIn } from "./notice.ts";
import type { Port } from "./port.ts";
import { unlabelled } from "./printed.ts";

/** A model and its tools in turns, until it has an answer or a limit is reached. Never throws. */
export async function loop(port: Port, options: LoopOptions): Promise<LoopEnd> {
  const { messages, limits, budget, signal, costOf } = options;
  const end: LoopEnd = { stop: "max-steps", text: "", iterations: 0, usage: NO_USAGE, cost: undefined };
  // Of who has said nothing yet, the last that a tool gave is all that there is.
  let last = "";
  const ended = (stop: Stop): LoopEnd => ({ ...end, stop, text: end.text || last });
  try {
    for (let step = 1; step <= limits.iterations; step++) {
      if (signal.aborted) return ended(stopOf(signal));
      if (budget.most !== undefined && budget.used >= budget.most) return ended("budget");
      const reply = await port.step(`model:${step}`, () => ask(port, options, step));
      const { usage, calls } = reply;
      end.iterations = step;
      end.usage = plus(end.usage, usage);
      end.cost = sum(end.cost, costOf(usage));
      budget.used += usage.inputTokens + usage.outputTokens;
      const isSaid = reply.text.trim() !== "";
      if (isSaid) end.text = reply.text;
      const { text, raw } = reply;
      messages.push({ role: "assistant", text, calls, ...(raw === undefined ? {} : { raw }) });
      if (calls.length === 0) {
        if (!isSaid) return { ...ended("error"), error: unsaid(reply) };
        return { ...end, stop: "answer", ...(reply.finish === "length" ? { warning: CUT } : {}) };
      }
      if (step === limits.iterations && !calls.some(({ tool }) => tool === COMPLETE)) {
        messages.push({ role: "tool", results: calls.map(notMade) }); // A conversation may go on later.
        break;
      }
      const answered = await answer(port, options, calls, step);
      messages.push({ role: "tool", results: answered.results });
      end.usage = plus(end.usage, answered.usage);
      end.cost = sum(end.cost, answered.cost);
      if (answered.completed) return { ...end, ...answered.completed };
      last = unlabelled(answered.results.at(-1)?.content ?? last);
    }
    return ended(signal.aborted ? stopOf(signal) : "max-steps");
  } catch (error) {
    if (signal.aborted) return ended(stopOf(signal));
    return { ...ended("error"), error: asSkillError(error) };
  }
}

/** What ended a signal. */
export function stopOf(signal: AbortSignal): Stop {
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
  const start = performance.now();
  const asked = model.respond({
    instructions,
    messages,
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    task,
    ...(effort === undefined ? {} : { effort }),
    signal,
    onText: (text) => say(stream.push(Buffer.from(text))),
    onRetry: (reason) => emit(port, options, { type: "model-retried", step, reason: inLine(hiding.text(reason), 300) }),
  });
  const reply = await untilAborted(asked, signal);
  say(stream.end());
  const cost = options.costOf(reply.usage);
  const { usage, calls } = reply;
  const ms = Math.round(performance.now() - start);
  emit(port, options, {
    type: "step-ended",
    step,
    ms,
    usage,
    ...(cost === undefined ? {} : { cost }),
    calls: calls.length,
  });
  return hideIn(hiding, reply);
}

function notMade({ id, tool }: ToolCall): CallResult {
  return { id, tool, content: "It was not made: the limit of iterations was reached.", isError: true };
}

const CUT: Notice = {
  code: "answer-cut",
  message: "The answer was cut off: the model reached the limit of what it may say at once",
  fix: "raise max_tokens of the model in config.toml, or ask for less at once",
};

const UNSAID: Partial<Record<ModelReply["finish"], { why: string; fix: string }>> = {
  length: {
    why: "it reached the limit of what it may say at once",
    fix: "raise max_tokens of the model in config.toml",
  },
  filtered: { why: "its provider kept it back", fix: "ask in other words, or use another model" },
};

/** Why nothing was said. */
function unsaid({ finish }: ModelReply): SkillError {
  const { why, fix } = UNSAID[finish] ?? { why: "it said nothing", fix: "try again, or use another model" };
  return new SkillError("model-empty", { message: `The model gave no answer: ${why}`, fix });
}

function asSkillError(error: unknown): SkillError {
  if (error instanceof SkillError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SkillError("model-broken", {
    message: `The model failed: ${message}`,
    fix: "try again, or use another model",
    cause: error,
  });
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : a + b;
}
