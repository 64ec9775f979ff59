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
import { getExitSignal, killProcessGroup, type Program, runProcess } from "./process.ts";
import { createProcessEnder, START_WATCH_SCRIPT, stopStartWatch, waitUntilTied } from "./process-lifetime.ts";
import { type CountedStart, createCountedStart, createPrlimitArguments, watchProcessTree } from "./resource-limits.ts";
import { isRunUser } from "./sandbox-folders.ts";
import { withSandboxSockets } from "./sandbox-socket.ts";
import { createSeccompFilter, type SeccompOptions } from "./seccomp.ts";

export interface BubblewrapOptions {
  /** Its path. */
  program: string;
  /** Returns the user that code runs as outside of its own view, where the caller is root: never root, and no account's. */
  user?: () => number;
  /** What every sandbox has besides. */
  mounts?: readonly Mount[];
  /** False: no cgroup is made, as on a machine where none can be. */
  cgroups?: boolean;
  /** Starts bubblewrap where it cannot use up what its user has of inotify; found out when left out. */
  count?: CountedStart;
}

/** Linux: namespaces of its own for everything, made by bubblewrap, and a filter for system calls. */
export function createBubblewrapSandbox(options: BubblewrapOptions): Sandbox {
  let canDivide = options.cgroups !== false;
  let counted = options.count ?? createCountedStart();
  const run = async (command: SandboxCommand, runOptions: SandboxRunOptions): Promise<SandboxOutcome> => {
    const cgroup = canDivide ? createCgroup(command.limits) : undefined;
    // A user that no account has shares no counts with anybody.
    const count = runsAsAccount(command, options) ? counted : undefined;
    const allowsInotify = count !== undefined || !runsAsAccount(command, options);
    const filter = getSeccompFilter({ isCounted: cgroup !== undefined, allowsInotify });
    if (!filter) throw createArchitectureError();
    const started: BubblewrapParts["started"] = { status: "", isInside: false, isTooLarge: false };
    const isolation: SandboxOutcome["isolation"] = {
      level: "strong",
      by: "bubblewrap",
      bounds: cgroup ? "tree" : "process",
      resources: describeResources(cgroup !== undefined, allowsInotify),
    };
    const said: Buffer[] = [];
    try {
      const outcome = await runProcess(
        createBubblewrapProgram(command, options, { filter, cgroup, count, started, onMounted: runOptions.onMounted }),
        command.limits.seconds,
        {
          ...runOptions,
          onOutput(stream, bytes) {
            if (stream === "stdout" || started.isInside) return runOptions.onOutput(stream, bytes);
            said.push(bytes); // Of the programs that make the sandbox. It may be made in another way yet.
            return true;
          },
        },
      );
      const isStarted = started.isInside || started.status !== "";
      if (cgroup && outcome.exitCode === CGROUP_JOIN_FAILED && !isStarted) {
        canDivide = false; // Nothing has run yet.
        return await run(command, runOptions);
      }
      if (count && outcome.ending === "exit" && !isStarted) {
        counted = undefined;
        return await run(command, runOptions);
      }
      if (outcome.ending === "exit" && !started.isInside && !started.status.includes("exit-code"))
        throw createStartError(Buffer.concat(said).toString());
      if (!started.isInside && said.length > 0) runOptions.onOutput("stderr", Buffer.concat(said));
      if (started.isTooLarge && outcome.ending === "exit") return { ...outcome, ...OUT_OF_MEMORY, isolation };
      return resolveOutcome(outcome, cgroup, isolation);
    } finally {
      started.unwatch?.();
      cgroup?.kill();
      await started.end?.();
      await cgroup?.remove();
    }
  };
  return {
    level: "strong",
    by: "bubblewrap",
    mapsPaths: true,
    system: "host",
    paths: (command) => listSandboxPaths(createBubblewrapArguments(command, options.mounts)),
    async run(command, runOptions) {
      const user = options.user && (command.user || options.user());
      const place = { folder: tmpdir(), ...(user === undefined ? {} : { owner: { uid: user, gid: user } }) };
      const own = { ...command, ...(user === undefined ? {} : { user }) };
      return withSandboxSockets(own, { ...place, mapsPaths: true }, async (given) => {
        if (given.network.length === 0) return run(given, runOptions);
        const { withNetwork } = await import("./network-forwarder.ts");
        return withNetwork(given, { ...place, node: "/opt/skillet/bin/node" }, (opened) => run(opened, runOptions));
      });
    },
  };
}

