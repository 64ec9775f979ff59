import type { Host } from "../../config/host.ts";
import { formatProblem, getErrorMessage, type Problem } from "../../errors/problem.ts";
import { type Approval, type ApprovalRequest, getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import { type CallOptions, createErrorResult, type Tool, type ToolResult } from "../../skill/tool.ts";
import type { Redactor } from "../../util/redact.ts";
import { raceWithAbort, startPausableTimer } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { type TaintTracker, trackToolResult } from "../policy/taint-tracker.ts";
import { redactToolResult } from "./redaction.ts";
import { type AnsweredApproval, createApprovalRequest, requestApproval } from "./tool-policy.ts";

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
export interface CallJournal {
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
export interface ContextualCall {
  tool: Tool;
  input: unknown;
  context: CallToolContext;
}

/** Makes one call. See `callTools`. */
export async function callTool(tool: Tool, input: unknown, context: CallToolContext): Promise<ToolResult> {
  const [result] = await callTools([{ tool, input, context }]);
  return result as ToolResult;
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
  const ended = await Promise.allSettled(calls.map((call, index) => refusals[index] ?? recordCall(call)));
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
  const refusal = blocked ?? (denial && createDenialResult(denial));
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

function createDenialResult(problem: Problem): ToolResult {
  return { text: formatProblem(problem), isError: true, code: problem.code };
}

function recordCall(call: ContextualCall): Promise<ToolResult> {
  return { ...NO_JOURNAL, ...call.context.journal }.recordCall(executeCall.bind(undefined, call));
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
    const made = context.execute ? context.execute(limited) : tool.execute(input, limited);
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
