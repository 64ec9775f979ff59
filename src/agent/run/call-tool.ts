import type { Host } from "../../config/host.ts";
import type { ErrorCode } from "../../errors/error-codes.ts";
import { formatProblem, getErrorMessage, type Problem } from "../../errors/problem.ts";
import { type Approval, type ApprovalRequest, getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import { NO_USAGE, type ToolCall, type ToolCallResult } from "../../host/model-contract.ts";
import { type CallOptions, createErrorResult, type Tool, type ToolResult, type Usage } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { isLeaseHeld, raceWithAbort, sendUnderLease, startPausableTimer } from "../../util/async.ts";
import { omitUndefined } from "../../util/objects.ts";
import type { Redactor } from "../../util/redact.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { type TaintTracker, trackToolResult } from "../policy/taint-tracker.ts";
import { isSubRunTool } from "../tools/skill-tools.ts";
import type { AgentLoopOptions, AgentLoopResult } from "./agent-loop.ts";
import { redactToolResult, shortenInput } from "./redaction.ts";
import { addUsage, emitRunEvent, type StepRunner } from "./step-runner.ts";
import {
  type AnsweredApproval,
  COMPLETE_TOOL,
  createApprovalRequest,
  findToolBlock,
  requestApproval,
} from "./tool-policy.ts";
import type { ParentRun } from "./use-skill.ts";

/** The parts of a call that differ between a run, a session, the command line, a prompt and Claude. */
export interface CallToolContext {
  /** Policy: returns the refusal that no approval can lift. */
  findRefusal?(): ToolResult | undefined | Promise<ToolResult | undefined>;
  /** Absent if the call needs no approval here, or has it already. */
  approval?: ToolApproval | undefined;
  /** Creates the options of the call, after its approval: with values of variables, for example. */
  createOptions(): CallOptions;
  /** The time limit. A tool that starts a run or a script has its own. */
  seconds?: number | undefined;
  /** Returns the time spent waiting for users, which does not count toward the limit. */
  waited?: (() => number) | undefined;
  /** Makes the call in place of `tool.execute`, if the tool starts a nested run. */
  execute?: ((options: CallOptions) => Promise<ToolResult>) | undefined;
  redactor: Redactor;
  /** The untrusted text that the caller has read, and the skill whose own tools it calls. */
  taint?: TaintTracker | undefined;
  ownSkill?: string | undefined;
  /** Records the call, and reports it. Defaults to neither. */
  journal?: Partial<CallJournal> | undefined;
}

export interface ToolApproval {
  /** The facts that the approval request is made from. `approvedKeys` gets the approvals that hold for the whole run. */
  context: Parameters<typeof createApprovalRequest>[0];
  /** Names the call in a denial, where it is one of several. */
  subject?: string | undefined;
  /** The provider of the tool, if the request does not name it. */
  source?: string | undefined;
  /** Asks for the approval. Resolves with undefined if no user can be asked. */
  ask(request: ApprovalRequest): Promise<AnsweredApproval | undefined>;
  /** What to do if no user can be asked. */
  unaskedFix: string;
}

/** The record of one call. Contract: each resolves with the result as it is read back. */
interface CallJournal {
  recordRefusal(refusal: ToolResult, problem: Problem | undefined): Promise<ToolResult>;
  /** Makes the call, unless it was finished before its process ended. */
  recordCall(execute: () => Promise<ToolResult>): Promise<ToolResult>;
  /** Reports the start and the end of a call that is made. */
  onStart?(): void;
  onEnd?(result: ToolResult): void;
}

const NO_JOURNAL: CallJournal = {
  recordRefusal: async (refusal) => refusal,
  recordCall: (execute) => execute(),
};

/** Creates the `ask` of calls that no run records: the stored approval, or the user's. */
export function createApprovalAsker(
  host: Pick<Host, "approve" | "approvals">,
  { signal = new AbortController().signal, redactor }: { signal?: AbortSignal | undefined; redactor: Redactor },
): ToolApproval["ask"] {
  return async (request) => {
    const redact = (text: string) => redactor.redact(text);
    const asked = { request, signal, redact, onRequested: () => {}, onAnswered: () => {} };
    const approval = await requestApproval(host, asked).catch(
      (error): Approval => ({ isApproved: false, reason: getErrorMessage(error) }),
    );
    return approval && { approval, request };
  };
}

/** A call, and its context. */
interface ContextualCall {
  tool: Tool;
  input: unknown;
  context: CallToolContext;
}

/** Makes one call. See `callTools`. */
export async function callTool(tool: Tool, input: unknown, context: CallToolContext): Promise<ToolResult> {
  return (await callTools([{ tool, input, context }]))[0] as ToolResult;
}

/**
 * THE tool-call pipeline: policy, approval, timeout, execution, redaction, journal with its events, taint. Runs, sessions, `skillet call`,
 * prompts and the Claude adapter call tools through it. Several calls are asked for one after the other, made at the same time, and take
 * effect in their order. Contract: never throws because of a tool; a refusal or failure is a result.
 */
export async function callTools(calls: readonly ContextualCall[]): Promise<ToolResult[]> {
  const refusals: (ToolResult | undefined)[] = [];
  for (const call of calls) refusals.push(await refuseCall(call));
  // Every call ends before the first problem of the journal is thrown: nothing continues behind a run that has ended.
  const record = (call: ContextualCall) =>
    ({ ...NO_JOURNAL, ...call.context.journal }).recordCall(() => executeCall(call));
  const ended = await Promise.allSettled(calls.map((call, index) => refusals[index] ?? record(call)));
  return ended.map((outcome, index) => {
    if (outcome.status === "rejected") throw outcome.reason;
    const { tool, input, context } = calls[index] as ContextualCall;
    const { taint, ownSkill } = context;
    if (taint && !refusals[index]) trackToolResult(taint, { tool, input, ownSkill }, outcome.value);
    return outcome.value;
  });
}

/** Returns the recorded refusal of a call that its policy or the user does not allow. */
async function refuseCall({ tool, input, context }: ContextualCall): Promise<ToolResult | undefined> {
  const { redactor, journal } = context;
  const blocked = await context.findRefusal?.();
  const denial = blocked ? undefined : await requireApproval(tool, input, context);
  const refusal = blocked ?? (denial && { text: formatProblem(denial), isError: true, code: denial.code });
  return refusal && { ...NO_JOURNAL, ...journal }.recordRefusal(redactToolResult(refusal, redactor), denial);
}

/** Asks for the approval that a call needs. Returns why it was not given. */
async function requireApproval(
  tool: Tool,
  input: unknown,
  { approval: asking, redactor }: CallToolContext,
): Promise<Problem | undefined> {
  if (!asking) return undefined;
  const created = await createApprovalRequest(asking.context, tool, { input });
  if (!created) return undefined;
  const request = asking.source === undefined ? created : { ...created, source: asking.source };
  const answer = await asking.ask(request);
  if (!answer) {
    const message = sanitizeLine(`Tool '${tool.name}' needs approval: ${request.reason}`, 512);
    return { code: "approval-needed", message, fix: asking.unaskedFix };
  }
  const { approval, request: answered } = answer;
  if (isApprovedForRun(answered, approval)) asking.context.approvedKeys.add(getApprovalKey(answered));
  if (approval.isApproved) return undefined;
  const reason = approval.reason ? `. Reason: ${redactor.redact(approval.reason)}` : "";
  const which = asking.subject === undefined ? "" : ` (${sanitizeLine(redactor.redact(asking.subject), 120)})`;
  const message = sanitizeLine(`Tool '${tool.name}' was not approved${which}: ${request.reason}${reason}`, 512);
  return { code: "not-approved", message, fix: "" };
}

/** Makes an allowed call with its time limit: a tool that hangs is an error. */
async function executeCall({ tool, input, context }: ContextualCall): Promise<ToolResult> {
  const { redactor, seconds, waited, journal } = context;
  journal?.onStart?.();
  const { signal: outer, ...options } = context.createOptions();
  const inner = new AbortController();
  const onAbort = () => inner.abort(outer?.reason);
  const late = new Error(`It did not end within ${seconds} seconds`);
  const stop = seconds === undefined ? undefined : startPausableTimer(seconds * 1000, () => inner.abort(late), waited);
  outer?.addEventListener("abort", onAbort, { once: true });
  if (outer?.aborted) onAbort();
  let result: ToolResult;
  try {
    const limited = { ...options, signal: inner.signal };
    const send = () => tool.execute(input, limited);
    const made = context.execute ? context.execute(limited) : isLeaseHeld() ? send() : sendUnderLease(send);
    result = await (stop ? raceWithAbort(made, inner.signal) : made);
    if (result.code === "aborted" && inner.signal.reason === late) result = createToolTimeoutResult(late);
  } catch (error) {
    if (error === late) result = createToolTimeoutResult(late);
    else if (inner.signal.aborted && error === inner.signal.reason)
      result = { text: "It was interrupted.", isError: true, code: "aborted" };
    else result = createErrorResult(error);
  } finally {
    outer?.removeEventListener("abort", onAbort);
    stop?.();
  }
  const redacted = redactToolResult(result, redactor);
  journal?.onEnd?.(redacted);
  return redacted;
}

function createToolTimeoutResult({ message }: Error): ToolResult {
  return { text: `${message}.`, isError: true, code: "tool-timeout" };
}

const MAX_CALLS_PER_STEP = 32;
/** Each may start a sandbox. */
const MAX_PARALLEL_CALLS = 8;
const MAX_PROGRESS_EVENTS = 1000;

/** The calls of one model turn, and what came of them so far. */
export class ToolTurn {
  readonly results: ToolCallResult[] = [];
  completed: Pick<AgentLoopResult, "stop" | "text"> | undefined;
  /** The usage of nested runs. */
  usage: Usage = NO_USAGE;
  cost: number | undefined;
  readonly #steps: StepRunner;
  readonly #options: AgentLoopOptions;
  readonly #calls: readonly ToolCall[];
  readonly #step: number;

  constructor(steps: StepRunner, options: AgentLoopOptions, calls: readonly ToolCall[], step: number) {
    this.#steps = steps;
    this.#options = options;
    this.#calls = calls;
    this.#step = step;
  }

  /** Returns the next calls that may be made at the same time: read-only ones, or one of another kind. None at the end of the turn. */
  takeNext(): ContextualCall[] {
    this.#skipCalls();
    const start = this.results.length;
    const next = this.#calls.slice(start, Math.min(start + MAX_PARALLEL_CALLS, MAX_CALLS_PER_STEP));
    const other = next.findIndex((call) => findTool(call, this.#options)?.isReadOnly !== true);
    const group = other === -1 ? next : next.slice(0, Math.max(1, other));
    return group.map((call, index) =>
      prepareCall(this.#steps, this.#options, call, { step: this.#step, call: start + index + 1 }),
    );
  }

  /** Adds the results of the calls that were taken. */
  add(results: readonly ToolResult[]): void {
    for (const { text: content, isError, output, data, usage, cost } of results) {
      const { id, tool, input } = this.#calls[this.results.length] as ToolCall;
      if (tool === COMPLETE_TOOL && !isError) {
        const isFailed = (input as { failed?: unknown } | null)?.failed === true;
        this.completed = { stop: isFailed ? "failed" : "complete", text: content };
      }
      if (usage) this.usage = addUsage(this.usage, usage);
      if (cost !== undefined) this.cost = (this.cost ?? 0) + cost;
      this.results.push({ id, tool, content, isError, ...omitUndefined({ output, data }) });
    }
  }

  #skipCalls(): void {
    while (this.results.length < this.#calls.length) {
      const refusal = this.#findSkipReason();
      if (!refusal) return;
      this.add([refusal]);
    }
  }

  /** Calls after a `complete` are not made. */
  #findSkipReason(): ToolResult | undefined {
    if (this.completed) return createCallRefusal("call-skipped", "Call not made: the run was already completed.");
    if (this.#options.signal.aborted) return createCallRefusal("aborted", "Call not made: the run was interrupted.");
    if (this.results.length < MAX_CALLS_PER_STEP) return undefined;
    return createCallRefusal("too-many-calls", `Call not made: the limit is ${MAX_CALLS_PER_STEP} calls per step.`);
  }
}

function findTool({ tool }: ToolCall, { tools, unlisted = [] }: AgentLoopOptions): Tool | undefined {
  return [...tools(), ...unlisted].find(({ name }) => name === tool);
}

/** The step of a call, and its position in it, from 1. */
interface CallPosition {
  step: number;
  call: number;
}

/** Returns the name of a call in its run: `3.2` is the second call of the third step. */
function formatCallId({ step, call }: CallPosition): string {
  return `${step}.${call}`;
}

/** Prepares one call of a run for the pipeline: with the run's policies, approvals, steps and events. */
function prepareCall(steps: StepRunner, options: AgentLoopOptions, call: ToolCall, at: CallPosition): ContextualCall {
  const { redactor, taint, limits } = options;
  const { input } = call;
  const known = findTool(call, options);
  const tool = known ?? createUnknownTool(call);
  return {
    tool,
    input,
    context: {
      findRefusal: () => findCallRefusal(options, known, call),
      approval: { context: options, ask: (request) => requestRunApproval(steps, options, request, at), unaskedFix: "" },
      createOptions: () => createCallOptions(steps, options, tool, at),
      ...(isSubRunTool(tool)
        ? { execute: (callOptions) => tool.executeInRun(input, callOptions, createParentRun(steps, options, at)) }
        : { seconds: limits.toolSeconds, waited: () => steps.waited() }),
      redactor,
      taint,
      ownSkill: options.owner?.name,
      journal: createCallJournal(steps, options, call, { ...at, isNested: isSubRunTool(tool) }),
    },
  };
}

/** Creates the tool of a call that names none. Such a call is always refused. */
function createUnknownTool({ tool: name }: ToolCall): Tool {
  const refusal: ToolResult = { text: "", isError: true, code: "tool-unknown" };
  return { name, description: "", category: "", inputSchema: {}, execute: async () => refusal };
}

function createParentRun(steps: StepRunner, options: AgentLoopOptions, at: CallPosition): ParentRun {
  const { run, budget, requestedModel, taint } = options;
  const id = formatCallId(at);
  return { id: `${run}.${id}`, parent: run, steps: steps.createChild(id), budget, requestedModel, taint };
}

/** Records a call in one step, with its events. A nested run has its own steps, so only its events are in steps. */
function createCallJournal(
  steps: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  { isNested, ...at }: CallPosition & { isNested: boolean },
): CallJournal {
  const id = formatCallId(at);
  const name = `tool:${id}`;
  const about = { ...at, tool: call.tool };
  let started = performance.now();
  const onStart = () => {
    const input = shortenInput(call.input, options.redactor);
    emitRunEvent(steps, options, { type: "tool-called", ...about, input });
    started = performance.now();
  };
  const onEnd = (result: ToolResult) => emitToolEnded(steps, options, { ...about, started }, result);
  return {
    recordRefusal: ({ text, code = "" }) =>
      steps.step(
        name,
        async () => {
          const tool = sanitizeLine(options.redactor.redact(call.tool), 64);
          emitRunEvent(steps, options, { type: "tool-blocked", ...about, tool, code, message: text });
          return { text, isError: true, code };
        },
        "refusal",
      ),
    ...(isNested
      ? {
          async recordCall(execute) {
            await steps.step(`call:${id}`, async () => {
              onStart();
              return true;
            });
            const made = await execute();
            return steps.step(name, async () => {
              onEnd(made);
              return made;
            });
          },
        }
      : { recordCall: (execute) => steps.step(name, execute), onStart, onEnd }),
  };
}

/** Creates the options of a call: variables go only to the skill that declares them. */
function createCallOptions(
  steps: StepRunner,
  options: AgentLoopOptions,
  { name, owner }: Tool,
  at: CallPosition,
): CallOptions & { signal: AbortSignal } {
  const { run, signal, context, redactor } = options;
  const skill = owner ?? options.owner;
  const id = formatCallId(at);
  let count = 0;
  const isOwn = skill?.location === options.owner?.location && skill?.name === options.owner?.name;
  return {
    ...(context.createSandbox ? { sandbox: context.createSandbox(id) } : {}),
    ...(isOwn && context.env ? { env: context.env } : {}),
    ...(skill ? { skill } : {}),
    run,
    signal,
    key: `${run}:${id}`,
    onProgress(text) {
      if (++count > MAX_PROGRESS_EVENTS) return; // More would not be read.
      const line = sanitizeLine(redactor.redact(text), 300);
      emitRunEvent(steps, options, { type: "tool-progressed", ...at, tool: name, text: line });
    },
  };
}

function emitToolEnded(
  steps: StepRunner,
  options: AgentLoopOptions,
  { started, ...about }: CallPosition & { tool: string; started: number },
  { text, output = text, isError, code, title }: ToolResult,
): void {
  const ms = Math.max(0, Math.round(performance.now() - started));
  emitRunEvent(steps, options, {
    ...{ type: "tool-ended", ...about, isError },
    ...omitUndefined({ code, title }),
    ...(isError ? { message: sanitizeLine(output, 300) } : {}),
    ...{ ms, characters: text.length },
  });
}

/** Returns the refusal that no approval can lift. */
function findCallRefusal(options: AgentLoopOptions, tool: Tool | undefined, call: ToolCall): ToolResult | undefined {
  const { input, problem } = call;
  const revoked = findCallRevocation(options, call);
  if (revoked) return revoked;
  if (!tool) return describeUnknownTool(call.tool, options);
  if (problem !== undefined) return createCallRefusal("input-invalid", `Invalid input: ${sanitizeLine(problem, 300)}`);
  const blocked = findToolBlock(options.toolPolicies, tool.name, input);
  return blocked && createCallRefusal(blocked.code, sanitizeLine(formatProblem(blocked), 512));
}

function requestRunApproval(
  steps: StepRunner,
  options: AgentLoopOptions,
  request: ApprovalRequest,
  at: CallPosition,
): Promise<AnsweredApproval> {
  const about = { ...at, tool: request.tool };
  return steps.requestApproval(`approval:${formatCallId(at)}`, {
    request,
    signal: options.signal,
    redact: (text) => options.redactor.redact(text),
    onRequested: () => emitRunEvent(steps, options, { type: "approval-requested", ...about, approvalRequest: request }),
    onAnswered: (approval) => emitRunEvent(steps, options, { type: "approval-decided", ...about, ...approval }),
  });
}

/** Returns the refusal of a tool that was revoked since the run began. */
function findCallRevocation({ findRevocation }: AgentLoopOptions, { tool }: ToolCall): ToolResult | undefined {
  const why = findRevocation?.(tool);
  return why && createCallRefusal(why.code, sanitizeLine(formatProblem(why), 512));
}

/** Creates the result for a tool that was not offered: it is withheld from this skill, or unknown. */
function describeUnknownTool(name: string, { tools, withheld, skill }: AgentLoopOptions): ToolResult {
  const names = tools().map((tool) => formatWireName(tool.name)); // As the model knows them.
  const offered = names.join(", ");
  if (withheld.includes(name)) {
    const text = `Tool '${name}' is not allowed for skill '${skill}': it may use: ${offered}`;
    return createCallRefusal("tool-blocked", text);
  }
  const meant = findNearest(name, names);
  const near = meant ? `did you mean "${meant}"? ` : "";
  const text = `Unknown tool "${sanitizeLine(name, 64)}"; ${near}available tools: ${offered}`;
  return createCallRefusal("tool-unknown", text);
}

function createCallRefusal(code: ErrorCode, content: string): ToolResult {
  return { text: content, isError: true, code };
}
