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
  omitResultData,
  type ToolCall,
  type ToolCallResult,
} from "../../host/model-contract.ts";
import { type Isolation, WORKSPACE_FOLDER } from "../../host/sandbox-contract.ts";
import { SANDBOX_SKILL_FOLDER } from "../../skill/skill-code.ts";
import type { CallOptions, Tool, ToolOwner, ToolSandbox, Usage } from "../../skill/tool.ts";
import { getStopReason, raceWithAbort, TimeLimitError } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { estimateTokens } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { calculateCost } from "../models/model-providers.ts";
import { createAgentTaint, type TaintTracker } from "../policy/taint-tracker.ts";
import { shortenHomePath } from "../policy/trust-policy.ts";
import { callTools, ToolTurn } from "./call-tool.ts";
import { createProblemRedactor, redactRecord } from "./redaction.ts";
import { type CostGuard, createCostGuard } from "./run-inputs.ts";
import { formatRunContent, type RunResult, toProblem } from "./run-result.ts";
import { addUsage, emitRunEvent, endRun, type StepRunner } from "./step-runner.ts";
import { COMPLETE_TOOL, type ToolPolicy } from "./tool-policy.ts";

/** The options of a call that depend on the agent. */
export interface CallContext extends Pick<CallOptions, "env"> {
  /** Creates the sandbox of one call. */
  createSandbox?(callId: string): ToolSandbox;
}

export interface AgentLimits {
  maxIterations: number;
  seconds: number;
  budget: TokenBudget;
}

/** The context of one agent: a sub-agent that follows a skill, or the agent of a conversation. */
export interface AgentContext {
  run: string;
  /** The skill's name; empty in a conversation. */
  skill: string;
  source?: string;
  host: Host;
  steps: StepRunner;
  model: Model;
  redactor: Redactor;
  tools(): readonly Tool[];
  /** Tools that are not offered but still answer if a model calls them again. */
  unlisted?: readonly Tool[];
  /** Tools that exist but are withheld from this agent. */
  withheld?: readonly string[];
  toolPolicies?: readonly ToolPolicy[];
  /** Returns why a tool may no longer be called, if the configuration changed since the run began. */
  findRevocation?(tool: string): Problem | undefined;
  /** The copy of the skill; undefined in a conversation. */
  owner?: ToolOwner;
  /** Further options passed to each tool call. */
  context?: CallContext;
  instructions: string;
  messages: Message[];
  task: ModelTask;
  effort?: string | undefined;
  /** The model that the caller requested by name. */
  requestedModel?: string | undefined;
  limits: AgentLimits;
  warnings: readonly Problem[];
  depth: number;
  parent?: string | undefined;
  /** The untrusted text that the agent has read. Defaults to none. */
  taint?: TaintTracker;
  /** The start time, as `performance.now()` counts. */
  start: number;
  signal: AbortSignal;
  /** Returns how the agent's code was isolated, or undefined if none ran. Called at the end. */
  isolation?(): Isolation | undefined;
  close?(): readonly Problem[];
}

