import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";

/**
 * One process at a time: of two that read before either wrote, the later would undo what the earlier did. Throws a SkillError when the
 * lock cannot be had.
 */
export function withFileLock<T>(file: string, work: () => T, { now, pause }: LockTiming = DEFAULT_TIMING): T {
  makeLockFolder(dirname(file));
  const lock = `${file}.lock`;
  const token = `${process.pid}.${crypto.randomUUID()}@${encodeURIComponent(hostname())}`;
  const end = now() + MAX_WAIT_MS;
  let seen = "";
  let since = 0;
  while (!tryTakeLock(lock, token)) {
    const time = now();
    const held = readHeldLock(lock);
    if (time > end) throw createHeldError(lock, held?.tokens ?? []);
    // By the time that passes here: the clock that stamps the folder may be another one.
    if (held?.mark !== seen) [seen, since] = [held?.mark ?? "", time];
    else if (held && time - since > getTakeoverMs(held) && !held.tokens.some(isHolderAlive))
      releaseLock(lock, held.tokens);
    pause();
  }
  try {
    return work();
  } finally {
    releaseLock(lock, [token]);
  }
}

/** The clock that a wait for a lock is measured by, in milliseconds, and the pause between two looks at the lock. */
interface LockTiming {
  now(): number;
  pause(): void;
}

const DEFAULT_TIMING: LockTiming = {
  now: () => performance.now(),
  pause: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 10),
};

const MAX_WAIT_MS = 10_000;
const MAX_HELD_MS = 2000;
/** For one whose process is known to be gone: not none, since another container may have numbers and a name like ours. */
const ABANDONED_MS = 250;
const LOCK_TOKEN = /^(\d+)\.[0-9a-f-]{36}@(.*)$/;

interface HeldLock {
  /** Stays the same while the same process holds it. */
  mark: string;
  tokens: string[];
}

/** A folder with one token in it is a lock that is held. Whoever finds another's beside its own steps back, so that never two hold it. */
function tryTakeLock(lock: string, token: string): boolean {
  try {
    mkdirSync(lock);
  } catch (error) {
    if (getErrnoCode(error) === "EEXIST") return false;
    throw createUnwritableFileError(lock, error);
  }
  try {
    writeFileSync(join(lock, token), "", { flag: "wx", mode: 0o600 });
    if (readdirSync(lock).length === 1) return true;
  } catch (error) {
    releaseLock(lock, [token]);
    if (getErrnoCode(error) === "ENOENT") return false; // Somebody took it for one that was left behind.
    throw createUnwritableFileError(lock, error);
  }
  releaseLock(lock, [token]);
  return false;
}

function getTakeoverMs({ tokens }: HeldLock): number {
  const isOurs =
    tokens.length > 0 && tokens.every((token) => LOCK_TOKEN.exec(token)?.[2] === encodeURIComponent(hostname()));
  return isOurs ? ABANDONED_MS : MAX_HELD_MS;
}

/** Nothing when there is none: it was given back in between. */
function readHeldLock(lock: string): HeldLock | undefined {
  const stats = lstatSync(lock, { throwIfNoEntry: false });
  if (!stats) return undefined;
  let tokens: string[] = [];
  try {
    if (stats.isDirectory()) tokens = readdirSync(lock).filter((name) => LOCK_TOKEN.test(name));
  } catch {} // Gone, or not to be read: then its mark tells.
  return { mark: [stats.ino, stats.mtimeMs, ...tokens].join(" "), tokens };
}

/** Whether a process of this machine still holds it. Of those of others nothing is known but that none holds it for long. */
function isHolderAlive(token: string): boolean {
  const [, pid, host] = LOCK_TOKEN.exec(token) ?? [];
  if (host !== encodeURIComponent(hostname())) return false;
  try {
    return process.kill(Number(pid), 0);
  } catch (error) {
    return getErrnoCode(error) === "EPERM";
  }
}

/** Takes these tokens away, and the lock with them unless somebody else has it by now. */
function releaseLock(lock: string, tokens: readonly string[]): void {
  const steps = [...tokens.map((token) => () => unlinkSync(join(lock, token))), () => rmdirSync(lock)];
  for (const step of steps) {
    try {
      step();
    } catch {} // It is another's, or gone.
  }
}

