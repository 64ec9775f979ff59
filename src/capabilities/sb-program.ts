import { closeSync, existsSync, openSync, readSync, writeSync } from "node:fs";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { findNearest } from "../util/text.ts";
import {
  BROKER_PROTOCOL_VERSION,
  CAPABILITY_SOCKET,
  MAX_BROKER_REQUEST_BYTES,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./broker-protocol.ts";
import { createOutputFormatter, type SandboxCommandFailure, type SandboxCommandRequest } from "./sb-output.ts";

/** A parsed command line. */
export interface SandboxArguments {
  command: string;
  values: Record<string, string>;
  scopes: string[];
  flags: Set<string>;
}

interface OptionSpec {
  short?: string;
  /** The placeholder of its value; undefined for a flag. */
  value?: string;
  isMany?: true;
  help: string;
}

interface CommandSpec {
  help: string;
  takes: readonly string[];
  needs: readonly string[];
}

/** Invalid arguments of `skillet-sb`. */
export class SandboxUsageError extends Error {}

/** Creates the argument parser of `skillet-sb`. Contract: `read` throws a `SandboxUsageError` for invalid arguments. */
function createArgumentParser(name: string, version: string) {
  const OPTIONS: Record<string, OptionSpec> = {
    capability: { short: "c", value: "ID", help: "the capability, such as notes.notes" },
    operation: { short: "o", value: "OP", help: "the operation" },
    input: {
      value: "JSON",
      help: "the input as JSON; - reads standard input, @FILE a file; defaults to {}",
    },
    account: { value: "A", help: "the account, if several are signed in" },
    key: { value: "K", help: "an idempotency key: a repeated call with the same key is not done twice" },
    approval: { value: "ID", help: "the approval id from an earlier call" },
    scope: { value: "S", isMany: true, help: "a scope that the sign-in must grant; can be repeated" },
    flow: { value: "F", help: "the flow id that `auth begin` printed" },
    callback: { value: "TEXT", help: "the URL or code from the user; - reads standard input" },
    wait: { value: "SECONDS", help: "poll until it is done, for at most this long" },
    json: { help: 'print the result as one line of JSON, or {"ok":false,"error":{…}}' },
    help: { short: "h", help: "print this help" },
    version: { help: "print the version" },
  };
  const COMMANDS: Record<string, CommandSpec> = {
    "capability list": {
      help: "list the capabilities of this skill and their inputs",
      takes: ["capability", "json"],
      needs: [],
    },
    "capability invoke": {
      help: "call an operation of a capability",
      takes: ["capability", "operation", "input", "account", "key", "approval", "json"],
      needs: ["capability", "operation"],
    },
    "capability auth begin": {
      help: "begin a sign-in, and print what the user has to do",
      takes: ["capability", "scope", "json"],
      needs: ["capability"],
    },
    "capability auth complete": {
      help: "complete a sign-in with the URL or code from the user",
      takes: ["flow", "callback", "json"],
      needs: ["flow", "callback"],
    },
    "capability auth poll": {
      help: "check if a device sign-in is done",
      takes: ["flow", "wait", "json"],
      needs: ["flow"],
    },
  };
  const PARSE_OPTIONS = {
    options: Object.fromEntries(
      Object.entries(OPTIONS).map(([option, { short, value }]) => [
        option,
        { type: value === undefined ? ("boolean" as const) : ("string" as const), ...(short && { short }) },
      ]),
    ),
    ...{ allowPositionals: true, strict: false, tokens: true as const },
  };
  /** Common names in other programs for the same options. */
  const OPTION_SYNONYMS: Record<string, string> = {
    ...{ args: "input", arguments: "input", data: "input", body: "input", params: "input", payload: "input" },
    ...{ id: "capability", op: "operation", action: "operation", method: "operation", i: "input", code: "callback" },
    ...{ timeout: "wait", user: "account", a: "account" },
  };
  const INVOKE_SYNONYMS = ["call", "run", "exec", "use", "do"];

  return { read, helpFor };

  /** Parses the arguments, or returns a text to print. */
  function read(argv: readonly string[]): SandboxArguments | string {
    const { words, values, scopes, flags } = splitArguments(argv);
    if (flags.has("version")) return `${name} ${version}\n`;
    if (flags.has("help")) return help(words);
    if (words.length === 0) throw new SandboxUsageError(`no command: use one of ${Object.keys(COMMANDS).join(", ")}`);
    const command = resolveCommand(words);
    const { takes, needs } = COMMANDS[command] as CommandSpec;
    for (const option of [...Object.keys(values), ...flags, ...(scopes.length > 0 ? ["scope"] : [])]) {
      if (!takes.includes(option))
        throw new SandboxUsageError(`\`${command}\` takes no --${option}: ${usage(command)}`);
    }
    for (const option of needs) {
      if (!values[option]) throw new SandboxUsageError(`${formatOption(option)} is missing: ${usage(command)}`);
    }
    return { command, values, scopes, flags };
  }

  /** Splits a command line into words and options, in any order. */
  function splitArguments(argv: readonly string[]) {
    const words: string[] = [];
    const values: Record<string, string> = {};
    const scopes: string[] = [];
    const flags = new Set<string>();
    for (const token of parseArgs({ ...PARSE_OPTIONS, args: [...argv] }).tokens) {
      if (token.kind === "positional") words.push(token.value);
      if (token.kind !== "option") continue;
      const { name: option, rawName, value, inlineValue } = token;
      const known = Object.hasOwn(OPTIONS, option) ? OPTIONS[option] : undefined;
      if (!known) throw unknownOption(rawName, option, words);
      if (known.value === undefined) {
        if (inlineValue) throw new SandboxUsageError(`--${option} takes no value`);
        flags.add(option);
        continue;
      }
      if (value === undefined || (!inlineValue && /^--[a-z]/.test(value)))
        throw new SandboxUsageError(`${formatOption(option)} has no value`);
      if (known.isMany) scopes.push(value);
      else if (values[option] !== undefined) throw new SandboxUsageError(`--${option} is repeated`);
      else values[option] = value;
    }
    return { words, values, scopes, flags };
  }

  function unknownOption(option: string, typed: string, words: readonly string[]): Error {
    const command = Object.keys(COMMANDS).find((key) => words.join(" ").startsWith(key));
    const takes = command === undefined ? Object.keys(OPTIONS) : [...(COMMANDS[command]?.takes ?? []), "help"];
    const similar =
      OPTION_SYNONYMS[typed] ??
      takes.find((key) => typed.length > 1 && key.startsWith(typed)) ??
      findNearest(typed, takes);
    const hint =
      similar === undefined
        ? `available: ${takes.map((key) => `--${key}`).join(", ")}`
        : `did you mean ${formatOption(similar)}?`;
    return new SandboxUsageError(`unknown option ${option}: ${hint}`);
  }

  function resolveCommand(words: readonly string[]): string {
    const typed = words.join(" ");
    const command = Object.keys(COMMANDS).find((key) => typed === key || typed.startsWith(`${key} `));
    if (command === typed) return command;
    if (command !== undefined)
      throw new SandboxUsageError(`unexpected argument "${typed.slice(command.length + 1)}": ${usage(command)}`);
    const last = words.at(-1) ?? "";
    const similar = INVOKE_SYNONYMS.includes(last)
      ? "capability invoke"
      : (Object.keys(COMMANDS).find((key) => key.endsWith(` ${typed}`) || key.endsWith(` ${last}`)) ??
        findNearest(typed, Object.keys(COMMANDS)));
    const hint =
      similar === undefined ? `available: ${Object.keys(COMMANDS).join(", ")}` : `did you mean \`${name} ${similar}\`?`;
    throw new SandboxUsageError(`unknown command \`${typed}\`: ${hint}`);
  }

  function formatOption(option: string): string {
    const { short, value } = OPTIONS[option] ?? {};
    return `${short ? `-${short}, ` : ""}--${option}${value ? ` ${value}` : ""}`;
  }

  function usage(command: string): string {
    const { takes, needs } = COMMANDS[command] as CommandSpec;
    const parts = takes.map((option) => {
      const { short, value, isMany } = OPTIONS[option] as OptionSpec;
      const text = `${short ? `-${short}` : `--${option}`}${value ? ` ${value}` : ""}`;
      return needs.includes(option) ? text : `[${text}${isMany ? " …" : ""}]`;
    });
    return [name, command, ...parts].join(" ");
  }

  function help(words: readonly string[]): string {
    const topic = words.join(" ");
    const commands = Object.keys(COMMANDS).filter((key) => `${key} `.startsWith(topic === "" ? "" : `${topic} `));
    const shown = commands.length > 0 ? commands : Object.keys(COMMANDS);
    const options = [...new Set(shown.flatMap((key) => COMMANDS[key]?.takes ?? [])), "help"];
    return [
      ...shown.map((key) => `${usage(key)}\n    ${COMMANDS[key]?.help}`),
      "",
      ...options.map((option) => `  ${formatOption(option).padEnd(22)} ${OPTIONS[option]?.help}`),
      "",
      "exit codes: 0 done, 1 refused or failed, 2 wrong usage, 5 waiting for the user's approval",
      "",
    ].join("\n");
  }

  /** Returns the command of the arguments, as a prefix of `--help`. */
  function helpFor(argv: readonly string[]): string {
    const typed = argv.slice(0, 3).join(" ");
    const command = Object.keys(COMMANDS).find(
      (key) => `${typed} `.startsWith(`${key} `) || argv.slice(0, 2).join(" ") === key,
    );
    return command === undefined ? "" : `${command} `;
  }
}

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
