import { execFile, spawnSync } from "node:child_process";
import { chownSync, closeSync, constants, fchownSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { findSystemProgram } from "../util/system.ts";

/** Both ends of a pipe, as descriptors. */
export interface Pipe {
  read: number;
  write: number;
}

/**
 * A pipe of the system's own kind, or nothing where none can be had. What Node puts in its place is a socket, and a program that
 * opens /dev/stdout or /dev/stderr again, as many scripts do, gets an error from one. Contract: does not throw.
 */
export function takePipe(user?: number): Pipe | undefined {
  if (readyPipes.length === 0) makePipesNow();
  const pipe = readyPipes.pop();
  takenCount++;
  if (takenCount > INITIAL_PIPES && readyPipes.length < REFILL_BELOW) preparePipes(POOL_SIZE);
  try {
    if (pipe && user !== undefined) ignoreInvalidUser(() => fchownSync(pipe.write, user, user));
    return pipe;
  } catch {
    for (const fd of [pipe?.read, pipe?.write]) if (fd !== undefined) closeSync(fd);
    return undefined;
  }
}

/** A text to read as standard input, from the start each time it is opened: a file that has no name. */
export function createInputFile(text: string, user?: number): number {
  let folder: string | undefined;
  try {
    folder = mkdtempSync(join(tmpdir(), "skillet-input-"));
    const path = join(folder, "stdin");
    writeFileSync(path, text, { mode: 0o600 });
    if (user !== undefined) ignoreInvalidUser(() => chownSync(path, user, user));
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    throw new SkillError("sandbox-start", {
      message: `What the code is to read could not be written to a file in ${tmpdir()}: ${getErrorMessage(error)}`,
      fix: "set TMPDIR to a folder that can be written to",
      cause: error,
    });
  } finally {
    if (folder !== undefined) removeFifoFolder(folder);
  }
}

/** Where there is no such user (root of a namespace of its own) the program cannot be started either, and that is what is told. */
function ignoreInvalidUser(change: () => void): void {
  try {
    change();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
  }
}

const readyPipes: Pipe[] = [];
let takenCount = 0;
/** For a start two; a host that goes on has some ready, made while it does other things. */
const [INITIAL_PIPES, POOL_SIZE, REFILL_BELOW] = [2, 12, 4];
let isRefilling = false;

/** Makes the first ones while other things are prepared. */
export function preparePipes(count = INITIAL_PIPES): void {
  const program = readyPipes.length < REFILL_BELOW && !isRefilling ? findMkfifo() : undefined;
  const names = program && createFifoNames(count);
  if (!program || !names) return;
  isRefilling = true;
  execFile(program, ["--mode=600", ...names.paths], { env: {} }, (error) => {
    isRefilling = false;
    if (!error) openFifos(names.paths);
    removeFifoFolder(names.folder);
  });
}

function makePipesNow(): void {
  const program = findMkfifo();
  const names = program && createFifoNames(INITIAL_PIPES);
  if (!program || !names) return;
  if (spawnSync(program, ["--mode=600", ...names.paths], { env: {}, stdio: "ignore" }).status === 0)
    openFifos(names.paths);
  removeFifoFolder(names.folder);
}

// Node cannot make one, so a program of the system does.
function findMkfifo(): string | undefined {
  return process.platform === "linux" ? findSystemProgram("mkfifo") : undefined;
}

interface FifoNames {
  folder: string;
  paths: string[];
}

function createFifoNames(count: number): FifoNames | undefined {
  try {
    const folder = mkdtempSync(join(tmpdir(), `skillet-pipes-${process.pid}-`));
    return { folder, paths: Array.from({ length: count }, (_, index) => join(folder, String(index))) };
  } catch {
    return undefined; // TMPDIR is not there, or full.
  }
}

/** The ends stay open when the names are gone. */
function openFifos(paths: readonly string[]): void {
  try {
    for (const path of paths) readyPipes.push(openBothEnds(path));
  } catch {
    // There are too many open files: those that there are will do.
  }
}

function openBothEnds(path: string): Pipe {
  const read = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return { read, write: openSync(path, constants.O_WRONLY) };
  } catch (error) {
    closeSync(read);
    throw error;
  }
}

function removeFifoFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // Too many open files, again. It holds nothing that could be read.
  }
}
