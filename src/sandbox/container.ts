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
import { getExitSignal, killProcessGroup, runProcess } from "./process.ts";
import { isRoot, NOBODY_UID } from "./sandbox-folders.ts";
import { addNotices, withNetwork, withSandboxSockets } from "./sandbox-network.ts";

export interface ContainerOptions {
  /** The path of the client: docker, podman or a compatible program. */
  program: string;
  engine?: "docker" | "podman";
  /** The image, which must be present: nothing is pulled. A digest (`debian@sha256:…`) pins it. */
  image: string;
  /** The path of Node in the image, for runs with network access. */
  node?: string;
  /** Mounts that every container has in addition to those of the command. */
  mounts?: readonly Mount[];
  /** The parent of each run's folder for its socket and variables: a short path that the engine can mount from. */
  folder?: string;
  /**
   * The environment with the engine's address. The client gets only the variables that locate its engine, and the code
   * none of them.
   */
  env?: Readonly<Record<string, string | undefined>>;
}

/** Creates a sandbox that runs each command in a container from the operator's image. Packages must be in the image. */
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
      // Users of a container can have other IDs outside it, and the folder around the socket is private.
      const network = { folder, node: options.node ?? "node", socketMode: 0o666 };
      try {
        const socketOptions = { folder, socketMode: 0o666, mapsPaths: true };
        return await withSandboxSockets(command, socketOptions, (prepared) =>
          withNetwork(prepared, network, (networked) =>
            runContainer({ ...options, by, folder }, networked, runOptions),
          ),
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
  /** The name by which the container is killed. */
  name: string;
  /** The path of the file with the variables: every user can read a command line. */
  variables: string;
  /** The path of the file that the client writes once the container exists. */
  id: string;
  mounts?: readonly Mount[];
}

/** Creates the arguments of the container client. */
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

/**
 * Returns the user that the container runs as: an unprivileged one, unless the caller is the wanted user or may become
 * it.
 */
function formatUser(wanted: number | undefined): string {
  const isOwn = wanted === process.getuid?.();
  if (!wanted || !(isOwn || isRoot())) return `${NOBODY_UID}:${NOBODY_UID}`;
  return `${wanted}:${(isOwn && process.getgid?.()) || wanted}`;
}

/** Stops Podman from passing on the host's proxies and from setting its own variables and those of the image. */
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
  let stderrText = "";
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
          // A client killed while the engine creates the container can leave one behind that did not exist yet, so
          // remove it again later.
          stopping = remove().then((problem) => (problem ? undefined : sleep(300)));
        },
      },
      command.limits.seconds,
      {
        ...runOptions,
        onOutput(stream, bytes) {
          if (stream === "stderr" && stderrText.length < 500) stderrText += bytes;
          return runOptions.onOutput(stream, bytes);
        },
      },
    );
    const isRefused = outcome.exitCode === 125 && (await readFile(id, "utf8").catch(() => "")) === "";
    if (isRefused) throw createStartError(by, stderrText);
  } catch (error) {
    await stopping;
    await remove(); // Usually there is no container.
    killProcessGroup(guard);
    throw error;
  }
  await stopping;
  // Also after a normal exit: the client can lose its engine while the container continues.
  const problem = await remove();
  if (!problem) killProcessGroup(guard); // Otherwise the guard tries again when this process ends.
  const signal = outcome.signal ?? getExitSignal(outcome.exitCode);
  const isolation = { level: "strong", by, bounds: "tree" } as const;
  return addNotices({ ...outcome, signal, isolation }, problem ? [problem] : []);
}

/** Returns a problem if the container could not be removed. */
async function removeContainer(
  program: string,
  name: string,
  env: Record<string, string>,
): Promise<Problem | undefined> {
  const failure = await new Promise<string | undefined>((resolve) => {
    const options = { env, cwd: "/", timeout: 10_000, killSignal: "SIGKILL" } as const;
    execFile(program, ["rm", "--force", name], options, (error, _, stderr) =>
      resolve(error ? stderr || error.message : undefined),
    );
  });
  if (failure === undefined || /no such container|no container with name|already in progress/i.test(failure))
    return undefined;
  return {
    code: "sandbox-not-removed",
    message: `the container ${name} could not be removed: ${getFirstLine(failure)}`,
    fix: `run \`${basename(program)} rm --force ${name}\``,
  };
}

/**
 * Starts a guard that removes the container when this process ends, which closes the pipe however it dies. An engine
 * does not stop with its client.
 */
function startGuard(removal: readonly string[], folder: string, env: Record<string, string>): ChildProcess {
  const script = 'folder=$1; shift; read -r _; "$@"; rm -rf "$folder"';
  const guard = spawn("/bin/sh", ["-c", script, "sh", folder, ...removal], {
    env,
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  guard.on("error", () => {}); // Then only this process removes the container.
  guard.stdin.on("error", () => {});
  guard.unref();
  return guard;
}

const CLIENT_VARIABLES =
  /^(?:HOME|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS|DOCKER_HOST|DOCKER_CERT_PATH|DOCKER_TLS_VERIFY|CONTAINER_HOST|CONTAINER_SSHKEY)$/;

function createClientEnv({ env = process.env, folder }: ContainerRun): Record<string, string> {
  const passed = Object.entries(env).filter((entry): entry is [string, string] => CLIENT_VARIABLES.test(entry[0]));
  // Docker's own configuration can put proxies, with their passwords, into every container.
  return { ...Object.fromEntries(passed), PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", DOCKER_CONFIG: folder };
}

function formatEnvFile(variables: Readonly<Record<string, string>>): string {
  const lines = Object.entries(variables).map(([name, value]) => {
    const line = `${name}=${value}\n`;
    if (!/^[A-Za-z_]\w*$/.test(name) || /[\0\r\n]/.test(value) || !value.isWellFormed())
      throw createVariableError(name);
    // The client reads lines of up to 64 KiB.
    if (Buffer.byteLength(line) > 65_000) throw createVariableError(name);
    return line;
  });
  return lines.join("");
}

/** Formats a mount as one CSV record: an unquoted path with a comma would become two options. */
function formatMount({ from, to, access }: Mount): string {
  for (const path of [from, to]) if (/[\0\r\n]/.test(path)) throw createMountError(path);
  const fields = ["type=bind", `source=${from}`, `target=${to}`, ...(access === "read" ? ["readonly"] : [])];
  return fields.map((field) => (/[",]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",");
}

function getFirstLine(text: string): string {
  return text.trim().split("\n")[0] || "it printed nothing";
}

function createStartError(by: string, stderrText: string): SkillError {
  return new SkillError("sandbox-start-failed", {
    message: `The container could not be started: ${getFirstLine(stderrText)}`,
    fix: `check with \`${by} info\` that the engine runs, and with \`${by} images\` that the image is present`,
  });
}

function createPackagesError(by: string): SkillError {
  return new SkillError("sandbox-packages", {
    message: `Packages cannot be added to a ${by} container`,
    fix: "add them to the image set as [sandbox] image in config.toml, or use bubblewrap as the engine",
  });
}

function createVariableError(name: string): SkillError {
  return new SkillError("variable-unusable", {
    message: `The environment variable ${JSON.stringify(name)} cannot be passed to a container: it has a line break, is longer than 64 KiB or is not text`,
    fix: "set it to one line, such as the value in base64, or use bubblewrap as the engine",
  });
}

function createMountError(path: string): SkillError {
  return new SkillError("mount-unusable", {
    message: `The path ${JSON.stringify(path)} cannot be mounted in a container: it has a line break`,
    fix: "rename the folder",
  });
}
