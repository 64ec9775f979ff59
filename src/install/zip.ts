import { crc32, deflateRawSync } from "node:zlib";
import { byText } from "../shared/text.ts";
import type { CopiedFile } from "../source/digest.ts";

/**
 * An archive of these files, by their paths. The same files give the same bytes, whenever and wherever: their order and times are
 * fixed. Contract: fewer than 65,535 files and 4 GiB.
 */
export function zip(files: ReadonlyMap<string, CopiedFile>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [path, file] of [...files].sort(([a], [b]) => byText(a, b))) {
    const name = Buffer.from(path);
    const { head, data, mode } = packed(file, name.length);
    parts.push(uint32(LOCAL), head, name, data);
    directory.push(uint32(CENTRAL), uint16(MADE_BY_UNIX), head, placed(mode, offset), name);
    offset += 4 + head.length + name.length + data.length;
  }
  const listed = Buffer.concat(directory);
  return Buffer.concat([...parts, listed, ending(files.size, listed.length, offset)]);
}

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const VERSION = 20;
/** Only what was made on Unix has its modes read. */
const MADE_BY_UNIX = (3 << 8) | VERSION;
const UTF8 = 1 << 11;
const STORED = 0;
const DEFLATED = 8;
/** The first day that the format can name: 1 January 1980. */
const DAY = (1 << 5) | 1;
const REGULAR = 0o100000;

/** What stands both before a file's bytes and in the list at the end. */
function packed({ bytes, executable }: CopiedFile, nameLength: number): { head: Buffer; data: Buffer; mode: number } {
  const deflated = deflateRawSync(bytes, { level: 9 });
  const isSmaller = deflated.length < bytes.length;
  const data = isSmaller ? deflated : Buffer.from(bytes);
  const head = Buffer.concat([
    ...[VERSION, UTF8, isSmaller ? DEFLATED : STORED, 0, DAY].map(uint16),
    ...[crc32(bytes), data.length, bytes.length].map(uint32),
    ...[nameLength, 0].map(uint16),
  ]);
  return { head, data, mode: REGULAR | (executable ? 0o755 : 0o644) };
}

/** What stands in the list alone: no comment, the first disk, no hints, the mode, and where the file begins. */
function placed(mode: number, offset: number): Buffer {
  return Buffer.concat([...[0, 0, 0].map(uint16), ...[mode * 0x10000, offset].map(uint32)]);
}

function ending(files: number, length: number, offset: number): Buffer {
  return Buffer.concat([uint32(END), ...[0, 0, files, files].map(uint16), ...[length, offset].map(uint32), uint16(0)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
