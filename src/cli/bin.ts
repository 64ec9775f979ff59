import { closeSync, fstatSync, openSync, type Stats, statSync, writeSync } from "node:fs";
import type { ReadStream } from "node:tty";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { exitAfterThreads, getCurrentFolder } from "../util/system.ts";
import { main } from "./main.ts";
import {
  type CommandIo,
  INTERRUPTED_LINE,
  type InterruptedLine,
  type LineCompleter,
  type TerminalDialogue,
  type TerminalStream,
} from "./output.ts";

/** Runs `main` with the streams, signals and exit code of this process. */
export function run(): void {
  let ending: EndSignal | undefined;
  const dialogue = (complete: LineCompleter) =>
    openTerminalDialogue(complete, (signal) => {
      ending = signal;
    });
  const io = {
    stdout: createOutputStream(1),
    stderr: createOutputStream(2),
    env: process.env,
    cwd: getCurrentFolder(process.env),
    ...(isTerminal(0) ? (isTerminal(2) ? { ask: askHere, askHidden, dialogue } : {}) : createPipedInput()),
    ...(isTerminal(0) || isTerminal(1) ? {} : { protocol: openProtocolStreams }),
    interrupted: waitForInterrupt,
  };
  main(process.argv.slice(2), io).then((code) => {
    process.exitCode =
      ending === undefined ? code : 128 + process.getBuiltinModule("node:os").constants.signals[ending];
    isFinished = true;
    if (!interruptedBy) exitAfterThreads(Number(process.exitCode), LINGER_MS);
    // A thread blocked in a system call, or output that is never read, would keep the process alive.
    setTimeout(() => {
      if (interruptedBy) exitBySignal(interruptedBy);
      else if (isProtocolOpen && process.stdout.writableLength === 0) exitBySignal("SIGTERM");
    }, LINGER_MS).unref();
  });
}

// Longer than a busy machine needs to close connections and threads that do end.
const LINGER_MS = 3000;
let isFinished = false;
let isProtocolOpen = false;
let interruptedBy: NodeJS.Signals | undefined;

/** Ends as a program without a handler for the signal does: `process.exit` would wait for threads. */
function exitBySignal(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

/** Users who pipe input may still sit at a terminal: questions go there. */
function createPipedInput(): Pick<CommandIo, "stdin" | "ask"> {
  return isTerminal(2) && isPipeOrFile(0) && hasTerminal()
    ? { stdin: readStdin, ask: askAtTerminal }
    : { stdin: readStdin };
}

const TERMINAL_PATH = "/dev/tty";

function hasTerminal(): boolean {
  try {
    closeSync(openSync(TERMINAL_PATH, "r"));
    return true;
  } catch {
    return false;
  }
}

/** Returns true for a pipe or a file. /dev/null as stdin means non-interactive. */
function isPipeOrFile(fd: number): boolean {
  try {
    return !fstatSync(fd).isCharacterDevice();
  } catch {
    return false;
  }
}

// Only commands that wait install this handler: others end at a signal as any program does.
function waitForInterrupt(until?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onReaderGone = resolve;
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) {
      const onSignal = () => {
        if (isFinished) return exitBySignal(name);
        interruptedBy = name;
        resolve();
        setTimeout(() => process.off(name, onSignal), REPEAT_INTERRUPT_MS).unref();
      };
      process.on(name, onSignal);
      until?.addEventListener("abort", () => process.off(name, onSignal), { once: true });
    }
  });
}

let onReaderGone = () => {};

function askHere(question: string, signal?: AbortSignal): Promise<string | undefined> {
  return askOn(process.stdin, question, signal);
}

async function askAtTerminal(question: string, signal?: AbortSignal): Promise<string | undefined> {
  const { ReadStream } = process.getBuiltinModule("node:tty");
  let input: ReadStream;
  try {
    input = new ReadStream(openSync(TERMINAL_PATH, "r"));
  } catch {
    return undefined; // The terminal is gone.
  }
  try {
    return await askOn(input, question, signal);
  } finally {
    input.destroy(); // Else the program would wait for more input.
  }
}

