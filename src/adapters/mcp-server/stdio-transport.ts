import type { Readable, Writable } from "node:stream";
import {
  type JSONRPCMessage,
  ProtocolErrorCode,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { getErrorMessage } from "../../errors/problem.ts";
import { isJsonObject } from "../../util/objects.ts";
import { truncateLine } from "../../util/text.ts";
import type { SkillServer } from "./skill-server.ts";

export interface StdioStreams {
  input: Readable;
  output: Writable;
}

/** Serves one client of any revision over two streams. Resolves when it has disconnected, or on abort, after its session has ended. */
export async function serveStreams(
  serving: SkillServer,
  { input, output }: StdioStreams,
  { signal, onNotice }: { signal?: AbortSignal; onNotice?(text: string): void } = {},
): Promise<void> {
  const gone = Promise.withResolvers<void>();
  for (const event of ["end", "close", "error"]) input.once(event, gone.resolve);
  output.once("error", gone.resolve);
  signal?.addEventListener("abort", () => gone.resolve(), { once: true });
  if (signal?.aborted) gone.resolve();
  let notices = 0;
  const handle = serveStdio(() => serving.open(), {
    transport: createLineTransport({ input, output }),
    onerror: (error) => {
      if (++notices <= MAX_NOTICES) onNotice?.(truncateLine(getErrorMessage(error), 300));
    },
  });
  await gone.promise;
  await handle.close();
}

/** Some clients never read stderr: a full pipe would block the process. */
const MAX_NOTICES = 20;

/**
 * Creates a transport with one message per line. The SDK's own transport does not answer invalid messages, stops after a line that is too
 * long, and buffers without limit for a client that does not read.
 */
function createLineTransport({ input, output }: StdioStreams): Transport {
  let parts: Buffer[] = [];
  let length = 0;
  let isClosed = false;

  const transport: Transport = {
    async start() {
      input.on("data", take).on("end", end).on("close", end).on("error", fail);
      output.on("error", fail);
      if (input.readableEnded || input.destroyed) setImmediate(end);
    },
    async send(message) {
      if (!isClosed) write(message);
    },
    async close() {
      end();
    },
  };
  return transport;

  function take(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1 && !isClosed; at = chunk.indexOf(NEWLINE, from)) {
      keep(chunk.subarray(from, at));
      from = at + 1;
      endLine();
    }
    keep(chunk.subarray(from));
  }

  function keep(part: Buffer): void {
    length += part.length;
    if (length > MAX_LINE_BYTES) parts = [];
    else parts.push(part);
  }

  function endLine(): void {
    const isTooLong = length > MAX_LINE_BYTES;
    const line = Buffer.concat(parts).toString();
    parts = [];
    length = 0;
    if (isTooLong) refuse(null, ProtocolErrorCode.InvalidRequest, `A line exceeds ${MAX_LINE_BYTES} bytes.`);
    else if (line.trim() !== "") read(line);
  }

  function read(line: string): void {
    const { value } = tryParseLine(line);
    if (value === undefined) refuse(null, ProtocolErrorCode.ParseError, "A line is not JSON.");
    else {
      const message = toRpcMessage(value);
      if (message) transport.onmessage?.(message);
      else misread(value);
    }
  }

  /** Rejects an invalid message. Notifications get no answer. */
  function misread(value: unknown): void {
    const { jsonrpc, id, method, result, error } = isJsonObject(value) ? value : {};
    const isAnswer = method === undefined && (result !== undefined || error !== undefined);
    const isNotification = typeof method === "string" && id === undefined;
    const isId = typeof id === "string" || Number.isSafeInteger(id);
    if (isAnswer || isNotification) transport.onerror?.(new Error(INVALID_MESSAGE));
    else if (isId && jsonrpc === "2.0" && typeof method === "string") {
      refuse(id, ProtocolErrorCode.InvalidParams, "Invalid params: params and its _meta must be objects.");
    } else refuse(isId ? id : null, ProtocolErrorCode.InvalidRequest, INVALID_MESSAGE);
  }

  function refuse(id: unknown, code: ProtocolErrorCode, message: string): void {
    transport.onerror?.(new Error(message));
    write({ jsonrpc: "2.0", id, error: { code, message } });
  }

  function write(message: unknown): void {
    output.write(`${JSON.stringify(message)}\n`);
    if (output.writableLength < MAX_UNSENT_BYTES || input.isPaused()) return;
    input.pause();
    output.once("drain", () => {
      if (!isClosed) input.resume();
    });
  }

  function fail(error: Error): void {
    if (!isClosed) transport.onerror?.(error);
    end();
  }

  function end(): void {
    if (isClosed) return;
    isClosed = true;
    parts = [];
    input.off("data", take).off("end", end).off("close", end).pause();
    transport.onclose?.();
  }
}

function tryParseLine(line: string): { value?: unknown } {
  try {
    return { value: JSON.parse(line) };
  } catch {
    return {};
  }
}

function toRpcMessage(value: unknown): JSONRPCMessage | undefined {
  try {
    return parseJSONRPCMessage(value);
  } catch {
    return undefined;
  }
}

const NEWLINE = 10;
const MAX_LINE_BYTES = 10 * 1024 * 1024;
/** Above this limit no more requests are read until the client reads. A lower limit would block clients that send much before they read. */
const MAX_UNSENT_BYTES = 16 * 1024 * 1024;
const INVALID_MESSAGE =
  "A line is not a JSON-RPC 2.0 message: an object with a method, an id that is a string or an integer, and params. Batches are not supported.";
