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
 * What a zip holds, by the list at its end. Everything that another program could read otherwise is refused: what is before each file says
 * the same as the list, and the files and the list are all that there is, one behind the other.
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
/** That its sums stand behind the data, as those write who did not know them before. */
const FLAG_DESCRIPTOR = 1 << 3;
/** How hard the compressor tried: the one thing that both places may differ in. */
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

// The declared sizes can be trusted here: nothing is ever inflated past its own.
function checkSizes(entries: readonly ZipEntryHeader[], length: number): void {
  let size = 0;
  for (const entry of entries) size += entry.size;
  if (size > getMaxInflatedSize(length)) throw createArchiveError("archive-bomb", `of ${length} bytes becomes ${size}`);
}

/** Where the data of each entry begins. */
function checkOffsets(bytes: Buffer, entries: readonly ZipEntryHeader[], end: number): Map<ZipEntryHeader, number> {
  const starts = new Map<ZipEntryHeader, number>();
  const inOrder = entries.toSorted((a, b) => a.start - b.start);
  let free = 0;
  for (const [index, entry] of inOrder.entries()) {
    if (entry.start > free)
      throw createArchiveError("archive-stray", `has bytes before ${entry.shown} that belong to nothing`);
    const data = checkLocalHeader(bytes, entry, end);
    starts.set(entry, data);
    free = data + entry.packed;
    const next = inOrder[index + 1]?.start ?? end;
    if (free > next) throw createArchiveError("archive-overlap", `has ${entry.shown} and another entry in one place`);
    if (entry.flags & FLAG_DESCRIPTOR) free += getDescriptorLength(bytes, entry, free, next);
  }
  if (free !== end) throw createArchiveError("archive-stray", "has bytes before its list that belong to nothing");
  return starts;
}

/** Compares what stands before a file's data with the list, and gives where the data begins. */
function checkLocalHeader(bytes: Buffer, entry: ZipEntryHeader, end: number): number {
  const at = entry.start;
  if (at + LOCAL_LENGTH > end || bytes.readUInt32LE(at) !== LOCAL_SIGNATURE) {
    throw createArchiveError("archive-broken", `has nothing where ${entry.shown} is to be`);
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
      "archive-disagrees",
      `says one thing of ${entry.shown} in its list and another before its data`,
    );
  return data;
}

type FourNumbers = [number, number, number, number];

/** Info-ZIP's way to give an entry a second name, in Unicode, which some programs take and others do not. */
const UNICODE_NAME_FIELD = 0x7075;

function hasOtherUnicodeName(extra: Buffer, name: Buffer): boolean {
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, length] = [extra.readUInt16LE(at), extra.readUInt16LE(at + 2)];
    if (id === UNICODE_NAME_FIELD && !extra.subarray(at + 9, at + 4 + length).equals(name)) return true;
    at += 4 + length;
  }
  return false;
}

/** How long the sums behind the data are: with the mark that most write before them, or without. */
function getDescriptorLength(bytes: Buffer, entry: ZipEntryHeader, at: number, next: number): number {
  const length = next - at;
  const sums = length === 16 && bytes.readUInt32LE(at) === DESCRIPTOR_SIGNATURE ? at + 4 : at;
  const isSame =
    (length === 12 || (length === 16 && sums !== at)) &&
    [entry.crc, entry.packed, entry.size].every((sum, index) => bytes.readUInt32LE(sums + 4 * index) === sum);
  if (!isSame)
    throw createArchiveError(
      "archive-disagrees",
      `says one thing of ${entry.shown} in its list and another behind its data`,
    );
  return length;
}

function createZipEntry(bytes: Buffer, entry: ZipEntryHeader, start: number): SourceEntry {
  const { size, packed, method, crc } = entry;
  const path = decodeZipPath(entry);
  function read(): Buffer {
    const data = bytes.subarray(start, start + packed);
    const content = method === METHOD_DEFLATED ? inflateZipEntry(path, data, size) : data;
    if (crc32(content) !== crc) throw createEntryError("entry-damaged", path, "has not the sum that the archive says");
    return content;
  }
  if (method === METHOD_STORED && packed !== size) throw createEntryError("entry-size", path, "has two sizes");
  if (hasOtherUnicodeName(entry.extra, entry.name))
    throw createArchiveError("archive-ambiguous", `has two names for ${entry.shown}`);
  const kind = getZipEntryKind(entry, path);
  const mode = (entry.attributes >>> 16) & 0o7777;
  if (kind !== "link") return { path, kind, mode: entry.attributes >>> 16 === 0 ? 0o644 : mode, size, read };
  if (size > MAX_LINK_TARGET_LENGTH)
    throw createEntryError("entry-long", path, `is a link to a path of more than ${MAX_LINK_TARGET_LENGTH} bytes`);
  return { path, kind, mode, size, target: decodeEntryName(read()), read };
}