/** Whether the code runs as a user whose other programs it could take something from. */
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
  /** What bubblewrap says of the process, whether all was ready for it, and whether it took too much where no group counts it. */
  started: {
    status: string;
    isInside: boolean;
    isTooLarge: boolean;
    first?: number | undefined;
    unwatch?: () => void;
    /** Resolves when nothing of the sandbox is left. */
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
  // Not before: until bubblewrap is done, the folders of its process are the host's, with all the files in them.
  const onInside = (child: ChildProcess) => {
    started.isInside = true;
    started.unwatch = watchProcessTree({
      first: () => started.first,
      limits: command.limits,
      mounts: command.mounts,
      isCounted: cgroup !== undefined,
      onTooMuch() {
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
    // Its environment can be read from inside, and the loader would heed what is in it: the code's own is in its arguments.
    env: {},
    ...(user === undefined ? {} : { user }),
    ...(command.stdin === undefined ? {} : { stdin: command.stdin }),
    pipes: [
      Buffer.from(`${createBubblewrapArguments(command, options.mounts).join("\0")}\0`),
      filter,
      (pipe) => pipe.on("data", onStatus),
      (pipe, child) =>
        pipe.once("data", async () => {
          if (!(await waitUntilTied(() => started.first, child))) return; // Nobody would end the watch of a tree that is gone.
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

/** Starts the watch, goes into the group, becomes the user that code runs as, then bubblewrap. One shell does as much of it as it can. */
function createStartCommand(bubblewrap: readonly string[], { cgroup, count, user }: StartParts) {
  if (!cgroup) {
    const [file = "", ...args] = count
      ? count(bubblewrap, START_WATCH_SCRIPT)
      : ["/bin/sh", "-c", `${START_WATCH_SCRIPT}; exec "$@"`, "sh", ...bubblewrap];
    return { file, args };
  }
  const { doors } = cgroup;
  const enter = doors.map((_, index) => `echo 0 > "$${index + 1}"`).join(" && ");
  const script = `${START_WATCH_SCRIPT}; { ${enter}; } 2>/dev/null || exit ${CGROUP_JOIN_FAILED}; shift ${doors.length}; exec "$@"`;
  const become = ["/usr/bin/setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", "--"];
  const wrapped = count ? count(bubblewrap) : bubblewrap;
  const args = ["-c", script, "sh", ...doors, ...(user === undefined ? [] : become), ...wrapped];
  return { file: "/bin/sh", args, changesUser: true };
}

const CGROUP_JOIN_FAILED = 113;

/** With the first process of a namespace all others end. It goes before bubblewrap, which keeps its number from being used again. */
function killNamespace(child: ChildProcess, first: number | undefined): void {
  try {
    if (first !== undefined && first > 1) process.kill(first, "SIGKILL");
  } catch {
    // It is gone already.
  }
  killProcessGroup(child);
}

/** What bubblewrap is told, on descriptor 3: a command line can be read by everybody. */
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

/** Reads off the arguments which paths code sees: what is mounted later hides what is below it. */
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
  // A device in the place of a file is what it is masked with, and nothing to read.
  return [...paths.values()].filter(({ from }) => from !== "/dev/null");
}

const OWN_PROGRAM_FOLDER = "/opt/skillet";

/** A file can be put only over another one in a root that cannot be written to. */
function canMount(path: string, root: string | undefined): boolean {
  return root === undefined || isInside(OWN_PROGRAM_FOLDER, path) || existsSync(`${root}${path}`);
}

/** Files of the kernel's that tell of the host, whatever the namespace. */
const MASKED_FILES = ["cmdline", "kallsyms", "keys", "timer_list", "sched_debug", "version_signature", "kmsg"].map(
  (name) => `/proc/${name}`,
);

function createTmpfsArguments(path: string, bytes: number, mode = "0755"): string[] {
  return ["--perms", mode, "--size", String(bytes), "--tmpfs", path];
}

/** The host's programs and libraries, and nothing else of it. */
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

/** Asks whether the host is still there, before any code of others runs: bubblewrap ties its first process to it only at the end. */
const HOST_GUARD_SCRIPT = 'echo >&6 && read -r go <&6 && exec 6<&- && exec "$@"';

/** Bubblewrap gives a signal as a shell does. */
function resolveOutcome(
  outcome: Omit<SandboxOutcome, "isolation">,
  cgroup: Cgroup | undefined,
  isolation: SandboxOutcome["isolation"],
): SandboxOutcome {
  const signal = outcome.signal ?? getExitSignal(outcome.exitCode);
  const isOutOfMemory = outcome.ending === "exit" && outcome.exitCode !== 0 && (cgroup?.ranOutOfMemory() ?? false);
  return { ...outcome, ...(isOutOfMemory ? OUT_OF_MEMORY : {}), signal, isolation };
}

/** Whoever ended it, the kernel or this process. */
const OUT_OF_MEMORY = { exitCode: undefined, ending: "memory" } as const;

function createStartError(said: string): SkillError {
  return new SkillError("sandbox-start", {
    message: `The sandbox could not be started: ${said.trim().split("\n")[0] || "bubblewrap said nothing"}`,
    fix: "`skillet doctor --sandbox` says what is missing",
  });
}

/** A NUL would end the argument, and begin an option. */
function createNulError(): SkillError {
  return new SkillError("sandbox-start", {
    message: "A folder, a mount or a variable has a NUL in it",
    fix: "remove it",
  });
}

function createArchitectureError(): SkillError {
  return new SkillError("sandbox-unavailable", {
    message: `There is no filter of system calls for ${process.arch}`,
    fix: 'set [sandbox] engine = "docker" or "podman" in config.toml',
  });
}
