import { randomUUID } from "node:crypto";
import {
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  McpServer,
  type McpServerFactory,
  type RequestId,
  WebStandardStreamableHTTPServerTransport as Transport,
} from "@modelcontextprotocol/server";
import { createRpcRefusal } from "./http-guard.ts";
import { type ServerIdentity, toAuthInfo } from "./http-identity.ts";

export interface HttpSessionOptions {
  maxSessions: number;
  idleMs: number;
  keepAliveMs: number;
  /** Contract: does not throw. */
  report(error: unknown): void;
}

/** Sessions of clients of the revisions up to 2025-11-25: each has its own server, from `initialize` until it ends or expires. */
export interface HttpSessions {
  readonly size: number;
  /** Answers a request whose body was already read. Contract: a session of another caller is as unknown as one that does not exist. */
  serve(request: Request, body: unknown, caller: HttpCaller): Promise<Response>;
  /** Ends the sessions of callers whose credential no longer counts, with their calls. Returns the callers. */
  endRevoked(): ServerIdentity[];
  /** Contract: every stream has ended when it returns; the promise waits for the servers. */
  close(): Promise<void>;
}

/** The caller of a request, and the address that the request came from. */
export interface HttpCaller {
  identity: ServerIdentity;
  address: string;
}

export function createHttpSessions(factory: McpServerFactory, options: HttpSessionOptions): HttpSessions {
  const all: SessionPool = { factory, options, open: new Map(), opening: 0, ending: new Set(), isClosed: false };
  const sweep = setInterval(() => endIdleSessions(all), Math.min(Math.max(options.idleMs / 4, 20), 30_000)).unref();
  return {
    get size() {
      return all.open.size;
    },
    async serve(request, body, caller) {
      const id = request.headers.get("mcp-session-id");
      if (id === null)
        return isInitialize(body)
          ? startSession(all, request, body, caller)
          : createRpcRefusal(400, NO_SESSION_MESSAGE);
      const session = all.open.get(id);
      if (!session || !isSameCaller(session.caller.identity, caller.identity))
        return createRpcRefusal(404, UNKNOWN_SESSION_MESSAGE, {}, SESSION_NOT_FOUND);
      session.caller = caller; // A renewed token keeps the session alive after the first one has expired.
      return handleSessionRequest(session, request, body);
    },
    endRevoked() {
      const revoked = [...all.open.values()].filter(({ caller }) => !caller.identity.isValid());
      for (const session of revoked) session.end();
      return revoked.map(({ caller }) => caller.identity);
    },
    async close() {
      all.isClosed = true;
      clearInterval(sweep);
      for (const session of all.open.values()) session.end();
      await Promise.all(all.ending);
    },
  };
}

const NO_SESSION_MESSAGE = "No session. Send initialize first, then its Mcp-Session-Id with every request.";
const UNKNOWN_SESSION_MESSAGE = "Unknown session, or it has ended. Send initialize to start a new one.";
const SESSION_NOT_FOUND = -32001;
const FULL_MESSAGE = "This server has its maximum number of clients. Try again later.";
const CLOSING_MESSAGE = "This server is closing.";
/** Time for a client that disconnected during a call to reconnect. */
const RECONNECT_MS = 2000;

interface SessionPool {
  factory: McpServerFactory;
  options: HttpSessionOptions;
  open: Map<string, HttpSession>;
  /** The number of sessions being created. They are not in a map yet. */
  opening: number;
  /** Servers being closed. */
  ending: Set<Promise<void>>;
  isClosed: boolean;
}

interface HttpSession {
  caller: HttpCaller;
  transport: Transport;
  /** The number of requests and streams in progress. */
  underWay: number;
  /** Calls that share a stream with others. */
  batched: Set<RequestId>;
  /** Calls whose stream broke before they were answered. */
  abandoned: Set<RequestId>;
  /** Timer that cancels abandoned calls unless the client reconnects. */
  giveUp: NodeJS.Timeout | undefined;
  lastUsed: number;
  /** True while a call is being discarded, which its transport reports as an undeliverable response. */
  isSettling: boolean;
  isEnded: boolean;
  /** Ends it. Idempotent. */
  end(): void;
}

