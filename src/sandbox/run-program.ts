import { type ChildProcess, spawn } from "node:child_process";
import { isAbsolute } from "node:path";
import type { Readable } from "node:stream";
import { SkillError } from "../errors/problem.ts";
import { findSystemProgram } from "../util/system.ts";
import { killProcessGroup } from "./process.ts";

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
