import { spawnSync } from "node:child_process";
import { chownSync, constants, fchownSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemProgram } from "../host/programs.ts";

/** Both ends of a pipe, as descriptors. */
export interface Pipe {
  read: number;
  write: number;
}

/**
 * A pipe of the system's own kind, or nothing where none can be had. What Node puts in its place is a socket, and a program that
 * opens /dev/stdout or /dev/stderr again, as many scripts do, gets an error from one.
 */
export function takePipe(user?: number): Pipe | undefined {
  if (made.length === 0) makePipes();
  const pipe = made.pop();
  if (pipe && user !== undefined) give(() => fchownSync(pipe.write, user, user));
  return pipe;
}

/** A text to read as standard input, from the start each time it is opened: a file that has no name. */
export function inputFile(text: string, user?: number): number {
  const folder = mkdtempSync(join(tmpdir(), "skillet-input-"));
  const path = join(folder, "stdin");
  try {
    writeFileSync(path, text, { mode: 0o600 });
    if (user !== undefined) give(() => chownSync(path, user, user));
    return openSync(path, constants.O_RDONLY);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Where there is no such user (root of a namespace of its own) the program cannot be started either, and that is what is told. */
function give(change: () => void): void {
  try {
    change();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
  }
}

const made: Pipe[] = [];
let batch = 2;

// Node cannot make one, so a program of the system does: two for a start, more at a time for a host that goes on.
function makePipes(): void {
  const program = process.platform === "linux" ? systemProgram("mkfifo") : undefined;
  if (!program) return;
  const folder = mkdtempSync(join(tmpdir(), "skillet-pipes-"));
  try {
    const paths = Array.from({ length: batch }, (_, index) => join(folder, String(index)));
    if (spawnSync(program, ["--mode=600", ...paths], { env: {}, stdio: "ignore" }).status !== 0) return;
    for (const path of paths) made.push(openBoth(path));
    batch = 16;
  } finally {
    rmSync(folder, { recursive: true, force: true }); // The ends stay open, and have no name any more.
  }
}

function openBoth(path: string): Pipe {
  const read = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { read, write: openSync(path, constants.O_WRONLY) };
}
