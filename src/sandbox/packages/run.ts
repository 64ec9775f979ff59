import { type ChildProcess, spawn } from "node:child_process";
import { isAbsolute } from "node:path";
import type { Readable } from "node:stream";
import { systemProgram } from "../../host/programs.ts";
import { SkillError } from "../../shared/error.ts";
import { killGroup } from "../process.ts";

export interface Result {
  code: number | null;
  stdout: string;
  /** What it said last, on both streams. */
  tail: string;
}

export interface RunOptions {
  signal?: AbortSignal | undefined;
  onLine?: ((line: string) => void) | undefined;
  env?: Readonly<Record<string, string>>;
  /** Where it starts. */
  folder?: string;
  /** The builder's turn, which the program has too: nobody else builds before it has ended, whatever becomes of this process. */
  turn?: number | undefined;
}

/** Which of its open files is the turn that a program was given. */
export const TURN = 3;

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** All that a program of the system is told of this one. */
export const PLAIN: Readonly<Record<string, string>> = { PATH, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };

/** Runs a program of the system, or the one at a whole path, to its end, or to that of this process. */
export async function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<Result> {
  const child = spawn(
    toolPath("setpriv"),
    ["--pdeathsig", "KILL", "--", isAbsolute(program) ? program : toolPath(program), ...args],
    {
      env: { ...PLAIN, ...options.env },
      ...(options.folder === undefined ? {} : { cwd: options.folder }),
      detached: true,
      stdio: ["ignore", "pipe", "pipe", ...(options.turn === undefined ? [] : [options.turn])],
    },
  );
  return resultOf(child, options);
}

export function toolPath(program: string): string {
  const path = systemProgram(program);
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
export function resultOf(child: ChildProcess, { signal, onLine }: RunOptions): Promise<Result> {
  return new Promise((resolve, reject) => {
    const stop = () => killGroup(child);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    let stdout = "";
    let tail = "";
    child.stdout?.on("data", (chunk: string) => {
      stdout += chunk;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: string) => {
        tail = (tail + chunk).slice(-LONGEST_TAIL);
      });
      if (stream) eachLine(stream, (line) => line.trim() !== "" && onLine?.(line));
    }
    child.on("error", (error) => finish(() => reject(error)));
    child.on("close", (code) =>
      finish(() => (signal?.aborted ? reject(calledOff(signal)) : resolve({ code, stdout, tail: tail.trim() }))),
    );
    const finish = (end: () => void) => {
      signal?.removeEventListener("abort", stop);
      end();
    };
  });
}

const LONGEST_TAIL = 4096;

/** Gives the lines of a stream, each whole, however they come in. The stream is text from then on. */
export function eachLine(stream: Readable, onLine: (line: string) => void): void {
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

export function calledOff(signal: AbortSignal): SkillError {
  return new SkillError("package-aborted", {
    message: "building the system packages was called off",
    fix: "nothing of it is left: build again",
    cause: signal.reason,
  });
}
