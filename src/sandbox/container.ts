import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Problem, SkillError } from "../errors/problem.ts";
import {
  FIXED_VARIABLES,
  HOME_FOLDER,
  type Mount,
  type Sandbox,
  type SandboxCommand,
  type SandboxOutcome,
  type SandboxRunOptions,
} from "../host/sandbox-contract.ts";
import { addNotices, withNetwork } from "./network-forwarder.ts";
import { getExitSignal, killProcessGroup, runProcess } from "./process.ts";
import { isRoot, NOBODY_UID } from "./sandbox-folders.ts";
import { withSandboxSockets } from "./sandbox-socket.ts";

export interface ContainerOptions {
  /** The client's path: of docker, podman, or what speaks like one of them. */
  program: string;
  engine?: "docker" | "podman";
  /** Has to be there: nothing is pulled. By its digest (`debian@sha256:…`) it is the same one each time. */
  image: string;
  /** Node in the image, for runs that have a network. */
  node?: string;
  /** What every container has besides. */
  mounts?: readonly Mount[];
  /** Where the folder of each run is made, for its socket and variables: short, and one that the engine can mount from. */
  folder?: string;
  /** Where the client finds where its engine is. Of these variables it gets those that say so, and the code none. */
  env?: Readonly<Record<string, string | undefined>>;
}