async function startSession(all: SessionPool, request: Request, body: unknown, caller: HttpCaller): Promise<Response> {
  if (all.isClosed) return createRpcRefusal(503, CLOSING_MESSAGE);
  if (!evictIdleSession(all, formatSender(caller))) return createRpcRefusal(503, FULL_MESSAGE, { "retry-after": "10" });
  all.opening++;
  let session: HttpSession | undefined;
  try {
    session = await connectSession(all, request, caller);
    const answer = await handleSessionRequest(session, request, body);
    // The `initialize` was refused, or the client disconnected: no client knows this server.
    if (session.transport.sessionId === undefined || request.signal.aborted) session.end();
    return answer;
  } catch (error) {
    session?.end();
    all.options.report(error);
    return createRpcRefusal(500, "Cannot create a server for this session.", {}, -32603);
  } finally {
    all.opening--;
  }
}

/**
 * Makes room for one more session if there are too many: ends the longest idle session of the caller, or of the identity with the most
 * sessions if that has more. A flood therefore only ends sessions of its sender.
 */
function evictIdleSession(all: SessionPool, sender: string): boolean {
  if (all.open.size + all.opening < all.options.maxSessions) return true;
  const bySender = Map.groupBy(all.open.values(), ({ caller }) => formatSender(caller));
  const countOf = (one: string) => bySender.get(one)?.length ?? 0;
  const largest = [...bySender.keys()].reduce((best, one) => (countOf(one) > countOf(best) ? one : best), sender);
  const sessions = bySender.get(largest) ?? [];
  const [oldest] = sessions.filter(isIdle).sort((one, other) => one.lastUsed - other.lastUsed);
  oldest?.end();
  return oldest !== undefined;
}

/** A session has the scopes of its start, so another token of the same person must have the same ones. */
function isSameCaller(a: ServerIdentity, b: ServerIdentity): boolean {
  return a.key === b.key && a.scopes.size === b.scopes.size && [...a.scopes].every((scope) => b.scopes.has(scope));
}

/** Identifies a sender of sessions: several clients may share one token. */
function formatSender({ identity, address }: HttpCaller): string {
  return `${identity.key} ${address}`;
}

function endIdleSessions({ open, options }: SessionPool) {
  const latest = performance.now() - options.idleMs;
  for (const session of open.values()) if (isIdle(session) && session.lastUsed <= latest) session.end();
}

function isIdle({ underWay, abandoned }: HttpSession): boolean {
  return underWay === 0 && abandoned.size === 0;
}

async function connectSession(all: SessionPool, request: Request, caller: HttpCaller): Promise<HttpSession> {
  const { report, keepAliveMs } = all.options;
  const product = await all.factory({
    era: "legacy",
    requestInfo: request,
    authInfo: toAuthInfo(caller.identity),
  });
  const transport = new Transport({
    sessionIdGenerator: randomUUID,
    keepAliveMs,
    onsessioninitialized(id) {
      if (all.isClosed) session.end();
      else all.open.set(id, session);
    },
  });
  const session: HttpSession = {
    caller,
    transport,
    underWay: 0,
    batched: new Set(),
    abandoned: new Set(),
    giveUp: undefined,
    lastUsed: performance.now(),
    isSettling: false,
    isEnded: false,
    end() {
      if (session.isEnded) return;
      session.isEnded = true;
      clearTimeout(session.giveUp);
      if (transport.sessionId !== undefined) all.open.delete(transport.sessionId);
      const ending: Promise<void> = product
        .close()
        .catch(report)
        .finally(() => all.ending.delete(ending));
      all.ending.add(ending);
    },
  };
  const server = product instanceof McpServer ? product.server : product;
  const { onerror } = server;
  server.onerror = (error) => {
    onerror?.(error);
    if (!session.isEnded && !session.isSettling) report(error);
  };
  // Existing handlers of a transport are called before those of its server.
  transport.onclose = () => session.end();
  transport.onmessage = (message) => {
    if (!isJSONRPCNotification(message) || message.method !== "notifications/cancelled") return;
    const id = message.params?.["requestId"];
    // Its server receives the cancellation first, and does not answer.
    if (typeof id === "string" || typeof id === "number") setImmediate(settleCall, session, id);
  };
  try {
    await product.connect(transport);
  } catch (error) {
    session.end();
    throw error;
  }
  return session;
}

