import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { HOME_FOLDER, type Mount, type SandboxLimits } from "../host/sandbox-contract.ts";
import { findSystemProgram } from "../util/system.ts";

/**
 * Open files per process. Node, Python, git and apt need fewer. Each may be a socket, for which the kernel holds
 * memory.
 */
const MAX_DESCRIPTORS = 1024;

/**
 * Limits that the kernel applies to a user as a whole, so that all programs of the user run out together. They count in
 * the sandbox's own user namespace, so all its processes share them.
 */
const USER_LIMITS = { memlock: 64 * 1024, msgqueue: 256 * 1024, sigpending: 1024 };

/**
 * Creates the options of prlimit. `RLIMIT_AS` would break programs that reserve memory which they never use, as V8
 * does.
 */
export function createPrlimitArguments({ disk, memory, processes }: SandboxLimits, isCounted: boolean): string[] {
  const limits = {
    core: 0,
    fsize: disk,
    nofile: MAX_DESCRIPTORS,
    ...USER_LIMITS,
    ...(isCounted ? {} : { nproc: processes, data: memory }),
  };
  return Object.entries(limits).map(([name, value]) => `--${name}=${value}`);
}

/** The share of an account's inotify instances and watches that a sandbox may take, and the maximum of each. */
const INOTIFY_SHARE = 1 / 4;
const INOTIFY_LIMITS = { max_inotify_instances: 32, max_inotify_watches: 16_384 };

/**
 * Wraps a command so that it starts in a user namespace with lower limits than its user's, after the shell text
 * `before`. Contract: it fails before it starts the program, or not at all.
 */
export type CountedStart = (argv: readonly string[], before?: string) => string[];

/**
 * Returns a function that wraps commands so that they cannot take all inotify instances and watches of their user, or
 * undefined if that is not possible. A new namespace has its own counts, and its limits can be lowered from inside
 * before it runs anything else.
 */
export function createCountedStart(): CountedStart | undefined {
  const unshare = findSystemProgram("unshare");
  // With this setting only programs with a profile get a usable namespace.
  if (!unshare || readSysctl("kernel/apparmor_restrict_unprivileged_userns") === "1") return undefined;
  const writes = Object.entries(INOTIFY_LIMITS).map(([name, max]) => {
    const userLimit = Number(readSysctl(`user/${name}`) ?? Number.NaN);
    return Number.isNaN(userLimit)
      ? undefined
      : `echo ${Math.min(max, Math.floor(userLimit * INOTIFY_SHARE))} > ${formatSysctlPath(`user/${name}`)}`;
  });
  if (writes.includes(undefined)) return undefined;
  const script = `{ ${writes.join(" && ")}; } 2>/dev/null || exit ${COUNTING_FAILED}; exec "$@"`;
  return (argv, before = ":") => [
    unshare,
    "--user",
    "--map-root-user",
    "/bin/sh",
    "-c",
    `${before}; ${script}`,
    "sh",
    ...argv,
  ];
}

const COUNTING_FAILED = 114;

function readSysctl(name: string): string | undefined {
  try {
    return readFileSync(formatSysctlPath(name), "utf8").trim();
  } catch {
    return undefined;
  }
}

const formatSysctlPath = (name: string) => `/proc/sys/${name}`;

const POLL_MS = 100;

interface WatchedTree {
  /** Returns the PID of the sandbox's first process. */
  getFirstPid(): number | undefined;
  limits: Pick<SandboxLimits, "memory" | "disk">;
  /** Mounts of the command. A folder of the sandbox replaced by a mount is not counted. */
  mounts: readonly Pick<Mount, "to">[];
  /** True if a cgroup counts its memory, including that of the kernel. */
  isCounted: boolean;
  onExceeded(): void;
}

/**
 * Checks at intervals the resources that a process tree holds together: its files in memory and, without a cgroup, its
 * memory and the kernel's memory for it. A process limit counts only the memory of one process. Contract: returns a
 * function that ends the watch.
 */
export function watchProcessTree({
  getFirstPid: first,
  limits,
  mounts,
  isCounted,
  onExceeded: onTooMuch,
}: WatchedTree): () => void {
  const { memory, disk } = limits;
  const folders = MEMORY_FOLDERS.filter((folder) => !mounts.some(({ to }) => to === folder));
  let samplesAbove = 0;
  const timer = setInterval(() => {
    const root = first();
    if (root === undefined) return;
    const tree = isCounted ? [root] : listProcessTree(root);
    const files = countFiles(tree, folders);
    const held = isCounted ? 0 : measureTree(root, tree, { max: memory, files });
    samplesAbove = held > memory ? samplesAbove + 1 : 0;
    const isTooMuch = files > getMaxFileCount(disk) || held > CERTAIN_FACTOR * memory || samplesAbove >= SAMPLES;
    if (isTooMuch) onTooMuch();
  }, POLL_MS);
  return () => clearInterval(timer);
}

/**
 * A process that exits during a measurement passes its share on to the others and is counted twice. So two samples are
 * needed, unless the first is far above the limit.
 */
const SAMPLES = 2;
const CERTAIN_FACTOR = 3;

/**
 * Returns the maximum number of files and folders in all memory folders together: as many as would fill them at one
 * page each. The kernel is slow to remove them.
 */
export function getMaxFileCount(disk: number): number {
  return Math.max(MIN_FILES, (MEMORY_FOLDERS.length * disk) / PAGE_BYTES);
}

const MEMORY_FOLDERS = ["/tmp", HOME_FOLDER, "/dev/shm", "/run"];
const PAGE_BYTES = 4096;
const MIN_FILES = 16_384;
/** The kernel's memory per file in memory, in addition to its content. */
const FILE_BYTES = 1024;

