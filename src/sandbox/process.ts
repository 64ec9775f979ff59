import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { closeSync, readFileSync } from "node:fs";
import { Socket } from "node:net";
import { constants } from "node:os";
import { isAbsolute } from "node:path";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import type { ProcessEnding, SandboxOutcome, SandboxRunOptions } from "../host/sandbox-contract.ts";
import { isLeaseHeld, renewLease, startPausableTimer } from "../util/async.ts";
import { findSystemProgram } from "../util/system.ts";
import { createInputFile, createStdio, type Pipe, takePipe } from "./pipes.ts";

export interface Program {
  file: string;
  args: readonly string[];
  /** All of its environment variables. */
  env: Readonly<Record<string, string>>;
  /** The working directory. Defaults to `/`, so that no path of the host is revealed. */
  folder?: string;
  /** The user ID it runs as. Defaults to the caller's. */
  user?: number;
  /** True if the program switches to that user itself. */
  changesUser?: boolean;
  stdin?: string;
  /** Standard input that holds secrets: sent through a pipe, so that it is never written to a disk. */
  secretInput?: string;
  /** More pipes, from descriptor 3 on: bytes to write, or a function that uses the pipe. */
  pipes?: readonly (Uint8Array | ((pipe: Readable & Writable, child: ChildProcess) => void))[];
  /** Kills the program and everything it started. Defaults to killing its process group. */
  kill?: (child: ChildProcess) => void;
}

/** Milliseconds to wait for remaining output after the process has exited, since a child may hold the pipes open. */
const DRAIN_MS = 500;

/** Runs a program until it exits, times out, is aborted, or produces too much output. */
export async function runProcess(
  program: Program,
  seconds: number,
  { onOutput, signal, getWaitedMs }: SandboxRunOptions,
): Promise<Omit<SandboxOutcome, "isolation">> {
  while (!isLeaseHeld()) await renewLease(); // Nothing waits between here and the start.
  if (signal?.aborted) return { exitCode: undefined, signal: undefined, ending: "abort", ms: 0 };
  const start = performance.now();
  const { kill = killProcessGroup } = program;
  const prepared = prepareStart(program);
  let child: ChildProcess;
  try {
    child = spawn(program.file, program.args, prepared.options);
  } catch (error) {
    prepared.discard(); // Node throws some errors at once: an unknown user, a NUL byte.
    throw createStartError(program.file, error);
  } finally {
    prepared.closeEnds();
  }
  const { stdout, stderr } = connectPipes(child, program, prepared);
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  let ending: ProcessEnding = "exit";
  const stop = (cause: ProcessEnding) => {
    if (ending !== "exit" || (isOver() && cause !== "output")) return;
    ending = cause;
    if (!isOver()) kill(child);
  };
  const onAbort = () => stop("abort");
  const stopTimer = startPausableTimer(seconds * 1000, () => stop("timeout"), getWaitedMs);
  signal?.addEventListener("abort", onAbort);
  for (const [name, stream] of [
    ["stdout", stdout],
    ["stderr", stderr],
  ] as const) {
    stream.on("data", (bytes: Buffer) => {
      if ((ending === "exit" || ending === "output") && !onOutput(name, bytes)) stop("output");
    });
  }
  let drainTimer: NodeJS.Timeout | undefined;
  const closeStreams = () => {
    for (const stream of [stdout, stderr, ...child.stdio]) stream?.destroy();
  };
  child.once("exit", () => {
    // Not at once: if this thread was busy for that long, the last output has not been read yet and is read before
    // this.
    drainTimer = setTimeout(() => setImmediate(closeStreams), DRAIN_MS);
  });
  try {
    // Not `events.once`, which rejects on the first error: an error here is not the end.
    const closed = [child, stdout, stderr].map((part) => new Promise((resolve) => part.once("close", resolve)));
    await Promise.race([Promise.all(closed), waitForStartError(program.file, child)]);
  } finally {
    stopTimer();
    clearTimeout(drainTimer);
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

/** Returns the signal that an exit code encodes, as a shell does. */
export function getExitSignal(exitCode: number | undefined): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number + 128 === exitCode)?.[0];
}

interface PreparedStart {
  options: SpawnOptions;
  /** The pipes for the output, where the user needs pipes of its own. */
  output: Pipe | undefined;
  errors: Pipe | undefined;
  /** Closes the ends that only the program uses. */
  closeEnds(): void;
  /** Closes the ends that this process reads, if there is no program. */
  discard(): void;
}