/** Runs one agent from start to end. Contract: a run that has started also ends; never throws. */
export async function runAgent(agent: AgentContext): Promise<RunResult> {
  const { steps, host, redactor, limits: bounds, model } = agent;
  const { warnings } = agent;
  const before = steps.waited();
  const { prices } = host.settings;
  const estimateCost = (usage: Usage) => (prices.size === 0 ? undefined : calculateCost(usage, model.name, prices));
  await steps.step("begin", async () => {
    emitRunEvent(steps, agent, {
      type: "run-started",
      ...omitUndefined({ source: agent.source, parent: agent.parent, caller: host.caller }),
      ...omitUndefined({ traceParent: host.traceParent }),
      model: model.name,
      tools: agent.tools().map(({ name }) => name),
      depth: agent.depth,
      limits: {
        iterations: bounds.maxIterations,
        seconds: bounds.seconds,
        ...omitUndefined({ tokens: bounds.budget.max }),
      },
    });
    for (const warning of warnings) emitRunEvent(steps, agent, { type: "run-warned", ...warning });
    return true;
  });
  const ended = runAgentLoop(steps, {
    ...agent,
    instructions: redactor.redact(agent.instructions),
    withheld: agent.withheld ?? [],
    toolPolicies: agent.toolPolicies ?? [],
    context: agent.context ?? {},
    workspace: host.workspace === undefined ? undefined : shortenHomePath(host.workspace, host),
    approvedKeys: new Set(),
    taint: createAgentTaint(agent),
    allowedFolders: [host.workspace, agent.owner?.location, WORKSPACE_FOLDER, SANDBOX_SKILL_FOLDER].filter(
      Boolean,
    ) as string[],
    limits: { iterations: bounds.maxIterations, toolSeconds: host.settings.limits.toolSeconds },
    budget: bounds.budget,
    estimateCost,
    costs: createCostGuard({
      ...{ host, skill: agent.skill, budget: bounds.budget },
      model: {
        name: model.name,
        isPriced: estimateCost(PRICE_PROBE) !== undefined,
      },
    }),
  });
  return ended.then((end) => endAgent(agent, end, steps.waited() - before));
}

/** Closes an agent, and records its result. `waited`: the time spent waiting for the user's answers, in milliseconds. */
function endAgent(agent: AgentContext, end: AgentLoopResult, waited: number): Promise<RunResult> {
  const { steps, redactor, warnings } = agent;
  const left = agent.close?.() ?? [];
  const late = [...(end.warning ? [end.warning] : []), ...left];
  const result = createRunResult(agent, end, { warnings: [...warnings, ...late], hasLeft: left.length > 0, waited });
  return endRun({ steps, redactor, step: "end" }, result, () => {
    const { stop, isError, iterations, ms, usage, cost, isolation, caller } = result;
    for (const warning of late) emitRunEvent(steps, agent, { type: "run-warned", ...warning });
    emitRunEvent(steps, agent, {
      type: "run-ended",
      ...{ stop, isError, iterations, ms, usage },
      ...omitUndefined({ cost, isolation, caller }),
    });
  });
}

/** Usage whose cost is known only if all prices are. */
const PRICE_PROBE: Usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0 };
const MAX_ERROR_LENGTH = 2000;

interface AgentEnd {
  warnings: readonly Problem[];
  hasLeft: boolean;
  /** Time spent waiting for the user's answers, in milliseconds. */
  waited: number;
}

