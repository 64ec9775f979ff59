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
import { createFolder } from "../util/file-access.ts";

/** A cgroup for one run: it limits all processes of the run together, and lists them when they must end. */
export interface Cgroup {
  /**
   * The files to which a process writes 0 to join the group, with everything it starts. Moving another process would
   * block the whole machine.
   */
  readonly procsFiles: readonly string[];
  kill(): void;
  /** Returns true if the kernel killed a process because memory ran out. */
  ranOutOfMemory(): boolean;
  /** Resolves when the group is removed. */
  remove(): Promise<void>;
}

/**
 * Creates a cgroup inside the caller's own one, and so within its limits. Returns undefined if that is not possible.
 */
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

/** Process IDs are unique only within their PID namespace, and several namespaces can see the same cgroups. */
function readPidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  } catch {
    return "0"; // Without /proc there are no cgroups either.
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
  // cgroup v1 counts the memory of TCP connections separately.
  ["memory.kmem.tcp.limit_in_bytes", memory, true],
];
const V1_PIDS_FILES: LimitFiles = ({ processes }) => [["pids.max", processes]];

const CGROUP_MOUNT = "/sys/fs/cgroup";

/**
 * Lists the possible parents in cgroup v2: the caller's own group and its ancestors if the caller may divide them, then
 * its own group after delegation.
 */
function* listV2Parents(): Generator<string> {
  if (!existsSync(join(CGROUP_MOUNT, "cgroup.controllers"))) return;
  const own = readOwnPath("");
  for (let path = own; ; path = dirname(path)) {
    const folder = join(CGROUP_MOUNT, path);
    // A process can move between groups only if it may write to their common ancestor.
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

/** The child group of a divided group that holds the host's own processes. */
const HOST_GROUP = "skillet-host";

/**
 * Makes a group divisible that was delegated to this process, as to a systemd unit with `Delegate=yes`. A group whose
 * controllers are enabled for children must have no processes, so this process moves to a child group. Contract:
 * changes nothing if the group contains other processes than this one and its children.
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
    createFolder(leaf);
    move(leaf);
    writeFileSync(join(folder, "cgroup.subtree_control"), "+memory +pids");
    return folder;
  } catch {
    try {
      move(folder);
    } catch {
      // The process then stays in the child group, with the same limits.
    }
    removeGroupFolder(leaf);
    return undefined;
  }
}

function readParentPid(pid: string): string | undefined {
  return /^PPid:\s*(\d+)/m.exec(readTextOrEmpty(`/proc/${pid}/status`))?.[1];
}

/** Finds the parents in cgroup v1: one folder per controller, the caller's own if it is visible. */
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
    return undefined; // The caller may not divide this group.
  }
}

function createGroupHandle(folders: readonly string[]): Cgroup {
  return {
    procsFiles: folders.map((folder) => join(folder, folders.length > 1 ? "tasks" : "cgroup.procs")),
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
        await new Promise((resolve) => setTimeout(resolve, tries < 10 ? 1 : 10)); // The kernel removes the last process with a delay.
      }
    },
  };
}

export function killCgroup(folder: string): void {
  for (const pid of readTextOrEmpty(join(folder, "cgroup.procs")).split("\n").map(Number)) {
    try {
      // The kernel writes 0 for a process of another namespace, which kill() would take for the caller's own process
      // group.
      if (pid > 1) process.kill(pid, "SIGKILL");
    } catch {
      // It has already exited.
    }
  }
}

/**
 * Removes the cgroups of hosts that died. Skips other PID namespaces, because their processes cannot be checked from
 * here.
 */
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
