import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  constants,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { SandboxSettings } from "../config/limits.ts";
import { createFolder } from "../util/file-access.ts";
import { findSystemProgram, getUserHome, packageRoot } from "../util/system.ts";
import { findUvPrograms } from "./create-sandbox.ts";
import { PROBE_PROGRAM } from "./probe-program.ts";
import type { ProbeResult } from "./probes.ts";
import { getSandboxFolder, makeReadableFolder } from "./sandbox-folders.ts";

// Folders with the system's programs and settings, which every sandbox can read.
const SYSTEM_FOLDERS = ["/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib64"];

/** Decoys on the host that a probe would find if it escaped. */
export interface ProbeBait {
  /** Included in the environment and the command line of a process. */
  token: string;
  files: readonly string[];
  /** Folders that a sandbox's list of mounts must not name, except paths inside `namedFolders`. */
  hiddenFolders: readonly string[];
  namedFolders: readonly string[];
  /** The port on 127.0.0.1 and ::1. */
  port: number;
  abstractSocket: string;
  socket: string;
  /** Returns the number of incoming connections. */
  reached(): number;
  /** The folder with the probe's program, and a world-writable folder. */
  program: string;
  workspace: string;
  remove(): void;
}

export async function createProbeBait(home: string): Promise<ProbeBait> {
  const token = `bait-${randomUUID()}`;
  const programs = [process.execPath, ...findUvPrograms(getUserHome(process.env)).values()];
  const base = getSandboxFolder(home);
  makeReadableFolder(base);
  const folder = mkdtempSync(join(base, "probe-"));
  const program = join(folder, "program");
  const workspace = join(folder, "workspace");
  for (const path of [folder, program, workspace]) {
    createFolder(path);
    chmodSync(path, path === workspace ? 0o777 : 0o755);
  }
  writeFileSync(join(program, "probe.cjs"), PROBE_PROGRAM);
  chmodSync(join(program, "probe.cjs"), 0o644);

  const files = [home, getUserHome(process.env), tmpdir(), process.cwd()].map((path) =>
    join(path, `.skillet-${token}`),
  );
  const written = files.filter((path) => doesSucceed(() => writeFileSync(path, token, { mode: 0o644, flag: "wx" })));
  const neighbor = spawn("/bin/sleep", ["300"], { argv0: token, env: { SKILLET_BAIT: token }, stdio: "ignore" });
  neighbor.on("error", () => {});
  let count = 0;
  const socket = join(tmpdir(), `${token.slice(0, 24)}.sock`);
  const servers: Server[] = [];
  const listen = async (at: Parameters<Server["listen"]>[0]) => {
    const server = createServer((connection) => {
      count++;
      connection.destroy();
    });
    servers.push(server);
    await new Promise((resolve) => server.once("listening", resolve).once("error", resolve).listen(at));
    return server;
  };
  const address = (await listen({ host: "127.0.0.1", port: 0 })).address();
  const port = typeof address === "object" && address ? address.port : 0;
  await listen({ host: "::1", port });
  await listen({ path: socket });
  doesSucceed(() => chmodSync(socket, 0o777));
  if (process.platform === "linux") await listen({ path: `\0${token}` });
  return {
    token,
    files: written,
    hiddenFolders: [getUserHome(process.env), tmpdir(), process.cwd()].filter((path) => path !== "/"),
    namedFolders: [...SYSTEM_FOLDERS, base, ...programs.map((path) => dirname(realpathSync(path)))],
    port,
    abstractSocket: token,
    socket,
    reached: () => count,
    program,
    workspace,
    remove() {
      neighbor.kill("SIGKILL");
      for (const server of servers) server.close();
      for (const path of [...written, folder]) rmSync(path, { recursive: true, force: true });
    },
  };
}

/** Creates a world-writable named pipe and opens it for reading. Returns undefined if the system has no `mkfifo`. */
export function openNamedPipe(path: string): number | undefined {
  const program = findSystemProgram("mkfifo");
  if (program === undefined || spawnSync(program, [path], { env: {} }).status !== 0) return undefined;
  chmodSync(path, 0o666);
  return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
}

interface HostProcess {
  pid: number;
  /** User IDs on the host. */
  users: readonly number[];
}

