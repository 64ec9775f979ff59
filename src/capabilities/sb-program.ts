import type { createArgumentParser, SandboxArguments } from "./sb-args.ts";
import type { createOutputFormatter, SandboxCommandFailure, SandboxCommandRequest } from "./sb-output.ts";

/** The settings of the program, whose source text runs without this package. */
export interface SandboxProgramSettings {
  version: string;
  protocol: number;
  /** The path of the socket if the environment variable is not set. */
  socket: string;
  socketVariable: string;
  tokenVariable: string;
  /** In bytes. */
  largestRequest: number;
  largestAnswer: number;
  /** The timeout of an answer; the user may have to approve meanwhile. */
  timeoutSeconds: number;
}

interface SandboxProgramRequest extends SandboxCommandRequest {
  isJson: boolean;
  /** The time until which a pending sign-in is polled. */
  until: number;
}

/**
 * `skillet-sb` as a standalone program. Its source text is embedded, so it may only use its parameters and its own code. Loads as little
 * as possible and writes synchronously: start-up is most of the cost of a call.
 */
export function runSandboxCommand(
  settings: SandboxProgramSettings,
  load: (name: string) => unknown,
  process: NodeJS.Process,
  createParser: typeof createArgumentParser,
  createFormatter: typeof createOutputFormatter,
): void {
  const fs = load("node:fs") as typeof import("node:fs");
  const argv = process.argv.slice(2);
  const name = /[\\/]ash-sb$/.test(process.argv[1] ?? "") ? "ash-sb" : "skillet-sb";
  const output = createFormatter(name);

  class Usage extends Error {}
  const parser = createParser(name, settings.version, Usage, output.nearest);

  try {
    const parsed = parser.read(argv);
    if (typeof parsed === "string") write(1, parsed);
    else sendRequest(createRequest(parsed));
  } catch (error) {
    if (!(error instanceof Usage)) throw error;
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
    if (!(seconds >= 0 && seconds <= 3600)) throw new Usage("--wait must be a number of seconds, up to 3600");
    return { ...base, method: "auth.poll", params: { flow }, until: Date.now() + seconds * 1000 };
  }

  function sendRequest(request: SandboxProgramRequest): void {
    const { method, params } = request;
    const path = process.env[settings.socketVariable] || settings.socket;
    const token = process.env[settings.tokenVariable];
    const nonce = [process.hrtime.bigint(), process.pid, Math.floor(Math.random() * 2 ** 52)].join("-");
    const frame = Buffer.from(`${JSON.stringify({ v: settings.protocol, token, nonce, method, params })}\n`);
    if (!token) fail(fs.existsSync(path) ? output.noToken(settings.tokenVariable) : output.noSocket(), request);
    else if (frame.length > settings.largestRequest) fail(output.tooLarge(settings.largestRequest), request);
    else send(frame, path, request);
  }

  function send(frame: Buffer, path: string, request: SandboxProgramRequest): void {
    const { params } = request;
    const { connect } = load("node:net") as typeof import("node:net");
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
      () => end(() => fail(output.silent(settings.timeoutSeconds, params), request)),
      settings.timeoutSeconds * 1000,
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
      if (size > settings.largestAnswer) end(() => fail(output.tooMuch(settings.largestAnswer, params), request));
      else if (at !== -1) end(() => handleReply(Buffer.concat(pieces).toString(), request));
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      end(() => fail(isSent ? output.gone(params) : output.unreachable(error.code ?? "", path), request));
    });
    socket.on("close", () => end(() => fail(output.gone(params), request)));
  }

  function handleReply(line: string, request: SandboxProgramRequest): void {
    const { failure, result, text } = output.reply(line, { ...request, protocol: settings.protocol });
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
    const text =
      value === "-" ? readText(0, "standard input") : value.startsWith("@") ? readFile(value.slice(1)) : value;
    try {
      return JSON.parse(text);
    } catch (error) {
      const why = error instanceof Error ? error.message : "";
      throw new Usage(
        `--input is not JSON (${why}): put it in single quotes, or write it to a file and use --input @FILE`,
      );
    }
  }

  function readFile(path: string): string {
    let file: number | undefined;
    try {
      file = fs.openSync(path, "r");
      return readText(file, path);
    } catch (error) {
      if (error instanceof Usage) throw error;
      throw new Usage(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
    } finally {
      if (file !== undefined) fs.closeSync(file);
    }
  }

  /** Reads to the end, or until it is too large for a request. */
  function readText(file: number, from: string): string {
    const pieces: Buffer[] = [];
    for (let size = 0; ; ) {
      const piece = Buffer.alloc(65_536);
      const count = retryWhileBusy(() => fs.readSync(file, piece));
      if (!count) return Buffer.concat(pieces).toString();
      size += count;
      if (size > settings.largestRequest)
        throw new Usage(`the content of ${from} exceeds the maximum request size (${settings.largestRequest} bytes)`);
      pieces.push(piece.subarray(0, count));
    }
  }

  function write(file: number, text: string): void {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      const count = retryWhileBusy(() => fs.writeSync(file, bytes, at));
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
}
