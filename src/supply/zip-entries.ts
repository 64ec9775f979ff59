import { crc32 } from "node:zlib";
import type { SourceEntry } from "./contract.ts";
import { LONGEST_TARGET, utf8 } from "./entry-name.ts";
import { inflateEntry, mostFrom } from "./inflate.ts";
import { refusedArchive, refusedEntry } from "./refusal.ts";
import { type Listed, listOf, MANY, zip64 } from "./zip-list.ts";

/**
 * What a zip holds, by the list at its end. Everything that another program could read otherwise is refused: what is before each file says
 * the same as the list, and the files and the list are all that there is, one behind the other.
 */
export function zipEntries(bytes: Buffer): Iterable<SourceEntry> {
  const { entries, at } = listOf(bytes);
  judgeSizes(entries, bytes.length);
  const starts = judgePlaces(bytes, entries, at);
  return entries.map((entry) => entryOf(bytes, entry, starts.get(entry) ?? 0));
}

const STORED = 0;
const DEFLATED = 8;
const LOCAL = 0x04034b50;
const LOCAL_LENGTH = 30;
const DESCRIPTOR = 0x08074b50;
/** That its sums stand behind the data, as those write who did not know them before. */
const HAS_DESCRIPTOR = 1 << 3;
/** How hard the compressor tried: the one thing that both places may differ in. */
const EFFORT = 0b110;

const UTF8 = 1 << 11;
const UNIX: ReadonlySet<number> = new Set([3, 19]);
const TYPE = 0o170000;
const DOS_FOLDER = 0x10;
const KINDS: ReadonlyMap<number, SourceEntry["kind"]> = new Map([
  [0o100000, "file"],
  [0o040000, "folder"],
  [0o120000, "link"],
]);

// The declared sizes can be trusted here: nothing is ever inflated past its own.
function judgeSizes(entries: readonly Listed[], length: number): void {
  let size = 0;
  for (const entry of entries) size += entry.size;
  if (size > mostFrom(length)) throw refusedArchive("archive-bomb", `of ${length} bytes becomes ${size}`);
}

/** Where the data of each entry begins. */
function judgePlaces(bytes: Buffer, entries: readonly Listed[], end: number): Map<Listed, number> {
  const starts = new Map<Listed, number>();
  const inOrder = entries.toSorted((a, b) => a.start - b.start);
  let free = 0;
  for (const [index, entry] of inOrder.entries()) {
    if (entry.start > free)
      throw refusedArchive("archive-stray", `has bytes before ${entry.shown} that belong to nothing`);
    const data = judgeLocal(bytes, entry, end);
    starts.set(entry, data);
    free = data + entry.packed;
    const next = inOrder[index + 1]?.start ?? end;
    if (free > next) throw refusedArchive("archive-overlap", `has ${entry.shown} and another entry in one place`);
    if (entry.flags & HAS_DESCRIPTOR) free += descriptorLength(bytes, entry, free, next);
  }
  if (free !== end) throw refusedArchive("archive-stray", "has bytes before its list that belong to nothing");
  return starts;
}

/** Compares what stands before a file's data with the list, and gives where the data begins. */
function judgeLocal(bytes: Buffer, entry: Listed, end: number): number {
  const at = entry.start;
  if (at + LOCAL_LENGTH > end || bytes.readUInt32LE(at) !== LOCAL) {
    throw refusedArchive("archive-broken", `has nothing where ${entry.shown} is to be`);
  }
  const [flags, method, name, extra] = [6, 8, 26, 28].map((offset) => bytes.readUInt16LE(at + offset)) as Four;
  const data = at + LOCAL_LENGTH + name + extra;
  if (data > end) throw refusedArchive("archive-broken", `ends within ${entry.shown}`);
  const nameStart = at + LOCAL_LENGTH;
  const sums = [14, 18, 22].map((offset) => bytes.readUInt32LE(at + offset));
  const listed = [entry.crc, entry.packed, entry.size];
  if (sums[1] === MANY || sums[2] === MANY) throw zip64();
  const isLater = (entry.flags & HAS_DESCRIPTOR) !== 0;
  const isSame =
    (flags & ~EFFORT) === (entry.flags & ~EFFORT) &&
    method === entry.method &&
    bytes.subarray(nameStart, nameStart + name).equals(entry.name) &&
    sums.every((sum, index) => sum === listed[index] || (isLater && sum === 0)) &&
    !renames(bytes.subarray(nameStart + name, data), entry.name);
  if (!isSame)
    throw refusedArchive(
      "archive-disagrees",
      `says one thing of ${entry.shown} in its list and another before its data`,
    );
  return data;
}

