import { hash } from "node:crypto";
import { closeSync, constants, fchmodSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Audit, AuditEntry, AuditLine, AuditVerdict } from "../host/capability-contract.ts";
import { withFileLock } from "../store/locked-file.ts";
import { isJsonObject } from "../util/objects.ts";
import { compareText, formatCount } from "../util/text.ts";

/**
 * The log in skillet's own folder. A line is with the system when `add` returns, so it outlives this process however that ends. It is not
 * forced to the disk: that takes longer than all the rest of a call, and a machine that loses power may lose the last seconds of it.
 */
export function createAuditLog(skilletHome: string): Audit {
  const file = join(skilletHome, "audit.jsonl");
  const headFile = join(skilletHome, "audit.head");
  // What this process wrote last. While the file is as large as it was then, nobody else has added to it.
  let known: { inode: number; size: number; head: AuditHead } | undefined;
  return {
    file,
    add: (entry) =>
      withFileLock(file, () => {
        const at = new Date().toISOString();
        return withOpenFile(file, APPEND_FLAGS, (fd) => {
          const { ino: inode, size, mode } = fstatSync(fd);
          if ((mode & 0o077) !== 0) fchmodSync(fd, 0o600);
          const isKnown = known?.inode === inode && known.size === size;
          const before = isKnown && known ? known.head : resolveLastLine(readLastLine(fd, size), readHead(headFile));
          known = undefined;
          const line = chainAuditEntry(entry, at, before);
          // One that was cut short keeps its own line: this one is whole.
          const bytes = Buffer.from(`${endsWithNewline(fd, size, isKnown) ? "" : "\n"}${stringifyCanonical(line)}\n`);
          appendBytes(fd, bytes, size);
          writeHead(headFile, line);
          known = { inode, size: size + bytes.length, head: { seq: line.seq, hash: line.hash } };
          return line;
        });
      }),
    *read() {
      for (const { text } of readLines(file)) {
        const line = text === undefined ? undefined : parseAuditLine(text);
        if (line) yield line;
      }
    },
    verify: () => verifyAudit(takeSnapshot(file, headFile)),
  };
}

const APPEND_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const WRITE_FLAGS = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const READ_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const CHUNK_BYTES = 64 * 1024;
/** In bytes. None of ours is: each of its texts is bounded. */
const MAX_LINE_BYTES = 64 * 1024;

/**
 * What the next line is tied to. The head when it is further than the file or says otherwise: were it the file's last line, whoever cuts
 * off the end would only have to wait for the next one.
 */
function resolveLastLine(line: AuditLine | undefined, head: AuditSnapshot["head"]): AuditHead {
  const written = head === "unreadable" ? undefined : head;
  if (!line) return written ?? { seq: 0, hash: GENESIS_HASH };
  return written && written.seq >= line.seq ? written : line;
}

function readLastLine(fd: number, size: number): AuditLine | undefined {
  for (let window = CHUNK_BYTES; ; window *= 2) {
    const start = Math.max(0, size - window);
    const texts = readBytes(fd, start, size - start)
      .toString()
      .split("\n");
    if (start > 0) texts.shift(); // Its beginning is before the window.
    for (const text of texts.reverse()) {
      const line = parseAuditLine(text);
      if (line) return line;
    }
    if (start === 0) return undefined;
  }
}

function endsWithNewline(fd: number, size: number, isKnown: boolean): boolean {
  return isKnown || size === 0 || readBytes(fd, size - 1, 1)[0] === 10;
}

