import { StringDecoder } from "node:string_decoder";
import type { Host } from "../../config/host.ts";
import { type Problem, SkillError } from "../../errors/problem.ts";
import type { StopReason } from "../../host/events.ts";
import {
  type Message,
  type Model,
  type ModelReply,
  type ModelTask,
  NO_USAGE,
  type ToolCall,
  type ToolCallResult,
} from "../../host/model-contract.ts";
import { type Isolation, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import type { CallOptions, Tool, ToolOwner, Usage } from "../../skill/tool.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { estimateTokens } from "../../util/text.ts";
import { getStopReason, raceWithAbort, TimeLimitError } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { calculateCost } from "../models/model-providers.ts";
import { shortenHomePath } from "../policy/setup-policy.ts";
import { createAgentTaint, type TaintTracker } from "../policy/taint-tracker.ts";
import { unwrapToolOutput } from "../tools/tool-output.ts";
import { createProblemRedactor, redactData } from "./run-inputs.ts";
import { formatRunContent, type RunResult, toProblem } from "./run-result.ts";
import { addUsage, emitRunEvent, type StepRunner } from "./step-runner.ts";
import { makeToolCalls } from "./tool-call.ts";
import { COMPLETE_TOOL, type ToolPolicy } from "./tool-policy.ts";

export interface AgentLimits {
  iterations: number;
  seconds: number;
  budget: TokenBudget;
}

/** An agent with all that it has: a sub-agent that follows a skill, or the one that talks with the user. */
export interface AgentContext {
  run: string;
  /** The skill's name, and empty in a conversation. */
  skill: string;
  source?: string;
  host: Host;
  port: StepRunner;
  model: Model;
  hiding: Redactor;
  tools(): readonly Tool[];
  /** Tools that are not offered, and answer all the same when a model calls them again. */
  unlisted?: readonly Tool[];
  /** Tools that there are, and that are not for this one. */
  withheld?: readonly string[];
  gates?: readonly ToolPolicy[];
  /** Returns why a tool may no longer be called, where the configuration has changed since the run began. */
  revoked?(tool: string): Problem | undefined;
  /** The copy of the skill; none in a conversation. */
  owner?: ToolOwner;
  /** What else tools are called with. */
  context?: Pick<CallOptions, "env" | "sandbox">;
  instructions: string;
  messages: Message[];
  task: ModelTask;
  effort?: string | undefined;
  /** The model that whoever started it asked for by name. */
  asked?: string | undefined;
  bounds: AgentLimits;
  warnings: readonly Problem[];
  depth: number;
  parent?: string | undefined;
  /** What was read for it that others wrote; nothing, when left out. */
  taint?: TaintTracker;
  /** When it began, as `performance.now` counts. */
  start: number;
  signal: AbortSignal;
  /** How its code was kept apart, where any ran, and what that left behind; asked at the end. */
  isolation?(): Isolation | undefined;
  close?(): readonly Problem[];
}

/** One agent from its beginning to its end. Contract: what has begun has an end, and never throws. */
export async function runAgent(agent: AgentContext): Promise<RunResult> {
  const { port, host, hiding, bounds, model } = agent;
  const hidden = createProblemRedactor(hiding);
  const warnings = agent.warnings.map(hidden);
  const before = port.waited();
  await port.step("begin", async () => {
    emitRunEvent(port, agent, {
      type: "run-started",
      ...omitUndefined({ source: agent.source, parent: agent.parent, caller: host.caller }),
      model: model.name,
      tools: agent.tools().map(({ name }) => name),
      depth: agent.depth,
      limits: {
        iterations: bounds.iterations,
        seconds: bounds.seconds,
        ...omitUndefined({ tokens: bounds.budget.most }),
      },
    });
    for (const warning of warnings) emitRunEvent(port, agent, { type: "run-warned", ...warning });
    return true;
  });
  const end = await runAgentLoop(port, {
    ...agent,
    instructions: hiding.text(agent.instructions),
    withheld: agent.withheld ?? [],
    gates: agent.gates ?? [],
    context: agent.context ?? {},
    workspace: host.workspace === undefined ? undefined : shortenHomePath(host.workspace, host),
    agreed: new Set(),
    taint: createAgentTaint(agent),
    inside: [host.workspace, agent.owner?.place, WORKSPACE_FOLDER, SANDBOX_SKILL_FOLDER].filter(Boolean) as string[],
    limits: { iterations: bounds.iterations, toolSeconds: host.settings.limits.toolSeconds },
    budget: bounds.budget,
    costOf: (usage) => calculateCost(usage, model.name, host.settings.prices),
  });
  const left = (agent.close?.() ?? []).map(hidden);
  const late = [...(end.warning ? [hidden(end.warning)] : []), ...left];
  const waited = port.waited() - before;
  const result = createRunResult(agent, end, { warnings: [...warnings, ...late], hasLeft: left.length > 0, waited });
  return port.step("end", async () => {
    const { stop, isError, iterations, ms, usage, cost, isolation, caller } = result;
    for (const warning of late) emitRunEvent(port, agent, { type: "run-warned", ...warning });
    emitRunEvent(port, agent, {
      type: "run-ended",
      ...{ stop, isError, iterations, ms, usage },
      ...omitUndefined({ cost, isolation, caller }),
    });
    return result;
  });
}

const MAX_ERROR_LENGTH = 2000;

interface AgentEnd {
  warnings: readonly Problem[];
  hasLeft: boolean;
  /** How long somebody thought about a question. */
  waited: number;
}

function createRunResult(
  agent: AgentContext,
  end: AgentLoopResult,
  { warnings, hasLeft, waited }: AgentEnd,
): RunResult {
  const { run, skill, source, host, hiding, model, bounds, start } = agent;
  const { stop, iterations, usage, cost } = end;
  const failed = end.error && createProblemRedactor(hiding)(toProblem(end.error));
  const error = failed && { ...failed, message: failed.message.slice(0, MAX_ERROR_LENGTH) };
  const { budget } = bounds;
  const { reason } = agent.signal;
  const seconds = reason instanceof TimeLimitError ? reason.seconds : bounds.seconds;
  const content = formatRunContent({ ...end, iterations: bounds.iterations, seconds, tokens: budget.most, error });
  return {
    run,
    skill,
    content: hiding.text(content),
    isError: (stop !== "answer" && stop !== "complete") || hasLeft,
    iterations,
    stop,
    refusals: [],
    warnings,
    usage,
    ms: Math.max(0, Math.round(performance.now() - start - waited)),
    model: model.name,
    ...omitUndefined({ source, error, cost, isolation: agent.isolation?.(), caller: host.caller }),
  };
}

/** Tokens that are left to a run and all that it calls. */
export interface TokenBudget {
  used: number;
  most: number | undefined;
}

export interface AgentLoopOptions {
  /** Whose events they are. */
  run: string;
  skill: string;
  model: Model;
  instructions: string;
  /** What was said so far. Contract: what is said here is added to it. */
  messages: Message[];
  /** The tools as they are now: a skill that is loaded brings its own. */
  tools(): readonly Tool[];
  /** Tools that are not offered, and answer all the same when a model calls them again. */
  unlisted?: readonly Tool[] | undefined;
  /** Tools that there are, and that are not for this one. */
  withheld: readonly string[];
  gates: readonly ToolPolicy[];
  /** Returns why a tool may no longer be called, where the configuration has changed since the run began. */
  revoked?(tool: string): Problem | undefined;
  /** The copy of the skill; none in a conversation. */
  owner?: ToolOwner | undefined;
  /** What else tools are called with. */
  context: Pick<CallOptions, "env" | "sandbox">;
  /** The workspace as people read it. */
  workspace?: string | undefined;
  /** What somebody agreed to for the whole run. */
  agreed: Set<string>;
  /** What was read that others wrote. */
  taint: TaintTracker;
  /** The folders that others may name: the workspace, and the skill's own. */
  inside: readonly string[];
  task: ModelTask;
  effort?: string | undefined;
  asked?: string | undefined;
  limits: { iterations: number; toolSeconds: number };
  budget: TokenBudget;
  hiding: Redactor;
  costOf(usage: Usage): number | undefined;
  signal: AbortSignal;
}

export interface AgentLoopResult {
  stop: StopReason;
  /** The answer, or the last that was said. */
  text: string;
  iterations: number;
  usage: Usage;
  cost: number | undefined;
  /** What went wrong. */
  error?: SkillError;
  /** What somebody should look at although it went well. */
  warning?: Problem;
}

/** A model and its tools in turns, until it has an answer or a limit is reached. Never throws. */
async function runAgentLoop(port: StepRunner, options: AgentLoopOptions): Promise<AgentLoopResult> {
  const { messages, limits, budget, signal, costOf } = options;
  const end: AgentLoopResult = { stop: "max-steps", text: "", iterations: 0, usage: NO_USAGE, cost: undefined };
  // What was begun counts more than what was said before, and that more than the last that a tool gave.
  const said: ReplyState = { begun: "", last: "", inVain: NO_USAGE };
  const ended = (stop: StopReason): AgentLoopResult => ({
    ...end,
    stop,
    text: said.begun.trim() || end.text || said.last,
  });
  try {
    for (let step = 1; step <= limits.iterations; step++) {
      if (signal.aborted) return ended(getStopReason(signal));
      if (budget.most !== undefined && budget.used >= budget.most) return ended("budget");
      const reply = await port.step(`model:${step}`, () => askModel(port, options, step, said));
      said.begun = "";
      const { usage, calls } = reply;
      end.iterations = step;
      end.usage = addUsage(end.usage, usage);
      end.cost = addCosts(end.cost, costOf(usage));
      budget.used += usage.inputTokens + usage.outputTokens || estimateUsage(options, reply);
      if (reply.text.trim() !== "") end.text = reply.text;
      const { text, raw } = reply;
      messages.push({ role: "assistant", text, calls, ...(raw === undefined ? {} : { raw }) });
      if (calls.length === 0) {
        return { ...end, stop: "answer", ...(reply.finish === "length" ? { warning: ANSWER_CUT } : {}) };
      }
      if (step === limits.iterations && !calls.some(({ tool }) => tool === COMPLETE_TOOL)) {
        messages.push({ role: "tool", results: calls.map(createUnmadeResult) }); // A conversation may go on later.
        break;
      }
      const answered = await makeToolCalls(port, options, calls, step);
      messages.push({ role: "tool", results: answered.results });
      end.usage = addUsage(end.usage, answered.usage);
      end.cost = addCosts(end.cost, answered.cost);
      if (answered.completed) return { ...end, ...answered.completed };
      said.last = unwrapToolOutput(answered.results.at(-1)?.content ?? said.last);
    }
    return ended(signal.aborted ? getStopReason(signal) : "max-steps");
  } catch (error) {
    end.usage = addUsage(end.usage, said.inVain);
    end.cost = addCosts(end.cost, said.inVain === NO_USAGE ? undefined : costOf(said.inVain));
    if (signal.aborted) return ended(getStopReason(signal));
    return { ...ended("error"), error: toModelError(error) };
  }
}

interface ReplyState {
  begun: string;
  last: string;
  /** What was used for an answer that was none. */
  inVain: Usage;
}

/** Of a server that does not say what was used. */
function estimateUsage({ instructions, messages, budget }: AgentLoopOptions, { text, calls }: ModelReply): number {
  if (budget.most === undefined) return 0;
  return estimateTokens(`${instructions}${JSON.stringify(messages)}${text}${JSON.stringify(calls)}`);
}

async function askModel(
  port: StepRunner,
  options: AgentLoopOptions,
  step: number,
  said: ReplyState,
): Promise<ModelReply> {
  const { model, instructions, messages, task, effort, hiding, signal } = options;
  const stream = hiding.stream();
  const decoder = new StringDecoder("utf8");
  const say = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    said.begun += text;
    if (text !== "") emitRunEvent(port, options, { type: "text-said", step, text });
  };
  const whole = createSurrogateJoiner();
  const start = performance.now();
  const asked = model.respond({
    instructions,
    messages,
    tools: options.tools().map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    task,
    ...(effort === undefined ? {} : { effort }),
    signal,
    onText: (text) => say(stream.push(Buffer.from(whole(text)))),
    onRetry: (reason) =>
      emitRunEvent(port, options, { type: "model-retried", step, reason: sanitizeLine(hiding.text(reason), 300) }),
  });
  try {
    const reply = await raceWithAbort(asked, signal);
    say(stream.end());
    const cost = options.costOf(reply.usage);
    const { usage, calls } = reply;
    const ms = Math.round(performance.now() - start);
    const priced = cost === undefined ? {} : { cost };
    emitRunEvent(port, options, { type: "step-ended", step, ms, usage, ...priced, calls: calls.length });
    // Thrown, so that it is no step that was done: whoever goes on asks again.
    if (calls.length === 0 && reply.text.trim() === "") throw createEmptyReplyError(reply, said);
    return redactData(hiding, reply);
  } catch (error) {
    say(stream.end({ isCut: true }));
    throw error;
  }
}