type Four = [number, number, number, number];

/** Info-ZIP's way to give an entry a second name, in Unicode, which some programs take and others do not. */
const UNICODE_NAME = 0x7075;

function renames(extra: Buffer, name: Buffer): boolean {
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, length] = [extra.readUInt16LE(at), extra.readUInt16LE(at + 2)];
    if (id === UNICODE_NAME && !extra.subarray(at + 9, at + 4 + length).equals(name)) return true;
    at += 4 + length;
  }
  return false;
}

/** How long the sums behind the data are: with the mark that most write before them, or without. */
function descriptorLength(bytes: Buffer, entry: Listed, at: number, next: number): number {
  const length = next - at;
  const sums = length === 16 && bytes.readUInt32LE(at) === DESCRIPTOR ? at + 4 : at;
  const isSame =
    (length === 12 || (length === 16 && sums !== at)) &&
    [entry.crc, entry.packed, entry.size].every((sum, index) => bytes.readUInt32LE(sums + 4 * index) === sum);
  if (!isSame)
    throw refusedArchive(
      "archive-disagrees",
      `says one thing of ${entry.shown} in its list and another behind its data`,
    );
  return length;
}

function entryOf(bytes: Buffer, entry: Listed, start: number): SourceEntry {
  const { size, packed, method, crc } = entry;
  const path = pathOf(entry);
  function read(): Buffer {
    const data = bytes.subarray(start, start + packed);
    const content = method === DEFLATED ? inflateEntry(path, data, size) : data;
    if (crc32(content) !== crc) throw refusedEntry("entry-damaged", path, "has not the sum that the archive says");
    return content;
  }
  if (method === STORED && packed !== size) throw refusedEntry("entry-size", path, "has two sizes");
  if (renames(entry.extra, entry.name)) throw refusedArchive("archive-ambiguous", `has two names for ${entry.shown}`);
  const kind = kindOf(entry, path);
  const mode = (entry.attributes >>> 16) & 0o7777;
  if (kind !== "link") return { path, kind, mode: entry.attributes >>> 16 === 0 ? 0o644 : mode, size, read };
  if (size > LONGEST_TARGET)
    throw refusedEntry("entry-long", path, `is a link to a path of more than ${LONGEST_TARGET} bytes`);
  return { path, kind, mode, size, target: utf8(read()), read };
}

// Names that are not marked as UTF-8 are in a code of 1981, or in that of whoever packed them. On Unix and macOS that is UTF-8, and their
// programs do not always mark it; elsewhere only ASCII is the same in all.
function pathOf({ name, flags, madeOn, shown }: Listed): string {
  const isUtf8 = (flags & UTF8) !== 0 || UNIX.has(madeOn);
  if (!isUtf8 && name.some((byte) => byte > 0x7e)) {
    throw refusedEntry("entry-encoding", shown.slice(1, -1), "is a name that is not marked as UTF-8");
  }
  return utf8(name);
}

// Every program takes a name with `/` at its end for a folder's, whatever its attributes say, and most take no other for one.
function kindOf({ attributes, size, shown }: Listed, path: string): SourceEntry["kind"] {
  const type = (attributes >>> 16) & TYPE;
  const said = type === 0 ? "file" : (KINDS.get(type) ?? "other");
  const isFolder = said === "folder" || (attributes & DOS_FOLDER) !== 0;
  if (path.endsWith("/") ? size > 0 || (said !== "file" && said !== "folder") : isFolder) {
    throw refusedArchive("archive-disagrees", `says both that ${shown} is a folder and that it is none`);
  }
  return path.endsWith("/") ? "folder" : said;
}
