import {
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequiredResult,
  inputRequired,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Approval, Approve, Effect } from "../host/approvals.ts";
import { inLine } from "../shared/prompt.ts";
import { type Data, isData } from "../skill/data.ts";
import type { Envelope } from "./transform.ts";

/** How a call is made: with whom to ask where the client's user can be asked, until the signal. */
export type Start = (asked: { approve?: Approve; signal: AbortSignal }) => Promise<Envelope>;

/** Calls that somebody has to agree to. One that waits for a word goes on where it stands, when its client comes back with it. */
export interface Asking {
  call(mcp: McpServer, context: ServerContext, start: Start): Promise<Envelope | InputRequiredResult>;
  /** Ends what waits. */
  close(): void;
}

interface Question {
  effect: Effect;
  answer(word: Approval): void;
}

/** A call under way. */
interface Held {
  result: Promise<Envelope>;
  /** The next thing that is asked, when it is. */
  asked: PromiseWithResolvers<Question>;
  open?: Question;
  controller: AbortController;
  timer?: NodeJS.Timeout;
}

const WORD = "word";
/** How long somebody has for an answer. */
const PATIENCE_MS = 10 * 60_000;

/** What is held is known by an id that nobody guesses: in place of a request of the server's own, which the newest revision has none of. */
export function openAsking(): Asking {
  const held = new Map<string, Held>();
  const end = (id: string) => {
    const one = held.get(id);
    held.delete(id);
    clearTimeout(one?.timer);
    one?.controller.abort();
    one?.open?.answer({ isApproved: false, reason: "nobody answered in time" });
  };
  return {
    async call(mcp, context, start) {
      const { signal } = context.mcpReq;
      const state = context.mcpReq.requestState<string>();
      const id = state ?? crypto.randomUUID();
      const one = state === undefined ? begin(start, canAsk(mcp, context)) : held.get(id);
      if (!one) return GONE;
      clearTimeout(one.timer);
      const abort = () => one.controller.abort();
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
      if (state !== undefined) one.open?.answer(wordIn(context));
      const next = await Promise.race([one.result, one.asked.promise]);
      if (!("effect" in next)) {
        held.delete(id);
        signal.removeEventListener("abort", abort);
        return next;
      }
      one.open = next;
      one.asked = Promise.withResolvers();
      held.set(id, one);
      one.timer = setTimeout(end, PATIENCE_MS, id);
      one.timer.unref();
      // In the newest revision the request is over now; in the others it is the same one that goes on.
      if (isModern(context)) signal.removeEventListener("abort", abort);
      return inputRequired({
        requestState: id,
        inputRequests: { [WORD]: inputRequired.elicit(questionOn(next.effect)) },
      });
    },
    close() {
      for (const id of [...held.keys()]) end(id);
    },
  };
}

function begin(start: Start, canBeAsked: boolean): Held {
  const controller = new AbortController();
  const one: Pick<Held, "asked" | "controller"> & Partial<Held> = { asked: Promise.withResolvers(), controller };
  let before: Promise<unknown> = Promise.resolve();
  // One question at a time, in the order in which they come up.
  const approve: Approve = (effect, { signal }) => {
    const word = before.then(async () => {
      const { promise, resolve } = Promise.withResolvers<Approval>();
      signal.addEventListener("abort", () => resolve(ENDED), { once: true });
      if (signal.aborted) return ENDED;
      one.asked.resolve({ effect, answer: resolve });
      return promise;
    });
    before = word;
    return word;
  };
  return Object.assign(one, { result: start({ signal: controller.signal, ...(canBeAsked ? { approve } : {}) }) });
}

const ENDED: Approval = { isApproved: false, reason: "the call was called off" };
const GONE: Envelope = {
  content: [{ type: "text", text: "This call is not waited for any more: make it again." }],
  isError: true,
  _meta: { "skillet/code": "call-gone" },
};

function isModern({ mcpReq }: ServerContext): boolean {
  return mcpReq.envelope !== undefined;
}

/** Whether the client shows its user a form. */
function canAsk(mcp: McpServer, { mcpReq }: ServerContext): boolean {
  const envelope = mcpReq.envelope as Data | undefined;
  const told = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? mcp.server.getClientCapabilities();
  const elicitation = isData(told) ? told["elicitation"] : undefined;
  return isData(elicitation) && (elicitation["form"] !== undefined || elicitation["url"] === undefined);
}

/** All that somebody has to know who is to agree. */
function questionOn(effect: Effect): Parameters<typeof inputRequired.elicit>[0] {
  const { skill, tool, what, where, amount, reason, on, input } = effect;
  const shown = JSON.stringify(input) ?? "";
  const rows: [string, string | undefined][] = [
    ["what", what],
    ["where", where],
    ["how much", amount],
    ["asked by", skill === "" ? undefined : `the skill ${skill}`],
    ["because", reason],
    ["input", shown === "{}" ? undefined : shown],
  ];
  const lines = rows.flatMap(([label, says]) => (says ? [`${label}: ${inLine(says, 2000)}`] : []));
  const yes = on === "workspace" ? "yes, for this run" : "yes, this once";
  const choices = [yes, ...(skill === "" ? [] : ["always"]), "no"];
  return {
    message: [`${inLine(tool, 128)} ${SAYS[on]}`, ...lines].join("\n"),
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

const SAYS: Record<Effect["on"], string> = {
  workspace: "would change files of the workspace",
  outside: "would change something outside of the workspace",
  other: "would do what the skill did not say beforehand",
};

/** Only a form that was sent with a yes is one. */
function wordIn({ mcpReq }: ServerContext): Approval {
  const response = mcpReq.inputResponses?.[WORD];
  const { action, content } = isData(response) ? response : {};
  const { decision, reason } = isData(content) ? content : {};
  if (action === "accept" && decision === "always") return { isApproved: true, scope: "always" };
  if (action === "accept" && typeof decision === "string" && decision.startsWith("yes")) {
    return { isApproved: true, scope: decision.endsWith("run") ? "run" : "once" };
  }
  return { isApproved: false, ...(typeof reason === "string" && reason !== "" ? { reason } : {}) };
}
