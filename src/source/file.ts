import { isUtf8 } from "node:buffer";
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { codeOf, reason } from "../shared/inside.ts";
import type { Finding } from "../skill/diagnostic.ts";
import { findFrame } from "../skill/frame.ts";

/** What tells that a file changed, without reading it. */
export interface Stamp {
  mtimeMs: number;
  size: number;
  ino: number;
}
export type FileText = { text: string; stamp: Stamp; findings: Finding[] } | { finding: Finding };

const LARGEST_FILE = 1024 * 1024;

/** Reads the whole of a skill file as text. */
export function readText(path: string): FileText {
  return withFile(path, (fd, stamp) => {
    const bytes = readBytes(fd, stamp.size);
    const finding = encodingFinding(bytes);
    if (finding) return { finding };
    const findings: Finding[] = isUtf8(bytes)
      ? []
      : [{ code: "body-encoding", message: "the instructions are not UTF-8 text" }];
    return { text: bytes.toString("utf8"), stamp, findings };
  });
}

/** UTF-16 text as the UTF-8 it should have been, or nothing when the file is not UTF-16. */
export function fromUtf16(bytes: Uint8Array): string | undefined {
  const label = utf16Label(bytes);
  return label ? new TextDecoder(label).decode(bytes) : undefined;
}

/** What is there, or nothing: also where a folder above may not be looked into. */
export function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

export function stampOf(stats: Stats): Stamp {
  return { mtimeMs: stats.mtimeMs, size: stats.size, ino: stats.ino };
}

export function isSameStamp(a: Stamp, b: Stamp): boolean {
  return a.mtimeMs === b.mtimeMs && a.size === b.size && a.ino === b.ino;
}

/** Identifies a file, as far as that can be seen without reading it. */
export function fileIdOf({ ino, size, mtimeMs }: Stamp): string {
  return `${ino}:${size}:${mtimeMs}`;
}

/** True when the file at a path is not the one that was found there, since it was or is a link. */
export function isLinkedFile(path: string, { ino }: Stamp): boolean {
  try {
    return lstatSync(path).ino !== ino;
  } catch {
    return true; // It is gone, or cannot be looked at any more.
  }
}

/** Why a file or folder could not be opened. */
export function openFinding(error: unknown): Finding {
  switch (codeOf(error)) {
    case "ENOENT":
      return { code: "not-found", message: "is not there" };
    case "ELOOP":
      return { code: "link-loop", message: "is a link that leads back to itself" };
    case "ENXIO":
      return { code: "not-a-file", message: "is not a regular file" };
    case "ENOTDIR":
      return { code: "not-a-folder", message: "is not a folder" };
    default:
      return { code: "unreadable", message: `cannot be read: ${reason(error)}` };
  }
}

export const HEAD = 4096;
// A pipe without a writer would block an ordinary open for ever.
const OPEN = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens a regular file of bearable size, and closes it again. */
export function withFile<T>(path: string, use: (fd: number, stamp: Stamp) => T): T | { finding: Finding } {
  let fd: number;
  try {
    fd = openSync(path, OPEN);
  } catch (error) {
    return { finding: openFinding(error) };
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) return { finding: { code: "not-a-file", message: "is not a regular file" } };
    if (stats.size > LARGEST_FILE) {
      return { finding: { code: "file-too-large", message: `has ${stats.size} bytes, more than ${LARGEST_FILE}` } };
    }
    return use(fd, stampOf(stats));
  } catch (error) {
    return { finding: openFinding(error) };
  } finally {
    closeSync(fd);
  }
}

const buffer = Buffer.allocUnsafe(HEAD);

/** Contract: what is returned for a head is valid until the next call. */
export function readBytes(fd: number, length: number): Buffer {
  const into = length <= HEAD ? buffer : Buffer.allocUnsafe(length);
  let total = 0;
  while (total < length) {
    const read = readSync(fd, into, total, length - total, total);
    if (read === 0) break;
    total += read;
  }
  return into.subarray(0, total);
}

/** Says when the part that holds the frontmatter is not UTF-8. The instructions are judged when they are read. */
export function encodingFinding(bytes: Buffer): Finding | undefined {
  if (utf16Label(bytes)) return { code: "not-utf8", message: "is UTF-16 text, not UTF-8" };
  const whole = bytes.subarray(0, lastBoundary(bytes));
  if (isUtf8(whole)) return undefined;
  const frame = findFrame(whole.toString("utf8"));
  const frontmatter = "start" in frame ? frame.text.slice(0, frame.end) : frame.text;
  if (!frontmatter.includes("\ufffd")) return undefined;
  return { code: "not-utf8", message: frontmatter.includes("\0") ? "is not text" : "is not UTF-8 text" };
}

function utf16Label(bytes: Uint8Array): "utf-16le" | "utf-16be" | undefined {
  const start = Buffer.from(bytes.subarray(0, 4)).toString("hex");
  // Without a mark, the dashes of the first line tell.
  if (start.startsWith("fffe") || start === "2d002d00") return "utf-16le";
  return start.startsWith("feff") || start === "002d002d" ? "utf-16be" : undefined;
}

/** Where a head may be cut without splitting a character. */
function lastBoundary(bytes: Buffer): number {
  if (bytes.length < HEAD) return bytes.length;
  let end = bytes.length;
  while (end > bytes.length - 4 && ((bytes[end - 1] ?? 0) & 0xc0) === 0x80) end--;
  return ((bytes[end - 1] ?? 0) & 0x80) === 0 ? end : end - 1;
}
