export interface Question {
  /** Its path, as `systemProgram` found it. */
  file: string;
  args: readonly string[];
  /** All of its variables. */
  env: Readonly<Record<string, string>>;
  /** What it reads. A secret goes here: everybody on the machine sees arguments. */
  input?: string;
}

const LONGEST_WAIT_MS = 5000;
const LARGEST_ANSWER = 64 * 1024;

/** What a small program of the system's answers, while everything else waits; nothing when it fails or takes too long. Never for a skill's. */
export function askProgram({ file, args, env, input = "" }: Question): string | undefined {
  // Loaded when something is first asked: whoever keeps what was answered imports this too, and mostly never asks.
  const { execFileSync } = process.getBuiltinModule("node:child_process");
  try {
    return execFileSync(file, args, {
      env,
      input,
      cwd: "/",
      encoding: "utf8",
      timeout: LONGEST_WAIT_MS,
      killSignal: "SIGKILL",
      maxBuffer: LARGEST_ANSWER,
      stdio: ["pipe", "pipe", "ignore"],
    });
  } catch {
    return undefined;
  }
}