/** Handles one request of a session, and the stream that answers it. */
async function handleSessionRequest(session: HttpSession, request: Request, body: unknown): Promise<Response> {
  const ids = toMessageList(body).flatMap((message) => (isJSONRPCRequest(message) ? [message.id] : []));
  for (const id of ids) session.abandoned.delete(id);
  if (ids.length > 1) for (const id of ids) session.batched.add(id);
  clearTimeout(session.giveUp);
  session.underWay++;
  const finish = (isBroken: boolean) => {
    session.underWay--;
    session.lastUsed = performance.now();
    for (const id of ids) session.batched.delete(id);
    if (isBroken) for (const id of ids) session.abandoned.add(id);
    if (session.underWay === 0 && session.abandoned.size > 0 && !session.isEnded) {
      clearTimeout(session.giveUp);
      session.giveUp = setTimeout(cancelAbandonedCalls, RECONNECT_MS, session).unref();
    }
  };
  try {
    const answer = await session.transport.handleRequest(request, body === undefined ? {} : { parsedBody: body });
    if (answer.body !== null) return new Response(watchStream(answer.body, finish), answer);
    finish(false);
    return answer;
  } catch (error) {
    finish(false);
    throw error;
  }
}

/**
 * Cancels abandoned calls. In these revisions a broken stream cancels nothing: the client may only have lost its connection. But a client
 * that is gone must not leave a run behind. A call therefore continues while the client has an open stream or sends requests, and is
 * cancelled shortly afterwards.
 */
function cancelAbandonedCalls({ transport, abandoned }: HttpSession) {
  for (const requestId of abandoned) {
    const params = { requestId, reason: "The client disconnected" };
    transport.onmessage?.({ jsonrpc: "2.0", method: "notifications/cancelled", params });
  }
  abandoned.clear();
}

/**
 * Settles a cancelled call. The server does not answer it, and its transport would wait forever, with an open stream that keeps the session
 * alive. So the stream is closed, and then a response is sent, which is discarded. In a batch the client reads it: there the stream ends
 * when every call has its response.
 */
function settleCall(session: HttpSession, id: RequestId) {
  const { transport, batched } = session;
  if (!batched.has(id)) transport.closeSSEStream(id);
  session.isSettling = true;
  // Rejects if the call was answered in time.
  transport.send({ jsonrpc: "2.0", id, error: { code: -32000, message: "Cancelled" } }).catch(() => {});
  session.isSettling = false;
}

/** Wraps a stream to report when it ended or broke. */
function watchStream(
  body: ReadableStream<Uint8Array>,
  finish: (isBroken: boolean) => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let isFinished = false;
  const once = (isBroken: boolean) => {
    if (!isFinished) finish(isBroken);
    isFinished = true;
  };
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await reader.read().catch((error) => {
          once(true);
          throw error;
        });
        if (!done) return controller.enqueue(value);
        once(false);
        controller.close();
      },
      cancel(reason) {
        once(true);
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

function isInitialize(body: unknown): boolean {
  return toMessageList(body).some((message) => isInitializeRequest(message));
}

function toMessageList(body: unknown): readonly unknown[] {
  return Array.isArray(body) ? body : [body];
}
