import { closeSync, constants, fchmodSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Audit, AuditLine } from "../host/capabilities.ts";
import { whileLocked } from "../host/locked-file.ts";
import { SkillError } from "../shared/error.ts";
import { codeOf, reason } from "../shared/inside.ts";
import {
  type AuditHead,
  canonical,
  chained,
  GENESIS,
  lineFrom,
  type Snapshot,
  type WrittenLine,
} from "./audit-chain.ts";
import { verifyAudit } from "./audit-verify.ts";

/**
 * The log in skillet's own folder. A line is with the system when `add` returns, so it outlives this process however that ends. It is not
 * forced to the disk: that takes longer than all the rest of a call, and a machine that loses power may lose the last seconds of it.
 */
export function openAudit(skilletHome: string): Audit {
  const file = join(skilletHome, "audit.jsonl");
  const headFile = join(skilletHome, "audit.head");
  // What this process wrote last. While the file is as large as it was then, nobody else has added to it.
  let known: { inode: number; size: number; head: AuditHead } | undefined;
  return {
    file,
    add: (entry) =>
      whileLocked(file, () => {
        const at = new Date().toISOString();
        return withFile(file, APPENDING, (fd) => {
          const { ino: inode, size, mode } = fstatSync(fd);
          if ((mode & 0o077) !== 0) fchmodSync(fd, 0o600);
          const isKnown = known?.inode === inode && known.size === size;
          const before = isKnown && known ? known.head : lastOf(readTail(fd, size), readHead(headFile));
          known = undefined;
          const line = chained(entry, at, before);
          // One that was cut short keeps its own line: this one is whole.
          const bytes = Buffer.from(`${endsLine(fd, size, isKnown) ? "" : "\n"}${canonical(line)}\n`);
          append(fd, bytes, size);
          writeHead(headFile, line);
          known = { inode, size: size + bytes.length, head: { seq: line.seq, hash: line.hash } };
          return line;
        });
      }),
    *read() {
      for (const { text } of linesOf(file)) {
        const line = text === undefined ? undefined : lineFrom(text);
        if (line) yield line;
      }
    },
    verify: () => verifyAudit(snapshot(file, headFile)),
  };
}

const APPENDING = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const WRITING = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const READING = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const CHUNK = 64 * 1024;
/** In bytes. None of ours is: each of its texts is bounded. */
const LONGEST_LINE = 64 * 1024;

/**
 * What the next line is tied to. The head when it is further than the file or says otherwise: were it the file's last line, whoever cuts
 * off the end would only have to wait for the next one.
 */
function lastOf(line: AuditLine | undefined, head: Snapshot["head"]): AuditHead {
  const written = head === "unreadable" ? undefined : head;
  if (!line) return written ?? { seq: 0, hash: GENESIS };
  return written && written.seq >= line.seq ? written : line;
}

function readTail(fd: number, size: number): AuditLine | undefined {
  for (let window = CHUNK; ; window *= 2) {
    const start = Math.max(0, size - window);
    const texts = readFrom(fd, start, size - start)
      .toString()
      .split("\n");
    if (start > 0) texts.shift(); // Its beginning is before the window.
    for (const text of texts.reverse()) {
      const line = lineFrom(text);
      if (line) return line;
    }
    if (start === 0) return undefined;
  }
}

function endsLine(fd: number, size: number, isKnown: boolean): boolean {
  return isKnown || size === 0 || readFrom(fd, size - 1, 1)[0] === 10;
}

function readFrom(fd: number, start: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const read = readSync(fd, bytes, done, length - done, start + done);
    if (read === 0) break;
    done += read;
  }
  return bytes.subarray(0, done);
}

/** Whole or not at all: a disk that is full takes half a line. */
function append(fd: number, bytes: Buffer, size: number): void {
  let done = 0;
  try {
    done = writeSync(fd, bytes);
    if (done < bytes.length) throw new Error("the disk is full");
  } catch (error) {
    if (done > 0) ftruncateSync(fd, size);
    throw error;
  }
}

