import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";

export interface RegularFileOptions {
  /** In bytes; a larger file is refused. Defaults to 64 MiB. */
  limit?: number;
  /** Whether a link in its place is refused. Otherwise a link is followed. */
  refusesLinks?: boolean;
  /** Called before anything is read: what it throws is thrown. */
  check?(stats: Stats): void;
}

const LARGEST = 64 * 1024 * 1024;

/**
 * Reads a whole file of skillet's own. Throws when it is not a regular one, or too large: a pipe or a device in its place would never
 * end, and would hang whatever command reads it.
 */
export function readRegularFile(
  path: string,
  { limit = LARGEST, refusesLinks, check }: RegularFileOptions = {},
): Buffer {
  const { O_RDONLY, O_NONBLOCK = 0, O_NOFOLLOW = 0 } = constants;
  const fd = openSync(path, O_RDONLY | O_NONBLOCK | (refusesLinks ? O_NOFOLLOW : 0));
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error("it is not a regular file");
    if (stats.size > limit) throw tooLarge(limit);
    check?.(stats);
    return readWhole(fd, stats.size, limit);
  } finally {
    closeSync(fd);
  }
}

/** The same as text. */
export function readRegularText(path: string, options?: RegularFileOptions): string {
  return readRegularFile(path, options).toString("utf8");
}

/** It may grow while it is read, but not for ever. */
function readWhole(fd: number, size: number, limit: number): Buffer {
  let bytes = Buffer.allocUnsafe(size + 1);
  for (let length = 0; ; ) {
    const read = readSync(fd, bytes, length, bytes.length - length, length);
    length += read;
    if (length > limit) throw tooLarge(limit);
    if (read === 0) return bytes.subarray(0, length);
    if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.allocUnsafe(length)]);
  }
}

function tooLarge(limit: number): Error {
  return new Error(
    limit < 1024 * 1024 ? `it is larger than ${limit >> 10} KiB` : `it is larger than ${limit >> 20} MiB`,
  );
}
