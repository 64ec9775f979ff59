import { crc32, deflateRawSync } from "node:zlib";

/** An entry of a zip, valid except for the overridden fields. */
export interface ZipEntry {
  name: string | Buffer;
  data?: string | Buffer;
  /** The mode with its type. Defaults to 0o100644, or to a folder's mode if the name ends with a slash. */
  mode?: number;
  method?: number;
  flags?: number;
  attributes?: number;
  /** The system that created the archive. Defaults to Unix. */
  madeOn?: number;
  extra?: Buffer;
  /** Writes the sums after the data, with or without the signature. */
  descriptor?: "marked" | "plain";
  /** Overrides of the header before the data. */
  local?: Partial<ZipFields>;
  /** Overrides of the central directory. */
  listed?: Partial<ZipFields & { start: number; disk: number }>;
  /** Omits the entry from the central directory. */
  isUnlisted?: boolean;
  /** Omits the entry's data. */
  isOnlyListed?: boolean;
}

interface ZipFields {
  name: string | Buffer;
  flags: number;
  method: number;
  crc: number;
  packed: number;
  size: number;
  extra: Buffer;
}

export interface ZipWhole {
  before?: Buffer;
  /** Bytes between the data and the central directory. */
  between?: Buffer;
  comment?: Buffer;
  behind?: Buffer;
  end?: Partial<{ disk: number; listDisk: number; here: number; all: number; length: number; at: number }>;
}

export function zipOf(entries: readonly ZipEntry[], whole: ZipWhole = {}): Buffer {
  const { before = Buffer.alloc(0), between = Buffer.alloc(0), comment = Buffer.alloc(0) } = whole;
  const parts = [before];
  const list: Buffer[] = [];
  let offset = before.length;
  for (const entry of entries) {
    const { fields, packed } = fieldsOf(entry);
    const later = entry.descriptor ? { crc: 0, packed: 0, size: 0 } : {};
    const local = Buffer.concat([
      localHeader({ ...fields, ...later, ...entry.local }),
      packed,
      entry.descriptor ? descriptor(fields, entry.descriptor) : Buffer.alloc(0),
    ]);
    if (!entry.isUnlisted) list.push(listHeader(entry, fields, offset));
    if (entry.isOnlyListed) continue;
    parts.push(local);
    offset += local.length;
  }
  const listed = Buffer.concat(list);
  const end = { disk: 0, listDisk: 0, here: list.length, all: list.length, ...whole.end };
  return Buffer.concat([
    ...parts,
    between,
    listed,
    Buffer.from("PK\x05\x06", "latin1"),
    ...[end.disk, end.listDisk, end.here & 0xffff, end.all & 0xffff].map(uint16),
    ...[end.length ?? listed.length, end.at ?? offset + between.length].map(uint32),
    uint16(comment.length),
    comment,
    whole.behind ?? Buffer.alloc(0),
  ]);
}

/** Creates nested zips; the innermost contains this file. */
export function nestedZip(depth: number, name: string, data: string): Buffer {
  let zip = zipOf([{ name, data }]);
  for (let level = 1; level < depth; level++) zip = zipOf([{ name: "in.zip", data: zip }]);
  return zip;
}

/** Info-ZIP's second name. */
export function unicodeName(name: string): Buffer {
  const data = Buffer.concat([Buffer.from([1]), uint32(0), Buffer.from(name)]);
  return Buffer.concat([uint16(0x7075), uint16(data.length), data]);
}

function fieldsOf(entry: ZipEntry): { fields: ZipFields; packed: Buffer } {
  const data = Buffer.from(entry.data ?? "");
  const method = entry.method ?? (data.length > 0 ? 8 : 0);
  const packed = method === 8 ? deflateRawSync(data) : data;
  const flags = (entry.flags ?? 1 << 11) | (entry.descriptor ? 1 << 3 : 0);
  const extra = entry.extra ?? Buffer.alloc(0);
  return {
    packed,
    fields: { name: entry.name, flags, method, crc: crc32(data), packed: packed.length, size: data.length, extra },
  };
}

