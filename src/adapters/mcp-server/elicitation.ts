import {
  CLIENT_CAPABILITIES_META_KEY,
  type ElicitRequestFormParams,
  type InputRequiredResult,
  inputRequired,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { getErrorMessage } from "../../errors/problem.ts";
import type { Approval, ApprovalRequest, Approve } from "../../host/approval.ts";
import type { Mailbox } from "../../store/mailbox.ts";
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { type AnswerRelay, createAnswerRelay, type RelayedAnswer } from "./answer-relay.ts";
import type { ResultEnvelope } from "./tool-envelope.ts";

/** Starts a call. The context has the signal, and an approval function if the client can ask its user. */
export type StartServedCall = (context: ServedCallContext) => Promise<ResultEnvelope>;

export interface ServedCallContext {
  approve?: Approve;
  signal: AbortSignal;
  /** Returns the request that waits for the call; undefined during a question in a revision where a question ends the request. */
  getWaitingRequest(): ServerContext | undefined;
}

/** Calls that need approval. A call that waits for one continues when its client returns with the answer. */
export interface Elicitations {
  call(
    mcp: McpServer,
    context: ServerContext,
    tool: string,
    start: StartServedCall,
  ): Promise<ResultEnvelope | InputRequiredResult>;
  /** Ends all waiting calls. */
  close(): void;
}

interface ElicitedQuestion {
  approvalRequest: ApprovalRequest;
  answer(approval: Approval): void;
}

/** A call in progress. */
interface HeldCall {
  result: Promise<ResultEnvelope>;
  /** The next question of the call. */
  asked: PromiseWithResolvers<ElicitedQuestion>;
  open?: ElicitedQuestion;
  /** The name of the tool. */
  tool?: string;
  /** The id of the open question. */
  id?: string;
  /** The request that waits for the call. */
  waiting?: ServerContext | undefined;
  controller: AbortController;
  timer?: NodeJS.Timeout;
  /** Ends the wait for an answer that another server receives. */
  relay?: { close(): void } | undefined;
}

const ANSWER_KEY = "word";
/** The time limit for an answer. */
const ANSWER_TIMEOUT_MS = 10 * 60_000;
/** Each held call keeps its resources: a client that never answers must not fill the memory. */
const MAX_HELD_CALLS = 100;

export interface ElicitationOptions {
  /** False if an answer would reach another server, so that no user can be asked. */
  canAnswer?: boolean;
  /** Carries an answer that reaches another server to the call that waits for it. Defaults to none: the other server refuses the answer. */
  relay?: { mailbox: Mailbox; caller: string } | undefined;
}

/**
 * Creates the held calls. A question has an unguessable id in place of a server request, which the newest revision does not have. Each id
 * accepts one answer: the same approval sent twice would approve the next question.
 */
export function createElicitations({ canAnswer = true, relay: shared }: ElicitationOptions = {}): Elicitations {
  const held = new Map<string, HeldCall>();
  const relay: AnswerRelay | undefined = shared && createAnswerRelay(shared.mailbox, shared.caller);
  const release = (one: HeldCall) => {
    clearTimeout(one.timer);
    one.relay?.close();
    one.relay = undefined;
    if (one.id !== undefined) held.delete(one.id);
  };
  const end = (one: HeldCall) => {
    release(one);
    one.controller.abort();
    one.open?.answer({ isApproved: false, reason: "no answer in time" });
  };
  /** Continues a call until it ends or has another question. `context`: the request that waits here, if any. */
  const proceed = async (
    one: HeldCall,
    { tool, responses, signal }: RelayedAnswer & { signal: AbortSignal },
    context?: ServerContext,
  ): Promise<ResultEnvelope | InputRequiredResult> => {
    if ((one.tool ?? tool) !== tool) return EXPIRED_CALL;
    one.tool = tool;
    release(one);
    one.waiting = context;
    const abort = () => end(one);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    one.open?.answer(parseApproval(responses?.[ANSWER_KEY]));
    let next = await Promise.race([one.result, one.asked.promise]);
    while ("approvalRequest" in next && context && !isStatelessRevision(context)) {
      one.asked = Promise.withResolvers();
      next.answer(await elicitApproval(context, next.approvalRequest, one.controller.signal));
      next = await Promise.race([one.result, one.asked.promise]);
    }
    signal.removeEventListener("abort", abort);
    one.waiting = undefined;
    if (!("approvalRequest" in next)) return next;
    one.open = next;
    one.asked = Promise.withResolvers();
    one.id = crypto.randomUUID();
    const [oldest] = held.values();
    if (oldest && held.size >= MAX_HELD_CALLS) end(oldest);
    held.set(one.id, one);
    one.timer = setTimeout(end, ANSWER_TIMEOUT_MS, one);
    one.timer.unref();
    one.relay = await relay?.offer(one.id, (answer) => proceed(one, answer));
    return inputRequired({
      requestState: one.id,
      inputRequests: { [ANSWER_KEY]: inputRequired.elicit(createApprovalForm(next.approvalRequest)) },
    });
  };
  return {
    async call(mcp, context, tool, start) {
      const { signal, inputResponses: responses } = context.mcpReq;
      const state = context.mcpReq.requestState<string>();
      const answer: RelayedAnswer = { tool, responses };
      const one =
        state === undefined ? startHeldCall(start, context, canAnswer && canElicit(mcp, context)) : held.get(state);
      if (one) return proceed(one, { ...answer, signal }, context);
      const relayed = state === undefined ? undefined : await relay?.send(state, answer, signal);
      return (relayed as ResultEnvelope | InputRequiredResult | undefined) ?? EXPIRED_CALL;
    },
    close() {
      for (const one of [...held.values()]) end(one);
    },
  };
}

function startHeldCall(start: StartServedCall, waiting: ServerContext, canBeAsked: boolean): HeldCall {
  const controller = new AbortController();
  const one: Omit<HeldCall, "result"> = { asked: Promise.withResolvers(), waiting, controller };
  let before: Promise<unknown> = Promise.resolve();
  // One question at a time, in order.
  const approve: Approve = (request, { signal }) => {
    const approval = before.then(async () => {
      const { promise, resolve } = Promise.withResolvers<Approval>();
      signal.addEventListener("abort", () => resolve(CANCELED_APPROVAL), { once: true });
      if (signal.aborted) return CANCELED_APPROVAL;
      if (!canShowInput(request)) return undefined; // An input that cannot be shown in full cannot be approved here.
      one.asked.resolve({ approvalRequest: request, answer: resolve });
      return promise;
    });
    before = approval;
    return approval;
  };
  const context = {
    signal: controller.signal,
    getWaitingRequest: () => one.waiting,
    ...(canBeAsked ? { approve } : {}),
  };
  return Object.assign(one, { result: start(context) });
}

const CANCELED_APPROVAL: Approval = { isApproved: false, reason: "the call was cancelled" };
const EXPIRED_CALL: ResultEnvelope = {
  content: [{ type: "text", text: "This call has expired. Call the tool again." }],
  isError: true,
  _meta: { "skillet/code": "call-gone" },
};

/** Sends a server request. Only the older revisions have them. */
async function elicitApproval(
  { mcpReq }: ServerContext,
  request: ApprovalRequest,
  signal: AbortSignal,
): Promise<Approval> {
  try {
    // Sent on the stream of the call: not every client has another.
    const options = { signal, timeout: ANSWER_TIMEOUT_MS, relatedRequestId: mcpReq.id };
    return parseApproval(await mcpReq.elicitInput(createApprovalForm(request), options));
  } catch (error) {
    return { isApproved: false, reason: `the client could not ask the user: ${getErrorMessage(error)}` };
  }
}

function isStatelessRevision({ mcpReq }: ServerContext): boolean {
  return mcpReq.envelope !== undefined;
}

/** Returns true if the client can show its user a form. */
function canElicit(mcp: McpServer, { mcpReq }: ServerContext): boolean {
  const envelope = mcpReq.envelope as JsonObject | undefined;
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? mcp.server.getClientCapabilities();
  const elicitation = isJsonObject(capabilities) ? capabilities["elicitation"] : undefined;
  return isJsonObject(elicitation) && (elicitation["form"] !== undefined || elicitation["url"] === undefined);
}

/** Creates the form with all information that an approval needs. */
function createApprovalForm(request: ApprovalRequest): ElicitRequestFormParams {
  const { skill, tool, what, where, amount, isReversible, on, input, from, isOnce } = request;
  const shown = JSON.stringify(input) ?? "";
  const rows: [string, string | undefined][] = [
    ["what", what],
    ["from", from?.join("; ")],
    ["where", where],
    ["how much", amount],
    ["undo", isReversible === undefined ? undefined : isReversible ? "possible" : "not possible"],
    ["asked by", skill === "" ? undefined : `the skill ${skill}`],
    ["because", from ? undefined : request.reason],
    ["input", shown === "{}" ? undefined : shown],
  ];
  const lines = rows.flatMap(([label, value]) => (value ? [`${label}: ${sanitizeLine(value, MAX_INPUT_LENGTH)}`] : []));
  const yes = on === "workspace" && !isOnce ? "yes, for this run" : "yes, this once";
  const always = on === "workspace" ? "always in this folder" : "always for this tool, whatever its input";
  const choices = [yes, ...(skill === "" || isOnce ? [] : [always]), "no"];
  return {
    message: [
      `${sanitizeLine(tool, 128)} ${from && on === "other" ? TAINT_DESCRIPTION : EFFECT_DESCRIPTIONS[on]}`,
      ...lines,
    ].join("\n"),
    requestedSchema: {
      type: "object",
      properties: {
        decision: { type: "string", title: "Approve?", enum: choices },
        reason: { type: "string", title: "Reason for refusal", description: "shown to the model; optional" },
      },
      required: ["decision"],
    },
  };
}

/** Maximum length of an input. A longer one cannot be approved in a form. */
const MAX_INPUT_LENGTH = 8000;

/** Returns true if a form can show the complete input. */
function canShowInput({ input }: ApprovalRequest): boolean {
  return sanitizeLine(JSON.stringify(input) ?? "", Number.MAX_SAFE_INTEGER).length <= MAX_INPUT_LENGTH;
}

const EFFECT_DESCRIPTIONS: Record<ApprovalRequest["on"], string> = {
  workspace: "would change files of the workspace",
  outside: "would change something outside of the workspace",
  other: "would do something that the skill did not declare",
};

const TAINT_DESCRIPTION = "receives input from text that you did not write";

/** Parses the answer. Only an accepted form with a yes is an approval. */
function parseApproval(response: unknown): Approval {
  const { action, content } = isJsonObject(response) ? response : {};
  const { decision, reason: why } = isJsonObject(content) ? content : {};
  if (action === "accept" && String(decision).startsWith("always")) return { isApproved: true, scope: "always" };
  if (action === "accept" && typeof decision === "string" && decision.startsWith("yes")) {
    return { isApproved: true, scope: decision.endsWith("run") ? "run" : "once" };
  }
  return { isApproved: false, ...(typeof why === "string" && why !== "" ? { reason: why } : {}) };
}
