import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { HOME_FOLDER, type Limits, type Mount } from "../host/sandbox.ts";

const EVERY_MS = 100;

export interface WatchedTree {
  /** The first process of the sandbox. */
  first(): number | undefined;
  limits: Pick<Limits, "memory" | "disk">;
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
export function watchTree({ first, limits, mounts, isCounted, onTooMuch }: WatchedTree): () => void {
  const { memory, disk } = limits;
  const places = PLACES.filter((place) => !mounts.some(({ to }) => to === place));
  let looksAbove = 0;
  const timer = setInterval(() => {
    const root = first();
    if (root === undefined) return;
    const tree = isCounted ? [root] : treeOf(root);
    const files = filesOf(tree, places);
    const held = isCounted ? 0 : heldBy(root, tree, { most: memory, files });
    looksAbove = held > memory ? looksAbove + 1 : 0;
    const isTooMuch = files > mostFiles(disk) || held > SURE * memory || looksAbove >= LOOKS;
    if (isTooMuch) onTooMuch();
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** Processes that end while they are looked at leave their share to the others, and it is counted twice: so it is looked twice, unless there is no doubt. */
const LOOKS = 2;
const SURE = 3;

/** Files and folders of all places in memory together: as many as fill their pages, were each one a page. The kernel takes its time to remove them. */
export function mostFiles(disk: number): number {
  return Math.max(LEAST_FILES, (PLACES.length * disk) / PAGE_BYTES);
}

const PLACES = ["/tmp", HOME_FOLDER, "/dev/shm", "/run"];
const PAGE_BYTES = 4096;
const LEAST_FILES = 16_384;
/** What the kernel holds for a file in memory, beside what is in it. */
const FILE_BYTES = 1024;

/** The cheap sum counts a page once for each process that shares it: only where it is too large, the exact one is made. */
function heldBy(root: number, tree: readonly number[], { most, files }: { most: number; files: number }): number {
  const kernel = files * FILE_BYTES + bySockets(root, most);
  const sum = (of: (pid: number) => Held) => {
    const all = tree.map(of);
    const own = all.reduce((bytes, held) => bytes + held.own, kernel);
    const shared = all.reduce((bytes, held) => bytes + held.shared, 0);
    return own + Math.max(shared, mapped);
  };
  const mapped = sharedMappings(tree);
  const resident = sum(residentOf);
  return resident > most ? sum(shareOf) : resident;
}

/** In bytes. */
interface Held {
  own: number;
  shared: number;
}

/**
 * Shared memory without a name, each once, by its size: pages stay when the process that touched them ends, and are then in no other process's
 * figures. One that is mapped counts as a whole.
 */
export function sharedMappings(tree: readonly number[]): number {
  const sizes = new Map<string, number>();
  for (const pid of tree) {
    for (const [, from = "", to = "", place = ""] of read(`/proc/${pid}/maps`).matchAll(SHARED_MAPPING))
      sizes.set(place, Number.parseInt(to, 16) - Number.parseInt(from, 16));
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

const SHARED_MAPPING = /^([\da-f]+)-([\da-f]+) ..\Ss ([\da-f]+ \S+ \d+) +\/dev\/zero \(deleted\)$/gm;

/** The process and its descendants. Who loses its parent belongs to the first of the namespace. */
function treeOf(pid: number): number[] {
  const children = list(`/proc/${pid}/task`).flatMap((thread) =>
    read(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(treeOf)];
}

/** How many files there are in the sandbox's own folders. Whom nobody may look at has too many: it hides them. */
function filesOf(tree: readonly number[], places: readonly string[]): number {
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
function residentOf(pid: number): Held {
  const status = read(`/proc/${pid}/status`);
  return { own: kibIn(status, ["RssAnon", "VmPTE"]), shared: kibIn(status, ["RssShmem"]) };
}

/** Its share of the pages that it has with others. */
function shareOf(pid: number): Held {
  const shares = read(`/proc/${pid}/smaps_rollup`);
  if (shares === "") return residentOf(pid);
  const tables = kibIn(read(`/proc/${pid}/status`), ["VmPTE"]);
  return { own: kibIn(shares, ["Pss_Anon"]) + tables, shared: kibIn(shares, ["Pss_Shmem"]) };
}

function kibIn(text: string, names: readonly string[]): number {
  const kib = names.map((name) => Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(text)?.[1] ?? 0));
  return kib.reduce((sum, one) => sum + one, 0) * 1024;
}

/** What a socket can hold whose buffers have their usual size: the filter lets nobody change it. The last message may be as large again. */
function socketBytes(): number {
  const sizes = ["wmem_default", "rmem_default"].map((name) => Number(read(`/proc/sys/net/core/${name}`)));
  return 2 * Math.max(USUAL_BUFFER, ...sizes);
}

/** The kernel's own. In a network namespace other than the first the setting cannot be read. */
const USUAL_BUFFER = 212_992;
/** The kernel gives a TCP connection more as it needs it. */
const CONNECTION_BYTES = 4 * 1024 * 1024;

/** At most what the kernel holds for the sockets of a network namespace. */
function bySockets(pid: number, most: number): number {
  const counts = read(`/proc/${pid}/net/sockstat`);
  const numberAfter = (name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(counts)?.[1] ?? 0);
  const all = numberAfter("sockets: used");
  const connections =
    numberAfter("TCP: inuse") + Number(/^TCP6: inuse (\d+)/m.exec(read(`/proc/${pid}/net/sockstat6`))?.[1] ?? 0);
  const others = Math.max(0, all - connections) * socketBytes();
  // To look at each takes some milliseconds, so only where they could hold a good part of it.
  if (connections * CONNECTION_BYTES < most / 4) return others;
  return (
    others +
    ["tcp", "tcp6"].map((name) => queuedIn(read(`/proc/${pid}/net/${name}`))).reduce((sum, one) => sum + one, 0)
  );
}

/** Bytes that were sent and not yet read, of every connection. */
function queuedIn(table: string): number {
  const rows = table.matchAll(/ ([0-9A-F]{8}):([0-9A-F]{8}) /g);
  return Array.from(
    rows,
    ([, sent = "0", received = "0"]) => Number.parseInt(sent, 16) + Number.parseInt(received, 16),
  ).reduce((sum, one) => sum + one, 0);
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // It is gone already.
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
