import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../../store/mailbox.ts";
import { isJsonObject } from "../../util/objects.ts";

/** An answer of a client to the question of a call. */
export interface RelayedAnswer {
  /** The tool that the client calls again with its answer. */
  tool: string;
  responses: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Carries answers between servers that share a mailbox. Requests of the revision 2026-07-28 have no session, so a load balancer may bring
 * the answer to a server other than the one whose call waits for it. That server hands the answer over, and returns the result.
 */
export interface AnswerRelay {
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
export function createAnswerRelay(mailbox: Mailbox, caller: string): AnswerRelay {
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
