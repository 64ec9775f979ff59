import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Problem, SkillError } from "../errors/problem.ts";
import { FIXED_VARIABLES, mapSandboxPath, type Sandbox, type SandboxCommand } from "../host/sandbox-contract.ts";
import { addNotices, createRefusalNotices, wrapWithForwarder } from "./network-forwarder.ts";
import { openNetworkProxy } from "./network-proxy.ts";
import { type Program, runProcess } from "./process.ts";
import { withSandboxSockets } from "./sandbox-socket.ts";

export interface SeatbeltOptions {
  /** `/usr/bin/sandbox-exec`. */
  program: string;
  /** Node and what it needs to run, for skills in JavaScript and for runs that have a network; this process' own when left out. */
  node?: string;
  /** Where the private folder of each run is made. Short: it holds a socket. */
  folder?: string;
}

/**
 * macOS: a profile for the process and all that it starts. Not promised, since the system has no means for it: that descendants
 * which left the process group end, that memory, processes or disk are bounded, and that processes of other runs are not seen.
 */
export function createSeatbeltSandbox(options: SeatbeltOptions): Sandbox {
  const { program, node = process.execPath, folder = tmpdir() } = options;
  const sandbox: Sandbox = {
    level: "partial",
    by: "seatbelt",
    // Nothing can be mounted: what is mounted to `/skill` is seen where it really is, and `seenPath` translates.
    mapsPaths: false,
    system: "host",
    async run(command, runOptions) {
      if (command.root !== undefined) throw createPackagesError();
      const own = await realpath(await mkdtemp(join(folder, "skillet-")));
      try {
        const network = await openSeatbeltNetwork(command, own);
        try {
          return await withSandboxSockets(command, { folder: own, mapsPaths: false }, async (given, sockets) => {
            const prepared = await prepareSeatbeltRun(given, { sandbox, own, node, network, sockets });
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
  /** The run's own folders, which it can write to. */
  home: string;
  temporary: string;
  node: string;
  /** The proxy's socket and the forwarder's port, where something is open. */
  socket?: string;
  port?: number;
  /** Those of its doors. */
  sockets?: readonly string[];
}

/**
 * What sandbox-exec is told, in its own language: the last rule that fits decides, and what none allows is denied. Contract: real
 * paths, since a rule is compared with where a link leads.
 */
export function formatSeatbeltProfile({ mounts }: Pick<SandboxCommand, "mounts">, places: SeatbeltPaths): string {
  const writable = [
    places.home,
    places.temporary,
    ...mounts.filter(({ access }) => access === "read-write").map(({ from }) => from),
  ];
  const readable = [...new Set([...SYSTEM_FOLDERS, ...mounts.map(({ from }) => from), ...writable])];
  return [
    BASE_RULES,
    // To know that a folder is there is not to see what is in it.
    formatRule(
      "allow file-read-metadata",
      [...new Set([...readable, places.node].flatMap(listParents)), ...SYSTEM_LINKS].map(formatLiteral),
    ),
    formatRule("allow file-read* file-map-executable", [...readable.map(formatSubpath), formatLiteral(places.node)]),
    formatRule("allow file-write*", writable.map(formatSubpath)),
    // A skill's folder stays as it is, also where it is in a folder that can be written to.
    ...formatDenyRules(mounts.filter(({ access }) => access === "read").map(({ from }) => from)),
    ...(places.socket === undefined || places.port === undefined ? [] : formatNetworkRules(places.socket, places.port)),
    ...(places.sockets ?? []).flatMap(formatSocketRules),
    "",
  ].join("\n");
}

/** What programs need to start at all. No service is named that would act for its caller: those are ways out. */
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

/** What comes with the system, and programs that were added to it. Nothing of a user's: not all of /System, where all disks are. */
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

/** Where the system leads elsewhere. */
const SYSTEM_LINKS = ["/dev", "/etc", "/tmp", "/var", "/private/var/run"];

function listParents(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [...listParents(parent), parent];
}

function formatNetworkRules(socket: string, port: number): string[] {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new RangeError(`${port} is no port`);
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

/** A string of the language, which ends at a quotation mark that no backslash stands before. */
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
  const places = {
    home: join(own, "home"),
    temporary: join(own, "tmp"),
    node: await realpath(node),
    ...network,
    sockets,
  };
  await Promise.all([mkdir(places.home), mkdir(places.temporary)]);
  const argv = network ? wrapWithForwarder(command.argv, { ...network, node: places.node }) : command.argv;
  const path = `${dirname(places.node)}:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin`;
  return {
    args: ["-p", formatSeatbeltProfile({ mounts }, places), "--", ...argv],
    env: { ...FIXED_VARIABLES, PATH: path, HOME: places.home, TMPDIR: places.temporary, ...command.env },
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

/** There is one loopback interface for all: the port is known before the profile is written, and only what is open is behind it. */
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
    message: "Packages cannot be added to a sandbox of macOS",
    fix: 'install them on this machine, or set [sandbox] engine = "docker" with an image that has them in config.toml',
  });
}

function createPathError(path: string): SkillError {
  return new SkillError("mount-unusable", {
    message: `A sandbox cannot be given ${JSON.stringify(path)}: a whole path without control characters is needed`,
    fix: "rename the folder",
  });
}
