import type { ErrorCode } from "../../errors/error-codes.ts";
import { getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import { NO_USAGE, type ToolCall, type ToolCallResult } from "../../host/model-contract.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult, type Usage } from "../../skill/tool.ts";
import { formatWireName } from "../../skill/tool-names.ts";
import { findNearest } from "../../util/text.ts";
import { raceWithAbort, startPausableTimer } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { trackToolResult } from "../policy/taint-tracker.ts";
import { isSubRunTool } from "../tools/skill-tools.ts";
import { unwrapToolOutput } from "../tools/tool-output.ts";
import type { AgentLoopOptions, AgentLoopResult } from "./agent-loop.ts";
import { redactData } from "./run-inputs.ts";
import { addUsage, emitRunEvent, type StepRunner } from "./step-runner.ts";
import { COMPLETE_TOOL, createApprovalRequest, findToolBlock, shortenInput } from "./tool-policy.ts";

const MAX_CALLS_PER_STEP = 32;
const MAX_PROGRESS_EVENTS = 1000;

interface ToolCallsResult {
  results: ToolCallResult[];
  completed?: Pick<AgentLoopResult, "stop" | "text">;
  /** What runs within this one used. */
  usage: Usage;
  cost: number | undefined;
}

/** Makes the calls, one after the other. What follows a `complete` is not made. */
export async function makeToolCalls(
  port: StepRunner,
  options: AgentLoopOptions,
  calls: readonly ToolCall[],
  step: number,
): Promise<ToolCallsResult> {
  const answered: ToolCallsResult = { results: [], usage: NO_USAGE, cost: undefined };
  for (const [index, call] of calls.entries()) {
    const { id, tool } = call;
    const why = skipToolCall(index, answered, options);
    const result = why ?? (await makeToolCall(port, options, call, { step, place: `${step}.${index + 1}` }));
    if (tool === COMPLETE_TOOL && !result.isError) {
      const isFailed = (call.input as { failed?: unknown } | null)?.failed === true;
      answered.completed = { stop: isFailed ? "failed" : "complete", text: result.content };
    }
    if (result.usage) answered.usage = addUsage(answered.usage, result.usage);
    if (result.cost !== undefined) answered.cost = (answered.cost ?? 0) + result.cost;
    answered.results.push({ id, tool, content: result.content, isError: result.isError });
  }
  return answered;
}

function skipToolCall(
  index: number,
  { completed }: ToolCallsResult,
  { signal }: AgentLoopOptions,
): ToolResult | undefined {
  if (completed) return createCallRefusal("not-made", "It was not made: the run was completed before it.");
  if (signal.aborted) return createCallRefusal("aborted", "It was not made: the run was interrupted.");
  if (index < MAX_CALLS_PER_STEP) return undefined;
  return createCallRefusal("too-many-calls", `It was not made: at most ${MAX_CALLS_PER_STEP} calls are made at once.`);
}

interface CallPosition {
  step: number;
  /** `3.2`: the second call of the third step. */
  place: string;
}

/** Prepares a call, executes it, and says what came of it. What speaks against it is an ordinary result. */
async function makeToolCall(
  port: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  at: CallPosition,
): Promise<ToolResult> {
  const { run, budget, asked } = options;
  const { place } = at;
  const tool = [...options.tools(), ...(options.unlisted ?? [])].find(({ name }) => name === call.tool);
  const refused = tool
    ? await findCallRefusal(port, options, tool, call, at)
    : (findCallRevocation(options, call) ?? describeUnknownTool(call.tool, options));
  const name = `tool:${place}`;
  if (!tool || refused) return port.step(name, async () => blockToolCall(port, options, call, at.step, refused));
  const callOptions = createCallOptions(port, options, tool, at);
  const noted = (result: ToolResult) => {
    trackToolResult(options.taint, { tool, input: call.input, own: options.owner?.name }, result);
    return result;
  };
  if (!isSubRunTool(tool)) {
    const made = port.step(name, async () => {
      const finish = startToolCall(port, options, call, at);
      return finish(await callWithTimeout(tool, call.input, callOptions, options.limits.toolSeconds, port.waited));
    });
    return noted(await made);
  }
  const started = performance.now();
  // A run has steps of its own: so it is in none, and only what is said of it is.
  await port.step(`call:${place}`, async () => {
    startToolCall(port, options, call, at);
    return true;
  });
  const { taint } = options;
  const within = { id: `${run}.${place}`, parent: run, port: port.within(place), budget, asked, taint };
  const result = await catchToolErrors(() => tool.executeWithin(call.input, callOptions, within));
  return noted(await port.step(name, async () => finishToolCall(port, options, call, { ...at, started }, result)));
}

/** What a call comes with: variables go only to the skill that declares them. */
function createCallOptions(
  port: StepRunner,
  options: AgentLoopOptions,
  { name, owner }: Tool,
  { step, place }: CallPosition,
): CallOptions & { signal: AbortSignal } {
  const { run, signal, context, hiding } = options;
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
      if (++said > MAX_PROGRESS_EVENTS) return; // Nobody reads more.
      emitRunEvent(port, options, {
        type: "tool-progressed",
        step,
        tool: name,
        text: sanitizeLine(hiding.text(text), 300),
      });
    },
  };
}

