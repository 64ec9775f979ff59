import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { HOME_FOLDER, type Mount, type SandboxLimits } from "../host/sandbox-contract.ts";
import { findSystemProgram } from "../util/system.ts";

/** Open files of a process. Node, Python, git and apt need fewer; each may be a socket, for which the kernel holds memory. */
const MAX_DESCRIPTORS = 1024;

/**
 * What the kernel gives to a user as a whole, all programs of whom run out of it together. These limits count in the sandbox's own user
 * namespace, so all of its processes share them.
 */
const USER_LIMITS = { memlock: 64 * 1024, msgqueue: 256 * 1024, sigpending: 1024 };

/** Options of prlimit. `RLIMIT_AS` would break programs that reserve memory which they never use, as V8 does. */
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

/** The share of a real user's inotify instances and watches that a sandbox may take, and the most of each. */
const INOTIFY_SHARE = 1 / 4;
const INOTIFY_LIMITS = { max_inotify_instances: 32, max_inotify_watches: 16_384 };

/**
 * Starts a program in a user namespace that has smaller counts than its user, after shell text that is to run before. Contract: it fails before
 * it starts the program, or not at all.
 */
export type CountedStart = (argv: readonly string[], before?: string) => string[];

/**
 * Returns how to start programs so that they cannot take all inotify instances and watches of their user; undefined where that cannot
 * be done. A new namespace counts for itself, and its limits can be lowered from inside before anything else is in it.
 */