function prepareStart(program: Program): PreparedStart {
  const { file, env, folder = "/", user, changesUser, stdin, secretInput, pipes = [] } = program;
  const unread = secretInput === undefined ? "ignore" : "pipe";
  const input = stdin === undefined ? undefined : createInputFile(stdin, user);
  const [output, errors] = [takePipe(user), takePipe(user)];
  const close = (...ends: (number | undefined)[]) => {
    for (const fd of ends) if (fd !== undefined) closeSync(fd);
  };
  let stdio: SpawnOptions["stdio"];
  try {
    stdio = createStdio([input ?? unread, output?.write ?? "pipe", errors?.write ?? "pipe"], pipes.length);
  } catch (error) {
    close(input, output?.write, errors?.write, output?.read, errors?.read);
    throw createStartError(file, error);
  }
  return {
    options: {
      env,
      cwd: folder,
      detached: true,
      stdio,
      ...(user === undefined || changesUser ? {} : { uid: user, gid: user }),
    },
    output,
    errors,
    closeEnds: () => close(input, output?.write, errors?.write),
    discard: () => close(output?.read, errors?.read),
  };
}

/** Connects the pipes of a started program. Returns its output. */
function connectPipes(
  child: ChildProcess,
  { secretInput, pipes = [] }: Program,
  { output, errors }: PreparedStart,
): { stdout: Readable; stderr: Readable } {
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
  return { stdout: reader(output, child.stdout), stderr: reader(errors, child.stderr) };
}

/** Contract: rejects if the program could not be started, and never resolves. */
function waitForStartError(file: string, child: ChildProcess): Promise<never> {
  return new Promise((_, reject) => {
    child.on("error", (error) => {
      if (child.pid === undefined) reject(createStartError(file, error));
    });
  });
}

/** Kills a process and its group. Contract: the process leads its group, as every process started here does. */
export function killProcessGroup({ pid }: Pick<ChildProcess, "pid">): void {
  if (pid === undefined) return;
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, "SIGKILL");
    } catch {
      // It has already exited.
    }
  }
}

function createStartError(file: string, error: unknown): SkillError {
  return new SkillError("sandbox-start-failed", {
    message: `${file} could not be started: ${getErrorMessage(error)}`,
    fix: "to see what is missing",
    commands: ["skillet doctor --sandbox"],
    cause: error,
  });
}

// The other end of a pipe is gone: the exit of the process explains why.
function ignoreError(): void {}

export interface ProgramResult {
  code: number | null;
  stdout: string;
  /** The end of its output, of both streams. */
  tail: string;
}

export interface ProgramOptions {
  signal?: AbortSignal | undefined;
  onLine?: ((line: string) => void) | undefined;
  env?: Readonly<Record<string, string>>;
  /** The working directory. */
  folder?: string;
  /**
   * The descriptor of the build lock, which the program inherits: no other build starts before the program has exited,
   * even if this process dies.
   */
  turn?: number | undefined;
}

/** The descriptor number of the build lock in a program that inherits it. */
export const TURN_DESCRIPTOR = 3;

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** The whole environment of a system program. */
export const SYSTEM_ENV: Readonly<Record<string, string>> = {
  PATH: SYSTEM_PATH,
  LC_ALL: "C",
  DEBIAN_FRONTEND: "noninteractive",
};

/** Runs a system program, or the program at an absolute path, until it exits or this process does. */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<ProgramResult> {
  const child = spawn(
    resolveSystemProgram("setpriv"),
    ["--pdeathsig", "KILL", "--", isAbsolute(program) ? program : resolveSystemProgram(program), ...args],
    {
      env: { ...SYSTEM_ENV, ...options.env },
      ...(options.folder === undefined ? {} : { cwd: options.folder }),
      detached: true,
      stdio: ["ignore", "pipe", "pipe", ...(options.turn === undefined ? [] : [options.turn])],
    },
  );
  return collectProgramResult(child, options);
}

export function resolveSystemProgram(program: string): string {
  const path = findSystemProgram(program);
  if (path !== undefined) return path;
  throw new SkillError("package-tools", {
    message: `${program} is not installed, and building system packages needs it`,
    fix: "to install it",
    commands: ["skillet doctor --fix"],
  });
}

/**
 * Collects the result of a process. Rejects if it cannot be started or is canceled, and then kills everything it
 * started. Contract: the process leads its group.
 */