function createHeldError(lock: string, tokens: readonly string[]): SkillError {
  const pid = LOCK_TOKEN.exec(tokens.find(isHolderAlive) ?? "")?.[1];
  const by = pid === undefined ? "" : ` by process ${pid}`;
  return new SkillError("locked", {
    message: `${lock} has been held${by} for ${MAX_WAIT_MS / 1000} seconds, so nothing was written`,
    fix: "wait for the other skillet to end and try again; if none runs, remove it",
  });
}

/** Puts a text in a file's place, whole or not at all; for the user alone, unless a mode says otherwise. A link to it stays one. */
export function replaceFile(file: string, text: string, mode = 0o600): void {
  let draft: string | undefined;
  try {
    const real = resolveDestination(file);
    const there = statSync(real, { throwIfNoEntry: false });
    if (there && !there.isFile()) throw new Error("it is not a regular file"); // It may be a device of the system's.
    mkdirSync(dirname(real), { recursive: true });
    const name = `${real}.${crypto.randomUUID()}`;
    const fd = openSync(name, "wx", 0o600);
    draft = name;
    try {
      keepOwner(fd, real);
      fchmodSync(fd, mode);
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(draft, real);
  } catch (error) {
    if (draft !== undefined) rmSync(draft, { force: true });
    throw createUnwritableFileError(file, error);
  }
}

/** Whoever is root for a moment does not take a file away from its owner, who could not read it any more. */
function keepOwner(fd: number, file: string): void {
  const there = process.getuid?.() === 0 ? statSync(file, { throwIfNoEntry: false }) : undefined;
  if (there) fchownSync(fd, there.uid, there.gid);
}

/** Where its links lead, be there something or not. */
function resolveDestination(file: string): string {
  try {
    return realpathSync(file);
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT") throw error;
  }
  if (!lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return file; // It is made now.
  return resolveDestination(resolve(realpathSync(dirname(file)), readlinkSync(file)));
}

function makeLockFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `The folder ${folder} cannot be made: ${getErrorMessage(error)}`,
      fix: "move away what stands in its place, or check that the folder above it can be written to",
      cause: error,
    });
  }
}

function createUnwritableFileError(file: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `${file} cannot be written: ${getErrorMessage(cause)}`,
    fix: "check that the folder can be written to",
    cause,
  });
}

/** The process that is at something: a run, a folder that it writes, a home. */
interface ProcessOwner {
  pid: number;
  host: string;
  /** When that process began, as the system counts: numbers of processes are used again. */
  start: string;
}

/** Takes a run, or says who has it. */
export function claimOwnership(file: string): { held: ProcessOwner } | { release(): void } {
  return withFileLock(file, () => {
    const held = readLiveOwner(file);
    if (held) return { held };
    const mine = formatProcessOwner();
    replaceFile(file, mine);
    return {
      release() {
        if (readOwnerFile(file) === mine) rmSync(file, { force: true });
      },
    };
  });
}

/** This process, as it is written down for others to find with `ownerIn`. */
export function formatProcessOwner(): string {
  return JSON.stringify({ pid: process.pid, host: hostname(), start: readProcessStart(process.pid) });
}

/** Who is at it now. A process of this machine that is gone is not; of those of others nothing is known. */
export function readLiveOwner(file: string): ProcessOwner | undefined {
  const owner = parseProcessOwner(readOwnerFile(file));
  if (owner === undefined || owner.host !== hostname()) return owner;
  return isProcessAlive(owner.pid) && readProcessStart(owner.pid) === owner.start ? owner : undefined;
}

/** It is written whole or not at all: what is anything else is nobody's. */
function parseProcessOwner(text: string): ProcessOwner | undefined {
  try {
    const { pid, host, start } = Object(JSON.parse(text));
    const isOwner = Number.isSafeInteger(pid) && pid > 0 && typeof host === "string" && typeof start === "string";
    return isOwner ? { pid, host, start } : undefined;
  } catch {
    return undefined;
  }
}

/** A file of skillet's own; empty where there is none. */
function readOwnerFile(file: string): string {
  try {
    return readRegularText(file);
  } catch {
    return "";
  }
}

function readProcFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return getErrnoCode(error) === "EPERM";
  }
}

/** Where the system does not tell, all begin at once. One that is dead and still listed has begun never. */
function readProcessStart(pid: number): string {
  const stat = readProcFile(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? "never" : (fields[19] ?? "");
}
