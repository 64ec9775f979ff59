import { crc32, gunzipSync, inflateRawSync, type ZlibOptions } from "node:zlib";
import { getErrnoCode, getErrorMessage } from "../errors/problem.ts";
import { formatNumber } from "../util/text.ts";
import { decodeEntryName, MAX_LINK_TARGET_LENGTH } from "./entry-path.ts";
import {
  createArchiveError,
  createEntryError,
  createTooManyError,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceEntry,
} from "./remote-source.ts";

/**
 * Reads the entries of a zip from the central directory at its end. Throws on anything that another program could read
 * differently: each local header must match the directory, and the files and the directory must fill the archive
 * without gaps.
 */
export function readZip(bytes: Buffer): Iterable<SourceEntry> {
  const { entries, at } = readCentralDirectory(bytes);
  checkSizes(entries, bytes.length);
  const starts = checkOffsets(bytes, entries, at);
  return entries.map((entry) => createZipEntry(bytes, entry, starts.get(entry) ?? 0));
}

const METHOD_STORED = 0;
const METHOD_DEFLATED = 8;
const LOCAL_SIGNATURE = 0x04034b50;
const LOCAL_LENGTH = 30;
const DESCRIPTOR_SIGNATURE = 0x08074b50;
/** The sums follow the data, as written by programs that did not know them before. */
const FLAG_DESCRIPTOR = 1 << 3;
/** The compression level: the only flag in which both headers may differ. */
const FLAG_COMPRESSION_LEVEL = 0b110;

const FLAG_UTF8 = 1 << 11;
const UNIX_HOSTS: ReadonlySet<number> = new Set([3, 19]);
const FILE_TYPE_MASK = 0o170000;
const DOS_DIRECTORY = 0x10;
const ZIP_ENTRY_KINDS: ReadonlyMap<number, SourceEntry["kind"]> = new Map([
  [0o100000, "file"],
  [0o040000, "folder"],
  [0o120000, "link"],
]);

// The declared sizes are reliable here: nothing is ever inflated beyond them.
function checkSizes(entries: readonly ZipEntryHeader[], length: number): void {
  let size = 0;
  for (const entry of entries) size += entry.size;
  if (size > getMaxInflatedSize(length))
    throw createArchiveError("archive-bomb", `of ${length} bytes expands to ${size}`);
}

/** Returns the start of each entry's data. */
function checkOffsets(bytes: Buffer, entries: readonly ZipEntryHeader[], end: number): Map<ZipEntryHeader, number> {
  const starts = new Map<ZipEntryHeader, number>();
  const inOrder = entries.toSorted((a, b) => a.start - b.start);
  let free = 0;
  for (const [index, entry] of inOrder.entries()) {
    if (entry.start > free)
      throw createArchiveError("archive-extra-data", `has bytes before ${entry.shown} that belong to no entry`);
    const data = checkLocalHeader(bytes, entry, end);
    starts.set(entry, data);
    free = data + entry.packed;
    const next = inOrder[index + 1]?.start ?? end;
    if (free > next)
      throw createArchiveError("archive-overlap", `has overlapping entries: ${entry.shown} and another one`);
    if (entry.flags & FLAG_DESCRIPTOR) free += getDescriptorLength(bytes, entry, free, next);
  }
  if (free !== end)
    throw createArchiveError("archive-extra-data", "has bytes before its central directory that belong to no entry");
  return starts;
}

/** Compares a local header with the directory, and returns the start of the data. */
function checkLocalHeader(bytes: Buffer, entry: ZipEntryHeader, end: number): number {
  const at = entry.start;
  if (at + LOCAL_LENGTH > end || bytes.readUInt32LE(at) !== LOCAL_SIGNATURE) {
    throw createArchiveError("archive-broken", `has no header at the offset of ${entry.shown}`);
  }
  const [flags, method, name, extra] = [6, 8, 26, 28].map((offset) => bytes.readUInt16LE(at + offset)) as FourNumbers;
  const data = at + LOCAL_LENGTH + name + extra;
  if (data > end) throw createArchiveError("archive-broken", `ends within ${entry.shown}`);
  const nameStart = at + LOCAL_LENGTH;
  const sums = [14, 18, 22].map((offset) => bytes.readUInt32LE(at + offset));
  const listed = [entry.crc, entry.packed, entry.size];
  if (sums[1] === ZIP64_MARKER || sums[2] === ZIP64_MARKER) throw createZip64Error();
  const isLater = (entry.flags & FLAG_DESCRIPTOR) !== 0;
  const isSame =
    (flags & ~FLAG_COMPRESSION_LEVEL) === (entry.flags & ~FLAG_COMPRESSION_LEVEL) &&
    method === entry.method &&
    bytes.subarray(nameStart, nameStart + name).equals(entry.name) &&
    sums.every((sum, index) => sum === listed[index] || (isLater && sum === 0)) &&
    !hasOtherUnicodeName(bytes.subarray(nameStart + name, data), entry.name);
  if (!isSame)
    throw createArchiveError(
      "archive-inconsistent",
      `describes ${entry.shown} differently in its central directory and before its data`,
    );
  return data;
}

