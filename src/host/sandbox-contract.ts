import type { Duplex } from "node:stream";
import type { Problem } from "../errors/problem.ts";

/** Weakest first. `none` must be chosen explicitly by the operator. */
export const ISOLATION_LEVELS = ["none", "partial", "strong"] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** The resource limits of a process. Each is enforced, and the result reports by which mechanism. */
export interface SandboxLimits {
  seconds: number;
  /** Bytes of output, both streams together. Contract: the caller's `onOutput` counts and decides; no sandbox does. */
  output: number;
  /** Bytes of memory. */
  memory: number;
  processes: number;
  /** Bytes of each writable folder, except the workspace. */
  disk: number;
}

/** A host and port on the network allowlist: `api.example.com:443`, `127.0.0.1:5432`, `[::1]:80`. */
export interface Endpoint {
  host: string;
  port: number;
}

export interface Mount {
  /** A real path on the host. */
  from: string;
  to: string;
  access: "read" | "read-write";
}

/** A Unix socket to the host, bound into the sandbox of one command. */
export interface SandboxSocket {
  /** Its path in the sandbox, and the environment variable that contains the path. */
  path: string;
  variable: string;
  /** Contract: does not throw, and handles its own errors: a connection can end at any time. */
  onConnection(connection: Duplex): void;
}

/** A command and everything that it can access. Anything not listed here is not available to it. */
export interface SandboxCommand {
  /** The program and its arguments, started without a shell. */
  argv: readonly [string, ...string[]];
  /** Its environment variables, in addition to `FIXED_VARIABLES`. */
  env: Readonly<Record<string, string>>;
  /** Its working directory, as a path in the sandbox. */
  folder: string;
  mounts: readonly Mount[];
  /** The root of a separate system, used instead of the host's /usr. */
  root?: string;
  network: readonly Endpoint[];
  sockets?: readonly SandboxSocket[];
  /** The host user id of the process if the caller is root. Defaults to a dedicated user. Never root. */
  user?: number;
  limits: SandboxLimits;
  stdin?: string;
}

/** The isolation of a process. Part of every result. */
export interface Isolation {
  level: IsolationLevel;
  by: string;
  /** The scope of the memory and process limits: the whole tree (a cgroup, a container), each process, or none. */
  bounds: "tree" | "process" | "none";
  /** The mechanism that limits each resource. Omitted if the sandbox enforces none itself. */
  resources?: Readonly<Record<LimitedResource, ResourceBound>>;
}

/** Memory of all processes, kernel memory of sockets, open files of a process, inotify, and files in /tmp and similar folders. */
export type LimitedResource = "memory" | "sockets" | "descriptors" | "inotify" | "files";

/** `kernel`: the kernel refuses more. `watched`: the host checks every 100 ms and ends the run. `refused`: the system calls are blocked. */
export type ResourceBound = "kernel" | "watched" | "refused" | "none";

/** The reason why a process ended: `exit` by itself, otherwise stopped by the host. */
export type ProcessEnding = "exit" | "timeout" | "abort" | "output" | "memory";

export interface SandboxOutcome {
  /** The exit code as in a shell: 128 plus the signal number if a signal ended it. Undefined if the host stopped it. */
  exitCode: number | undefined;
  /** The signal that probably ended it. */
  signal: string | undefined;
  ending: ProcessEnding;
  ms: number;
  isolation: Isolation;
  notices?: readonly Problem[];
}

export type ProcessStream = "stdout" | "stderr";

export interface SandboxRunOptions {
  /** Called with each chunk of output. Contract: does not throw; returning false ends the run, because the output limit is reached. */
  onOutput(stream: ProcessStream, bytes: Buffer): boolean;
  signal?: AbortSignal;
  /** Returns the milliseconds spent waiting for the user since the start. They do not count towards the time limit. */
  getWaitedMs?(): number;
  /** Called after all mounts, before code runs. Only bubblewrap calls it. Contract: does not throw. */
  onMounted?(): void;
}

/** A path that code in a sandbox sees, with everything below it. */
export interface SandboxPath {
  path: string;
  access: "read" | "read-write";
  /** The real path on the host. Omitted if the sandbox creates the path itself. */
  from?: string;
}

/** An implementation of process isolation. Every implementation passes the same suite (`test/sandbox/contract.ts`). */
export interface Sandbox {
  readonly level: IsolationLevel;
  /** `bubblewrap`, `docker`, `podman`, `seatbelt`, `none`. */
  readonly by: string;
  /** True if code sees mounts at their target path, false if it sees the real path. */
  readonly mapsPaths: boolean;
  /** `host`: code sees the host's programs. `own`: it sees those of an image. */
  readonly system: "host" | "own";
  /** Lists every path that is visible to this command. Undefined if the sandbox does not know. */
  paths?(command: Pick<SandboxCommand, "env" | "folder" | "mounts" | "root" | "limits">): readonly SandboxPath[];
  /** Runs a command. Contract: each run has a new sandbox, which is removed when it resolves. Throws a SkillError if it cannot be started. */
  run(command: SandboxCommand, options: SandboxRunOptions): Promise<SandboxOutcome>;
}

/** The path of the workspace in a sandbox, if it is mounted. */
export const WORKSPACE_FOLDER = "/workspace";
export const HOME_FOLDER = "/home/skill";

/** The environment variables of every process. */
export const FIXED_VARIABLES: Readonly<Record<string, string>> = {
  PATH: "/opt/skillet/bin:/usr/local/bin:/usr/bin:/bin",
  HOME: HOME_FOLDER,
  TMPDIR: "/tmp",
  LANG: "C.UTF-8",
};
