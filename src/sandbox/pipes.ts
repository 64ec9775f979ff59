import childProcess, { execFile, spawnSync } from "node:child_process";
import {
  chownSync,
  closeSync,
  constants,
  fchownSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getErrorMessage, SkillError } from "../errors/problem.ts";
import { findSystemProgram } from "../util/system.ts";

/** Both ends of a pipe, as file descriptors. */
export interface Pipe {
  read: number;
  write: number;
}

/**
 * Returns a real pipe, or undefined if none can be created. Node would use a socket instead, and a program that reopens
 * /dev/stdout or /dev/stderr, as many scripts do, gets an error from one. Contract: does not throw.
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

/** Creates a nameless file with the text for standard input. Each open reads it from the start. */
export function createInputFile(text: string, user?: number): number {
  let folder: string | undefined;
  try {
    folder = mkdtempSync(join(tmpdir(), "skillet-input-"));
    const path = join(folder, "stdin");
    writeFileSync(path, text, { mode: 0o600 });
    if (user !== undefined) ignoreInvalidUser(() => chownSync(path, user, user));
    return openSync(path, constants.O_RDONLY);
  } catch (error) {
    throw new SkillError("sandbox-start-failed", {
      message: `The standard input could not be written to a file in ${tmpdir()}: ${getErrorMessage(error)}`,
      fix: "set TMPDIR to a writable folder",
      cause: error,
    });
  } finally {
    if (folder !== undefined) removeFifoFolder(folder);
  }
}

/**
 * Ignores an invalid user (as for root in its own namespace): the program cannot be started then either, and that error
 * is reported.
 */
function ignoreInvalidUser(change: () => void): void {
  try {
    change();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
  }
}

const readyPipes: Pipe[] = [];
let takenCount = 0;
/** Two at first; a long-running host keeps some ready, made in the background. */
const [INITIAL_PIPES, POOL_SIZE, REFILL_BELOW] = [2, 12, 4];
let isRefilling = false;

/** Creates pipes in the background while the caller prepares other things. */
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

// Node cannot create a pipe, so a system program does.
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
    return undefined; // TMPDIR is missing or full.
  }
}

/** Opens both ends, which stay open after the names are deleted. */
function openFifos(paths: readonly string[]): void {
  try {
    for (const path of paths) readyPipes.push(openBothEnds(path));
  } catch {
    // Too many open files: the pipes opened so far are enough.
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
    // Too many open files, again. The folder holds nothing that could be read.
  }
}

/**
 * Stops programs that trusted skill code starts in this thread from inheriting the host's streams, on which the host
 * may speak a protocol. This prevents accidents only: the code is trusted and has other ways.
 */
export function detachInheritedStreams(): void {
  const all = childProcess as unknown as Record<string, StartProcess>;
  for (const name of START_FUNCTIONS) {
    const start = all[name] as StartProcess;
    const own: StartProcess = (...args) => start(...replaceInheritedStreams(name, args));
    all[name] = Object.defineProperties(own, Object.getOwnPropertyDescriptors(start));
  }
  syncBuiltinESMExports();
}

type StartProcess = (...args: unknown[]) => unknown;

const START_FUNCTIONS = ["spawn", "spawnSync", "execSync", "execFileSync", "fork"];

function replaceInheritedStreams(name: string, args: unknown[]): unknown[] {
  const at = args.findIndex((arg, index) => index > 0 && Object(arg) === arg && !Array.isArray(arg));
  const options = (at === -1 ? {} : args[at]) as { stdio?: unknown; silent?: boolean };
  const isFork = name === "fork";
  const requested = options.stdio ?? (isFork && options.silent !== true ? "inherit" : undefined);
  if (requested === undefined) return args;
  const listed: unknown[] = Array.isArray(requested) ? requested : [requested, requested, requested];
  const stdio = listed.map((one) => (isHostStream(one) ? "ignore" : one));
  const changed = { ...options, stdio: isFork && !stdio.includes("ipc") ? [...stdio, "ipc"] : stdio };
  return at === -1 ? [...args.filter((one) => one !== undefined), changed] : args.with(at, changed);
}

function isHostStream(one: unknown): boolean {
  const { stdin, stdout, stderr } = process;
  const standard: unknown[] = ["inherit", 0, 1, 2, stdin, stdout, stderr];
  return standard.includes(one);
}

/** Replaces descriptors that this process inherited, which would otherwise be passed on to every program it starts. */
export function createStdio(
  first: readonly ("ignore" | "pipe" | number)[],
  pipes: number,
): ("ignore" | "pipe" | number)[] {
  const stdio = [...first, ...Array(pipes).fill("pipe")];
  for (const fd of getInheritedDescriptors()) {
    while (stdio.length <= fd) stdio.push("ignore");
    if (fd >= pipes + 3) stdio[fd] = openDevNull();
  }
  return stdio;
}

// Read once: descriptors that Node opens itself are closed on exec.
function getInheritedDescriptors(): readonly number[] {
  descriptorCache ??= listDescriptors();
  return descriptorCache;
}

let descriptorCache: readonly number[] | undefined;

function listDescriptors(): number[] {
  try {
    return readdirSync("/proc/self/fd")
      .map(Number)
      .filter((fd) => fd > 2 && !isClosedOnExec(fd));
  } catch {
    return []; // Not Linux; the other systems do not pass them on.
  }
}

function isClosedOnExec(fd: number): boolean {
  try {
    const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))?.[1] ?? "0";
    return (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) !== 0;
  } catch {
    return true; // The descriptor with which the folder was read.
  }
}

const CLOSE_ON_EXEC = 0o2000000;
let devNull: number | undefined;

function openDevNull(): number {
  devNull ??= openSync("/dev/null", "r");
  return devNull;
}