// Names that are not marked as UTF-8 are in a code of 1981, or in that of whoever packed them. On Unix and macOS that is UTF-8, and their
// programs do not always mark it; elsewhere only ASCII is the same in all.
function decodeZipPath({ name, flags, madeOn, shown }: ZipEntryHeader): string {
  const isUtf8 = (flags & FLAG_UTF8) !== 0 || UNIX_HOSTS.has(madeOn);
  if (!isUtf8 && name.some((byte) => byte > 0x7e)) {
    throw createEntryError("entry-encoding", shown.slice(1, -1), "is a name that is not marked as UTF-8");
  }
  return decodeEntryName(name);
}

// Every program takes a name with `/` at its end for a folder's, whatever its attributes say, and most take no other for one.
function getZipEntryKind({ attributes, size, shown }: ZipEntryHeader, path: string): SourceEntry["kind"] {
  const type = (attributes >>> 16) & FILE_TYPE_MASK;
  const said = type === 0 ? "file" : (ZIP_ENTRY_KINDS.get(type) ?? "other");
  const isFolder = said === "folder" || (attributes & DOS_DIRECTORY) !== 0;
  if (path.endsWith("/") ? size > 0 || (said !== "file" && said !== "folder") : isFolder) {
    throw createArchiveError("archive-disagrees", `says both that ${shown} is a folder and that it is none`);
  }
  return path.endsWith("/") ? "folder" : said;
}

/** An entry as the list at the end of a zip has it. */
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

/** The list at the end of a zip, and where it begins. Throws unless there is one way to find it and to read it. */
function readCentralDirectory(bytes: Buffer): { entries: ZipEntryHeader[]; at: number } {
  const end = bytes.lastIndexOf(END_SIGNATURE);
  if (end === -1 || end < bytes.length - MAX_END_LENGTH || end + END_LENGTH > bytes.length) {
    throw createArchiveError("archive-broken", "is no zip, or its end is missing");
  }
  if (!isEndAtFileEnd(bytes, end)) throw createArchiveError("archive-stray", "goes on behind its end");
  // A comment can hold another end: some programs take the first that they find, some the last.
  if (findEndRecords(bytes).length > 1) throw createArchiveError("archive-ambiguous", "has two ends");
  const [disk, listDisk, here, all] = [4, 6, 8, 10].map((offset) => bytes.readUInt16LE(end + offset)) as HeaderNumbers;
  const [length, at] = [bytes.readUInt32LE(end + 12), bytes.readUInt32LE(end + 16)];
  if (all > SOURCE_LIMITS.entries) throw createTooManyError(all);
  const hasLocator = end >= 20 && bytes.readUInt32LE(end - 20) === ZIP64_LOCATOR_SIGNATURE;
  if (hasLocator || length === ZIP64_MARKER || at === ZIP64_MARKER) throw createZip64Error();
  if (disk !== 0 || listDisk !== 0 || here !== all) throw createArchiveError("archive-parts", "is one part of several");
  if (at + length > end) throw createArchiveError("archive-broken", "has no list where it is to be");
  if (at + length < end) throw createArchiveError("archive-stray", "has something before it, or behind its list");
  return { entries: readEntryHeaders(bytes, { at, end, all }), at };
}

/** Whether some program would take these bytes for a zip, whatever they begin with. */
export function hasZipEnd(bytes: Buffer): boolean {
  return findEndRecords(bytes).some((end) => bytes.readUInt32LE(end + 12) + bytes.readUInt32LE(end + 16) <= end);
}

/** In the place of a number that needs more than 32 bits. */
const ZIP64_MARKER = 0xffffffff;

