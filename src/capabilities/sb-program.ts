import type { createArgumentParser, SandboxArguments } from "./sb-args.ts";
import type { createOutputFormatter, SandboxCommandFailure, SandboxCommandRequest } from "./sb-output.ts";

/** What the program cannot know by itself: its text is run where nothing of this package is. */
export interface SandboxProgramSettings {
  version: string;
  protocol: number;
  /** Where the socket is, when the variable does not say. */
  socket: string;
  socketVariable: string;
  tokenVariable: string;
  /** In bytes. */
  largestRequest: number;
  largestAnswer: number;
  /** How many seconds an answer may take: the user may be asked meanwhile. */
  patience: number;
}

interface SandboxProgramRequest extends SandboxCommandRequest {
  isJson: boolean;
  /** Until when a sign-in that is not done is asked for again. */
  until: number;
}

/**
 * `skillet-sb`, as a program of its own: what is taken is this function's text, so that it names nothing which is not in it or given to
 * it. Loads nothing that it need not, and writes at once: its start is most of what a call costs.
 */
export function runSandboxCommand(
  given: SandboxProgramSettings,
  load: (name: string) => unknown,
  process: NodeJS.Process,
  spellingFor: typeof createArgumentParser,
  tellingFor: typeof createOutputFormatter,
): void {
  const fs = load("node:fs") as typeof import("node:fs");
  const argv = process.argv.slice(2);
  const name = /[\\/]ash-sb$/.test(process.argv[1] ?? "") ? "ash-sb" : "skillet-sb";
  const tell = tellingFor(name);

  class Usage extends Error {}
  const words = spellingFor(name, given.version, Usage, tell.nearest);

  try {
    const asked = words.read(argv);
    if (typeof asked === "string") write(1, asked);
    else ask(requestOf(asked));
  } catch (error) {
    if (!(error instanceof Usage)) throw error;
    const next = [`${name} ${words.helpFor(argv)}--help`];
    fail({ status: "usage", code: "usage", message: error.message, next });
  }

  function requestOf({ command, values, scopes, flags }: SandboxArguments): SandboxProgramRequest {
    const { capability, operation, account, key, approval, flow, callback } = values;
    const base = { values, isJson: flags.has("json"), until: 0 };
    if (command === "capability list") return { ...base, method: "list", params: {} };
    if (command === "capability invoke") {
      const more = { ...(account && { account }), ...(key && { key }), ...(approval && { approval }) };
      return {
        ...{ ...base, method: "invoke" },
        params: { capability, operation, input: inputOf(values["input"]), ...more },
      };
    }
    if (command === "capability auth begin")
      return { ...base, method: "auth.begin", params: { capability, ...(scopes.length > 0 && { scopes }) } };
    if (command === "capability auth complete") {
      const text = callback === "-" ? readText(0, "standard input").trim() : callback;
      return { ...base, method: "auth.complete", params: { flow, callback: text } };
    }
    const seconds = Number(values["wait"] ?? 0);
    if (!(seconds >= 0 && seconds <= 3600)) throw new Usage("--wait is a number of seconds, up to 3600");
    return { ...base, method: "auth.poll", params: { flow }, until: Date.now() + seconds * 1000 };
  }

  function ask(request: SandboxProgramRequest): void {
    const { method, params } = request;
    const path = process.env[given.socketVariable] || given.socket;
    const token = process.env[given.tokenVariable];
    const nonce = [process.hrtime.bigint(), process.pid, Math.floor(Math.random() * 2 ** 52)].join("-");
    const frame = Buffer.from(`${JSON.stringify({ v: given.protocol, token, nonce, method, params })}\n`);
    if (!token) fail(fs.existsSync(path) ? tell.noToken(given.tokenVariable) : tell.noSocket(), request);
    else if (frame.length > given.largestRequest) fail(tell.tooLarge(given.largestRequest), request);
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
      () => end(() => fail(tell.silent(given.patience, params), request)),
      given.patience * 1000,
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
      if (size > given.largestAnswer) end(() => fail(tell.tooMuch(given.largestAnswer, params), request));
      else if (at !== -1) end(() => hear(Buffer.concat(pieces).toString(), request));
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      end(() => fail(isSent ? tell.gone(params) : tell.unreachable(error.code ?? "", path), request));
    });
    socket.on("close", () => end(() => fail(tell.gone(params), request)));
  }

  function hear(line: string, request: SandboxProgramRequest): void {
    const { failure, result, text } = tell.reply(line, { ...request, protocol: given.protocol });
    const isPending = request.method === "auth.poll" && result["status"] === "pending";
    const interval = Math.max(Number(result["interval_seconds"]) || 5, 0.1) * 1000;
    if (failure) fail(failure, request);
    else if (isPending && Date.now() + interval <= request.until) setTimeout(() => ask(request), interval);
    else write(1, request.isJson ? `${tell.json(result)}\n` : text);
  }

  /** To stdout, where a model reads it in its place among all else; only what could not be read as a request goes to stderr. */
  function fail(failure: SandboxCommandFailure, request?: SandboxProgramRequest): void {
    const text = request?.isJson ? `${tell.json({ ok: false, error: failure })}\n` : tell.failure(failure);
    write(request ? 1 : 2, text);
    process.exitCode = failure.status === "usage" ? 2 : failure.code === "approval-pending" ? 5 : 1;
  }

  function inputOf(written = "{}"): unknown {
    const text =
      written === "-" ? readText(0, "standard input") : written.startsWith("@") ? readFile(written.slice(1)) : written;
    try {
      return JSON.parse(text);
    } catch (error) {
      const why = error instanceof Error ? error.message : "";
      throw new Usage(
        `--input is no JSON (${why}): put it in single quotes, or write it to a file and give --input @FILE`,
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
      throw new Usage(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
    } finally {
      if (file !== undefined) fs.closeSync(file);
    }
  }

  /** To its end, or to where it is too large for a request anyway. */
  function readText(file: number, from: string): string {
    const pieces: Buffer[] = [];
    for (let size = 0; ; ) {
      const piece = Buffer.alloc(65_536);
      const count = patiently(() => fs.readSync(file, piece));
      if (!count) return Buffer.concat(pieces).toString();
      size += count;
      if (size > given.largestRequest)
        throw new Usage(`what ${from} holds is larger than a request may be (${given.largestRequest} bytes)`);
      pieces.push(piece.subarray(0, count));
    }
  }

  function write(file: number, text: string): void {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      const count = patiently(() => fs.writeSync(file, bytes, at));
      if (count === undefined) return; // Nobody reads it any more.
      at += count;
    }
  }

  /** A pipe that another program made so says that it is busy, where others wait. */
  function patiently(action: () => number): number | undefined {
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