/** Says that a call is made; what it gives says what came of it. */
function startToolCall(
  port: StepRunner,
  options: AgentLoopOptions,
  call: ToolCall,
  at: CallPosition,
): (result: ToolResult) => ToolResult {
  const { tool, input } = call;
  emitRunEvent(port, options, { type: "tool-called", step: at.step, tool, input: shortenInput(input, options.hiding) });
  const started = performance.now();
  return (result) => finishToolCall(port, options, call, { ...at, started }, result);
}

function finishToolCall(
  port: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  { step, started }: CallPosition & { started: number },
  { content, isError, code, title, ...more }: ToolResult,
): ToolResult {
  const text = options.hiding.text(String(content));
  const ms = Math.max(0, Math.round(performance.now() - started));
  const coded = code === undefined ? {} : { code: sanitizeLine(options.hiding.text(String(code)), 64) };
  const titled = title === undefined ? {} : { title: sanitizeLine(options.hiding.text(title), 200) };
  const wrong = isError ? { message: sanitizeLine(unwrapToolOutput(text), 300) } : {};
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
  emitRunEvent(port, options, ended);
  return { ...redactData(options.hiding, more), content: text, isError, ...coded, ...titled };
}

function blockToolCall(
  port: StepRunner,
  options: AgentLoopOptions,
  { tool }: ToolCall,
  step: number,
  refused?: ToolResult,
): ToolResult {
  const { content = "", code = "" } = refused ?? {};
  const message = options.hiding.text(content);
  emitRunEvent(port, options, {
    type: "tool-blocked",
    step,
    tool: sanitizeLine(options.hiding.text(tool), 64),
    code,
    message,
  });
  return { content: message, isError: true, code };
}

async function findCallRefusal(
  port: StepRunner,
  options: AgentLoopOptions,
  tool: Tool,
  call: ToolCall,
  { step, place }: CallPosition,
): Promise<ToolResult | undefined> {
  const { gates, agreed, signal } = options;
  const { input, problem } = call;
  const revoked = findCallRevocation(options, call);
  if (revoked) return revoked;
  if (problem !== undefined) return createCallRefusal("input-invalid", `Invalid input: ${sanitizeLine(problem, 300)}`);
  const blocked = findToolBlock(gates, tool.name, input);
  if (blocked) return createCallRefusal(blocked.code, sanitizeLine(`${blocked.message}: ${blocked.fix}`, 512));
  const effect = await createApprovalRequest(options, tool, call);
  if (!effect) return undefined;
  const about = { step, tool: tool.name };
  const { approval, effect: agreedTo } = await port.approval(`approval:${place}`, {
    effect,
    signal,
    hide: (text) => options.hiding.text(text),
    onAsked: () => emitRunEvent(port, options, { type: "approval-asked", ...about, effect }),
    onGiven: (given) => emitRunEvent(port, options, { type: "approval-given", ...about, ...given }),
  });
  if (isApprovedForRun(agreedTo, approval)) agreed.add(getApprovalKey(agreedTo));
  if (approval.isApproved) return undefined;
  const said = approval.reason ? `. Why not: ${options.hiding.text(approval.reason)}` : "";
  return createCallRefusal(
    "not-approved",
    sanitizeLine(`Tool '${tool.name}' was not approved: ${effect.reason}${said}`, 512),
  );
}

/** Returns the refusal of a tool that was revoked since the run began. */
function findCallRevocation({ revoked }: AgentLoopOptions, { tool }: ToolCall): ToolResult | undefined {
  const why = revoked?.(tool);
  return why && createCallRefusal(why.code, sanitizeLine(`${why.message}: ${why.fix}`, 512));
}

/** A tool that was not offered: it is not for this skill, or there is none. */
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
    `There is no tool "${sanitizeLine(name, 64)}"; ${near}there are: ${offered}`,
  );
}

function createCallRefusal(code: ErrorCode, content: string): ToolResult {
  return { content, isError: true, code };
}

/** One call, in time: a tool that hangs is an error, never something that is waited for for ever. */
export async function callWithTimeout(
  tool: Tool,
  input: unknown,
  { signal, ...more }: CallOptions,
  seconds: number,
  /** How long was waited for people, which is not its time. */
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
    return { content: "It was interrupted.", isError: true, code: "aborted" };
  } finally {
    signal?.removeEventListener("abort", onAbort);
    stop();
  }
}

function createToolTimeoutResult({ message }: Error): ToolResult {
  return { content: `${message}.`, isError: true, code: "tool-timeout" };
}
