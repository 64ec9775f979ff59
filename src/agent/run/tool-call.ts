import type { ErrorCode } from "../../errors/error-codes.ts";
import { getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import { NO_USAGE, type ToolCall, type ToolCallResult } from "../../host/model-contract.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult, type Usage } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { findNearest } from "../../util/text.ts";
import { raceWithAbort, startPausableTimer } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { trackToolResult } from "../policy/taint-tracker.ts";
import { isSubRunTool } from "../tools/skill-tools.ts";
import { readRecordedOutput } from "../tools/tool-output.ts";
import type { AgentLoopOptions, AgentLoopResult } from "./agent-loop.ts";
import { redactData } from "./run-inputs.ts";
import { addUsage, emitRunEvent, type StepRunner } from "./step-runner.ts";
import { COMPLETE_TOOL, createApprovalRequest, findToolBlock, shortenInput } from "./tool-policy.ts";

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

/** Prepares a call, executes it and reports the outcome. A refusal is an ordinary result. */
async function makeToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  at: CallPosition,
): Promise<ToolResult> {
  const { run, budget, requestedModel: asked } = options;
  const { id: place } = at;
  const tool = [...options.tools(), ...(options.unlisted ?? [])].find(({ name }) => name === call.tool);
  const refused = tool
    ? await findCallRefusal(steps, options, tool, call, at)
    : (findCallRevocation(options, call) ?? describeUnknownTool(call.tool, options));
  const name = `tool:${place}`;
  if (!tool || refused)
    return readRecordedResult(
      await steps.step(name, async () => blockToolCall(steps, options, call, at.step, refused)),
    );
  const callOptions = createCallOptions(steps, options, tool, at);
  const noted = (recorded: ToolResult) => {
    const result = readRecordedResult(recorded);
    trackToolResult(options.taint, { tool, input: call.input, ownSkill: options.owner?.name }, result);
    return result;
  };
  if (!isSubRunTool(tool)) {
    const made = steps.step(name, async () => {
      const finish = startToolCall(steps, options, call, at);
      return finish(await callWithTimeout(tool, call.input, callOptions, options.limits.toolSeconds, steps.waited));
    });
    return noted(await made);
  }
  const started = performance.now();
  // A nested run has its own steps, so it is not inside a step; only its events are.
  await steps.step(`call:${place}`, async () => {
    startToolCall(steps, options, call, at);
    return true;
  });
  const { taint } = options;
  const within = {
    id: `${run}.${place}`,
    parent: run,
    steps: steps.createChild(place),
    budget,
    requestedModel: asked,
    taint,
  };
  const result = await catchToolErrors(() => tool.executeInRun(call.input, callOptions, within));
  return noted(await steps.step(name, async () => finishToolCall(steps, options, call, { ...at, started }, result)));
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
    ...(context.sandbox ? { sandbox: context.sandbox } : {}),
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

/** Emits the start of a call and returns the function that finishes it. */
function startToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  at: CallPosition,
): (result: ToolResult) => ToolResult {
  const { tool, input } = call;
  emitRunEvent(steps, options, {
    type: "tool-called",
    step: at.step,
    tool,
    input: shortenInput(input, options.redactor),
  });
  const started = performance.now();
  return (result) => finishToolCall(steps, options, call, { ...at, started }, result);
}

function finishToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  { step, started }: CallPosition & { started: number },
  { text: content, isError, code, title, ...more }: ToolResult,
): ToolResult {
  const text = options.redactor.redact(String(content));
  const redact = (part: string | undefined) => (part === undefined ? undefined : options.redactor.redact(part));
  const ms = Math.max(0, Math.round(performance.now() - started));
  const coded = code === undefined ? {} : { code: sanitizeLine(options.redactor.redact(String(code)), 64) };
  const titled = title === undefined ? {} : { title: sanitizeLine(options.redactor.redact(title), 200) };
  const wrong = isError ? { message: sanitizeLine(redact(more.output) ?? text, 300) } : {};
  const ended = {
    type: "tool-ended",
    step,
    tool,
    isError,
    ...coded,
    ...titled,
    ...wrong,
    ms,
    characters: text.length,
  } as const;
  emitRunEvent(steps, options, ended);
  return { ...redactData(options.redactor, more), text, isError, ...coded, ...titled };
}

function blockToolCall(
  steps: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  step: number,
  refused?: ToolResult,
): ToolResult {
  const { text = "", code = "" } = refused ?? {};
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

async function findCallRefusal(
  steps: StepRunner,
  options: AgentLoopOptions,
  tool: Tool,
  call: ToolCall,
  { step, id: place }: CallPosition,
): Promise<ToolResult | undefined> {
  const { toolPolicies, approvedKeys, signal } = options;
  const { input, problem } = call;
  const findRevocation = findCallRevocation(options, call);
  if (findRevocation) return findRevocation;
  if (problem !== undefined) return createCallRefusal("input-invalid", `Invalid input: ${sanitizeLine(problem, 300)}`);
  const blocked = findToolBlock(toolPolicies, tool.name, input);
  if (blocked) return createCallRefusal(blocked.code, sanitizeLine(`${blocked.message}: ${blocked.fix}`, 512));
  const effect = await createApprovalRequest(options, tool, call);
  if (!effect) return undefined;
  const about = { step, tool: tool.name };
  const { approval, request: agreedTo } = await steps.requestApproval(`approval:${place}`, {
    request: effect,
    signal,
    redact: (text) => options.redactor.redact(text),
    onRequested: () => emitRunEvent(steps, options, { type: "approval-requested", ...about, effect }),
    onAnswered: (given) => emitRunEvent(steps, options, { type: "approval-decided", ...about, ...given }),
  });
  if (isApprovedForRun(agreedTo, approval)) approvedKeys.add(getApprovalKey(agreedTo));
  if (approval.isApproved) return undefined;
  const said = approval.reason ? `. Reason: ${options.redactor.redact(approval.reason)}` : "";
  return createCallRefusal(
    "not-approved",
    sanitizeLine(`Tool '${tool.name}' was not approved: ${effect.reason}${said}`, 512),
  );
}

/** Returns the refusal of a tool that was revoked since the run began. */
function findCallRevocation({ findRevocation }: AgentLoopOptions, { tool }: ToolCall): ToolResult | undefined {
  const why = findRevocation?.(tool);
  return why && createCallRefusal(why.code, sanitizeLine(`${why.message}: ${why.fix}`, 512));
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

/** Makes one call with a time limit: a tool that hangs is an error. */
export async function callWithTimeout(
  tool: Tool,
  input: unknown,
  { signal, ...more }: CallOptions,
  seconds: number,
  /** Returns the time spent waiting for users, which does not count toward the limit. */
  waited?: () => number,
): Promise<ToolResult> {
  const inner = new AbortController();
  const onAbort = () => inner.abort(signal?.reason);
  const late = new Error(`It did not end within ${seconds} seconds`);
  const stop = startPausableTimer(seconds * 1000, () => inner.abort(late), waited);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const result = await raceWithAbort(
      catchToolErrors(() => tool.execute(input, { ...more, signal: inner.signal })),
      inner.signal,
    );
    return result.code === "aborted" && inner.signal.reason === late ? createToolTimeoutResult(late) : result;
  } catch (error) {
    if (error === late) return createToolTimeoutResult(late);
    return { text: "It was interrupted.", isError: true, code: "aborted" };
  } finally {
    signal?.removeEventListener("abort", onAbort);
    stop();
  }
}

function createToolTimeoutResult({ message }: Error): ToolResult {
  return { text: `${message}.`, isError: true, code: "tool-timeout" };
}
