import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
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
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";

/**
 * One process at a time: of two that read before either wrote, the later would undo what the earlier did. Throws a SkillError when the
 * lock cannot be had.
 */
export function whileLocked<T>(file: string, work: () => T, { now, pause }: Waiting = WAITING): T {
  makeFolder(dirname(file));
  const lock = `${file}.lock`;
  const token = `${process.pid}.${crypto.randomUUID()}@${encodeURIComponent(hostname())}`;
  const end = now() + LONGEST_WAIT_MS;
  let seen = "";
  let since = 0;
  while (!isTaken(lock, token)) {
    const time = now();
    const held = lookAt(lock);
    if (time > end) throw stillHeld(lock, held?.tokens ?? []);
    // By the time that passes here: the clock that stamps the folder may be another one.
    if (held?.mark !== seen) [seen, since] = [held?.mark ?? "", time];
    else if (held && time - since > patienceFor(held) && !held.tokens.some(isAlive)) release(lock, held.tokens);
    pause();
  }
  try {
    return work();
  } finally {
    release(lock, [token]);
  }
}

/** The clock that a wait for a lock is measured by, in milliseconds, and the pause between two looks at the lock. */
export interface Waiting {
  now(): number;
  pause(): void;
}

const WAITING: Waiting = {
  now: () => performance.now(),
  pause: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 10),
};

const LONGEST_WAIT_MS = 10_000;
const LONGEST_HELD_MS = 2000;
/** For one whose process is known to be gone: not none, since another container may have numbers and a name like ours. */
const LEFT_MS = 250;
const TOKEN = /^(\d+)\.[0-9a-f-]{36}@(.*)$/;

interface Held {
  /** Stays the same while the same process holds it. */
  mark: string;
  tokens: string[];
}

/** A folder with one token in it is a lock that is held. Whoever finds another's beside its own steps back, so that never two hold it. */
function isTaken(lock: string, token: string): boolean {
  try {
    mkdirSync(lock);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw unwritable(lock, error);
  }
  try {
    writeFileSync(join(lock, token), "", { flag: "wx", mode: 0o600 });
    if (readdirSync(lock).length === 1) return true;
  } catch (error) {
    release(lock, [token]);
    if (codeOf(error) === "ENOENT") return false; // Somebody took it for one that was left behind.
    throw unwritable(lock, error);
  }
  release(lock, [token]);
  return false;
}

function patienceFor({ tokens }: Held): number {
  const isOurs =
    tokens.length > 0 && tokens.every((token) => TOKEN.exec(token)?.[2] === encodeURIComponent(hostname()));
  return isOurs ? LEFT_MS : LONGEST_HELD_MS;
}

/** Nothing when there is none: it was given back in between. */
function lookAt(lock: string): Held | undefined {
  const stats = lstatSync(lock, { throwIfNoEntry: false });
  if (!stats) return undefined;
  let tokens: string[] = [];
  try {
    if (stats.isDirectory()) tokens = readdirSync(lock).filter((name) => TOKEN.test(name));
  } catch {} // Gone, or not to be read: then its mark tells.
  return { mark: [stats.ino, stats.mtimeMs, ...tokens].join(" "), tokens };
}

/** Whether a process of this machine still holds it. Of those of others nothing is known but that none holds it for long. */
function isAlive(token: string): boolean {
  const [, pid, host] = TOKEN.exec(token) ?? [];
  if (host !== encodeURIComponent(hostname())) return false;
  try {
    return process.kill(Number(pid), 0);
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/** Takes these tokens away, and the lock with them unless somebody else has it by now. */
function release(lock: string, tokens: readonly string[]): void {
  const steps = [...tokens.map((token) => () => unlinkSync(join(lock, token))), () => rmdirSync(lock)];
  for (const step of steps) {
    try {
      step();
    } catch {} // It is another's, or gone.
  }
}

function stillHeld(lock: string, tokens: readonly string[]): SkillError {
  const pid = TOKEN.exec(tokens.find(isAlive) ?? "")?.[1];
  const by = pid === undefined ? "" : ` by process ${pid}`;
  return new SkillError("locked", {
    message: `${lock} has been held${by} for ${LONGEST_WAIT_MS / 1000} seconds, so nothing was written`,
    fix: "wait for the other skillet to end and try again; if none runs, remove it",
  });
}

/** Puts a text in a file's place, whole or not at all; for the user alone, unless a mode says otherwise. A link to it stays one. */
export function replaceFile(file: string, text: string, mode = 0o600): void {
  let draft: string | undefined;
  try {
    const real = destinationOf(file);
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
    throw unwritable(file, error);
  }
}

/** Whoever is root for a moment does not take a file away from its owner, who could not read it any more. */
function keepOwner(fd: number, file: string): void {
  const there = process.getuid?.() === 0 ? statSync(file, { throwIfNoEntry: false }) : undefined;
  if (there) fchownSync(fd, there.uid, there.gid);
}

/** Where its links lead, be there something or not. */
function destinationOf(file: string): string {
  try {
    return realpathSync(file);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
  if (!lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink()) return file; // It is made now.
  return destinationOf(resolve(realpathSync(dirname(file)), readlinkSync(file)));
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new SkillError("unwritable", {
      message: `The folder ${folder} cannot be made: ${reason(error)}`,
      fix: "move away what stands in its place, or check that the folder above it can be written to",
      cause: error,
    });
  }
}

function unwritable(file: string, cause: unknown): SkillError {
  return new SkillError("unwritable", {
    message: `${file} cannot be written: ${reason(cause)}`,
    fix: "check that the folder can be written to",
    cause,
  });
}
