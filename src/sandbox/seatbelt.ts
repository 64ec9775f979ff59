import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Problem, SkillError } from "../errors/problem.ts";
import { FIXED_VARIABLES, type Sandbox, type SandboxCommand } from "../host/sandbox-contract.ts";
import { openNetworkProxy } from "./network-proxy.ts";
import { type Program, runProcess } from "./process.ts";
import { mapSandboxPath } from "./sandbox-folders.ts";
import { addNotices, createRefusalNotices, withSandboxSockets, wrapWithForwarder } from "./sandbox-network.ts";

export interface SeatbeltOptions {
  /** The path of `/usr/bin/sandbox-exec`. */
  program: string;
  /**
   * The path of Node, for skills in JavaScript and for runs with network access. Defaults to the Node of this process.
   */
  node?: string;
  /** The parent of each run's private folder. Keep it short: it holds a socket. */
  folder?: string;
}

/**
 * Creates the macOS sandbox: a profile for the process and everything it starts. macOS has no means to guarantee that
 * descendants outside the process group end, that memory, processes or disk are limited, or that processes of other
 * runs are hidden.
 */
export function createSeatbeltSandbox(options: SeatbeltOptions): Sandbox {
  const { program, node = process.execPath, folder = tmpdir() } = options;
  const sandbox: Sandbox = {
    level: "partial",
    by: "seatbelt",
    // macOS cannot mount: code sees what is mounted at `/skill` under its real path, and `mapSandboxPath` translates.
    mapsPaths: false,
    system: "host",
    async run(command, runOptions) {
      if (command.root !== undefined) throw createPackagesError();
      const own = await realpath(await mkdtemp(join(folder, "skillet-")));
      try {
        const network = await openSeatbeltNetwork(command, own);
        try {
          return await withSandboxSockets(command, { folder: own, mapsPaths: false }, async (withSockets, sockets) => {
            const prepared = await prepareSeatbeltRun(withSockets, { sandbox, own, node, network, sockets });
            const outcome = await runProcess({ file: program, ...prepared }, command.limits.seconds, runOptions);
            const isolation = { level: "partial", by: "seatbelt", bounds: "none" } as const;
            return addNotices({ ...outcome, isolation }, network?.notices ?? []);
          });
        } finally {
          await network?.close();
        }
      } finally {
        await rm(own, { recursive: true, force: true });
      }
    },
  };
  return sandbox;
}

export interface SeatbeltPaths {
  /** The run's own writable folders. */
  home: string;
  temporary: string;
  node: string;
  /** The proxy's socket and the forwarder's port, if the run has network access. */
  socket?: string;
  port?: number;
  /** The paths of the run's sandbox sockets. */
  sockets?: readonly string[];
}

/**
 * Formats the profile for sandbox-exec: the last matching rule decides, and everything else is denied. Contract: real
 * paths, since the system compares rules with the target of a symlink.
 */
export function formatSeatbeltProfile({ mounts }: Pick<SandboxCommand, "mounts">, paths: SeatbeltPaths): string {
  const writable = [
    paths.home,
    paths.temporary,
    ...mounts.filter(({ access }) => access === "read-write").map(({ from }) => from),
  ];
  const readable = [...new Set([...SYSTEM_FOLDERS, ...mounts.map(({ from }) => from), ...writable])];
  return [
    BASE_RULES,
    // Metadata only: code may know that a folder exists, but not its content.
    formatRule(
      "allow file-read-metadata",
      [...new Set([...readable, paths.node].flatMap(listParents)), ...SYSTEM_LINKS].map(formatLiteral),
    ),
    formatRule("allow file-read* file-map-executable", [...readable.map(formatSubpath), formatLiteral(paths.node)]),
    formatRule("allow file-write*", writable.map(formatSubpath)),
    // A skill's folder stays read-only, also inside a writable folder.
    ...formatDenyRules(mounts.filter(({ access }) => access === "read").map(({ from }) => from)),
    ...(paths.socket === undefined || paths.port === undefined ? [] : formatNetworkRules(paths.socket, paths.port)),
    ...(paths.sockets ?? []).flatMap(formatSocketRules),
    "",
  ].join("\n");
}

/**
 * Rules that every program needs to start. No service is allowed that would act for its caller, since that would be a
 * way out.
 */
const BASE_RULES = `(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.bootargs")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.iossupportversion")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "kern.willshutdown")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
(allow file-read-data (literal "/"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom") (literal "/dev/zero"))
(allow file-read* (literal "/dev/stdin") (literal "/dev/stdout") (literal "/dev/stderr"))
(allow file-read* file-write-data (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/dtracehelper"))`;

/**
 * Folders of the system and of installed programs. Nothing of a user, and not all of /System, which contains all disks.
 */
