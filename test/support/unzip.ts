import { crc32, inflateRawSync } from "node:zlib";

export interface Unzipped {
  bytes: Buffer;
  /** The Unix mode, with its type. */
  mode: number;
}

/** Reads an archive by its central directory, and checks every sum. */
export function unzip(archive: Buffer): Map<string, Unzipped> {
  const end = archive.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  const files = new Map<string, Unzipped>();
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const [packed, size] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 24)];
    const [name, extra, comment] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    const path = archive.toString("utf8", at + 46, at + 46 + name);
    const start = archive.readUInt32LE(at + 42);
    const data = start + 30 + archive.readUInt16LE(start + 26) + archive.readUInt16LE(start + 28);
    const raw = archive.subarray(data, data + packed);
    const bytes = archive.readUInt16LE(at + 10) === 8 ? inflateRawSync(raw) : Buffer.from(raw);
    if (crc32(bytes) !== archive.readUInt32LE(at + 16) || bytes.length !== size) throw new Error(`${path} is damaged`);
    if (archive.toString("utf8", start + 30, start + 30 + name) !== path) throw new Error(`${path} has two names`);
    files.set(path, { bytes, mode: archive.readUInt32LE(at + 38) >>> 16 });
    at += 46 + name + extra + comment;
  }
  return files;
}