/** A container a run, of an image that the operator chose: packages are in the image or they are nowhere. */
export function createContainerSandbox(options: ContainerOptions): Sandbox {
  const by = options.engine ?? (basename(options.program).includes("podman") ? "podman" : "docker");
  return {
    level: "strong",
    by,
    mapsPaths: true,
    system: "own",
    async run(command, runOptions) {
      if (command.root !== undefined) throw createPackagesError(by);
      const folder = await mkdtemp(join(options.folder ?? tmpdir(), "skillet-"));
      // Users of a container can have other numbers outside, and the folder around the socket is private.
      const network = { folder, node: options.node ?? "node", socketMode: 0o666 };
      try {
        const doors = { folder, socketMode: 0o666, mapsPaths: true };
        return await withSandboxSockets(command, doors, (given) =>
          withNetwork(given, network, (reaching) => runContainer({ ...options, by, folder }, reaching, runOptions)),
        );
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
}

export interface ContainerArgumentOptions {
  by: "docker" | "podman";
  image: string;
  /** What it is killed by. */
  name: string;
  /** A file with its variables: a command line can be read by everybody. */
  variables: string;
  /** A file that the client writes when there is a container. */
  id: string;
  mounts?: readonly Mount[];
}

/** What the client is told. */
export function createContainerArguments(command: SandboxCommand, names: ContainerArgumentOptions): string[] {
  const { argv, folder, limits, stdin } = command;
  const [program, ...rest] = argv;
  const temporary = (path: string, bytes: number) => `${path}:rw,exec,nosuid,nodev,size=${bytes},mode=1777`;
  return [
    ...["run", "--rm", "--init", "--pull", "never", "--name", names.name, "--cidfile", names.id],
    ...["--network", "none", "--ipc", "private", "--cgroupns", "private", "--hostname", "skill"],
    ...["--user", formatUser(command.user), "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
    ...["--memory", String(limits.memory), "--memory-swap", String(limits.memory)],
    ...["--pids-limit", String(limits.processes), "--ulimit", "core=0:0"],
    ...["--ulimit", `fsize=${limits.disk}:${limits.disk}`, "--shm-size", String(limits.disk)],
    ...["--read-only", "--tmpfs", temporary("/tmp", limits.disk), "--tmpfs", temporary("/run", 1024 * 1024)],
    ...["--tmpfs", temporary(HOME_FOLDER, limits.disk)],
    ...[...(names.mounts ?? []), ...command.mounts].flatMap((mount) => ["--mount", formatMount(mount)]),
    ...["--env-file", names.variables, ...ENGINE_ARGUMENTS[names.by]],
    ...["--log-driver", "none", "--no-healthcheck", "--stop-timeout", "0"],
    ...(stdin === undefined ? [] : ["--interactive"]),
    ...["--workdir", folder, "--entrypoint", program, names.image, ...rest],
  ];
}

/** Whom it runs as: nobody, unless the caller is that user or may become it. */
function formatUser(wanted: number | undefined): string {
  const isOwn = wanted === process.getuid?.();
  if (!wanted || !(isOwn || isRoot())) return `${NOBODY_UID}:${NOBODY_UID}`;
  return `${wanted}:${(isOwn && process.getgid?.()) || wanted}`;
}

/** Podman would pass on the host's proxies, and lets go of what the image and itself would set. */
const ENGINE_ARGUMENTS = { docker: [], podman: ["--http-proxy=false", "--unsetenv-all"] };

type ContainerRun = ContainerOptions & { by: "docker" | "podman"; folder: string };

async function runContainer(
  options: ContainerRun,
  command: SandboxCommand,
  runOptions: SandboxRunOptions,
): Promise<SandboxOutcome> {
  const { program, by, image, folder, mounts = [] } = options;
  const name = `skillet-${randomUUID()}`;
  const [variables, id] = [join(folder, "variables"), join(folder, "id")];
  await writeFile(variables, formatEnvFile({ ...FIXED_VARIABLES, ...command.env }), { mode: 0o600 });
  const args = createContainerArguments(command, { by, image, name, variables, id, mounts });
  const env = createClientEnv(options);
  const remove = () => removeContainer(program, name, env);
  const guard = startGuard([program, "rm", "--force", name], folder, env);
  let said = "";
  let stopping: Promise<unknown> | undefined;
  let outcome: Omit<SandboxOutcome, "isolation">;
  try {
    outcome = await runProcess(
      {
        file: program,
        args,
        env,
        ...(command.stdin === undefined ? {} : { stdin: command.stdin }),
        kill(child) {
          killProcessGroup(child);
          // A client that is killed while the engine makes the container leaves one that was not there yet: once more, later.
          stopping = remove().then((left) => (left ? undefined : sleep(300)));
        },
      },
      command.limits.seconds,
      {
        ...runOptions,
        onOutput(stream, bytes) {
          if (stream === "stderr" && said.length < 500) said += bytes;
          return runOptions.onOutput(stream, bytes);
        },
      },
    );
    const isRefused = outcome.exitCode === 125 && (await readFile(id, "utf8").catch(() => "")) === "";
    if (isRefused) throw createStartError(by, said);
  } catch (error) {
    await stopping;
    await remove(); // As a rule there is none.
    killProcessGroup(guard);
    throw error;
  }
  await stopping;
  // Also after it ended by itself: the client can lose its engine, and the container goes on.
  const left = await remove();
  if (!left) killProcessGroup(guard); // Else it tries once more, at the end of this process.
  const signal = outcome.signal ?? getExitSignal(outcome.exitCode);
  const isolation = { level: "strong", by, bounds: "tree" } as const;
  return addNotices({ ...outcome, signal, isolation }, left ? [left] : []);
}

/** Gives what to tell of a container that is left. */
async function removeContainer(
  program: string,
  name: string,
  env: Record<string, string>,
): Promise<Problem | undefined> {
  const said = await new Promise<string | undefined>((resolve) => {
    const options = { env, cwd: "/", timeout: 10_000, killSignal: "SIGKILL" } as const;
    execFile(program, ["rm", "--force", name], options, (error, _, stderr) =>
      resolve(error ? stderr || error.message : undefined),
    );
  });
  if (said === undefined || /no such container|no container with name|already in progress/i.test(said))
    return undefined;
  return {
    code: "sandbox-left",
    message: `the container ${name} could not be removed: ${getFirstLine(said)}`,
    fix: `run \`${basename(program)} rm --force ${name}\``,
  };
}

/** Waits for the end of this process, which closes the pipe however it dies: an engine does not stop with its client. */
function startGuard(removal: readonly string[], folder: string, env: Record<string, string>): ChildProcess {
  const script = 'folder=$1; shift; read -r _; "$@"; rm -rf "$folder"';
  const guard = spawn("/bin/sh", ["-c", script, "sh", folder, ...removal], {
    env,
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () => {}); // Then this process is all that removes it.
  guard.stdin.on("error", () => {});
  guard.unref();
  return guard;
}

const CLIENT_VARIABLES =
  /^(?:HOME|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|DOCKER_HOST|DOCKER_CERT_PATH|DOCKER_TLS_VERIFY|CONTAINER_HOST|CONTAINER_SSHKEY)$/;

function createClientEnv({ env = process.env, folder }: ContainerRun): Record<string, string> {
  const passed = Object.entries(env).filter((entry): entry is [string, string] => CLIENT_VARIABLES.test(entry[0]));
  // Docker's own configuration can put proxies, and passwords with them, into every container.
  return { ...Object.fromEntries(passed), PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", DOCKER_CONFIG: folder };
}

function formatEnvFile(variables: Readonly<Record<string, string>>): string {
  const lines = Object.entries(variables).map(([name, value]) => {
    const line = `${name}=${value}\n`;
    if (!/^[A-Za-z_]\w*$/.test(name) || /[\0\r\n]/.test(value) || !value.isWellFormed())
      throw createVariableError(name);
    // The client reads lines up to 64 KiB.
    if (Buffer.byteLength(line) > 65_000) throw createVariableError(name);
    return line;
  });
  return lines.join("");
}

/** One record of comma-separated values: a path with a comma would be two options. */
function formatMount({ from, to, access }: Mount): string {
  for (const path of [from, to]) if (/[\0\r\n]/.test(path)) throw createMountError(path);
  const fields = ["type=bind", `source=${from}`, `target=${to}`, ...(access === "read" ? ["readonly"] : [])];
  return fields.map((field) => (/[",]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}

function getFirstLine(text: string): string {
  return text.trim().split("\n")[0] || "it said nothing";
}

function createStartError(by: string, said: string): SkillError {
  return new SkillError("sandbox-start", {
    message: `The container could not be started: ${getFirstLine(said)}`,
    fix: `check with \`${by} info\` that the engine runs, and with \`${by} images\` that the image is there`,
  });
}

function createPackagesError(by: string): SkillError {
  return new SkillError("sandbox-packages", {
    message: `Packages cannot be added to a ${by} container`,
    fix: "put them into the image that [sandbox] image names in config.toml, or let bubblewrap be the engine",
  });
}

function createVariableError(name: string): SkillError {
  return new SkillError("variable-unusable", {
    message: `The variable ${JSON.stringify(name)} has a line break, is longer than 64 KiB or is not text: a container cannot be given it`,
    fix: "set it to one line, such as the base64 of the value, or let bubblewrap be the engine",
  });
}

function createMountError(path: string): SkillError {
  return new SkillError("mount-unusable", {
    message: `A container cannot be given ${JSON.stringify(path)}: it has a line break`,
    fix: "rename the folder",
  });
}
