import { readdirSync, readFileSync, statfsSync } from "node:fs";
import { HOME_FOLDER } from "../host/sandbox.ts";

const EVERY_MS = 100;

/**
 * Looks now and then at what each process of a tree holds, where no cgroup counts it: a limit of a process counts only memory of its
 * own, not what it can share, and none what the kernel holds for files, be they empty. Contract: gives what ends the looking.
 */
export function watchMemory(first: () => number | undefined, most: number, onTooMuch: () => void): () => void {
  const timer = setInterval(() => {
    const root = first();
    if (root === undefined) return;
    const tree = treeOf(root);
    if (tree.some((pid) => heldBy(pid) > most) || filesOf(tree.at(-1) ?? root) * FILE_BYTES > most) onTooMuch();
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/** The process and its descendants. Who loses its parent belongs to the first of the namespace. */
function treeOf(pid: number): number[] {
  const children = list(`/proc/${pid}/task`).flatMap((thread) =>
    read(`/proc/${pid}/task/${thread}/children`).split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(treeOf)];
}

/** What the kernel holds for a file in memory, beside what is in it. */
const FILE_BYTES = 1024;

/** How many files a process has in the folders of its own. */
function filesOf(pid: number): number {
  const seen = ["/tmp", HOME_FOLDER, "/dev/shm", "/run"].map((folder) => {
    try {
      const { files, ffree } = statfsSync(`/proc/${pid}/root${folder}`);
      return files - ffree;
    } catch {
      return 0; // It is gone already.
    }
  });
  return seen.reduce((sum, one) => sum + one, 0);
}

function heldBy(pid: number): number {
  const status = read(`/proc/${pid}/status`);
  const kib = ["RssAnon", "RssShmem"].map((name) =>
    Number(new RegExp(`^${name}:\\s*(\\d+)`, "m").exec(status)?.[1] ?? 0),
  );
  return kib.reduce((sum, one) => sum + one, 0) * 1024;
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
