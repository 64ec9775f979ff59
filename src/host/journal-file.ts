import { closeSync, constants, fdatasyncSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import { type JournalLine, readJournal, writeLine } from "./journal-lines.ts";

const { O_RDONLY, O_RDWR, O_APPEND, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
const HOW = { read: O_RDONLY, add: O_RDWR | O_APPEND };

/** In bytes. No run comes near it, and one that is larger would keep all others from being listed. */
const LARGEST = 256 * 1024 * 1024;

/** Opens what must be a file: a link would lead elsewhere, and a pipe would never end. The caller closes it. */
export function openFile(file: string, how: keyof typeof HOW): number {
  let fd: number;
  try {
    fd = openSync(file, HOW[how] | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    throw codeOf(error) === "ELOOP" ? new Error("it is a link", { cause: error }) : error;
  }
  const stats = fstatSync(fd);
  if (stats.isFile() && stats.size <= LARGEST) return fd;
  closeSync(fd);
  throw new Error(stats.isFile() ? "it is larger than 256 MiB" : "it is no file");
}

export function readBytes(fd: number, from = 0, to = fstatSync(fd).size): Buffer {
  const bytes = Buffer.alloc(Math.max(0, to - from));
  for (let at = 0; at < bytes.length; ) {
    const length = readSync(fd, bytes, at, bytes.length - at, from + at);
    if (length === 0) return bytes.subarray(0, at);
    at += length;
  }
  return bytes;
}

/** Reads what is there, without what was being written when its program died. Contract: nobody else is at it. */
export function mended(fd: number, file: string): { lines: readonly JournalLine[]; size: number } {
  const bytes = readBytes(fd);
  const { lines, corrupt: numbers, whole, lacksEnd } = readJournal(bytes);
  if (numbers.length > 0) throw corrupt(file, numbers);
  if (whole < bytes.length) ftruncateSync(fd, whole);
  return { lines, size: whole + (lacksEnd ? append(fd, file, "\n", true) : 0) };
}

/** All of it, or nothing. */
export function append(fd: number, file: string, text: string, isKept: boolean): number {
  const bytes = Buffer.from(text);
  const { size } = fstatSync(fd);
  let done = 0;
  try {
    while (done < bytes.length) done += writeSync(fd, bytes, done);
    if (isKept) fdatasyncSync(fd);
    return bytes.length;
  } catch (error) {
    try {
      // Where another program has added something meanwhile, that stays.
      if (fstatSync(fd).size === size + done) ftruncateSync(fd, size);
    } catch {} // It is mended when it is opened again.
    throw unwritable(file, error);
  }
}

/** Throws a SkillError when it cannot be. */
export function openToAdd(file: string): number {
  try {
    return openFile(file, "add");
  } catch (error) {
    throw unwritable(file, error);
  }
}

/** Adds a line for the program that is at it, or that takes it up next. */
export function addLine(file: string, line: JournalLine, isAtWork: boolean): void {
  const fd = openToAdd(file);
  try {
    if (!isAtWork) mended(fd, file);
    append(fd, file, writeLine(line), true);
  } finally {
    closeSync(fd);
  }
}

export function corrupt(file: string, numbers: readonly number[]): SkillError {
  return new SkillError("journal-corrupt", {
    message: `${file} is not what was written: line ${numbers.slice(0, 5).join(", ")}`,
    fix: "start it anew; `skillet runs show` shows what can be read of it",
  });
}

export function unwritable(file: string, cause: unknown): SkillError {
  return new SkillError("journal-unwritable", {
    message: `${file} cannot be written: ${reason(cause)}`,
    fix: "check that there is room on the disk and that the folder can be written to; what was done is kept, and `skillet resume` goes on from there",
    cause,
  });
}
