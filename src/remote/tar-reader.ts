import { decodeEntryName } from "./entry-path.ts";
import {
  createArchiveError,
  createTooManyError,
  quoteSourcePath,
  SOURCE_LIMITS,
  type SourceEntry,
} from "./remote-source.ts";

/**
 * Reads the entries of a tar: standard, with PAX headers, or with GNU's long names. Throws on content that another
 * program could read differently.
 */
export function readTar(bytes: Buffer): Iterable<SourceEntry> {
  const entries: SourceEntry[] = [];
  let more: ExtendedHeaders = {};
  for (let at = 0; ; ) {
    if (at + TAR_BLOCK_SIZE > bytes.length) throw createArchiveError("archive-broken", "is truncated");
    const block = bytes.subarray(at, at + TAR_BLOCK_SIZE);
    if (isZeroBlock(block)) {
      checkTarEnd(bytes.subarray(at), more);
      return entries;
    }
    const header = readTarHeader(block);
    const start = at + TAR_BLOCK_SIZE;
    const data = bytes.subarray(start, start + header.size);
    at = start + Math.ceil(header.size / TAR_BLOCK_SIZE) * TAR_BLOCK_SIZE;
    const add = EXTENDED_HEADER_READERS[header.type];
    if (add) more = add(more, data);
    else {
      entries.push(createTarEntry(header, more, data));
      more = {};
      if (entries.length > SOURCE_LIMITS.entries) throw createTooManyError(entries.length);
    }
  }
}

/** The headers that precede an entry and extend its own. */
interface ExtendedHeaders {
  longName?: string;
  longTarget?: string;
  pax?: ReadonlyMap<string, string>;
}

const MAX_EXTENDED_HEADER_BYTES = 1024 * 1024;

/** Readers by header type: each adds to the next entry. */
const EXTENDED_HEADER_READERS: Readonly<Record<string, (more: ExtendedHeaders, data: Buffer) => ExtendedHeaders>> = {
  L: (more, data) => setOnce(more, "longName", readLongText(data)),
  K: (more, data) => setOnce(more, "longTarget", readLongText(data)),
  x: (more, data) => setOnce(more, "pax", readPaxRecords(checkHeaderSize(data))),
  g: (more, data) => {
    for (const key of readPaxRecords(checkHeaderSize(data)).keys()) {
      if (!IGNORED_GLOBAL_KEYS.test(key))
        throw createArchiveError("archive-ambiguous", `sets ${quoteSourcePath(key)} for all entries at once`);
    }
    return more;
  },
};

/** Keys allowed for all entries at once: none that affects names or content. */
const IGNORED_GLOBAL_KEYS = /^(?:comment|[acm]time|[ug]id|[ug]name|hdrcharset|charset)$/;

function setOnce<Key extends keyof ExtendedHeaders>(
  more: ExtendedHeaders,
  key: Key,
  value: ExtendedHeaders[Key],
): ExtendedHeaders {
  if (more[key] !== undefined)
    throw createArchiveError("archive-ambiguous", "has two headers of the same kind before an entry");
  return { ...more, [key]: value };
}

function readLongText(data: Buffer): string {
  const end = checkHeaderSize(data).indexOf(0);
  return decodeEntryName(end === -1 ? data : data.subarray(0, end));
}

function checkHeaderSize(data: Buffer): Buffer {
  if (data.length > MAX_EXTENDED_HEADER_BYTES)
    throw createArchiveError("archive-broken", `has a header of more than ${MAX_EXTENDED_HEADER_BYTES} bytes`);
  return data;
}

const TAR_ENTRY_KINDS: Readonly<Record<string, SourceEntry["kind"]>> = {
  "0": "file",
  "\0": "file",
  "2": "link",
  "5": "folder",
};
const HARD_LINK = "1";

function createTarEntry(header: TarHeader, { longName, longTarget, pax }: ExtendedHeaders, data: Buffer): SourceEntry {
  const path = chooseLongField("name", pax?.get("path"), longName) ?? header.name;
  const target = chooseLongField("target", pax?.get("linkpath"), longTarget) ?? header.target;
  const size = pax?.get("size");
  if (size !== undefined && size !== String(header.size)) {
    throw createArchiveError(
      "archive-inconsistent",
      `has two sizes for ${quoteSourcePath(path)}: ${header.size}, and ${quoteSourcePath(size)}`,
    );
  }
  const kind = getTarEntryKind(header, path, pax);
  if (header.size > 0 && (kind === "folder" || kind === "link")) {
    throw createArchiveError("archive-inconsistent", `has bytes for ${quoteSourcePath(path)}, which is not a file`);
  }
  const isLink = kind === "link" || header.type === HARD_LINK;
  return { path, kind, mode: header.mode, size: header.size, ...(isLink ? { target } : {}), read: () => data };
}

function chooseLongField(what: string, pax: string | undefined, long: string | undefined): string | undefined {
  if (pax !== undefined && long !== undefined) {
    throw createArchiveError(
      "archive-ambiguous",
      `has two ${what}s for one entry: ${quoteSourcePath(pax)} and ${quoteSourcePath(long)}`,
    );
  }
  return pax ?? long;
}