/**
 * Measures the memory of a tree. The cheap sum counts a shared page once per process. The exact sum is made only if the
 * cheap one is too large.
 */
function measureTree(root: number, tree: readonly number[], { max, files }: { max: number; files: number }): number {
  const kernel = files * FILE_BYTES + measureSockets(root, max);
  const sum = (of: (pid: number) => HeldMemory) => {
    const all = tree.map(of);
    const own = all.reduce((bytes, held) => bytes + held.own, kernel);
    const shared = all.reduce((bytes, held) => bytes + held.shared, 0);
    return own + Math.max(shared, mapped);
  };
  const mapped = measureSharedMappings(tree);
  const resident = sum(readResidentMemory);
  return resident > max ? sum(readProportionalMemory) : resident;
}

/** In bytes. */
interface HeldMemory {
  own: number;
  shared: number;
}

/**
 * Sums the sizes of anonymous shared mappings, each once. Their pages remain when the process that touched them exits,
 * and then no other process's figures include them. A mapping counts with its full size.
 */
function measureSharedMappings(tree: readonly number[]): number {
  const sizes = new Map<string, number>();
  for (const pid of tree) {
    for (const [, from = "", to = "", folder = ""] of readTextOrEmpty(`/proc/${pid}/maps`).matchAll(SHARED_MAPPING))
      sizes.set(folder, Number.parseInt(to, 16) - Number.parseInt(from, 16));
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

const SHARED_MAPPING = /^([\da-f]+)-([\da-f]+) ..\Ss ([\da-f]+ \S+ \d+) +\/dev\/zero \(deleted\)$/gm;

/** Lists the process and its descendants. An orphan becomes a child of the namespace's first process. */
function listProcessTree(pid: number): number[] {
  const children = listFolder(`/proc/${pid}/task`).flatMap((thread) =>
    readTextOrEmpty(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(listProcessTree)];
}

/** Counts the files in the sandbox's own folders. A process that hides them counts as over the limit. */
function countFiles(tree: readonly number[], folders: readonly string[]): number {
  let isHidden = false;
  for (const pid of tree) {
    try {
      return folders
        .map((folder) => statfsSync(`/proc/${pid}/root${folder}`))
        .map(({ files, ffree }) => files - ffree)
        .reduce((sum, one) => sum + one, 0);
    } catch (error) {
      isHidden ||= (error as NodeJS.ErrnoException).code === "EACCES"; // Otherwise it has already exited.
    }
  }
  return isHidden ? Number.POSITIVE_INFINITY : 0;
}

/**
 * Reads the resident memory including page tables: reading one page in every 2 MiB fills the tables without any own
 * page.
 */
function readResidentMemory(pid: number): HeldMemory {
  const status = readTextOrEmpty(`/proc/${pid}/status`);
  return { own: sumKibFields(status, ["RssAnon", "VmPTE"]), shared: sumKibFields(status, ["RssShmem"]) };
}

/** Reads the memory with the process's proportional share of shared pages. */
function readProportionalMemory(pid: number): HeldMemory {
  const shares = readTextOrEmpty(`/proc/${pid}/smaps_rollup`);
  if (shares === "") return readResidentMemory(pid);
  const tables = sumKibFields(readTextOrEmpty(`/proc/${pid}/status`), ["VmPTE"]);
  return { own: sumKibFields(shares, ["Pss_Anon"]) + tables, shared: sumKibFields(shares, ["Pss_Shmem"]) };
}

function sumKibFields(text: string, names: readonly string[]): number {
  const kib = names.map((name) => Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(text)?.[1] ?? 0));
  return kib.reduce((sum, one) => sum + one, 0) * 1024;
}

/**
 * Returns the bytes that a socket with default buffers can hold: the filter prevents changing their size. The last
 * message may be as large again.
 */
function readSocketBytes(): number {
  const sizes = ["wmem_default", "rmem_default"].map((name) => Number(readTextOrEmpty(`/proc/sys/net/core/${name}`)));
  return 2 * Math.max(DEFAULT_BUFFER_BYTES, ...sizes);
}

/** The kernel's default. In a network namespace other than the first the setting cannot be read. */
const DEFAULT_BUFFER_BYTES = 212_992;
/** The kernel extends the buffers of a TCP connection as needed. */
const CONNECTION_BYTES = 4 * 1024 * 1024;

/** Returns an upper bound for the kernel's memory for the sockets of a network namespace. */
function measureSockets(pid: number, max: number): number {
  const counts = readTextOrEmpty(`/proc/${pid}/net/sockstat`);
  const numberAfter = (name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(counts)?.[1] ?? 0);
  const all = numberAfter("sockets: used");
  const connections =
    numberAfter("TCP: inuse") +
    Number(/^TCP6: inuse (\d+)/m.exec(readTextOrEmpty(`/proc/${pid}/net/sockstat6`))?.[1] ?? 0);
  const others = Math.max(0, all - connections) * readSocketBytes();
  // Inspecting each connection takes milliseconds, so only do it if they could hold a large part of the limit.
  if (connections * CONNECTION_BYTES < max / 4) return others;
  return (
    others +
    ["tcp", "tcp6"]
      .map((name) => sumQueuedBytes(readTextOrEmpty(`/proc/${pid}/net/${name}`)))
      .reduce((sum, one) => sum + one, 0)
  );
}

/** Sums the bytes of all connections that were sent and not yet read. */
function sumQueuedBytes(table: string): number {
  const rows = table.matchAll(/ ([0-9A-F]{8}):([0-9A-F]{8}) /g);
  return Array.from(
    rows,
    ([, sent = "0", received = "0"]) => Number.parseInt(sent, 16) + Number.parseInt(received, 16),
  ).reduce((sum, one) => sum + one, 0);
}

function listFolder(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // It has already exited.
  }
}

function readTextOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