function createRunResult(
  agent: AgentContext,
  end: AgentLoopResult,
  { warnings, hasLeft, waited }: AgentEnd,
): RunResult {
  const { run, skill, source, host, redactor, model, limits: bounds, start } = agent;
  const { stop, iterations, usage, cost } = end;
  const failed = end.error && createProblemRedactor(redactor)(toProblem(end.error));
  const error = failed && { ...failed, message: failed.message.slice(0, MAX_ERROR_LENGTH) };
  const { budget } = bounds;
  const { reason } = agent.signal;
  const seconds = reason instanceof TimeLimitError ? reason.seconds : bounds.seconds;
  const content = formatRunContent({ ...end, maxIterations: bounds.maxIterations, seconds, tokens: budget.max, error });
  return {
    run,
    skill,
    content,
    ...(content === end.text ? {} : { answer: end.text }),
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

/** The token budget of a run and of every run it starts. */
export interface TokenBudget {
  used: number;
  max: number | undefined;
  /** What they cost so far in US dollars, where prices are known. */
  cost?: number;
}

export interface AgentLoopOptions {
  /** The run and skill that the events belong to. */
  run: string;
  skill: string;
  model: Model;
  instructions: string;
  /** The conversation so far. Contract: new messages are appended to it. */
  messages: Message[];
  /** Returns the current tools: loading a skill adds its tools. */
  tools(): readonly Tool[];
  /** Tools that are not offered but still answer if a model calls them again. */
  unlisted?: readonly Tool[] | undefined;
  /** Tools that exist but are withheld from this agent. */
  withheld: readonly string[];
  toolPolicies: readonly ToolPolicy[];
  /** Returns why a tool may no longer be called, if the configuration changed since the run began. */
  findRevocation?(tool: string): Problem | undefined;
  /** The copy of the skill; undefined in a conversation. */
  owner?: ToolOwner | undefined;
  /** Further options passed to each tool call. */
  context: CallContext;
  /** The workspace path, shortened for display. */
  workspace?: string | undefined;
  /** The keys of approvals that hold for the whole run. */
  approvedKeys: Set<string>;
  /** The untrusted text that was read so far. */
  taint: TaintTracker;
  /** The folders that untrusted text may name: the workspace and the skill's folder. */
  allowedFolders: readonly string[];
  task: ModelTask;
  effort?: string | undefined;
  requestedModel?: string | undefined;
  limits: { iterations: number; toolSeconds: number };
  budget: TokenBudget;
  redactor: Redactor;
  estimateCost(usage: Usage): number | undefined;
  /** The cost ceilings. */
  costs: CostGuard;
  signal: AbortSignal;
}

export interface AgentLoopResult {
  stop: StopReason;
  /** The answer, or the last text of the model. */
  text: string;
  iterations: number;
  usage: Usage;
  cost: number | undefined;
  /** The error that ended the loop. */
  error?: SkillError;
  /** A warning about a run that succeeded. */
  warning?: Problem;
}

/** Calls the model and its tools in turns until there is an answer or a limit is reached. Never throws. */
async function runAgentLoop(steps: StepRunner, options: AgentLoopOptions): Promise<AgentLoopResult> {
  const { messages, limits, budget, signal, estimateCost } = options;
  const end: AgentLoopResult = { stop: "max-iterations", text: "", iterations: 0, usage: NO_USAGE, cost: undefined };
  // If the loop ends early, prefer the reply that was being streamed, then the last reply, then the last tool result.
  const state: ReplyState = { begun: "", last: "", inVain: NO_USAGE };
  const ended = (stop: StopReason): AgentLoopResult => ({
    ...end,
    stop,
    text: state.begun.trim() || end.text || state.last,
  });
  try {
    for (let step = 1; step <= limits.iterations; step++) {
      if (signal.aborted) return ended(getStopReason(signal));
      if (budget.max !== undefined && budget.used >= budget.max) return ended("budget");
      const reply = await steps.step(`model:${step}`, () => askModel(steps, options, step, state));
      state.begun = "";
      const { usage, calls } = reply;
      end.iterations = step;
      end.usage = addUsage(end.usage, usage);
      const cost = estimateCost(usage);
      end.cost = addCosts(end.cost, cost);
      budget.cost = (budget.cost ?? 0) + (cost ?? 0);
      budget.used += usage.inputTokens + usage.outputTokens || estimateUsage(options, reply);
      if (reply.text.trim() !== "") end.text = reply.text;
      const { text, raw } = reply;
      messages.push({ role: "assistant", text, calls, ...(raw === undefined ? {} : { raw }) });
      if (calls.length === 0) {
        return { ...end, stop: "answer", ...(reply.finish === "length" ? { warning: ANSWER_CUT } : {}) };
      }
      if (step === limits.iterations && !calls.some(({ tool }) => tool === COMPLETE_TOOL)) {
        messages.push({ role: "tool", results: calls.map(createUnmadeResult) }); // A conversation may resume later.
        break;
      }
      const turn = new ToolTurn(steps, options, calls, step);
      for (let next = turn.takeNext(); next.length > 0; next = turn.takeNext()) turn.add(await callTools(next));
      messages.push({ role: "tool", results: turn.results });
      end.usage = addUsage(end.usage, turn.usage);
      end.cost = addCosts(end.cost, turn.cost);
      if (turn.completed) return { ...end, ...turn.completed };
      const last = turn.results.at(-1);
      state.last = last?.output ?? last?.content ?? state.last;
    }
    return ended(signal.aborted ? getStopReason(signal) : "max-iterations");
  } catch (error) {
    end.usage = addUsage(end.usage, state.inVain);
    end.cost = addCosts(end.cost, state.inVain === NO_USAGE ? undefined : estimateCost(state.inVain));
    if (signal.aborted) return ended(getStopReason(signal));
    if (error instanceof SkillError && error.code === "cost-limit") return { ...ended("budget"), error };
    return { ...ended("error"), error: toModelError(error) };
  }
}

interface ReplyState {
  begun: string;
  last: string;
  /** The usage of an empty reply. */
  inVain: Usage;
}

/** Estimates the usage if the server does not report it. */
function estimateUsage({ instructions, messages, budget }: AgentLoopOptions, { text, calls }: ModelReply): number {
  if (budget.max === undefined) return 0;
  return estimateTokens(`${instructions}${JSON.stringify(messages, omitResultData)}${text}${JSON.stringify(calls)}`);
}

async function askModel(
  steps: StepRunner,
  options: AgentLoopOptions,
  step: number,
  state: ReplyState,
): Promise<ModelReply> {
  const { model, instructions, messages, task, effort, redactor, signal } = options;
  const stream = redactor.createStream();
  const decoder = new StringDecoder("utf8");
  const say = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    state.begun += text;
    if (text !== "") emitRunEvent(steps, options, { type: "text-generated", step, text });
  };
  const whole = createSurrogateJoiner();
  await options.costs.check();
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
      emitRunEvent(steps, options, { type: "model-retried", step, reason: sanitizeLine(redactor.redact(reason), 300) }),
  });
  try {
    const reply = await raceWithAbort(asked, signal);
    say(stream.end());
    const cost = options.estimateCost(reply.usage);
    await options.costs.record(cost);
    const { usage, calls } = reply;
    const ms = Math.round(performance.now() - start);
    const priced = cost === undefined ? {} : { cost };
    emitRunEvent(steps, options, { type: "step-ended", step, ms, usage, ...priced, calls: calls.length });
    // Thrown, so that the step is not recorded as done: a resumed run asks again.
    if (calls.length === 0 && reply.text.trim() === "") throw createEmptyReplyError(reply, state);
    return { ...redactRecord(redactor, reply), calls: reply.calls.map((call) => redactRecord(redactor, call)) };
  } catch (error) {
    say(stream.end({ isCut: true }));
    throw error;
  }
}

