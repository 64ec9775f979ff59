import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Limits } from "../host/sandbox.ts";

/** A cgroup for one run: it bounds all its processes together, and names them all when they are to end. */
export interface Cgroup {
  /** The files that a process writes 0 to, to be in it with all that it starts. Moving another one waits for the whole machine. */
  readonly doors: readonly string[];
  kill(): void;
  /** Whether the kernel ended a process for want of memory. */
  ranOutOfMemory(): boolean;
  /** Resolves when it is gone. */
  remove(): Promise<void>;
}

/** Makes one, in the caller's own cgroup and so within its bounds; undefined where none can be had. */
export function makeCgroup(limits: Pick<Limits, "memory" | "processes">): Cgroup | undefined {
  const name = `skillet-${pidNamespace()}-${process.pid}-${++made}`;
  for (const folder of placesForBoth()) {
    const group = tryFolders([join(folder, name)], [UNIFIED], limits);
    if (group) return group;
  }
  const v1 = placesForEach();
  return (
    v1 &&
    tryFolders(
      v1.map((folder) => join(folder, name)),
      [MEMORY, PIDS],
      limits,
    )
  );
}

let made = 0;

/** Numbers of processes say something only within it, and cgroups can be seen from several. */
function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    return "0"; // There is no /proc, and so no cgroup either.
  }
}

type Files = (
  limits: Pick<Limits, "memory" | "processes">,
) => readonly (readonly [file: string, value: number, isOptional?: boolean])[];
const UNIFIED: Files = ({ memory, processes }) => [
  ["memory.max", memory],
  ["memory.swap.max", 0, true],
  ["pids.max", processes],
];
const MEMORY: Files = ({ memory }) => [
  ["memory.limit_in_bytes", memory],
  ["memory.memsw.limit_in_bytes", memory, true],
  // What TCP connections hold is not part of the rest here.
  ["memory.kmem.tcp.limit_in_bytes", memory, true],
];
const PIDS: Files = ({ processes }) => [["pids.max", processes]];

const MOUNT = "/sys/fs/cgroup";

/** cgroup v2: the caller's own group and those above it that the caller may divide, then its own once it was made divisible. */
function* placesForBoth(): Generator<string> {
  if (!existsSync(join(MOUNT, "cgroup.controllers"))) return;
  const own = ownPath("");
  for (let path = own; ; path = dirname(path)) {
    const folder = join(MOUNT, path);
    // A process enters a group from another one only where it may write to the group around both.
    if (hasControllers(folder, "cgroup.subtree_control") && isWritable(folder, ["cgroup.procs"])) yield folder;
    if (path === "/") break;
  }
  const divided = divideGroup(join(MOUNT, own));
  if (divided !== undefined) yield divided;
}

function hasControllers(folder: string, file: string): boolean {
  const controllers = read(join(folder, file)).trim().split(/\s+/);
  return controllers.includes("memory") && controllers.includes("pids");
}

function isWritable(folder: string, files: readonly string[]): boolean {
  try {
    for (const file of ["", ...files]) accessSync(join(folder, file), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** The group below a divided one that its own processes are in. */
const HOST_GROUP = "skillet-host";

/**
 * Makes a group divisible that was delegated to this process, as to a systemd unit with `Delegate=yes`. A group with controllers for others below it
 * has no processes, so this one moves to a group of its own. Contract: nothing changes where other processes than this one and its children are in it.
 */
function divideGroup(folder: string): string | undefined {
  if (!hasControllers(folder, "cgroup.controllers")) return undefined;
  if (!isWritable(folder, ["cgroup.procs", "cgroup.subtree_control"])) return undefined;
  const pids = read(join(folder, "cgroup.procs")).split("\n").filter(Boolean);
  if (!pids.every((pid) => pid === String(process.pid) || parentOf(pid) === String(process.pid))) return undefined;
  const leaf = join(folder, HOST_GROUP);
  const move = (to: string) => {
    for (const pid of pids) writeFileSync(join(to, "cgroup.procs"), pid);
  };
  try {
    mkdirSync(leaf, { recursive: true });
    move(leaf);
    writeFileSync(join(folder, "cgroup.subtree_control"), "+memory +pids");
    return folder;
  } catch {
    try {
      move(folder);
    } catch {
      // It is in a group below its own then, with the same bounds.
    }
    removeFolder(leaf);
    return undefined;
  }
}

function parentOf(pid: string): string | undefined {
  return /^PPid:\s*(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1];
}

/** cgroup v1: a folder for each of the two, the caller's own where it can be seen. */
function placesForEach(): string[] | undefined {
  const folders = ["memory", "pids"].map((controller) => {
    const mount = join(MOUNT, controller);
    const own = join(mount, ownPath(controller));
    return existsSync(own) ? own : mount;
  });
  return folders.every(existsSync) ? folders : undefined;
}

function ownPath(controller: string): string {
  const line = read("/proc/self/cgroup")
    .split("\n")
    .map((text) => text.split(":"))
    .find(([, names = ""]) => names.split(",").includes(controller));
  return line?.slice(2).join(":") || "/";
}

function tryFolders(
  folders: readonly string[],
  files: readonly Files[],
  limits: Pick<Limits, "memory" | "processes">,
): Cgroup | undefined {
  try {
    for (const [index, folder] of folders.entries()) {
      sweep(dirname(folder));
      mkdirSync(folder);
      for (const [file, value, isOptional] of files[index]?.(limits) ?? []) {
        const path = join(folder, file);
        if (!isOptional || existsSync(path)) writeFileSync(path, String(value));
      }
    }
    return group(folders);
  } catch {
    for (const folder of folders) removeFolder(folder);
    return undefined; // Not this caller's to divide.
  }
}

function group(folders: readonly string[]): Cgroup {
  return {
    doors: folders.map((folder) => join(folder, folders.length > 1 ? "tasks" : "cgroup.procs")),
    kill: () => killAll(folders.at(-1) ?? ""),
    ranOutOfMemory: () => {
      const [folder = ""] = folders;
      const counts = read(join(folder, "memory.events")) || read(join(folder, "memory.oom_control"));
      return /^oom_kill [1-9]/m.test(counts);
    },
    async remove() {
      for (let tries = 0; tries < 100; tries++) {
        if (folders.map(removeFolder).every(Boolean)) return;
        await new Promise((resolve) => setTimeout(resolve, tries < 10 ? 1 : 10)); // The kernel takes its time with the last process.
      }
    },
  };
}

export function killAll(folder: string): void {
  for (const pid of read(join(folder, "cgroup.procs")).split("\n").map(Number)) {
    try {
      // The kernel writes 0 for a process of another namespace, which to kill() is the caller's own group.
      if (pid > 1) process.kill(pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

/** What a host that died left behind. Whether one of another namespace lives cannot be told. */
export function sweep(parent: string): void {
  for (const name of readdirSync(parent)) {
    const [, namespace, pid] = /^skillet-(\d+)-(\d+)-\d+$/.exec(name) ?? [];
    if (namespace !== pidNamespace() || existsSync(`/proc/${pid}`)) continue;
    killAll(join(parent, name));
    removeFolder(join(parent, name));
  }
}

function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return !existsSync(folder);
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
