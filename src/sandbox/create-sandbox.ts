import { chmodSync, copyFileSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { release, tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { SandboxEngine, SandboxSettings } from "../config/limits.ts";
import { SkillError } from "../errors/problem.ts";
import {
  FIXED_VARIABLES,
  ISOLATION_LEVELS,
  type IsolationLevel,
  type Mount,
  type Sandbox,
  type SandboxCommand,
} from "../host/sandbox-contract.ts";
import { replaceFile } from "../store/locked-file.ts";
import { readRegularText } from "../util/file-access.ts";
import { isInside } from "../util/safe-path.ts";
import { findSystemProgram, getUserHome, packageVersion } from "../util/system.ts";
import { shortHash } from "../util/text.ts";
import { createBubblewrapSandbox } from "./bubblewrap.ts";
import { preparePipes } from "./pipes.ts";
import { runProcess } from "./process.ts";
import {
  allocateRunUser,
  getSandboxFolder,
  isRoot,
  makeReadableFolder,
  mapSandboxPath,
  SYSTEM_SANDBOX_FOLDER,
} from "./sandbox-folders.ts";
import { withSandboxSockets } from "./sandbox-network.ts";

/** Options of `createSandbox`: the operator's settings and skillet's own folder. */
export interface SandboxOptions {
  settings: SandboxSettings;
  home: string;
  /** The folder searched for the user's own programs. Defaults to the home folder. */
  userHome?: string;
}

/**
 * Creates the sandbox that the operator chose, or the system's default, after it has passed its self-test. Throws a
 * SkillError with a fix if no sandbox of the required level is available: it never falls back to a weaker one.
 */
export async function createSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { settings } = options;
  if (settings.level === "none") return createNoSandbox();
  const engine = settings.engine ?? (process.platform === "darwin" ? "seatbelt" : "bubblewrap");
  const sandbox = await SANDBOX_ENGINES[engine](options);
  const wanted: IsolationLevel = settings.level ?? (process.platform === "darwin" ? "partial" : "strong");
  if (ISOLATION_LEVELS.indexOf(sandbox.level) < ISOLATION_LEVELS.indexOf(wanted)) {
    throw createUnavailableError(
      `${engine} provides ${sandbox.level} isolation, but the configuration requires ${wanted}`,
      'set [sandbox] engine = "docker" or "podman" with an image, or lower [sandbox] level, in config.toml',
    );
  }
  return sandbox;
}

const SANDBOX_ENGINES: Record<SandboxEngine, (options: SandboxOptions) => Promise<Sandbox>> = {
  async bubblewrap({ home, userHome: own = getUserHome(process.env) }) {
    const program = findSystemProgram("bwrap");
    if (process.platform !== "linux") {
      throw createUnavailableError(`bubblewrap runs on Linux, not on ${process.platform}`, CONTAINER_FIX);
    }
    if (!program)
      throw createUnavailableError("bubblewrap is not installed", "to install it", ["skillet doctor --fix"]);
    preparePipes();
    const sandbox = createBubblewrapSandbox({
      program,
      mounts: createBaseMounts(getSandboxFolder(home), own),
      ...(isRoot() ? { user: allocateRunUser } : {}),
    });
    await requireSelfTest(sandbox, { parts: [program], home, remedy: () => findNamespaceFix() ?? CONTAINER_FIX });
    return sandbox;
  },
  docker: (options) => createContainerEngine("docker", options),
  podman: (options) => createContainerEngine("podman", options),
  async seatbelt({ home }) {
    const { createSeatbeltSandbox } = await import("./seatbelt.ts");
    const program = findSystemProgram("sandbox-exec");
    if (!program) throw createUnavailableError("sandbox-exec was not found: it is part of macOS only", CONTAINER_FIX);
    const sandbox = createSeatbeltSandbox({ program });
    await requireSelfTest(sandbox, { parts: [program], home, remedy: () => CONTAINER_FIX });
    return sandbox;
  },
};

const CONTAINER_FIX = 'set [sandbox] engine = "docker" or "podman" with an image in config.toml';

async function createContainerEngine(
  engine: "docker" | "podman",
  { settings, home }: SandboxOptions,
): Promise<Sandbox> {
  const { createContainerSandbox } = await import("./container.ts");
  const program = settings.program ?? findSystemProgram(engine);
  if (!program || !existsSync(program)) {
    throw createUnavailableError(
      program
        ? `${program}, set as [sandbox] program, was not found`
        : `${engine} is not installed in a folder that only root can change`,
      `install ${engine}, or set [sandbox] program = "/path/to/${engine}", or remove [sandbox] engine, in config.toml`,
    );
  }
  if (settings.image === undefined) {
    throw createUnavailableError(
      `${engine} has no image to run`,
      'set [sandbox] image = "debian@sha256:…" in config.toml',
    );
  }
  const sandbox = createContainerSandbox({ program, engine, image: settings.image });
  const { image } = settings;
  await requireSelfTest(sandbox, {
    parts: [program, image],
    home,
    remedy(failed) {
      if (/no such image|image not known|unable to find image/i.test(failed)) return `run \`${engine} pull ${image}\``;
      return `start ${engine}, or remove [sandbox] engine from config.toml`;
    },
  });
  return sandbox;
}

interface TestedSandbox {
  /** The parts whose change requires a new test: its program and, for a container, the image. */
  parts: readonly [program: string, ...string[]];
  home: string;
  /** Returns the fix for a failed check. */
  remedy(failed: string): string;
}

/**
 * Tests the sandbox once for these parts, kernel and user. The result is cached, because the test costs as much as a
 * run.
 */
async function requireSelfTest(sandbox: Sandbox, { parts, home, remedy }: TestedSandbox): Promise<void> {
  const file = join(home, "cache", "sandbox.json");
  const fingerprint = shortHash(
    [...parts, fingerprintProgram(parts[0]), release(), process.getuid?.(), packageVersion()].join("\0"),
  );
  if (readTestRecord(file) === fingerprint) return;
  const failed = await findFailedPromise(sandbox);
  if (failed !== undefined) throw createUnavailableError(`The sandbox failed its self-test: ${failed}`, remedy(failed));
  try {
    replaceFile(file, JSON.stringify({ passed: fingerprint }), 0o644);
  } catch {
    // The test runs again next time.
  }
}

function readTestRecord(file: string): unknown {
  try {
    return JSON.parse(readRegularText(file)).passed;
  } catch {
    return undefined;
  }
}

function fingerprintProgram(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats ? `${stats.mtimeMs}:${stats.size}:${stats.ino}` : "";
}

function createUnavailableError(message: string, fix: string, commands?: readonly string[]): SkillError {
  return new SkillError("sandbox-unavailable", { message, fix, ...(commands ? { commands } : {}) });
}

// Generous limits: a busy machine must not fail the test.
const SELF_TEST_LIMITS = {
  seconds: 60,
  output: 64 * 1024,
  memory: 128 * 1024 * 1024,
  processes: 32,
  disk: 1024 * 1024,
};

/** Checks that a shell can make. `skillet doctor --sandbox` makes those that need more than a shell. */
const SELF_TEST_SCRIPT = `
for file in /proc/[0-9]*/environ; do tr '\\0' '\\n' < "$file" 2>/dev/null | sed 's/=.*//; s/^/variable /'; done
sed -n 's/^CapEff:[^0-9a-f]*/capabilities /p; s/^NoNewPrivs:[^0-9]*/nonewprivs /p; s/^Seccomp:[^0-9]*/seccomp /p' /proc/self/status
ls /sys/class/net 2>/dev/null | sed 's/^/device /'
sed -n 's/^ *\\([a-z0-9]*\\):.*/device \\1/p' /proc/net/dev
for file in / /usr /etc; do ( : > "$file/.skillet-probe" ) 2>/dev/null && echo "wrote $file"; done
echo end
`;

/**
 * Tests the guarantees of a sandbox and returns the first that does not hold, or undefined. On macOS, which has no
 * /proc, few can be tested.
 */
export async function findFailedPromise(sandbox: Sandbox): Promise<string | undefined> {
  const marker = "SKILLET_SELF_TEST";
  let output = "";
  try {
    const { ending, exitCode } = await sandbox.run(
      {
        argv: ["/bin/sh", "-c", SELF_TEST_SCRIPT],
        env: { [marker]: "1" },
        folder: "/",
        mounts: [],
        network: [],
        limits: SELF_TEST_LIMITS,
      },
      {
        onOutput(stream, bytes) {
          if (stream === "stdout") output += bytes;
          return true;
        },
      },
    );
    if (ending !== "exit" || exitCode !== 0) return `the test ended with ${ending}, exit ${exitCode}`;
  } catch (error) {
    if (error instanceof SkillError) return error.message;
    throw error;
  }
  const reports = output.split("\n").map((line) => line.split(" "));
  const all = (name: string) => reports.filter(([key]) => key === name).map(([, value = ""]) => value);
  const known = new Set([...Object.keys(FIXED_VARIABLES), marker, "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"]);
  const isLinux = sandbox.level === "strong"; // Also in a container on another system.
  const checks: [isHeld: boolean, failure: string][] = [
    [all("end").length === 1, "the test did not finish"],
    // An image may set its own variables; variables of the host are never among them.
    [
      all("variable").every((name) => known.has(name) || !(name in process.env)),
      "code can read environment variables of the host",
    ],
    [all("capabilities").every((value) => /^0+$/.test(value)), "code keeps privileges"],
    [!isLinux || all("nonewprivs")[0] === "1", "code can gain privileges"],
    [!isLinux || all("seccomp")[0] === "2", "system calls are not filtered"],
    [all("device").every((name) => name === "lo"), "code sees a network"],
    [all("wrote").length === 0, "code can write to the system"],
  ];
  return checks.find(([isHeld]) => !isHeld)?.[1];
}

/** Returns the fix for a system setting that stops bubblewrap from creating namespaces, if one is found. */
function findNamespaceFix(): string | undefined {
  if (readSysctl("kernel/apparmor_restrict_unprivileged_userns") === "1") {
    return "Ubuntu lets only programs with an AppArmor profile create namespaces: put `abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` into /etc/apparmor.d/bwrap and run `sudo systemctl reload apparmor`";
  }
  if (readSysctl("kernel/unprivileged_userns_clone") === "0")
    return "run `sudo sysctl -w kernel.unprivileged_userns_clone=1`";
  if (readSysctl("user/max_user_namespaces") === "0") return "run `sudo sysctl -w user.max_user_namespaces=10000`";
  return undefined;
}

function readSysctl(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, "utf8").trim();
  } catch {
    return undefined;
  }
}

