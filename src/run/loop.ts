import { StringDecoder } from "node:string_decoder";
import type { Stop } from "../host/events.ts";
import { type CallResult, type ModelReply, NO_USAGE, type ToolCall, type Usage } from "../host/models.ts";
import type { Notice } from "../host/sandbox.ts";
import { SkillError } from "../shared/error.ts";
import { inLine } from "../shared/prompt.ts";
import { estimateTokens } from "../shared/text.ts";
import { TimedOut } from "./bound-time.ts";
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
  // What was begun counts more than what was said before, and that more than the last that a tool gave.
  const said: Said = { begun: "", last: "", inVain: NO_USAGE };
  const ended = (stop: Stop): LoopEnd => ({ ...end, stop, text: said.begun.trim() || end.text || said.last });
  try {
    for (let step = 1; step <= limits.iterations; step++) {
      if (signal.aborted) return ended(stopOf(signal));
      if (budget.most !== undefined && budget.used >= budget.most) return ended("budget");
      const reply = await port.step(`model:${step}`, () => ask(port, options, step, said));
      said.begun = "";
      const { usage, calls } = reply;
      end.iterations = step;
      end.usage = plus(end.usage, usage);
      end.cost = sum(end.cost, costOf(usage));
      budget.used += usage.inputTokens + usage.outputTokens || guess(options, reply);
      if (reply.text.trim() !== "") end.text = reply.text;
      const { text, raw } = reply;
      messages.push({ role: "assistant", text, calls, ...(raw === undefined ? {} : { raw }) });
      if (calls.length === 0) {
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
      said.last = unlabelled(answered.results.at(-1)?.content ?? said.last);
    }
    return ended(signal.aborted ? stopOf(signal) : "max-steps");
  } catch (error) {
    end.usage = plus(end.usage, said.inVain);
    end.cost = sum(end.cost, said.inVain === NO_USAGE ? undefined : costOf(said.inVain));
    if (signal.aborted) return ended(stopOf(signal));
    return { ...ended("error"), error: asSkillError(error) };
  }
}

interface Said {
  begun: string;
  last: string;
  /** What was used for an answer that was none. */
  inVain: Usage;
}

/** Of a server that does not say what was used. */
function guess({ instructions, messages, budget }: LoopOptions, { text, calls }: ModelReply): number {
  if (budget.most === undefined) return 0;
  return estimateTokens(`${instructions}${JSON.stringify(messages)}${text}${JSON.stringify(calls)}`);
}

/** What ended a signal. */
export function stopOf(signal: AbortSignal): "timeout" | "aborted" {
  return signal.reason instanceof TimedOut ? "timeout" : "aborted";
}

async function ask(port: Port, options: LoopOptions, step: number, said: Said): Promise<ModelReply> {
  const { model, instructions, messages, task, effort, hiding, signal } = options;
  const stream = hiding.stream();
  const decoder = new StringDecoder("utf8");
  const say = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    said.begun += text;
    if (text !== "") emit(port, options, { type: "text-said", step, text });
  };
  const whole = openPairs();
  const start = performance.now();
  const asked = model.respond({
    instructions,
    messages,
    tools: options.tools().map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    task,
    ...(effort === undefined ? {} : { effort }),
    signal,
    onText: (text) => say(stream.push(Buffer.from(whole(text)))),
    onRetry: (reason) => emit(port, options, { type: "model-retried", step, reason: inLine(hiding.text(reason), 300) }),
  });
  try {
    const reply = await untilAborted(asked, signal);
    say(stream.end());
    const cost = options.costOf(reply.usage);
    const { usage, calls } = reply;
    const ms = Math.round(performance.now() - start);
    const priced = cost === undefined ? {} : { cost };
    emit(port, options, { type: "step-ended", step, ms, usage, ...priced, calls: calls.length });
    // Thrown, so that it is no step that was done: whoever goes on asks again.
    if (calls.length === 0 && reply.text.trim() === "") throw unsaid(reply, said);
    return hideIn(hiding, reply);
  } catch (error) {
    say(stream.end({ isCut: true }));
    throw error;
  }
}

/** Half a character waits for its other half, which is in the next piece. */
function openPairs(): (text: string) => string {
  let half = "";
  return (text) => {
    const joined = half + text;
    half = /[\ud800-\udbff]$/.exec(joined)?.[0] ?? "";
    return joined.slice(0, joined.length - half.length);
  };
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
function unsaid({ finish, usage }: ModelReply, said: Said): SkillError {
  said.inVain = usage;
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