/** Finds the host's processes with a text on their command line. Returns undefined if the system cannot list them. */
export function findHostProcesses(text: string): HostProcess[] | undefined {
  if (process.platform !== "linux") return undefined;
  return listPids()
    .filter((pid) => readProcFile(pid, "cmdline").includes(text))
    .map((pid) => ({ pid, users: readProcessUsers(pid) }));
}

/**
 * Waits until no process has the text on its command line. Resolves with the milliseconds it took, or undefined after
 * `maxMs`.
 */
export async function waitUntilGone(text: string, maxMs: number): Promise<number | undefined> {
  const start = performance.now();
  while (performance.now() - start < maxMs) {
    if (findHostProcesses(text)?.length === 0) return performance.now() - start;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return undefined;
}

function listPids(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

function readProcFile(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return ""; // It has already exited.
  }
}

function readProcessUsers(pid: number): number[] {
  const line = /^Uid:\s*(.*)$/m.exec(readProcFile(pid, "status"))?.[1];
  return line?.split(/\s+/).map(Number) ?? [];
}

function doesSucceed(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

/** The moments at which skillet is killed, by the number of the run's processes at that time. */
const KILL_MOMENTS = [
  { name: "no process remains when skillet is killed while a sandbox starts", processes: 2 },
  { name: "no process remains when skillet is killed while code runs", processes: 4 },
];

// Runs in the background, in its own session, and ignores signals.
const LINGERING_SCRIPT = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.2; done' "$1" > /dev/null 2>&1 < /dev/null &)
while :; do sleep 0.2; done`;

// The token is in a variable and not on this program's command line: only processes of the run have it there.
const HOST_PROGRAM = `const { module, settings, home, argv } = JSON.parse(process.env.SKILLET_PROBE);
const { createSandbox } = await import(module);
const limits = { seconds: 30, output: 1024, memory: 128 * 1024 * 1024, processes: 64, disk: 1024 * 1024 };
const sandbox = await createSandbox({ settings, home });
await sandbox.run({ argv, env: {}, folder: "/", mounts: [], network: [], limits }, { onOutput: () => true });`;

interface KilledHostOptions {
  settings: SandboxSettings;
  /** Skillet's own folder. */
  home: string;
  /** The file that exports `createSandbox`. Defaults to the one of this package. */
  module?: string | undefined;
}

/** Starts runs in other skillet processes, kills these, and looks for remaining processes of the runs. */
export async function probeKilledHost(options: KilledHostOptions): Promise<ProbeResult[]> {
  const root = packageRoot();
  const module = options.module ?? (root === undefined ? undefined : join(root, "dist", "sandbox.js"));
  const results: ProbeResult[] = [];
  for (const { name, processes } of KILL_MOMENTS) {
    const remaining = module === undefined ? undefined : await killHost({ ...options, module }, processes);
    const detail =
      remaining === undefined ? "its processes are not visible from outside" : remaining === 0 ? "" : "some still run";
    results.push({ id: "Q-15", name, holds: remaining === undefined ? undefined : remaining === 0, detail });
  }
  return results;
}

/**
 * Kills a host when its run has this many processes. Returns how many remain a second later, or undefined if there
 * never were as many.
 */
async function killHost(
  options: KilledHostOptions & { module: string },
  processes: number,
): Promise<number | undefined> {
  const token = `orphan-${randomUUID()}`;
  if (findHostProcesses(token) === undefined) return undefined;
  const probeOptions = { ...options, argv: ["/bin/sh", "-c", LINGERING_SCRIPT, "sh", token] };
  const host = spawn(process.execPath, ["--input-type=module", "-e", HOST_PROGRAM], {
    stdio: "ignore",
    env: { ...process.env, SKILLET_PROBE: JSON.stringify(probeOptions) },
  });
  let isOver = false;
  for (const event of ["exit", "error"]) host.once(event, () => (isOver = true));
  const countLeft = () => findHostProcesses(token)?.length ?? 0;
  const until = performance.now() + 10_000;
  let count = 0;
  while (!isOver && count < processes && performance.now() < until) {
    await setImmediate();
    count = countLeft();
  }
  host.kill("SIGKILL");
  const isGone = (await waitUntilGone(token, 1000)) !== undefined;
  const remaining = findHostProcesses(token) ?? [];
  for (const { pid } of remaining) killProcess(pid);
  if (count < processes) return undefined;
  return isGone ? 0 : remaining.length;
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has already exited.
  }
}

/** All checks, in the order in which they are reported. */
export const PROBE_CHECKS = {
  variables: ["Q-01", "code sees only its declared environment variables and the fixed ones"],
  "command-lines": ["Q-01", "no secret is on a command line that code can read"],
  "host-command-lines": ["Q-01", "no secret is on a command line that other users can read"],
  processes: ["Q-01", "code sees only its own processes"],
  descriptors: ["Q-01", "code inherits no open file of the host"],
  "two-files": ["Q-02", "two runs share no files"],
  "two-processes": ["Q-02", "two runs do not see each other's processes"],
  inotify: ["Q-02", "a run cannot exhaust inotify for the user's programs and other runs"],
  "two-ipc": ["Q-02", "two runs share no sockets, memory, queues or semaphores"],
  home: ["Q-13", "the home folder, the working directory and /tmp of the host are hidden"],
  "system-files": ["Q-13", "passwords, keys and root's home folder cannot be read"],
  "kernel-memory": ["Q-13", "the kernel's memory and its devices cannot be read"],
  sockets: ["Q-13", "no service of the host can be reached on a socket"],
  mounts: ["Q-13", "the list of mounts names only the documented paths of the host"],
  writes: ["Q-13", "the system, the skill and the kernel's settings cannot be changed"],
  user: ["Q-13", "code does not run as root, seen from outside"],
  capabilities: ["Q-13", "code has no capabilities"],
  "no-new-privileges": ["Q-13", "code cannot gain privileges by starting a program"],
  filter: ["Q-13", "the system calls of every process are filtered"],
  "system-calls": ["Q-13", "mount, ptrace, bpf, keyctl, io_uring and the like are refused"],
  "unknown-calls": ["Q-13", "system calls that are not on the allowlist return ENOSYS"],
  namespaces: ["Q-13", "code cannot create a namespace"],
  terminal: ["Q-13", "code cannot type into a terminal"],
  root: ["Q-13", "code cannot become another user or create a device"],
  "set-id": ["Q-13", "code cannot create a setuid or setgid program in the workspace"],
  level: ["Q-13", "the result reports the isolation of the code"],
  "loopback-4": ["Q-14", "127.0.0.1 of the host is out of reach"],
  "loopback-6": ["Q-14", "::1 of the host is out of reach"],
  metadata: ["Q-14", "the cloud's metadata service is out of reach"],
  internet: ["Q-14", "the internet is out of reach"],
  "abstract-socket": ["Q-14", "abstract sockets of the host are out of reach"],
  "unix-socket": ["Q-14", "unix sockets of the host are out of reach"],
  docker: ["Q-14", "the Docker service is out of reach"],
  devices: ["Q-14", "there is no network device except its own loopback"],
  families: ["Q-14", "VSOCK, netlink, packet and other sockets are refused"],
  reached: ["Q-14", "no connection arrived at the host's sockets"],
  timeout: ["Q-15", "a timeout ends every descendant within a second"],
  abort: ["Q-15", "an abort ends every descendant within a second"],
  output: ["Q-15", "too much output ends every descendant within a second"],
  tie: ["Q-15", "code cannot make the first process outlive its host"],
  memory: ["Q-17", "memory is limited"],
  "shared-mapping": ["Q-17", "memory that processes share is limited"],
  "system-v-memory": ["Q-17", "System V shared memory is limited"],
  "memory-file": ["Q-17", "files in memory are limited"],
  "socket-buffers": ["Q-17", "the kernel's memory for sockets is limited"],
  "open-files": ["Q-17", "the open files of a process are limited"],
  forks: ["Q-17", "the number of processes is limited"],
  disk: ["Q-17", "every writable folder is limited in size"],
  "file-size": ["Q-17", "the size of a file is limited"],
  "file-count": ["Q-17", "the number of files in memory is limited"],
} as const satisfies Record<string, readonly [id: string, name: string]>;

export type ProbeCheck = keyof typeof PROBE_CHECKS;