/**
 * Creates the sandbox for `level = "none"`: no isolation except a clean environment, the timeout and the output limit.
 * Only used if the operator sets it. If the caller is root, code runs as the user that the command names, or as one
 * without an account, never as root.
 */
export function createNoSandbox(): Sandbox {
  const sandbox: Sandbox = {
    level: "none",
    by: "none",
    mapsPaths: false,
    system: "host",
    async run(command, options) {
      if (command.root !== undefined) throw createPackagesError();
      const user = isRoot() ? command.user || allocateRunUser() : undefined;
      const owner = user === undefined ? {} : { owner: { uid: user, gid: user } };
      return withSandboxSockets(command, { folder: tmpdir(), ...owner, mapsPaths: false }, async (prepared) => {
        const outcome = await runProcess(
          createUnsandboxedProgram(prepared, sandbox, user),
          command.limits.seconds,
          options,
        );
        return { ...outcome, isolation: { level: "none", by: "none", bounds: "none" } };
      });
    },
  };
  return sandbox;
}

function createUnsandboxedProgram(command: SandboxCommand, sandbox: Sandbox, user: number | undefined) {
  const { env, folder, mounts, stdin } = command;
  const [file, ...args] = command.argv;
  return {
    file: file === process.execPath ? makeReadableProgram(file, SYSTEM_SANDBOX_FOLDER) : file,
    args,
    env: { ...FIXED_VARIABLES, HOME: "/tmp", ...env },
    folder: mapSandboxPath(sandbox, mounts, folder),
    ...(user === undefined ? {} : { user }), // Without root's groups: Node drops them when it changes the user.
    ...(stdin === undefined ? {} : { stdin }),
  };
}