async function askOn(input: ReadStream, question: string, signal?: AbortSignal): Promise<string | undefined> {
  const { createInterface } = process.getBuiltinModule("node:readline/promises");
  if ((await discardTypeahead(input)) || signal?.aborted) return undefined;
  const lines = createInterface({ input, output: process.stderr });
  // Ctrl-D and Ctrl-C are not answers. Ctrl-C also interrupts the running work.
  const gone = new Promise<undefined>((resolve) => lines.once("close", resolve));
  let isLineEnded = false;
  lines.once("SIGINT", () => {
    isLineEnded = true;
    process.stderr.write("^C\n");
    interrupt();
    lines.close();
  });
  const end = () => lines.close();
  signal?.addEventListener("abort", end, { once: true });
  const answer = await Promise.race([lines.question(question), gone]);
  signal?.removeEventListener("abort", end);
  lines.close();
  if (answer === undefined && !isLineEnded) process.stderr.write("\n");
  return answer;
}

// Immediately: a signal would arrive only after the question counted as unanswered and was repeated.
function interrupt(): void {
  process.emit("SIGINT");
}

const TYPEAHEAD_MS = 30;

/** Discards input typed before the question was shown. Returns true if it contained Ctrl-C. */
async function discardTypeahead(input: ReadStream): Promise<boolean> {
  if (!input.isTTY) return false;
  let typed = "";
  const take = (bytes: Buffer | string) => {
    typed += String(bytes);
  };
  input.setRawMode(true);
  input.on("data", take).resume();
  await new Promise((resolve) => setTimeout(resolve, TYPEAHEAD_MS));
  input.off("data", take).pause();
  input.setRawMode(false);
  const isInterrupted = typed.includes("\u0003");
  if (isInterrupted) interrupt();
  return isInterrupted;
}