function getTarEntryKind({ type }: TarHeader, path: string, pax: ExtendedHeaders["pax"]): SourceEntry["kind"] {
  const kind = TAR_ENTRY_KINDS[type] ?? "other";
  // Sparse files are stored in pieces, under other names.
  if (pax && [...pax.keys()].some((key) => key.startsWith("GNU.sparse."))) return "other";
  // Folders were written this way before they had a type.
  return kind === "file" && path.endsWith("/") ? "folder" : kind;
}

const TAR_BLOCK_SIZE = 512;

const ZERO_BLOCK = Buffer.alloc(TAR_BLOCK_SIZE);

function isZeroBlock(block: Buffer): boolean {
  return block.equals(ZERO_BLOCK);
}

// Checks the end: two empty blocks, followed only by padding.
function checkTarEnd(rest: Buffer, more: ExtendedHeaders): void {
  if (Object.keys(more).length > 0)
    throw createArchiveError("archive-broken", "ends before the entry that a header describes");
  if (rest.length < 2 * TAR_BLOCK_SIZE) throw createArchiveError("archive-broken", "is truncated");
  if (!areAllZero(rest)) throw createArchiveError("archive-extra-data", "has data after its end");
}

function areAllZero(bytes: Buffer): boolean {
  return bytes[0] === 0 && bytes.subarray(1).equals(bytes.subarray(0, -1));
}

/** The header block before each entry of a tar. */
interface TarHeader {
  name: string;
  target: string;
  mode: number;
  size: number;
  type: string;
}

/** Contract: `block` is one block. */
function readTarHeader(block: Buffer): TarHeader {
  if (!isChecksumValid(block)) throw createArchiveError("archive-broken", "has a header with a wrong checksum");
  return {
    name: readHeaderName(block),
    target: decodeEntryName(readHeaderText(block, 157, 100)),
    mode: readHeaderNumber(block, 100, 8) & 0o7777,
    size: readHeaderNumber(block, 124, 12),
    type: String.fromCharCode(block[156] ?? 0),
  };
}

/** Returns true if the bytes start like a tar: a valid checksum is no coincidence. */
export function isTar(bytes: Buffer): boolean {
  return bytes.length >= TAR_BLOCK_SIZE && isChecksumValid(bytes.subarray(0, TAR_BLOCK_SIZE));
}

const CHECKSUM_OFFSET = 148;
const CHECKSUM_LENGTH = 8;
const SPACE = 0x20;

function isChecksumValid(block: Buffer): boolean {
  const [, octal] =
    /^ *([0-7]{1,7})[\0 ]/.exec(block.toString("latin1", CHECKSUM_OFFSET, CHECKSUM_OFFSET + CHECKSUM_LENGTH)) ?? [];
  if (octal === undefined) return false;
  let sum = CHECKSUM_LENGTH * SPACE;
  for (let at = 0; at < TAR_BLOCK_SIZE; at++) sum += block[at] ?? 0;
  for (let at = CHECKSUM_OFFSET; at < CHECKSUM_OFFSET + CHECKSUM_LENGTH; at++) sum -= block[at] ?? 0;
  return sum === Number.parseInt(octal, 8);
}

// Only standard headers have a name prefix; in GNU's, these bytes are times.
function readHeaderName(block: Buffer): string {
  const name = decodeEntryName(readHeaderText(block, 0, 100));
  const prefix =
    block.toString("latin1", 257, 263) === "ustar\0" ? decodeEntryName(readHeaderText(block, 345, 155)) : "";
  return prefix === "" ? name : `${prefix}/${name}`;
}

function readHeaderText(block: Buffer, at: number, length: number): Buffer {
  const field = block.subarray(at, at + length);
  const end = field.indexOf(0);
  return end === -1 ? field : field.subarray(0, end);
}

/** Reads octal digits, or a large binary number, marked by the first bit. */
function readHeaderNumber(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length);
  if (field[0] === 0x80) return field.subarray(1).reduce((number, byte) => number * 256 + byte, 0);
  const [, octal] = /^ *([0-7]*)(?:[\0 ]|$)/.exec(field.toString("latin1")) ?? [];
  if (octal === undefined) throw createArchiveError("archive-broken", "has a header with an invalid number");
  return octal === "" ? 0 : Number.parseInt(octal, 8);
}

/** Reads the records of a PAX header: `LENGTH KEY=VALUE` and a line break. Unused values are omitted. */
function readPaxRecords(data: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < data.length; ) {
    const { key, value, next } = readPaxRecord(data, at);
    if (records.has(key))
      throw createArchiveError("archive-ambiguous", `sets ${quoteSourcePath(key)} twice in one header`);
    records.set(key, PAX_KEYS.has(key) ? decodeEntryName(value) : "");
    at = next;
  }
  return records;
}

/** Other keys describe the machine that packed the archive, such as owners and times. */
const PAX_KEYS: ReadonlySet<string> = new Set(["path", "linkpath", "size"]);
const NEWLINE = 0x0a;

function readPaxRecord(data: Buffer, at: number): { key: string; value: Buffer; next: number } {
  const [start, digits] = /^([1-9]\d{0,6}) /.exec(data.toString("latin1", at, at + 8)) ?? [];
  const next = at + Number(digits);
  const equals = data.indexOf("=", at);
  if (start === undefined || equals === -1 || equals >= next || data[next - 1] !== NEWLINE) {
    throw createArchiveError("archive-broken", "has a PAX header that cannot be read");
  }
  return {
    key: decodeEntryName(data.subarray(at + start.length, equals)),
    value: data.subarray(equals + 1, next - 1),
    next,
  };
}
