import { closeSync, fsyncSync, openSync } from "node:fs";
import { systemProgram } from "../host/programs.ts";
import { askProgram } from "../sandbox/ask-program.ts";
import { codeOf } from "../shared/inside.ts";

// One by one, 2,000 small files take six times as long as the whole file system at once; few files are quicker by themselves.
const FEW = 100;

/** Comes back when these files and folders are on the disk. Contract: all are on the file system that `folder`, a real path, is on. */
export function flush(paths: readonly string[], folder: string): void {
  if (paths.length > FEW && isFileSystemFlushed(folder)) return;
  for (const path of paths) flushOne(path);
}

function flushOne(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } catch (error) {
    if (codeOf(error) !== "EINVAL") throw error; // Some file systems have no such thing for folders.
  } finally {
    closeSync(fd);
  }
}

/** Node has no call for it. */
function isFileSystemFlushed(folder: string): boolean {
  const file = process.platform === "linux" ? systemProgram("sync") : undefined;
  return file !== undefined && askProgram({ file, args: ["-f", folder], env: {} }) !== undefined;
}