async function askHidden(question: string): Promise<string> {
  const { createInterface } = process.getBuiltinModule("node:readline/promises");
  const { Writable } = process.getBuiltinModule("node:stream");
  const silent = new Writable({ write: (_part, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  process.stderr.write(question); // Only now is the terminal's echo off.
  const gone = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
  const answer = await Promise.race([lines.question(""), gone]);
  lines.close();
  process.stderr.write("\n");
  return answer;
}

const MAX_INPUT_BYTES = 16 * 1024 * 1024;

async function readStdin(patienceMs?: number): Promise<string | undefined> {
  if (patienceMs !== undefined && !(await waitForInput(patienceMs))) {
    process.stdin.unref();
    return undefined;
  }
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of process.stdin) {
    size += part.length;
    if (size > MAX_INPUT_BYTES) {
      throw new SkillError("usage", {
        message: "Standard input is larger than 16 MiB",
        fix: "pipe in less, or pass a file",
      });
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Resolves to true if input arrives, or stdin ends, within the time. */
function waitForInput(patienceMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, patienceMs, false);
    const done = () => {
      clearTimeout(timer);
      resolve(true);
    };
    process.stdin.once("readable", done).once("end", done).once("error", done);
  });
}

function openProtocolStreams(): ReturnType<NonNullable<CommandIo["protocol"]>> {
  const { Writable } = process.getBuiltinModule("node:stream");
  const { stdin: input, stdout, stderr } = process;
  isProtocolOpen = true;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write;
  stdout.on("error", () => {}); // The writer's callback receives it.
  const output = new Writable({
    decodeStrings: false,
    write: (part, encoding, done) => void write(part, encoding, done),
  });
  return { input, output };
}

// A terminal gets Node's own stream. For a file or a pipe, loading it would cost a tenth of the start, and a long list might still be
// unwritten when the process ends.
function createOutputStream(fd: 1 | 2): TerminalStream {
  if (isTerminal(fd)) return fd === 1 ? process.stdout : process.stderr;
  let isClosed = false;
  return {
    get isClosed() {
      return isClosed;
    },
    write(text) {
      const bytes = Buffer.from(text);
      for (let from = 0; from < bytes.length && !isClosed; ) {
        try {
          from += writeSync(fd, bytes, from);
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (code === "EPIPE") {
            isClosed = true; // `skillet list | head` stops reading.
            if (fd === 1) onReaderGone();
          } else if (code === "EAGAIN") Atomics.wait(PAUSE_BUFFER, 0, 0, 1);
          else if (fd === 2)
            isClosed = true; // Stderr is gone too.
          else
            throw new SkillError("unwritable", {
              message: `The output could not be written: ${getErrorMessage(error)}`,
              fix: "check the target of the redirection and the free disk space",
            });
        }
      }
    },
  };
}

const PAUSE_BUFFER = new Int32Array(new SharedArrayBuffer(4));

function isTerminal(fd: number): boolean {
  try {
    const stats = fstatSync(fd);
    return stats.isCharacterDevice() && !isNullDevice(stats) && process.getBuiltinModule("node:tty").isatty(fd);
  } catch {
    return false;
  }
}

/** Most parent processes pass /dev/null. This check avoids loading `tty`, which takes a fifth of Node's own start. */
function isNullDevice({ rdev }: Stats): boolean {
  return rdev === statSync("/dev/null", { throwIfNoEntry: false })?.rdev;
}

type DialogueLine = string | InterruptedLine | undefined;

/**
 * Opens a dialogue at the terminal of this process. One readline interface serves all of it, so that no typeahead is lost. It receives keys
 * only while a line is awaited, so that it writes nothing into an answer.
 *
 * Contract: the terminal state is always restored. A signal that ends the program closes the dialogue.
 */
function openTerminalDialogue(complete: LineCompleter, onEnding: (signal: EndSignal) => void): TerminalDialogue {
  const { createInterface } = process.getBuiltinModule("node:readline");
  const { Readable } = process.getBuiltinModule("node:stream");
  const { StringDecoder } = process.getBuiltinModule("node:string_decoder");
  const { stdin, stderr } = process;
  const state = {
    typed: "",
    isAsking: false,
    isClosed: false,
    onAnswer: undefined as ((answer: DialogueLine) => void) | undefined,
  };
  const pastes = createPasteStore();
  const keys = Object.assign(new Readable({ read() {} }), { setRawMode: (isRaw: boolean) => stdin.setRawMode(isRaw) });
  const lines = createInterface({ input: keys, output: stderr, terminal: true, completer: createCompleter(complete) });
  const answer = (line: DialogueLine) => {
    const { onAnswer } = state;
    state.onAnswer = undefined;
    onAnswer?.(line);
  };
  lines.on("line", (line) => answer(pastes.unfold(line)));
  const interrupt = () => {
    for (const name of ["e", "u"]) lines.write(null, { ctrl: true, name });
    stderr.write("^C\n");
    answer(INTERRUPTED_LINE);
  };
  lines.on("SIGINT", interrupt);
  lines.on("history", (history) => state.isAsking && history.shift());
  lines.once("close", () => {
    if (state.onAnswer) stderr.write("\n");
    close();
    answer(undefined);
  });
  const play = () => {
    while (state.onAnswer && state.typed !== "") {
      const { keys: next, paste, rest } = splitTyped(state.typed);
      if (next === "" && paste === undefined) return;
      state.typed = rest;
      if (paste === undefined) keys.emit("data", next);
      else lines.write(pastes.fold(paste));
    }
  };
  const decoder = new StringDecoder("utf8");
  const onData = (bytes: Buffer) => {
    const text = decoder.write(bytes);
    state.typed += text;
    if (state.onAnswer) return play();
    // Interrupts the running work, and discards the input queued after it.
    if (!text.includes(CTRL_C)) return;
    const isHeard = isHeardByOthers();
    state.typed = isHeard ? "" : CTRL_C;
    if (isHeard) process.kill(process.pid, "SIGINT");
  };
  const isHeardByOthers = () => process.listenerCount("SIGINT") > 1;
  // A signal sent by another program means the same as the key.
  const onInterrupt = () => {
    if (state.onAnswer) interrupt();
    else if (!isHeardByOthers()) state.typed = CTRL_C;
  };
  const onEnd = () => lines.close();
  const onSignal = (signal: EndSignal) => {
    onEnding(signal);
    lines.close();
  };
  const close = () => {
    if (state.isClosed) return;
    state.isClosed = true;
    stderr.write(DISABLE_PASTE);
    stdin.off("data", onData).off("end", onEnd).pause();
    process.off("exit", close).off("SIGINT", onInterrupt);
    setTimeout(() => {
      for (const name of END_SIGNALS) process.off(name, onSignal);
    }, REPEAT_INTERRUPT_MS).unref();
    lines.close();
  };
  const wait = (prompt: string, isAsking: boolean) =>
    new Promise<DialogueLine>((resolve) => {
      if (state.isClosed) return resolve(undefined);
      state.isAsking = isAsking;
      state.onAnswer = resolve;
      lines.setPrompt(prompt);
      lines.prompt();
      play();
    });
  process.once("exit", close).on("SIGINT", onInterrupt);
  for (const name of END_SIGNALS) process.on(name, onSignal);
  // Without the terminal nothing can be read or printed. Deferred, because closing raises the same error.
  stdin.on("error", () => setImmediate(onEnd));
  for (const stream of [stderr, process.stdout]) stream.on("error", () => {});
  stderr.write(ENABLE_PASTE);
  stdin.on("data", onData).on("end", onEnd).resume();
  return {
    read: (prompt) => wait(prompt, false),
    async ask(question, signal) {
      state.typed = "";
      if (signal?.aborted) return undefined;
      const end = () => {
        for (const name of ["e", "u"]) lines.write(null, { ctrl: true, name });
        stderr.write("\n");
        answer(undefined);
      };
      signal?.addEventListener("abort", end, { once: true });
      const line = await wait(question, true);
      signal?.removeEventListener("abort", end);
      if (line === INTERRUPTED_LINE && isHeardByOthers()) process.emit("SIGINT");
      return typeof line === "string" ? line : undefined;
    },
    close,
  };
}

// A terminal signals the whole foreground group, and a parent may forward it: only a later signal counts as a second one.
const REPEAT_INTERRUPT_MS = 300;

/** These end the program; Ctrl-C only interrupts the current work. */
const END_SIGNALS = ["SIGTERM", "SIGHUP", "SIGQUIT"] as const;
type EndSignal = (typeof END_SIGNALS)[number];

const CTRL_C = "\u0003";
// Makes terminals mark the start and end of a paste.
const ENABLE_PASTE = "\u001b[?2004h";
const DISABLE_PASTE = "\u001b[?2004l";
const PASTE_START = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/** Splits off the keys up to the end of a line, or a complete paste. Empty while a paste is incomplete. */
function splitTyped(typed: string): { keys: string; paste?: string; rest: string } {
  if (typed.startsWith(PASTE_START)) {
    const end = typed.indexOf(PASTE_END);
    if (end === -1) return { keys: "", rest: typed };
    return { keys: "", paste: typed.slice(PASTE_START.length, end), rest: typed.slice(end + PASTE_END.length) };
  }
  const [line = ""] = /^[^\r\n]*(?:\r\n?|\n)?/.exec(typed) ?? [];
  const paste = line.indexOf(PASTE_START);
  // An incomplete paste marker at the end of the line waits for its rest.
  const end = paste === -1 ? line.length - (/\u001b\[2(?:00?)?$/.exec(line)?.[0].length ?? 0) : paste;
  return { keys: line.slice(0, end), rest: typed.slice(end) };
}

const LINE_BREAKS = /\r\n?|[\u2028\u2029]/g;
// Control characters are not part of the message.
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Shows each pasted multi-line text as a placeholder in the typed line, and restores it when the line is read. */
function createPasteStore() {
  const texts = new Map<string, string>();
  return {
    fold(pasted: string): string {
      const text = pasted.replace(LINE_BREAKS, "\n").replace(CONTROL_CHARACTERS, "").replace(/\n+$/, "");
      if (!text.includes("\n")) return text;
      const name = `[paste ${texts.size + 1}: ${text.split("\n").length} lines]`;
      texts.set(name, text);
      return name;
    },
    unfold: (line: string): string => line.replace(/\[paste \d+: \d+ lines\]/g, (name) => texts.get(name) ?? name),
  };
}

function createCompleter(complete: LineCompleter): (line: string) => [string[], string] {
  return (line) => {
    const [word = ""] = /\S*$/.exec(line) ?? [];
    const fitting = complete(line).filter((candidate) => candidate.startsWith(word));
    return [fitting.length === 1 ? [`${fitting[0]} `] : fitting, word];
  };
}
