import { readdirSync, readFileSync } from "node:fs";

const EVERY_MS = 100;

/**
 * Looks now and then at what each process of a tree holds, where no cgroup counts it: a limit of a process counts only memory of its
 * own, not what it can share. Contract: gives what ends the looking.
 */
export function watchMemory(root: number, most: number, onTooMuch: () => void): () => void {
  const timer = setInterval(() => {
    if (treeOf(root).some((pid) => heldBy(pid) > most)) onTooMuch();
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
