import { closeSync, fstatSync, openSync, type Stats, statSync, writeSync } from "node:fs";
import type { ReadStream } from "node:tty";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { main } from "./main.ts";
import type { CommandIo, LineCompleter, TerminalStream } from "./output.ts";
import { type EndSignal, openTerminalDialogue, REPEAT_INTERRUPT_MS } from "./terminal.ts";

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
    cwd: process.cwd(),
    ...(isTerminal(0) ? (isTerminal(2) ? { ask: askHere, askHidden, dialogue } : {}) : createPipedInput()),
    ...(isTerminal(0) || isTerminal(1) ? {} : { protocol: openProtocolStreams }),
    interrupted: waitForInterrupt,
  };
  main(process.argv.slice(2), io).then((code) => {
    process.exitCode =
      ending === undefined ? code : 128 + process.getBuiltinModule("node:os").constants.signals[ending];
    isFinished = true;
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
