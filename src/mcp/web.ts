import type { IncomingMessage, ServerResponse } from "node:http";

/** What a client did wrong, in the words of JSON-RPC, which its clients can read. */
export function refusal(
  status: number,
  message: string,
  headers: Record<string, string> = {},
  code = -32000,
): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status, headers });
}

/** A request of Node as one of the web, without its body. Its signal aborts when the client hangs up before it was answered. */
export function toRequest(incoming: IncomingMessage, response: ServerResponse, base: string): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const hungUp = new AbortController();
  const stop = () => {
    if (!response.writableFinished) hungUp.abort(new Error("The client hung up"));
  };
  if (response.closed) stop();
  else response.once("close", stop);
  return new Request(base, { method: incoming.method ?? "GET", headers, signal: hungUp.signal });
}

export type Body = { value: unknown } | { refused: Response } | { isGone: true };

/** A body of JSON, of which no more than the limit is ever held. */
export async function readJson(incoming: IncomingMessage, response: ServerResponse, most: number): Promise<Body> {
  const tooLarge = () => ({ refused: refusal(413, `The body has more than ${most} bytes. Send less.`) });
  if (Number(incoming.headers["content-length"]) > most) return tooLarge();
  if (incoming.headers.expect !== undefined && incoming.httpVersion !== "1.0") response.writeContinue();
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    // Leaving the loop must not destroy the socket: the answer goes over it.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false })) {
      size += chunk.length;
      if (size > most) return tooLarge();
      chunks.push(chunk);
    }
  } catch {
    return { isGone: true };
  }
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks))) };
  } catch {
    return { refused: refusal(400, "The body is not JSON.", {}, PARSE_ERROR) };
  }
}

/** Sends an answer as fast as the client reads it. Resolves when it was sent, or when nobody is there any more. */
export async function sendResponse(answer: Response, incoming: IncomingMessage, response: ServerResponse) {
  if (response.closed) return void (await answer.body?.cancel().catch(() => {}));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!incoming.complete) letGo(incoming);
  if (answer.body === null) return void response.end();
  // A stream may have nothing to say for long, and the client waits for its headers.
  response.flushHeaders();
  const reader = answer.body.getReader();
  response.once("close", () => void reader.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = await reader.read();
    if (done || response.closed) break;
    if (!response.write(value)) await drained(response);
  }
  response.end();
}

const PARSE_ERROR = -32700;
const LINGER_MS = 500;
const LINGER_BYTES = 1024 * 1024;
const STUCK_MS = 60_000;

/**
 * An answer to a request whose body nobody wants: a little of what still comes is thrown away for a moment, since a socket that is closed
 * under a client that writes loses the answer too. Then nothing more is read, and the client is hung up on.
 */
function letGo(incoming: IncomingMessage) {
  let left = LINGER_BYTES;
  incoming.on("error", () => {});
  incoming.on("data", (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) incoming.pause();
  });
  incoming.resume();
  setTimeout(() => incoming.complete || incoming.socket.destroy(), LINGER_MS).unref();
}

/** Waits until the client read on. One that does not holds everything in memory that it is sent, so it is not waited for long. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const stuck = setTimeout(() => response.destroy(), STUCK_MS).unref();
    const go = () => {
      clearTimeout(stuck);
      response.off("drain", go).off("close", go);
      resolve();
    };
    response.on("drain", go).on("close", go);
    if (response.closed) go();
  });
}
