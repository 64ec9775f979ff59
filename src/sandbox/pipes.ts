import { execFile, spawnSync } from "node:child_process";
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
  if (made.length === 0) makeNow();
  const pipe = made.pop();
  taken++;
  if (taken > FEW && made.length < LOW) warmPipes(MANY);
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
let taken = 0;
/** For a start two; a host that goes on has some ready, made while it does other things. */
const [FEW, MANY, LOW] = [2, 12, 4];
let isMaking = false;

/** Makes the first ones while other things are prepared. */
export function warmPipes(count = FEW): void {
  const program = made.length < LOW && !isMaking ? fifoMaker() : undefined;
  if (!program) return;
  isMaking = true;
  const { folder, paths } = names(count);
  execFile(program, ["--mode=600", ...paths], { env: {} }, (error) => {
    isMaking = false;
    if (!error) open(paths);
    rmSync(folder, { recursive: true, force: true });
  });
}

function makeNow(): void {
  const program = fifoMaker();
  if (!program) return;
  const { folder, paths } = names(FEW);
  try {
    if (spawnSync(program, ["--mode=600", ...paths], { env: {}, stdio: "ignore" }).status === 0) open(paths);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

// Node cannot make one, so a program of the system does.
function fifoMaker(): string | undefined {
  return process.platform === "linux" ? systemProgram("mkfifo") : undefined;
}

function names(count: number): { folder: string; paths: string[] } {
  const folder = mkdtempSync(join(tmpdir(), "skillet-pipes-"));
  return { folder, paths: Array.from({ length: count }, (_, index) => join(folder, String(index))) };
}

/** The ends stay open when the names are gone. */
function open(paths: readonly string[]): void {
  for (const path of paths) made.push(openBoth(path));
}

function openBoth(path: string): Pipe {
  const read = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { read, write: openSync(path, constants.O_WRONLY) };
}
