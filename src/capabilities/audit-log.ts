import { hash } from "node:crypto";
import { closeSync, constants, fchmodSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import type { Audit, AuditEntry, AuditLine, AuditVerdict } from "../host/capability-contract.ts";
import { withFileLock } from "../store/locked-file.ts";
import { isJsonObject } from "../util/objects.ts";
import { compareText, formatCount } from "../util/text.ts";

/** The audit log in skillet's home folder. */
export interface FileAuditLog extends Audit {
  readonly file: string;
}

/**
 * Creates the audit log in skillet's home folder. A line reaches the kernel before `add` resolves, so it survives a crash of this process.
 * It is not fsynced: that takes longer than the rest of a call, so a power failure may lose the last seconds.
 */
export function createAuditLog(skilletHome: string): FileAuditLog {
  const file = join(skilletHome, "audit.jsonl");
  const headFile = join(skilletHome, "audit.head");
  // The last line that this process wrote. While the file size is unchanged, no other process has appended to it.
  let known: { inode: number; size: number; head: AuditHead } | undefined;
  return {
    file,
    add: async (entry) =>
      withFileLock(file, () => {
        const at = new Date().toISOString();
        return withOpenFile(file, APPEND_FLAGS, (fd) => {
          const { ino: inode, size, mode } = fstatSync(fd);
          if ((mode & 0o077) !== 0) fchmodSync(fd, 0o600);
          const isKnown = known?.inode === inode && known.size === size;
          const before = isKnown && known ? known.head : resolveLastLine(readLastLine(fd, size), readHead(headFile));
          known = undefined;
          const line = chainAuditEntry(entry, at, before);
          // A truncated last line keeps its own line, so this one stays intact.
          const bytes = Buffer.from(`${endsWithNewline(fd, size, isKnown) ? "" : "\n"}${stringifyCanonical(line)}\n`);
          appendBytes(fd, bytes, size);
          writeHead(headFile, line);
          known = { inode, size: size + bytes.length, head: { seq: line.seq, hash: line.hash } };
          return line;
        });
      }),
    async *read() {
      for (const { text } of readLines(file)) {
        const line = text === undefined ? undefined : parseAuditLine(text);
        if (line) yield line;
      }
    },
    verify: async () => verifyAudit(takeSnapshot(file, headFile)),
  };
}

const APPEND_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const WRITE_FLAGS = constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
const READ_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
const CHUNK_BYTES = 64 * 1024;
/** Longer than any line that skillet writes: every field is bounded. */
const MAX_LINE_BYTES = 64 * 1024;

/**
 * Returns the head that the next line chains to. `audit.head` wins if it is ahead of the file or differs: if the file's last line won,
 * cutting off the end would go unnoticed after the next line.
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
    if (start > 0) texts.shift(); // It starts before the window.
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

/** Appends all bytes or none: a full disk accepts half a line. */
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

// Fixed length, written in place: creating a file again and syncing it takes longer than a whole call.
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
    // Without a log, do not create the folder only to check.
    if (seen.head !== undefined || seen.size !== undefined) seen = withFileLock(file, look);
  } catch {
    seen = look(); // A read-only copy: no process appends to it either.
  }
  const { head, size } = seen;
  return { head, exists: size !== undefined, lines: readLines(file, size ?? 0) };
}

function readSize(file: string): number | undefined {
  try {
    return withOpenFile(file, READ_FLAGS, (fd) => fstatSync(fd).size);
  } catch (error) {
    if (getErrnoCode((error as Error).cause) === "ENOENT") return undefined;
    throw error;
  }
}

/** Reads line by line, so the size of the file does not matter. */
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
    message: `Cannot read or write ${file}: ${getErrorMessage(cause)}`,
    fix: "check that you own the file and that the disk is not full; skills cannot use capabilities until it is writable",
    cause,
  });
}

/**
 * Verifies that every line is unmodified, follows the previous one, and none is missing at the end. It cannot detect an attacker who
 * truncates both files; to detect that, keep a copy of the head on another machine and compare.
 */
export function verifyAudit({ lines, exists, head, seal }: AuditSnapshot): AuditVerdict {
  let last: AuditHead = { seq: 0, hash: GENESIS_HASH };
  let whole = 0;
  let number = 0;
  let isSealed = false;
  const torn: number[] = [];
  const no = (line: number, message: string): AuditVerdict => ({ isWhole: false, lines: whole, line, message });
  for (const line of lines) {
    number = line.number;
    if (isTorn(line)) {
      torn.push(number);
      continue;
    }
    const parsed = parseAuditLine(line.text ?? "");
    const problem = findLineProblem(line, last, head) ?? (seal && parsed && findSealProblem(parsed, isSealed, seal));
    if (problem !== undefined || !parsed) return no(number, `line ${number} ${problem}`);
    last = { seq: parsed.seq, hash: parsed.hash };
    isSealed ||= parsed.seal !== undefined;
    whole++;
  }
  const missing = findEndProblem(last, head, exists);
  if (missing !== undefined) return no(number + 1, missing);
  return { isWhole: true, lines: whole, head: last.hash, ...(torn.length > 0 ? { torn } : {}) };
}

