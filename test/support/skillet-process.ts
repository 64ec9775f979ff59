/**
 * The command line in a separate process: one that runs next to others, as another user, or is killed in between. A test starts it with
 * `runSkilletProcess()`; the code that it runs never imports it.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Ran } from "./command.ts";
import { asOrdinaryUser } from "./ordinary-user.ts";
import { PROGRAM, SHARED_CODE } from "./program.ts";

const START = join(import.meta.dirname, "start-skillet.mjs");

export interface Starting {
  cwd: string;
  env: Record<string, string>;
  /** True to run it as a user other than root. */
  isOrdinary?: boolean;
  /** Kills it after so long: only turns a hang into a failure. */
  deadlineMs?: number;
  /** Kills itself right before its nth rename, counted from 1. */
  killBeforeRename?: number;
  /** Kills it when this is aborted. */
  killOn?: AbortSignal;
  /** Sends SIGTERM when this is aborted. */
  endOn?: AbortSignal | undefined;
  onOutput?: ((text: string) => void) | undefined;
}

export async function runSkilletProcess(
  args: readonly string[],
  { cwd, env, isOrdinary = false, killBeforeRename = 0, deadlineMs, killOn, endOn, onOutput }: Starting,
): Promise<Ran & { signal: string | null }> {
  const drop = isOrdinary ? asOrdinaryUser() : [];
  const [program = "", ...rest] = [...drop, process.execPath, START, ...args];
  const child = spawn(program, rest, {
    cwd,
    env: {
      PATH: "/usr/bin:/bin",
      ...SHARED_CODE,
      ...env,
      KILL_BEFORE_RENAME: String(killBeforeRename),
      SKILLET_TEST_PROGRAM: PROGRAM,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const deadline = deadlineMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), deadlineMs);
  killOn?.addEventListener("abort", () => child.kill("SIGKILL"));
  endOn?.addEventListener("abort", () => child.kill("SIGTERM"));
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (bytes) => {
    stdout += bytes;
    onOutput?.(String(bytes));
  });
  child.stderr.on("data", (bytes) => {
    stderr += bytes;
  });
  return new Promise((resolve) =>
    child.on("close", (code, signal) => {
      clearTimeout(deadline);
      resolve({ code: code ?? -1, signal, stdout, stderr });
    }),
  );
}