function common({ flags, method, crc, packed, size, name, extra }: ZipFields): Buffer {
  return Buffer.concat([
    ...[20, flags, method, 0, 33].map(uint16),
    ...[crc, packed, size].map(uint32),
    uint16(Buffer.from(name).length),
    uint16(extra.length),
  ]);
}

function localHeader(fields: ZipFields): Buffer {
  return Buffer.concat([
    Buffer.from("PK\x03\x04", "latin1"),
    common(fields),
    Buffer.from(fields.name),
    Buffer.from(fields.extra),
  ]);
}

function listHeader(entry: ZipEntry, fields: ZipFields, offset: number): Buffer {
  const { start = offset, disk = 0, ...changed } = entry.listed ?? {};
  const shown = { ...fields, ...changed };
  const isFolder = Buffer.from(entry.name).at(-1) === 0x2f;
  const mode = entry.mode ?? (isFolder ? 0o40755 : 0o100644);
  return Buffer.concat([
    Buffer.from("PK\x01\x02", "latin1"),
    uint16(((entry.madeOn ?? 3) << 8) | 20),
    common(shown),
    ...[0, disk, 0].map(uint16),
    ...[entry.attributes ?? mode * 0x10000, start].map(uint32),
    Buffer.from(shown.name),
    shown.extra,
  ]);
}

function descriptor({ crc, packed, size }: ZipFields, form: "marked" | "plain"): Buffer {
  const mark = form === "marked" ? [Buffer.from("PK\x07\x08", "latin1")] : [];
  return Buffer.concat([...mark, ...[crc, packed, size].map(uint32)]);
}

/** An entry of a tar, valid except for the overridden fields. */
export interface TarEntry {
  name: string | Buffer;
  data?: string | Buffer;
  mode?: number;
  /** `0` for a file, `5` for a folder. Defaults to the type that the name implies. */
  type?: string;
  target?: string;
  prefix?: string;
  /** The encoding of the size. */
  size?: string | Buffer;
  magic?: string;
  checksum?: number;
}

export function tarOf(entries: readonly TarEntry[], end: Buffer = Buffer.alloc(1024)): Buffer {
  return Buffer.concat([...entries.map(tarEntry), end]);
}

/** The extended header before an entry. */
export function pax(records: readonly (readonly [string, string | Buffer])[], type: "x" | "g" = "x"): TarEntry {
  return { name: "PaxHeaders/x", type, data: Buffer.concat(records.map(paxRecord)) };
}

/** GNU's header with a long name. */
export function longName(name: string, type: "L" | "K" = "L"): TarEntry {
  return { name: "././@LongLink", type, data: `${name}\0` };
}

function paxRecord([key, value]: readonly [string, string | Buffer]): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), Buffer.from(value), Buffer.from("\n")]);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

function tarEntry(entry: TarEntry): Buffer {
  const data = Buffer.from(entry.data ?? "");
  const name = Buffer.from(entry.name);
  const isFolder = name.at(-1) === 0x2f;
  const block = Buffer.alloc(512);
  name.copy(block, 0, 0, 100);
  block.write((entry.mode ?? (isFolder ? 0o755 : 0o644)).toString(8).padStart(7, "0"), 100);
  block.write("0000000", 108);
  block.write("0000000", 116);
  Buffer.from(entry.size ?? data.length.toString(8).padStart(11, "0")).copy(block, 124, 0, 12);
  block.write("00000000000", 136);
  block.write(entry.type ?? (isFolder ? "5" : "0"), 156, "latin1");
  block.write(entry.target ?? "", 157, 100);
  block.write(entry.magic ?? "ustar\x0000", 257, "latin1");
  block.write(entry.prefix ?? "", 345, 155);
  block.fill(" ", 148, 156);
  const sum = entry.checksum ?? block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return Buffer.concat([block, data, Buffer.alloc((512 - (data.length % 512)) % 512)]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}