function readBytes(fd: number, start: number, length: number): Buffer {
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
function appendBytes(fd: number, bytes: Buffer, size: number): void {
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
  const text = stringifyCanonical({ hash, seq });
  withOpenFile(file, WRITE_FLAGS, (fd) => writeSync(fd, `${text.padEnd(HEAD_BYTES - 1)}\n`, 0));
}

const HEAD_BYTES = 100;

function readHead(file: string): AuditSnapshot["head"] {
  try {
    const text = withOpenFile(file, READ_FLAGS, (fd) => readBytes(fd, 0, HEAD_BYTES).toString());
    const { seq, hash } = Object(JSON.parse(text));
    return Number.isSafeInteger(seq) && seq > 0 && /^[0-9a-f]{64}$/.test(hash) ? { seq, hash } : "unreadable";
  } catch (error) {
    return getErrnoCode((error as Error).cause) === "ENOENT" ? undefined : "unreadable";
  }
}

function takeSnapshot(file: string, headFile: string): AuditSnapshot {
  const look = () => ({ head: readHead(headFile), size: readSize(file) });
  let seen: ReturnType<typeof look>;
  try {
    seen = look();
    // With nothing there, no folder is made only to see that.
    if (seen.head !== undefined || seen.size !== undefined) seen = withFileLock(file, look);
  } catch {
    seen = look(); // A copy that cannot be written to: then nobody adds to it either.
  }
  const { head, size } = seen;
  return { head, isThere: size !== undefined, lines: readLines(file, size ?? 0) };
}

function readSize(file: string): number | undefined {
  try {
    return withOpenFile(file, READ_FLAGS, (fd) => fstatSync(fd).size);
  } catch (error) {
    if (getErrnoCode((error as Error).cause) === "ENOENT") return undefined;
    throw error;
  }
}

/** Line by line, however long the file is. */
function* readLines(file: string, end = readSize(file) ?? 0): Generator<AuditFileLine> {
  if (end === 0) return;
  const fd = openRegularFile(file, READ_FLAGS);
  try {
    let number = 1;
    let rest = Buffer.alloc(0);
    let isTooLong = false;
    for (let at = 0; at < end; ) {
      const bytes = readBytes(fd, at, Math.min(CHUNK_BYTES, end - at));
      if (bytes.length === 0) break;
      at += bytes.length;
      let start = 0;
      for (let next = bytes.indexOf(10); next !== -1; next = bytes.indexOf(10, start)) {
        const text = Buffer.concat([rest, bytes.subarray(start, next)]);
        yield { number: number++, text: isTooLong ? undefined : text.toString() };
        [rest, isTooLong, start] = [Buffer.alloc(0), false, next + 1];
      }
      rest = isTooLong ? rest : Buffer.concat([rest, bytes.subarray(start)]);
      isTooLong ||= rest.length > MAX_LINE_BYTES;
    }
    if (rest.length > 0) yield { number, text: isTooLong ? undefined : rest.toString() };
  } finally {
    closeSync(fd);
  }
}

function withOpenFile<T>(file: string, flags: number, work: (fd: number) => T): T {
  const fd = openRegularFile(file, flags);
  try {
    return work(fd);
  } catch (error) {
    throw createAuditFileError(file, error);
  } finally {
    closeSync(fd);
  }
}

/** Contract: a regular file. Throws a SkillError. */
function openRegularFile(file: string, flags: number): number {
  let fd: number | undefined;
  try {
    fd = openSync(file, flags, 0o600);
    if (fstatSync(fd).isFile()) return fd;
    throw new Error("it is not a regular file");
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    throw createAuditFileError(file, error);
  }
}

function createAuditFileError(file: string, cause: unknown): SkillError {
  if (cause instanceof SkillError) return cause;
  return new SkillError("audit-unwritable", {
    message: `${file} cannot be written or read: ${getErrorMessage(cause)}`,
    fix: "check that it is a file of yours and that the disk has room; while it cannot be written, nothing is done for skills",
    cause,
  });
}

/**
 * Whether every line is as it was written, follows the one before, and none is missing at the end. It is no proof against somebody who can
 * write both files, and cuts both: who wants that keeps the head elsewhere, and compares.
 */
function verifyAudit({ lines, isThere, head }: AuditSnapshot): AuditVerdict {
  let last: AuditHead = { seq: 0, hash: GENESIS_HASH };
  let whole = 0;
  let number = 0;
  const torn: number[] = [];
  const no = (line: number, message: string): AuditVerdict => ({ isWhole: false, lines: whole, line, message });
  for (const line of lines) {
    number = line.number;
    if (isTorn(line)) {
      torn.push(number);
      continue;
    }
    const problem = findLineProblem(line, last, head);
    if (problem !== undefined) return no(number, `line ${number} ${problem}`);
    const { seq, hash } = parseAuditLine(line.text ?? "") as AuditHead;
    last = { seq, hash };
    whole++;
  }
  const missing = findEndProblem(last, head, isThere);
  if (missing !== undefined) return no(number + 1, missing);
  return { isWhole: true, lines: whole, head: last.hash, ...(torn.length > 0 ? { torn } : {}) };
}

/**
 * The beginning of a line and no more: whoever wrote it was stopped. Nothing is known to have been lost by it, since the line before and the
 * line after are tied to each other; one that was whole before is missed by the next line, or by the head.
 */
function isTorn({ text }: AuditFileLine): boolean {
  return text !== undefined && text !== "" && isLineStart(text) && !isJson(text);
}

/** Keys are in order: one of these is always the first. */
const LINE_STARTS = ["account", "approval", "at"].map((key) => `{"${key}":"`);

function isLineStart(text: string): boolean {
  return LINE_STARTS.some((beginning) => text.startsWith(beginning) || beginning.startsWith(text));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function findLineProblem({ text }: AuditFileLine, last: AuditHead, head: AuditSnapshot["head"]): string | undefined {
  const line = text === undefined ? undefined : parseAuditLine(text);
  if (text === undefined || !line) return "is no line of this log: something else wrote it, or it was edited";
  if (hashAuditLine(line) !== line.hash || stringifyCanonical(line) !== text)
    return "was edited: its hash is not that of what it says";
  if (line.seq <= last.seq)
    return `is number ${line.seq} and stands after number ${last.seq}: it was repeated or moved`;
  if (line.seq > last.seq + 1) {
    const gone = line.seq - last.seq - 1;
    return `is number ${line.seq} and stands after number ${last.seq}: ${formatCount(gone, "line")} before it ${gone === 1 ? "was" : "were"} removed or moved`;
  }
  if (line.prev !== last.hash) return `does not follow the line before it: one of the two was replaced`;
  if (typeof head === "object" && head.seq === line.seq && head.hash !== line.hash)
    return "is not the one that was written as the last: it was replaced";
  return undefined;
}

/** One line more than the head says is one whose writer was stopped in between. */
function findEndProblem(last: AuditHead, head: AuditSnapshot["head"], isThere: boolean): string | undefined {
  if (head === "unreadable")
    return "audit.head cannot be read, so it is not known whether lines are missing at the end";
  if (head === undefined)
    return last.seq === 0 ? undefined : "audit.head is gone, so it is not known whether lines are missing at the end";
  if (!isThere) return `the log is gone, and it had ${formatCount(head.seq, "line")}`;
  if (last.seq < head.seq) {
    const gone = head.seq - last.seq;
    return `${formatCount(gone, "line")} at the end ${gone === 1 ? "is" : "are"} missing: the last was number ${head.seq}`;
  }
  if (last.seq > head.seq + 1) return `the last ${last.seq - head.seq} lines were added by something else than skillet`;
  return undefined;
}

/** What the first line is tied to. */
export const GENESIS_HASH = "0".repeat(64);

/** In characters, of each text in a line. */
const MAX_FIELD_LENGTH = 300;

/** All that a line says of what happened. What else an entry has is left out: nothing comes into the log by accident. */
const AUDIT_FIELDS: Record<keyof AuditEntry, "string" | "number"> = {
  run: "string",
  skill: "string",
  source: "string",
  user: "string",
  chat: "string",
  method: "string",
  capability: "string",
  operation: "string",
  account: "string",
  outcome: "string",
  input: "string",
  approval: "string",
  removed: "number",
  ms: "number",
  count: "number",
};

/** The last line that was written, as `audit.head` has it: so that a log whose end was cut off is known from a whole one. */
interface AuditHead {
  seq: number;
  hash: string;
}

/** A line of a file; without its text when that is longer than any line of ours. */
interface AuditFileLine {
  number: number;
  text: string | undefined;
}

/** All at one moment: lines that are added meanwhile are not looked at. */
interface AuditSnapshot {
  lines: Iterable<AuditFileLine>;
  isThere: boolean;
  /** `undefined`: there is none. `"unreadable"`: it is none. */
  head: AuditHead | "unreadable" | undefined;
}

/** The same text for the same value: keys in order, nothing in between, and ASCII alone, so that no terminal shows another line than there is. */
export function stringifyCanonical(value: unknown): string {
  return sortAndStringify(value).replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The next line, tied to the one before. */
export function chainAuditEntry(entry: AuditEntry, at: string, before: { seq: number; hash: string }): AuditLine {
  const line = { ...boundEntry(entry), seq: before.seq + 1, at, prev: before.hash };
  return { ...line, hash: hashAuditLine(line) };
}

/** What the hash of a line must be. */
export function hashAuditLine({ hash: _, ...line }: Partial<AuditLine>): string {
  return hash("sha256", stringifyCanonical(line));
}

/** A line of the log as it was written, or nothing when it is none. */
function parseAuditLine(text: string): AuditLine | undefined {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(line)) return undefined;
  const { seq, at, prev, hash: own } = line;
  const isLine = Number.isSafeInteger(seq) && Number(seq) > 0 && [at, prev, own].every(isText);
  return isLine && ["run", "skill", "source", "method", "outcome"].every((name) => isText(line[name]))
    ? (line as unknown as AuditLine)
    : undefined;
}

function boundEntry(entry: AuditEntry): AuditEntry {
  const kept = Object.entries(AUDIT_FIELDS).flatMap(([name, type]) => {
    const value = entry[name as keyof AuditEntry];
    if (typeof value !== type || (type === "number" && !Number.isFinite(value))) return [];
    return [[name, typeof value === "string" ? truncateField(value) : value]];
  });
  return Object.fromEntries(kept);
}

function truncateField(text: string): string {
  return text.length <= MAX_FIELD_LENGTH ? text : `${text.slice(0, MAX_FIELD_LENGTH - 1)}…`;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function sortAndStringify(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => sortAndStringify(item ?? null)).join(",")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value) ?? "null";
  const parts = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort(compareText)
    .map((key) => `${JSON.stringify(key)}:${sortAndStringify(value[key])}`);
  return `{${parts.join(",")}}`;
}
