import { closeSync, existsSync, openSync, readSync, writeSync } from "node:fs";
import { connect } from "node:net";
import {
  BROKER_PROTOCOL_VERSION,
  CAPABILITY_SOCKET,
  MAX_BROKER_REQUEST_BYTES,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./broker-protocol.ts";
import { createArgumentParser, type SandboxArguments, SandboxUsageError } from "./sb-args.ts";
import { createOutputFormatter, type SandboxCommandFailure, type SandboxCommandRequest } from "./sb-output.ts";

// The entry of `skillet-sb`, which esbuild bundles into one file that needs only Node. It writes synchronously and loads little: start-up is
// most of the cost of a call.

/** Settings of the program, which `sb-command.ts` writes in front of its code. */
export interface SandboxProgramSettings {
  version: string;
  /** In bytes. */
  largestAnswer: number;
  /** The timeout of an answer; the user may have to approve meanwhile. */
  timeoutSeconds: number;
}

declare const SETTINGS: SandboxProgramSettings;

interface SandboxProgramRequest extends SandboxCommandRequest {
  isJson: boolean;
  /** The time until which a pending sign-in is polled. */
  until: number;
}

const argv = process.argv.slice(2);
const name = /[\\/]ash-sb$/.test(process.argv[1] ?? "") ? "ash-sb" : "skillet-sb";
const output = createOutputFormatter(name);
const parser = createArgumentParser(name, SETTINGS.version);

try {
  const parsed = parser.read(argv);
  if (typeof parsed === "string") write(1, parsed);
  else sendRequest(createRequest(parsed));
} catch (error) {
  if (!(error instanceof SandboxUsageError)) throw error;
  const next = [`${name} ${parser.helpFor(argv)}--help`];
  fail({ status: "usage", code: "usage", message: error.message, next });
}

function createRequest({ command, values, scopes, flags }: SandboxArguments): SandboxProgramRequest {
  const { capability, operation, account, key, approval, flow, callback } = values;
  const base = { values, isJson: flags.has("json"), until: 0 };
  if (command === "capability list") return { ...base, method: "list", params: {} };
  if (command === "capability invoke") {
    const more = { ...(account && { account }), ...(key && { key }), ...(approval && { approval }) };
    return {
      ...{ ...base, method: "invoke" },
      params: { capability, operation, input: parseInput(values["input"]), ...more },
    };
  }
  if (command === "capability auth begin")
    return { ...base, method: "auth.begin", params: { capability, ...(scopes.length > 0 && { scopes }) } };
  if (command === "capability auth complete") {
    const text = callback === "-" ? readText(0, "standard input").trim() : callback;
    return { ...base, method: "auth.complete", params: { flow, callback: text } };
  }
  const seconds = Number(values["wait"] ?? 0);
  if (!(seconds >= 0 && seconds <= 3600)) throw new SandboxUsageError("--wait must be a number of seconds, up to 3600");
  return { ...base, method: "auth.poll", params: { flow }, until: Date.now() + seconds * 1000 };
}

function sendRequest(request: SandboxProgramRequest): void {
  const { method, params } = request;
  const path = process.env[SOCKET_VARIABLE] || CAPABILITY_SOCKET;
  const token = process.env[TOKEN_VARIABLE];
  const nonce = [process.hrtime.bigint(), process.pid, Math.floor(Math.random() * 2 ** 52)].join("-");
  const frame = Buffer.from(`${JSON.stringify({ v: BROKER_PROTOCOL_VERSION, token, nonce, method, params })}\n`);
  if (!token) fail(existsSync(path) ? output.noToken(TOKEN_VARIABLE) : output.noSocket(), request);
  else if (frame.length > MAX_BROKER_REQUEST_BYTES) fail(output.tooLarge(MAX_BROKER_REQUEST_BYTES), request);
  else send(frame, path, request);
}

function send(frame: Buffer, path: string, request: SandboxProgramRequest): void {
  const { params } = request;
  const socket = connect({ path });
  const pieces: Buffer[] = [];
  let size = 0;
  let isSent = false;
  let isOver = false;
  const end = (then: () => void) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    socket.destroy();
    then();
  };
  const timer = setTimeout(
    () => end(() => fail(output.silent(SETTINGS.timeoutSeconds, params), request)),
    SETTINGS.timeoutSeconds * 1000,
  );
  socket.on("connect", () => {
    isSent = true;
    socket.write(frame);
  });
  socket.on("data", (bytes) => {
    const at = bytes.indexOf(10);
    const piece = at === -1 ? bytes : bytes.subarray(0, at);
    size += piece.length;
    pieces.push(piece);
    if (size > SETTINGS.largestAnswer) end(() => fail(output.tooMuch(SETTINGS.largestAnswer, params), request));
    else if (at !== -1) end(() => handleReply(Buffer.concat(pieces).toString(), request));
  });
  socket.on("error", (error: NodeJS.ErrnoException) => {
    end(() => fail(isSent ? output.gone(params) : output.unreachable(error.code ?? "", path), request));
  });
  socket.on("close", () => end(() => fail(output.gone(params), request)));
}

function handleReply(line: string, request: SandboxProgramRequest): void {
  const { failure, result, text } = output.reply(line, { ...request, protocol: BROKER_PROTOCOL_VERSION });
  const isPending = request.method === "auth.poll" && result["status"] === "pending";
  const interval = Math.max(Number(result["interval_seconds"]) || 5, 0.1) * 1000;
  if (failure) fail(failure, request);
  else if (isPending && Date.now() + interval <= request.until) setTimeout(() => sendRequest(request), interval);
  else write(1, request.isJson ? `${output.json(result)}\n` : text);
}

/** Prints a failure to stdout, where a model reads it in order; only usage errors go to stderr. */
function fail(failure: SandboxCommandFailure, request?: SandboxProgramRequest): void {
  const text = request?.isJson ? `${output.json({ ok: false, error: failure })}\n` : output.failure(failure);
  write(request ? 1 : 2, text);
  process.exitCode = failure.status === "usage" ? 2 : failure.code === "approval-pending" ? 5 : 1;
}

function parseInput(value = "{}"): unknown {
  const text = value === "-" ? readText(0, "standard input") : value.startsWith("@") ? readFile(value.slice(1)) : value;
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : "";
    throw new SandboxUsageError(
      `--input is not JSON (${why}): put it in single quotes, or write it to a file and use --input @FILE`,
    );
  }
}

function readFile(path: string): string {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    return readText(file, path);
  } catch (error) {
    if (error instanceof SandboxUsageError) throw error;
    throw new SandboxUsageError(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Reads to the end, or until it is too large for a request. */
function readText(file: number, from: string): string {
  const pieces: Buffer[] = [];
  for (let size = 0; ; ) {
    const piece = Buffer.alloc(65_536);
    const count = retryWhileBusy(() => readSync(file, piece));
    if (!count) return Buffer.concat(pieces).toString();
    size += count;
    if (size > MAX_BROKER_REQUEST_BYTES)
      throw new SandboxUsageError(
        `the content of ${from} exceeds the maximum request size (${MAX_BROKER_REQUEST_BYTES} bytes)`,
      );
    pieces.push(piece.subarray(0, count));
  }
}

function write(file: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) {
    const count = retryWhileBusy(() => writeSync(file, bytes, at));
    if (count === undefined) return; // The reader has gone.
    at += count;
  }
}

/** Retries on EAGAIN, which a pipe returns if another program made it non-blocking. */
function retryWhileBusy(action: () => number): number | undefined {
  for (;;) {
    try {
      return action();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EPIPE" || code === "EOF") return undefined;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
}
