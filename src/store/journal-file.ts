import { closeSync, constants, fdatasyncSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { createJournal, formatJournalLine, type Journal, type JournalLine, parseJournal } from "./journal.ts";

interface JournalFile {
  file: string;
  /** Throws a SkillError if another process has taken over the run. */
  checkLease(): void;
  /** Ends the lease, so that other processes can resume the run. */
  release(): void;
}

/** Opens a journal that only this process appends to. Throws a SkillError when it is corrupt. */
export async function openJournal({ file, checkLease, release }: JournalFile): Promise<Journal> {
  const fd = openForAppend(file);
  try {
    const { lines, size } = repairJournal(fd, file);
    const [head] = lines;
    if (head?.type !== "run") throw createCorruptError(file, [1]);
    let read = size;
    return await createJournal({
      ...{ head, lines },
      log: {
        async append(line, isKept) {
          checkLease();
          appendToJournal(fd, file, formatJournalLine(line), isKept);
        },
        async readAdded() {
          const { size: end } = fstatSync(fd);
          if (end <= read) return [];
          const { lines: added, wholeBytes } = parseJournal(readJournalBytes(fd, read, end));
          read += wholeBytes;
          return added;
        },
        async close() {
          closeSync(fd);
          release();
        },
      },
    });
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

const { O_RDONLY, O_RDWR, O_APPEND, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
const OPEN_FLAGS = { read: O_RDONLY, add: O_RDWR | O_APPEND };

/** The size limit in bytes. No run comes near it, and a larger journal would keep all others from being listed. */
const MAX_JOURNAL_BYTES = 256 * 1024 * 1024;

/** Opens a regular file: a link could lead outside, and a pipe would never end. The caller closes it. */
export function openJournalFile(file: string, how: keyof typeof OPEN_FLAGS): number {
  let fd: number;
  try {
    fd = openSync(file, OPEN_FLAGS[how] | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    throw getErrnoCode(error) === "ELOOP" ? new Error("it is a link", { cause: error }) : error;
  }
  const stats = fstatSync(fd);
  if (stats.isFile() && stats.size <= MAX_JOURNAL_BYTES) return fd;
  closeSync(fd);
  throw new Error(stats.isFile() ? "it is larger than 256 MiB" : "it is not a file");
}

export function readJournalBytes(fd: number, from = 0, to = fstatSync(fd).size): Buffer {
  const bytes = Buffer.alloc(Math.max(0, to - from));
  for (let at = 0; at < bytes.length; ) {
    const length = readSync(fd, bytes, at, bytes.length - at, from + at);
    if (length === 0) return bytes.subarray(0, at);
    at += length;
  }
  return bytes;
}

/**
 * Reads the journal, and truncates a line that was being written when its process died. Contract: no other process
 * writes to it.
 */
function repairJournal(fd: number, file: string): { lines: readonly JournalLine[]; size: number } {
  const bytes = readJournalBytes(fd);
  const { lines, corrupt: numbers, wholeBytes: whole, lacksNewline: lacksEnd } = parseJournal(bytes);
  if (numbers.length > 0) throw createCorruptError(file, numbers);
  if (whole < bytes.length) ftruncateSync(fd, whole);
  return { lines, size: whole + (lacksEnd ? appendToJournal(fd, file, "\n", true) : 0) };
}

/** Appends all of the text, or nothing. */
function appendToJournal(fd: number, file: string, text: string, isKept: boolean): number {
  const bytes = Buffer.from(text);
  const { size } = fstatSync(fd);
  let done = 0;
  try {
    while (done < bytes.length) done += writeSync(fd, bytes, done);
    if (isKept) fdatasyncSync(fd);
    return bytes.length;
  } catch (error) {
    try {
      // Keeps a line that another process added meanwhile.
      if (fstatSync(fd).size === size + done) ftruncateSync(fd, size);
    } catch {} // The next open repairs it.
    throw createUnwritableJournalError(file, error);
  }
}

/** Throws a SkillError when the file cannot be opened. */
function openForAppend(file: string): number {
  try {
    return openJournalFile(file, "add");
  } catch (error) {
    throw createUnwritableJournalError(file, error);
  }
}

/** Adds a line for the process that works on the run, or that resumes it next. */
export function appendJournalLine(file: string, line: JournalLine, isInUse: boolean): void {
  const fd = openForAppend(file);
  try {
    if (!isInUse) repairJournal(fd, file);
    appendToJournal(fd, file, formatJournalLine(line), true);
  } finally {
    closeSync(fd);
  }
}

function createCorruptError(file: string, numbers: readonly number[]): SkillError {
  return new SkillError("journal-corrupt", {
    message: `${file} is corrupt: line ${numbers.slice(0, 5).join(", ")}`,
    fix: "start a new run; to see the readable part",
    commands: ["skillet runs show ID"],
  });
}

export function createUnwritableJournalError(file: string, cause: unknown): SkillError {
  return new SkillError("journal-unwritable", {
    message: `${file} cannot be written: ${getErrorMessage(cause)}`,
    fix: "check that the disk has free space and the folder is writable; to continue after the finished steps",
    commands: ["skillet resume"],
    cause,
  });
}
