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
import { createFolder, readRegularText } from "../util/file-access.ts";

/**
 * Runs work under a file lock, one process at a time: of two that read before either writes, the later one would undo
 * the earlier one's change. Throws a SkillError when the lock cannot be acquired.
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
    // Measures by the local clock: the clock of the file system may be another one.
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

/** The clock for the wait, in milliseconds, and the pause between two attempts. */
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
/**
 * The takeover time when the holder's process is gone. Not zero, since another container may have the same pids and
 * host name.
 */
const ABANDONED_MS = 250;
const LOCK_TOKEN = /^(\d+)\.[0-9a-f-]{36}@(.*)$/;

interface HeldLock {
  /** Stays the same while the same process holds it. */
  mark: string;
  tokens: string[];
}

/**
 * Tries to acquire the lock: a folder with exactly one token in it. A process that finds a second token backs off, so
 * that two never hold it.
 */
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
    if (getErrnoCode(error) === "ENOENT") return false; // Another process took it for an abandoned lock.
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

/** Returns undefined if the lock was released meanwhile. */
function readHeldLock(lock: string): HeldLock | undefined {
  const stats = lstatSync(lock, { throwIfNoEntry: false });
  if (!stats) return undefined;
  let tokens: string[] = [];
  try {
    if (stats.isDirectory()) tokens = readdirSync(lock).filter((name) => LOCK_TOKEN.test(name));
  } catch {} // Gone or unreadable: the mark alone decides.
  return { mark: [stats.ino, stats.mtimeMs, ...tokens].join(" "), tokens };
}

/**
 * Returns true if a process of this machine still holds it. Processes of other machines are unknown, but never hold it
 * for long.
 */
function isHolderAlive(token: string): boolean {
  const [, pid, host] = LOCK_TOKEN.exec(token) ?? [];
  if (host !== encodeURIComponent(hostname())) return false;
  try {
    return process.kill(Number(pid), 0);
  } catch (error) {
    return getErrnoCode(error) === "EPERM";
  }
}

/** Removes these tokens, and the lock unless another process holds it by now. */
function releaseLock(lock: string, tokens: readonly string[]): void {
  const steps = [...tokens.map((token) => () => unlinkSync(join(lock, token))), () => rmdirSync(lock)];
  for (const step of steps) {
    try {
      step();
    } catch {} // It belongs to another process, or is gone.
  }
}

function createHeldError(lock: string, tokens: readonly string[]): SkillError {
  const pid = LOCK_TOKEN.exec(tokens.find(isHolderAlive) ?? "")?.[1];
  const by = pid === undefined ? "" : ` by process ${pid}`;
  return new SkillError("locked", {
    message: `${lock} has been held${by} for ${MAX_WAIT_MS / 1000} seconds, so nothing was written`,
    fix: "wait for the other skillet process to end and try again; if none is running, remove the lock",
  });
}

/** Replaces a file atomically; readable for the user alone unless `mode` differs. Keeps a link to the file. */
export function replaceFile(file: string, text: string, mode = 0o600): void {
  let draft: string | undefined;
  try {
    const real = resolveDestination(file);
    const there = statSync(real, { throwIfNoEntry: false });
    if (there && !there.isFile()) throw new Error("it is not a regular file"); // It may be a system device.
    createFolder(dirname(real));
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

/** Keeps the owner of a file that root writes: its owner could not read it otherwise. */
function keepOwner(fd: number, file: string): void {
  const there = process.getuid?.() === 0 ? statSync(file, { throwIfNoEntry: false }) : undefined;
  if (there) fchownSync(fd, there.uid, there.gid);
}

/** Resolves links to their final target, even if it does not exist. */
function resolveDestination(file: string): string {
  try {
    return realpathSync(file);
  } catch (error) {
    if (getErrnoCode(error) !== "ENOENT") throw error;
  }
  if (!lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return file; // It is created now.
  return resolveDestination(resolve(realpathSync(dirname(file)), readlinkSync(file)));
}

function makeLockFolder(folder: string): void {
  try {
    createFolder(folder);
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `The folder ${folder} cannot be created: ${getErrorMessage(error)}`,
      fix: "move the file in its place away, or check that its parent folder is writable",
      cause: error,
    });
  }
}

function createUnwritableFileError(file: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `${file} cannot be written: ${getErrorMessage(cause)}`,
    fix: "check that the folder is writable",
    cause,
  });
}

/** The process that owns a run, a staging folder or a home. */
export interface ProcessOwner {
  pid: number;
  host: string;
  /** The start time of the process, as the system reports it: pids are reused. */
  start: string;
  /** Differs for each claim of a run. */
  id?: string;
}

interface OwnershipClaim {
  /** Returns false once another process has claimed it. */
  isHeld(): boolean;
  release(): void;
}

/** Claims a run, or returns its current owner. */
export function claimOwnership(file: string): { held: ProcessOwner } | OwnershipClaim {
  return withFileLock(file, () => {
    const held = readLiveOwner(file);
    if (held) return { held };
    const mine = formatProcessOwner(crypto.randomUUID());
    replaceFile(file, mine);
    let seen = fingerprintOwnerFile(file);
    // Checked before each write of a run: the file is read only if it changed.
    const isHeld = () => {
      const now = fingerprintOwnerFile(file);
      if (now === seen && now !== undefined) return true;
      if (readOwnerFile(file) !== mine) return false;
      seen = now;
      return true;
    };
    return {
      isHeld,
      release() {
        if (isHeld()) rmSync(file, { force: true });
      },
    };
  });
}

/** Formats this process as an owner, for `readLiveOwner`. */
export function formatProcessOwner(id?: string): string {
  return JSON.stringify({ pid: process.pid, host: hostname(), start: readProcessStart(process.pid), id });
}

/** Returns the current owner. Ignores a dead process of this machine; processes of other machines cannot be checked. */
export function readLiveOwner(file: string): ProcessOwner | undefined {
  const owner = parseProcessOwner(readOwnerFile(file));
  if (owner === undefined || owner.host !== hostname()) return owner;
  return isProcessAlive(owner.pid) && readProcessStart(owner.pid) === owner.start ? owner : undefined;
}

/** Returns undefined for anything but a complete owner: the file is written atomically. */
function parseProcessOwner(text: string): ProcessOwner | undefined {
  try {
    const { pid, host, start, id } = Object(JSON.parse(text));
    const isOwner = Number.isSafeInteger(pid) && pid > 0 && typeof host === "string" && typeof start === "string";
    return isOwner ? { pid, host, start, ...(typeof id === "string" ? { id } : {}) } : undefined;
  } catch {
    return undefined;
  }
}

/** Reads an owner file; empty if it does not exist. */
function readOwnerFile(file: string): string {
  try {
    return readRegularText(file);
  } catch {
    return "";
  }
}

/** Returns a fingerprint that every claim and every write changes: each claim creates a file. Undefined without such a file. */
function fingerprintOwnerFile(file: string): string | undefined {
  const stats = lstatSync(file, { bigint: true, throwIfNoEntry: false });
  return stats && `${stats.dev} ${stats.ino} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`;
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

/** Returns the start time, or an empty string where the system does not report it. A zombie never counts as started. */
function readProcessStart(pid: number): string {
  const stat = readProcFile(`/proc/${pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? "never" : (fields[19] ?? "");
}
