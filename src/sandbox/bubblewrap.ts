import type { ChildProcess } from "node:child_process";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { resolve } from "node:path";
import { SkillError } from "../errors/problem.ts";
import {
  FIXED_VARIABLES,
  HOME_FOLDER,
  type Mount,
  type Sandbox,
  type SandboxCommand,
  type SandboxOutcome,
  type SandboxPath,
  type SandboxRunOptions,
} from "../host/sandbox-contract.ts";
import { isInside } from "../util/safe-path.ts";
import { type Cgroup, createCgroup } from "./cgroup.ts";
import {
  createProcessEnder,
  getExitSignal,
  killProcessGroup,
  type Program,
  runProcess,
  START_WATCH_SCRIPT,
  stopStartWatch,
  waitUntilTied,
} from "./process.ts";
import { type CountedStart, createCountedStart, createPrlimitArguments, watchProcessTree } from "./resource-limits.ts";
import { isRunUser } from "./sandbox-folders.ts";
import { type OpenedNetwork, openNetwork, openSandboxSockets } from "./sandbox-network.ts";
import { createSeccompFilter, type SeccompOptions } from "./seccomp.ts";

export interface BubblewrapOptions {
  /** The path of bubblewrap. */
  program: string;
  /**
   * Returns the user ID that code runs as outside its namespace if the caller is root: never root, and never an
   * account's.
   */
  user?: () => number;
  /** Mounts that every sandbox has in addition to those of the command. */
  mounts?: readonly Mount[];
  /** False disables cgroups, as on a machine where none can be created. */
  cgroups?: boolean;
  /** Starts bubblewrap so that it cannot exhaust its user's inotify limits. Detected by default. */
  count?: CountedStart;
}

/** Creates the Linux sandbox: bubblewrap with its own namespaces for everything, and a system call filter. */
export function createBubblewrapSandbox(options: BubblewrapOptions): Sandbox {
  const known: MachineFacts = { canDivide: options.cgroups !== false, counted: options.count ?? createCountedStart() };
  return {
    level: "strong",
    by: "bubblewrap",
    mapsPaths: true,
    system: "host",
    paths: (command) => listSandboxPaths(createBubblewrapArguments(command, options.mounts)),
    async run(command, runOptions) {
      const user = options.user && (command.user || options.user());
      const at = { folder: tmpdir(), ...(user === undefined ? {} : { owner: { uid: user, gid: user } }) };
      const ownCommand = { ...command, ...(user === undefined ? {} : { user }) };
      const sockets = ownCommand.sockets && (await openSandboxSockets(ownCommand, { ...at, mapsPaths: true }));
      const prepared = sockets?.command ?? ownCommand;
      let network: OpenedNetwork | undefined;
      try {
        if (command.network.length > 0) {
          network = await openNetwork(prepared, { ...at, node: "/opt/skillet/bin/node" });
        }
        for (;;) {
          const attempt = new BubblewrapAttempt(network?.command ?? prepared, runOptions, options, known);
          try {
            const outcome = attempt.resolve(await runProcess(attempt.program, command.limits.seconds, attempt.options));
            if (!outcome) continue;
            const notices = [...(outcome.notices ?? []), ...(network?.notices ?? [])];
            return notices.length === 0 ? outcome : { ...outcome, notices };
          } finally {
            await attempt.close();
          }
        }
      } finally {
        await network?.close();
        await sockets?.close();
      }
    },
  };
}

/** What an attempt finds out about the machine. */
interface MachineFacts {
  /** True until a cgroup could not be joined. */
  canDivide: boolean;
  counted: CountedStart | undefined;
}

/** One attempt to run a command: with everything that this machine is thought to support. */
class BubblewrapAttempt {
  readonly program: Program;
  readonly options: SandboxRunOptions;
  readonly #known: MachineFacts;
  readonly #runOptions: SandboxRunOptions;
  readonly #cgroup: Cgroup | undefined;
  readonly #count: CountedStart | undefined;
  readonly #isolation: SandboxOutcome["isolation"];
  readonly #started: BubblewrapParts["started"] = { status: "", isInside: false, isTooLarge: false };
  /** Output of the programs that set up the sandbox. */
  readonly #setupOutput: Buffer[] = [];