type FourNumbers = [number, number, number, number];

/** Info-ZIP's second name of an entry, in Unicode, which some programs use and others do not. */
const UNICODE_NAME_FIELD = 0x7075;

function hasOtherUnicodeName(extra: Buffer, name: Buffer): boolean {
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, length] = [extra.readUInt16LE(at), extra.readUInt16LE(at + 2)];
    if (id === UNICODE_NAME_FIELD && !extra.subarray(at + 9, at + 4 + length).equals(name)) return true;
    at += 4 + length;
  }
  return false;
}

/** Returns the length of the sums after the data: with the signature that most programs write, or without. */
function getDescriptorLength(bytes: Buffer, entry: ZipEntryHeader, at: number, next: number): number {
  const length = next - at;
  const sums = length === 16 && bytes.readUInt32LE(at) === DESCRIPTOR_SIGNATURE ? at + 4 : at;
  const isSame =
    (length === 12 || (length === 16 && sums !== at)) &&
    [entry.crc, entry.packed, entry.size].every((sum, index) => bytes.readUInt32LE(sums + 4 * index) === sum);
  if (!isSame)
    throw createArchiveError(
      "archive-inconsistent",
      `describes ${entry.shown} differently in its central directory and after its data`,
    );
  return length;
}

function createZipEntry(bytes: Buffer, entry: ZipEntryHeader, start: number): SourceEntry {
  const { size, packed, method, crc } = entry;
  const path = decodeZipPath(entry);
  function read(): Buffer {
    const data = bytes.subarray(start, start + packed);
    const content = method === METHOD_DEFLATED ? inflateZipEntry(path, data, size) : data;
    if (crc32(content) !== crc)
      throw createEntryError("entry-corrupt", path, "does not match its checksum in the archive");
    return content;
  }
  if (method === METHOD_STORED && packed !== size) throw createEntryError("entry-size", path, "has two sizes");
  if (hasOtherUnicodeName(entry.extra, entry.name))
    throw createArchiveError("archive-ambiguous", `has two names for ${entry.shown}`);
  const kind = getZipEntryKind(entry, path);
  const mode = (entry.attributes >>> 16) & 0o7777;
  if (kind !== "link") return { path, kind, mode: entry.attributes >>> 16 === 0 ? 0o644 : mode, size, read };
  if (size > MAX_LINK_TARGET_LENGTH)
    throw createEntryError(
      "entry-too-long",
      path,
      `is a symlink to a path of more than ${MAX_LINK_TARGET_LENGTH} bytes`,
    );
  return { path, kind, mode, size, target: decodeEntryName(read()), read };
}

// Decodes a name. Names not marked as UTF-8 are in a code page of 1981, or in the packer's own. On Unix and macOS that
// is UTF-8, which their programs do not always mark; elsewhere only ASCII is unambiguous.
function decodeZipPath({ name, flags, madeOn, shown }: ZipEntryHeader): string {
  const isUtf8 = (flags & FLAG_UTF8) !== 0 || UNIX_HOSTS.has(madeOn);
  if (!isUtf8 && name.some((byte) => byte > 0x7e)) {
    throw createEntryError("entry-encoding", shown.slice(1, -1), "has a name that is not marked as UTF-8");
  }
  return decodeEntryName(name);
}

// Returns the kind of an entry. Every program treats a name with a trailing `/` as a folder, whatever its attributes,
// and most treat no other name as one.
function getZipEntryKind({ attributes, size, shown }: ZipEntryHeader, path: string): SourceEntry["kind"] {
  const type = (attributes >>> 16) & FILE_TYPE_MASK;
  const declared = type === 0 ? "file" : (ZIP_ENTRY_KINDS.get(type) ?? "other");
  const isFolder = declared === "folder" || (attributes & DOS_DIRECTORY) !== 0;
  if (path.endsWith("/") ? size > 0 || (declared !== "file" && declared !== "folder") : isFolder) {
    throw createArchiveError("archive-inconsistent", `describes ${shown} both as a folder and as something else`);
  }
  return path.endsWith("/") ? "folder" : declared;
}