export function collectProgramResult(child: ChildProcess, { signal, onLine }: ProgramOptions): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const stop = () => killProcessGroup(child);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    let stdout = "";
    let tail = "";
    child.stdout?.on("data", (chunk: string) => {
      stdout += chunk;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: string) => {
        tail = (tail + chunk).slice(-MAX_TAIL_LENGTH);
      });
      if (stream) forEachLine(stream, (line) => line.trim() !== "" && onLine?.(line));
    }
    child.on("error", (error) => finish(() => reject(error)));
    child.on("close", (code) =>
      finish(() =>
        signal?.aborted ? reject(createProgramCancelError(signal)) : resolve({ code, stdout, tail: tail.trim() }),
      ),
    );
    const finish = (end: () => void) => {
      signal?.removeEventListener("abort", stop);
      end();
    };
  });
}

const MAX_TAIL_LENGTH = 4096;

/** Calls `onLine` with each complete line of a stream. Sets the stream to text. */
export function forEachLine(stream: Readable, onLine: (line: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (rest + chunk).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
  stream.on("end", () => {
    if (rest !== "") onLine(rest);
  });
}

export function createProgramCancelError(signal: AbortSignal): SkillError {
  return new SkillError("package-aborted", {
    message: "the build of the system packages was canceled",
    fix: "nothing was kept: build again",
    cause: signal.reason,
  });
}

/** The descriptor that tells the start watch whether the host is alive. */
const START_WATCH_FD = 7;

/**
 * Shell text that starts a watch process, which ends the start of a sandbox if the host dies. It kills the process
 * group when descriptor 7 is closed, and exits when it reads a line from it. Bubblewrap's inner process waits for its
 * outer one before the kernel ties their ends together. If the outer one is killed before that, nothing else would end
 * the inner one, which is still in the group.
 */
export const START_WATCH_SCRIPT = `{ read -r started <&${START_WATCH_FD} || kill -9 0; } > /dev/null 2>&1 3<&- 4<&- 5<&- 6<&- & exec ${START_WATCH_FD}<&-`;

/** Ends the start watch. Contract: the sandbox's first process now ends with bubblewrap. */
export function stopStartWatch(child: ChildProcess): void {
  const stdio: readonly unknown[] = child.stdio;
  (stdio[START_WATCH_FD] as Writable | undefined)?.end("started\n");
}

/**
 * Resolves with true when the first process of a sandbox is tied to its parent's end, and with false if bubblewrap
 * exited before. Bubblewrap installs the system call filter in that process right after it has asked the kernel for
 * this tie.
 */
export async function waitUntilTied(first: () => number | undefined, child: ChildProcess): Promise<boolean> {
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  for (let tries = 0; !isOver() && !isTied(first()); tries++) await (tries < 100 ? nextTurn() : delay(1));
  return !isOver();
}

function isTied(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  ownFilterCount ??= countFilters("self") ?? 0;
  const count = countFilters(pid);
  return count === undefined || count > ownFilterCount; // Undefined: it has exited and needs no tie.
}

// A process inherits the filters of its parent.
let ownFilterCount: number | undefined;

/** Counts the system call filters of a process. Returns undefined if it has exited. */
function countFilters(pid: number | "self"): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const count = /^Seccomp_filters:\s*(\d+)/m.exec(status)?.[1];
    if (count !== undefined) return Number(count);
    return pid !== "self" && /^Seccomp:\s*2/m.test(status) ? 1 : 0; // Linux before 5.10 does not count them.
  } catch {
    return undefined;
  }
}

/**
 * Generous: the last process that sees a file system removes its files when it exits, which can take long.
 */
const END_TIMEOUT_MS = 30_000;
const POLL_MS = 2;

/**
 * Returns a function that kills a process and resolves when it is gone. Contract: the process exists when this is
 * called; the first process of a PID namespace exits after all others in it.
 */
export function createProcessEnder(pid: number): () => Promise<void> {
  const begun = readProcessState(pid)?.begun;
  const isRunning = () => {
    const now = readProcessState(pid);
    // Its PID may have been reused. A zombie counts as gone: the first process of a container may never collect its
    // exit code.
    return now !== undefined && now.begun === begun && now.state !== "Z" && now.state !== "X";
  };
  return async () => {
    const start = performance.now();
    const waited = () => performance.now() - start;
    for (let tries = 0; isRunning() && waited() < END_TIMEOUT_MS; tries++) {
      if (tries === 0) killPid(pid);
      // Usually it takes less time than the shortest timer.
      if (waited() < POLL_MS) await nextTurn();
      else await delay(waited() < 100 ? 1 : 10);
    }
  };
}

function killPid(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already exited.
  }
}

function readProcessState(pid: number): { state: string; begun: string } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The process name, in parentheses, may contain anything.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", begun: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}
