import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type {
  IsolationLevel,
  ProcessStream,
  Sandbox,
  SandboxCommand,
  SandboxOutcome,
} from "../../src/host/sandbox-contract.ts";

/** One promise of every sandbox. No test framework here: an ordinary user runs them too (`test/support/as-user.ts`). */
export interface Check {
  title: string;
  /** The lowest level that claims it. */
  level: IsolationLevel;
  check(scene: Scene): Promise<void>;
}

export interface Ran extends SandboxOutcome {
  stdout: string;
  stderr: string;
  bytes: Buffer;
}

export interface RunOptions extends Partial<Omit<SandboxCommand, "limits">> {
  limits?: Partial<SandboxCommand["limits"]>;
  signal?: AbortSignal;
  onOutput?: (stream: ProcessStream, bytes: Buffer) => boolean;
}

export interface Scene {
  sandbox: Sandbox;
  /** Node, as the sandbox sees it. */
  node: string;
  run(argv: SandboxCommand["argv"], options?: RunOptions): Promise<Ran>;
  shell(text: string, options?: RunOptions & { args?: string[] }): Promise<Ran>;
  /** Creates a folder that code can read; writable on request. */
  folder(files?: Record<string, string>, isWritable?: boolean): string;
  end(): void;
}

export const MIB = 1024 * 1024;
export const LIMITS = { seconds: 40, output: MIB, memory: 256 * MIB, processes: 64, disk: 4 * MIB };

export function sceneFor(sandbox: Sandbox): Scene {
  const folders: string[] = [];
  const run: Scene["run"] = async (argv, { limits, signal, onOutput, ...command } = {}) => {
    const said: Record<ProcessStream, Buffer[]> = { stdout: [], stderr: [] };
    const outcome = await sandbox.run(
      { argv, env: {}, folder: "/", mounts: [], network: [], ...command, limits: { ...LIMITS, ...limits } },
      {
        onOutput(stream, bytes) {
          said[stream].push(bytes);
          return onOutput?.(stream, bytes) ?? true;
        },
        ...(signal === undefined ? {} : { signal }),
      },
    );
    const bytes = Buffer.concat(said.stdout);
    return { ...outcome, bytes, stdout: bytes.toString(), stderr: Buffer.concat(said.stderr).toString() };
  };
  return {
    sandbox,
    node: sandbox.system === "own" ? "node" : sandbox.mapsPaths ? "/opt/skillet/bin/node" : process.execPath,
    run,
    shell: (text, { args = [], ...options } = {}) => run(["/bin/sh", "-c", text, "sh", ...args], options),
    folder(files = {}, isWritable = false) {
      const folder = mkdtempSync(join(tmpdir(), "skillet-check-"));
      folders.push(folder);
      chmodSync(folder, isWritable ? 0o777 : 0o755);
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o755 });
      return folder;
    },
    end() {
      for (const folder of folders) rmSync(folder, { recursive: true, force: true });
    },
  };
}
