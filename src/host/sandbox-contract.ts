import { join, relative } from "node:path";
import type { Duplex } from "node:stream";
import type { Problem } from "../errors/problem.ts";
import { isInside } from "../util/safe-path.ts";

/** Weakest first. `none` is only ever an operator's own choice. */
export const ISOLATION_LEVELS = ["none", "partial", "strong"] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** What a process may use. Each is enforced, and a result says how. */
export interface SandboxLimits {
  seconds: number;
  /** Bytes of output, both streams together. Contract: the caller's `onOutput` counts and decides; no sandbox does. */
  output: number;
  /** Bytes of memory. */
  memory: number;
  processes: number;
  /** Bytes of each folder it can write to, but for the workspace. */
  disk: number;
}

/** A host and a port that the operator opened: `api.example.com:443`, `127.0.0.1:5432`, `[::1]:80`. */
export interface Endpoint {
  host: string;
  port: number;
}

export interface Mount {
  /** A real path of the host. */
  from: string;
  to: string;
  access: "read" | "read-write";
}

/** A way to ask the host: a unix socket for one command alone. */
export interface SandboxSocket {
  /** Where it is for the code, and the variable that says so. */
  to: string;
  variable: string;
  /** Contract: does not throw, and answers for itself: a connection can end at any time. */
  onConnection(connection: Duplex): void;
}

/** What to run, and everything that it gets. What is not named here it does not have. */
export interface SandboxCommand {
  /** The program and its arguments; no shell is put in between. */
  argv: readonly [string, ...string[]];
  /** Its variables, beside the fixed ones (`FIXED_VARIABLES`). */
  env: Readonly<Record<string, string>>;
  /** Where it starts, as it sees it. */
  folder: string;
  mounts: readonly Mount[];
  /** The root of a system of its own, in place of the host's /usr. */
  root?: string;
  network: readonly Endpoint[];
  doors?: readonly SandboxSocket[];
  /** Whom it runs as outside of its own view, where the caller is root; a user of its own when left out. Never root. */
  user?: number;
  limits: SandboxLimits;
  stdin?: string;
}

/** How a process was kept apart. Stands in every result. */
export interface Isolation {
  level: IsolationLevel;
  by: string;
  /** What bounds memory and processes: the whole tree (a cgroup, a container), each process for itself, or nothing. */
  bounds: "tree" | "process" | "none";
  /** What bounds each resource; left out where the sandbox bounds none of them itself. */
  resources?: Readonly<Record<LimitedResource, ResourceBound>>;
}

/** Memory of all processes together, what the kernel holds for sockets, open files of a process, inotify, and files in /tmp and the like. */
export type LimitedResource = "memory" | "sockets" | "descriptors" | "inotify" | "files";

/** The kernel refuses more; the host looks every 100 ms and ends the run; the calls are refused; nothing. */
export type ResourceBound = "kernel" | "watched" | "refused" | "none";

/** Why it ended: by itself, or stopped by the host, and over what. */
export type ProcessEnding = "exit" | "timeout" | "abort" | "output" | "memory";

export interface SandboxOutcome {
  /** As a shell gives it: 128 and the signal's number when one ended it. None when the host stopped it. */
  exitCode: number | undefined;
  /** The signal that ended it, by all appearances. */
  signal: string | undefined;
  ending: ProcessEnding;
  ms: number;
  isolation: Isolation;
  notices?: readonly Problem[];
}

export type ProcessStream = "stdout" | "stderr";

export interface SandboxRunOptions {
  /** Called with each piece as it comes. Contract: false means that it is too much, and ends the run; does not throw. */
  onOutput(stream: ProcessStream, bytes: Buffer): boolean;
  signal?: AbortSignal;
  /** For how many milliseconds somebody was being asked since it began: that is not its time. */
  waited?(): number;
  /** Called when everything is mounted, before code runs. Only bubblewrap calls it. Contract: does not throw. */
  onMounted?(): void;
}

/** A path that code in a sandbox sees, with everything below it. */
export interface SandboxPath {
  path: string;
  access: "read" | "read-write";
  /** The real path of the host; left out where the sandbox makes the path itself. */
  from?: string;
}

/** One way to keep a process apart. Every one passes the same suite (`test/sandbox/contract.ts`). */
export interface Sandbox {
  readonly level: IsolationLevel;
  /** `bubblewrap`, `docker`, `podman`, `seatbelt`, `none`. */
  readonly by: string;
  /** Whether what is mounted is seen where it is mounted to, and not where it really is. */
  readonly mapsPaths: boolean;
  /** Whose programs code sees: the host's, or those of an image. */
  readonly system: "host" | "own";
  /** Lists every path that code of this command would see. Left out by a sandbox that cannot tell. */
  paths?(command: Pick<SandboxCommand, "env" | "folder" | "mounts" | "root" | "limits">): readonly SandboxPath[];
  /** Contract: a new sandbox each time, nothing of which is left when it resolves. Throws a SkillError when it cannot be started. */
  run(command: SandboxCommand, options: SandboxRunOptions): Promise<SandboxOutcome>;
}

/** A path of a mount's `to` side as code in this sandbox has to write it. */
export function mapSandboxPath(sandbox: Sandbox, mounts: readonly Mount[], path: string): string {
  if (sandbox.mapsPaths) return path;
  const mount = mounts.find(({ to }) => isInside(to, path));
  return mount ? join(mount.from, relative(mount.to, path)) : path;
}

/** Where the workspace is for the code in a sandbox, where it is let in. */
export const WORKSPACE_FOLDER = "/workspace";
export const HOME_FOLDER = "/home/skill";

/** What every process has, whatever it declares. */
export const FIXED_VARIABLES: Readonly<Record<string, string>> = {
  PATH: "/opt/skillet/bin:/usr/local/bin:/usr/bin:/bin",
  HOME: HOME_FOLDER,
  TMPDIR: "/tmp",
  LANG: "C.UTF-8",
};
