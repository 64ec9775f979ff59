import { type ChildProcess, spawn } from "node:child_process";
import { isAbsolute } from "node:path";
import type { Readable } from "node:stream";
import { SkillError } from "../errors/problem.ts";
import { findSystemProgram } from "../util/system.ts";
import { killProcessGroup } from "./process.ts";

export interface ProgramResult {
  code: number | null;
  stdout: string;
  /** What it said last, on both streams. */
  tail: string;
}

export interface ProgramOptions {
  signal?: AbortSignal | undefined;
  onLine?: ((line: string) => void) | undefined;
  env?: Readonly<Record<string, string>>;
  /** Where it starts. */
  folder?: string;
  /** The builder's turn, which the program has too: nobody else builds before it has ended, whatever becomes of this process. */
  turn?: number | undefined;
}

/** Which of its open files is the turn that a program was given. */
export const TURN_DESCRIPTOR = 3;

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** All that a program of the system is told of this one. */
export const SYSTEM_ENV: Readonly<Record<string, string>> = {
  PATH: SYSTEM_PATH,
  LC_ALL: "C",
  DEBIAN_FRONTEND: "noninteractive",
};

/** Runs a program of the system, or the one at a whole path, to its end, or to that of this process. */
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
    message: `${program} is needed to build system packages, and is not on this machine`,
    fix: "`skillet doctor --fix` installs it",
  });
}

/**
 * What came of a process. Rejects when it cannot be started or is called off; nothing of it is left then.
 * Contract: it leads its group, so that what it started ends with it.
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

/** Gives the lines of a stream, each whole, however they come in. The stream is text from then on. */
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
    message: "building the system packages was called off",
    fix: "nothing of it is left: build again",
    cause: signal.reason,
  });
}
