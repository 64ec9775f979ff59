import { closeSync, fstatSync, openSync, type Stats, statSync, writeSync } from "node:fs";
import type { ReadStream } from "node:tty";
import { SkillError } from "../shared/error.ts";
import { reason } from "../shared/inside.ts";
import type { Complete, Io, Stream } from "./io.ts";
import { main } from "./main.ts";
import { AGAIN_MS, type Ending, openDialogue } from "./terminal.ts";

/** The process around `main`: its streams, its signals, its exit code. */
export function run(): void {
  let ending: Ending | undefined;
  const dialogue = (complete: Complete) =>
    openDialogue(complete, (signal) => {
      ending = signal;
    });
  const io = {
    stdout: output(1),
    stderr: output(2),
    env: process.env,
    cwd: process.cwd(),
    ...(isTerminal(0) ? (isTerminal(2) ? { ask: askHere, askHidden, dialogue } : {}) : piped()),
    ...(isTerminal(0) || isTerminal(1) ? {} : { protocol }),
    interrupted,
  };
  main(process.argv.slice(2), io).then((code) => {
    process.exitCode =
      ending === undefined ? code : 128 + process.getBuiltinModule("node:os").constants.signals[ending];
    isOver = true;
    // A thread in the middle of a system call cannot be ended, nor can what nobody reads be taken back: either keeps the program here.
    setTimeout(() => {
      if (interruptedBy) leave(interruptedBy);
      else if (isProtocol && process.stdout.writableLength === 0) leave("SIGTERM");
    }, LINGER_MS).unref();
  });
}

// Longer than what a busy machine takes to close connections and threads that do end.
const LINGER_MS = 3000;
let isOver = false;
let isProtocol = false;
let interruptedBy: NodeJS.Signals | undefined;

/** As a program ends that does not listen to the signal: `process.exit` would wait for threads. */
function leave(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

/** Who pipes something in may sit at a terminal all the same, and is asked there. */
function piped(): Pick<Io, "stdin" | "ask"> {
  return isTerminal(2) && isGiven(0) && hasTerminal() ? { stdin, ask: askAtTerminal } : { stdin };
}

const TERMINAL = "/dev/tty";

function hasTerminal(): boolean {
  try {
    closeSync(openSync(TERMINAL, "r"));
    return true;
  } catch {
    return false;
  }
}

/** A pipe or a file. Who gives /dev/null says that nobody is there. */
function isGiven(fd: number): boolean {
  try {
    return !fstatSync(fd).isCharacterDevice();
  } catch {
    return false;
  }
}

// Only a command that waits asks for it: the others end at a signal as any program does.
function interrupted(until?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onReaderGone = resolve;
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) {
      const onSignal = () => {
        if (isOver) return leave(name);
        interruptedBy = name;
        resolve();
        setTimeout(() => process.off(name, onSignal), AGAIN_MS).unref();
      };
      process.on(name, onSignal);
      until?.addEventListener("abort", () => process.off(name, onSignal), { once: true });
    }
  });
}

let onReaderGone = () => {};

function askHere(question: string, signal?: AbortSignal): Promise<string | undefined> {
  return ask(process.stdin, question, signal);
}

async function askAtTerminal(question: string, signal?: AbortSignal): Promise<string | undefined> {
  const { ReadStream } = process.getBuiltinModule("node:tty");
  let input: ReadStream;
  try {
    input = new ReadStream(openSync(TERMINAL, "r"));
  } catch {
    return undefined; // It has gone.
  }
  try {
    return await ask(input, question, signal);
  } finally {
    input.destroy(); // The program would wait for what is typed there.
  }
}

async function ask(input: ReadStream, question: string, signal?: AbortSignal): Promise<string | undefined> {
  const { createInterface } = process.getBuiltinModule("node:readline/promises");
  if ((await isInterruptedAhead(input)) || signal?.aborted) return undefined;
  const lines = createInterface({ input, output: process.stderr });
  // Ctrl-D and Ctrl-C are no answers. What goes on meanwhile is stopped by the latter as anywhere else.
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

// At once: a signal would come only after the question was taken for unanswered, and asked again.
function interrupt(): void {
  process.emit("SIGINT");
}

const SETTLE_MS = 30;

/** Takes away what was typed before there was a question. Whether Ctrl-C was among it. */
async function isInterruptedAhead(input: ReadStream): Promise<boolean> {
  if (!input.isTTY) return false;
  let typed = "";
  const take = (bytes: Buffer | string) => {
    typed += String(bytes);
  };
  input.setRawMode(true);
  input.on("data", take).resume();
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
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
  process.stderr.write(question); // Only now does the terminal show nothing of what is typed.
  const gone = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
  const answer = await Promise.race([lines.question(""), gone]);
  lines.close();
  process.stderr.write("\n");
  return answer;
}

const LARGEST_INPUT = 16 * 1024 * 1024;

async function stdin(patienceMs?: number): Promise<string | undefined> {
  if (patienceMs !== undefined && !(await comes(patienceMs))) {
    process.stdin.unref();
    return undefined;
  }
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of process.stdin) {
    size += part.length;
    if (size > LARGEST_INPUT) {
      throw new SkillError("usage", { message: "There are more than 16 MiB on standard input", fix: "give less" });
    }
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Whether something is piped in, or has ended, in time. */
function comes(patienceMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, patienceMs, false);
    const done = () => {
      clearTimeout(timer);
      resolve(true);
    };
    process.stdin.once("readable", done).once("end", done).once("error", done);
  });
}

function protocol(): ReturnType<NonNullable<Io["protocol"]>> {
  const { Writable } = process.getBuiltinModule("node:stream");
  const { stdin: input, stdout, stderr } = process;
  isProtocol = true;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write;
  stdout.on("error", () => {}); // Whoever wrote is told.
  const output = new Writable({
    decodeStrings: false,
    write: (part, encoding, done) => void write(part, encoding, done),
  });
  return { input, output };
}

// A terminal gets Node's own stream. For a file or a pipe, loading it would cost a tenth of the start, and a long list would
// still be on its way when the process ends.
function output(fd: 1 | 2): Stream {
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
            isClosed = true; // `skillet list | head` has enough.
            if (fd === 1) onReaderGone();
          } else if (code === "EAGAIN") Atomics.wait(PAUSE, 0, 0, 1);
          else if (fd === 2)
            isClosed = true; // There is nobody left to tell.
          else
            throw new SkillError("unwritable", {
              message: `The output could not be written: ${reason(error)}`,
              fix: "check where it goes to, and that there is room",
            });
        }
      }
    },
  };
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4));

function isTerminal(fd: number): boolean {
  try {
    const stats = fstatSync(fd);
    return stats.isCharacterDevice() && !isNull(stats) && process.getBuiltinModule("node:tty").isatty(fd);
  } catch {
    return false;
  }
}

/** Most programs that start others give them this. What knows terminals need not be loaded for it, which takes a fifth as long as Node's own start. */
function isNull({ rdev }: Stats): boolean {
  return rdev === statSync("/dev/null", { throwIfNoEntry: false })?.rdev;
}
