import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { getErrnoCode, getErrorMessage } from "../../errors/problem.ts";
import { findFrontmatter } from "../frontmatter.ts";
import type { Finding } from "../skill.ts";

/** Detects that a file changed, without reading it. */
export interface FileFingerprint {
  mtimeMs: number;
  size: number;
  ino: number;
}
export type FileText = { text: string; stamp: FileFingerprint; findings: Finding[] } | { finding: Finding };

const MAX_FILE_BYTES = 1024 * 1024;

/** Reads a skill file as text. */
export function readSkillText(path: string): FileText {
  return withOpenFile(path, (fd, stamp) => {
    const bytes = readFileBytes(fd, stamp.size);
    const finding = checkEncoding(bytes);
    if (finding) return { finding };
    const findings: Finding[] = isUtf8(bytes)
      ? []
      : [{ code: "body-encoding", message: "the instructions are not UTF-8 text" }];
    return { text: bytes.toString("utf8"), stamp, findings };
  });
}

/** Decodes UTF-16 text, or returns undefined if the file is not UTF-16. */
export function decodeUtf16(bytes: Uint8Array): string | undefined {
  const label = detectUtf16(bytes);
  return label ? new TextDecoder(label).decode(bytes) : undefined;
}

/** Returns the stats of a path, or undefined if it does not exist or a parent folder is not readable. */
export function statIfExists(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

export function createFileFingerprint(stats: Stats): FileFingerprint {
  return { mtimeMs: stats.mtimeMs, size: stats.size, ino: stats.ino };
}

export function isSameFingerprint(a: FileFingerprint, b: FileFingerprint): boolean {
  return a.mtimeMs === b.mtimeMs && a.size === b.size && a.ino === b.ino;
}

/** Formats an identity of a file without reading it. */
export function formatFileId({ ino, size, mtimeMs }: FileFingerprint): string {
  return `${ino}:${size}:${mtimeMs}`;
}

/** Returns true if the file at a path is not the one that was found, because it was or is a symlink. */
export function isLinkedFile(path: string, { ino }: FileFingerprint): boolean {
  try {
    return lstatSync(path).ino !== ino;
  } catch {
    return true; // It was removed, or is no longer accessible.
  }
}

/** Creates the finding for a file or folder that could not be opened. */
export function createOpenFinding(error: unknown): Finding {
  switch (getErrnoCode(error)) {
    case "ENOENT":
      return { code: "not-found", message: "does not exist" };
    case "ELOOP":
      return { code: "symlink-loop", message: "is a symlink to itself" };
    case "ENXIO":
      return { code: "not-a-file", message: "is not a regular file" };
    case "ENOTDIR":
      return { code: "not-a-folder", message: "is not a folder" };
    default:
      return { code: "unreadable", message: `cannot be read: ${getErrorMessage(error)}` };
  }
}

export const HEAD_BYTES = 4096;
// A normal open would block forever on a pipe without a writer.
const OPEN_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens a regular file within the size limit, and closes it afterwards. */
export function withOpenFile<T>(
  path: string,
  use: (fd: number, stamp: FileFingerprint) => T,
): T | { finding: Finding } {
  let fd: number;
  try {
    fd = openSync(path, OPEN_FLAGS);
  } catch (error) {
    return { finding: createOpenFinding(error) };
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) return { finding: { code: "not-a-file", message: "is not a regular file" } };
    if (stats.size > MAX_FILE_BYTES) {
      return { finding: { code: "file-too-large", message: `has ${stats.size} bytes, more than ${MAX_FILE_BYTES}` } };
    }
    return use(fd, createFileFingerprint(stats));
  } catch (error) {
    return { finding: createOpenFinding(error) };
  } finally {
    closeSync(fd);
  }
}

const headBuffer = Buffer.allocUnsafe(HEAD_BYTES);

/** Contract: the bytes of a head are valid until the next call. */
export function readFileBytes(fd: number, length: number): Buffer {
  const into = length <= HEAD_BYTES ? headBuffer : Buffer.allocUnsafe(length);
  let total = 0;
  while (total < length) {
    const read = readSync(fd, into, total, length - total, total);
    if (read === 0) break;
    total += read;
  }
  return into.subarray(0, total);
}

/** Reports if the part with the frontmatter is not UTF-8. The instructions are checked when they are read. */
export function checkEncoding(bytes: Buffer): Finding | undefined {
  if (detectUtf16(bytes)) return { code: "not-utf8", message: "is UTF-16 text, not UTF-8" };
  const whole = bytes.subarray(0, findCharacterBoundary(bytes));
  if (isUtf8(whole)) return undefined;
  const frame = findFrontmatter(whole.toString("utf8"));
  const frontmatter = "start" in frame ? frame.text.slice(0, frame.end) : frame.text;
  if (!frontmatter.includes("\ufffd")) return undefined;
  return { code: "not-utf8", message: frontmatter.includes("\0") ? "is not text" : "is not UTF-8 text" };
}

function detectUtf16(bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  const start = Buffer.from(bytes.subarray(0, 4)).toString("hex");
  // Without a byte order mark, the dashes of the first line indicate the encoding.
  if (start.startsWith("fffe") || start === "2d002d00") return "utf-16le";
  return start.startsWith("feff") || start === "002d002d" ? "utf-16be" : undefined;
}

/** Returns the index at which a head can be cut without splitting a character. */
function findCharacterBoundary(bytes: Buffer): number {
  if (bytes.length < HEAD_BYTES) return bytes.length;
  let end = bytes.length;
  while (end > bytes.length - 4 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--;
  return ((bytes[end - 1] ?? 0) & 0x80) === 0 ? end : end - 1;
}