function createPackagesError(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added without a sandbox",
    fix: 'install them on this machine, or remove [sandbox] level = "none" from config.toml',
  });
}

/** The folder in the sandbox with the fetched packages, one subfolder per script. */
export const UV_FETCHED_FOLDER = "/opt/skillet/uv";

const UV_MISSING_SCRIPT = `#!/bin/sh
echo "uv is not installed on this machine: https://docs.astral.sh/uv shows how to install it" >&2
exit 127
`;

/**
 * Copies the packages fetched for the skill into uv's cache before uv runs. uv writes to its cache, so no two commands
 * share one.
 */
const UV_CACHE_SCRIPT = `#!/bin/sh
if [ -n "$UV_CACHE_DIR" ] && [ ! -d "$UV_CACHE_DIR" ]; then
  mkdir -p "$UV_CACHE_DIR"
  for fetched in ${UV_FETCHED_FOLDER}/*/; do [ ! -d "$fetched" ] || cp -R "$fetched." "$UV_CACHE_DIR"; done
fi
`;

/** Runs a tool from the user's installed packages directly, even if uvx does not know it. */
const FIND_TOOL_SCRIPT = `number=0 skip= tool=
for word in "$@"; do
  number=$((number + 1))
  if [ -n "$skip" ]; then skip=; continue; fi
  case "$word" in
    --from|--with|--python|-p) skip=1 ;;
    -*) ;;
    *) tool="\${word%%[@=<>~!]*}"; break ;;
  esac
done
if [ -n "$tool" ] && [ -x "/opt/skillet/venv/bin/$tool" ]; then
  shift "$number"
  exec "/opt/skillet/venv/bin/$tool" "$@"
fi
`;

