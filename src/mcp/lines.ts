import {
  type JSONRPCMessage,
  ProtocolErrorCode,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { isData } from "../skill/data.ts";
import type { StdioStreams } from "./stdio.ts";

/**
 * Messages as lines. The SDK's own transport gives no answer to what is no message, hears nothing more after a line that is too long,
 * and keeps any amount for a client that does not read.
 */
export function openLines({ input, output }: StdioStreams): Transport {
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
    if (length > LONGEST_LINE) parts = [];
    else parts.push(part);
  }

  function endLine(): void {
    const isTooLong = length > LONGEST_LINE;
    const line = Buffer.concat(parts).toString();
    parts = [];
    length = 0;
    if (isTooLong)
      refuse(null, ProtocolErrorCode.InvalidRequest, `A line has more than ${LONGEST_LINE} bytes. Send less.`);
    else if (line.trim() !== "") read(line);
  }

  function read(line: string): void {
    const { value } = parsed(line);
    if (value === undefined) refuse(null, ProtocolErrorCode.ParseError, "A line is not JSON.");
    else {
      const message = messageOf(value);
      if (message) transport.onmessage?.(message);
      else misread(value);
    }
  }

  /** What asks for nothing is answered by nothing. */
  function misread(value: unknown): void {
    const { jsonrpc, id, method, result, error } = isData(value) ? value : {};
    const isAnswer = method === undefined && (result !== undefined || error !== undefined);
    const isNotification = typeof method === "string" && id === undefined;
    const isId = typeof id === "string" || Number.isSafeInteger(id);
    if (isAnswer || isNotification) transport.onerror?.(new Error(NO_MESSAGE));
    else if (isId && jsonrpc === "2.0" && typeof method === "string") {
      refuse(id, ProtocolErrorCode.InvalidParams, "Invalid params: they are to be an object, and its _meta too.");
    } else refuse(isId ? id : null, ProtocolErrorCode.InvalidRequest, NO_MESSAGE);
  }

  function refuse(id: unknown, code: ProtocolErrorCode, message: string): void {
    transport.onerror?.(new Error(message));
    write({ jsonrpc: "2.0", id, error: { code, message } });
  }

  function write(message: unknown): void {
    output.write(`${JSON.stringify(message)}\n`);
    if (output.writableLength < MOST_UNSENT || input.isPaused()) return;
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

function parsed(line: string): { value?: unknown } {
  try {
    return { value: JSON.parse(line) };
  } catch {
    return {};
  }
}

function messageOf(value: unknown): JSONRPCMessage | undefined {
  try {
    return parseJSONRPCMessage(value);
  } catch {
    return undefined;
  }
}

const NEWLINE = 10;
const LONGEST_LINE = 10 * 1024 * 1024;
/** With more than this the client is not listened to until it reads. Less would stop one that asks for much before it reads any. */
const MOST_UNSENT = 16 * 1024 * 1024;
const NO_MESSAGE =
  "A line is no message of JSON-RPC 2.0: an object with a method, an id that is a text or a whole number, and params. Batches are not taken.";
