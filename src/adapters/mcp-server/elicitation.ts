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
import { isJsonObject, type JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import type { ResultEnvelope } from "./tool-envelope.ts";

/** How a call is made: with whom to ask where the client's user can be asked, until the signal. */
export type StartServedCall = (asked: ServedCallContext) => Promise<ResultEnvelope>;

export interface ServedCallContext {
  approve?: Approve;
  signal: AbortSignal;
  /** The request that waits for the call now; none while somebody is asked in a revision where that ends the request. */
  waiting(): ServerContext | undefined;
}

/** Calls that somebody has to agree to. One that waits for a word goes on where it stands, when its client comes back with it. */
export interface Elicitations {
  call(
    mcp: McpServer,
    context: ServerContext,
    tool: string,
    start: StartServedCall,
  ): Promise<ResultEnvelope | InputRequiredResult>;
  /** Ends what waits. */
  close(): void;
}

interface ElicitedQuestion {
  effect: ApprovalRequest;
  answer(word: Approval): void;
}

/** A call under way. */
interface HeldCall {
  result: Promise<ResultEnvelope>;
  /** The next thing that is asked, when it is. */
  asked: PromiseWithResolvers<ElicitedQuestion>;
  open?: ElicitedQuestion;
  /** What was called. */
  tool?: string;
  /** What the open question is known by. */
  id?: string;
  /** The request that waits for it. */
  waiting?: ServerContext | undefined;
  controller: AbortController;
  timer?: NodeJS.Timeout;
}

const ANSWER_KEY = "word";
/** How long somebody has for an answer. */
const ANSWER_TIMEOUT_MS = 10 * 60_000;
/** Each keeps what it started: who asks and never answers is not to fill the memory. */
const MAX_HELD_CALLS = 100;

export interface ElicitationOptions {
  /** False: an answer would come to another server, so nobody is asked. */
  isAnswered?: boolean;
}

/**
 * A question is known by an id that nobody guesses: in place of a request of the server's own, which the newest revision has none of. It
 * is good for one answer: the same yes sent twice would agree to what is asked next.
 */
export function createElicitations({ isAnswered = true }: ElicitationOptions = {}): Elicitations {
  const held = new Map<string, HeldCall>();
  const release = (one: HeldCall) => {
    clearTimeout(one.timer);
    if (one.id !== undefined) held.delete(one.id);
  };
  const end = (one: HeldCall) => {
    release(one);
    one.controller.abort();
    one.open?.answer({ isApproved: false, reason: "nobody answered in time" });
  };
  return {
    async call(mcp, context, tool, start) {
      const { signal } = context.mcpReq;
      const state = context.mcpReq.requestState<string>();
      const one =
        state === undefined ? startHeldCall(start, context, isAnswered && canElicit(mcp, context)) : held.get(state);
      if (!one || (one.tool ?? tool) !== tool) return EXPIRED_CALL;
      one.tool = tool;
      release(one);
      one.waiting = context;
      const abort = () => end(one);
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
      one.open?.answer(parseApproval(context.mcpReq.inputResponses?.[ANSWER_KEY]));
      let next = await Promise.race([one.result, one.asked.promise]);
      while ("effect" in next && !isStatelessRevision(context)) {
        one.asked = Promise.withResolvers();
        next.answer(await elicitApproval(context, next.effect, one.controller.signal));
        next = await Promise.race([one.result, one.asked.promise]);
      }
      signal.removeEventListener("abort", abort);
      one.waiting = undefined;
      if (!("effect" in next)) return next;
      one.open = next;
      one.asked = Promise.withResolvers();
      one.id = crypto.randomUUID();
      const [oldest] = held.values();
      if (oldest && held.size >= MAX_HELD_CALLS) end(oldest);
      held.set(one.id, one);
      one.timer = setTimeout(end, ANSWER_TIMEOUT_MS, one);
      one.timer.unref();
      return inputRequired({
        requestState: one.id,
        inputRequests: { [ANSWER_KEY]: inputRequired.elicit(createApprovalForm(next.effect)) },
      });
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
  // One question at a time, in the order in which they come up.
  const approve: Approve = (effect, { signal }) => {
    const word = before.then(async () => {
      const { promise, resolve } = Promise.withResolvers<Approval>();
      signal.addEventListener("abort", () => resolve(CANCELED_APPROVAL), { once: true });
      if (signal.aborted) return CANCELED_APPROVAL;
      if (!canShowInput(effect)) return undefined; // What cannot be shown in full is not approved here.
      one.asked.resolve({ effect, answer: resolve });
      return promise;
    });
    before = word;
    return word;
  };
  const asked = { signal: controller.signal, waiting: () => one.waiting, ...(canBeAsked ? { approve } : {}) };
  return Object.assign(one, { result: start(asked) });
}

const CANCELED_APPROVAL: Approval = { isApproved: false, reason: "the call was called off" };
const EXPIRED_CALL: ResultEnvelope = {
  content: [{ type: "text", text: "This call is not waited for any more: make it again." }],
  isError: true,
  _meta: { "skillet/code": "call-gone" },
};

/** In the older revisions the server has requests of its own. */
async function elicitApproval(
  { mcpReq }: ServerContext,
  effect: ApprovalRequest,
  signal: AbortSignal,
): Promise<Approval> {
  try {
    // On the stream of the call: not every client has another.
    const options = { signal, timeout: ANSWER_TIMEOUT_MS, relatedRequestId: mcpReq.id };
    return parseApproval(await mcpReq.elicitInput(createApprovalForm(effect), options));
  } catch (error) {
    return { isApproved: false, reason: `the client could not ask: ${getErrorMessage(error)}` };
  }
}

function isStatelessRevision({ mcpReq }: ServerContext): boolean {
  return mcpReq.envelope !== undefined;
}

/** Whether the client shows its user a form. */
function canElicit(mcp: McpServer, { mcpReq }: ServerContext): boolean {
  const envelope = mcpReq.envelope as JsonObject | undefined;
  const told = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? mcp.server.getClientCapabilities();
  const elicitation = isJsonObject(told) ? told["elicitation"] : undefined;
  return isJsonObject(elicitation) && (elicitation["form"] !== undefined || elicitation["url"] === undefined);
}

/** All that somebody has to know who is to agree. */
function createApprovalForm(effect: ApprovalRequest): ElicitRequestFormParams {
  const { skill, tool, what, where, amount, isReversible, on, input, from, isOnce } = effect;
  const shown = JSON.stringify(input) ?? "";
  const rows: [string, string | undefined][] = [
    ["what", what],
    ["from", from?.join("; ")],
    ["where", where],
    ["how much", amount],
    ["undo", isReversible === undefined ? undefined : isReversible ? "possible" : "not possible"],
    ["asked by", skill === "" ? undefined : `the skill ${skill}`],
    ["because", from ? undefined : effect.reason],
    ["input", shown === "{}" ? undefined : shown],
  ];
  const lines = rows.flatMap(([label, says]) => (says ? [`${label}: ${sanitizeLine(says, MAX_INPUT_LENGTH)}`] : []));
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
        decision: { type: "string", title: "May it?", enum: choices },
        reason: { type: "string", title: "Why not", description: "for the model; may be left out" },
      },
      required: ["decision"],
    },
  };
}