export function createCountedStart(): CountedStart | undefined {
  const unshare = findSystemProgram("unshare");
  // There only programs with a profile get a namespace that they may do something in.
  if (!unshare || readSysctl("kernel/apparmor_restrict_unprivileged_userns") === "1") return undefined;
  const writes = Object.entries(INOTIFY_LIMITS).map(([name, most]) => {
    const ofUser = Number(readSysctl(`user/${name}`) ?? Number.NaN);
    return Number.isNaN(ofUser)
      ? undefined
      : `echo ${Math.min(most, Math.floor(ofUser * INOTIFY_SHARE))} > ${formatSysctlPath(`user/${name}`)}`;
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
  /** The first process of the sandbox. */
  first(): number | undefined;
  limits: Pick<SandboxLimits, "memory" | "disk">;
  /** What is mounted in place of a folder of the sandbox's own is not counted. */
  mounts: readonly Pick<Mount, "to">[];
  /** Whether a cgroup counts its memory, that of the kernel too. */
  isCounted: boolean;
  onTooMuch(): void;
}

/**
 * Looks now and then at what a tree of processes holds together: at its files in memory, and where no cgroup counts it, at its memory and at what the
 * kernel holds for it. A limit of a process counts only memory of its own. Contract: gives what ends the looking.
 */
export function watchProcessTree({ first, limits, mounts, isCounted, onTooMuch }: WatchedTree): () => void {
  const { memory, disk } = limits;
  const places = MEMORY_FOLDERS.filter((place) => !mounts.some(({ to }) => to === place));
  let looksAbove = 0;
  const timer = setInterval(() => {
    const root = first();
    if (root === undefined) return;
    const tree = isCounted ? [root] : listProcessTree(root);
    const files = countFiles(tree, places);
    const held = isCounted ? 0 : measureTree(root, tree, { most: memory, files });
    looksAbove = held > memory ? looksAbove + 1 : 0;
    const isTooMuch = files > getMaxFileCount(disk) || held > CERTAIN_FACTOR * memory || looksAbove >= SAMPLES;
    if (isTooMuch) onTooMuch();
  }, POLL_MS);
  return () => clearInterval(timer);
}

/** Processes that end while they are looked at leave their share to the others, and it is counted twice: so it is looked twice, unless there is no doubt. */
const SAMPLES = 2;
const CERTAIN_FACTOR = 3;

/** Files and folders of all places in memory together: as many as fill their pages, were each one a page. The kernel takes its time to remove them. */
export function getMaxFileCount(disk: number): number {
  return Math.max(MIN_FILES, (MEMORY_FOLDERS.length * disk) / PAGE_BYTES);
}

const MEMORY_FOLDERS = ["/tmp", HOME_FOLDER, "/dev/shm", "/run"];
const PAGE_BYTES = 4096;
const MIN_FILES = 16_384;
/** What the kernel holds for a file in memory, beside what is in it. */
const FILE_BYTES = 1024;

/** The cheap sum counts a page once for each process that shares it: only where it is too large, the exact one is made. */
function measureTree(root: number, tree: readonly number[], { most, files }: { most: number; files: number }): number {
  const kernel = files * FILE_BYTES + measureSockets(root, most);
  const sum = (of: (pid: number) => HeldMemory) => {
    const all = tree.map(of);
    const own = all.reduce((bytes, held) => bytes + held.own, kernel);
    const shared = all.reduce((bytes, held) => bytes + held.shared, 0);
    return own + Math.max(shared, mapped);
  };
  const mapped = measureSharedMappings(tree);
  const resident = sum(readResidentMemory);
  return resident > most ? sum(readProportionalMemory) : resident;
}

/** In bytes. */
interface HeldMemory {
  own: number;
  shared: number;
}

/**
 * Shared memory without a name, each once, by its size: pages stay when the process that touched them ends, and are then in no other process's
 * figures. One that is mapped counts as a whole.
 */
function measureSharedMappings(tree: readonly number[]): number {
  const sizes = new Map<string, number>();
  for (const pid of tree) {
    for (const [, from = "", to = "", place = ""] of readTextOrEmpty(`/proc/${pid}/maps`).matchAll(SHARED_MAPPING))
      sizes.set(place, Number.parseInt(to, 16) - Number.parseInt(from, 16));
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

const SHARED_MAPPING = /^([\da-f]+)-([\da-f]+) ..\Ss ([\da-f]+ \S+ \d+) +\/dev\/zero \(deleted\)$/gm;

/** The process and its descendants. Who loses its parent belongs to the first of the namespace. */
function listProcessTree(pid: number): number[] {
  const children = listFolder(`/proc/${pid}/task`).flatMap((thread) =>
    readTextOrEmpty(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(listProcessTree)];
}

/** How many files there are in the sandbox's own folders. Whom nobody may look at has too many: it hides them. */
function countFiles(tree: readonly number[], places: readonly string[]): number {
  let isHidden = false;
  for (const pid of tree) {
    try {
      return places
        .map((folder) => statfsSync(`/proc/${pid}/root${folder}`))
        .map(({ files, ffree }) => files - ffree)
        .reduce((sum, one) => sum + one, 0);
    } catch (error) {
      isHidden ||= (error as NodeJS.ErrnoException).code === "EACCES"; // Else it is gone already.
    }
  }
  return isHidden ? Number.POSITIVE_INFINITY : 0;
}

/** With the tables of its pages: to read one page in every 2 MiB fills them, and no page of its own. */
function readResidentMemory(pid: number): HeldMemory {
  const status = readTextOrEmpty(`/proc/${pid}/status`);
  return { own: sumKibFields(status, ["RssAnon", "VmPTE"]), shared: sumKibFields(status, ["RssShmem"]) };
}

/** Its share of the pages that it has with others. */
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

/** What a socket can hold whose buffers have their usual size: the filter lets nobody change it. The last message may be as large again. */
function readSocketBytes(): number {
  const sizes = ["wmem_default", "rmem_default"].map((name) => Number(readTextOrEmpty(`/proc/sys/net/core/${name}`)));
  return 2 * Math.max(DEFAULT_BUFFER_BYTES, ...sizes);
}

/** The kernel's own. In a network namespace other than the first the setting cannot be read. */
const DEFAULT_BUFFER_BYTES = 212_992;
/** The kernel gives a TCP connection more as it needs it. */
const CONNECTION_BYTES = 4 * 1024 * 1024;

/** At most what the kernel holds for the sockets of a network namespace. */
function measureSockets(pid: number, most: number): number {
  const counts = readTextOrEmpty(`/proc/${pid}/net/sockstat`);
  const numberAfter = (name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(counts)?.[1] ?? 0);
  const all = numberAfter("sockets: used");
  const connections =
    numberAfter("TCP: inuse") +
    Number(/^TCP6: inuse (\d+)/m.exec(readTextOrEmpty(`/proc/${pid}/net/sockstat6`))?.[1] ?? 0);
  const others = Math.max(0, all - connections) * readSocketBytes();
  // To look at each takes some milliseconds, so only where they could hold a good part of it.
  if (connections * CONNECTION_BYTES < most / 4) return others;
  return (
    others +
    ["tcp", "tcp6"]
      .map((name) => sumQueuedBytes(readTextOrEmpty(`/proc/${pid}/net/${name}`)))
      .reduce((sum, one) => sum + one, 0)
  );
}

/** Bytes that were sent and not yet read, of every connection. */
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
    return []; // It is gone already.
  }
}

function readTextOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