/**
 * Returns true for the first part of a line whose writer was stopped. No data is known to be lost: the lines before and after it are
 * chained to each other. If a complete line was damaged, the next line or the head reveals it.
 */
function isTorn({ text }: AuditFileLine): boolean {
  return text !== undefined && text !== "" && isLineStart(text) && !isJson(text);
}

/** Keys are sorted, so every line starts with one of these. */
const LINE_STARTS = ['{"account":"', '{"approval":"', '{"at":"'];

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
  if (text === undefined || !line) return "is not an audit entry: another program wrote it, or it was edited";
  if (hashAuditLine(line) !== line.hash || stringifyCanonical(line) !== text)
    return "was edited: its hash does not match its content";
  if (line.seq <= last.seq) return `is number ${line.seq} but follows number ${last.seq}: it was repeated or moved`;
  if (line.seq > last.seq + 1) {
    const gone = line.seq - last.seq - 1;
    return `is number ${line.seq} but follows number ${last.seq}: ${formatCount(gone, "line")} before it ${gone === 1 ? "was" : "were"} removed or moved`;
  }
  if (line.prev !== last.hash) return `does not follow the line before it: one of the two was replaced`;
  if (typeof head === "object" && head.seq === line.seq && head.hash !== line.hash)
    return "is not the last line that skillet wrote: it was replaced";
  return undefined;
}

/** Lines from before the key have no seal. After the first seal, each line needs one. */
function findSealProblem({ hash: _, seal: own, ...line }: AuditLine, isSealed: boolean, seal: SealText) {
  if (own === undefined) return isSealed ? "has no seal: a program without the seal key added it" : undefined;
  return own === seal(formatSealed(line)) ? undefined : "has a false seal: a program without the seal key added it";
}

/** Allows one line more than the head: its writer was stopped before it updated the head. */
function findEndProblem(last: AuditHead, head: AuditSnapshot["head"], exists: boolean): string | undefined {
  if (head === "unreadable") return "audit.head cannot be read, so missing lines at the end cannot be detected";
  if (head === undefined)
    return last.seq === 0 ? undefined : "audit.head is missing, so missing lines at the end cannot be detected";
  if (!exists) return `the log is missing; it had ${formatCount(head.seq, "line")}`;
  if (last.seq < head.seq) {
    const gone = head.seq - last.seq;
    return `${formatCount(gone, "line")} at the end ${gone === 1 ? "is" : "are"} missing: the last was number ${head.seq}`;
  }
  if (last.seq > head.seq + 1) return `the last ${last.seq - head.seq} lines were not added by skillet`;
  return undefined;
}

/** The `prev` hash of the first line. */
export const GENESIS_HASH = "0".repeat(64);

/** In characters, for each text field of a line. */
const MAX_FIELD_LENGTH = 300;

/** All fields of a line. Other properties of an entry are dropped, so nothing gets into the log by accident. */
const AUDIT_FIELDS: Record<keyof AuditEntry, "string" | "number"> = {
  run: "string",
  skill: "string",
  source: "string",
  user: "string",
  tenant: "string",
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

/** The last line written, as stored in `audit.head`. It reveals a log whose end was cut off. */
interface AuditHead {
  seq: number;
  hash: string;
}

/** A line of the file. `text` is undefined if it is longer than any line skillet writes. */
interface AuditFileLine {
  number: number;
  text: string | undefined;
}

/** The log at one moment: lines appended later are ignored. */
export interface AuditSnapshot {
  lines: Iterable<AuditFileLine>;
  exists: boolean;
  /** `undefined` if the file does not exist, `"unreadable"` if its content is invalid. */
  head: AuditHead | "unreadable" | undefined;
  /** Set if the log has a key. */
  seal?: SealText | undefined;
}

/** Returns the proof that an owner of the seal key wrote a text. */
type SealText = (text: string) => string;

/** Returns what a seal covers. The number of the line and the hash of the previous one bind it to its place. */
function formatSealed(line: object): string {
  return `audit ${stringifyCanonical(line)}`;
}

/** Serializes a value to canonical JSON: sorted keys, no whitespace, ASCII only, so no terminal can render a line differently. */
export function stringifyCanonical(value: unknown): string {
  return sortAndStringify(value).replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns the next line, chained to the previous one and, if the log has a key, sealed. */
export function chainAuditEntry(
  entry: AuditEntry,
  at: string,
  before: { seq: number; hash: string },
  seal?: SealText,
): AuditLine {
  const chained = { ...boundEntry(entry), seq: before.seq + 1, at, prev: before.hash };
  const line = seal ? { ...chained, seal: seal(formatSealed(chained)) } : chained;
  return { ...line, hash: hashAuditLine(line) };
}

/** Returns the expected hash of a line. */
export function hashAuditLine({ hash: _, ...line }: Partial<AuditLine>): string {
  return hash("sha256", stringifyCanonical(line));
}

/** Parses a line of the log; undefined if it is not one. */
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
