import type { ErrorCode } from "../../errors/error-codes.ts";
import { formatProblem } from "../../errors/problem.ts";
import type { ApprovalRequest } from "../../host/approval.ts";
import { NO_USAGE, type ToolCall, type ToolCallResult } from "../../host/model-contract.ts";
import type { CallOptions, Tool, ToolResult, Usage } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { isSubRunTool } from "../tools/skill-tools.ts";
import { readRecordedOutput } from "../tools/tool-output.ts";
import type { AgentLoopOptions, AgentLoopResult } from "./agent-loop.ts";
import { type CallJournal, callTool } from "./call-tool.ts";
import { addUsage, emitRunEvent, type StepRunner } from "./step-runner.ts";
import { type AnsweredApproval, COMPLETE_TOOL, findToolBlock, shortenInput } from "./tool-policy.ts";
import type { ParentRun } from "./use-skill.ts";

const MAX_CALLS_PER_STEP = 32;
const MAX_PROGRESS_EVENTS = 1000;

interface ToolCallsResult {
  results: ToolCallResult[];
  completed?: Pick<AgentLoopResult, "stop" | "text">;
  /** The usage of nested runs. */
  usage: Usage;
  cost: number | undefined;
}

/** Makes the calls one after the other. Calls after a `complete` are skipped. */
export async function makeToolCalls(
  steps: StepRunner,
  options: AgentLoopOptions,
  calls: readonly ToolCall[],
  step: number,
): Promise<ToolCallsResult> {
  const answered: ToolCallsResult = { results: [], usage: NO_USAGE, cost: undefined };
  for (const [index, call] of calls.entries()) {
    const { id, tool } = call;
    const why = skipToolCall(index, answered, options);
    const result = why ?? (await makeToolCall(steps, options, call, { step, id: `${step}.${index + 1}` }));
    if (tool === COMPLETE_TOOL && !result.isError) {
      const isFailed = (call.input as { failed?: unknown } | null)?.failed === true;
      answered.completed = { stop: isFailed ? "failed" : "complete", text: result.text };
    }
    if (result.usage) answered.usage = addUsage(answered.usage, result.usage);
    if (result.cost !== undefined) answered.cost = (answered.cost ?? 0) + result.cost;
    const { text: content, isError, output, data } = result;
    answered.results.push({ id, tool, content, isError, ...omitUndefined({ output, data }) });
  }
  return answered;
}

function skipToolCall(
  index: number,
  { completed }: ToolCallsResult,
  { signal }: AgentLoopOptions,
): ToolResult | undefined {
  if (completed) return createCallRefusal("call-skipped", "Call not made: the run was already completed.");
  if (signal.aborted) return createCallRefusal("aborted", "Call not made: the run was interrupted.");
  if (index < MAX_CALLS_PER_STEP) return undefined;
  return createCallRefusal("too-many-calls", `Call not made: the limit is ${MAX_CALLS_PER_STEP} calls per step.`);
}

interface CallPosition {
  step: number;
  /** `3.2`: the second call of the third step. */
  id: string;
}

/** Makes one call of a run: the run's policies, approvals, steps and events around the pipeline. */
async function makeToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  at: CallPosition,
): Promise<ToolResult> {
  const { redactor, taint, limits } = options;
  const { input } = call;
  const tool = [...options.tools(), ...(options.unlisted ?? [])].find(({ name }) => name === call.tool);
  const journal = createCallJournal(steps, options, call, {
    ...at,
    isNested: tool !== undefined && isSubRunTool(tool),
  });
  if (!tool) return journal.recordRefusal(findCallRevocation(options, call) ?? describeUnknownTool(call.tool, options));
  return callTool(tool, input, {
    findRefusal: () => findCallRefusal(options, tool, call),
    approval: { context: options, ask: (request) => requestRunApproval(steps, options, request, at), unaskedFix: "" },
    createOptions: () => createCallOptions(steps, options, tool, at),
    ...(isSubRunTool(tool)
      ? { execute: (callOptions) => tool.executeInRun(input, callOptions, createParentRun(steps, options, at)) }
      : { seconds: limits.toolSeconds, waited: () => steps.waited() }),
    redactor,
    taint,
    ownSkill: options.owner?.name,
    journal,
  });
}

function createParentRun(steps: StepRunner, options: AgentLoopOptions, { id }: CallPosition): ParentRun {
  const { run, budget, requestedModel, taint } = options;
  return { id: `${run}.${id}`, parent: run, steps: steps.createChild(id), budget, requestedModel, taint };
}