/** Half a character waits for its other half, which is in the next piece. */
function createSurrogateJoiner(): (text: string) => string {
  let half = "";
  return (text) => {
    const joined = half + text;
    half = /[\ud800-\udbff]$/.exec(joined)?.[0] ?? "";
    return joined.slice(0, joined.length - half.length);
  };
}

function createUnmadeResult({ id, tool }: ToolCall): ToolCallResult {
  return { id, tool, content: "It was not made: the limit of iterations was reached.", isError: true };
}

const ANSWER_CUT: Problem = {
  code: "answer-cut",
  message: "The answer was cut off: the model reached the limit of what it may say at once",
  fix: "raise max_tokens of the model in config.toml, or ask for less at once",
};

const EMPTY_REPLY_REASONS: Partial<Record<ModelReply["finish"], { why: string; fix: string }>> = {
  length: {
    why: "it reached the limit of what it may say at once",
    fix: "raise max_tokens of the model in config.toml",
  },
  filtered: { why: "its provider kept it back", fix: "ask in other words, or use another model" },
};

/** Why nothing was said. */
function createEmptyReplyError({ finish, usage }: ModelReply, said: ReplyState): SkillError {
  said.inVain = usage;
  const { why, fix } = EMPTY_REPLY_REASONS[finish] ?? {
    why: "it said nothing",
    fix: "try again, or use another model",
  };
  return new SkillError("model-empty", { message: `The model gave no answer: ${why}`, fix });
}

function toModelError(error: unknown): SkillError {
  if (error instanceof SkillError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SkillError("model-broken", {
    message: `The model failed: ${message}`,
    fix: "try again, or use another model",
    cause: error,
  });
}

function addCosts(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : a + b;
}