/** An entry in the central directory of a zip. */
interface ZipEntryHeader {
  name: Buffer;
  /** For messages. */
  shown: string;
  extra: Buffer;
  /** The system that it was packed on. */
  madeOn: number;
  flags: number;
  method: number;
  crc: number;
  packed: number;
  size: number;
  attributes: number;
  start: number;
}

/** Reads the central directory of a zip, and its start. Throws unless there is exactly one way to find and read it. */
function readCentralDirectory(bytes: Buffer): { entries: ZipEntryHeader[]; at: number } {
  const end = bytes.lastIndexOf(END_SIGNATURE);
  if (end === -1 || end < bytes.length - MAX_END_LENGTH || end + END_LENGTH > bytes.length) {
    throw createArchiveError("archive-broken", "is not a zip, or is truncated");
  }
  if (!isEndAtFileEnd(bytes, end)) throw createArchiveError("archive-extra-data", "has data after its end");
  // A comment can contain another end record: some programs use the first that they find, some the last.
  if (findEndRecords(bytes).length > 1) throw createArchiveError("archive-ambiguous", "has two end records");
  const [disk, listDisk, here, all] = [4, 6, 8, 10].map((offset) => bytes.readUInt16LE(end + offset)) as HeaderNumbers;
  const [length, at] = [bytes.readUInt32LE(end + 12), bytes.readUInt32LE(end + 16)];
  if (all > SOURCE_LIMITS.entries) throw createTooManyError(all);
  const hasLocator = end >= 20 && bytes.readUInt32LE(end - 20) === ZIP64_LOCATOR_SIGNATURE;
  if (hasLocator || length === ZIP64_MARKER || at === ZIP64_MARKER) throw createZip64Error();
  if (disk !== 0 || listDisk !== 0 || here !== all)
    throw createArchiveError("archive-multipart", "is one part of a multi-part archive");
  if (at + length > end) throw createArchiveError("archive-broken", "has no central directory at its offset");
  if (at + length < end)
    throw createArchiveError("archive-extra-data", "has data before its start or after its central directory");
  return { entries: readEntryHeaders(bytes, { at, end, all }), at };
}

/** Returns true if some program would open these bytes as a zip, whatever they start with. */
export function hasZipEnd(bytes: Buffer): boolean {
  return findEndRecords(bytes).some((end) => bytes.readUInt32LE(end + 12) + bytes.readUInt32LE(end + 16) <= end);
}

/** The placeholder for a number that needs more than 32 bits. */
const ZIP64_MARKER = 0xffffffff;

function createZip64Error() {
  return createArchiveError(
    "archive-zip64",
    "uses the ZIP64 format for 4 GiB and more, which is not allowed: pack it again without ZIP64",
  );
}

type HeaderNumbers = [number, number, number, number];

const END_SIGNATURE = Buffer.from("PK\x05\x06", "latin1");
const END_LENGTH = 22;
const MAX_END_LENGTH = END_LENGTH + 0xffff;
const ZIP64_LOCATOR_SIGNATURE = 0x07064b50;
const CENTRAL_SIGNATURE = 0x02014b50;
const CENTRAL_LENGTH = 46;
/** Encrypted, in any of three ways. */
const FLAG_ENCRYPTED = (1 << 0) | (1 << 6) | (1 << 13);
/** A patch to another file, which no program writes. */
const FLAG_PATCH = 1 << 5;

function isEndAtFileEnd(bytes: Buffer, end: number): boolean {
  return end + END_LENGTH + bytes.readUInt16LE(end + 20) === bytes.length;
}

/** Finds the end records whose comment reaches to the last byte. */
function findEndRecords(bytes: Buffer): number[] {
  const found: number[] = [];
  const first = Math.max(0, bytes.length - MAX_END_LENGTH);
  for (let at = bytes.indexOf(END_SIGNATURE, first); at !== -1; at = bytes.indexOf(END_SIGNATURE, at + 1)) {
    if (at + END_LENGTH <= bytes.length && isEndAtFileEnd(bytes, at)) found.push(at);
  }
  return found;
}