/** Records a call in one step, with its events. A nested run has its own steps, so it is not inside a step; only its events are. */
function createCallJournal(
  steps: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  { step, id, isNested }: CallPosition & { isNested: boolean },
): Omit<CallJournal, "recordRefusal"> & { recordRefusal(refusal: ToolResult): Promise<ToolResult> } {
  const name = `tool:${id}`;
  const start = () => {
    const input = shortenInput(call.input, options.redactor);
    emitRunEvent(steps, options, { type: "tool-called", step, tool: call.tool, input });
    return performance.now();
  };
  const end = (result: ToolResult, started: number) => {
    emitToolEnded(steps, options, call, { step, started }, result);
    return result;
  };
  return {
    recordRefusal: async (refusal) =>
      readRecordedResult(await steps.step(name, async () => blockToolCall(steps, options, call, step, refusal))),
    async recordCall(execute, finish) {
      if (!isNested) {
        const recorded = await steps.step(name, async () => {
          const started = start();
          return end(finish(await execute()), started);
        });
        return readRecordedResult(recorded);
      }
      const started = performance.now();
      await steps.step(`call:${id}`, async () => start() > 0);
      const made = await execute();
      return readRecordedResult(await steps.step(name, async () => end(finish(made), started)));
    },
  };
}

/** Reads the result of a recorded step. Version 0.1.0 recorded the text as `content` and the data as `metadata`. */
function readRecordedResult(recorded: ToolResult & { content?: string; metadata?: JsonObject }): ToolResult {
  if (typeof recorded.text === "string") return recorded;
  const { content = "", metadata: data, ...rest } = recorded;
  return { ...rest, text: content, ...omitUndefined({ output: readRecordedOutput(content), data }) };
}

/** Creates the options of a call: variables go only to the skill that declares them. */
function createCallOptions(
  steps: StepRunner,
  options: AgentLoopOptions,
  { name, owner }: Tool,
  { step, id: place }: CallPosition,
): CallOptions & { signal: AbortSignal } {
  const { run, signal, context, redactor } = options;
  const skill = owner ?? options.owner;
  let said = 0;
  const isOwn = skill?.place === options.owner?.place && skill?.name === options.owner?.name;
  return {
    ...(context.createSandbox ? { sandbox: context.createSandbox(place) } : {}),
    ...(isOwn && context.env ? { env: context.env } : {}),
    ...(skill ? { skill } : {}),
    run,
    signal,
    key: `${run}:${place}`,
    onProgress(text) {
      if (++said > MAX_PROGRESS_EVENTS) return; // More would not be read.
      emitRunEvent(steps, options, {
        type: "tool-progressed",
        step,
        tool: name,
        text: sanitizeLine(redactor.redact(text), 300),
      });
    },
  };
}

function emitToolEnded(
  steps: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  { step, started }: { step: number; started: number },
  { text, output = text, isError, code, title }: ToolResult,
): void {
  const ms = Math.max(0, Math.round(performance.now() - started));
  emitRunEvent(steps, options, {
    ...{ type: "tool-ended", step, tool, isError },
    ...omitUndefined({ code, title }),
    ...(isError ? { message: sanitizeLine(output, 300) } : {}),
    ...{ ms, characters: text.length },
  });
}

function blockToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  step: number,
  { text, code = "" }: ToolResult,
): ToolResult {
  const message = options.redactor.redact(text);
  emitRunEvent(steps, options, {
    type: "tool-blocked",
    step,
    tool: sanitizeLine(options.redactor.redact(tool), 64),
    code,
    message,
  });
  return { text: message, isError: true, code };
}

/** Returns the refusal that no approval can lift. */
function findCallRefusal(options: AgentLoopOptions, tool: Tool, call: ToolCall): ToolResult | undefined {
  const { input, problem } = call;
  const revoked = findCallRevocation(options, call);
  if (revoked) return revoked;
  if (problem !== undefined) return createCallRefusal("input-invalid", `Invalid input: ${sanitizeLine(problem, 300)}`);
  const blocked = findToolBlock(options.toolPolicies, tool.name, input);
  return blocked && createCallRefusal(blocked.code, sanitizeLine(formatProblem(blocked), 512));
}

function requestRunApproval(
  steps: StepRunner,
  options: AgentLoopOptions,
  effect: ApprovalRequest,
  { step, id }: CallPosition,
): Promise<AnsweredApproval> {
  const about = { step, tool: effect.tool };
  return steps.requestApproval(`approval:${id}`, {
    request: effect,
    signal: options.signal,
    redact: (text) => options.redactor.redact(text),
    onRequested: () => emitRunEvent(steps, options, { type: "approval-requested", ...about, effect }),
    onAnswered: (given) => emitRunEvent(steps, options, { type: "approval-decided", ...about, ...given }),
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
    return createCallRefusal(
      "tool-blocked",
      `Tool '${name}' is not allowed for skill '${skill}': it may use: ${offered}`,
    );
  }
  const meant = findNearest(name, names);
  const near = meant ? `did you mean "${meant}"? ` : "";
  return createCallRefusal(
    "tool-unknown",
    `Unknown tool "${sanitizeLine(name, 64)}"; ${near}available tools: ${offered}`,
  );
}

function createCallRefusal(code: ErrorCode, content: string): ToolResult {
  return { text: content, isError: true, code };
}
