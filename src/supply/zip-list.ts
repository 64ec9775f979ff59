import { SOURCE_LIMITS } from "./contract.ts";
import { refusedArchive, shown, tooMany } from "./refusal.ts";

/** An entry as the list at the end of a zip has it. */
export interface Listed {
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
export function listOf(bytes: Buffer): { entries: Listed[]; at: number } {
  const end = bytes.lastIndexOf(END_MARK);
  if (end === -1 || end < bytes.length - LONGEST_END || end + END_LENGTH > bytes.length) {
    throw refusedArchive("archive-broken", "is no zip, or its end is missing");
  }
  if (!reachesEnd(bytes, end)) throw refusedArchive("archive-stray", "goes on behind its end");
  // A comment can hold another end: some programs take the first that they find, some the last.
  if (endsIn(bytes).length > 1) throw refusedArchive("archive-ambiguous", "has two ends");
  const [disk, listDisk, here, all] = [4, 6, 8, 10].map((offset) => bytes.readUInt16LE(end + offset)) as Four;
  const [length, at] = [bytes.readUInt32LE(end + 12), bytes.readUInt32LE(end + 16)];
  if (all > SOURCE_LIMITS.entries) throw tooMany(all);
  const hasLocator = end >= 20 && bytes.readUInt32LE(end - 20) === LOCATOR;
  if (hasLocator || length === MANY || at === MANY) throw zip64();
  if (disk !== 0 || listDisk !== 0 || here !== all) throw refusedArchive("archive-parts", "is one part of several");
  if (at + length > end) throw refusedArchive("archive-broken", "has no list where it is to be");
  if (at + length < end) throw refusedArchive("archive-stray", "has something before it, or behind its list");
  return { entries: readList(bytes, { at, end, all }), at };
}

/** Whether some program would take these bytes for a zip, whatever they begin with. */
export function endsAsZip(bytes: Buffer): boolean {
  return endsIn(bytes).some((end) => bytes.readUInt32LE(end + 12) + bytes.readUInt32LE(end + 16) <= end);
}

/** In the place of a number that needs more than 32 bits. */
export const MANY = 0xffffffff;

export function zip64() {
  return refusedArchive(
    "archive-zip64",
    "is written as those of 4 GiB and more are (ZIP64), which none may be: pack it anew",
  );
}

type Four = [number, number, number, number];

const END_MARK = Buffer.from("PK\x05\x06", "latin1");
const END_LENGTH = 22;
const LONGEST_END = END_LENGTH + 0xffff;
const LOCATOR = 0x07064b50;
const CENTRAL = 0x02014b50;
const CENTRAL_LENGTH = 46;
/** Encrypted, in any of three ways. */
const ENCRYPTED = (1 << 0) | (1 << 6) | (1 << 13);
/** A difference to another file, which nobody writes. */
const PATCH = 1 << 5;

function reachesEnd(bytes: Buffer, end: number): boolean {
  return end + END_LENGTH + bytes.readUInt16LE(end + 20) === bytes.length;
}

/** Where an end of a zip begins whose comment reaches to the last byte. */
function endsIn(bytes: Buffer): number[] {
  const found: number[] = [];
  const first = Math.max(0, bytes.length - LONGEST_END);
  for (let at = bytes.indexOf(END_MARK, first); at !== -1; at = bytes.indexOf(END_MARK, at + 1)) {
    if (at + END_LENGTH <= bytes.length && reachesEnd(bytes, at)) found.push(at);
  }
  return found;
}

function readList(bytes: Buffer, list: { at: number; end: number; all: number }): Listed[] {
  const { end, all } = list;
  const entries: Listed[] = [];
  for (let at = list.at; at < end && entries.length <= all; ) {
    if (at + CENTRAL_LENGTH > end || bytes.readUInt32LE(at) !== CENTRAL) {
      throw refusedArchive("archive-broken", `has a list that cannot be read behind entry ${entries.length}`);
    }
    const [name, extra, comment, disk] = [28, 30, 32, 34].map((offset) => bytes.readUInt16LE(at + offset)) as Four;
    const nameEnd = at + CENTRAL_LENGTH + name;
    const next = nameEnd + extra + comment;
    if (next > end) throw refusedArchive("archive-broken", `has a list that ends within entry ${entries.length + 1}`);
    if (disk !== 0) throw refusedArchive("archive-parts", "is one part of several");
    entries.push(
      judged({
        name: bytes.subarray(at + CENTRAL_LENGTH, nameEnd),
        shown: shown(bytes.toString("utf8", at + CENTRAL_LENGTH, nameEnd)),
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
    throw refusedArchive("archive-disagrees", `says that it holds ${all}, and its list does not`);
  return entries;
}

function judged(entry: Listed): Listed {
  if (entry.flags & ENCRYPTED) throw refusedArchive("archive-encrypted", `has ${entry.shown} encrypted`);
  if ((entry.method !== 0 && entry.method !== 8) || entry.flags & PATCH) {
    throw refusedArchive(
      "archive-method",
      `has ${entry.shown} packed in a way that is not read here (${entry.method})`,
    );
  }
  if (entry.packed === MANY || entry.size === MANY || entry.start === MANY) throw zip64();
  return entry;
}