// Always as long, and written in one go in its place: making a file anew and forcing it to the disk takes longer than a whole call.
function writeHead(file: string, { seq, hash }: AuditHead): void {
  const text = canonical({ hash, seq });
  withFile(file, WRITING, (fd) => writeSync(fd, `${text.padEnd(HEAD_LENGTH - 1)}\n`, 0));
}

const HEAD_LENGTH = 100;

function readHead(file: string): Snapshot["head"] {
  try {
    const text = withFile(file, READING, (fd) => readFrom(fd, 0, HEAD_LENGTH).toString());
    const { seq, hash } = Object(JSON.parse(text));
    return Number.isSafeInteger(seq) && seq > 0 && /^[0-9a-f]{64}$/.test(hash) ? { seq, hash } : "unreadable";
  } catch (error) {
    return codeOf((error as Error).cause) === "ENOENT" ? undefined : "unreadable";
  }
}

function snapshot(file: string, headFile: string): Snapshot {
  const look = () => ({ head: readHead(headFile), size: sizeOf(file) });
  let seen: ReturnType<typeof look>;
  try {
    seen = look();
    // With nothing there, no folder is made only to see that.
    if (seen.head !== undefined || seen.size !== undefined) seen = whileLocked(file, look);
  } catch {
    seen = look(); // A copy that cannot be written to: then nobody adds to it either.
  }
  const { head, size } = seen;
  return { head, isThere: size !== undefined, lines: linesOf(file, size ?? 0) };
}

function sizeOf(file: string): number | undefined {
  try {
    return withFile(file, READING, (fd) => fstatSync(fd).size);
  } catch (error) {
    if (codeOf((error as Error).cause) === "ENOENT") return undefined;
    throw error;
  }
}

/** Line by line, however long the file is. */
function* linesOf(file: string, end = sizeOf(file) ?? 0): Generator<WrittenLine> {
  if (end === 0) return;
  const fd = opened(file, READING);
  try {
    let number = 1;
    let rest = Buffer.alloc(0);
    let isTooLong = false;
    for (let at = 0; at < end; ) {
      const bytes = readFrom(fd, at, Math.min(CHUNK, end - at));
      if (bytes.length === 0) break;
      at += bytes.length;
      let start = 0;
      for (let next = bytes.indexOf(10); next !== -1; next = bytes.indexOf(10, start)) {
        const text = Buffer.concat([rest, bytes.subarray(start, next)]);
        yield { number: number++, text: isTooLong ? undefined : text.toString() };
        [rest, isTooLong, start] = [Buffer.alloc(0), false, next + 1];
      }
      rest = isTooLong ? rest : Buffer.concat([rest, bytes.subarray(start)]);
      isTooLong ||= rest.length > LONGEST_LINE;
    }
    if (rest.length > 0) yield { number, text: isTooLong ? undefined : rest.toString() };
  } finally {
    closeSync(fd);
  }
}

function withFile<T>(file: string, flags: number, work: (fd: number) => T): T {
  const fd = opened(file, flags);
  try {
    return work(fd);
  } catch (error) {
    throw unusable(file, error);
  } finally {
    closeSync(fd);
  }
}

/** Contract: a regular file. Throws a SkillError. */
function opened(file: string, flags: number): number {
  let fd: number | undefined;
  try {
    fd = openSync(file, flags, 0o600);
    if (fstatSync(fd).isFile()) return fd;
    throw new Error("it is not a regular file");
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    throw unusable(file, error);
  }
}

function unusable(file: string, cause: unknown): SkillError {
  if (cause instanceof SkillError) return cause;
  return new SkillError("audit-unwritable", {
    message: `${file} cannot be written or read: ${reason(cause)}`,
    fix: "check that it is a file of yours and that the disk has room; while it cannot be written, nothing is done for skills",
    cause,
  });
}