  constructor(command: SandboxCommand, runOptions: SandboxRunOptions, options: BubblewrapOptions, known: MachineFacts) {
    // A user without an account shares no resource counts with other programs.
    const count = runsAsAccount(command, options) ? known.counted : undefined;
    const allowsInotify = count !== undefined || !runsAsAccount(command, options);
    const cgroup = known.canDivide ? createCgroup(command.limits) : undefined;
    const filter = getSeccompFilter({ isCounted: cgroup !== undefined, allowsInotify });
    if (!filter) throw createArchitectureError();
    const { onMounted } = runOptions;
    const started = this.#started;
    this.#known = known;
    this.#runOptions = runOptions;
    this.#cgroup = cgroup;
    this.#count = count;
    const resources = describeResources(cgroup !== undefined, allowsInotify);
    this.#isolation = { level: "strong", by: "bubblewrap", bounds: cgroup ? "tree" : "process", resources };
    try {
      this.program = createBubblewrapProgram(command, options, { filter, cgroup, count, started, onMounted });
    } catch (error) {
      void this.close();
      throw error;
    }
    this.options = {
      ...runOptions,
      onOutput: (stream, bytes) => {
        if (stream === "stdout" || started.isInside) return runOptions.onOutput(stream, bytes);
        this.#setupOutput.push(bytes); // A second attempt may still succeed.
        return true;
      },
    };
  }

