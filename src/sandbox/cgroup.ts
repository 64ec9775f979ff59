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
import type { SandboxLimits } from "../host/sandbox-contract.ts";

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
export function createCgroup(limits: Pick<SandboxLimits, "memory" | "processes">): Cgroup | undefined {
  const name = `skillet-${readPidNamespace()}-${process.pid}-${++createdCount}`;
  for (const folder of listV2Parents()) {
    const group = createInFolders([join(folder, name)], [V2_LIMIT_FILES], limits);
    if (group) return group;
  }
  const v1 = findV1Parents();
  return (
    v1 &&
    createInFolders(
      v1.map((folder) => join(folder, name)),
      [V1_MEMORY_FILES, V1_PIDS_FILES],
      limits,
    )
  );
}

let createdCount = 0;

/** Numbers of processes say something only within it, and cgroups can be seen from several. */
function readPidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    return "0"; // There is no /proc, and so no cgroup either.
  }
}

type LimitFiles = (
  limits: Pick<SandboxLimits, "memory" | "processes">,
) => readonly (readonly [file: string, value: number, isOptional?: boolean])[];
const V2_LIMIT_FILES: LimitFiles = ({ memory, processes }) => [
  ["memory.max", memory],
  ["memory.swap.max", 0, true],
  ["pids.max", processes],
];
const V1_MEMORY_FILES: LimitFiles = ({ memory }) => [
  ["memory.limit_in_bytes", memory],
  ["memory.memsw.limit_in_bytes", memory, true],
  // What TCP connections hold is not part of the rest here.
  ["memory.kmem.tcp.limit_in_bytes", memory, true],
];
const V1_PIDS_FILES: LimitFiles = ({ processes }) => [["pids.max", processes]];

const CGROUP_MOUNT = "/sys/fs/cgroup";

/** cgroup v2: the caller's own group and those above it that the caller may divide, then its own once it was made divisible. */
function* listV2Parents(): Generator<string> {
  if (!existsSync(join(CGROUP_MOUNT, "cgroup.controllers"))) return;
  const own = readOwnPath("");
  for (let path = own; ; path = dirname(path)) {
    const folder = join(CGROUP_MOUNT, path);
    // A process enters a group from another one only where it may write to the group around both.
    if (hasControllers(folder, "cgroup.subtree_control") && isWritable(folder, ["cgroup.procs"])) yield folder;
    if (path === "/") break;
  }
  const divided = delegateGroup(join(CGROUP_MOUNT, own));
  if (divided !== undefined) yield divided;
}

function hasControllers(folder: string, file: string): boolean {
  const controllers = readTextOrEmpty(join(folder, file)).trim().split(/\s+/);
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
function delegateGroup(folder: string): string | undefined {
  if (!hasControllers(folder, "cgroup.controllers")) return undefined;
  if (!isWritable(folder, ["cgroup.procs", "cgroup.subtree_control"])) return undefined;
  const pids = readTextOrEmpty(join(folder, "cgroup.procs")).split("\n").filter(Boolean);
  if (!pids.every((pid) => pid === String(process.pid) || readParentPid(pid) === String(process.pid))) return undefined;
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
    removeGroupFolder(leaf);
    return undefined;
  }
}

function readParentPid(pid: string): string | undefined {
  return /^PPid:\s*(\d+)/m.exec(readTextOrEmpty(`/proc/${pid}/status`))?.[1];
}

/** cgroup v1: a folder for each of the two, the caller's own where it can be seen. */
function findV1Parents(): string[] | undefined {
  const folders = ["memory", "pids"].map((controller) => {
    const mount = join(CGROUP_MOUNT, controller);
    const own = join(mount, readOwnPath(controller));
    return existsSync(own) ? own : mount;
  });
  return folders.every(existsSync) ? folders : undefined;
}

function readOwnPath(controller: string): string {
  const line = readTextOrEmpty("/proc/self/cgroup")
    .split("\n")
    .map((text) => text.split(":"))
    .find(([, names = ""]) => names.split(",").includes(controller));
  return line?.slice(2).join(":") || "/";
}

function createInFolders(
  folders: readonly string[],
  files: readonly LimitFiles[],
  limits: Pick<SandboxLimits, "memory" | "processes">,
): Cgroup | undefined {
  try {
    for (const [index, folder] of folders.entries()) {
      removeStaleCgroups(dirname(folder));
      mkdirSync(folder);
      for (const [file, value, isOptional] of files[index]?.(limits) ?? []) {
        const path = join(folder, file);
        if (!isOptional || existsSync(path)) writeFileSync(path, String(value));
      }
    }
    return createGroupHandle(folders);
  } catch {
    for (const folder of folders) removeGroupFolder(folder);
    return undefined; // Not this caller's to divide.
  }
}

function createGroupHandle(folders: readonly string[]): Cgroup {
  return {
    doors: folders.map((folder) => join(folder, folders.length > 1 ? "tasks" : "cgroup.procs")),
    kill: () => killCgroup(folders.at(-1) ?? ""),
    ranOutOfMemory: () => {
      const [folder = ""] = folders;
      const counts =
        readTextOrEmpty(join(folder, "memory.events")) || readTextOrEmpty(join(folder, "memory.oom_control"));
      return /^oom_kill [1-9]/m.test(counts);
    },
    async remove() {
      for (let tries = 0; tries < 100; tries++) {
        if (folders.map(removeGroupFolder).every(Boolean)) return;
        await new Promise((resolve) => setTimeout(resolve, tries < 10 ? 1 : 10)); // The kernel takes its time with the last process.
      }
    },
  };
}

export function killCgroup(folder: string): void {
  for (const pid of readTextOrEmpty(join(folder, "cgroup.procs")).split("\n").map(Number)) {
    try {
      // The kernel writes 0 for a process of another namespace, which to kill() is the caller's own group.
      if (pid > 1) process.kill(pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

/** What a host that died left behind. Whether one of another namespace lives cannot be told. */
export function removeStaleCgroups(parent: string): void {
  for (const name of readdirSync(parent)) {
    const [, namespace, pid] = /^skillet-(\d+)-(\d+)-\d+$/.exec(name) ?? [];
    if (namespace !== readPidNamespace() || existsSync(`/proc/${pid}`)) continue;
    killCgroup(join(parent, name));
    removeGroupFolder(join(parent, name));
  }
}

function removeGroupFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return !existsSync(folder);
  }
}

function readTextOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
