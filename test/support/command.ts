import { main } from "../../src/cli/main.ts";
import type { CommandIo } from "../../src/cli/output.ts";
import { temporaryFolder } from "./folder.ts";

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunOptions {
  cwd?: string;
  env?: Record<string, string>;
  isTTY?: boolean;
  columns?: number;
  signal?: AbortSignal;
  onOutput?: (text: string) => void;
  onStderr?: (text: string) => void;
  /** The user's answers at the terminal. */
  ask?: (question: string) => Promise<string>;
  /** Standard input from a pipe. */
  stdin?: string;
}

/** Calls the command line as a function, in its own home and without this machine's environment. */
export async function skillet(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const home = options.env?.["HOME"] ?? temporaryFolder();
  let stdout = "";
  let stderr = "";
  const { isTTY = false, columns = 100 } = options;
  const io: CommandIo = {
    stdout: {
      isTTY,
      columns,
      write(text) {
        stdout += text;
        options.onOutput?.(text);
      },
    },
    stderr: {
      isTTY,
      columns,
      write(text) {
        stderr += text;
        options.onStderr?.(text);
      },
    },
    env: { HOME: home, ...options.env },
    cwd: options.cwd ?? home,
    ...(options.ask ? { ask: options.ask } : {}),
    ...(options.stdin === undefined ? {} : { stdin: async () => options.stdin ?? "" }),
    interrupted: () =>
      new Promise((resolve) => {
        options.signal?.addEventListener("abort", () => resolve());
        if (options.signal?.aborted) resolve();
      }),
  };
  const code = await main(args, io);
  return { code, stdout, stderr };
}