const SYSTEM_FOLDERS = [
  "/bin",
  "/sbin",
  ...["bin", "lib", "libexec", "sbin", "share"].map((name) => `/usr/${name}`),
  "/System/Cryptexes",
  "/System/Library",
  "/System/Volumes/Preboot/Cryptexes",
  "/Library/Apple",
  "/Library/Developer",
  "/Library/Frameworks",
  "/private/etc/localtime",
  "/private/etc/ssl",
  "/private/var/db/dyld",
  "/private/var/db/timezone",
  "/private/var/db/xcode_select_link",
  "/private/var/select",
  ...["/opt/homebrew", "/usr/local"].flatMap((prefix) =>
    ["bin", "Cellar", "etc/ca-certificates", "etc/openssl@3", "Frameworks", "lib", "opt", "share"].map(
      (name) => `${prefix}/${name}`,
    ),
  ),
];

/** Symlinks of the system. */
const SYSTEM_LINKS = ["/dev", "/etc", "/tmp", "/var", "/private/var/run"];

function listParents(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [...listParents(parent), parent];
}

function formatNetworkRules(socket: string, port: number): string[] {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new RangeError(`${port} is not a port`);
  return [
    ...formatSocketRules(socket),
    `(allow network-bind network-inbound (local ip "localhost:${port}"))`,
    `(allow network-outbound (remote ip "localhost:${port}"))`,
  ];
}

function formatSocketRules(socket: string): string[] {
  return [
    "(allow system-socket (socket-domain AF_UNIX))",
    `(allow network-outbound (remote unix-socket (path-literal ${quoteSbplString(socket)})))`,
  ];
}

function formatDenyRules(paths: readonly string[]): string[] {
  return paths.length === 0 ? [] : [formatRule("deny file-write*", paths.map(formatSubpath))];
}

function formatRule(head: string, filters: readonly string[]): string {
  return `(${head}\n  ${filters.join("\n  ")})`;
}

function formatSubpath(path: string): string {
  return `(subpath ${quoteSbplString(path)})`;
}

function formatLiteral(path: string): string {
  return `(literal ${quoteSbplString(path)})`;
}

/** Quotes a string for the profile language, in which a quotation mark ends a string unless a backslash precedes it. */
function quoteSbplString(path: string): string {
  if (!path.startsWith("/") || /[\u0000-\u001f\u007f]/.test(path) || !path.isWellFormed()) throw createPathError(path);
  return `"${path.replace(/["\\]/g, "\\$&")}"`;
}

interface SeatbeltParts {
  sandbox: Sandbox;
  /** The run's own folder. */
  own: string;
  node: string;
  network: SeatbeltNetwork | undefined;
  sockets: readonly string[];
}

async function prepareSeatbeltRun(
  command: SandboxCommand,
  { sandbox, own, node, network, sockets }: SeatbeltParts,
): Promise<Omit<Program, "file">> {
  const mounts = await Promise.all(
    command.mounts.map(async (mount) => ({ ...mount, from: await realpath(mount.from) })),
  );
  const paths = {
    home: join(own, "home"),
    temporary: join(own, "tmp"),
    node: await realpath(node),
    ...network,
    sockets,
  };
  await Promise.all([mkdir(paths.home), mkdir(paths.temporary)]);
  const argv = network ? wrapWithForwarder(command.argv, { ...network, node: paths.node }) : command.argv;
  const path = `${dirname(paths.node)}:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin`;
  return {
    args: ["-p", formatSeatbeltProfile({ mounts }, paths), "--", ...argv],
    env: { ...FIXED_VARIABLES, PATH: path, HOME: paths.home, TMPDIR: paths.temporary, ...command.env },
    folder: mapSandboxPath(sandbox, mounts, command.folder),
    ...(command.stdin === undefined ? {} : { stdin: command.stdin }),
  };
}

interface SeatbeltNetwork {
  socket: string;
  port: number;
  notices: readonly Problem[];
  close(): Promise<void>;
}

/**
 * Opens the network for a run. All processes share one loopback interface, so the port is chosen before the profile is
 * written, and only the proxy is behind it.
 */
async function openSeatbeltNetwork({ network }: SandboxCommand, folder: string): Promise<SeatbeltNetwork | undefined> {
  if (network.length === 0) return undefined;
  const port = await findFreePort();
  const { notices, onRefused } = createRefusalNotices();
  return { ...(await openNetworkProxy({ endpoints: network, folder, onRefused })), port, notices };
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function createPackagesError(): SkillError {
  return new SkillError("sandbox-packages", {
    message: "Packages cannot be added to a macOS sandbox",
    fix: 'install them on this machine, or set [sandbox] engine = "docker" with an image that has them in config.toml',
  });
}

function createPathError(path: string): SkillError {
  return new SkillError("mount-unusable", {
    message: `The path ${JSON.stringify(path)} cannot be mounted in a sandbox: it must be absolute and have no control characters`,
    fix: "rename the folder",
  });
}