function createZip64Error() {
  return createArchiveError(
    "archive-zip64",
    "is written as those of 4 GiB and more are (ZIP64), which none may be: pack it anew",
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
/** A difference to another file, which nobody writes. */
const FLAG_PATCH = 1 << 5;

function isEndAtFileEnd(bytes: Buffer, end: number): boolean {
  return end + END_LENGTH + bytes.readUInt16LE(end + 20) === bytes.length;
}

/** Where an end of a zip begins whose comment reaches to the last byte. */
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
      throw createArchiveError("archive-broken", `has a list that cannot be read behind entry ${entries.length}`);
    }
    const [name, extra, comment, disk] = [28, 30, 32, 34].map((offset) =>
      bytes.readUInt16LE(at + offset),
    ) as HeaderNumbers;
    const nameEnd = at + CENTRAL_LENGTH + name;
    const next = nameEnd + extra + comment;
    if (next > end)
      throw createArchiveError("archive-broken", `has a list that ends within entry ${entries.length + 1}`);
    if (disk !== 0) throw createArchiveError("archive-parts", "is one part of several");
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
    throw createArchiveError("archive-disagrees", `says that it holds ${all}, and its list does not`);
  return entries;
}

function checkEntryHeader(entry: ZipEntryHeader): ZipEntryHeader {
  if (entry.flags & FLAG_ENCRYPTED) throw createArchiveError("archive-encrypted", `has ${entry.shown} encrypted`);
  if ((entry.method !== 0 && entry.method !== 8) || entry.flags & FLAG_PATCH) {
    throw createArchiveError(
      "archive-method",
      `has ${entry.shown} packed in a way that is not read here (${entry.method})`,
    );
  }
  if (entry.packed === ZIP64_MARKER || entry.size === ZIP64_MARKER || entry.start === ZIP64_MARKER)
    throw createZip64Error();
  return entry;
}

/** What gzip compressed, several times in a row as well, within the bounds of a source. */
export function gunzipArchive(bytes: Buffer): Buffer {
  const most = Math.min(SOURCE_LIMITS.bytes, getMaxInflatedSize(bytes.length));
  const result = inflateWithLimit(gunzipSync, bytes, most);
  if (result === "too-large") {
    throw createArchiveError(
      "archive-bomb",
      `of ${formatNumber(bytes.length)} bytes becomes more than ${formatNumber(most)}`,
    );
  }
  if ("cause" in result) {
    throw createArchiveError(
      "archive-broken",
      `cannot be read as gzip writes it: ${getErrorMessage(result.cause)}`,
      result.cause,
    );
  }
  if (result.used !== bytes.length) throw createArchiveError("archive-stray", "goes on behind its end");
  return result.content;
}

/** The bytes of an entry of a zip, which must be as many as it says, from all that it has. */
function inflateZipEntry(path: string, packed: Buffer, size: number): Buffer {
  const result = inflateWithLimit(inflateRawSync, packed, size);
  if (result !== "too-large" && "cause" in result) {
    throw createEntryError("entry-damaged", path, `cannot be inflated: ${getErrorMessage(result.cause)}`, result.cause);
  }
  if (result === "too-large" || result.content.length !== size || result.used !== packed.length) {
    throw createEntryError("entry-size", path, "has not as many bytes as the archive says");
  }
  return result.content;
}

/** How many bytes so many compressed ones may become. */
function getMaxInflatedSize(packed: number): number {
  return Math.max(RATIO_FREE_BYTES, SOURCE_LIMITS.ratio * packed);
}

/** What may come out of ever so few bytes: as much can be had without any trick. */
const RATIO_FREE_BYTES = 8 * 1024 * 1024;

type InflateResult = { content: Buffer; used: number } | { cause: unknown } | "too-large";
type InflateFunction = (bytes: Buffer, options: ZlibOptions) => unknown;

function inflateWithLimit(inflate: InflateFunction, bytes: Buffer, most: number): InflateResult {
  try {
    const result = inflate(bytes, { maxOutputLength: Math.max(1, most), info: true });
    const { buffer, engine } = result as { buffer: Buffer; engine: { bytesWritten: number } };
    return { content: buffer, used: engine.bytesWritten };
  } catch (cause) {
    return getErrnoCode(cause) === "ERR_BUFFER_TOO_LARGE" ? "too-large" : { cause };
  }
}