/** Of an input. A longer one cannot be approved in a form. */
const MAX_INPUT_LENGTH = 8000;

/** Whether a form can show all of the input. */
function canShowInput({ input }: ApprovalRequest): boolean {
  return sanitizeLine(JSON.stringify(input) ?? "", Number.MAX_SAFE_INTEGER).length <= MAX_INPUT_LENGTH;
}

const EFFECT_DESCRIPTIONS: Record<ApprovalRequest["on"], string> = {
  workspace: "would change files of the workspace",
  outside: "would change something outside of the workspace",
  other: "would do what the skill did not say beforehand",
};

const TAINT_DESCRIPTION = "is given what comes from text that you did not write";

/** Only a form that was sent with a yes is one. */
function parseApproval(response: unknown): Approval {
  const { action, content } = isJsonObject(response) ? response : {};
  const { decision, reason: why } = isJsonObject(content) ? content : {};
  if (action === "accept" && String(decision).startsWith("always")) return { isApproved: true, scope: "always" };
  if (action === "accept" && typeof decision === "string" && decision.startsWith("yes")) {
    return { isApproved: true, scope: decision.endsWith("run") ? "run" : "once" };
  }
  return { isApproved: false, ...(typeof why === "string" && why !== "" ? { reason: why } : {}) };
}