function readEntryHeaders(bytes: Buffer, list: { at: number; end: number; all: number }): ZipEntryHeader[] {
  const { end, all } = list;
  const entries: ZipEntryHeader[] = [];
  for (let at = list.at; at < end && entries.length <= all; ) {
    if (at + CENTRAL_LENGTH > end || bytes.readUInt32LE(at) !== CENTRAL_SIGNATURE) {
      throw createArchiveError("archive-broken", `has an unreadable central directory after entry ${entries.length}`);
    }
    const [name, extra, comment, disk] = [28, 30, 32, 34].map((offset) =>
      bytes.readUInt16LE(at + offset),
    ) as HeaderNumbers;
    const nameEnd = at + CENTRAL_LENGTH + name;
    const next = nameEnd + extra + comment;
    if (next > end)
      throw createArchiveError(
        "archive-broken",
        `has a central directory that ends within entry ${entries.length + 1}`,
      );
    if (disk !== 0) throw createArchiveError("archive-multipart", "is one part of a multi-part archive");
    entries.push(
      checkEntryHeader({
        name: bytes.subarray(at + CENTRAL_LENGTH, nameEnd),
        shown: quoteSourcePath(bytes.toString("utf8", at + CENTRAL_LENGTH, nameEnd)),
        extra: bytes.subarray(nameEnd, nameEnd + extra),
        madeOn: bytes.readUInt8(at + 5),
        flags: bytes.readUInt16LE(at + 8),
        method: bytes.readUInt16LE(at + 10),
        crc: bytes.readUInt32LE(at + 16),
        packed: bytes.readUInt32LE(at + 20),
        size: bytes.readUInt32LE(at + 24),
        attributes: bytes.readUInt32LE(at + 38),
        start: bytes.readUInt32LE(at + 42),
      }),
    );
    at = next;
  }
  if (entries.length !== all)
    throw createArchiveError(
      "archive-inconsistent",
      `states ${all} entries, but its central directory has another number`,
    );
  return entries;
}

function checkEntryHeader(entry: ZipEntryHeader): ZipEntryHeader {
  if (entry.flags & FLAG_ENCRYPTED) throw createArchiveError("archive-encrypted", `has ${entry.shown} encrypted`);
  if ((entry.method !== 0 && entry.method !== 8) || entry.flags & FLAG_PATCH) {
    throw createArchiveError(
      "archive-method",
      `has ${entry.shown} packed with an unsupported method (${entry.method})`,
    );
  }
  if (entry.packed === ZIP64_MARKER || entry.size === ZIP64_MARKER || entry.start === ZIP64_MARKER)
    throw createZip64Error();
  return entry;
}

/** Decompresses gzip data, also of several members, within the limits of a source. */
export function gunzipArchive(bytes: Buffer): Buffer {
  const max = Math.min(SOURCE_LIMITS.bytes, getMaxInflatedSize(bytes.length));
  const result = inflateWithLimit(gunzipSync, bytes, max);
  if (result === "too-large") {
    throw createArchiveError(
      "archive-bomb",
      `of ${formatNumber(bytes.length)} bytes expands to more than ${formatNumber(max)}`,
    );
  }
  if ("cause" in result) {
    throw createArchiveError("archive-broken", `is not valid gzip: ${getErrorMessage(result.cause)}`, result.cause);
  }
  if (result.used !== bytes.length) throw createArchiveError("archive-extra-data", "has data after its end");
  return result.content;
}

/** Inflates an entry of a zip. The result must have its declared size, and use all its data. */
function inflateZipEntry(path: string, packed: Buffer, size: number): Buffer {
  const result = inflateWithLimit(inflateRawSync, packed, size);
  if (result !== "too-large" && "cause" in result) {
    throw createEntryError("entry-corrupt", path, `cannot be inflated: ${getErrorMessage(result.cause)}`, result.cause);
  }
  if (result === "too-large" || result.content.length !== size || result.used !== packed.length) {
    throw createEntryError("entry-size", path, "does not have the size that the archive states");
  }
  return result.content;
}

/** Returns the maximum size of so many compressed bytes once inflated. */
function getMaxInflatedSize(packed: number): number {
  return Math.max(RATIO_FREE_BYTES, SOURCE_LIMITS.ratio * packed);
}

/** The inflated size that is always allowed: ordinary data reaches it without any trick. */
const RATIO_FREE_BYTES = 8 * 1024 * 1024;

type InflateResult = { content: Buffer; used: number } | { cause: unknown } | "too-large";
type InflateFunction = (bytes: Buffer, options: ZlibOptions) => unknown;

function inflateWithLimit(inflate: InflateFunction, bytes: Buffer, max: number): InflateResult {
  try {
    const result = inflate(bytes, { maxOutputLength: Math.max(1, max), info: true });
    const { buffer, engine } = result as { buffer: Buffer; engine: { bytesWritten: number } };
    return { content: buffer, used: engine.bytesWritten };
  } catch (cause) {
    return getErrnoCode(cause) === "ERR_BUFFER_TOO_LARGE" ? "too-large" : { cause };
  }
}