/** Holds back half of a surrogate pair until the next chunk brings the other half. */
function createSurrogateJoiner(): (text: string) => string {
  let half = "";
  return (text) => {
    const joined = half + text;
    half = /[\ud800-\udbff]$/.exec(joined)?.[0] ?? "";
    return joined.slice(0, joined.length - half.length);
  };
}

function createUnmadeResult({ id, tool }: ToolCall): ToolCallResult {
  return { id, tool, content: "Call not made: the iteration limit was reached.", isError: true };
}

const ANSWER_CUT: Problem = {
  code: "answer-truncated",
  message: "The answer was cut off: the model reached its output token limit",
  fix: "raise max_tokens of the model in config.toml, or ask for a shorter answer",
};

const EMPTY_REPLY_REASONS: Partial<Record<ModelReply["finish"], { why: string; fix: string }>> = {
  length: {
    why: "it reached its output token limit",
    fix: "raise max_tokens of the model in config.toml",
  },
  filtered: { why: "its provider filtered the answer", fix: "rephrase the request, or use another model" },
};

/** Creates the error for a reply without text and tool calls. */
function createEmptyReplyError({ finish, usage }: ModelReply, state: ReplyState): SkillError {
  state.inVain = usage;
  const { why, fix } = EMPTY_REPLY_REASONS[finish] ?? {
    why: "the reply was empty",
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
