import { formatProblem, type Problem } from "../../errors/problem.ts";
import { type ApprovalRequest, getApprovalKey, isApprovedForRun } from "../../host/approval.ts";
import { type CallOptions, catchToolErrors, type Tool, type ToolResult } from "../../skill/tool.ts";
import type { Redactor } from "../../util/redact.ts";
import { raceWithAbort, startPausableTimer } from "../../util/timeout.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { type TaintTracker, trackToolResult } from "../policy/taint-tracker.ts";
import { redactData } from "./run-inputs.ts";
import { type AnsweredApproval, createApprovalRequest } from "./tool-policy.ts";

/** The parts of a call that differ between a run, a session, the command line, a prompt and Claude. */
export interface CallToolContext {
  /** Policy: returns the refusal that no approval can lift. */
  findRefusal?(): ToolResult | undefined;
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
  journal?: CallJournal | undefined;
}

export interface ToolApproval {
  /** The facts that the approval request is made from. `approvedKeys` gets the approvals that hold for the whole run. */
  context: Parameters<typeof createApprovalRequest>[0];
  /** The provider of the tool, if the request does not name it. */
  source?: string | undefined;
  /** Asks for the approval. Resolves with undefined if no user can be asked. */
  ask(request: ApprovalRequest): Promise<AnsweredApproval | undefined>;
  /** What to do if no user can be asked. */
  unaskedFix: string;
}

/** Contract: each function resolves with the result that `finish` or the refusal gives, or with a recorded one. */
export interface CallJournal {
  recordRefusal(refusal: ToolResult, problem: Problem | undefined): Promise<ToolResult>;
  recordCall(execute: () => Promise<ToolResult>, finish: (made: ToolResult) => ToolResult): Promise<ToolResult>;
}

const NO_JOURNAL: CallJournal = {
  recordRefusal: async (refusal) => refusal,
  recordCall: async (execute, finish) => finish(await execute()),
};

/**
 * THE tool-call pipeline: policy, approval, timeout, execution, redaction, journal with its events, taint. Runs, sessions, `skillet call`
 * and Claude's tool bridge call tools through it. Contract: never throws because of the tool; a refusal or failure is a result.
 */
export async function callTool(tool: Tool, input: unknown, context: CallToolContext): Promise<ToolResult> {
  const { redactor, taint, ownSkill, journal = NO_JOURNAL } = context;
  const blocked = context.findRefusal?.();
  const denial = blocked ? undefined : await requireApproval(tool, input, context);
  const refusal = blocked ?? (denial && createDenialResult(denial));
  if (refusal) return journal.recordRefusal(redactResult(refusal, redactor), denial);
  const result = await journal.recordCall(
    () => executeTool(tool, input, context),
    (made) => redactResult(made, redactor),
  );
  if (taint) trackToolResult(taint, { tool, input, ownSkill }, result);
  return result;
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
  const message = sanitizeLine(`Tool '${tool.name}' was not approved: ${request.reason}${reason}`, 512);
  return { code: "not-approved", message, fix: "" };
}

function createDenialResult(problem: Problem): ToolResult {
  return { text: formatProblem(problem), isError: true, code: problem.code };
}

async function executeTool(tool: Tool, input: unknown, context: CallToolContext): Promise<ToolResult> {
  const { seconds, waited, execute = (options: CallOptions) => tool.execute(input, options) } = context;
  const options = context.createOptions();
  if (seconds === undefined) return catchToolErrors(() => execute(options));
  return executeWithTimeout(execute, options, seconds, waited);
}

/** Makes one call with a time limit: a tool that hangs is an error. */
async function executeWithTimeout(
  execute: (options: CallOptions) => Promise<ToolResult>,
  { signal, ...more }: CallOptions,
  seconds: number,
  waited: (() => number) | undefined,
): Promise<ToolResult> {
  const inner = new AbortController();
  const onAbort = () => inner.abort(signal?.reason);
  const late = new Error(`It did not end within ${seconds} seconds`);
  const stop = startPausableTimer(seconds * 1000, () => inner.abort(late), waited);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const result = await raceWithAbort(
      catchToolErrors(() => execute({ ...more, signal: inner.signal })),
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

/** Removes secrets from every part of a result. The sink for tool results. */
function redactResult({ text, code, title, ...more }: ToolResult, redactor: Redactor): ToolResult {
  return {
    ...redactData(redactor, more),
    text: redactor.redact(String(text)),
    ...(code === undefined ? {} : { code: sanitizeLine(redactor.redact(String(code)), 64) }),
    ...(title === undefined ? {} : { title: sanitizeLine(redactor.redact(title), 200) }),
  };
}