  /** Returns the outcome; undefined if no code has run yet and the machine needs another attempt. Throws if the sandbox could not start. */
  resolve(outcome: Omit<SandboxOutcome, "isolation">): SandboxOutcome | undefined {
    const { isInside, status, isTooLarge } = this.#started;
    const isStarted = isInside || status !== "";
    if (this.#cgroup && outcome.exitCode === CGROUP_JOIN_FAILED && !isStarted) {
      this.#known.canDivide = false;
      return undefined;
    }
    if (this.#count && outcome.ending === "exit" && !isStarted) {
      this.#known.counted = undefined;
      return undefined;
    }
    const setupOutput = Buffer.concat(this.#setupOutput);
    if (outcome.ending === "exit" && !isInside && !status.includes("exit-code"))
      throw createStartError(setupOutput.toString());
    if (!isInside && setupOutput.length > 0) this.#runOptions.onOutput("stderr", setupOutput);
    if (isTooLarge && outcome.ending === "exit") return { ...outcome, ...OUT_OF_MEMORY, isolation: this.#isolation };
    return resolveOutcome(outcome, this.#cgroup, this.#isolation);
  }

  /** Ends what is left of it. */
  async close(): Promise<void> {
    this.#started.unwatch?.();
    this.#cgroup?.kill();
    await this.#started.end?.();
    await this.#cgroup?.remove();
  }
}

/** Returns true if the code runs as a user who has other programs whose resources it could exhaust. */
function runsAsAccount({ user }: SandboxCommand, options: BubblewrapOptions): boolean {
  return options.user === undefined || user === undefined || !isRunUser(user);
}

const filterCache = new Map<string, Buffer | undefined>();

function getSeccompFilter(options: SeccompOptions): Buffer | undefined {
  const key = JSON.stringify(options);
  if (!filterCache.has(key)) filterCache.set(key, createSeccompFilter(process.arch, options));
  return filterCache.get(key);
}

function describeResources(
  isCounted: boolean,
  allowsInotify: boolean,
): NonNullable<SandboxOutcome["isolation"]["resources"]> {
  const memory = isCounted ? "kernel" : "watched";
  return {
    memory,
    sockets: memory,
    descriptors: "kernel",
    inotify: allowsInotify ? "kernel" : "refused",
    files: "watched",
  };
}

interface BubblewrapParts {
  filter: Buffer;
  cgroup: Cgroup | undefined;
  count: CountedStart | undefined;
  onMounted: SandboxRunOptions["onMounted"];
  /**
   * Bubblewrap's status output, whether setup is complete, and whether the code exceeded its memory without a cgroup.
   */
  started: {
    status: string;
    isInside: boolean;
    isTooLarge: boolean;
    first?: number | undefined;
    unwatch?: () => void;
    /** Resolves when no process of the sandbox remains. */
    end?: () => Promise<void>;
  };
}

function createBubblewrapProgram(command: SandboxCommand, options: BubblewrapOptions, parts: BubblewrapParts): Program {
  const { filter, cgroup, count, started, onMounted } = parts;
  const onStatus = (bytes: Buffer) => {
    started.status += bytes;
    if (started.first !== undefined) return;
    const first = Number(/"child-pid":\s*(\d+)/.exec(started.status)?.[1]) || undefined;
    started.first = first;
    if (first !== undefined) started.end = createProcessEnder(first);
  };
  // Not earlier: until bubblewrap is done, its process still sees the host's folders with all their files.
  const onInside = (child: ChildProcess) => {
    started.isInside = true;
    started.unwatch = watchProcessTree({
      getFirstPid: () => started.first,
      limits: command.limits,
      mounts: command.mounts,
      isCounted: cgroup !== undefined,
      onExceeded() {
        started.isTooLarge = true;
        killNamespace(child, started.first);
      },
    });
  };
  const { user } = command;
  const limited = limitCommand(command, cgroup !== undefined);
  const bubblewrap = [options.program, "--args", "3", "--", ...limited];
  return {
    ...createStartCommand(bubblewrap, { cgroup, count, user }),
    // Sandboxed code can read bubblewrap's environment, and the loader would act on it. The code's own variables are
    // passed as arguments.
    env: {},
    ...(user === undefined ? {} : { user }),
    ...(command.stdin === undefined ? {} : { stdin: command.stdin }),
    pipes: [
      Buffer.from(`${createBubblewrapArguments(command, options.mounts).join("\0")}\0`),
      filter,
      (pipe) => pipe.on("data", onStatus),
      (pipe, child) =>
        pipe.once("data", async () => {
          if (!(await waitUntilTied(() => started.first, child))) return; // No later event would end the watch of a tree that is gone.
          onInside(child);
          onMounted?.();
          stopStartWatch(child);
          pipe.end("go\n");
        }),
      (pipe, child) => child.once("exit", () => pipe.resume().end()),
    ],
    kill(child) {
      killNamespace(child, started.first);
      cgroup?.kill();
    },
  };
}

interface StartParts extends Pick<BubblewrapParts, "cgroup" | "count"> {
  user: number | undefined;
}

/**
 * Returns the command that starts the watch, joins the cgroup, switches to the run's user and starts bubblewrap. One
 * shell does as many of these steps as it can.
 */
function createStartCommand(bubblewrap: readonly string[], { cgroup, count, user }: StartParts) {
  if (!cgroup) {
    const [file = "", ...args] = count
      ? count(bubblewrap, START_WATCH_SCRIPT)
      : ["/bin/sh", "-c", `${START_WATCH_SCRIPT}; exec "$@"`, "sh", ...bubblewrap];
    return { file, args };
  }
  const { procsFiles } = cgroup;
  const enter = procsFiles.map((_, index) => `echo 0 > "$${index + 1}"`).join(" && ");
  const script = `${START_WATCH_SCRIPT}; { ${enter}; } 2>/dev/null || exit ${CGROUP_JOIN_FAILED}; shift ${procsFiles.length}; exec "$@"`;
  const become = ["/usr/bin/setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", "--"];
  const wrapped = count ? count(bubblewrap) : bubblewrap;
  const args = ["-c", script, "sh", ...procsFiles, ...(user === undefined ? [] : become), ...wrapped];
  return { file: "/bin/sh", args, changesUser: true };
}

const CGROUP_JOIN_FAILED = 113;

/**
 * Kills the first process of the namespace, which ends all others. It is killed before bubblewrap, which keeps its PID
 * from being reused.
 */
function killNamespace(child: ChildProcess, first: number | undefined): void {
  try {
    if (first !== undefined && first > 1) process.kill(first, "SIGKILL");
  } catch {
    // It has already exited.
  }
  killProcessGroup(child);
}

/** Creates bubblewrap's arguments, which it reads from descriptor 3: every user can read a command line. */
export function createBubblewrapArguments(
  command: Pick<SandboxCommand, "env" | "folder" | "mounts" | "root" | "limits">,
  common: readonly Mount[] = [],
): string[] {
  const { limits, root, folder } = command;
  const { disk } = limits;
  const list = [
    "--clearenv",
    ...Object.entries({ ...FIXED_VARIABLES, ...command.env }).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"],
    ...["--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"],
    ...["--uid", "1000", "--gid", "1000", "--hostname", "skill"],
    ...(root === undefined ? createHostSystemMounts() : ["--ro-bind", root, "/"]),
    ...["--proc", "/proc", "--dev", "/dev"],
    ...createTmpfsArguments("/tmp", disk, "1777"),
    ...createTmpfsArguments("/run", 1024 * 1024),
    ...createTmpfsArguments(HOME_FOLDER, disk),
    ...createTmpfsArguments("/dev/shm", disk, "1777"),
    ...MASKED_FILES.filter((path) => existsSync(path)).flatMap((path) => ["--ro-bind", "/dev/null", path]),
    ...(root === undefined ? [] : createTmpfsArguments(OWN_PROGRAM_FOLDER, 64 * 1024)),
    ...[...common.filter(({ to }) => canMount(to, root)), ...command.mounts].flatMap(({ from, to, access }) => [
      access === "read" ? "--ro-bind" : "--bind",
      from,
      to,
    ]),
    ...["--remount-ro", "/dev"],
    ...["--remount-ro", root === undefined ? "/" : OWN_PROGRAM_FOLDER],
    ...["--chdir", folder, "--seccomp", "4", "--json-status-fd", "5"],
  ];
  if (list.some((text) => text.includes("\0"))) throw createNulError();
  return list;
}

/** Returns the paths that code sees, derived from the arguments. Later mounts hide paths below them. */
function listSandboxPaths(list: readonly string[]): SandboxPath[] {
  const paths = new Map<string, SandboxPath>();
  for (const [index, option] of list.entries()) {
    const [first = "", second = ""] = list.slice(index + 1, index + 3);
    if (option === "--tmpfs") paths.set(first, { path: first, access: "read-write" });
    else if (option === "--proc" || option === "--dev") paths.set(first, { path: first, access: "read" });
    else if (option === "--symlink") paths.set(second, { path: second, access: "read", from: resolve("/", first) });
    else if (option === "--bind") paths.set(second, { path: second, access: "read-write", from: first });
    else if (option === "--ro-bind" || (option === "--ro-bind-try" && existsSync(first)))
      paths.set(second, { path: second, access: "read", from: first });
  }
  // A file mounted from /dev/null is masked and cannot be read.
  return [...paths.values()].filter(({ from }) => from !== "/dev/null");
}

const OWN_PROGRAM_FOLDER = "/opt/skillet";

/**
 * Returns true if the path can be a mount point. In a read-only root a file can only be mounted over an existing one.
 */
function canMount(path: string, root: string | undefined): boolean {
  return root === undefined || isInside(OWN_PROGRAM_FOLDER, path) || existsSync(`${root}${path}`);
}

/** Kernel files that reveal the host in every namespace. */
const MASKED_FILES = ["cmdline", "kallsyms", "keys", "timer_list", "sched_debug", "version_signature", "kmsg"].map(
  (name) => `/proc/${name}`,
);

function createTmpfsArguments(path: string, bytes: number, mode = "0755"): string[] {
  return ["--perms", mode, "--size", String(bytes), "--tmpfs", path];
}

/** Creates the mounts of the host's programs and libraries, and nothing else of the host. */
function createHostSystemMounts(): string[] {
  const folders = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap((name) => {
    const stats = lstatSync(`/${name}`, { throwIfNoEntry: false });
    if (!stats) return [];
    return stats.isSymbolicLink()
      ? ["--symlink", readlinkSync(`/${name}`), `/${name}`]
      : ["--ro-bind", `/${name}`, `/${name}`];
  });
  const files = ["alternatives", "ld.so.cache", "ssl/certs", "localtime"].flatMap((name) => [
    "--ro-bind-try",
    `/etc/${name}`,
    `/etc/${name}`,
  ]);
  return ["--ro-bind", "/usr", "/usr", ...folders, ...files];
}

function limitCommand({ argv, limits }: SandboxCommand, isCounted: boolean): string[] {
  return [
    "/usr/bin/prlimit",
    ...createPrlimitArguments(limits, isCounted),
    "--",
    "/bin/sh",
    "-c",
    HOST_GUARD_SCRIPT,
    "sh",
    ...argv,
  ];
}

/**
 * Asks whether the host is still running before any untrusted code starts: bubblewrap ties its first process to the
 * host only at the end.
 */
const HOST_GUARD_SCRIPT = 'echo >&6 && read -r go <&6 && exec 6<&- && exec "$@"';

/** Bubblewrap reports a signal as a shell does. */
function resolveOutcome(
  outcome: Omit<SandboxOutcome, "isolation">,
  cgroup: Cgroup | undefined,
  isolation: SandboxOutcome["isolation"],
): SandboxOutcome {
  const signal = outcome.signal ?? getExitSignal(outcome.exitCode);
  const isOutOfMemory = outcome.ending === "exit" && outcome.exitCode !== 0 && (cgroup?.ranOutOfMemory() ?? false);
  return { ...outcome, ...(isOutOfMemory ? OUT_OF_MEMORY : {}), signal, isolation };
}

/** The same outcome, whether the kernel or this process ended it. */
const OUT_OF_MEMORY = { exitCode: undefined, ending: "memory" } as const;

function createStartError(output: string): SkillError {
  return new SkillError("sandbox-start-failed", {
    message: `The sandbox could not be started: ${output.trim().split("\n")[0] || "bubblewrap printed nothing"}`,
    fix: "to see what is missing",
    commands: ["skillet doctor --sandbox"],
  });
}

/** A NUL would end the argument and start an option. */
function createNulError(): SkillError {
  return new SkillError("sandbox-start-failed", {
    message: "A folder, mount or environment variable contains a NUL byte",
    fix: "remove the NUL byte",
  });
}

function createArchitectureError(): SkillError {
  return new SkillError("sandbox-unavailable", {
    message: `The sandbox has no system call filter for ${process.arch}`,
    fix: 'set [sandbox] engine = "docker" or "podman" in config.toml',
  });
}