/** Files in the /etc of every sandbox, so that programs can look up their user and host name. */
const BASE_FILES: Readonly<Record<string, string>> = {
  "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nskill:x:1000:1000:skill:/home/skill:/bin/sh\n",
  "etc/group": "root:x:0:\nskill:x:1000:\n",
  "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
  "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
  "opt/skillet/bin/uv": UV_MISSING_SCRIPT,
  "opt/skillet/bin/uvx": UV_MISSING_SCRIPT,
  "opt/skillet/offline/uv": `${UV_CACHE_SCRIPT}exec /opt/skillet/bin/uv "$@"\n`,
  "opt/skillet/offline/uvx": `${UV_CACHE_SCRIPT}${FIND_TOOL_SCRIPT}exec /opt/skillet/bin/uvx "$@"\n`,
};

/**
 * Creates the base files and returns their mounts, with the host's own programs. Node is one of them, so that a skill's
 * JavaScript runs with the promised version.
 */
export function createBaseMounts(folder: string, userHome: string): Mount[] {
  const base = join(folder, "furniture", shortHash(JSON.stringify(BASE_FILES)));
  for (const [path, text] of Object.entries(BASE_FILES)) {
    const file = join(base, path);
    if (existsSync(file)) continue;
    makeReadableFolder(dirname(file));
    writeFileSync(`${file}.${process.pid}`, text);
    chmodSync(`${file}.${process.pid}`, path.startsWith("opt/") ? 0o755 : 0o644);
    renameSync(`${file}.${process.pid}`, file);
  }
  const found = new Map([["node", process.execPath], ...findUvPrograms(userHome)]);
  const programs = Array.from(found, ([name, program]): Mount => {
    return { from: makeReadableProgram(program, folder), to: `/opt/skillet/bin/${name}`, access: "read" };
  });
  const isProvided = (path: string) => programs.some(({ to }) => to === `/${path}`);
  return [
    ...Object.keys(BASE_FILES)
      .filter((path) => !isProvided(path))
      .map((path) => ({ from: join(base, path), to: `/${path}`, access: "read" as const })),
    ...programs,
  ];
}

/**
 * Returns the program's path, or the path of a copy if the program is readable only by root or outside the system
 * folders. Sandboxed code can list the sources of its mounts, and a path below a home folder reveals the user's name.
 */
function makeReadableProgram(program: string, folder: string): string {
  if (!isRoot() || (isSystemPath(program) && isReadableByOthers(program))) return program;
  const { size, mtimeMs } = statSync(program);
  const copy = join(folder, "furniture", `${basename(program)}-${shortHash(`${program}:${size}:${mtimeMs}`)}`);
  if (existsSync(copy)) return copy;
  makeReadableFolder(dirname(copy));
  copyFileSync(program, `${copy}.${process.pid}`);
  chmodSync(`${copy}.${process.pid}`, 0o755);
  renameSync(`${copy}.${process.pid}`, copy);
  return copy;
}

function isSystemPath(path: string): boolean {
  return ["/usr", "/bin", "/opt", "/snap", "/nix/store"].some((folder) => isInside(folder, path));
}

function isReadableByOthers(path: string): boolean {
  for (let at = path; ; at = dirname(at)) {
    const needed = at === path ? 0o005 : 0o001;
    if ((statSync(at).mode & needed) !== needed) return false;
    if (dirname(at) === at) return true;
  }
}

/** Finds uv and uvx by name, installed for the system or for this user. */
export function findUvPrograms(userHome: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of ["uv", "uvx"]) {
    const own = [".local/bin", ".cargo/bin"]
      .map((folder) => join(userHome, folder, name))
      .find((path) => existsSync(path));
    const program = findSystemProgram(name) ?? own;
    if (program !== undefined) found.set(name, program);
  }
  return found;
}
