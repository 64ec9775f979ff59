import { setTimeout as sleep } from "node:timers/promises";
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

/** An answer of a client to the question of a call. */
interface RelayedAnswer {
  /** The tool that the client calls again with its answer. */
  tool: string;
  responses: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Carries answers between servers that share a mailbox. Requests of the revision 2026-07-28 have no session, so a load balancer may bring
 * the answer to a server other than the one whose call waits for it. That server hands the answer over, and returns the result.
 */
interface AnswerRelay {
  /** Waits for the answer to a question, and calls `proceed` with it. Contract of `proceed`: it resolves with plain data. */
  offer(id: string, proceed: Proceed): Promise<{ close(): void }>;
  /** Sends an answer to the server that waits for it, and returns its result. Returns undefined if no server waits for it. */
  send(id: string, answer: RelayedAnswer, signal: AbortSignal): Promise<unknown>;
}

type Proceed = (answer: RelayedAnswer & { signal: AbortSignal }) => Promise<unknown>;

const POLL_MS = 250;
/** How often the waiting server shows that it is still at the call, and the time without a sign after which it is gone. */
const SIGN_MS = 1000;
const MAX_SILENCE_MS = 10_000;

/** Creates the relay of one caller: an answer of another caller has another key, and finds no question. */
function createAnswerRelay(mailbox: Mailbox, caller: string): AnswerRelay {
  const keysOf = (id: string) => {
    const keyOf = (kind: string) => [kind, caller, id].join("\n");
    // The question is taken by the first answer, so that a second one has no effect.
    return { question: keyOf("question"), answer: keyOf("answer"), cancel: keyOf("cancel"), result: keyOf("result") };
  };
  return {
    async offer(id, proceed) {
      const keys = keysOf(id);
      const closing = new AbortController();
      // Without the mailbox, the answer has to come to this server.
      await mailbox.put(keys.question, true).catch(() => {});
      const wait = async () => {
        for (;;) {
          await sleep(POLL_MS, undefined, { signal: closing.signal, ref: false });
          const answer = await mailbox.take(keys.answer).catch(() => undefined);
          if (!closing.signal.aborted && isRelayedAnswer(answer)) return relayResult(mailbox, keys, proceed, answer);
        }
      };
      wait().catch(() => {}); // Closed: the question is over.
      return {
        close() {
          closing.abort();
          mailbox.take(keys.question).catch(() => {});
        },
      };
    },
    async send(id, answer, signal) {
      const keys = keysOf(id);
      if ((await mailbox.take(keys.question).catch(() => undefined)) === undefined) return undefined;
      await mailbox.put(keys.answer, answer);
      let lastSign = performance.now();
      while (!signal.aborted) {
        const message = await mailbox.take(keys.result);
        if (isJsonObject(message) && message["result"] !== undefined) return message["result"];
        if (message !== undefined) lastSign = performance.now();
        if (performance.now() - lastSign > MAX_SILENCE_MS) break;
        await sleep(POLL_MS, undefined, { signal }).catch(() => {});
      }
      await mailbox.put(keys.cancel, true);
      await mailbox.take(keys.answer);
      return undefined;
    },
  };
}

/** Continues the call, and shows the other server until its end that it is in progress. */
async function relayResult(
  mailbox: Mailbox,
  keys: Record<"cancel" | "result", string>,
  proceed: Proceed,
  answer: RelayedAnswer,
): Promise<void> {
  const controller = new AbortController();
  let result: unknown;
  let isOver = false;
  const ended = proceed({ ...answer, signal: controller.signal })
    .then((value) => {
      result = value;
    })
    .finally(() => {
      isOver = true;
    });
  while (!isOver) {
    await mailbox.put(keys.result, {}).catch(() => {});
    if ((await mailbox.take(keys.cancel).catch(() => undefined)) !== undefined) controller.abort();
    await Promise.race([ended, sleep(SIGN_MS, undefined, { ref: false })]);
  }
  await mailbox.put(keys.result, { result });
}

function isRelayedAnswer(value: unknown): value is RelayedAnswer {
  return isJsonObject(value) && typeof value["tool"] === "string";
}
