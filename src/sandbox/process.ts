import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { Socket } from "node:net";
import { constants } from "node:os";
import type { Readable, Writable } from "node:stream";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { ProcessEnding, SandboxOutcome, SandboxRunOptions } from "../host/sandbox-contract.ts";
import { startPausableTimer } from "../util/timeout.ts";
import { createInputFile, type Pipe, takePipe } from "./pipes.ts";

export interface Program {
  file: string;
  args: readonly string[];
  /** All of its variables. */
  env: Readonly<Record<string, string>>;
  /** Where it starts; `/` when left out, so that no path of the host's is told. */
  folder?: string;
  /** Whom it runs as; the caller, when left out. */
  user?: number;
  /** Whether it becomes that user by itself. */
  changesUser?: boolean;
  stdin?: string;
  /** Its standard input where that holds secrets: through a pipe, so that it comes to no disk, however shortly. */
  secretInput?: string;
  /** More pipes, from descriptor 3 on: bytes to write into it, or what to do with it. */
  pipes?: readonly (Uint8Array | ((pipe: Readable & Writable, child: ChildProcess) => void))[];
  /** Ends it and all that it started. Its process group, when left out. */
  kill?: (child: ChildProcess) => void;
}

/** How long what is left in the pipes is waited for when the process is gone, since a child of it may hold them open. */
const DRAIN_MS = 500;

/** Runs a program to its end, or to the end of its time, or of the caller's patience with its output. */
export async function runProcess(
  program: Program,
  seconds: number,
  { onOutput, signal, waited }: SandboxRunOptions,
): Promise<Omit<SandboxOutcome, "isolation">> {
  if (signal?.aborted) return { exitCode: undefined, signal: undefined, ending: "abort", ms: 0 };
  const start = performance.now();
  const { kill = killProcessGroup } = program;
  const { child, stdout, stderr } = startProgram(program);
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  let ending: ProcessEnding = "exit";
  const stop = (why: ProcessEnding) => {
    if (ending !== "exit" || (isOver() && why !== "output")) return;
    ending = why;
    if (!isOver()) kill(child);
  };
  const onAbort = () => stop("abort");
  const stopTimer = startPausableTimer(seconds * 1000, () => stop("timeout"), waited);
  signal?.addEventListener("abort", onAbort);
  for (const [name, stream] of [
    ["stdout", stdout],
    ["stderr", stderr],
  ] as const) {
    stream.on("data", (bytes: Buffer) => {
      if ((ending === "exit" || ending === "output") && !onOutput(name, bytes)) stop("output");
    });
  }
  let held: NodeJS.Timeout | undefined;
  const letGo = () => {
    for (const stream of [stdout, stderr, ...child.stdio]) stream?.destroy();
  };
  child.once("exit", () => {
    // Not at once: where this thread was busy for so long, nothing of what was said last has been read yet, and it is read before this.
    held = setTimeout(() => setImmediate(letGo), DRAIN_MS);
  });
  try {
    // Not `events.once`, which ends with the first error: those are no end.
    const closed = [child, stdout, stderr].map((part) => new Promise((resolve) => part.once("close", resolve)));
    await Promise.race([Promise.all(closed), waitForStartError(program.file, child)]);
  } finally {
    stopTimer();
    clearTimeout(held);
    signal?.removeEventListener("abort", onAbort);
  }
  const isOwn = ending === "exit" || ending === "output";
  const bySignal = ending === "exit" && child.signalCode ? 128 + constants.signals[child.signalCode] : undefined;
  return {
    exitCode: isOwn ? (child.exitCode ?? bySignal) : undefined,
    signal: child.signalCode ?? undefined,
    ending,
    ms: performance.now() - start,
  };
}

/** The signal that an exit code stands for, where a program gives one as a shell does. */
export function getExitSignal(exitCode: number | undefined): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number + 128 === exitCode)?.[0];
}

interface StartedProgram {
  child: ChildProcess;
  stdout: Readable;
  stderr: Readable;
}

function startProgram(program: Program): StartedProgram {
  const { file, args, env, folder = "/", user, changesUser, stdin, secretInput, pipes = [] } = program;
  const unread = secretInput === undefined ? "ignore" : "pipe";
  const input = stdin === undefined ? undefined : createInputFile(stdin, user);
  const [output, errors] = [takePipe(user), takePipe(user)];
  const ends = [input, output?.write, errors?.write];
  let child: ChildProcess;
  try {
    child = spawn(file, args, {
      env,
      cwd: folder,
      detached: true,
      stdio: createStdio([input ?? unread, output?.write ?? "pipe", errors?.write ?? "pipe"], pipes.length),
      ...(user === undefined || changesUser ? {} : { uid: user, gid: user }),
    });
  } catch (error) {
    ends.push(output?.read, errors?.read); // Some things Node says at once: a user that there is not, a NUL.
    throw createStartError(file, error);
  } finally {
    for (const fd of ends) if (fd !== undefined) closeSync(fd);
  }
  child.stdin?.on("error", ignoreError).end(secretInput);
  for (const [index, use] of pipes.entries()) {
    const pipe = child.stdio[index + 3] as Readable & Writable;
    pipe.on("error", ignoreError);
    if (typeof use === "function") use(pipe, child);
    else pipe.end(use);
  }
  const reader = (pipe: Pipe | undefined, own: Readable | null) => {
    const stream = pipe ? new Socket({ fd: pipe.read, readable: true, writable: false }) : (own as Readable);
    return stream.on("error", ignoreError);
  };
  return { child, stdout: reader(output, child.stdout), stderr: reader(errors, child.stderr) };
}

/** Contract: rejects when the program could not be started, and never resolves. */
function waitForStartError(file: string, child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.on("error", (error) => {
      if (child.pid === undefined) reject(createStartError(file, error));
    });
  });
}

/** Descriptors that this process was started with go on to whatever it starts: what they lead to is put out of reach. */
function createStdio(first: readonly ("ignore" | "pipe" | number)[], pipes: number): ("ignore" | "pipe" | number)[] {
  const stdio = [...first, ...Array(pipes).fill("pipe")];
  for (const fd of getInheritedDescriptors()) {
    while (stdio.length <= fd) stdio.push("ignore");
    if (fd >= pipes + 3) stdio[fd] = openDevNull();
  }
  return stdio;
}

// Looked at once: whatever Node opens itself is closed on exec.
function getInheritedDescriptors(): readonly number[] {
  descriptorCache ??= listDescriptors();
  return descriptorCache;
}

let descriptorCache: readonly number[] | undefined;

function listDescriptors(): number[] {
  try {
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((fd) => fd > 2 && !isClosedOnExec(fd));
  } catch {
    return []; // Not Linux, where none of the others passes them on.
  }
}

function isClosedOnExec(fd: number): boolean {
  try {
    const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) !== 0;
  } catch {
    return true; // It was the one that the folder was read with.
  }
}

const CLOSE_ON_EXEC = 0o2000000;
let devNull: number | undefined;

function openDevNull(): number {
  devNull ??= openSync("/dev/null", "r");
  return devNull;
}

/** Contract: the process leads its group, as every one started here does. */
export function killProcessGroup({ pid }: Pick<ChildProcess, "pid">): void {
  if (pid === undefined) return;
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

function createStartError(file: string, error: unknown): SkillError {
  return new SkillError("sandbox-start", {
    message: `${file} could not be started: ${getErrorMessage(error)}`,
    fix: "`skillet doctor --sandbox` says what is missing",
    cause: error,
  });
}

// A pipe whose other end is gone: the process' own end says why.
function ignoreError(): void {}
